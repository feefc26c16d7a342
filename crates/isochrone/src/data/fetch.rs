//! Rows of a dataset, wherever they are: one, some of them, or all in order.

use std::borrow::Cow;
use std::ops::Range;

use super::dataset::Dataset;
use super::division::Division;
use super::store::{RowsOnDisk, Store, StoredArray};
use crate::error::Result;

impl Dataset {
    /// One state, from memory or from the file.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn read_state(&self, row: usize) -> Result<Cow<'_, [f32]>> {
        match &self.store {
            Store::Memory(_) => Ok(Cow::Borrowed(self.state(row))),
            Store::Disk(disk) => self.disk_row(disk, StoredArray::States, row),
        }
    }

    /// One action, from memory or from the file; empty without actions.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn read_action(&self, row: usize) -> Result<Cow<'_, [f32]>> {
        match &self.store {
            Store::Memory(_) => Ok(Cow::Borrowed(self.action(row))),
            Store::Disk(disk) => self.disk_row(disk, StoredArray::Actions, row),
        }
    }

    fn disk_row(
        &self,
        disk: &RowsOnDisk,
        column: StoredArray,
        row: usize,
    ) -> Result<Cow<'_, [f32]>> {
        let trajectory = self.trajectory_of(row);
        let ahead = row - self.first_rows[trajectory] as usize;
        disk.row(column, trajectory - self.own_trajectories().start, ahead).map(Cow::Owned)
    }

    /// Passes all states in order to `take`, several whole rows at a time.
    ///
    /// # Errors
    /// Those of `take`; the file can no longer be read.
    pub fn each_states(&self, mut take: impl FnMut(&[f32]) -> Result<()>) -> Result<()> {
        self.each(StoredArray::States, &mut take)
    }

    /// Passes all actions in order to `take`, several whole rows at a time; nothing without actions.
    ///
    /// # Errors
    /// As [`each_states`](Self::each_states).
    pub fn each_actions(&self, mut take: impl FnMut(&[f32]) -> Result<()>) -> Result<()> {
        self.each(StoredArray::Actions, &mut take)
    }

    fn each(&self, column: StoredArray, take: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        match &self.division {
            None => self.each_held(column, take),
            Some(division) => {
                division.each(self.size(column), |give| self.each_held(column, give), take)
            }
        }
    }

    /// Passes the rows that this process holds to `take`.
    fn each_held(
        &self,
        column: StoredArray,
        take: &mut dyn FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        match (&self.store, column) {
            (Store::Memory(numbers), StoredArray::States) => take(&numbers.states),
            (Store::Memory(numbers), StoredArray::Actions) => take(&numbers.actions),
            (Store::Disk(disk), _) => {
                let lengths = self.own_trajectories().map(|index| self.trajectory(index).len());
                disk.each(column, lengths, take)
            }
        }
    }

    /// Values per row of an array.
    fn size(&self, column: StoredArray) -> usize {
        match column {
            StoredArray::States => self.state_size,
            StoredArray::Actions => self.action_size,
        }
    }

    /// The trajectories whose rows this process holds.
    pub(super) fn own_trajectories(&self) -> Range<usize> {
        let Some(division) = &self.division else { return 0..self.trajectories() };
        let before = |row: usize| self.first_rows.partition_point(|&first| (first as usize) < row);
        before(division.own().start)..before(division.own().end)
    }

    /// Whether the processes of a run divide the rows: each holds some. [`each_states`](Self::each_states),
    /// [`gather_states`](Self::gather_states) and their counterparts for actions then exchange rows,
    /// and every process must call them alike; single rows are at hand only where they are held.
    pub fn is_divided(&self) -> bool {
        self.division.is_some()
    }

    /// The states of these rows, one after the other.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn gather_states(&self, rows: &[u32]) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        self.gather(StoredArray::States, rows, &mut out, &mut Vec::new())?;
        Ok(out)
    }

    /// The actions of these rows, one after the other; empty without actions.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn gather_actions(&self, rows: &[u32]) -> Result<Vec<f32>> {
        let mut out = Vec::new();
        self.gather(StoredArray::Actions, rows, &mut out, &mut Vec::new())?;
        Ok(out)
    }

    /// Fills `out` with these rows of an array; `room` is reused.
    pub(super) fn gather(
        &self,
        column: StoredArray,
        rows: &[u32],
        out: &mut Vec<f32>,
        room: &mut Vec<f32>,
    ) -> Result<()> {
        out.clear();
        for &row in rows {
            if self.division.as_ref().is_some_and(|own| !own.own().contains(&(row as usize))) {
                out.resize(out.len() + self.size(column), Division::ABSENT);
                continue;
            }
            out.extend_from_slice(&match column {
                StoredArray::States => self.read_state(row as usize)?,
                StoredArray::Actions => self.read_action(row as usize)?,
            });
        }
        if let Some(division) = &self.division {
            division.join(out, room);
        }
        Ok(())
    }
}
