//! D4RL's flat HDF5: `observations`, `actions` and `timeouts`, one row per step.
//!
//! A trajectory ends where `timeouts` is 1. The state after that row's action was not recorded, so
//! the row before a reset is dropped. Rows after the last timeout are not a whole trajectory and are
//! dropped too. `terminals` was relabelled by the distance to one goal and occurs inside
//! trajectories: it ends nothing. `rewards`, `infos/qpos`, `infos/qvel` and `infos/goal` are
//! ignored. Source: Fu et al., "D4RL: Datasets for deep data-driven reinforcement learning", 2020.

use std::path::{Path, PathBuf};

use hdf5_reader::Dataset as Array;

use super::complaints::{Shape, missing_among, refuse_misspelling, same_rows};
use super::dataset::{Dataset, check_located};
use super::format::Format;
use super::hdf5::{self, Hdf5};
use super::memory::Memory;
use super::npz::Writer;
use super::origins::{Origins, Spot};
use super::raw::RawRows;
use super::reader::{Pieces, Reader, Widths};
use crate::error::{Error, Result};

const STATES: &str = "observations";
const ACTIONS: &str = "actions";
const TIMEOUTS: &str = "timeouts";
const TERMINALS: &str = "terminals";

/// Reads one flat file.
pub(super) struct D4rlReader {
    path: PathBuf,
    file: Hdf5,
    states: Matrix,
    actions: Option<Matrix>,
    timeouts: Array,
    terminals: Option<Array>,
}

/// An array of rows.
struct Matrix {
    key: &'static str,
    array: Array,
    rows: usize,
    size: usize,
}

impl Matrix {
    fn of(file: &Hdf5, key: &'static str) -> Result<Self> {
        let array = file.array(key)?;
        let [rows, size] =
            hdf5::shape(&array, key)?.map(|side| usize::try_from(side).unwrap_or(usize::MAX));
        file.check_claim(key, rows, size)?;
        Ok(Self { key, array, rows, size })
    }

    fn shape(&self) -> Shape<'static> {
        Shape { key: self.key, rows: self.rows, size: Some(self.size) }
    }

    fn bytes(&self) -> u64 {
        (self.rows as u64).saturating_mul(self.size as u64).saturating_mul(4)
    }

    fn values(&self, file: &Hdf5, notes: &mut Vec<String>) -> Result<Vec<f32>> {
        Ok(file.matrix(&self.array, self.key, notes)?.0)
    }

    /// Passes the rows that are kept to `take`, each checked; `kept` says how many there are.
    fn each_kept(
        &self,
        (timeouts, kept): (&[bool], usize),
        notes: &mut Vec<String>,
        take: &mut dyn FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        let (key, size) = (self.key, self.size);
        let (mut row, mut before) = (0, 0);
        hdf5::each_rows(&self.array, key, notes, &mut |numbers| {
            for values in numbers.chunks_exact(size) {
                if before < kept && !timeouts[row] {
                    check_located(values, key == ACTIONS, |column| {
                        Spot::among_dropped(key, row, column)
                    })?;
                    take(values)?;
                    before += 1;
                }
                row += 1;
            }
            Ok(())
        })
    }
}

impl D4rlReader {
    /// Reads the headers of a flat file.
    pub(super) fn open(path: &Path, file: Hdf5) -> Result<Self> {
        let (_, names) = file.names()?;
        let found: Vec<&str> = names.iter().map(String::as_str).collect();
        let has = |key: &str| found.contains(&key);
        let without_timeouts = if has(TERMINALS) {
            "if `terminals` marks the ends of trajectories, save it as `timeouts`"
        } else {
            "`timeouts` is 1 on the last row of each trajectory; without it trajectories cannot be \
             told apart"
        };
        for (key, otherwise) in [
            (
                STATES,
                "D4RL has `observations` at the root, Minari `episode_0`, `episode_1`, …; other layouts, such as \
                 robomimic's, are read with h5py and saved with `numpy.savez`",
            ),
            (TIMEOUTS, without_timeouts),
        ] {
            if !has(key) {
                // `terminals` has a meaning of its own.
                let others: Vec<&str> =
                    found.iter().copied().filter(|name| *name != TERMINALS).collect();
                return Err(missing_among(key, &found, &others, otherwise));
            }
        }
        if !has(ACTIONS) {
            refuse_misspelling(ACTIONS, &found, &[STATES, TIMEOUTS, TERMINALS])?;
        }
        let states = Matrix::of(&file, STATES)?;
        let actions = has(ACTIONS).then(|| Matrix::of(&file, ACTIONS)).transpose()?;
        if let Some(actions) = &actions {
            same_rows(actions.shape(), states.shape())?;
        }
        let timeouts = file.array(TIMEOUTS)?;
        let terminals = has(TERMINALS).then(|| file.array(TERMINALS)).transpose()?;
        Ok(Self { path: path.to_path_buf(), file, states, actions, timeouts, terminals })
    }

    /// The flags that end trajectories, one per row.
    fn timeouts(&self) -> Result<Vec<bool>> {
        let timeouts = hdf5::flags(&self.timeouts, TIMEOUTS)?;
        let shape = Shape { key: TIMEOUTS, rows: timeouts.len(), size: None };
        same_rows(shape, self.states.shape())?;
        Ok(timeouts)
    }

    fn tell_terminals(&self, timeouts: &[bool], notes: &mut Vec<String>) -> Result<()> {
        let Some(terminals) = &self.terminals else { return Ok(()) };
        let terminals = hdf5::flags(terminals, TERMINALS)?;
        let inside = terminals.iter().zip(timeouts).filter(|(end, timeout)| **end && !**timeout);
        match inside.count() {
            0 => {}
            count => notes.push(format!(
                "`terminals` is 1 on {count} rows that are not timeouts; they are taken as rows near a \
                 goal and end no trajectory"
            )),
        }
        Ok(())
    }
}

impl Reader for D4rlReader {
    fn format(&self) -> Format {
        Format::D4rl
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> u64 {
        self.states.bytes().saturating_add(self.actions.as_ref().map_or(0, Matrix::bytes))
    }

    fn widths(&self) -> Option<Widths> {
        let action = self.actions.as_ref().map_or(0, |actions| actions.size);
        Some(Widths { state: self.states.size, action, discrete: false })
    }

    fn read(&mut self, notes: &mut Vec<String>) -> Result<RawRows> {
        let read_rest = || -> Result<_> {
            let mut notes = Vec::new();
            let actions =
                self.actions.as_ref().map(|actions| actions.values(&self.file, &mut notes));
            Ok((actions.transpose()?.unwrap_or_default(), self.timeouts()?, notes))
        };
        let read_states = || self.states.values(&self.file, notes);
        let (states, rest) = self.file.both(read_states, read_rest);
        let states = states?;
        let (actions, timeouts, more) = rest?;
        notes.extend(more);
        self.tell_terminals(&timeouts, notes)?;
        let mut rows = RawRows {
            states,
            state_size: self.states.size,
            states_key: STATES.into(),
            actions,
            action_size: self.actions.as_ref().map_or(0, |actions| actions.size),
            ..RawRows::default()
        };
        cut(&mut rows, &timeouts, notes)?;
        Ok(rows)
    }

    fn pieces(&mut self) -> Option<&mut dyn Pieces> {
        Some(self)
    }
}

impl Pieces for D4rlReader {
    fn in_place(&mut self, _: Memory, _: &mut Vec<String>) -> Result<Option<Dataset>> {
        Ok(None)
    }

    fn unpack(&mut self, writer: &mut Writer, notes: &mut Vec<String>) -> Result<Vec<usize>> {
        let timeouts = self.timeouts()?;
        self.tell_terminals(&timeouts, notes)?;
        let (lengths, _) = whole_lengths(&timeouts)?;
        let kept = lengths.iter().sum();
        let some = (&timeouts[..], kept);
        let states = &self.states;
        writer.states([kept, states.size], |take| states.each_kept(some, notes, take))?;
        if let Some(actions) = &self.actions {
            writer.actions([kept, actions.size], |take| actions.each_kept(some, notes, take))?;
        }
        tell_dropped(&timeouts, notes);
        Ok(lengths)
    }
}

/// Cuts rows into trajectories: without the last of each, and without a tail.
fn cut(rows: &mut RawRows, timeouts: &[bool], notes: &mut Vec<String>) -> Result<()> {
    let (lengths, whole) = whole_lengths(timeouts)?;
    tell_dropped(timeouts, notes);
    rows.lengths = lengths;
    rows.origins = Origins::AmongDropped(first_rows(&timeouts[..whole]));
    keep(&mut rows.states, rows.state_size, &timeouts[..whole]);
    keep(&mut rows.actions, rows.action_size, &timeouts[..whole]);
    Ok(())
}

/// The rows kept of each trajectory, and the rows up to the last timeout.
fn whole_lengths(timeouts: &[bool]) -> Result<(Vec<usize>, usize)> {
    let whole = timeouts.iter().rposition(|&end| end).map_or(0, |last| last + 1);
    if whole == 0 {
        return Err(Error::input(format!(
            "`{TIMEOUTS}` is 0 on all {} rows: no trajectory ends",
            timeouts.len()
        ))
        .hint("set `timeouts` to 1 on the last row of each trajectory"));
    }
    let lengths = timeouts[..whole]
        .split_inclusive(|&end| end)
        .map(|trajectory| trajectory.len() - 1)
        .filter(|&length| length > 0)
        .collect();
    Ok((lengths, whole))
}

/// The row at which each trajectory begins.
fn first_rows(timeouts: &[bool]) -> Vec<usize> {
    let begins = |row: &usize| !timeouts[*row] && (*row == 0 || timeouts[row - 1]);
    (0..timeouts.len()).filter(begins).collect()
}

fn tell_dropped(timeouts: &[bool], notes: &mut Vec<String>) {
    let ends = timeouts.iter().filter(|&&end| end).count();
    let tail = timeouts.iter().rev().take_while(|&&end| !end).count();
    if tail > 0 {
        notes.push(format!(
            "{tail} rows after the last timeout are not a whole trajectory and are dropped"
        ));
    }
    notes.push(format!("the row before each of {ends} resets has no successor and is dropped"));
}

/// Closes the gaps that dropped rows leave, in place.
fn keep(values: &mut Vec<f32>, size: usize, dropped: &[bool]) {
    let mut to = 0;
    let mut from = 0;
    for trajectory in dropped.split_inclusive(|&end| end) {
        let count = (trajectory.len() - 1) * size;
        values.copy_within(from..from + count, to);
        to += count;
        from += count + size;
    }
    values.truncate(to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Choices, OpenedFile, open};
    use std::path::Path;
    use std::sync::Arc;

    const LATEST: &[u8] = include_bytes!("../../tests/fixtures/d4rl-u8.hdf5");
    const OLDER: &[u8] = include_bytes!("../../tests/fixtures/d4rl-f32.hdf5");

    fn opened(kind: &str) -> OpenedFile {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        open(&folder.join(format!("d4rl-{kind}.hdf5")), &Choices::default()).unwrap()
    }

    #[test]
    fn trajectories_end_at_timeouts_without_the_row_before_a_reset_and_without_a_tail() {
        for kind in ["bool", "u8", "f32", "f64"] {
            let found = opened(kind);
            assert_eq!(found.format, Format::D4rl);
            assert_eq!(found.rows.lengths, [5, 4], "{kind}");
            let place = |row: &[f32]| (row[0], 4.0 * row[1]);
            let places: Vec<_> = found.rows.states.chunks(4).map(place).collect();
            let expected = [(0, 5), (1, 4)].into_iter().flat_map(|(index, length)| {
                (0..length).map(move |place| (index as f32, place as f32))
            });
            assert_eq!(places, expected.collect::<Vec<_>>(), "{kind}");
            // Row 6 of the file, the first of the second trajectory, is row 5 here.
            assert_eq!(found.rows.actions[2 * 5..][..2], [12.0 / 28.0, 13.0 / 28.0], "{kind}");
            let notes = found.notes.join("\n");
            assert!(notes.contains("3 rows after the last timeout"), "{notes}");
            assert!(notes.contains("before each of 2 resets"), "{notes}");
            assert!(notes.contains("`terminals` is 1 on 3 rows"), "{notes}");
            found.into_dataset().unwrap();
        }
    }

    fn reader(bytes: &[u8]) -> Result<D4rlReader> {
        let storage = hdf5_reader::BytesStorage::new(bytes.to_vec());
        let file = Hdf5::new(Arc::new(storage), bytes.len() as u64)?;
        D4rlReader::open(Path::new("a.hdf5"), file)
    }

    fn read_bytes(bytes: &[u8]) -> Result<RawRows> {
        reader(bytes)?.read(&mut Vec::new())
    }

    #[test]
    fn every_truncation_is_refused() {
        for bytes in [LATEST, OLDER] {
            assert!(read_bytes(bytes).is_ok());
            for length in 0..bytes.len() {
                let error = read_bytes(&bytes[..length]).err();
                assert_eq!(error.map(|error| error.exit_code()), Some(2), "{length} bytes");
            }
        }
        println!("figures: hdf5: {} cuts, all refused", LATEST.len() + OLDER.len());
    }

    #[test]
    fn every_flipped_bit_of_a_file_ends_with_rows_or_an_error() {
        let whole = read_bytes(LATEST).unwrap();
        let mut bytes = LATEST.to_vec();
        let mut refused = 0;
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            match read_bytes(&bytes) {
                Ok(rows) => assert!(rows.states.len() <= 2 * whole.states.len(), "bit {bit}"),
                Err(error) => {
                    assert_eq!(error.exit_code(), 2, "bit {bit}: {error}");
                    refused += 1;
                }
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(refused > bytes.len() * 2, "only {refused} flips were noticed");
        println!("figures: hdf5: {} flips, 0 panics", 8 * bytes.len());
    }

    #[test]
    fn flips_in_the_older_format_end_with_rows_or_an_error() {
        let mut bytes = OLDER.to_vec();
        for bit in (0..bytes.len() * 8).step_by(31) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(rows) = read_bytes(&bytes) {
                assert!(rows.states.len() <= 16 << 20, "bit {bit}");
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn chunks_that_overlap_are_refused() {
        // Where the index says that a chunk begins in row 4 and column 0, it now says row 2.
        let place = |row: u64| [row, 0, 0].map(u64::to_le_bytes).concat();
        let mut bytes = OLDER.to_vec();
        let spots = (0..bytes.len() - 24).filter(|&at| bytes[at..].starts_with(&place(4)));
        let spots: Vec<usize> = spots.collect();
        assert!(!spots.is_empty());
        for at in spots {
            bytes[at..at + 24].copy_from_slice(&place(2));
        }
        let error = read_bytes(&bytes).unwrap_err().to_string();
        assert!(error.contains("does not match its shape"), "{error}");
    }

    /// The older file with the chunk of rows 8 to 11 of `size` values replaced, unpacked, by `values`.
    fn replaced(size: usize, values: &[f32]) -> Vec<u8> {
        let mut bytes = OLDER.to_vec();
        let (place, end) = ([8_u64, 0, 0].map(u64::to_le_bytes).concat(), bytes.len() as u64);
        let spots = (8..bytes.len()).filter(|&at| bytes[at..].starts_with(&place));
        // Observations are first in the file.
        let at = spots.collect::<Vec<_>>()[if size == 4 { 0 } else { 1 }];
        // Its size, that it is not packed, its first row and column, and where it is.
        bytes[at - 8..at - 4].copy_from_slice(&(16 * size as u32).to_le_bytes());
        bytes[at - 4..at].copy_from_slice(&1_u32.to_le_bytes());
        bytes[at + 24..at + 32].copy_from_slice(&end.to_le_bytes());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        bytes
    }

    #[test]
    fn values_that_cannot_be_learned_from_are_named_by_the_row_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let complaints = |bytes: &[u8]| {
            let read = read_bytes(bytes).unwrap().check().unwrap_err().to_string();
            let mut writer = Writer::create(&folder.path().join("a.npz")).unwrap();
            let unpacked = reader(bytes).unwrap().unpack(&mut writer, &mut Vec::new());
            assert_eq!(unpacked.unwrap_err().to_string(), read);
            read
        };
        // The row before, 5, is a timeout, so that row 9 is the ninth that is kept.
        let mut values = [0.5_f32; 16];
        values[4 + 2] = f32::NAN;
        let told = complaints(&replaced(4, &values));
        let row = "`observations` row 9 column 2 is `NaN`, expected a finite number; hint: ";
        assert!(told.starts_with(&format!("{row}set `timeouts` to 1 in this row")), "{told}");
        let mut values = [0.5_f32; 8];
        values[2 + 1] = f32::NEG_INFINITY;
        let told = complaints(&replaced(2, &values));
        assert!(told.starts_with("`actions` row 9 column 1 is `-inf`"), "{told}");
        values[2 + 1] = 3.0;
        let told = complaints(&replaced(2, &values));
        assert!(told.starts_with("`actions` row 9 column 1 is `3`, expected within"), "{told}");
    }

    #[test]
    fn discrete_actions_are_told_to_be_read_from_npz() {
        let mut bytes = renamed(b"actions", b"xctions");
        for at in 0..bytes.len() - 7 {
            if bytes[at..].starts_with(b"rewards") {
                bytes[at..at + 7].copy_from_slice(b"actions");
            }
        }
        let told = reader(&bytes).err().unwrap().to_string();
        let wanted = "`actions` has 1 dimension, expected 2: rows and values per row; hint: save \
                      `actions.reshape(-1, 1)` if each is a number in [-1, 1]; discrete actions are \
                      read from npz alone";
        assert!(told.starts_with(wanted), "{told}");
        // 32-bit floats become 32-bit integers, one array after the other.
        let float = [0x11, 0x20, 0x1f, 0, 4, 0, 0, 0];
        let spots = (0..OLDER.len()).filter(|&at| OLDER[at..].starts_with(&float));
        let told: Vec<String> = spots
            .filter_map(|at| {
                let mut bytes = OLDER.to_vec();
                bytes[at..at + 4].copy_from_slice(&[0x10, 0x08, 0, 0]);
                read_bytes(&bytes).err().map(|error| error.to_string())
            })
            .collect();
        let actions = told.iter().find(|told| told.starts_with("`actions` holds 32-bit integers"));
        assert!(actions.is_some_and(|told| told.contains("are read from npz alone")), "{told:?}");
    }

    /// The older file with a key renamed, wherever its name is.
    fn renamed(from: &[u8], to: &[u8]) -> Vec<u8> {
        let mut bytes = OLDER.to_vec();
        let spots = (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from));
        for at in spots.collect::<Vec<_>>() {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
        bytes
    }

    #[test]
    fn a_misspelled_key_of_actions_is_named_and_not_taken_as_no_actions() {
        let error = read_bytes(&renamed(b"actions", b"actionz")).unwrap_err().to_string();
        assert!(error.starts_with("`actionz` looks like a misspelling of `actions`"), "{error}");
    }

    #[test]
    fn a_file_without_whole_trajectories_or_timeouts_is_refused() {
        let mut rows = RawRows { states: vec![0.0; 4], state_size: 1, ..RawRows::default() };
        let error = cut(&mut rows, &[false; 4], &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("0 on all 4 rows") && error.contains("hint"), "{error}");
        let error = read_bytes(&renamed(b"timeouts", b"timeoutx")).unwrap_err().to_string();
        assert!(
            error.contains("no key `timeouts`, found") && error.contains("is `timeoutx` meant?")
        );
        let error = read_bytes(&renamed(b"timeouts", b"whatever")).unwrap_err().to_string();
        assert!(error.contains("`terminals`, `whatever`; hint: if `terminals` marks"), "{error}");
        assert!(error.ends_with("save it as `timeouts`"), "{error}");
    }
}
