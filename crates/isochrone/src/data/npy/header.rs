//! The header of an npy array: a fixed grammar of three keys, checked against the bytes present.

use std::io::{ErrorKind, Read};

use super::super::complaints::{DAMAGED, not_a_matrix, variable};
use crate::error::{Error, Result};

pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Longest header accepted, in bytes; NumPy's own are padded to 64 or 128.
const LONGEST_HEADER: usize = 10_000;
/// The largest number of dimensions accepted.
const MOST_DIMENSIONS: usize = 8;

/// Arrays of states, which are floats.
const ROWS: [&str; 6] = ["states", "observations", "state", "observation", "from", "to"];

/// The way out for arrays of Python objects and other pickles.
pub(in crate::data) const CONVERT: &str = "pickles can run code and are never opened; convert in Python \
     where you trust the file: `numpy.savez(file, states=…, terminals=…)` with plain number arrays";

/// How one item of an array is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::data) enum Item {
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

    pub(super) fn name(self) -> &'static str {
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
    pub(in crate::data) fn is_whole(self) -> bool {
        matches!(self, Self::Byte | Self::Int32 | Self::Int64)
    }

    pub(in crate::data) fn bytes(self) -> usize {
        match self {
            Self::Bool | Self::Byte => 1,
            Self::Float32 | Self::Int32 => 4,
            Self::Float64 | Self::Int64 => 8,
        }
    }
}

/// What an array says about itself, checked against the bytes that are there.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::data) struct Header {
    pub(in crate::data) item: Item,
    pub(in crate::data) shape: Vec<usize>,
    pub(in crate::data) count: usize,
    /// Bytes before the first value.
    pub(in crate::data) length: u64,
}

impl Header {
    /// The header of `count` flags stored as `item`.
    #[cfg(feature = "hdf5")]
    pub(in crate::data) fn of_flags(item: Item, count: usize) -> Self {
        Self { item, shape: vec![count], count, length: 0 }
    }

    /// Rows and columns of array `key`, which must be a matrix.
    pub(in crate::data) fn matrix(&self, key: &str) -> Result<(usize, usize)> {
        match *self.shape {
            [_, 0] => Err(Error::input(format!("the rows of `{key}` have no values"))),
            [rows, size] => Ok((rows, size)),
            _ => Err(not_a_matrix(key, self.shape.len())),
        }
    }
}

/// Reads and checks the header of array `key`, which takes `size` bytes in all.
pub(in crate::data) fn header(reader: &mut dyn Read, key: &str, size: u64) -> Result<Header> {
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
        .ok_or_else(|| Error::input(format!("`{key}` has a header that is not NumPy's")))?;
    parts.check(key, size, (start.len() + width + length) as u64)
}

/// Reads past the header of array `key`, which was read before.
pub(in crate::data) fn skip_header(
    reader: &mut dyn Read,
    header: &Header,
    key: &str,
) -> Result<()> {
    fill(reader, &mut vec![0; header.length as usize], key)
}

pub(super) fn fill(reader: &mut dyn Read, bytes: &mut [u8], key: &str) -> Result<()> {
    reader.read_exact(bytes).map_err(|error| unreadable(key, error))
}

pub(super) fn unreadable(key: &str, error: std::io::Error) -> Error {
    let what = match error.kind() {
        ErrorKind::UnexpectedEof => format!("`{key}` ends early"),
        _ => format!("`{key}` cannot be read: {}", error.to_string().to_lowercase()),
    };
    Error::input(what).hint(DAMAGED)
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
        let incomplete = || Error::input(format!("`{key}` has a header that is not NumPy's"));
        let (name, fortran) = self.item.zip(self.fortran).ok_or_else(incomplete)?;
        let shape = self.shape.unwrap_or_default();
        let item = item_named(&name, key)?;
        if fortran && shape.len() > 1 {
            return Err(Error::input(format!("`{key}` is in Fortran order, expected C order"))
                .hint(format!("save `numpy.ascontiguousarray({})`", variable(key))));
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
            let claim = bytes.map_or("more bytes than possible".into(), |bytes| bytes.to_string());
            return Err(Error::input(format!(
                "`{key}` claims shape `{}` of `{name}`, {claim} bytes, but holds {present}",
                shape_text(&shape)
            ))
            .hint(DAMAGED));
        }
        let sides = shape.iter().map(|&side| usize::try_from(side).ok()).collect::<Option<_>>();
        let count = count.and_then(|count| usize::try_from(count).ok());
        let (shape, count) = sides.zip(count).ok_or_else(incomplete)?;
        Ok(Header { item, shape, count, length: header })
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
    let listed = |items: &[Item]| {
        items.iter().map(|item| format!("`{}`", item.name())).collect::<Vec<_>>().join(", ")
    };
    let expected = if ROWS.contains(&key) {
        "`<f4` or `<f8`".to_owned()
    } else if key == "actions" {
        let whole: Vec<Item> = Item::ALL.into_iter().filter(|item| item.is_whole()).collect();
        format!("`<f4` or `<f8`, or whole numbers for discrete ones: {}", listed(&whole))
    } else {
        format!("one of {}", listed(&Item::ALL))
    };
    Err(Error::input(format!("`{key}` has dtype `{name}`, expected {expected}"))
        .hint(format!("save `{}.astype('<f4')`", variable(key))))
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

    /// A quoted dtype; a list of fields is taken whole, so that the error can show it.
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
