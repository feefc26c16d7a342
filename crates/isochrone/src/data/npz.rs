//! Trajectories in NumPy's npz: `states`, `terminals` and, if known, `actions`.
//!
//! `states` is rows × n (`observations` means the same), `terminals` is 1 on the last row of each
//! trajectory and 0 elsewhere, `actions` is rows × m within [−1, 1], or one integer per row that says
//! which of n discrete actions was taken. Other keys are ignored.
//! The layout is OGBench's. Files may be hostile: see [`read`].

mod keys;
mod write;

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use write::{NamedArray, write, write_with};
pub(super) use write::{Writer, sync_folder_of};

use super::archive::Archive;
use super::complaints::{Shape, narrowed, not_flags, same_rows};
use super::dataset::{Dataset, check_choices, check_numbers, first_rows};
use super::files::open_file;
use super::format::Format;
use super::memory::Memory;
use super::npy;
use super::raw::{RawRows, choice};
use super::reader::{Pieces, Reader, Widths};
use super::store::{ArrayPlace, DataFile, PlacedRows, RowsOnDisk, Store};
use crate::error::{Error, Result};
use keys::{ACTIONS, TERMINALS, VALIDS, find};

/// Extensions of pickles.
const PICKLES: [&str; 6] = ["pkl", "pickle", "pt", "pth", "joblib", "ckpt"];

/// Reads a dataset from an npz file, as `numpy.savez` and `numpy.savez_compressed` write it.
///
/// Whatever the file holds, reading ends with the data or with an error, in memory bounded by the
/// file's own size and what its packed bytes can hold.
///
/// # Errors
/// Every mistake has its own message with the file, the key and the row: a file that is not npz, a
/// pickle, a missing or misspelled key, a wrong dtype or shape, rows that do not match, flags other
/// than 0 and 1, rows after the last terminal, and everything that [`Dataset::new`] refuses.
pub fn read(path: &Path) -> Result<Dataset> {
    refuse_pickle_by_name(path)
        .and_then(|()| NpzReader::open(path))
        .and_then(|mut reader| reader.read(&mut Vec::new()))
        .and_then(RawRows::check)
        .map_err(|error| error.in_file(path))
}

/// Refuses a file whose extension says that it is a pickle.
pub(super) fn refuse_pickle_by_name(path: &Path) -> Result<()> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !PICKLES.contains(&ending.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(Error::input(format!("`.{ending}` files are pickles, expected npz")).hint(npy::CONVERT))
}

/// Reads one npz file.
pub(super) struct NpzReader<R = File> {
    path: PathBuf,
    archive: Archive<R>,
    states: Matrix,
    actions: Option<Matrix>,
    /// Rows of each trajectory, once they are known.
    lengths: Option<Vec<usize>>,
}

impl NpzReader {
    /// Opens a file and reads the headers of its arrays.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::new(path.to_path_buf(), Archive::open(path)?)
    }
}

impl<R: Read + Seek + Send> NpzReader<R> {
    fn new(path: PathBuf, mut archive: Archive<R>) -> Result<Self> {
        let key = keys::check(&mut archive)?;
        let missing = || Error::input(format!("no key `{key}`"));
        let states = Matrix::of(&mut archive, key)?.ok_or_else(missing)?;
        let actions = Matrix::of(&mut archive, ACTIONS)?;
        if let Some(actions) = &actions {
            same_rows(actions.shape(), states.shape())?;
        }
        Ok(Self { path, archive, states, actions, lengths: None })
    }

    /// Reads states through this handle and, at the same time, everything else through `other`;
    /// arrays that lie unpacked in `file` are read from there.
    fn read_with(
        &mut self,
        other: &mut Archive<R>,
        file: Option<&File>,
        notes: &mut Vec<String>,
    ) -> Result<RawRows> {
        let (archive, states) = (&mut self.archive, &self.states);
        let (mut of_states, mut of_actions) = (Vec::new(), Vec::new());
        let read_rest = || -> Result<_> {
            let values = |actions: &Matrix| actions.values(other, None, &mut of_actions);
            let actions = self.actions.as_ref().map(values).transpose()?.unwrap_or_default();
            Ok((actions, Flags::read(other)?))
        };
        let read_states = || states.values(archive, file, &mut of_states);
        let (values, rest) = rayon::join(read_states, read_rest);
        let (values, (actions, flags)) = (values?, rest?);
        notes.extend(self.rounded().chain(of_states).chain(of_actions));
        Ok(RawRows {
            lengths: flags.lengths(states.shape(), notes)?,
            states: values,
            state_size: states.size,
            states_key: states.key.to_owned(),
            actions,
            action_size: self.widths().action,
            discrete: self.widths().discrete,
            ..RawRows::default()
        })
    }

    fn widths(&self) -> Widths {
        Widths {
            state: self.states.size,
            action: self.actions.as_ref().map_or(0, |actions| actions.size),
            discrete: self.actions.as_ref().is_some_and(|actions| actions.discrete),
        }
    }

    /// The notes about arrays whose values are rounded.
    fn rounded(&self) -> impl Iterator<Item = String> {
        let arrays = [Some(&self.states), self.actions.as_ref()].into_iter().flatten();
        let wide = |array: &&Matrix| array.header.item == npy::Item::Float64;
        arrays.filter(wide).map(|array| narrowed(array.key))
    }

    /// The rows of each trajectory; the first to ask also learns what there is to note.
    fn lengths(&mut self, notes: &mut Vec<String>) -> Result<Vec<usize>> {
        if let Some(lengths) = &self.lengths {
            return Ok(lengths.clone());
        }
        notes.extend(self.rounded());
        let lengths = Flags::read(&mut self.archive)?.lengths(self.states.shape(), notes)?;
        self.lengths = Some(lengths.clone());
        Ok(lengths)
    }

    /// Checks every value and the checksums; returns the values per action.
    fn check(&mut self, notes: &mut Vec<String>) -> Result<usize> {
        self.states.each(&mut self.archive, notes, |_| Ok(()))?;
        match &self.actions {
            None => Ok(0),
            Some(actions) if actions.discrete => {
                let mut most = 0;
                actions.each_choice(&mut self.archive, |choice| {
                    most = most.max(choice as usize + 1);
                    Ok(())
                })?;
                check_choices(most)?;
                Ok(most)
            }
            Some(actions) => {
                actions.each(&mut self.archive, notes, |_| Ok(()))?;
                Ok(actions.size)
            }
        }
    }
}

impl Reader for NpzReader {
    fn format(&self) -> Format {
        Format::Npz
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn bytes(&self) -> u64 {
        self.states.bytes().saturating_add(self.actions.as_ref().map_or(0, Matrix::bytes))
    }

    fn widths(&self) -> Option<Widths> {
        Some(self.widths())
    }

    fn read(&mut self, notes: &mut Vec<String>) -> Result<RawRows> {
        // Two handles: arrays are unpacked on two threads.
        let mut other = self.archive.again(open_file(&self.path)?);
        let file = open_file(&self.path)?;
        self.read_with(&mut other, Some(&file), notes)
    }

    fn pieces(&mut self) -> Option<&mut dyn Pieces> {
        Some(self)
    }
}

impl Pieces for NpzReader {
    fn in_place(&mut self, memory: Memory, notes: &mut Vec<String>) -> Result<Option<Dataset>> {
        let lengths = self.lengths(notes)?;
        let actions = self.actions.as_ref().map_or(Some(ArrayPlace::NONE), Matrix::place);
        let (Some(states), Some(actions)) = (self.states.place(), actions) else {
            return Ok(None);
        };
        // Before every value is checked: what is written to it from here on is noticed.
        let file = DataFile::new(open_file(&self.path)?, &self.path)?;
        let size = self.check(notes)?;
        let actions = ArrayPlace { size, ..actions };
        let rows = PlacedRows { file: Arc::new(file), states, actions };
        let disk = RowsOnDisk::of(rows, first_rows(&lengths), memory.0);
        let dataset = Dataset::of(Store::Disk(disk), (self.states.size, size), &lengths)?;
        Ok(Some(Dataset { one_hot: self.widths().discrete, ..dataset }))
    }

    fn unpack(&mut self, writer: &mut Writer, notes: &mut Vec<String>) -> Result<Vec<usize>> {
        let lengths = self.lengths(notes)?;
        let (archive, states) = (&mut self.archive, &self.states);
        writer.states([states.rows, states.size], |take| states.each(archive, notes, take))?;
        match &self.actions {
            Some(actions) if actions.discrete => {
                writer.choices(actions.rows, |take| actions.each_choice(archive, take))?;
            }
            Some(actions) => {
                let shape = [actions.rows, actions.size];
                writer.actions(shape, |take| actions.each(archive, notes, take))?;
            }
            None => {}
        }
        Ok(lengths)
    }
}

/// One array of the file, by its header.
struct Matrix {
    key: &'static str,
    entry: usize,
    header: npy::Header,
    rows: usize,
    size: usize,
    /// Whether a row is one integer that says which action was taken.
    discrete: bool,
    /// The byte at which the entry begins, if it is not packed.
    start: Option<u64>,
}

impl Matrix {
    fn of<R: Read + Seek>(archive: &mut Archive<R>, key: &'static str) -> Result<Option<Self>> {
        let Some(entry) = find(archive, key) else { return Ok(None) };
        let start = archive.plain_start(entry)?;
        let header = archive.read(entry, |reader, about| npy::header(reader, key, about.size))?;
        let numbered = key == ACTIONS && header.item.is_whole();
        let (rows, size) = match header.shape[..] {
            [rows] if numbered => (rows, 1),
            _ => header.matrix(key)?,
        };
        let discrete = numbered && size == 1;
        Ok(Some(Self { key, entry, header, rows, size, discrete, start }))
    }

    fn shape(&self) -> Shape<'static> {
        Shape { key: self.key, rows: self.rows, size: Some(self.size) }
    }

    /// Bytes of its rows in memory, at least.
    fn bytes(&self) -> u64 {
        (self.rows as u64).saturating_mul(4 * self.size as u64)
    }

    /// Where the rows are read from, if they can be read in place.
    fn place(&self) -> Option<ArrayPlace> {
        let plain = self.discrete || self.header.item == npy::Item::Float32;
        let start = self.start.filter(|_| plain)? + self.header.length;
        let item = if self.discrete { self.header.item } else { npy::Item::Float32 };
        Some(ArrayPlace { start, size: self.size, item })
    }

    /// Reads the values through `take`, after the header.
    fn read<R: Read + Seek, T>(
        &self,
        archive: &mut Archive<R>,
        take: impl FnOnce(&mut dyn Read) -> Result<T>,
    ) -> Result<T> {
        archive.read(self.entry, |reader, _| {
            npy::skip_header(reader, &self.header, self.key)?;
            take(reader)
        })
    }

    /// All values; `file` is where unpacked ones are read from.
    fn values<R: Read + Seek>(
        &self,
        archive: &mut Archive<R>,
        file: Option<&File>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<f32>> {
        let (header, key) = (&self.header, self.key);
        let many = header.item == npy::Item::Float32 && header.count >= npy::MANY;
        if let (Some(file), Some(start), true) = (file, self.start, many) {
            let checksum = archive.entries()[self.entry].checksum;
            return npy::straight(file, start, checksum, header, key);
        }
        self.read(archive, |reader| {
            if self.discrete {
                let wide = npy::wide(reader, header, key)?;
                return Ok(wide.into_iter().map(|value| value as f32).collect());
            }
            npy::numbers(reader, header, key, notes)
        })
    }

    /// Passes all values to `take`, row after row, and checks each.
    fn each<R: Read + Seek>(
        &self,
        archive: &mut Archive<R>,
        notes: &mut Vec<String>,
        mut take: impl FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        let mut before = 0;
        self.read(archive, |reader| {
            npy::each_number(reader, &self.header, self.key, notes, &mut |numbers| {
                check_numbers(self.key, numbers, self.size, before, self.key == ACTIONS)?;
                before += numbers.len() as u64;
                take(numbers)
            })
        })
    }

    /// Passes the action that each row took to `take`.
    fn each_choice<R: Read + Seek>(
        &self,
        archive: &mut Archive<R>,
        mut take: impl FnMut(u32) -> Result<()>,
    ) -> Result<()> {
        let mut row = 0;
        self.read(archive, |reader| {
            npy::each_wide(reader, &self.header, self.key, &mut |value| {
                let choice = choice(row, value)?;
                row += 1;
                take(choice)
            })
        })
    }
}

/// The flags that say where trajectories end.
struct Flags {
    ends: Vec<bool>,
    valid: Option<Vec<bool>>,
}

impl Flags {
    fn read<R: Read + Seek>(archive: &mut Archive<R>) -> Result<Self> {
        let mut flags = |key: &str| -> Result<Option<Vec<bool>>> {
            let Some(entry) = find(archive, key) else { return Ok(None) };
            let read = archive.read(entry, |reader, about| {
                let header = npy::header(reader, key, about.size)?;
                if header.shape.len() != 1 {
                    return Err(not_flags(key, header.shape.len()));
                }
                npy::flags(reader, &header, key)
            });
            read.map(Some)
        };
        Ok(Self { ends: flags(TERMINALS)?.unwrap_or_default(), valid: flags(VALIDS)? })
    }

    /// The rows of each trajectory.
    fn lengths(self, states: Shape<'_>, notes: &mut Vec<String>) -> Result<Vec<usize>> {
        let flags = |key, found: &[bool]| Shape { key, rows: found.len(), size: None };
        same_rows(flags(TERMINALS, &self.ends), states)?;
        let Some(valid) = self.valid else { return lengths(&self.ends) };
        same_rows(flags(VALIDS, &valid), states)?;
        let ends = last_rows(&self.ends, &valid)?;
        notes.push("`valids` marks OGBench's compact form; trajectories end where it is 0".into());
        lengths(&ends)
    }
}

/// The last rows in OGBench's compact form: `valids` is 0 there, and `terminals` is 1 there and on
/// the row before.
fn last_rows(terminals: &[bool], valid: &[bool]) -> Result<Vec<bool>> {
    let ends: Vec<bool> = valid.iter().map(|valid| !valid).collect();
    for (row, &terminal) in terminals.iter().enumerate() {
        let expected = ends[row] || ends.get(row + 1).is_some_and(|&end| end);
        if terminal != expected {
            return Err(Error::input(format!(
                "`{TERMINALS}` row {row} is {}, expected {}: it must be 1 where `{VALIDS}` is 0 and \
                 on the row before",
                u8::from(terminal),
                u8::from(expected)
            ))
            .hint("drop `valids` if `terminals` alone marks the last rows"));
        }
    }
    Ok(ends)
}

/// The rows of each trajectory, from `terminals`: true on the last row of each.
///
/// # Errors
/// The last row does not end a trajectory.
pub fn lengths(ends: &[bool]) -> Result<Vec<usize>> {
    if ends.last() == Some(&false) {
        let last = ends.len() - 1;
        let Some(before) = ends.iter().rposition(|&end| end) else {
            return Err(Error::input(format!(
                "`{TERMINALS}` is 0 on all {} rows: no trajectory ends",
                ends.len()
            ))
            .hint(
                "set it to 1 on the last row of each trajectory; for a single one: `terminals[-1] = 1`",
            ));
        };
        return Err(Error::input(format!(
            "`{TERMINALS}` row {last} is 0: the trajectory of rows {} to {last} does not end",
            before + 1
        ))
        .hint("set the last row to 1 if the trajectory ends there, or drop these rows"));
    }
    Ok(ends.split_inclusive(|&end| end).map(<[bool]>::len).collect())
}

#[cfg(test)]
mod tests;
