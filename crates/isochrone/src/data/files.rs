//! Access to plain files: opening one, its first bytes, bytes at any place.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// Opens a plain file; a pipe or a device could be read forever.
pub(super) fn open_file(path: &Path) -> Result<File> {
    if !std::fs::metadata(path).map_err(refused)?.is_file() {
        return Err(Error::input("expected a plain file")
            .hint("pipes and devices are not read; save to a file first"));
    }
    File::open(path).map_err(refused)
}

/// The complaint about a file that cannot be opened.
fn refused(error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => {
            Error::input("cannot open the file: it does not exist").hint("check the path")
        }
        ErrorKind::PermissionDenied => Error::input("cannot open the file: permission denied")
            .hint("make it readable, `chmod u+r FILE`, or ask its owner to"),
        _ => Error::input(format!("cannot open the file: {}", error.to_string().to_lowercase()))
            .hint("check the path and that the disk is mounted"),
    }
}

/// The first eight bytes; zeros follow if the file is shorter.
pub(super) fn first_bytes(path: &Path) -> Result<[u8; 8]> {
    let mut first = [0; 8];
    let mut file = open_file(path)?;
    let mut filled = 0;
    while filled < first.len() {
        match file.read(&mut first[filled..]) {
            Ok(0) | Err(_) => break,
            Ok(count) => filled += count,
        }
    }
    Ok(first)
}

/// Fills `bytes` from byte `at` on, whatever else is read through the same handle.
#[cfg(unix)]
pub(super) fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

/// Fills `bytes` from byte `at` on, whatever else is read through the same handle.
#[cfg(windows)]
pub(super) fn read_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, at)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => {
                bytes = &mut bytes[count..];
                at += count as u64;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_not_to_open_a_file_has_its_own_hint() {
        let denied = refused(ErrorKind::PermissionDenied.into()).to_string();
        assert!(denied.starts_with("cannot open the file: permission denied; hint: make it"));
        let absent = open_file(Path::new("/nowhere/a.npz")).unwrap_err().to_string();
        assert_eq!(absent, "cannot open the file: it does not exist; hint: check the path");
        let folder = open_file(Path::new("/")).unwrap_err().to_string();
        assert!(folder.starts_with("expected a plain file"), "{folder}");
    }
}
