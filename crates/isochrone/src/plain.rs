//! Plain files alone are read: a pipe or a device could be read forever.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

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

/// The text of a plain file.
///
/// # Errors
/// As [`read`], and bytes that are not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}
