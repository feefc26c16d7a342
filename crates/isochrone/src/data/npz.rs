//! Trajectories in numpy's npz: `states`, `terminals` and, where known, `actions`.
//!
//! `states` is rows × n (`observations` is the same), `terminals` is 1 on the last row of each
//! trajectory and 0 elsewhere, `actions` is rows × m within [−1, 1], or one whole number a row that
//! says which of n discrete actions was taken. Other keys are left alone.
//! The layout is OGBench's. Files may be hostile: see [`read`].

mod write;

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

pub(super) use write::Writer;
pub use write::{Further, write, write_with};

use super::archive::Archive;
use super::door::{Rows, missing, narrowed, same_rows};
use super::{Dataset, npy};
use crate::error::{Error, Result, changes};

/// Keys that hold the states, the preferred one first.
const STATES: [&str; 2] = ["states", "observations"];
pub(super) const ACTIONS: &str = "actions";
const TERMINALS: &str = "terminals";
const VALIDS: &str = "valids";
/// Names others give to these keys; only ever used in a hint.
const SYNONYMS: [(&str, &[&str]); 2] = [
    ("states", &["obs", "observation", "state", "s", "x"]),
    ("terminals", &["dones", "done", "timeouts", "terminal", "ends", "truncations"]),
];
/// Endings of pickles.
const PICKLES: [&str; 6] = ["pkl", "pickle", "pt", "pth", "joblib", "ckpt"];

/// Reads a dataset from an npz file, as `numpy.savez` and `numpy.savez_compressed` write it.
///
/// Whatever the file holds, reading ends with the data or with an error, in memory bounded by the
/// file's own size and what its packed bytes can hold.
///
/// # Errors
/// Every mistake has its own message with the file, the key and the row: a file that is no npz, a
/// pickle, a missing key, a wrong dtype or shape, rows that do not match, flags other than 0 and
/// 1, rows after the last terminal, and everything that [`Dataset::new`] refuses.
pub fn read(path: &Path) -> Result<Dataset> {
    refuse_pickle_by_name(path)
        .and_then(|()| read_rows(path, &mut Vec::new()))
        .and_then(Rows::check)
        .map_err(|error| error.in_file(path))
}

/// Reads the rows of a file without a look at their values; what was converted goes to `notes`.
pub(super) fn read_rows(path: &Path, notes: &mut Vec<String>) -> Result<Rows> {
    // Two handles: arrays are unpacked on two threads.
    let mut archive = Archive::open(path)?;
    let mut other = archive.again(super::door::open_file(path)?);
    read_archive(&mut archive, &mut other, Some(&super::door::open_file(path)?), notes)
}

/// Reads states by one handle of an archive and, at the same time, all else by the other; states that
/// lie unpacked in `file` are read from there.
fn read_archive<R: Read + Seek + Send>(
    archive: &mut Archive<R>,
    other: &mut Archive<R>,
    file: Option<&File>,
    notes: &mut Vec<String>,
) -> Result<Rows> {
    let states_key = check(archive)?;
    let (states, beside) =
        rayon::join(|| read_matrix(archive, states_key, file), || Beside::read(other));
    let states = states?.noted(states_key, notes);
    let Beside { actions, ends, valid } = beside?;
    let Matrix { values: actions, size: action_size, whole, .. } = match actions {
        None => Matrix::default(),
        Some(actions) => {
            same_rows(ACTIONS, actions.rows, states_key, states.rows)?;
            actions.noted(ACTIONS, notes)
        }
    };
    let lengths = cut(ends, valid, (states_key, states.rows), notes)?;
    Ok(Rows {
        states: states.values,
        state_size: states.size,
        states_key: states_key.to_owned(),
        actions,
        action_size,
        discrete: whole,
        lengths,
    })
}

/// Looks at what an archive says of its entries; the key of the states.
pub(super) fn check<R: Read + Seek>(archive: &mut Archive<R>) -> Result<&'static str> {
    archive.check_headers()?;
    refuse_torch(archive)?;
    let states_key = states_key(archive)?;
    find(archive, TERMINALS).ok_or_else(|| absent(archive, TERMINALS))?;
    Ok(states_key)
}

/// The rows of each trajectory, by the flags of an archive.
pub(super) fn read_lengths<R: Read + Seek>(
    archive: &mut Archive<R>,
    (states_key, rows): (&str, usize),
    notes: &mut Vec<String>,
) -> Result<Vec<usize>> {
    let ends = read_flags(archive, TERMINALS)?;
    let has_valids = find(archive, VALIDS).is_some();
    let valid = has_valids.then(|| read_flags(archive, VALIDS)).transpose()?;
    cut(ends, valid, (states_key, rows), notes)
}

/// The rows of each trajectory, by its flags.
fn cut(
    mut ends: Vec<bool>,
    valid: Option<Vec<bool>>,
    (states_key, rows): (&str, usize),
    notes: &mut Vec<String>,
) -> Result<Vec<usize>> {
    same_rows(TERMINALS, ends.len(), states_key, rows)?;
    if let Some(valid) = valid {
        same_rows(VALIDS, valid.len(), states_key, rows)?;
        ends = last_rows(&ends, &valid)?;
        notes.push("`valids` marks OGBench's compact form; trajectories end where it is 0".into());
    }
    lengths(&ends)
}

/// What an archive holds beside its states.
struct Beside {
    actions: Option<Matrix>,
    ends: Vec<bool>,
    valid: Option<Vec<bool>>,
}

impl Beside {
    fn read<R: Read + Seek>(archive: &mut Archive<R>) -> Result<Self> {
        let has = |archive: &Archive<R>, key| find(archive, key).is_some();
        let actions =
            has(archive, ACTIONS).then(|| read_matrix(archive, ACTIONS, None)).transpose()?;
        let ends = read_flags(archive, TERMINALS)?;
        let valid = has(archive, VALIDS).then(|| read_flags(archive, VALIDS)).transpose()?;
        Ok(Self { actions, ends, valid })
    }
}

/// Numbers in rows, and how they were kept in the file.
#[derive(Default)]
struct Matrix {
    values: Vec<f32>,
    rows: usize,
    size: usize,
    wide: bool,
    /// One whole number a row.
    whole: bool,
}

impl Matrix {
    fn noted(self, key: &str, notes: &mut Vec<String>) -> Self {
        notes.extend(self.wide.then(|| narrowed(key)));
        self
    }
}

/// The last rows of OGBench's compact form: `valids` is 0 there, and `terminals` is 1 there and on
/// the row before.
fn last_rows(terminals: &[bool], valid: &[bool]) -> Result<Vec<bool>> {
    let ends: Vec<bool> = valid.iter().map(|valid| !valid).collect();
    for (row, &terminal) in terminals.iter().enumerate() {
        let expected = ends[row] || ends.get(row + 1).is_some_and(|&end| end);
        if terminal != expected {
            return Err(Error::input(format!(
                "`{TERMINALS}` row {row} is {}, expected {}: where `{VALIDS}` is 0, and on the \
                 row before, it is 1",
                u8::from(terminal),
                u8::from(expected)
            ))
            .hint("drop `valids` if `terminals` alone marks the last rows"));
        }
    }
    Ok(ends)
}

/// Refuses a file whose ending says that it is a pickle.
pub(super) fn refuse_pickle_by_name(path: &Path) -> Result<()> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !PICKLES.contains(&ending.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(Error::input(format!("`.{ending}` files are pickles, expected npz")).hint(npy::CONVERT))
}

fn refuse_torch<R: Read + Seek>(archive: &Archive<R>) -> Result<()> {
    if archive.entries().iter().all(|entry| !entry.name.ends_with(".pkl")) {
        return Ok(());
    }
    Err(Error::input("the file is a pickle of PyTorch, expected npz").hint(npy::CONVERT))
}

fn keys<R: Read + Seek>(archive: &Archive<R>) -> impl Iterator<Item = &str> {
    archive.entries().iter().filter_map(|entry| entry.name.strip_suffix(".npy"))
}

pub(super) fn find<R: Read + Seek>(archive: &Archive<R>, key: &str) -> Option<usize> {
    archive.entries().iter().position(|entry| entry.name.strip_suffix(".npy") == Some(key))
}

fn states_key<R: Read + Seek>(archive: &Archive<R>) -> Result<&'static str> {
    let mut found = STATES.into_iter().filter(|key| find(archive, key).is_some());
    let key = found.next().ok_or_else(|| absent(archive, STATES[0]))?;
    match found.next() {
        None => Ok(key),
        Some(other) => Err(Error::input(format!("both `{key}` and `{other}` are there"))
            .hint("keep one of the two")),
    }
}

/// The complaint about a key that is not there.
fn absent<R: Read + Seek>(archive: &Archive<R>, key: &str) -> Error {
    let found = keys(archive).collect::<Vec<_>>();
    let otherwise = match key {
        TERMINALS => "`terminals` is 1 on the last row of each trajectory, else 0",
        _ => "save it with `numpy.savez(file, states=…, terminals=…)`",
    };
    missing(key, &found, nearest(&found, key), otherwise)
}

fn nearest<'a>(found: &[&'a str], key: &str) -> Option<&'a str> {
    let synonyms = SYNONYMS.iter().find(|(name, _)| *name == key).map_or(&[][..], |entry| entry.1);
    let rank = |name: &str| {
        let lower = name.to_ascii_lowercase();
        if synonyms.contains(&lower.as_str()) { 1 } else { changes(&lower, key) }
    };
    let short = found.iter().copied().filter(|name| name.len() <= 2 * key.len());
    short.min_by_key(|name| rank(name)).filter(|name| rank(name) <= key.len() / 3)
}

fn index<R: Read + Seek>(archive: &Archive<R>, key: &str) -> Result<usize> {
    find(archive, key).ok_or_else(|| absent(archive, key))
}

fn read_matrix<R: Read + Seek>(
    archive: &mut Archive<R>,
    key: &str,
    file: Option<&File>,
) -> Result<Matrix> {
    let index = index(archive, key)?;
    let plain = file.zip(archive.plain_start(index)?);
    archive.read(index, |reader, entry| {
        let header = npy::header(reader, key, entry.size)?;
        let (rows, size, whole) = shape_of(&header, key)?;
        let wide = header.item == npy::Item::Float64;
        let many = header.item == npy::Item::Float32 && header.count >= npy::MANY;
        let values = match plain.filter(|_| many) {
            Some((file, start)) => {
                npy::straight(file, (start, entry.size, entry.checksum), &header, key)?
            }
            None if whole => {
                npy::wide(reader, &header, key)?.into_iter().map(|value| value as f32).collect()
            }
            None => npy::numbers(reader, &header, key)?,
        };
        Ok(Matrix { values, rows, size, wide, whole })
    })
}

/// Rows, numbers in a row, and whether each row is one whole number that says which action was taken.
pub(super) fn shape_of(header: &npy::Header, key: &str) -> Result<(usize, usize, bool)> {
    let numbered = key == ACTIONS && header.item.is_whole();
    let (rows, size) = match header.shape[..] {
        [rows] if numbered => (rows, 1),
        _ => header.matrix(key)?,
    };
    Ok((rows, size, numbered && size == 1))
}

fn read_flags<R: Read + Seek>(archive: &mut Archive<R>, key: &str) -> Result<Vec<bool>> {
    let index = index(archive, key)?;
    archive.read(index, |reader, entry| {
        let header = npy::header(reader, key, entry.size)?;
        if header.shape.len() != 1 {
            let found = header.shape.len();
            return Err(Error::input(format!("`{key}` has {found} dimensions, expected 1"))
                .hint(format!("save `{key}.reshape(-1)`")));
        }
        npy::flags(reader, &header, key)
    })
}

fn lengths(ends: &[bool]) -> Result<Vec<usize>> {
    if ends.last() == Some(&false) {
        let first = ends.iter().rposition(|&end| end).map_or(0, |last| last + 1);
        let last = ends.len() - 1;
        return Err(Error::input(format!(
            "`{TERMINALS}` row {last} is 0: rows {first} to {last} belong to no whole trajectory"
        ))
        .hint("set the last row to 1 if the trajectory ends there, or drop these rows"));
    }
    Ok(ends.split_inclusive(|&end| end).map(<[bool]>::len).collect())
}

#[cfg(test)]
mod tests;
