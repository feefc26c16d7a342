//! Arrays in HDF5, behind limits: nothing outside the file is opened, nothing is mapped, and no
//! array may be larger than what the file's own bytes can pack.
//!
//! The decoding is the `hdf5-reader` crate's. HDF5 keeps no sum of its numbers unless its writer
//! asked for one, so a flipped bit in them cannot be noticed here.

use std::path::Path;
use std::sync::Arc;

use hdf5_reader::error::Error as Cause;
use hdf5_reader::group::Group;
use hdf5_reader::storage::DynStorage;
use hdf5_reader::{
    ByteOrder, Dataset as Array, DatasetChunk, Datatype, FileStorage, Hdf5File, OpenOptions,
};

use super::door::{self, narrowed};
use super::npy::{self, Header, Item};
use crate::error::{Error, Result};

/// Below this many bytes an array may be packed as tight as it likes.
const SUSPECT_SIZE: u64 = 64 << 20;
/// Recorded numbers pack a few times; only a bomb, or constants, hundreds of times.
const SUSPECT_RATIO: u64 = 100;
/// The largest chunk that is unpacked, in bytes.
const LARGEST_CHUNK: usize = 256 << 20;
/// Files of more bytes are read by two threads.
const LARGE: u64 = 1 << 20;
/// The largest description of one array, in bytes.
const LARGEST_HEADER: usize = 1 << 20;
const DAMAGED: &str = "the file is cut or damaged; copy or save it again";

/// An HDF5 file that is open for reading.
pub(super) struct Hdf5 {
    root: Group,
    /// The largest array that is read, in bytes.
    largest: u64,
    /// Whether there is enough to read for two threads.
    large: bool,
}

impl Hdf5 {
    /// Opens a file; links that lead out of it are not followed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = door::open_file(path)?;
        let unreadable = |error| Error::input(format!("cannot read the file: {error}"));
        let size = file.metadata().map_err(unreadable)?.len();
        let storage = FileStorage::from_file(file).map_err(|error| refused("the file", &error))?;
        Self::new(Arc::new(storage), size)
    }

    /// Opens `size` bytes.
    pub(super) fn new(storage: DynStorage, size: u64) -> Result<Self> {
        let largest = size.saturating_mul(SUSPECT_RATIO).max(SUSPECT_SIZE);
        let options = OpenOptions {
            chunk_cache_bytes: 0,
            external_file_resolver: None,
            external_link_resolver: None,
            max_chunk_bytes: LARGEST_CHUNK,
            max_read_bytes: usize::try_from(largest).unwrap_or(usize::MAX),
            max_object_header_bytes: LARGEST_HEADER,
            ..OpenOptions::default()
        };
        let refused = |error| refused("the file", &error);
        let file = Hdf5File::from_storage_with_options(storage, options).map_err(refused)?;
        let end = file.superblock().eof_address;
        if end > size {
            return Err(Error::input(format!(
                "the file says it has {end} bytes, {size} are there"
            ))
            .hint(DAMAGED));
        }
        Ok(Self { root: file.root_group().map_err(refused)?, largest, large: size > LARGE })
    }

    /// Does both, at the same time where the file is large.
    pub(super) fn both<A: Send, B: Send>(
        &self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        if self.large { rayon::join(one, other) } else { (one(), other()) }
    }

    /// The names of the groups and of the arrays at the root.
    pub(super) fn names(&self) -> Result<(Vec<String>, Vec<String>)> {
        self.root.member_names().map_err(|error| refused("the root", &error))
    }

    /// The group at the root called `name`.
    pub(super) fn group(&self, name: &str) -> Result<Group> {
        self.root.group(name).map_err(|error| refused(name, &error))
    }

    /// The array at the root called `key`.
    pub(super) fn array(&self, key: &str) -> Result<Array> {
        self.root.dataset(key).map_err(|error| refused(key, &error))
    }
}

/// The complaint about what the crate refused.
pub(super) fn refused(key: &str, error: &Cause) -> Error {
    use Cause::{Context, ResourceLimit, UnsupportedFilter};
    let mut cause = error;
    while let Context { source, .. } = cause {
        cause = source;
    }
    let text = cause.to_string().to_lowercase();
    let complaint = Error::input(format!("`{}` cannot be read: {text}", key.escape_debug()));
    complaint.hint(match cause {
        UnsupportedFilter(_) => "save it with `compression=\"gzip\"`, or unpacked",
        ResourceLimit(_) => "if the file is honest, save it unpacked",
        _ => DAMAGED,
    })
}

impl Hdf5 {
    /// A matrix of numbers as 32-bit floats, its rows and its columns.
    pub(super) fn matrix(
        &self,
        array: &Array,
        key: &str,
        notes: &mut Vec<String>,
    ) -> Result<(Vec<f32>, usize, usize)> {
        let &[rows, size] = array.shape() else {
            return Err(npy::not_a_matrix(key, array.shape().len()));
        };
        if size == 0 {
            return Err(Error::input(format!("`{key}` has no numbers in a row")));
        }
        let failed = |error| refused(key, &error);
        let values = match array.dtype() {
            Datatype::FloatingPoint { size: 4, byte_order: ByteOrder::LittleEndian } => {
                self.numbers(array, key, [rows, size])?
            }
            Datatype::FloatingPoint { size: 4, .. } => {
                array.read_array_parallel::<f32>().map_err(failed)?.into_raw_vec_and_offset().0
            }
            Datatype::FloatingPoint { size: 8, .. } => {
                notes.push(narrowed(key));
                let wide = array.read_array_parallel::<f64>().map_err(failed)?;
                npy::narrow(wide.as_slice().unwrap_or_default(), size as usize, key)?
            }
            other => {
                return Err(Error::input(format!(
                    "`{key}` holds {}, expected 32-bit or 64-bit floats",
                    name(other)
                ))
                .hint(format!("save `{key}.astype('<f4')`")));
            }
        };
        let (rows, size) = (rows as usize, size as usize);
        if Some(values.len()) != rows.checked_mul(size) {
            return Err(Error::input(format!("`{key}` is not what its shape says")).hint(DAMAGED));
        }
        Ok((values, rows, size))
    }

    /// Little-endian 32-bit numbers, chunk by chunk.
    fn numbers(&self, array: &Array, key: &str, [rows, size]: [u64; 2]) -> Result<Vec<f32>> {
        let failed = |error| refused(key, &error);
        let whole = || array.read_array::<f32>().map(|array| array.into_raw_vec_and_offset().0);
        if array.chunks().is_none() {
            return whole().map_err(failed);
        }
        let bytes = rows.checked_mul(size).and_then(|count| count.checked_mul(4));
        let count = bytes.filter(|&bytes| bytes <= self.largest).map(|bytes| bytes as usize / 4);
        let count = count.ok_or_else(|| {
            Error::input(format!("`{key}` claims {rows} rows of {size}, more than the file packs"))
                .hint("if the file is honest, save it unpacked")
        })?;
        let mut values: Vec<f32> = Vec::new();
        values.try_reserve_exact(count).map_err(|_| {
            Error::memory(format!("`{key}` has {count} numbers, too many for the memory"))
        })?;
        values.resize(count, 0.0);
        let mut found = 0;
        for chunk in array.iter_chunks().map_err(failed)? {
            found += place(&chunk.map_err(failed)?, &mut values, [rows as usize, size as usize]);
        }
        if found == count {
            return Ok(values);
        }
        // Chunks that were never written hold the file's own filling.
        whole().map_err(failed)
    }
}

/// Puts the numbers of a chunk where they belong, those beyond the border left out; how many.
fn place(chunk: &DatasetChunk, values: &mut [f32], [rows, size]: [usize; 2]) -> usize {
    let (&[first, left], &[high, wide]) = (chunk.offsets(), chunk.shape()) else {
        return 0;
    };
    let [first, left, high, wide] = [first, left, high, wide].map(|number| number as usize);
    let inside = wide.min(size.saturating_sub(left));
    let high = high.min(rows.saturating_sub(first));
    if inside == 0 || high == 0 {
        return 0;
    }
    let numbers = chunk.bytes().as_chunks::<4>().0;
    let rows_from = numbers.chunks_exact(wide).take(high);
    let rows_to = values[first * size..].chunks_exact_mut(size);
    let mut placed = 0;
    for (to, from) in rows_to.zip(rows_from) {
        for (to, &from) in to[left..][..inside].iter_mut().zip(from) {
            *to = f32::from_le_bytes(from);
        }
        placed += inside;
    }
    placed
}

/// Flags of any number type, every value 0 or 1.
pub(super) fn flags(array: &Array, key: &str) -> Result<Vec<bool>> {
    // Some writers keep a column.
    let rows = match array.shape() {
        &[rows] | &[rows, 1] => rows as usize,
        shape => {
            let found = shape.len();
            return Err(Error::input(format!("`{key}` has {found} dimensions, expected 1"))
                .hint(format!("save `{key}.reshape(-1)`")));
        }
    };
    let item = item(array.dtype()).ok_or_else(|| {
        Error::input(format!("`{key}` holds {}, expected flags: 0 or 1", name(array.dtype())))
    })?;
    let bytes = array.read_native_bytes().map_err(|error| refused(key, &error))?;
    npy::flags(&mut &bytes[..], &Header::of_flags(item, rows), key)
}

/// How a flag is stored; `h5py` writes a bool as an enumeration of two names.
fn item(kind: &Datatype) -> Option<Item> {
    match kind {
        Datatype::Enum { base, .. } => item(base),
        Datatype::FixedPoint { size: 1, .. } | Datatype::Bitfield { size: 1, .. } => {
            Some(Item::Byte)
        }
        Datatype::FixedPoint { size: 4, .. } => Some(Item::Int32),
        Datatype::FixedPoint { size: 8, .. } => Some(Item::Int64),
        Datatype::FloatingPoint { size: 4, .. } => Some(Item::Float32),
        Datatype::FloatingPoint { size: 8, .. } => Some(Item::Float64),
        _ => None,
    }
}

fn name(kind: &Datatype) -> String {
    match kind {
        Datatype::FixedPoint { size, .. } => format!("{}-bit whole numbers", 8 * size),
        Datatype::FloatingPoint { size, .. } => format!("{}-bit floats", 8 * size),
        Datatype::String { .. } | Datatype::VarLen { .. } => "text or ragged rows".into(),
        Datatype::Compound { .. } => "records of several fields".into(),
        Datatype::Enum { .. } => "named values".into(),
        _ => "something that is no number".into(),
    }
}
