//! The columns of a batch and the rows they are filled from, as an algorithm declares them.

use super::{GoalMix, Offsets, Waypoints};

/// Which row of the dataset is drawn for each place of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rows {
    /// Uniform over rows that have a successor.
    Start,
    /// The row after the start.
    Next,
    /// A row in the start's future.
    Future(Offsets),
    /// A policy's goal: in the future, in the same trajectory or anywhere.
    Mixed(GoalMix, Offsets),
    /// Uniform over all rows.
    Random,
    /// A row between the start and a goal that was declared before, drawn by [`Waypoints`].
    Waypoint(Waypoints, RowsId),
    /// Uniform over the goals of a teacher's lessons.
    Taught,
    /// This many rows after the start, but neither past the end of its trajectory nor past the goal,
    /// if one is given and lies ahead in the same trajectory.
    Ahead(u32, Option<RowsId>),
}

/// A choice of rows within a [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsId(pub(super) usize);

impl RowsId {
    #[cfg(feature = "cuda")]
    /// Its index among the declared choices.
    pub(crate) fn place(self) -> usize {
        self.0
    }
}

/// One input of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Column {
    /// The states of these rows, normalized.
    State(RowsId),
    /// The same after normal noise of this deviation was added to every coordinate as recorded.
    Noisy(RowsId, f32),
    /// What policies see of these rows as goals, with this many values per row.
    Goal(RowsId, usize),
    /// The actions of these rows.
    Action(RowsId),
    /// The actions of these rows, permuted anew in every batch; copies are permuted independently.
    PermutedAction(RowsId, u8),
    /// The actions of these rows, rotated by one place in the batch.
    RolledAction(RowsId),
    /// Independent standard normals, this many per row.
    Noise(usize),
    /// How many rows after the start these rows are, in the same trajectory.
    Gap(RowsId),
    /// A teacher's distance from the first rows to the second, which are [`Rows::Taught`]: nats, or a
    /// negative number if there is no way, whose absolute value bounds the distance from below.
    Lesson(RowsId, RowsId),
    /// 1 if the first row is the second or within the radius of it, else 0.
    Reached(RowsId, RowsId, Option<f32>),
}

impl Column {
    /// The rows whose states it is filled from, and those whose actions.
    pub(super) fn sources(&self) -> (Vec<RowsId>, Option<RowsId>) {
        match *self {
            Self::State(rows) | Self::Noisy(rows, _) | Self::Goal(rows, _) => (vec![rows], None),
            Self::Action(rows) | Self::PermutedAction(rows, _) | Self::RolledAction(rows) => {
                (Vec::new(), Some(rows))
            }
            Self::Reached(from, goal, Some(_)) => (vec![from, goal], None),
            Self::Reached(_, _, None) | Self::Noise(_) | Self::Gap(_) | Self::Lesson(..) => {
                (Vec::new(), None)
            }
        }
    }
}

/// The columns of a batch, as an algorithm declares them.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    pub(super) rows: Vec<Rows>,
    pub(super) columns: Vec<Column>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { rows: vec![Rows::Start], columns: Vec::new() }
    }
}

impl Layout {
    /// The starts of the batch.
    pub const START: RowsId = RowsId(0);

    /// Declares a choice of rows; the same choice declared twice is drawn once.
    pub fn rows(&mut self, rows: Rows) -> RowsId {
        let known = self.rows.iter().position(|&declared| declared == rows);
        RowsId(known.unwrap_or_else(|| {
            self.rows.push(rows);
            self.rows.len() - 1
        }))
    }

    /// Declares a column and returns its index; the same column declared twice is filled once.
    pub fn column(&mut self, column: Column) -> usize {
        let known = match column {
            Column::Noise(_) => None,
            _ => self.columns.iter().position(|&declared| declared == column),
        };
        known.unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        })
    }

    /// The declared choice of rows.
    pub fn choice(&self, rows: RowsId) -> Rows {
        self.rows[rows.0]
    }

    /// The declared columns, in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Values per row of `column`.
    pub fn width(&self, column: usize, state_size: usize, action_size: usize) -> usize {
        match self.columns[column] {
            Column::State(_) | Column::Noisy(..) => state_size,
            Column::Action(_) | Column::PermutedAction(..) | Column::RolledAction(_) => action_size,
            Column::Noise(width) | Column::Goal(_, width) => width,
            Column::Gap(_) | Column::Reached(..) | Column::Lesson(..) => 1,
        }
    }
}
