//! The directory of a zip file, read strictly: its entries, where they are, and their sizes.
//!
//! The end record must close the file, the directory must come right before it, every entry must
//! agree with its own local header, and no size may exceed what its packed bytes can hold.
//! The `zip` crate inflates and verifies checksums, one entry at a time.
//! Source: PKWARE, "APPNOTE.TXT — .ZIP file format specification", 4.3 and 4.5.3.

use std::cell::Cell;
use std::fs::File;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use zip::read::{ZipReadOptions, read_zipfile_from_stream_with_options};

use super::complaints::DAMAGED;
use super::files::open_file;
use super::npy::CONVERT;
use crate::error::{Error, Result};

/// The most entries that are read.
const MOST_ENTRIES: u64 = 1_000;
/// The largest directory that is read, in bytes.
const LARGEST_DIRECTORY: u64 = 1 << 20;
/// Deflate expands one byte to at most 1,032.
const DEFLATE_LIMIT: u64 = 1_032;
/// Entries larger than this many bytes may not be compressed by more than `SUSPECT_RATIO`.
const SUSPECT_SIZE: u64 = 64 << 20;
/// Recorded values compress a few times; only a zip bomb, or constants, hundreds of times.
const SUSPECT_RATIO: u64 = 100;

const END_SIZE: usize = 22;
const END_LOCATOR_64_SIZE: u64 = 20;
const END_64_SIZE: u64 = 56;
const LONGEST_COMMENT: u64 = 65_535;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ENCRYPTED: u16 = 1;

/// A zip file whose directory was read and is consistent.
#[derive(Debug)]
pub(super) struct Archive<R> {
    file: R,
    entries: Arc<[Entry]>,
    directory_start: u64,
}

/// One file of the archive.
#[derive(Debug)]
pub(super) struct Entry {
    /// Its name, as written.
    pub(super) name: String,
    /// Its bytes when unpacked, as claimed.
    pub(super) size: u64,
    packed: u64,
    method: u16,
    flags: u16,
    /// The checksum of its bytes when unpacked.
    pub(super) checksum: u32,
    header_start: u64,
}

impl Archive<File> {
    /// Opens a file and reads its directory.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::new(open_file(path)?)
    }
}

impl<R: Read + Seek> Archive<R> {
    /// Reads the directory of an archive.
    pub(super) fn new(mut file: R) -> Result<Self> {
        let size = file.seek(SeekFrom::End(0)).map_err(|_| damaged("the file has no end"))?;
        let directory = Directory::find(&mut file, size)?;
        let bytes = bytes_at(&mut file, directory.start, directory.size)?;
        let entries = parse_directory(&bytes, directory.entries)?;
        Ok(Self { file, entries: entries.into(), directory_start: directory.start })
    }

    /// The same archive, read through another handle to its file.
    pub(super) fn again(&self, file: R) -> Self {
        Self { file, entries: Arc::clone(&self.entries), directory_start: self.directory_start }
    }

    /// The entries of the archive.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Reads entry `index` through `take`, limited to its claimed size and verified at its end.
    pub(super) fn read<T>(
        &mut self,
        index: usize,
        take: impl FnOnce(&mut dyn Read, &Entry) -> Result<T>,
    ) -> Result<T> {
        let entry = &self.entries[index];
        entry.check_size()?;
        let start = entry.data_start(&mut self.file)?;
        if start.checked_add(entry.packed).is_none_or(|end| end > self.directory_start) {
            return Err(damaged(format!("`{}` reaches into the directory", entry.name)));
        }
        self.file.seek(SeekFrom::Start(start)).map_err(|_| damaged("the file ends early"))?;
        let over = Cell::new(false);
        let rest = Until { file: &mut self.file, over: &over };
        let mut stream = Cursor::new(entry.plain_header()).chain(rest);
        let options = ZipReadOptions::new()
            .override_compressed_size(entry.packed)
            .override_uncompressed_size(entry.size)
            .override_crc(entry.checksum);
        match read_zipfile_from_stream_with_options(&mut stream, options) {
            Ok(Some(mut reader)) => {
                let taken = take(&mut reader, entry);
                over.set(true);
                taken
            }
            _ => Err(damaged(format!("`{}` cannot be unpacked", entry.name))),
        }
    }

    /// Where the bytes of entry `index` begin, if they are not packed.
    pub(super) fn plain_start(&mut self, index: usize) -> Result<Option<u64>> {
        let entry = &self.entries[index];
        if entry.method != STORED {
            return Ok(None);
        }
        entry.data_start(&mut self.file).map(Some)
    }

    /// Compares every entry with its own header, so that a damaged name is not taken for another key.
    pub(super) fn check_headers(&mut self) -> Result<()> {
        self.entries.iter().try_for_each(|entry| entry.data_start(&mut self.file).map(drop))
    }
}

/// A file that can be ended early: the `zip` crate reads the rest of an entry when it is dropped.
struct Until<'a, R> {
    file: &'a mut R,
    over: &'a Cell<bool>,
}

impl<R: Read> Read for Until<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        if self.over.get() { Ok(0) } else { self.file.read(bytes) }
    }
}

fn damaged(what: impl Into<String>) -> Error {
    Error::input(what).hint(DAMAGED)
}

fn bytes_at(file: &mut (impl Read + Seek), start: u64, size: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    file.seek(SeekFrom::Start(start))
        .and_then(|_| file.read_exact(&mut bytes))
        .map_err(|_| damaged("the file ends early"))?;
    Ok(bytes)
}

/// Numbers read from the front of a record, little-endian.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| damaged("a record of the zip directory ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self, width: usize) -> Result<u64> {
        let bytes = self.bytes(width)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn short(&mut self) -> Result<u16> {
        Ok(self.number(2)? as u16)
    }

    fn signature(&mut self, expected: &[u8; 4], what: &str) -> Result<()> {
        if self.bytes(4)? == expected {
            return Ok(());
        }
        Err(damaged(format!("{what} is not where it should be")))
    }
}

/// Where the directory is.
struct Directory {
    start: u64,
    size: u64,
    entries: u64,
}

impl Directory {
    fn find(file: &mut (impl Read + Seek), size: u64) -> Result<Self> {
        let window = size.min(END_SIZE as u64 + LONGEST_COMMENT);
        let tail = bytes_at(file, size - window, window)?;
        let at = (0..tail.len().saturating_sub(END_SIZE - 1))
            .rev()
            .find(|&at| closes_file(&tail[at..]))
            .ok_or_else(|| not_an_archive(file))?;
        let mut fields = Fields { rest: &tail[at + 4..] };
        let (disk, directory_disk) = (fields.short()?, fields.short()?);
        let (here, entries) = (fields.short()?, fields.short()?);
        let (length, start) = (fields.number(4)?, fields.number(4)?);
        let end = size - window + at as u64;
        if entries == u16::MAX || start == u64::from(u32::MAX) || length == u64::from(u32::MAX) {
            return Self::find_large(file, end);
        }
        if (disk, directory_disk) != (0, 0) || here != entries {
            return Err(Error::input("the zip file is split into several parts"));
        }
        Self { start, size: length, entries: u64::from(entries) }.check(end)
    }

    /// The 64-bit end record, for archives of 4 GB and more.
    fn find_large(file: &mut (impl Read + Seek), end: u64) -> Result<Self> {
        let locator_start = end
            .checked_sub(END_LOCATOR_64_SIZE)
            .ok_or_else(|| damaged("the zip file has no 64-bit end record"))?;
        let locator = bytes_at(file, locator_start, END_LOCATOR_64_SIZE)?;
        let mut fields = Fields { rest: &locator };
        fields.signature(b"PK\x06\x07", "the 64-bit end record's locator")?;
        fields.bytes(4)?;
        let record_start = fields.number(8)?;
        if record_start.checked_add(END_64_SIZE) != Some(locator_start) {
            return Err(damaged("the 64-bit end record is not where it should be"));
        }
        let record = bytes_at(file, record_start, END_64_SIZE)?;
        let mut fields = Fields { rest: &record };
        fields.signature(b"PK\x06\x06", "the 64-bit end record")?;
        fields.bytes(8 + 2 + 2 + 4 + 4 + 8)?;
        let entries = fields.number(8)?;
        let (size, start) = (fields.number(8)?, fields.number(8)?);
        Self { start, size, entries }.check(record_start)
    }

    fn check(self, end: u64) -> Result<Self> {
        if self.entries > MOST_ENTRIES || self.size > LARGEST_DIRECTORY {
            return Err(Error::input(format!(
                "{} entries in a directory of {} bytes, at most {MOST_ENTRIES} in \
                 {LARGEST_DIRECTORY} are read",
                self.entries, self.size
            ))
            .hint("save only `states`, `actions` and `terminals`"));
        }
        if self.start.checked_add(self.size) != Some(end) {
            return Err(damaged("the zip directory is not where it should be"));
        }
        Ok(self)
    }
}

fn closes_file(tail: &[u8]) -> bool {
    let comment = usize::from(tail[20]) | usize::from(tail[21]) << 8;
    tail.starts_with(b"PK\x05\x06") && tail.len() == END_SIZE + comment
}

/// Says what a file that is not a zip file is, if its first bytes show it.
fn not_an_archive(file: &mut (impl Read + Seek)) -> Error {
    let mut first = [0; 6];
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read(&mut first)).unwrap_or(0);
    match &first[..read] {
        [] => Error::input("the file is empty, expected npz").hint("copy or save it again"),
        [b'P', b'K', ..] => damaged("the zip file has no end record"),
        [0x80, 2..=5, ..] => Error::input("the file is a pickle").hint(CONVERT),
        [0x89, b'H', b'D', b'F', ..] => Error::input("the file is HDF5, expected npz")
            .hint("convert it: `isochrone data convert FROM TO.npz`"),
        [0x93, b'N', b'U', b'M', b'P', b'Y'] => Error::input("the file is one npy array")
            .hint("save the arrays together: `numpy.savez(file, states=…, terminals=…)`"),
        bytes if bytes.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~')) => {
            Error::input("the file is text, expected npz; trajectories are not read from csv").hint(
                "read it with pandas and save it with `numpy.savez`: docs/formats.md, From logs",
            )
        }
        _ => Error::input("the file is not npz: it has no zip end record")
            .hint("save it with `numpy.savez(file, states=…, terminals=…)`"),
    }
}

fn parse_directory(bytes: &[u8], count: u64) -> Result<Vec<Entry>> {
    let mut fields = Fields { rest: bytes };
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..count {
        let entry = Entry::parse(&mut fields)?;
        if entries.iter().any(|earlier| earlier.name == entry.name) {
            return Err(Error::input(format!("`{}` occurs twice", entry.name)));
        }
        entries.push(entry);
    }
    if fields.rest.is_empty() {
        return Ok(entries);
    }
    Err(damaged(format!("the zip directory has more than its {count} entries")))
}

impl Entry {
    fn parse(fields: &mut Fields<'_>) -> Result<Self> {
        fields.signature(b"PK\x01\x02", "an entry of the zip directory")?;
        fields.bytes(4)?;
        let (flags, method) = (fields.short()?, fields.short()?);
        fields.bytes(4)?;
        let checksum = fields.number(4)? as u32;
        let (packed, size) = (fields.number(4)?, fields.number(4)?);
        let (name, extra, comment) = (fields.short()?, fields.short()?, fields.short()?);
        fields.bytes(2 + 2 + 4)?;
        let header_start = fields.number(4)?;
        let name = std::str::from_utf8(fields.bytes(name.into())?)
            .map_err(|_| damaged("an entry has a name that is not UTF-8"))?
            .escape_debug()
            .to_string();
        let extra = fields.bytes(extra.into())?;
        fields.bytes(comment.into())?;
        let mut entry = Self { name, size, packed, method, flags, checksum, header_start };
        entry.widen(extra)?;
        Ok(entry)
    }

    /// Takes the numbers that did not fit into 32 bits from the 64-bit extra field.
    fn widen(&mut self, extra: &[u8]) -> Result<()> {
        let mut fields = Fields { rest: extra };
        while !fields.rest.is_empty() {
            let (id, length) = (fields.short()?, fields.short()?);
            let mut field = Fields { rest: fields.bytes(length.into())? };
            if id != 1 {
                continue;
            }
            for number in [&mut self.size, &mut self.packed, &mut self.header_start] {
                if *number == u64::from(u32::MAX) {
                    *number = field.number(8)?;
                }
            }
        }
        Ok(())
    }

    /// Where the packed bytes begin, after a local header that must agree with the directory.
    fn data_start(&self, file: &mut (impl Read + Seek)) -> Result<u64> {
        let header = bytes_at(file, self.header_start, 30)?;
        let mut fields = Fields { rest: &header };
        fields.signature(b"PK\x03\x04", &format!("the header of `{}`", self.name))?;
        fields.bytes(2)?;
        let (flags, method) = (fields.short()?, fields.short()?);
        fields.bytes(4 + 12)?;
        let (name, extra) = (fields.short()?, fields.short()?);
        let found = bytes_at(file, self.header_start + 30, name.into())?;
        let found = String::from_utf8_lossy(&found).escape_debug().to_string();
        if (flags, method, &found) != (self.flags, self.method, &self.name) {
            return Err(damaged(format!(
                "the directory of the zip file and the header of `{}` disagree",
                self.name
            )));
        }
        Ok(self.header_start + 30 + u64::from(name) + u64::from(extra))
    }

    fn check_size(&self) -> Result<()> {
        let Self { name, size, packed, .. } = self;
        if self.flags & ENCRYPTED != 0 {
            return Err(Error::input(format!("`{name}` is encrypted")));
        }
        let possible = match self.method {
            STORED => size == packed,
            DEFLATED => *size <= packed.saturating_mul(DEFLATE_LIMIT),
            other => {
                return Err(Error::input(format!(
                    "`{name}` is compressed by the unsupported method `{other}`"
                ))
                .hint("save it with `numpy.savez` or `numpy.savez_compressed`"));
            }
        };
        if !possible {
            return Err(damaged(format!(
                "`{name}` claims {size} bytes, which its {packed} packed bytes cannot hold"
            )));
        }
        if *size > SUSPECT_SIZE && *size > packed.saturating_mul(SUSPECT_RATIO) {
            return Err(Error::input(format!(
                "`{name}` unpacks {packed} bytes to {size}, more than {SUSPECT_RATIO} times as many"
            ))
            .hint("if this is intended, save it uncompressed with `numpy.savez`"));
        }
        Ok(())
    }

    /// A local header without name and sizes, which the `zip` crate is given separately.
    fn plain_header(&self) -> Vec<u8> {
        const SIZES_ELSEWHERE: u16 = 8;
        let mut header = b"PK\x03\x04".to_vec();
        header.extend(20u16.to_le_bytes());
        header.extend(SIZES_ELSEWHERE.to_le_bytes());
        header.extend(self.method.to_le_bytes());
        header.extend([0; 4 + 12 + 4]);
        header
    }
}
