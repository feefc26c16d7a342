//! Plain files alone are read: a pipe or a device could be read forever.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest text that is read whole: configs, descriptions of datasets, tables of a run's times.
pub const LARGEST_TEXT: u64 = 16 << 20;

/// Opens a file that must be a plain one.
///
/// # Errors
/// The file cannot be opened, or is a folder, a pipe or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Before it is opened: opening a pipe waits for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"));
    }
    File::open(path)
}

/// The bytes of a plain file.
///
/// # Errors
/// As [`open`], and disk I/O that fails.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a plain file of at most [`LARGEST_TEXT`] bytes.
///
/// # Errors
/// As [`read`], bytes that are not UTF-8, and larger files.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(LARGEST_TEXT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_TEXT {
        let larger = format!("larger than {} MiB", LARGEST_TEXT >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, larger));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_beyond_the_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("info.json");
        let file = File::create(&path).unwrap();
        file.set_len(LARGEST_TEXT).unwrap();
        assert_eq!(read_text(&path).unwrap().len() as u64, LARGEST_TEXT);
        file.set_len(1 << 40).unwrap();
        let error = read_text(&path).unwrap_err().to_string();
        assert_eq!(error, "larger than 16 MiB");
    }
}
