//! Arrays in HDF5, behind limits: nothing outside the file is opened, nothing is memory-mapped, and no
//! array may be larger than what the file's own bytes can pack.
//!
//! The `hdf5-reader` crate decodes. HDF5 stores no checksum unless its writer asked for one, so a
//! flipped bit in the values cannot be noticed here.

mod chunks;
mod guarded;
mod refused;
mod watched;

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use hdf5_reader::error::Error as Cause;
use hdf5_reader::group::Group;
use hdf5_reader::storage::DynStorage;
use hdf5_reader::{
    ByteOrder, Dataset as Array, Datatype, FileStorage, Hdf5File, OpenOptions, SliceInfo,
    SliceInfoElem,
};

use rayon::prelude::*;

use super::complaints::{
    DAMAGED, DISCRETE, flat_actions, is_actions, narrowed, not_a_matrix, not_flags, variable,
};
use super::files::open_file;
use super::npy::{self, Header, Item};
use super::rounding::Rounding;
use super::{memory, straight};
use crate::error::{Error, Result};
pub(super) use guarded::Guarded;
pub(super) use refused::refused;
use watched::{Watched, place_of};

/// Arrays of fewer bytes may be packed as tightly as they like.
const SUSPECT_SIZE: u64 = 64 << 20;
/// Recorded values compress a few times; only a bomb, or constants, compress hundreds of times.
const SUSPECT_RATIO: u64 = 100;
/// The most values in a row.
const WIDEST_ROW: usize = 1 << 20;
/// Bytes that each array counts for when many are opened; its header alone takes a few hundred.
const OBJECT: u64 = 4 << 10;
/// The largest chunk that is unpacked, in bytes.
const LARGEST_CHUNK: usize = 256 << 20;
/// Files of more bytes are read by two threads.
const LARGE: u64 = 1 << 20;
/// Values read at a time, few enough to stay in the cache of a core.
const BLOCK: usize = 1 << 16;
/// The largest description of one array, in bytes.
const LARGEST_HEADER: usize = 1 << 20;

/// An open HDF5 file.
pub(super) struct Hdf5 {
    root: Group,
    /// The file, unless the bytes are in memory.
    file: Option<File>,
    /// The largest array that is read, in bytes.
    largest: u64,
    /// Whether there is enough to read for two threads.
    large: bool,
}

impl Hdf5 {
    /// Opens a file; links that lead out of it are not followed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = open_file(path)?;
        let unreadable = |error| Error::input(format!("cannot read the file: {error}"));
        let size = file.metadata().map_err(unreadable)?.len();
        let again = file.try_clone().map_err(unreadable)?;
        let storage = FileStorage::from_file(file).map_err(|error| refused("the file", &error))?;
        Ok(Self { file: Some(again), ..Self::new(Arc::new(storage), size)? })
    }

    /// Opens `size` bytes.
    pub(super) fn new(storage: DynStorage, size: u64) -> Result<Self> {
        let storage: DynStorage = Arc::new(Watched(storage));
        let largest = size.saturating_mul(SUSPECT_RATIO).max(SUSPECT_SIZE);
        let options = OpenOptions {
            chunk_cache_bytes: 0,
            external_file_resolver: None,
            external_link_resolver: None,
            max_chunk_bytes: usize::try_from(largest).unwrap_or(usize::MAX).min(LARGEST_CHUNK),
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
        let root = file.root_group().map_err(refused)?;
        Ok(Self { root, file: None, largest, large: size > LARGE })
    }

    /// Does both, in parallel if the file is large.
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

impl Hdf5 {
    /// Refuses rows that the bytes of the file cannot pack; how many bytes they take as 32-bit floats.
    pub(super) fn check_claim(&self, key: &str, rows: usize, size: usize) -> Result<usize> {
        if size > WIDEST_ROW {
            return Err(Error::input(format!(
                "`{key}` claims {rows} rows of {size}, at most {WIDEST_ROW} values per row are read"
            ))
            .hint(DAMAGED));
        }
        let bytes = rows.checked_mul(size).and_then(|count| count.checked_mul(4));
        bytes.filter(|&bytes| bytes as u64 <= self.largest).ok_or_else(|| {
            Error::input(format!("`{key}` claims {rows} rows of {size}, more than the file packs"))
                .hint("if this is intended, save it uncompressed")
        })
    }

    /// Refuses to open more arrays than the bytes of the file can describe.
    pub(super) fn check_opened(&self, arrays: usize) -> Result<()> {
        if (arrays as u64).saturating_mul(OBJECT) <= self.largest {
            return Ok(());
        }
        Err(Error::input(format!("{arrays} arrays are named, more than the file can hold"))
            .hint("save every episode with arrays of its own"))
    }

    /// A matrix as 32-bit floats, its rows and its columns.
    pub(super) fn matrix(
        &self,
        array: &Array,
        key: &str,
        notes: &mut Vec<String>,
    ) -> Result<(Vec<f32>, usize, usize)> {
        let blocks = Blocks::of(array, key, notes)?;
        let [rows, size] = blocks.shape;
        let bytes = self.check_claim(key, rows, size)?;
        let mut values = memory::zeros(bytes / 4, key)?;
        if chunks::fill(array, key, &mut values, size)? {
            return Ok((values, rows, size));
        }
        if let (Some(file), Some(start)) = (&self.file, blocks.plain_start()?) {
            let failed = |error| refused(key, &Cause::Io(error));
            straight::fill(file, start, &mut values, |(), _| {}).map_err(failed)?;
            return Ok((values, rows, size));
        }
        let fill = |(index, target): (usize, &mut [f32])| blocks.read(index * blocks.rows, target);
        let block = blocks.rows * size;
        if self.large && bytes > LARGE as usize {
            // The first error in the order of the rows, whichever block was read first.
            let read: Vec<_> = values.par_chunks_mut(block).enumerate().map(fill).collect();
            read.into_iter().collect::<Result<()>>()?;
        } else {
            values.chunks_mut(block).enumerate().try_for_each(fill)?;
        }
        notes.extend(blocks.coarse());
        Ok((values, rows, size))
    }
}

/// A matrix, read several rows at a time: whole chunks, so that each is unpacked once.
struct Blocks<'a> {
    array: &'a Array,
    key: &'a str,
    /// What rounding loses, if its values have 64 bits.
    rounding: Option<Mutex<Rounding>>,
    shape: [usize; 2],
    /// Rows of a block.
    rows: usize,
}

impl<'a> Blocks<'a> {
    fn of(array: &'a Array, key: &'a str, notes: &mut Vec<String>) -> Result<Self> {
        let shape = shape(array, key)?.map(|side| usize::try_from(side).unwrap_or(usize::MAX));
        let wide = match array.dtype() {
            Datatype::FloatingPoint { size: 4, .. } => false,
            Datatype::FloatingPoint { size: 8, .. } => true,
            other => {
                let mut hint = format!("save `{}.astype('<f4')`", variable(key));
                if is_actions(key) {
                    hint += "; ";
                    hint += DISCRETE;
                }
                return Err(Error::input(format!(
                    "`{key}` holds {}, expected 32-bit or 64-bit floats",
                    name(other)
                ))
                .hint(hint));
            }
        };
        notes.extend(wide.then(|| narrowed(key)));
        let tall = array.chunks().and_then(|sides| sides.first().copied()).unwrap_or(1).max(1);
        let tall = tall as usize;
        let rows = (BLOCK / shape[1] / tall).max(1).saturating_mul(tall);
        // Chunks may claim to be taller than any that is unpacked.
        let rows = rows.min((LARGEST_CHUNK / 4 / shape[1]).max(1));
        let rounding = wide.then(|| Mutex::new(Rounding::new(shape[0], shape[1])));
        Ok(Self { array, key, rounding, shape, rows })
    }

    /// The note about columns that lose what they change by, once all rows were read.
    fn coarse(&self) -> Option<String> {
        let rounding = self.rounding.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        rounding.note(self.key)
    }

    /// How many blocks there are.
    fn count(&self) -> usize {
        self.shape[0].div_ceil(self.rows)
    }

    /// The byte at which the rows begin, if they are stored in the file as in memory. It is found by
    /// reading the first and the last row and watching from where.
    fn plain_start(&self) -> Result<Option<u64>> {
        let [rows, size] = self.shape;
        let little = ByteOrder::LittleEndian;
        let plain = matches!(self.array.dtype(), Datatype::FloatingPoint { size: 4, byte_order } if *byte_order == little);
        if !plain || self.array.chunks().is_some() || rows < 2 {
            return Ok(None);
        }
        let mut row = vec![0.0; size];
        let mut place = |first| place_of(4 * size, || self.read(first, &mut row));
        let (start, last) = (place(0)?, place(rows - 1)?);
        let between = 4 * ((rows - 1) * size) as u64;
        Ok(start.filter(|start| start.checked_add(between) == last))
    }

    /// Fills `target` with rows, starting at row `first`.
    fn read(&self, first: usize, target: &mut [f32]) -> Result<()> {
        let failed = |error| refused(self.key, &error);
        let [_, size] = self.shape;
        let side = |start: usize, end: usize| SliceInfoElem::Slice {
            start: start as u64,
            end: end as u64,
            step: 1,
        };
        let part = [side(first, first + target.len() / size), side(0, size)];
        let part = SliceInfo { selections: part.to_vec() };
        let short =
            || Error::input(format!("`{}` does not match its shape", self.key)).hint(DAMAGED);
        let same = |found: usize| if found == target.len() { Ok(()) } else { Err(short()) };
        if let Some(rounding) = &self.rounding {
            let numbers = self.array.read_slice::<f64>(&part).map_err(failed)?;
            let numbers = numbers.as_slice().ok_or_else(short)?;
            same(numbers.len())?;
            target.copy_from_slice(&npy::narrow(numbers, first, size, self.key)?);
            rounding.lock().unwrap_or_else(PoisonError::into_inner).see(first * size, numbers);
        } else {
            let numbers = self.array.read_slice::<f32>(&part).map_err(failed)?;
            let numbers = numbers.as_slice().ok_or_else(short)?;
            same(numbers.len())?;
            target.copy_from_slice(numbers);
        }
        Ok(())
    }
}

/// Rows and columns of a matrix.
pub(super) fn shape(array: &Array, key: &str) -> Result<[u64; 2]> {
    match *array.shape() {
        [_, 0] => Err(Error::input(format!("the rows of `{key}` have no values"))),
        [rows, size] => Ok([rows, size]),
        [_] if is_actions(key) => Err(flat_actions(key)),
        _ => Err(not_a_matrix(key, array.shape().len())),
    }
}

/// Passes the rows of a matrix to `take`, several at a time, as 32-bit floats. How many there are must
/// have been checked.
pub(super) fn each_rows(
    array: &Array,
    key: &str,
    notes: &mut Vec<String>,
    take: &mut dyn FnMut(&[f32]) -> Result<()>,
) -> Result<()> {
    let blocks = Blocks::of(array, key, notes)?;
    let [rows, size] = blocks.shape;
    let mut numbers = Vec::new();
    for index in 0..blocks.count() {
        let count = blocks.rows.min(rows - index * blocks.rows);
        numbers.resize(count * size, 0.0);
        blocks.read(index * blocks.rows, &mut numbers)?;
        take(&numbers)?;
    }
    notes.extend(blocks.coarse());
    Ok(())
}

/// Flags of any numeric type, every value 0 or 1.
pub(super) fn flags(array: &Array, key: &str) -> Result<Vec<bool>> {
    // Some writers store a column.
    let rows = match array.shape() {
        &[rows] | &[rows, 1] => rows as usize,
        shape => {
            return Err(not_flags(key, shape.len()));
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
        Datatype::FixedPoint { size, .. } => format!("{}-bit integers", 8 * size),
        Datatype::FloatingPoint { size, .. } => format!("{}-bit floats", 8 * size),
        Datatype::String { .. } | Datatype::VarLen { .. } => "text or ragged rows".into(),
        Datatype::Compound { .. } => "records of several fields".into(),
        Datatype::Enum { .. } => "named values".into(),
        _ => "something that is not a number".into(),
    }
}
