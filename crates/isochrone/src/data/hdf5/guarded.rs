//! A reader whose panics are errors: the `hdf5-reader` crate may meet bytes that its authors did not
//! expect.
//!
//! Only unwinding is caught. Running out of memory aborts, which is why claims are checked first.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::super::complaints::DAMAGED;
use super::super::dataset::Dataset;
use super::super::format::Format;
use super::super::memory::Memory;
use super::super::npz::Writer;
use super::super::raw::RawRows;
use super::super::reader::{Pieces, Reader, Widths};
use crate::error::{Error, Result};

/// A reader of HDF5.
pub(in crate::data) struct Guarded<R>(pub(in crate::data) R);

/// Does the work; a panic is an error. Whatever the work has changed is not used afterwards.
pub(in crate::data) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::input("the file cannot be read: its structure is damaged").hint(DAMAGED))
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_says_what_to_do() {
        let error = guarded::<()>(|| panic!("what no author expected")).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("its structure is damaged; hint: "), "{error}");
        assert_eq!(guarded(|| Ok(3)).unwrap(), 3);
    }
}
