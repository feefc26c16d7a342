//! What every format is read through.

use std::fmt;
use std::path::Path;

use super::dataset::Dataset;
use super::format::Format;
use super::memory::Memory;
use super::npz::Writer;
use super::raw::RawRows;
use crate::error::{Error, Result};

/// What to take from a file that offers a choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    /// The observations that make up a state, in this order, for files with several named ones.
    /// When empty, all are taken in the order of their names, except `desired_goal`, which is the
    /// task and not part of the state.
    pub keys: Vec<String>,
}

/// What all files of a dataset must have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Widths {
    /// Values per state.
    pub(super) state: usize,
    /// Values per action; 0 without actions.
    pub(super) action: usize,
    /// Whether an action is one integer that says which of several was taken.
    pub(super) discrete: bool,
}

impl fmt::Display for Widths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values per state and ", self.state)?;
        match (self.discrete, self.action) {
            (true, _) => f.write_str("discrete actions"),
            (_, 0) => f.write_str("no actions"),
            (_, count) => write!(f, "{count} per action"),
        }
    }
}

impl Widths {
    /// Refuses two files of one dataset whose rows differ in size.
    pub(super) fn agree(first: (&Path, Self), other: (&Path, Self)) -> Result<()> {
        if first.1 == other.1 {
            return Ok(());
        }
        let named = |(path, widths): (&Path, Self)| format!("`{}` has {widths}", path.display());
        Err(Error::input(format!("{}, but {}", named(first), named(other)))
            .hint("name only files that belong together, by a folder or a pattern"))
    }
}

/// An open file whose headers have been read and found sound.
///
/// Whatever is converted, dropped or left out on the way goes to `notes`, one sentence each.
pub(super) trait Reader {
    /// The format.
    fn format(&self) -> Format;

    /// The file; of a dataset in several files that are read together, the folder or pattern.
    fn path(&self) -> &Path;

    /// Bytes that the rows take in memory, at least.
    fn bytes(&self) -> u64;

    /// The sizes of its rows; `None` for a format that tells them only as it is read.
    fn widths(&self) -> Option<Widths>;

    /// Reads all rows into memory.
    fn read(&mut self, notes: &mut Vec<String>) -> Result<RawRows>;

    /// How the rows are read when they do not fit into memory; none for a format that cannot.
    fn pieces(&mut self) -> Option<&mut dyn Pieces>;
}

/// A file that can be read a few rows at a time; every value is checked on the way.
pub(super) trait Pieces {
    /// The data with their rows left where they are; none if they must be unpacked first.
    fn in_place(&mut self, memory: Memory, notes: &mut Vec<String>) -> Result<Option<Dataset>>;

    /// Writes the rows to `writer`, a few at a time; returns the rows of each trajectory.
    fn unpack(&mut self, writer: &mut Writer, notes: &mut Vec<String>) -> Result<Vec<usize>>;
}
