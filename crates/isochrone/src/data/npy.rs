//! One array of numbers: NumPy's npy format, read strictly and written plainly.
//!
//! `\x93NUMPY`, version, header length, `{'descr': '<f4', 'fortran_order': False, 'shape': (r, c), }`,
//! then r · c values, little-endian. Nothing is allocated before
//! header bytes + product of the shape × item size = bytes present.
//! Source: NumPy, "NEP 1 — a simple file format for NumPy arrays".

mod header;

use std::fs::File;
use std::io::{Read, Write};
use std::sync::mpsc::sync_channel;

pub(super) use header::{CONVERT, Header, Item, header, skip_header};
use header::{MAGIC, fill, unreadable};

use crc32fast::Hasher as Checksum;

use super::complaints::variable;
use super::files::read_at;
use super::rounding::Rounding;
use super::{memory, straight};
use crate::error::{Error, Result};
use crate::pages;

/// Bytes decoded at a time; a multiple of every item size.
const CHUNK: usize = 1 << 16;
/// Arrays of this many values or more are read by several threads.
pub(super) const MANY: usize = 1 << 18;
/// Bytes handed from one thread to the other at a time; a multiple of a value's size.
const BLOCK: usize = 1 << 18;
const ALIGNMENT: usize = 64;

/// Reads an array of floats as 32-bit values.
pub(super) fn numbers(
    reader: &mut dyn Read,
    header: &Header,
    key: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<f32>> {
    let values = room(header, key)?;
    if header.count < MANY || header.item != Item::Float32 {
        let mut values = values;
        each_number(reader, header, key, notes, &mut |numbers| {
            values.extend_from_slice(numbers);
            Ok(())
        })?;
        return Ok(values);
    }
    piped(reader, values, header.count, key)
}

/// Reads an array of 32-bit floats that lies unpacked in a file, from byte `start` on, with all
/// threads; its bytes must have the checksum.
pub(super) fn straight(
    file: &File,
    start: u64,
    checksum: u32,
    header: &Header,
    key: &str,
) -> Result<Vec<f32>> {
    let before = header.length;
    let mut bytes = vec![0; before as usize];
    read_at(file, &mut bytes, start).map_err(|error| unreadable(key, error))?;
    let mut values = memory::zeros(header.count, key)?;
    let parts = straight::fill(file, start + before, &mut values, Checksum::update);
    let mut sum = Checksum::new();
    sum.update(&bytes);
    parts.map_err(|error| unreadable(key, error))?.iter().for_each(|part| sum.combine(part));
    if sum.finalize() == checksum {
        return Ok(values);
    }
    Err(unreadable(key, std::io::Error::other("invalid checksum")))
}

/// Reads and unpacks on this thread and stores the values on another, which is where memory is touched
/// for the first time.
fn piped(reader: &mut dyn Read, mut values: Vec<f32>, count: usize, key: &str) -> Result<Vec<f32>> {
    /// Blocks in flight.
    const UNDER_WAY: usize = 8;
    std::thread::scope(|scope| {
        let (full, blocks) = sync_channel::<Vec<u8>>(UNDER_WAY);
        let (empty, spare) = sync_channel::<Vec<u8>>(UNDER_WAY);
        let place = scope.spawn(move || {
            for block in blocks {
                let numbers = block.as_chunks::<4>().0.iter();
                values.extend(numbers.map(|&bytes| f32::from_le_bytes(bytes)));
                // A block that finds no room is dropped.
                empty.try_send(block).ok();
            }
            values
        });
        let mut left = 4 * count;
        let mut read = || -> Result<()> {
            while left > 0 {
                let mut block = spare.try_recv().unwrap_or_default();
                block.resize(BLOCK.min(left), 0);
                fill(reader, &mut block, key)?;
                left -= block.len();
                if full.send(block).is_err() {
                    break;
                }
            }
            check_end(reader, key)
        };
        let read = read();
        drop(full);
        match place.join() {
            Ok(values) => read.map(|()| values),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Gives the numbers of an array of floats, as 32-bit, to `take`, some at a time; what rounding loses
/// goes to `notes`.
pub(super) fn each_number(
    reader: &mut dyn Read,
    header: &Header,
    key: &str,
    notes: &mut Vec<String>,
    take: &mut dyn FnMut(&[f32]) -> Result<()>,
) -> Result<()> {
    let mut block = Vec::with_capacity(CHUNK / 4);
    let mut give = |block: &mut Vec<f32>| {
        take(block)?;
        block.clear();
        Ok(())
    };
    match header.item {
        Item::Float32 => chunks(reader, header.count, key, |items: &[[u8; 4]]| {
            block.extend(items.iter().map(|&bytes| f32::from_le_bytes(bytes)));
            give(&mut block)
        }),
        Item::Float64 => {
            let columns = header.shape.last().copied().unwrap_or(1).max(1);
            let mut rounding = Rounding::new(header.count / columns, columns);
            let (mut before, mut wide) = (0, Vec::with_capacity(CHUNK / 8));
            chunks(reader, header.count, key, |items: &[[u8; 8]]| {
                wide.clear();
                wide.extend(items.iter().map(|&bytes| f64::from_le_bytes(bytes)));
                rounding.see(before, &wide);
                for (at, &value) in wide.iter().enumerate() {
                    block.push(narrowed(before + at, value, columns, key)?);
                }
                before += items.len();
                give(&mut block)
            })?;
            notes.extend(rounding.note(key));
            Ok(())
        }
        other => {
            let found = other.name();
            Err(Error::input(format!("`{key}` has dtype `{found}`, expected `<f4` or `<f8`"))
                .hint(format!("save `{}.astype('<f4')`", variable(key))))
        }
    }
}

/// 64-bit values as 32-bit; the first of them is in row `first`.
#[cfg(any(feature = "hdf5", feature = "parquet"))]
pub(super) fn narrow(values: &[f64], first: usize, columns: usize, key: &str) -> Result<Vec<f32>> {
    let place = |at: usize| first * columns + at;
    values.iter().enumerate().map(|(at, &value)| narrowed(place(at), value, columns, key)).collect()
}

fn narrowed(at: usize, value: f64, columns: usize, key: &str) -> Result<f32> {
    let narrow = value as f32;
    if value.is_finite() && !narrow.is_finite() {
        let (row, column) = (at / columns, at % columns);
        let place = format!("`{key}` row {row} column {column} is `{value:e}`");
        return Err(Error::input(format!("{place}, too large for 32 bits"))
            .hint("scale the column, or mend the value"));
    }
    Ok(narrow)
}

/// Reads an array of any known dtype in full precision.
pub(super) fn wide(reader: &mut dyn Read, header: &Header, key: &str) -> Result<Vec<f64>> {
    decode(reader, header, key, |_, value| Ok(value))
}

/// Reads an array of flags: any known dtype, every value 0 or 1.
pub(super) fn flags(reader: &mut dyn Read, header: &Header, key: &str) -> Result<Vec<bool>> {
    decode(reader, header, key, |row, value| {
        if value == 0.0 || value == 1.0 {
            return Ok(value == 1.0);
        }
        Err(Error::input(format!("`{key}` row {row} is `{value}`, expected 0 or 1"))
            .hint(format!("`{key}` is 1 on the last row of each trajectory and 0 elsewhere")))
    })
}

/// Room for all values of an array, or an error if there is not enough memory.
fn room<T>(header: &Header, key: &str) -> Result<Vec<T>> {
    pages::room(header.count).ok_or_else(|| {
        Error::memory(format!(
            "`{key}` has {} values, too many for the available memory",
            header.count
        ))
    })
}

/// Passes every value through `convert`; exact except for integers beyond 2⁵³.
fn decode<T>(
    reader: &mut dyn Read,
    header: &Header,
    key: &str,
    convert: impl Fn(usize, f64) -> Result<T>,
) -> Result<Vec<T>> {
    let mut values = room(header, key)?;
    each_wide(reader, header, key, &mut |value| {
        values.push(convert(values.len(), value)?);
        Ok(())
    })?;
    Ok(values)
}

/// Passes every value of an array of any known dtype to `take`.
pub(super) fn each_wide(
    reader: &mut dyn Read,
    header: &Header,
    key: &str,
    take: &mut dyn FnMut(f64) -> Result<()>,
) -> Result<()> {
    let count = header.count;
    match header.item {
        Item::Float32 => each(reader, count, key, |b| take(f32::from_le_bytes(b).into())),
        Item::Float64 => each(reader, count, key, |b| take(f64::from_le_bytes(b))),
        Item::Bool | Item::Byte => each(reader, count, key, |[byte]| take(byte.into())),
        Item::Int32 => each(reader, count, key, |b| take(i32::from_le_bytes(b).into())),
        Item::Int64 => each(reader, count, key, |b| take(i64::from_le_bytes(b) as f64)),
    }
}

/// Passes the bytes of each of `count` items to `take`.
fn each<const WIDTH: usize>(
    reader: &mut dyn Read,
    count: usize,
    key: &str,
    mut take: impl FnMut([u8; WIDTH]) -> Result<()>,
) -> Result<()> {
    chunks(reader, count, key, |items| items.iter().try_for_each(|&item| take(item)))
}

/// Passes the bytes of `count` items to `take`, many at a time, and checks that nothing follows.
fn chunks<const WIDTH: usize>(
    reader: &mut dyn Read,
    count: usize,
    key: &str,
    mut take: impl FnMut(&[[u8; WIDTH]]) -> Result<()>,
) -> Result<()> {
    let mut left = count * WIDTH;
    let mut chunk = vec![0; CHUNK.min(left)];
    while left > 0 {
        let bytes = chunk.len().min(left);
        fill(reader, &mut chunk[..bytes], key)?;
        take(chunk[..bytes].as_chunks::<WIDTH>().0)?;
        left -= bytes;
    }
    check_end(reader, key)
}

/// Refuses bytes after the last value; the archive compares the checksum at the end of an entry.
fn check_end(reader: &mut dyn Read, key: &str) -> Result<()> {
    match reader.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Error::input(format!("`{key}` has bytes after its last value"))),
        Err(error) => Err(unreadable(key, error)),
    }
}

/// Writes the header of an array, version 1, padded as NumPy pads it.
pub(super) fn write_header(
    writer: &mut impl Write,
    item: Item,
    shape: &[usize],
) -> std::io::Result<()> {
    let sides = shape.iter().map(|side| format!("{side},")).collect::<Vec<_>>().join(" ");
    let sides = if shape.len() > 1 { sides.trim_end_matches(',') } else { &sides };
    let name = item.name();
    let mut text = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({sides}), }}");
    let before = MAGIC.len() + 4;
    let padded = (before + text.len() + 1).next_multiple_of(ALIGNMENT);
    while before + text.len() + 1 < padded {
        text.push(' ');
    }
    text.push('\n');
    writer.write_all(MAGIC)?;
    writer.write_all(&[1, 0])?;
    writer.write_all(&(text.len() as u16).to_le_bytes())?;
    writer.write_all(text.as_bytes())
}

/// Writes 32-bit values, little-endian.
pub(super) fn write_numbers(writer: &mut impl Write, values: &[f32]) -> std::io::Result<()> {
    for chunk in values.chunks(CHUNK / 4) {
        let bytes = chunk.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        writer.write_all(&bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
