//! What every format is read through.

use std::path::Path;

use super::dataset::Dataset;
use super::format::Format;
use super::memory::Memory;
use super::npz::Writer;
use super::raw::RawRows;
use crate::error::Result;

/// What to take from a file that offers a choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    /// The observations that make up a state, in this order, for files with several named ones.
    /// When empty, all are taken in the order of their names, except `desired_goal`, which is the
    /// task and not part of the state.
    pub keys: Vec<String>,
}

/// An open file whose headers have been read and found sound.
///
/// Whatever is converted, dropped or left out on the way goes to `notes`, one sentence each.
pub(super) trait Reader {
    /// The format.
    fn format(&self) -> Format;

    /// The file; of a dataset in several files, the folder.
    fn path(&self) -> &Path;

    /// Bytes that the rows take in memory, at least.
    fn bytes(&self) -> u64;

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
