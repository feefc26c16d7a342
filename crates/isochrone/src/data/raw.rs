//! [`RawRows`]: trajectories as a file holds them, before anybody has looked at their values.

use std::path::PathBuf;

use super::dataset::{Dataset, check_located};
use super::origins::Origins;
use crate::error::{Error, Result};

/// Trajectories as a file holds them: the shapes agree, the values are not checked yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RawRows {
    /// Rows × `state_size`.
    pub states: Vec<f32>,
    /// Values per state.
    pub state_size: usize,
    /// What the file calls its states.
    pub states_key: String,
    /// Rows × `action_size`; empty without actions.
    pub actions: Vec<f32>,
    /// Values per action; 0 without actions.
    pub action_size: usize,
    /// Whether an action is one integer, from 0, that says which of several was taken.
    pub discrete: bool,
    /// Rows of each trajectory, in order.
    pub lengths: Vec<usize>,
    /// The files of a dataset in several files, each with its number of rows; else empty.
    pub files: Vec<(PathBuf, usize)>,
    /// Where the trajectories stand in their files.
    pub(super) origins: Origins,
}

impl RawRows {
    /// The number of rows.
    pub fn count(&self) -> usize {
        self.states.len() / self.state_size.max(1)
    }

    /// The rows of data in memory.
    pub(super) fn of(dataset: &Dataset) -> Self {
        let (mut actions, mut action_size) = (dataset.actions().to_vec(), dataset.action_size());
        let discrete = dataset.choices().is_some();
        if discrete {
            let taken = |row: &[f32]| row.iter().position(|&x| x == 1.0).unwrap_or_default() as f32;
            actions = actions.chunks_exact(action_size).map(taken).collect();
            action_size = 1;
        }
        Self {
            states: dataset.states().to_vec(),
            state_size: dataset.state_size(),
            states_key: "observations".into(),
            actions,
            action_size,
            discrete,
            lengths: dataset.lengths().collect(),
            ..Self::default()
        }
    }

    /// The rows of several files with rows of the same sizes, one file after the other.
    pub(super) fn joined(parts: Vec<(PathBuf, Self)>) -> Self {
        let count = |of: fn(&Self) -> usize| parts.iter().map(|(_, part)| of(part)).sum();
        let mut whole = Self {
            states: Vec::with_capacity(count(|part| part.states.len())),
            actions: Vec::with_capacity(count(|part| part.actions.len())),
            ..Self::default()
        };
        for (path, part) in parts {
            whole.files.push((path, part.count()));
            whole.states.extend(part.states);
            whole.actions.extend(part.actions);
            whole.lengths.extend(part.lengths);
            whole.origins.extend(part.origins);
            (whole.state_size, whole.states_key) = (part.state_size, part.states_key);
            (whole.action_size, whole.discrete) = (part.action_size, part.discrete);
        }
        whole
    }

    /// Checks every value, whatever the trajectories; those of each of several files by itself, so that
    /// the file is named.
    pub(super) fn check_values(&self) -> Result<()> {
        self.check_all(&self.states, &self.actions)
    }

    fn check_all(&self, states: &[f32], actions: &[f32]) -> Result<()> {
        if self.files.is_empty() {
            return self.check_part(states, actions, 0);
        }
        let mut before = 0;
        for (path, rows) in &self.files {
            let own = before..before + rows;
            let of = |size: usize| own.start * size..own.end * size;
            let (states, actions) = (&states[of(self.state_size)], &actions[of(self.action_size)]);
            self.check_part(states, actions, before).map_err(|error| error.in_file(path))?;
            before = own.end;
        }
        Ok(())
    }

    /// Checks the values of one file; `before` rows of others come before them.
    fn check_part(&self, states: &[f32], actions: &[f32], before: usize) -> Result<()> {
        let place = |key, size: usize, at: usize| {
            self.origins.place(key, (before, at / size), at % size, &self.lengths)
        };
        check_located(states, false, |at| place(&self.states_key, self.state_size, at))?;
        match self.discrete {
            true => choices(actions).map(drop),
            false => check_located(actions, true, |at| place("actions", self.action_size, at)),
        }
    }

    /// The trajectories `own` alone, which are consecutive; their values were checked.
    pub(super) fn cut(self, own: &[usize]) -> Self {
        let first = own.first().copied().unwrap_or_default();
        let before: usize = self.lengths[..first].iter().sum();
        let lengths = self.lengths[first..first + own.len()].to_vec();
        let rows = before..before + lengths.iter().sum::<usize>();
        let of = |values: &[f32], size: usize| values[rows.start * size..rows.end * size].to_vec();
        Self {
            states: of(&self.states, self.state_size),
            actions: of(&self.actions, self.action_size),
            lengths,
            origins: Origins::default(),
            ..self
        }
    }

    /// One more than the largest discrete action; 0 without discrete actions.
    pub(super) fn choice_count(&self) -> usize {
        let counts =
            self.actions.iter().filter(|_| self.discrete).map(|&choice| choice as usize + 1);
        counts.max().unwrap_or_default()
    }

    /// Checks every value.
    ///
    /// # Errors
    /// What [`Dataset::new`] refuses, by the file's own keys.
    pub fn check(mut self) -> Result<Dataset> {
        if self.discrete {
            self.check_values()?;
            let choices = choices(&self.actions)?;
            let count = choices.iter().max().map_or(0, |&choice| choice as usize + 1);
            let choices = (&choices[..], count);
            return Dataset::with_choices(self.states, self.state_size, choices, &self.lengths);
        }
        let states = (std::mem::take(&mut self.states), self.state_size);
        let actions = (std::mem::take(&mut self.actions), self.action_size);
        Dataset::judged(&self.states_key, states, actions, &self.lengths, |numbers| {
            self.check_all(&numbers.states, &numbers.actions)
        })
    }
}

/// Which action each row took.
fn choices(actions: &[f32]) -> Result<Vec<u32>> {
    let each = actions.iter().enumerate();
    each.map(|(row, &value)| choice(row, f64::from(value))).collect()
}

/// The discrete action that row `row` took.
pub(super) fn choice(row: usize, value: f64) -> Result<u32> {
    if value >= 0.0 && value.fract() == 0.0 {
        return Ok(value as u32);
    }
    Err(Error::input(format!("`actions` row {row} is `{value}`, expected 0 or more"))
        .hint("number the actions from 0; the last row of a trajectory may repeat any of them"))
}
