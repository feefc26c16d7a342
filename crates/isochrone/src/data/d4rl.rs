//! D4RL's flat HDF5: `observations`, `actions` and `timeouts`, one row a step.
//!
//! A trajectory ends where `timeouts` is 1. The state after that row's action was not recorded, so
//! the row before a reset is dropped. Rows after the last timeout are no whole trajectory and are
//! dropped too. `terminals` was relabelled by the distance to one goal and fires inside
//! trajectories: it ends nothing. `rewards`, `infos/qpos`, `infos/qvel` and `infos/goal` are left
//! alone. Source: Fu et al., "D4RL: Datasets for deep data-driven reinforcement learning", 2020.

use super::check_numbers;
use super::door::{Rows, missing, same_rows};
use super::hdf5::{self, Hdf5};
use super::npz::Writer;
use crate::error::{Error, Result};

const STATES: &str = "observations";
const ACTIONS: &str = "actions";
const TIMEOUTS: &str = "timeouts";
const TERMINALS: &str = "terminals";

/// Reads the rows of a flat file.
pub(super) fn read(file: &Hdf5, notes: &mut Vec<String>) -> Result<Rows> {
    let found = keys(file)?;
    let has = |key: &str| found.iter().any(|name| name == key);
    let read_actions = || -> Result<_> {
        let mut notes = Vec::new();
        let actions = match has(ACTIONS) {
            false => (Vec::new(), None, 0),
            true => {
                let (values, rows, size) =
                    file.matrix(&file.array(ACTIONS)?, ACTIONS, &mut notes)?;
                (values, Some(rows), size)
            }
        };
        Ok((actions, hdf5::flags(&file.array(TIMEOUTS)?, TIMEOUTS)?, notes))
    };
    let read_states = || file.matrix(&file.array(STATES)?, STATES, notes);
    let (states, beside) = file.both(read_states, read_actions);
    let (states, rows, state_size) = states?;
    let ((actions, action_rows, action_size), timeouts, more) = beside?;
    notes.extend(more);
    same_rows(ACTIONS, action_rows.unwrap_or(rows), STATES, rows)?;
    same_rows(TIMEOUTS, timeouts.len(), STATES, rows)?;
    if has(TERMINALS) {
        tell_terminals(&hdf5::flags(&file.array(TERMINALS)?, TERMINALS)?, &timeouts, notes);
    }
    let mut rows = Rows {
        states,
        state_size,
        states_key: STATES.into(),
        actions,
        action_size,
        discrete: false,
        lengths: Vec::new(),
    };
    cut(&mut rows, &timeouts, notes)?;
    Ok(rows)
}

/// The keys of a flat file, which has those that are needed.
fn keys(file: &Hdf5) -> Result<Vec<String>> {
    let (_, names) = file.names()?;
    let found: Vec<&str> = names.iter().map(String::as_str).collect();
    let has = |key: &str| found.contains(&key);
    for (key, otherwise) in [
        (STATES, "D4RL has `observations` at the root, Minari `episode_0`, `episode_1`, …"),
        (
            TIMEOUTS,
            "`timeouts` is 1 on the last row of each trajectory; without it trajectories cannot be told apart",
        ),
    ] {
        if !has(key) {
            return Err(missing(key, &found, None, otherwise));
        }
    }
    Ok(names)
}

/// Bytes that the rows would take in memory.
pub(super) fn bytes(file: &Hdf5) -> Result<u64> {
    let found = keys(file)?;
    let of = |key: &str| match found.iter().any(|name| name == key) {
        true => hdf5::bytes(&file.array(key)?, key),
        false => Ok(0),
    };
    Ok(of(STATES)?.saturating_add(of(ACTIONS)?))
}

/// Writes the rows into an archive, some at a time; the rows of each trajectory.
pub(super) fn unpack(
    file: &Hdf5,
    writer: &mut Writer,
    notes: &mut Vec<String>,
) -> Result<Vec<usize>> {
    let found = keys(file)?;
    let has = |key: &str| found.iter().any(|name| name == key);
    let timeouts = hdf5::flags(&file.array(TIMEOUTS)?, TIMEOUTS)?;
    if has(TERMINALS) {
        tell_terminals(&hdf5::flags(&file.array(TERMINALS)?, TERMINALS)?, &timeouts, notes);
    }
    let mut part = |key: &str, lengths: &[usize], writer: &mut Writer| -> Result<()> {
        let array = file.array(key)?;
        let [rows, size] = hdf5::shape(&array, key)?.map(|side| side as usize);
        same_rows(key, rows, TIMEOUTS, timeouts.len())?;
        let kept = [lengths.iter().sum::<usize>(), size];
        let fill = |take: &mut dyn FnMut(&[f32]) -> Result<()>| {
            let (mut row, mut before) = (0, 0);
            hdf5::each_rows(&array, key, notes, &mut |numbers| {
                for state in numbers.chunks_exact(size) {
                    if before < kept[0] && !timeouts[row] {
                        check_numbers(key, state, size, (before * size) as u64, key == ACTIONS)?;
                        take(state)?;
                        before += 1;
                    }
                    row += 1;
                }
                Ok(())
            })
        };
        if key == STATES { writer.states(kept, fill) } else { writer.actions(kept, fill) }
    };
    let lengths = {
        let (lengths, _) = whole_lengths(&timeouts)?;
        part(STATES, &lengths, writer)?;
        if has(ACTIONS) {
            part(ACTIONS, &lengths, writer)?;
        }
        lengths
    };
    tell_dropped(&timeouts, notes);
    Ok(lengths)
}

fn tell_terminals(terminals: &[bool], timeouts: &[bool], notes: &mut Vec<String>) {
    let inside = terminals.iter().zip(timeouts).filter(|(end, timeout)| **end && !**timeout);
    match inside.count() {
        0 => {}
        count => notes.push(format!(
            "`terminals` is 1 on {count} rows that are no timeout; they are taken as rows near a \
             goal and end no trajectory"
        )),
    }
}

/// Cuts rows into trajectories: without the last of each, and without a tail.
fn cut(rows: &mut Rows, timeouts: &[bool], notes: &mut Vec<String>) -> Result<()> {
    let (lengths, whole) = whole_lengths(timeouts)?;
    tell_dropped(timeouts, notes);
    rows.lengths = lengths;
    keep(&mut rows.states, rows.state_size, &timeouts[..whole]);
    keep(&mut rows.actions, rows.action_size, &timeouts[..whole]);
    Ok(())
}

/// The rows kept of each trajectory, and the rows up to the last timeout.
fn whole_lengths(timeouts: &[bool]) -> Result<(Vec<usize>, usize)> {
    let whole = timeouts.iter().rposition(|&end| end).map_or(0, |last| last + 1);
    if whole == 0 {
        return Err(Error::input(format!(
            "`{TIMEOUTS}` is 0 on all {} rows: there is no whole trajectory",
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

fn tell_dropped(timeouts: &[bool], notes: &mut Vec<String>) {
    let ends = timeouts.iter().filter(|&&end| end).count();
    let tail = timeouts.iter().rev().take_while(|&&end| !end).count();
    if tail > 0 {
        notes.push(format!(
            "{tail} rows after the last timeout are no whole trajectory and are dropped"
        ));
    }
    notes.push(format!("the row before each of {ends} resets has no successor and is dropped"));
}

/// Moves the rows that are not dropped together, in place.
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
    use crate::data::{Choices, Format, Opened, open};
    use std::path::Path;
    use std::sync::Arc;

    const LATEST: &[u8] = include_bytes!("../../tests/fixtures/d4rl-u8.hdf5");
    const OLDER: &[u8] = include_bytes!("../../tests/fixtures/d4rl-f32.hdf5");

    fn opened(kind: &str) -> Opened {
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

    fn read_bytes(bytes: &[u8]) -> Result<Rows> {
        let storage = hdf5_reader::BytesStorage::new(bytes.to_vec());
        read(&Hdf5::new(Arc::new(storage), bytes.len() as u64)?, &mut Vec::new())
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
    fn a_file_without_whole_trajectories_or_timeouts_is_refused() {
        let mut rows = Rows {
            states: vec![0.0; 4],
            state_size: 1,
            states_key: STATES.into(),
            actions: Vec::new(),
            action_size: 0,
            discrete: false,
            lengths: Vec::new(),
        };
        let error = cut(&mut rows, &[false; 4], &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("0 on all 4 rows") && error.contains("hint"), "{error}");
        // The name of the key, wherever it stands, is another one.
        let mut bytes = OLDER.to_vec();
        let spots: Vec<usize> =
            (0..bytes.len() - 8).filter(|&at| &bytes[at..at + 8] == b"timeouts").collect();
        for at in spots {
            bytes[at + 7] = b'x';
        }
        let error = read_bytes(&bytes).unwrap_err().to_string();
        assert!(error.contains("no key `timeouts`, found") && error.contains("`timeoutx`"));
    }
}
