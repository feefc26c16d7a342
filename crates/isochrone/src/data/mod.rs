//! Files → [`Dataset`] → batches.
//!
//! A dataset is rows of states in recorded order, cut into trajectories. The last row of a
//! trajectory may be a goal but never a start: its action has no successor.

mod archive;
mod npy;
pub mod npz;

use crate::error::{Error, Result};

/// Recorded trajectories: rows of states, optionally with the actions taken in them.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    state_size: usize,
    action_size: usize,
    states: Vec<f32>,
    actions: Vec<f32>,
    last_rows: Vec<u32>,
    first_rows: Vec<u32>,
}

impl Dataset {
    /// Builds a dataset from flat rows; `lengths` are the rows of each trajectory, in order.
    ///
    /// # Shapes
    /// `states` is rows × `state_size`; `actions`, where given, rows × its size.
    ///
    /// # Errors
    /// Names the first row or trajectory that is not usable: wrong lengths, numbers that are not
    /// finite, actions outside [−1, 1], no trajectory with two rows.
    pub fn new(
        states: Vec<f32>,
        state_size: usize,
        actions: Option<(Vec<f32>, usize)>,
        lengths: &[usize],
    ) -> Result<Self> {
        let rows = lengths.iter().sum::<usize>();
        let (actions, action_size) = actions.unwrap_or_default();
        check_shape("states", states.len(), rows, state_size)?;
        check_shape("actions", actions.len(), rows, action_size)?;
        check_values("states", &states, state_size, |value| value.is_finite(), "a finite number")?;
        check_values("actions", &actions, action_size, |v| v.is_finite(), "a finite number")?;
        check_values("actions", &actions, action_size, |v| v.abs() <= 1.0, "within [-1, 1]")
            .map_err(|error| error.hint("scale the actions to [-1, 1]"))?;
        if u32::try_from(rows).is_err() {
            return Err(Error::input(format!("{rows} rows, at most {} can be held", u32::MAX)));
        }
        if lengths.iter().all(|&length| length < 2) {
            return Err(Error::input(format!(
                "no trajectory has two rows ({} trajectories, {rows} rows)",
                lengths.len()
            ))
            .hint("`terminals` must be true only on the last row of a trajectory"));
        }
        let mut last_rows = Vec::with_capacity(rows);
        let mut first_rows = Vec::with_capacity(lengths.len());
        let mut first = 0;
        for &length in lengths.iter().filter(|&&length| length > 0) {
            first_rows.push(first as u32);
            last_rows.extend(std::iter::repeat_n((first + length - 1) as u32, length));
            first += length;
        }
        Ok(Self { state_size, action_size, states, actions, last_rows, first_rows })
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.last_rows.len()
    }

    /// How many trajectories.
    pub fn trajectories(&self) -> usize {
        self.first_rows.len()
    }

    /// Numbers in a state.
    pub fn state_size(&self) -> usize {
        self.state_size
    }

    /// Numbers in an action; 0 without actions.
    pub fn action_size(&self) -> usize {
        self.action_size
    }

    /// All states, row after row.
    pub fn states(&self) -> &[f32] {
        &self.states
    }

    /// All actions, row after row; empty without actions.
    pub fn actions(&self) -> &[f32] {
        &self.actions
    }

    /// One state.
    pub fn state(&self, row: usize) -> &[f32] {
        &self.states[row * self.state_size..][..self.state_size]
    }

    /// One action; empty without actions.
    pub fn action(&self, row: usize) -> &[f32] {
        &self.actions[row * self.action_size..][..self.action_size]
    }

    /// The last row of the trajectory that `row` belongs to.
    pub fn last_row(&self, row: usize) -> usize {
        self.last_rows[row] as usize
    }

    /// The rows of trajectory `index`.
    pub fn trajectory(&self, index: usize) -> std::ops::Range<usize> {
        let first = self.first_rows[index] as usize;
        first..self.last_row(first) + 1
    }

    /// The trajectory that `row` belongs to.
    pub fn trajectory_of(&self, row: usize) -> usize {
        self.first_rows.partition_point(|&first| first as usize <= row) - 1
    }
}

fn check_shape(key: &str, found: usize, rows: usize, size: usize) -> Result<()> {
    if found == rows * size {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` has {found} numbers, expected {rows} rows of {size}")))
}

fn check_values(
    key: &str,
    values: &[f32],
    size: usize,
    allowed: impl Fn(f32) -> bool,
    expected: &str,
) -> Result<()> {
    match values.iter().position(|&value| !allowed(value)) {
        None => Ok(()),
        Some(at) => Err(Error::input(format!(
            "`{key}` row {} column {} is `{}`, expected {expected}",
            at / size,
            at % size,
            values[at]
        ))),
    }
}
