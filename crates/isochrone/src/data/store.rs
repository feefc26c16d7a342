//! Where the rows of a dataset lie: in memory, or in a plain npz file from which they are read when
//! they are wanted.
//!
//! Nothing is mapped into memory: a file that is cut under way gives an error that names the byte,
//! and no signal. What was read lately is the system's to keep.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::{Normalization, npy::Item};
use crate::error::{Error, Result};

/// Numbers read at a time in a pass over all rows.
const BLOCK: usize = 1 << 16;

/// Rows of states and actions.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Store {
    /// In memory, row after row; copies share them.
    Memory(Arc<Numbers>),
    /// In a file.
    Disk(Disk),
}

/// Rows in memory.
#[derive(Debug, PartialEq)]
pub(super) struct Numbers {
    pub(super) states: Vec<f32>,
    pub(super) actions: Vec<f32>,
}

/// Rows in a plain npz file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Disk {
    pub(super) file: Arc<Opened>,
    pub(super) states: Table,
    pub(super) actions: Table,
    /// The row of the file at which each trajectory begins.
    pub(super) origins: Arc<[u32]>,
    /// Bytes that may be taken for rows in memory.
    pub(super) memory: u64,
    /// Mean and deviation of these rows, once they were asked for.
    pub(super) standard: Arc<OnceLock<Normalization>>,
}

/// A file that stays open.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) path: PathBuf,
}

impl PartialEq for Opened {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

/// Where an array stands in a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Table {
    /// The byte at which its first row begins.
    pub(super) start: u64,
    /// Numbers of a row when it is read; 0 without an array.
    pub(super) size: usize,
    /// How a number is kept: 32-bit floats, or a whole number a row that says which of `size` is 1.
    pub(super) item: Item,
}

impl Table {
    /// No array.
    pub(super) const NONE: Self = Self { start: 0, size: 0, item: Item::Float32 };

    fn row_bytes(&self) -> usize {
        if self.item == Item::Float32 { 4 * self.size } else { self.item.bytes() }
    }

    /// Reads `count` rows from `row` on into `out`.
    fn read(&self, opened: &Opened, row: u64, count: usize, out: &mut Vec<f32>) -> Result<()> {
        out.clear();
        let mut bytes = vec![0; count * self.row_bytes()];
        let at = self.start + row * self.row_bytes() as u64;
        read_at(&opened.file, &mut bytes, at).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::changed(format!(
                "row {row} at byte {at} cannot be read: the file ends before it"
            ))
            .in_file(&opened.path)
            .hint("the data were cut while they were used; restore the file and go on"),
            _ => Error::disk("read", &opened.path, error),
        })?;
        if self.item == Item::Float32 {
            out.extend(bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)));
            return Ok(());
        }
        for item in bytes.chunks_exact(self.item.bytes()) {
            let first = out.len();
            out.resize(first + self.size, 0.0);
            let choice = item.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
            let place = usize::try_from(choice).ok().filter(|&choice| choice < self.size);
            *place.and_then(|place| out.get_mut(first + place)).ok_or_else(|| {
                Error::changed(format!(
                    "the action at row {row} is `{choice}`, there were {} to choose from",
                    self.size
                ))
                .in_file(&opened.path)
                .hint("the data were changed while they were used; restore the file and go on")
            })? = 1.0;
        }
        Ok(())
    }
}

/// Reads all of `bytes` from byte `at` on, whatever else is read by the same handle.
#[cfg(unix)]
pub(super) fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

/// As on other systems.
#[cfg(windows)]
pub(super) fn read_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, at)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => {
                bytes = &mut bytes[count..];
                at += count as u64;
            }
        }
    }
    Ok(())
}

impl Disk {
    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// One row of a table; `trajectory` is the one it belongs to, `ahead` its place in it.
    pub(super) fn row(&self, table: &Table, trajectory: usize, ahead: usize) -> Result<Vec<f32>> {
        let mut out = Vec::with_capacity(table.size);
        if table.size > 0 {
            let row = u64::from(self.origins[trajectory]) + ahead as u64;
            table.read(&self.file, row, 1, &mut out)?;
        }
        Ok(out)
    }

    /// Gives all rows of a table to `take`, trajectories of these lengths one after the other, some
    /// rows at a time.
    pub(super) fn each(
        &self,
        table: &Table,
        lengths: impl Iterator<Item = usize>,
        take: &mut dyn FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        if table.size == 0 {
            return Ok(());
        }
        let block = (BLOCK / table.size).max(1);
        let mut out = Vec::new();
        let mut stretch = 0..0;
        let mut give = |stretch: std::ops::Range<u64>| {
            let mut row = stretch.start;
            while row < stretch.end {
                let count = (stretch.end - row).min(block as u64);
                table.read(&self.file, row, count as usize, &mut out)?;
                take(&out)?;
                row += count;
            }
            Ok(())
        };
        // Trajectories that follow each other in the file are read as one stretch.
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
