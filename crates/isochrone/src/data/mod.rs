//! Files → [`Dataset`] → batches.
//!
//! A dataset is rows of states in recorded order, cut into trajectories. The last row of a
//! trajectory may be a goal but never a start: its action has no successor.

mod archive;
pub mod arrays;
mod d4rl;
mod door;
mod features;
mod hdf5;
mod inspect;
#[cfg(feature = "parquet")]
mod lerobot;
mod minari;
mod normalization;
mod npy;
pub mod npz;
pub mod sampler;

pub use door::{Choices, Format, Opened, Rows, open};
pub use features::Features;
pub use inspect::{Column, Inspection, Jumps, Lengths, SUSPICIOUS};
pub use normalization::{Normalization, Scaling};

use crate::error::{Error, Result};
use crate::random::{Purpose, Stream};

const SPLIT_PURPOSE: Purpose = Purpose(8);

/// Most actions to choose from: each is a column.
const MOST_CHOICES: usize = 1024;

/// Recorded trajectories: rows of states, optionally with the actions taken in them.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    state_size: usize,
    action_size: usize,
    states: Vec<f32>,
    actions: Vec<f32>,
    one_hot: bool,
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
        Self::named("states", states, state_size, actions, lengths)
    }

    /// As [`Dataset::new`], with states that a file calls `key`.
    fn named(
        key: &str,
        states: Vec<f32>,
        state_size: usize,
        actions: Option<(Vec<f32>, usize)>,
        lengths: &[usize],
    ) -> Result<Self> {
        let rows = lengths.iter().sum::<usize>();
        let (actions, action_size) = actions.unwrap_or_default();
        check_shape(key, states.len(), rows, state_size)?;
        check_shape("actions", actions.len(), rows, action_size)?;
        for (key, values, size) in [(key, &states, state_size), ("actions", &actions, action_size)]
        {
            check_values(key, values, size, |value| value.is_finite(), "a finite number")
                .map_err(|error| error.hint("drop the row, or the trajectory it belongs to"))?;
        }
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
        let one_hot = false;
        Ok(Self { state_size, action_size, states, actions, one_hot, last_rows, first_rows })
    }

    /// As [`Dataset::new`], each action one of `count`: it becomes a row of 0 with a 1 at its place.
    ///
    /// # Errors
    /// As [`Dataset::new`]; no action or too many to choose from, or a number that names none.
    pub fn with_choices(
        states: Vec<f32>,
        state_size: usize,
        (choices, count): (&[u32], usize),
        lengths: &[usize],
    ) -> Result<Self> {
        if count == 0 || count > MOST_CHOICES {
            return Err(Error::input(format!(
                "`actions` chooses among {count}, expected 1 to {MOST_CHOICES}"
            ))
            .hint("number the actions from 0 without gaps"));
        }
        if let Some(row) = choices.iter().position(|&choice| choice as usize >= count) {
            let found = choices[row];
            return Err(Error::input(format!(
                "`actions` row {row} is `{found}`, expected 0 to {}",
                count - 1
            )));
        }
        let mut actions = vec![0.0; choices.len() * count];
        for (row, &choice) in choices.iter().enumerate() {
            actions[row * count + choice as usize] = 1.0;
        }
        let dataset = Self::new(states, state_size, Some((actions, count)), lengths)?;
        Ok(Self { one_hot: true, ..dataset })
    }

    /// The same data, whose actions are declared to be one-hot.
    ///
    /// # Errors
    /// Names the first row that is not one 1 among 0.
    pub fn declared_one_hot(self) -> Result<Self> {
        if self.action_size == 0 {
            return Err(Error::input("one-hot actions are declared, the data have none")
                .hint("leave `data.actions` out"));
        }
        let sound = |row: &[f32]| {
            row.iter().all(|&x| x == 0.0 || x == 1.0) && row.iter().sum::<f32>() == 1.0
        };
        match self.actions.chunks_exact(self.action_size).position(|row| !sound(row)) {
            None => Ok(Self { one_hot: true, ..self }),
            Some(row) => Err(Error::input(format!(
                "`actions` row {row} is `{:?}`, expected one 1 and else 0",
                self.action(row)
            ))
            .hint(
                "the last row of a trajectory needs an action too; leave `data.actions` out for \
                   continuous actions",
            )),
        }
    }

    /// How many actions there are to choose from, where they are discrete and stand as one-hot rows.
    pub fn choices(&self) -> Option<usize> {
        self.one_hot.then_some(self.action_size)
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

    /// The row whose first numbers are nearest to `part`, by the root of the sum of squares; the first
    /// of several.
    pub fn nearest(&self, part: &[f32]) -> usize {
        let gap = |row: usize| -> f32 {
            part.iter().zip(self.state(row)).map(|(a, b)| (a - b) * (a - b)).sum()
        };
        let (mut nearest, mut least) = (0, f32::INFINITY);
        for row in 0..self.rows() {
            if gap(row) < least {
                (nearest, least) = (row, gap(row));
            }
        }
        nearest
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

    /// Splits by trajectory: whole trajectories, a share of about `validation` of them, are held out.
    ///
    /// # Errors
    /// A share above zero needs at least two trajectories with two rows on either side.
    pub fn split(&self, validation: f64, seed: u64) -> Result<(Self, Option<Self>)> {
        if validation == 0.0 {
            return Ok((self.clone(), None));
        }
        let stream = Stream::new(seed, SPLIT_PURPOSE);
        let mut order: Vec<(u32, usize)> = (0..self.trajectories())
            .filter(|&index| self.trajectory(index).len() > 1)
            .map(|index| (stream.block(0, index as u32)[0], index))
            .collect();
        if order.len() < 2 {
            return Err(Error::input(format!(
                "{} trajectory with two rows or more, a validation split needs two",
                order.len()
            ))
            .hint("set `data.validation = 0` to train on all of it"));
        }
        order.sort_unstable();
        let held = ((order.len() as f64 * validation).round() as usize).clamp(1, order.len() - 1);
        let mut sides = [order.split_off(held), order].map(|side| {
            let mut side: Vec<usize> = side.into_iter().map(|(_, index)| index).collect();
            side.sort_unstable();
            self.select(&side)
        });
        let validation = sides[1].take();
        sides[0]
            .take()
            .map(|training| (training, validation))
            .ok_or_else(|| Error::input("the training side of the split is empty"))
    }

    /// The dataset of the trajectories `chosen`; none where it would be empty.
    fn select(&self, chosen: &[usize]) -> Option<Self> {
        let rows = || chosen.iter().flat_map(|&index| self.trajectory(index));
        let states = rows().flat_map(|row| self.state(row).iter().copied()).collect();
        let actions = rows().flat_map(|row| self.action(row).iter().copied()).collect();
        let lengths: Vec<usize> =
            chosen.iter().map(|&index| self.trajectory(index).len()).collect();
        Self::new(states, self.state_size, Some((actions, self.action_size)), &lengths)
            .ok()
            .map(|side| Self { one_hot: self.one_hot, ..side })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_keeps_trajectories_whole_and_loses_none() {
        let states: Vec<f32> = (0..30).map(|x| x as f32).collect();
        let dataset = Dataset::new(states, 1, None, &[5, 5, 1, 9, 10]).unwrap();
        let (training, validation) = dataset.split(0.25, 1).unwrap();
        let validation = validation.unwrap();
        assert_eq!(training.rows() + validation.rows(), 29, "the one-row trajectory is dropped");
        assert_eq!(training.trajectories() + validation.trajectories(), 4);
        for side in [&training, &validation] {
            for index in 0..side.trajectories() {
                let rows = side.trajectory(index);
                let first = side.state(rows.start)[0];
                assert!(
                    rows.clone().all(|row| side.state(row)[0] - first == (row - rows.start) as f32)
                );
            }
        }
        let one = Dataset::new(vec![0.0; 4], 1, None, &[4]).unwrap();
        assert!(one.split(0.1, 1).unwrap_err().to_string().contains("data.validation"));
    }

    #[test]
    fn discrete_actions_become_one_hot_and_stay_discrete_in_a_split() {
        let states = vec![0.0; 8];
        let dataset = Dataset::with_choices(states, 1, (&[0, 2, 1, 0, 2, 2, 1, 0], 3), &[4, 4]);
        let dataset = dataset.unwrap();
        assert_eq!(dataset.choices(), Some(3));
        assert_eq!(dataset.action(1), [0.0, 0.0, 1.0]);
        let (training, validation) = dataset.split(0.5, 1).unwrap();
        assert_eq!((training.choices(), validation.unwrap().choices()), (Some(3), Some(3)));
        let wrong = Dataset::with_choices(vec![0.0; 2], 1, (&[0, 3], 3), &[2]).unwrap_err();
        assert!(wrong.to_string().contains("row 1 is `3`, expected 0 to 2"), "{wrong}");
        let declared = |actions: Vec<f32>| {
            Dataset::new(vec![0.0; 2], 1, Some((actions, 2)), &[2]).unwrap().declared_one_hot()
        };
        assert_eq!(declared(vec![0.0, 1.0, 1.0, 0.0]).unwrap().choices(), Some(2));
        let wrong = declared(vec![0.0, 1.0, 0.5, 0.5]).unwrap_err().to_string();
        assert!(wrong.contains("`actions` row 1"), "{wrong}");
    }

    #[test]
    fn bad_rows_are_named() {
        let message = |states: Vec<f32>, actions: Vec<f32>, lengths: &[usize]| {
            Dataset::new(states, 2, Some((actions, 1)), lengths).unwrap_err().to_string()
        };
        let nan = message(vec![0., 0., 0., f32::NAN], vec![0.0; 2], &[2]);
        assert!(nan.contains("`states` row 1 column 1 is `NaN`"), "{nan}");
        let large = message(vec![0.0; 4], vec![0.0, 2.0], &[2]);
        assert!(large.contains("`actions` row 1") && large.contains("[-1, 1]"), "{large}");
        assert!(message(vec![0.0; 4], vec![0.0; 2], &[1, 1]).contains("two rows"));
        assert!(message(vec![0.0; 3], vec![0.0; 2], &[2]).contains("expected 2 rows of 2"));
    }
}
