//! [`Dataset`]: rows of states in recorded order, cut into trajectories, with the actions taken.
//!
//! The last row of a trajectory may be a goal but never a start: its action has no successor.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::division::Division;
use super::origins::Spot;
use super::store::{Numbers, RowsOnDisk, Store};
use crate::error::{Error, Result};
use crate::random::below;

/// The largest number of discrete actions: each is a column.
const MOST_CHOICES: usize = 1024;

/// Recorded trajectories: rows of states, optionally with the actions taken in them.
///
/// The rows are in memory, or stay in files when there are too many.
/// [`read_state`](Self::read_state), [`each_states`](Self::each_states) and their counterparts for
/// actions work for both.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    pub(super) state_size: usize,
    pub(super) action_size: usize,
    pub(super) one_hot: bool,
    pub(super) rows: usize,
    pub(super) first_rows: Vec<u32>,
    /// All rows or, where processes divide them, those that this one holds.
    pub(super) store: Store,
    /// How processes divide the rows; none where this one has all of them.
    pub(super) division: Option<Division>,
    /// The rows that starts and random goals are drawn from; empty when every row counts once.
    pub(super) drawn: Arc<[u32]>,
}

impl Dataset {
    /// Builds a dataset from flat rows; `lengths` holds the number of rows of each trajectory, in order.
    ///
    /// # Shapes
    /// `states` is rows × `state_size`; `actions`, where given, rows × its size.
    ///
    /// # Errors
    /// Names the first row or trajectory that cannot be used: wrong lengths, values that are not
    /// finite, actions outside [−1, 1], no trajectory with two rows.
    pub fn new(
        states: Vec<f32>,
        state_size: usize,
        actions: Option<(Vec<f32>, usize)>,
        lengths: &[usize],
    ) -> Result<Self> {
        let (actions, action_size) = actions.unwrap_or_default();
        Self::judged("states", (states, state_size), (actions, action_size), lengths, |numbers| {
            check_numbers("states", &numbers.states, state_size, 0, false)?;
            check_numbers("actions", &numbers.actions, action_size, 0, true)
        })
    }

    /// Like [`Dataset::new`], for states that a file calls `key` and values that `judge` checks.
    pub(super) fn judged(
        key: &str,
        (states, state_size): (Vec<f32>, usize),
        (actions, action_size): (Vec<f32>, usize),
        lengths: &[usize],
        judge: impl FnOnce(&Numbers) -> Result<()>,
    ) -> Result<Self> {
        let rows = lengths.iter().sum::<usize>();
        check_shape(key, states.len(), rows, state_size)?;
        check_shape("actions", actions.len(), rows, action_size)?;
        let numbers = Numbers { states, actions };
        judge(&numbers)?;
        let store = Store::Memory(Arc::new(numbers));
        Self::of(store, (state_size, action_size), lengths)
    }

    /// A dataset of rows that were already checked, cut into trajectories.
    pub(super) fn of(
        store: Store,
        (state_size, action_size): (usize, usize),
        lengths: &[usize],
    ) -> Result<Self> {
        let rows = lengths.iter().sum::<usize>();
        if u32::try_from(rows).is_err() {
            return Err(Error::input(format!("{rows} rows, at most {} are supported", u32::MAX)));
        }
        if lengths.iter().all(|&length| length < 2) {
            return Err(Error::input(format!(
                "no trajectory has two rows ({} trajectories, {rows} rows)",
                lengths.len()
            ))
            .hint("`terminals` must be true only on the last row of a trajectory"));
        }
        let first_rows = first_rows(lengths);
        Ok(Self {
            state_size,
            action_size,
            one_hot: false,
            rows,
            first_rows,
            store,
            division: None,
            drawn: Arc::from([]),
        })
    }

    /// All trajectories of `parts`, whose rows are on disk, one part after the other; `path` is what
    /// the user calls them.
    pub(super) fn joined(path: &Path, parts: &[Self], memory: u64) -> Result<Self> {
        let disks: Vec<&RowsOnDisk> = parts.iter().filter_map(Self::disk).collect();
        let action_size = parts.iter().map(|part| part.action_size).max().unwrap_or_default();
        let lengths: Vec<usize> = parts.iter().flat_map(Self::lengths).collect();
        let store = Store::Disk(RowsOnDisk::joined(path, &disks, action_size, memory));
        let state_size = parts.first().map_or(0, |part| part.state_size);
        let one_hot = parts.iter().any(|part| part.one_hot);
        Ok(Self { one_hot, ..Self::of(store, (state_size, action_size), &lengths)? })
    }

    /// Like [`Dataset::new`], with discrete actions numbered from 0 to `count` − 1; each becomes a
    /// one-hot row.
    ///
    /// # Errors
    /// As [`Dataset::new`]; also no actions or too many to choose from, or a number outside the range.
    pub fn with_choices(
        states: Vec<f32>,
        state_size: usize,
        (choices, count): (&[u32], usize),
        lengths: &[usize],
    ) -> Result<Self> {
        check_choices(count)?;
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

    /// The same data with its actions declared one-hot.
    ///
    /// # Errors
    /// Names the first row that is not a single 1 among zeros.
    pub fn declared_one_hot(self) -> Result<Self> {
        if self.action_size == 0 {
            return Err(Error::input("one-hot actions are declared, but the data have no actions")
                .hint("leave `data.actions` out"));
        }
        let sound = |row: &[f32]| {
            row.iter().all(|&x| x == 0.0 || x == 1.0) && row.iter().sum::<f32>() == 1.0
        };
        let mut row = 0;
        self.each_actions(|actions| {
            for action in actions.chunks_exact(self.action_size) {
                if !sound(action) {
                    return Err(Error::input(format!(
                        "`actions` row {row} is `{action:?}`, expected a single 1 and zeros elsewhere"
                    ))
                    .hint(
                        "the last row of a trajectory needs an action too; leave `data.actions` \
                         out for continuous actions",
                    ));
                }
                row += 1;
            }
            Ok(())
        })?;
        Ok(Self { one_hot: true, ..self })
    }

    /// How many actions there are to choose from; `None` for continuous actions.
    pub fn choices(&self) -> Option<usize> {
        self.one_hot.then_some(self.action_size)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of trajectories.
    pub fn trajectories(&self) -> usize {
        self.first_rows.len()
    }

    /// Values per state.
    pub fn state_size(&self) -> usize {
        self.state_size
    }

    /// Values per action; 0 without actions.
    pub fn action_size(&self) -> usize {
        self.action_size
    }

    /// The file that holds the rows or, of several, their folder or pattern; `None` when they are in
    /// memory.
    pub fn stays_in(&self) -> Option<&Path> {
        self.disk().map(RowsOnDisk::path)
    }

    /// The rows on disk; `None` when they are in memory.
    pub(super) fn disk(&self) -> Option<&RowsOnDisk> {
        match &self.store {
            Store::Memory(_) => None,
            Store::Disk(disk) => Some(disk),
        }
    }

    /// Refuses rows that stay in files which were written to since they were opened.
    ///
    /// # Errors
    /// [`Error::Changed`](crate::Error::Changed) if its length or modification time is another.
    pub fn check_unchanged(&self) -> Result<()> {
        self.disk().map_or(Ok(()), RowsOnDisk::check_unchanged)
    }

    /// All rows, in memory.
    fn numbers(&self) -> &Numbers {
        assert!(!self.is_divided(), "the rows are divided among processes");
        self.held()
    }

    /// The rows that this process holds in memory.
    pub(super) fn held(&self) -> &Numbers {
        match &self.store {
            Store::Memory(numbers) => numbers,
            Store::Disk(disk) => panic!("the rows are on disk in `{}`", disk.path().display()),
        }
    }

    /// All states, row after row.
    ///
    /// # Panics
    /// If the rows [stay in a file](Self::stays_in) or are [divided](Self::is_divided).
    pub fn states(&self) -> &[f32] {
        &self.numbers().states
    }

    /// All actions, row after row; empty without actions.
    ///
    /// # Panics
    /// As [`states`](Self::states).
    pub fn actions(&self) -> &[f32] {
        &self.numbers().actions
    }

    /// One state.
    ///
    /// # Panics
    /// As [`states`](Self::states).
    pub fn state(&self, row: usize) -> &[f32] {
        &self.held().states[self.place(row) * self.state_size..][..self.state_size]
    }

    /// The row whose leading values are nearest to `part` in Euclidean distance; the first of several.
    ///
    /// # Errors
    /// The file that holds the rows can no longer be read.
    pub fn nearest(&self, part: &[f32]) -> Result<usize> {
        let (mut nearest, mut least) = (0, f32::INFINITY);
        for row in 0..self.rows() {
            let state = self.read_state(row)?;
            let gap = part.iter().zip(&*state).map(|(a, b)| (a - b) * (a - b)).sum();
            if gap < least {
                (nearest, least) = (row, gap);
            }
        }
        Ok(nearest)
    }

    /// One action; empty without actions.
    ///
    /// # Panics
    /// As [`states`](Self::states).
    pub fn action(&self, row: usize) -> &[f32] {
        &self.held().actions[self.place(row) * self.action_size..][..self.action_size]
    }

    /// Where a row is among those that this process holds.
    pub(super) fn place(&self, row: usize) -> usize {
        row - self.division.as_ref().map_or(0, |division| division.own().start)
    }

    /// The last row of the trajectory that `row` belongs to.
    pub fn last_row(&self, row: usize) -> usize {
        self.trajectory(self.trajectory_of(row)).end - 1
    }

    /// The rows of trajectory `index`.
    pub fn trajectory(&self, index: usize) -> Range<usize> {
        let end = self.first_rows.get(index + 1).map_or(self.rows, |&next| next as usize);
        self.first_rows[index] as usize..end
    }

    /// The number of rows of each trajectory, in order.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        (0..self.trajectories()).map(|index| self.trajectory(index).len())
    }

    /// The trajectory that `row` belongs to.
    pub fn trajectory_of(&self, row: usize) -> usize {
        let guess = share(row, self.trajectories(), self.rows);
        if self.trajectory(guess).contains(&row) {
            return guess;
        }
        self.first_rows.partition_point(|&first| first as usize <= row) - 1
    }

    /// The number of starts to draw from: rows that have a successor.
    pub fn starts(&self) -> usize {
        if self.is_evened() { self.drawn.len() } else { self.rows - self.trajectories() }
    }

    /// Whether starts and random goals are drawn evenly over places; see [`Even`](super::Even).
    pub fn is_evened(&self) -> bool {
        !self.drawn.is_empty()
    }

    /// The row of a random goal that `word` draws.
    pub fn anywhere(&self, word: u32) -> u32 {
        match &*self.drawn {
            [] => below(word, self.rows as u32),
            drawn => drawn[below(word, drawn.len() as u32) as usize],
        }
    }

    /// Start number `index`.
    pub fn start(&self, index: usize) -> usize {
        if self.is_evened() {
            return self.drawn[index] as usize;
        }
        // Every trajectory has one row that is not a start: its last.
        let count = self.trajectories();
        let before = |trajectory: usize| {
            self.first_rows.get(trajectory).map_or(usize::MAX, |&first| first as usize - trajectory)
        };
        let guess = share(index, count, self.starts());
        if (before(guess)..before(guess + 1)).contains(&index) {
            return index + guess;
        }
        let (mut low, mut high) = (0, count);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            *(if before(middle) <= index { &mut low } else { &mut high }) = middle;
        }
        index + low
    }
}

/// The first row of each trajectory; trajectories without rows are left out.
pub(super) fn first_rows(lengths: &[usize]) -> Vec<u32> {
    let mut first = 0;
    let of = |&length: &usize| {
        first += length;
        (first - length) as u32
    };
    lengths.iter().filter(|&&length| length > 0).map(of).collect()
}

/// The part that `index` of `count` would fall into if all `parts` were equally large.
fn share(index: usize, parts: usize, count: usize) -> usize {
    (index as u64 * parts as u64 / count.max(1) as u64) as usize
}

pub(super) fn check_choices(count: usize) -> Result<()> {
    if (1..=MOST_CHOICES).contains(&count) {
        return Ok(());
    }
    Err(Error::input(format!(
        "`actions` holds {count} distinct choices, expected 1 to {MOST_CHOICES}"
    ))
    .hint("number the actions from 0 without gaps"))
}

fn check_shape(key: &str, found: usize, rows: usize, size: usize) -> Result<()> {
    if found == rows * size {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` has {found} values, expected {rows} rows of {size}")))
}

/// The largest value of a state: squares of differences stay finite in 32 bits.
pub const LARGEST: f32 = 1e18;

/// As [`check_located`], for an array whose rows are all read; `before` values of it come before
/// `values`.
pub(super) fn check_numbers(
    key: &str,
    values: &[f32],
    size: usize,
    before: u64,
    bounded: bool,
) -> Result<()> {
    check_located(values, bounded, |at| {
        let at = before as usize + at;
        Spot::in_order(key, at / size, at % size)
    })
}

/// Refuses states or actions that are not finite, actions outside [−1, 1] and states beyond
/// [`LARGEST`]; `place` says where in the file one of `values` is.
pub(super) fn check_located<'a>(
    values: &[f32],
    bounded: bool,
    place: impl Fn(usize) -> Spot<'a>,
) -> Result<()> {
    let refused = |at: usize, expected: &str, hint: Option<&str>| {
        let Spot { key, row, column, mend } = place(at);
        let found = values[at];
        Err(Error::input(format!(
            "`{key}` row {row} column {column} is `{found}`, expected {expected}"
        ))
        .hint(hint.unwrap_or(mend)))
    };
    if let Some(at) = values.iter().position(|value| !value.is_finite()) {
        return refused(at, "a finite number", None);
    }
    let most = if bounded { 1.0 } else { LARGEST };
    match values.iter().position(|value| value.abs() > most) {
        Some(at) if bounded => refused(at, "within [-1, 1]", Some("scale the actions to [-1, 1]")),
        Some(at) => refused(at, "at most 1e18 in size", Some("record the states in larger units")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn rows_find_their_trajectory_and_starts_are_the_rows_with_a_successor() {
        for lengths in [&[3, 3, 3][..], &[1, 1, 9, 1, 2, 1, 30, 1], &[2], &[50, 0, 1, 4, 4]] {
            let rows: usize = lengths.iter().sum();
            let dataset = Dataset::new(vec![0.0; rows], 1, None, lengths).unwrap();
            let owner = (0..dataset.trajectories())
                .flat_map(|index| dataset.trajectory(index).map(move |_| index));
            assert!(owner.eq((0..rows).map(|row| dataset.trajectory_of(row))), "{lengths:?}");
            let starts = (0..rows).filter(|&row| dataset.last_row(row) != row);
            let found = (0..dataset.starts()).map(|index| dataset.start(index));
            assert!(starts.eq(found), "{lengths:?}");
        }
    }

    #[test]
    fn bad_rows_are_named() {
        let message = |states: Vec<f32>, actions: Vec<f32>, lengths: &[usize]| {
            Dataset::new(states, 2, Some((actions, 1)), lengths).unwrap_err().to_string()
        };
        let nan = message(vec![0., 0., 0., f32::NAN], vec![0.0; 2], &[2]);
        assert!(nan.contains("`states` row 1 column 1 is `NaN`"), "{nan}");
        assert!(nan.contains("end the trajectory at the row before (`terminals` is 1"), "{nan}");
        let large = message(vec![0.0; 4], vec![0.0, 2.0], &[2]);
        assert!(large.contains("`actions` row 1") && large.contains("[-1, 1]"), "{large}");
        assert!(message(vec![0.0; 4], vec![0.0; 2], &[1, 1]).contains("two rows"));
        assert!(message(vec![0.0; 3], vec![0.0; 2], &[2]).contains("expected 2 rows of 2"));
    }
}
