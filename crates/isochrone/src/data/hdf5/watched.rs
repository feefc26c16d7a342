//! A storage that remembers what each thread read last, to find out where rows are in a file.

use std::cell::Cell;

use hdf5_reader::error::Error as Cause;
use hdf5_reader::storage::DynStorage;
use hdf5_reader::{Storage, StorageBuffer};

thread_local! {
    static LAST: Cell<Option<(u64, usize)>> = const { Cell::new(None) };
}

/// A storage whose reads are remembered.
pub(super) struct Watched(pub(super) DynStorage);

impl Storage for Watched {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_range(&self, offset: u64, length: usize) -> Result<StorageBuffer, Cause> {
        LAST.set(Some((offset, length)));
        self.0.read_range(offset, length)
    }
}

/// The byte at which the last read of `work` began; none if that read was not `length` bytes.
pub(super) fn place_of<E>(
    length: usize,
    work: impl FnOnce() -> Result<(), E>,
) -> Result<Option<u64>, E> {
    LAST.set(None);
    work()?;
    Ok(LAST.get().filter(|&(_, found)| found == length).map(|(offset, _)| offset))
}
