//! Distances that a teacher solved, as a sampler reads them: by the landmarks of two rows.

use std::sync::Arc;

/// Marks a landmark that was not solved as a goal.
const UNSOLVED: u32 = u32::MAX;

/// The landmark of every row, and the distances between landmarks and solved goals.
#[derive(Debug, Clone)]
pub struct Lessons {
    /// The landmark of each row.
    owners: Vec<u32>,
    /// The rows at landmarks that were solved as goals.
    goals: Vec<u32>,
    /// For each landmark the column of its distances, or [`UNSOLVED`].
    columns: Arc<Vec<u32>>,
    /// Nats, column after column, from every landmark; below 0 where no way leads: the pair is at
    /// least so far apart.
    nats: Arc<Vec<f32>>,
}

impl Lessons {
    /// The lessons for rows at the landmarks `owners`.
    pub fn new(owners: Vec<u32>, columns: Arc<Vec<u32>>, nats: Arc<Vec<f32>>) -> Self {
        let solved = |row: &u32| columns[owners[*row as usize] as usize] != UNSOLVED;
        let goals = (0..owners.len() as u32).filter(solved).collect();
        Self { owners, goals, columns, nats }
    }

    /// The rows that can be asked for as goals.
    pub fn goals(&self) -> &[u32] {
        &self.goals
    }

    #[cfg(feature = "cuda")]
    /// The landmark of each row, the column of each landmark, and the columns one after the other.
    pub(crate) fn tables(&self) -> (&[u32], &[u32], &[f32]) {
        (&self.owners, &self.columns, &self.nats)
    }

    /// The nats from row `from` to row `goal`, one of [`Lessons::goals`].
    pub fn nats(&self, from: u32, goal: u32) -> f32 {
        let column = self.columns[self.owners[goal as usize] as usize] as usize;
        self.nats[column * self.columns.len() + self.owners[from as usize] as usize]
    }
}
