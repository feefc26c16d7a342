//! Where the rows of a dataset are: in memory, or in a plain npz file from which they are read on
//! demand.
//!
//! Nothing is memory-mapped: a file truncated while in use gives an error that names the byte, not a
//! signal. Caching recent reads is left to the operating system.

use std::fs::File;
use std::io::ErrorKind;
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
    /// In a file.
    Disk(RowsOnDisk),
}

/// Rows in memory.
#[derive(Debug, PartialEq)]
pub(super) struct Numbers {
    pub(super) states: Vec<f32>,
    pub(super) actions: Vec<f32>,
}

/// Rows in a plain npz file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RowsOnDisk {
    pub(super) file: Arc<DataFile>,
    pub(super) states: ArrayPlace,
    pub(super) actions: ArrayPlace,
    /// The row of the file at which each trajectory begins.
    pub(super) origins: Arc<[u32]>,
    /// Bytes of memory that rows may take.
    pub(super) memory: u64,
    /// Shift and scale that give these rows mean 0 and deviation 1, once computed.
    pub(super) standard: Arc<OnceLock<[Vec<f32>; 2]>>,
}

/// A file that stays open, with its length and modification time when it was opened.
#[derive(Debug)]
pub(super) struct DataFile {
    file: File,
    path: PathBuf,
    stamp: (u64, Option<SystemTime>),
}

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

fn stamp(file: &File) -> std::io::Result<(u64, Option<SystemTime>)> {
    let about = file.metadata()?;
    Ok((about.len(), about.modified().ok()))
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
    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// One row of an array: row `ahead` of trajectory `trajectory`.
    pub(super) fn row(
        &self,
        place: &ArrayPlace,
        trajectory: usize,
        ahead: usize,
    ) -> Result<Vec<f32>> {
        let mut out = Vec::with_capacity(place.size);
        if place.size > 0 {
            let row = u64::from(self.origins[trajectory]) + ahead as u64;
            place.read(&self.file, row, 1, &mut out)?;
        }
        Ok(out)
    }

    /// Passes all rows of an array to `take`, several at a time, trajectory after trajectory; `lengths`
    /// holds the rows of each.
    pub(super) fn each(
        &self,
        place: &ArrayPlace,
        lengths: impl Iterator<Item = usize>,
        take: &mut dyn FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        if place.size == 0 {
            return Ok(());
        }
        let block = (BLOCK / place.size).max(1);
        let mut out = Vec::new();
        let mut stretch = 0..0;
        let mut give = |stretch: std::ops::Range<u64>| {
            let mut row = stretch.start;
            while row < stretch.end {
                let count = (stretch.end - row).min(block as u64);
                place.read(&self.file, row, count as usize, &mut out)?;
                take(&out)?;
                row += count;
            }
            Ok(())
        };
        // Trajectories that are adjacent in the file are read together.
        for (&origin, length) in self.origins.iter().zip(lengths) {
            let (first, length) = (u64::from(origin), length as u64);
            if first == stretch.end {
                stretch.end += length;
            } else {
                give(stretch)?;
                stretch = first..first + length;
            }
        }
        give(stretch)
    }
}
