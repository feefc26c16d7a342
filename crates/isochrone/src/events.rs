//! TensorBoard's event files: numbers and pictures by step.
//!
//! A file is a row of records: length (8 bytes, little-endian), masked CRC-32C of the length, the
//! event as a protocol buffer, masked CRC-32C of the event. The mask of c is ((c ≫ 15) | (c ≪ 17)) +
//! 0xa282ead8. Field numbers are those of TensorFlow's `event.proto` and `summary.proto`.
//!
//! Every file begins with the step it continues from, and TensorBoard drops what older files say of
//! that step and later ones: a resumed run repeats nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::protobuf::Message;

const PREFIX: &str = "events.out.tfevents.";
const VERSION: &str = "brain.Event:2";
/// The status of a session that starts.
const START: i64 = 1;
/// Three bytes per pixel.
const RGB: i64 = 3;

/// An encoded picture.
#[derive(Debug, Clone)]
pub(crate) struct EventImage {
    /// Pixels from left to right.
    pub(crate) width: u32,
    /// Pixels from top to bottom.
    pub(crate) height: u32,
    /// The PNG file.
    pub(crate) png: Vec<u8>,
}

/// The event files of one run, in a folder of their own.
#[derive(Debug)]
pub(crate) struct EventFiles {
    folder: PathBuf,
    first_step: u64,
    file: Option<(PathBuf, File)>,
}

impl EventFiles {
    /// Events in `folder`, from `first_step` on. A file is created with the first of them.
    pub(crate) fn new(folder: &Path, first_step: u64) -> Self {
        Self { folder: folder.to_owned(), first_step, file: None }
    }

    /// Adds numbers; NaN is left out.
    ///
    /// # Errors
    /// [`Error::Disk`] if disk I/O fails.
    pub(crate) fn scalars(&mut self, step: u64, tags: &[String], values: &[f64]) -> Result<()> {
        let known = tags.iter().zip(values).filter(|(_, value)| !value.is_nan());
        let values: Vec<Message> = known
            .map(|(tag, &value)| Message::default().text(1, tag).float(2, value as f32))
            .collect();
        self.summary(step, &values)
    }

    /// Adds a picture.
    ///
    /// # Errors
    /// [`Error::Disk`] if disk I/O fails.
    #[cfg_attr(not(feature = "pictures"), expect(dead_code, reason = "nothing draws pictures"))]
    pub(crate) fn image(&mut self, step: u64, tag: &str, image: &EventImage) -> Result<()> {
        let picture = Message::default()
            .whole(1, image.height.into())
            .whole(2, image.width.into())
            .whole(3, RGB)
            .bytes(4, &image.png);
        self.summary(step, &[Message::default().text(1, tag).message(4, &picture)])
    }

    fn summary(&mut self, step: u64, values: &[Message]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(create(&self.folder, self.first_step)?);
        }
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let event = event(step).message(5, &Message::default().messages(1, values));
        file.write_all(&record(&event.bytes)).map_err(|error| Error::disk("write", &*path, error))
    }
}

/// A new file that TensorBoard reads after all others of the folder.
fn create(folder: &Path, first_step: u64) -> Result<(PathBuf, File)> {
    let disk = |error: io::Error| Error::disk("create", folder, error);
    std::fs::create_dir_all(folder).map_err(disk)?;
    let mut newest = seconds() as u64;
    for entry in std::fs::read_dir(folder).map_err(disk)? {
        let name = entry.map_err(disk)?.file_name();
        let stamp = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let stamp = stamp.and_then(|stamp| stamp.split('.').next()?.parse().ok());
        // Files are read in the order of their names.
        newest = newest.max(stamp.map_or(0, |stamp: u64| stamp.saturating_add(1)));
    }
    let path = folder.join(format!("{PREFIX}{newest:010}.isochrone"));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(disk)?;
    let version = event(0).text(3, VERSION);
    let session = event(first_step).message(7, &Message::default().whole(1, START));
    for event in [version, session] {
        file.write_all(&record(&event.bytes))
            .map_err(|error| Error::disk("write", &path, error))?;
    }
    Ok((path, file))
}

/// An event of `step`, now.
fn event(step: u64) -> Message {
    Message::default().double(1, seconds()).whole(2, step as i64)
}

/// Seconds since 1970.
fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn record(event: &[u8]) -> Vec<u8> {
    let length = (event.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), event, &masked(event)].concat()
}

fn masked(bytes: &[u8]) -> [u8; 4] {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

/// The cyclic redundancy check of Castagnoli, bits reflected (RFC 3720, appendix B.4).
fn crc32c(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = table();
    let next = |crc: u32, &byte: &u8| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8);
    !bytes.iter().fold(!0, next)
}

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_worked_examples() {
        // RFC 3720, appendix B.4.
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&rising), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_file_comes_after_all_others_and_none_is_made_without_events() {
        let folder = tempfile::tempdir().unwrap();
        let tags = ["a".to_owned()];
        let names = || {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
            let mut names: Vec<_> = entries.map(|e| name(e).into_string().unwrap()).collect();
            names.sort();
            names
        };
        EventFiles::new(folder.path(), 0).scalars(3, &tags, &[f64::NAN]).unwrap();
        assert!(names().is_empty());
        // As if the clock had been set back since.
        std::fs::write(folder.path().join(format!("{PREFIX}9999999000.elsewhere.1")), "").unwrap();
        for _ in 0..3 {
            EventFiles::new(folder.path(), 4).scalars(4, &tags, &[1.0]).unwrap();
        }
        let expected = ["9999999000.elsewhere.1", "9999999001.isochrone", "9999999002.isochrone"];
        assert_eq!(names()[..3], expected.map(|name| format!("{PREFIX}{name}")));
        assert_eq!(names().len(), 4);
    }
}
