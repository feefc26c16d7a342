//! A matrix in chunks, each unpacked once and copied into place while the next ones are unpacked.
//!
//! Writers choose tall and narrow chunks, often one column wide, so the values of a row come from
//! different chunks: chunks that begin in the same row are kept until they can be copied side by side,
//! a few rows at a time.

use hdf5_reader::{ByteOrder, Dataset as Array, DatasetChunk, Datatype};
use rayon::prelude::*;

use super::super::complaints::DAMAGED;
use super::refused::refused;
use crate::error::{Error, Result};

/// Chunks are copied into place once they add up to this many bytes.
const ENOUGH: usize = 64 << 20;
/// Rows copied at a time, few enough to stay in the cache of a core.
const ROWS: usize = 256;

/// Fills `values`, a matrix of the array's shape; returns false, with `values` undefined, if chunks are
/// missing or the values are not little-endian 32-bit floats. Chunks that overlap are refused: unpacking
/// the same few bytes over and over would take forever.
pub(super) fn fill(array: &Array, key: &str, values: &mut [f32], size: usize) -> Result<bool> {
    let little = ByteOrder::LittleEndian;
    let plain = matches!(array.dtype(), Datatype::FloatingPoint { size: 4, byte_order } if *byte_order == little);
    if !plain || array.chunks().is_none() {
        return Ok(false);
    }
    let mut chunks = array.iter_chunks().map_err(|error| refused(key, &error))?;
    let mut next = chunks.next().transpose().map_err(|error| refused(key, &error))?;
    let (mut filled, mut band) = (0, Vec::new());
    loop {
        let (placed, unpacked) = rayon::join(
            || place(&band, key, values, size),
            || -> Result<Vec<DatasetChunk>> {
                let (mut together, mut bytes) = (Vec::new(), 0);
                while let Some(chunk) = next.take() {
                    bytes += chunk.bytes().len();
                    let first = chunk.offsets().first().copied();
                    together.push(chunk);
                    next = chunks.next().transpose().map_err(|error| refused(key, &error))?;
                    let goes_on =
                        next.as_ref().is_some_and(|next| next.offsets().first().copied() == first);
                    if !goes_on || bytes > ENOUGH {
                        break;
                    }
                }
                Ok(together)
            },
        );
        filled += placed?;
        if filled > values.len() {
            return Err(strange(key));
        }
        band = unpacked?;
        if band.is_empty() {
            return Ok(filled == values.len());
        }
    }
}

fn strange(key: &str) -> Error {
    Error::input(format!("`{key}` does not match its shape")).hint(DAMAGED)
}

/// Copies chunks that begin in the same row into place; returns the number of values copied.
fn place(band: &[DatasetChunk], key: &str, values: &mut [f32], size: usize) -> Result<usize> {
    let strange = || strange(key);
    let Some(first) = band.first() else { return Ok(0) };
    let (&[top, _], &[height, _]) = (first.offsets(), first.shape()) else {
        return Err(strange());
    };
    let rows = values.len() / size;
    let (top, height) = (top as usize, height as usize);
    if top >= rows || height == 0 || !top.is_multiple_of(height) {
        return Err(strange());
    }
    let part = &mut values[top * size..rows.min(top.saturating_add(height)) * size];
    let mut pieces = Vec::new();
    for chunk in band {
        let (&[_, left], &[_, wide]) = (chunk.offsets(), chunk.shape()) else {
            return Err(strange());
        };
        let (left, wide, numbers) = (left as usize, wide as usize, chunk.bytes().as_chunks().0);
        let aligned = wide > 0 && left.is_multiple_of(wide);
        if left >= size || !aligned || numbers.len() < part.len() / size * wide {
            return Err(strange());
        }
        pieces.push(Piece { left, wide, used: wide.min(size - left), numbers });
    }
    part.par_chunks_mut(ROWS * size).enumerate().for_each(|(at, rows)| {
        for piece in &pieces {
            piece.copy(at * ROWS, rows, size);
        }
    });
    Ok(part.len() / size * pieces.iter().map(|piece| piece.used).sum::<usize>())
}

/// The values of a chunk and the columns they belong to.
struct Piece<'a> {
    left: usize,
    /// Values per row of the chunk; those inside the matrix are used.
    wide: usize,
    used: usize,
    numbers: &'a [[u8; 4]],
}

impl Piece<'_> {
    /// Copies the rows of the chunk, starting at row `first`.
    fn copy(&self, first: usize, rows: &mut [f32], size: usize) {
        let numbers = self.numbers[first * self.wide..].chunks_exact(self.wide);
        for (row, numbers) in rows.chunks_exact_mut(size).zip(numbers) {
            let row = &mut row[self.left..][..self.used];
            row.iter_mut().zip(numbers).for_each(|(to, &number)| *to = f32::from_le_bytes(number));
        }
    }
}
