//! Where the rows of a dataset are: in memory, or in plain npz files from which they are read on
//! demand.
//!
//! Nothing is memory-mapped: a file truncated while in use gives an error that names the byte, not a
//! signal. Caching recent reads is left to the operating system.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use super::files::read_at;
use super::npy::Item;
use crate::error::{Error, Result};

/// Values read at a time in a pass over all rows.
const BLOCK: usize = 1 << 16;

/// Rows of states and actions.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Store {
    /// In memory, row after row; copies share them.
    Memory(Arc<Numbers>),
    /// In files.
    Disk(RowsOnDisk),
}

/// Rows in memory.
#[derive(Debug, PartialEq)]
pub(super) struct Numbers {
    pub(super) states: Vec<f32>,
    pub(super) actions: Vec<f32>,
}

/// Rows in plain npz files.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowsOnDisk {
    /// What the user calls the data: the file or, of several, their folder or pattern.
    path: PathBuf,
    files: Arc<[PlacedRows]>,
    /// Where each trajectory begins.
    origins: Arc<[Origin]>,
    /// Bytes of memory that rows may take.
    pub(super) memory: u64,
    /// Shift and scale that give these rows mean 0 and deviation 1, once computed.
    pub(super) standard: Arc<OnceLock<[Vec<f32>; 2]>>,
}

/// A plain npz file, and where its rows are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlacedRows {
    pub(super) file: Arc<DataFile>,
    pub(super) states: ArrayPlace,
    pub(super) actions: ArrayPlace,
}

/// Which array of a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum StoredArray {
    States,
    Actions,
}

impl PlacedRows {
    fn place(&self, column: StoredArray) -> &ArrayPlace {
        match column {
            StoredArray::States => &self.states,
            StoredArray::Actions => &self.actions,
        }
    }
}

/// The first row of a trajectory: the index of its file, and the row there.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Origin {
    file: u32,
    row: u32,
}

/// A file that stays open, with what it was when it was opened.
#[derive(Debug)]
pub(super) struct DataFile {
    file: File,
    path: PathBuf,
    stamp: Stamp,
}

/// What tells that a file was written to: its length, its time, and a sample of its bytes.
type Stamp = (u64, Option<SystemTime>, blake3::Hash);

/// Pieces of a file that are sampled, spread evenly, and their bytes.
const SAMPLED: u64 = 64;
const PIECE: u64 = 1 << 10;

const CHANGED: &str = "the data were changed while in use; restore the file and resume";

impl DataFile {
    /// The open `file` at `path`, as it is now.
    pub(super) fn new(file: File, path: &Path) -> Result<Self> {
        let stamp = stamp(&file).map_err(|error| Error::disk("read", path, error))?;
        Ok(Self { file, path: path.to_owned(), stamp })
    }

    /// Refuses a file that was written to since it was opened.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        let now = stamp(&self.file).map_err(|error| Error::disk("read", &self.path, error))?;
        if now == self.stamp {
            return Ok(());
        }
        Err(Error::changed("the file was written to while its data were in use")
            .in_file(&self.path)
            .hint(CHANGED))
    }
}

fn stamp(file: &File) -> std::io::Result<Stamp> {
    let about = file.metadata()?;
    let length = about.len();
    let mut hasher = blake3::Hasher::new();
    for piece in 0..SAMPLED {
        // Up to the last byte; the pieces of a small file overlap.
        let start = (length.saturating_sub(PIECE) as u128 * u128::from(piece)
            / u128::from(SAMPLED - 1)) as u64;
        let mut bytes = vec![0; PIECE.min(length - start) as usize];
        read_at(file, &mut bytes, start)?;
        hasher.update(&bytes);
    }
    Ok((length, about.modified().ok(), hasher.finalize()))
}

impl PartialEq for DataFile {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

/// Where an array is in a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ArrayPlace {
    /// The byte at which its first row begins.
    pub(super) start: u64,
    /// Values per row after reading; 0 without an array.
    pub(super) size: usize,
    /// How values are stored: 32-bit floats, or one integer per row that says which of `size` is 1.
    pub(super) item: Item,
}

impl ArrayPlace {
    /// No array.
    pub(super) const NONE: Self = Self { start: 0, size: 0, item: Item::Float32 };

    fn row_bytes(&self) -> usize {
        if self.item == Item::Float32 { 4 * self.size } else { self.item.bytes() }
    }

    /// Reads `count` rows, starting at `row`, into `out`.
    fn read(&self, opened: &DataFile, row: u64, count: usize, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        let mut bytes = vec![0; count * self.row_bytes()];
        let at = self.start + row * self.row_bytes() as u64;
        read_at(&opened.file, &mut bytes, at).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::changed(format!(
                "row {row} at byte {at} cannot be read: the file ends before it"
            ))
            .in_file(&opened.path)
            .hint("the data were truncated while in use; restore the file and resume"),
            _ => Error::disk("read", &opened.path, error),
        })?;
        if self.item == Item::Float32 {
            out.extend(bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)));
            // Every value was finite when the file was opened.
            return match out.iter().position(|value| !value.is_finite()) {
                None => Ok(()),
                Some(at) => {
                    let (row, value) = (row + (at / self.size) as u64, out[at]);
                    Err(Error::changed(format!("row {row} holds `{value}`"))
                        .in_file(&opened.path)
                        .hint(CHANGED))
                }
            };
        }
        for item in bytes.chunks_exact(self.item.bytes()) {
            let first = out.len();
            out.resize(first + self.size, 0.0);
            let choice = item.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
            let place = usize::try_from(choice).ok().filter(|&choice| choice < self.size);
            *place.and_then(|place| out.get_mut(first + place)).ok_or_else(|| {
                Error::changed(format!(
                    "the action at row {row} is `{choice}`, but there were only {} to choose from",
                    self.size
                ))
                .in_file(&opened.path)
                .hint(CHANGED)
            })? = 1.0;
        }
        Ok(())
    }
}

impl RowsOnDisk {
    /// The rows of one file, whose trajectories begin at the rows `first`.
    pub(super) fn of(rows: PlacedRows, first: Vec<u32>, memory: u64) -> Self {
        let origin = |row| Origin { file: 0, row };
        Self {
            path: rows.file.path.clone(),
            files: Arc::from([rows]),
            origins: first.into_iter().map(origin).collect(),
            memory,
            standard: Arc::default(),
        }
    }

    /// The rows of all `parts`, one after the other, called `path`; an action has `action_size` values
    /// in all of them.
    pub(super) fn joined(path: &Path, parts: &[&Self], action_size: usize, memory: u64) -> Self {
        let (mut files, mut origins) = (Vec::new(), Vec::new());
        for part in parts {
            let before = files.len() as u32;
            let moved = |origin: &Origin| Origin { file: before + origin.file, ..*origin };
            origins.extend(part.origins.iter().map(moved));
            files.extend(part.files.iter().map(|rows| {
                let actions = ArrayPlace { size: action_size, ..rows.actions };
                PlacedRows { actions, ..rows.clone() }
            }));
        }
        Self {
            path: path.to_path_buf(),
            files: files.into(),
            origins: origins.into(),
            memory,
            standard: Arc::default(),
        }
    }

    /// The trajectories `chosen` alone.
    pub(super) fn select(&self, chosen: &[usize]) -> Self {
        let origins = chosen.iter().map(|&index| self.origins[index]).collect();
        Self { origins, standard: Arc::default(), ..self.clone() }
    }

    /// What the user calls the data.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses files that were written to since they were opened.
    pub(super) fn check_unchanged(&self) -> Result<()> {
        self.files.iter().try_for_each(|rows| rows.file.check_unchanged())
    }

    /// One row of an array: row `ahead` of trajectory `trajectory`.
    pub(super) fn row(
        &self,
        column: StoredArray,
        trajectory: usize,
        ahead: usize,
    ) -> Result<Vec<f32>> {
        let origin = self.origins[trajectory];
        let rows = &self.files[origin.file as usize];
        let place = rows.place(column);
        let mut out = Vec::with_capacity(place.size);
        if place.size > 0 {
            place.read(&rows.file, u64::from(origin.row) + ahead as u64, 1, &mut out)?;
        }
        Ok(out)
    }

    /// Passes all rows of an array to `take`, several at a time, trajectory after trajectory; `lengths`
    /// holds the rows of each.
    pub(super) fn each(
        &self,
        column: StoredArray,
        lengths: impl Iterator<Item = usize>,
        take: &mut dyn FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        let mut out = Vec::new();
        let mut give = |file: u32, stretch: Range<u64>| {
            let rows = &self.files[file as usize];
            let place = rows.place(column);
            let block = (BLOCK / place.size.max(1)).max(1);
            let mut row = stretch.start;
            while row < stretch.end && place.size > 0 {
                let count = (stretch.end - row).min(block as u64);
                place.read(&rows.file, row, count as usize, &mut out)?;
                take(&out)?;
                row += count;
            }
            Ok(())
        };
        // Trajectories that are adjacent in a file are read together.
        let (mut file, mut stretch) = (0, 0..0);
        for (&origin, length) in self.origins.iter().zip(lengths) {
            let (first, length) = (u64::from(origin.row), length as u64);
            if origin.file == file && first == stretch.end {
                stretch.end += length;
            } else {
                give(file, stretch)?;
                (file, stretch) = (origin.file, first..first + length);
            }
        }
        give(file, stretch)
    }
}
