//! The columns of a batch and the rows that stand in them, as an algorithm declares them.

use super::{GoalMix, Offsets, Waypoints};

/// Which row of the dataset stands at each place of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rows {
    /// Uniform over rows that have a successor.
    Start,
    /// The row after the start.
    Next,
    /// A row in the start's future.
    Future(Offsets),
    /// A policy's goal: future, same trajectory or anywhere.
    Mixed(GoalMix, Offsets),
    /// Uniform over all rows.
    Random,
    /// A row between the start and a goal declared before, as [`Waypoints`] says.
    Waypoint(Waypoints, RowsId),
    /// Uniform over the rows that a teacher's lessons have as goals.
    Taught,
    /// So many rows after the start, not past its trajectory's end, nor past a goal that is given
    /// and lies ahead in the same trajectory.
    Ahead(u32, Option<RowsId>),
}

/// A choice of rows within a [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsId(pub(super) usize);

impl RowsId {
    #[cfg(feature = "cuda")]
    /// Its place among the declared choices.
    pub(crate) fn place(self) -> usize {
        self.0
    }
}

/// One input of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Column {
    /// The states of these rows, normalized.
    State(RowsId),
    /// What policies see of these rows as goals, so many numbers a row.
    Goal(RowsId, usize),
    /// The actions of these rows.
    Action(RowsId),
    /// The actions of these rows in an order drawn anew for every batch; copies are independent.
    PermutedAction(RowsId, u8),
    /// The actions of these rows, moved one place round the batch.
    RolledAction(RowsId),
    /// Independent standard normals, so many a row.
    Noise(usize),
    /// How many rows after the start these rows stand, in the same trajectory.
    Gap(RowsId),
    /// What a teacher says of the way from the first rows to the second, which are [`Rows::Taught`]:
    /// nats, or below 0 where no way leads and the pair is at least so far apart.
    Lesson(RowsId, RowsId),
    /// 1 where the first rows are the second, or lie within the radius of them; else 0.
    Reached(RowsId, RowsId, Option<f32>),
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

    /// Declares a column and gives its place; the same column declared twice is filled once.
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

    /// Numbers a row of `column`.
    pub fn width(&self, column: usize, state_size: usize, action_size: usize) -> usize {
        match self.columns[column] {
            Column::State(_) => state_size,
            Column::Action(_) | Column::PermutedAction(..) | Column::RolledAction(_) => action_size,
            Column::Noise(width) | Column::Goal(_, width) => width,
            Column::Gap(_) | Column::Reached(..) | Column::Lesson(..) => 1,
        }
    }
}
