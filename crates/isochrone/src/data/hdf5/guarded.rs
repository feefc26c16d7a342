//! A reader whose panics are errors: the `hdf5-reader` crate may meet bytes that its authors did not
//! expect.

use std::path::Path;

use super::super::dataset::Dataset;
use super::super::format::Format;
use super::super::guarded::guarded;
use super::super::memory::Memory;
use super::super::npz::Writer;
use super::super::raw::RawRows;
use super::super::reader::{Pieces, Reader, Widths};
use crate::error::Result;

/// A reader of HDF5.
pub(in crate::data) struct Guarded<R>(pub(in crate::data) R);

impl<R: Reader + Pieces> Reader for Guarded<R> {
    fn format(&self) -> Format {
        self.0.format()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn widths(&self) -> Option<Widths> {
        self.0.widths()
    }

    fn read(&mut self, notes: &mut Vec<String>) -> Result<RawRows> {
        guarded(|| self.0.read(notes))
    }

    fn pieces(&mut self) -> Option<&mut dyn Pieces> {
        Some(self)
    }
}

impl<R: Pieces> Pieces for Guarded<R> {
    fn in_place(&mut self, memory: Memory, notes: &mut Vec<String>) -> Result<Option<Dataset>> {
        self.0.in_place(memory, notes)
    }

    fn unpack(&mut self, writer: &mut Writer, notes: &mut Vec<String>) -> Result<Vec<usize>> {
        guarded(|| self.0.unpack(writer, notes))
    }
}
