//! One array of numbers: the npy format of numpy, read strictly and written plainly.
//!
//! `\x93NUMPY`, version, header length, `{'descr': '<f4', 'fortran_order': False, 'shape': (r, c), }`,
//! then r · c numbers, little end first. Nothing is allocated before
//! header bytes + product of the shape × item size = bytes present.
//! Source: numpy, "NEP 1 — a simple file format for NumPy arrays".

use std::io::{ErrorKind, Read, Write};

use crate::error::{Error, Result};

/// Longest header accepted, in bytes; numpy's own are padded to 64 or 128.
const LONGEST_HEADER: usize = 10_000;
/// Most dimensions accepted.
const MOST_DIMENSIONS: usize = 8;
/// Bytes decoded at a time; a multiple of every item size.
const CHUNK: usize = 1 << 16;
const MAGIC: &[u8; 6] = b"\x93NUMPY";
const ALIGNMENT: usize = 64;

/// The way out for arrays of Python objects and other pickles.
pub(super) const CONVERT: &str = "pickles can run code and are never opened; convert in Python \
     where you trust the file: `numpy.savez(file, states=…, terminals=…)` with plain number arrays";

/// How one item of an array is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Float32,
    Float64,
    Bool,
    Byte,
    Int32,
    Int64,
}

impl Item {
    const ALL: [Self; 6] =
        [Self::Float32, Self::Float64, Self::Bool, Self::Byte, Self::Int32, Self::Int64];

    fn name(self) -> &'static str {
        match self {
            Self::Float32 => "<f4",
            Self::Float64 => "<f8",
            Self::Bool => "|b1",
            Self::Byte => "|u1",
            Self::Int32 => "<i4",
            Self::Int64 => "<i8",
        }
    }

    /// Whether it holds whole numbers, truth values apart.
    pub(super) fn is_whole(self) -> bool {
        matches!(self, Self::Byte | Self::Int32 | Self::Int64)
    }

    fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::Byte => 1,
            Self::Float32 | Self::Int32 => 4,
            Self::Float64 | Self::Int64 => 8,
        }
    }
}

/// What an array says about itself, checked against the bytes that are there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) item: Item,
    pub(super) shape: Vec<usize>,
    count: usize,
}

impl Header {
    /// The header of `count` flags stored as `item`.
    pub(super) fn of_flags(item: Item, count: usize) -> Self {
        Self { item, shape: vec![count], count }
    }

    /// Rows and columns of array `key`, which must be a matrix.
    pub(super) fn matrix(&self, key: &str) -> Result<(usize, usize)> {
        match *self.shape {
            [_, 0] => Err(Error::input(format!("`{key}` has no numbers in a row"))),
            [rows, size] => Ok((rows, size)),
            _ => Err(not_a_matrix(key, self.shape.len())),
        }
    }
}

/// The complaint about an array that is no matrix.
pub(super) fn not_a_matrix(key: &str, dimensions: usize) -> Error {
    Error::input(format!(
        "`{key}` has {dimensions} dimensions, expected 2: rows and numbers in a row"
    ))
    .hint(format!("save `{key}.reshape(len({key}), -1)`"))
}

/// Reads and checks the header of array `key`, which takes `size` bytes in all.
pub(super) fn header(reader: &mut dyn Read, key: &str, size: u64) -> Result<Header> {
    let mut start = [0; 8];
    fill(reader, &mut start, key)?;
    if start[..6] != *MAGIC {
        return Err(Error::input(format!("`{key}` does not begin as an npy array")));
    }
    let width = match start[6] {
        1 => 2,
        2 | 3 => 4,
        other => {
            let found = format!("`{key}` is npy version `{other}.{}`", start[7]);
            return Err(Error::input(format!("{found}, expected 1 to 3")));
        }
    };
    let mut length = [0; 4];
    fill(reader, &mut length[..width], key)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST_HEADER {
        return Err(Error::input(format!(
            "`{key}` claims a header of {length} bytes, at most {LONGEST_HEADER} are read"
        )));
    }
    let mut text = vec![0; length];
    fill(reader, &mut text, key)?;
    let parts = Parts::parse(&text)
        .ok_or_else(|| Error::input(format!("`{key}` has a header that is not numpy's")))?;
    parts.check(key, size, (start.len() + width + length) as u64)
}

/// The three facts of a header, as written.
#[derive(Default)]
struct Parts {
    item: Option<String>,
    fortran: Option<bool>,
    shape: Option<Vec<u64>>,
}

impl Parts {
    fn parse(text: &[u8]) -> Option<Self> {
        let mut cursor = Cursor { rest: text };
        let mut parts = Self::default();
        cursor.expect(b"{")?;
        while cursor.expect(b"}").is_none() {
            let key = cursor.quoted()?;
            cursor.expect(b":")?;
            let fresh = match key {
                "descr" => parts.item.replace(cursor.item()?).is_none(),
                "fortran_order" => parts.fortran.replace(cursor.truth()?).is_none(),
                "shape" => parts.shape.replace(cursor.shape()?).is_none(),
                _ => false,
            };
            if !fresh || (cursor.expect(b",").is_none() && !cursor.at(b"}")) {
                return None;
            }
        }
        cursor.skip_space();
        (cursor.rest.is_empty() && parts.shape.is_some()).then_some(parts)
    }

    fn check(self, key: &str, size: u64, header: u64) -> Result<Header> {
        let incomplete = || Error::input(format!("`{key}` has a header that is not numpy's"));
        let (name, fortran) = self.item.zip(self.fortran).ok_or_else(incomplete)?;
        let shape = self.shape.unwrap_or_default();
        let item = item_named(&name, key)?;
        if fortran && shape.len() > 1 {
            return Err(Error::input(format!("`{key}` is in Fortran order, expected C order"))
                .hint(format!("save `numpy.ascontiguousarray({key})`")));
        }
        if shape.len() > MOST_DIMENSIONS {
            return Err(Error::input(format!(
                "`{key}` has {} dimensions, at most {MOST_DIMENSIONS} are read",
                shape.len()
            )));
        }
        let count = shape.iter().try_fold(1u64, |product, &side| product.checked_mul(side));
        let bytes = count.and_then(|count| count.checked_mul(item.bytes() as u64));
        let present = size.saturating_sub(header);
        if bytes != Some(present) || size < header {
            let claim = bytes.map_or("more bytes than can be".into(), |bytes| bytes.to_string());
            return Err(Error::input(format!(
                "`{key}` claims shape `{}` of `{name}`, {claim} bytes, but holds {present}",
                shape_text(&shape)
            ))
            .hint("the file is cut or damaged; copy or save it again"));
        }
        let sides = shape.iter().map(|&side| usize::try_from(side).ok()).collect::<Option<_>>();
        let count = count.and_then(|count| usize::try_from(count).ok());
        let (shape, count) = sides.zip(count).ok_or_else(incomplete)?;
        Ok(Header { item, shape, count })
    }
}

fn item_named(name: &str, key: &str) -> Result<Item> {
    if let Some(&item) = Item::ALL.iter().find(|item| item.name() == name) {
        return Ok(item);
    }
    let objects = ["|O", "O"].contains(&name) || name.contains("'|O'") || name.contains("'O'");
    let name = name.escape_debug();
    if objects {
        return Err(
            Error::input(format!("`{key}` holds Python objects (dtype `{name}`)")).hint(CONVERT)
        );
    }
    let known = Item::ALL.map(|item| format!("`{}`", item.name())).join(", ");
    Err(Error::input(format!("`{key}` has dtype `{name}`, expected one of {known}"))
        .hint(format!("save `{key}.astype('<f4')`")))
}

fn shape_text(shape: &[u64]) -> String {
    let sides = shape.iter().map(u64::to_string).collect::<Vec<_>>();
    format!("({})", sides.join(", "))
}

/// Reads the fixed grammar of a header; every step is `None` where the text departs from it.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn at(&mut self, token: &[u8]) -> bool {
        self.skip_space();
        self.rest.starts_with(token)
    }

    fn expect(&mut self, token: &[u8]) -> Option<()> {
        self.at(token).then(|| self.rest = &self.rest[token.len()..])
    }

    fn take(&mut self, count: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        std::str::from_utf8(taken).ok()
    }

    fn quoted(&mut self) -> Option<&'a str> {
        let quote = if self.at(b"'") { b'\'' } else { b'"' };
        self.expect(&[quote])?;
        let end = self.rest.iter().position(|&byte| byte == quote)?;
        let text = self.take(end)?;
        self.expect(&[quote])?;
        Some(text)
    }

    /// A quoted dtype; a list of fields is taken whole, so that it can be refused by its text.
    fn item(&mut self) -> Option<String> {
        if !self.at(b"[") {
            return self.quoted().map(str::to_string);
        }
        let end = self.rest.iter().position(|&byte| byte == b']')? + 1;
        self.take(end).map(str::to_string)
    }

    fn truth(&mut self) -> Option<bool> {
        if self.expect(b"True").is_some() {
            return Some(true);
        }
        self.expect(b"False").map(|()| false)
    }

    fn shape(&mut self) -> Option<Vec<u64>> {
        let mut shape = Vec::new();
        self.expect(b"(")?;
        while self.expect(b")").is_none() {
            self.skip_space();
            let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let text = self.take(digits).filter(|text| !text.is_empty())?;
            shape.push(text.parse().unwrap_or(u64::MAX));
            // A tuple of one has a comma: `(3)` is not one.
            if self.expect(b",").is_none() && (shape.len() < 2 || !self.at(b")")) {
                return None;
            }
        }
        Some(shape)
    }
}

/// Reads the numbers of an array of floats, as 32-bit.
pub(super) fn numbers(reader: &mut dyn Read, header: &Header, key: &str) -> Result<Vec<f32>> {
    if !matches!(header.item, Item::Float32 | Item::Float64) {
        let found = header.item.name();
        return Err(Error::input(format!("`{key}` has dtype `{found}`, expected `<f4` or `<f8`"))
            .hint(format!("save `{key}.astype('<f4')`")));
    }
    if header.item == Item::Float32 {
        let mut values = room(header, key)?;
        let take = |bytes: &[[u8; 4]]| {
            values.extend(bytes.iter().map(|&bytes| f32::from_le_bytes(bytes)));
            Ok(())
        };
        return chunks(reader, header.count, key, take).map(|()| values);
    }
    let columns = header.shape.last().copied().unwrap_or(1).max(1);
    decode(reader, header, key, |at, value| narrowed(at, value, columns, key))
}

/// Numbers of 64 bits as 32-bit.
pub(super) fn narrow(values: &[f64], columns: usize, key: &str) -> Result<Vec<f32>> {
    values.iter().enumerate().map(|(at, &value)| narrowed(at, value, columns, key)).collect()
}

fn narrowed(at: usize, value: f64, columns: usize, key: &str) -> Result<f32> {
    let narrow = value as f32;
    if value.is_finite() && !narrow.is_finite() {
        let (row, column) = (at / columns, at % columns);
        let place = format!("`{key}` row {row} column {column} is `{value:e}`");
        return Err(Error::input(format!("{place}, too large for 32 bits"))
            .hint("scale the column, or drop the row"));
    }
    Ok(narrow)
}

/// Reads the numbers of an array of any known dtype, with all their digits.
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
            .hint(format!("`{key}` is 1 on the last row of each trajectory, else 0")))
    })
}

/// Room for all numbers of an array, or an error where the memory has none.
fn room<T>(header: &Header, key: &str) -> Result<Vec<T>> {
    let mut values = Vec::new();
    match values.try_reserve_exact(header.count) {
        Ok(()) => Ok(values),
        Err(_) => Err(Error::memory(format!(
            "`{key}` has {} numbers, too many for the memory",
            header.count
        ))),
    }
}

/// Passes every number through `convert`; exact but for whole numbers beyond 2⁵³.
fn decode<T>(
    reader: &mut dyn Read,
    header: &Header,
    key: &str,
    convert: impl Fn(usize, f64) -> Result<T>,
) -> Result<Vec<T>> {
    let mut values = room(header, key)?;
    let mut push = |value| {
        values.push(convert(values.len(), value)?);
        Ok(())
    };
    let count = header.count;
    match header.item {
        Item::Float32 => each(reader, count, key, |b| push(f32::from_le_bytes(b).into())),
        Item::Float64 => each(reader, count, key, |b| push(f64::from_le_bytes(b))),
        Item::Bool | Item::Byte => each(reader, count, key, |[byte]| push(byte.into())),
        Item::Int32 => each(reader, count, key, |b| push(i32::from_le_bytes(b).into())),
        Item::Int64 => each(reader, count, key, |b| push(i64::from_le_bytes(b) as f64)),
    }?;
    Ok(values)
}

/// Gives the bytes of each of `count` items to `take`.
fn each<const WIDTH: usize>(
    reader: &mut dyn Read,
    count: usize,
    key: &str,
    mut take: impl FnMut([u8; WIDTH]) -> Result<()>,
) -> Result<()> {
    chunks(reader, count, key, |items| items.iter().try_for_each(|&item| take(item)))
}

/// Gives the bytes of `count` items to `take`, many at a time, and checks that nothing follows.
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
    // The checksum of an archive is compared where its entry ends.
    match reader.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Error::input(format!("`{key}` goes on after its last number"))),
        Err(error) => Err(unreadable(key, error)),
    }
}

fn fill(reader: &mut dyn Read, bytes: &mut [u8], key: &str) -> Result<()> {
    reader.read_exact(bytes).map_err(|error| unreadable(key, error))
}

fn unreadable(key: &str, error: std::io::Error) -> Error {
    let what = match error.kind() {
        ErrorKind::UnexpectedEof => format!("`{key}` ends early"),
        _ => format!("`{key}` cannot be read: {}", error.to_string().to_lowercase()),
    };
    Error::input(what).hint("the file is cut or damaged; copy or save it again")
}

/// Writes the header of an array, version 1, padded as numpy pads.
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

/// Writes 32-bit numbers, little end first.
pub(super) fn write_numbers(writer: &mut impl Write, values: &[f32]) -> std::io::Result<()> {
    for chunk in values.chunks(CHUNK / 4) {
        let bytes = chunk.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        writer.write_all(&bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(text: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(Header, Vec<f32>)> {
        let mut reader = bytes;
        let header = header(&mut reader, "states", bytes.len() as u64)?;
        let values = numbers(&mut reader, &header, "states")?;
        Ok((header, values))
    }

    fn complaint(text: &str, data: &[u8]) -> String {
        read(&array(text, data)).unwrap_err().to_string()
    }

    #[test]
    fn what_is_written_is_read_and_aligned_to_64_bytes() {
        let mut bytes = Vec::new();
        write_header(&mut bytes, Item::Float32, &[2, 3]).unwrap();
        assert_eq!(bytes.len() % 64, 0);
        write_numbers(&mut bytes, &[0.0, -1.5, 2.0, 3.0, f32::MIN_POSITIVE, 1e30]).unwrap();
        let (header, values) = read(&bytes).unwrap();
        assert_eq!((header.item, header.shape), (Item::Float32, vec![2, 3]));
        assert_eq!(values, [0.0, -1.5, 2.0, 3.0, f32::MIN_POSITIVE, 1e30]);
    }

    #[test]
    fn keys_in_any_order_and_both_quotes_are_read() {
        let text = r#"{"shape":(1,) , 'fortran_order' :False,"descr":'<f4'}   "#;
        assert_eq!(read(&array(text, &1.5f32.to_le_bytes())).unwrap().1, [1.5]);
    }

    #[test]
    fn a_header_outside_the_grammar_is_refused() {
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
            "{'descr': '<f4', 'shape': (1,)}",
            "{'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False}",
        ] {
            let error = complaint(text, &[0; 4]);
            assert!(error.contains("`states` has a header that is not numpy's"), "{text}: {error}");
        }
    }

    #[test]
    fn each_claim_that_cannot_be_kept_has_its_own_message() {
        let of = |item: &str, shape: &str| {
            complaint(
                &format!("{{'descr': {item}, 'fortran_order': False, 'shape': {shape}, }}"),
                &[0; 8],
            )
        };
        assert!(of("'|O'", "(1,)").contains("Python objects"));
        assert!(of("'|O'", "(1,)").contains("numpy.savez(file, states=…, terminals=…)"));
        assert!(of("[('a', '<f4'), ('b', '<f4')]", "(1,)").contains("expected one of"));
        assert!(of("'>f4'", "(2,)").contains("dtype `>f4`"));
        assert!(of("'<i4'", "(2,)").contains("expected `<f4` or `<f8`"));
        assert!(of("'<f4'", "(1,1,1,1,1,1,1,1,2)").contains("9 dimensions"));
        assert!(of("'<f4'", "(4294967296, 4294967296)").contains("more bytes than can be"));
        assert!(of("'<f4'", "(99999999999999999999999, 2)").contains("more bytes than can be"));
        assert!(of("'<f4'", "(1099511627776,)").contains("4398046511104 bytes, but holds 8"));
        assert!(of("'<f4'", "(1,)").contains("4 bytes, but holds 8"));
    }

    #[test]
    fn fortran_order_is_refused_with_the_way_out() {
        let text = "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }";
        assert!(complaint(text, &[0; 8]).contains("numpy.ascontiguousarray(states)"));
        let one = "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }";
        assert_eq!(read(&array(one, &[0; 8])).unwrap().1, [0.0, 0.0]);
    }

    #[test]
    fn versions_and_header_lengths_are_bounded() {
        let text = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
        let mut bytes = array(text, &[0; 4]);
        bytes[6] = 4;
        assert!(read(&bytes).unwrap_err().to_string().contains("npy version `4.0`"));
        // Thirteen bytes that claim a header of four gigabytes.
        let error = read(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{").unwrap_err().to_string();
        assert!(error.contains("claims a header of 4294967295 bytes"), "{error}");
    }

    #[test]
    fn wide_numbers_are_narrowed_only_where_they_stay_finite() {
        let text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2), }";
        let data = |value: f64| [0.1f64.to_le_bytes(), value.to_le_bytes()].concat();
        assert_eq!(read(&array(text, &data(-2.5))).unwrap().1, [0.1, -2.5]);
        let error = complaint(text, &data(1e300));
        assert_eq!(
            error,
            "`states` row 0 column 1 is `1e300`, too large for 32 bits; hint: scale the column, or drop \
             the row"
        );
    }

    #[test]
    fn flags_are_read_from_every_dtype_and_must_be_0_or_1() {
        for (item, width) in [("|b1", 1), ("|u1", 1), ("<i4", 4), ("<i8", 8)] {
            let text = format!("{{'descr': '{item}', 'fortran_order': False, 'shape': (3,), }}");
            let mut data = vec![0; 3 * width];
            data[width] = 1;
            let read = |data: &[u8]| {
                let bytes = array(&text, data);
                let mut reader = &bytes[..];
                let header = header(&mut reader, "terminals", bytes.len() as u64).unwrap();
                flags(&mut reader, &header, "terminals")
            };
            assert_eq!(read(&data).unwrap(), [false, true, false]);
            data[2 * width] = 2;
            let error = read(&data).unwrap_err().to_string();
            assert!(error.starts_with("`terminals` row 2 is `2`, expected 0 or 1"), "{error}");
        }
    }

    #[test]
    fn without_a_checksum_every_truncation_and_flip_gives_an_error_or_as_many_numbers() {
        let mut bytes = Vec::new();
        write_header(&mut bytes, Item::Float32, &[3, 2]).unwrap();
        write_numbers(&mut bytes, &[1.0; 6]).unwrap();
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "{length} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok((header, values)) = read(&bytes) {
                assert_eq!(header.shape.iter().product::<usize>(), values.len(), "bit {bit}");
                assert!(values.len() <= 6, "bit {bit}");
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
