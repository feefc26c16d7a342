//! Whole files on a disk, in an order that survives a power cut.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use crate::error::{Error, Result};
use crate::{beside, plain};

/// What is asked of a file system: whole files, in an order that survives a cut of power.
pub(crate) trait Files: Send + Sync {
    /// Creates a file that is not there and returns when all its bytes are on the disk.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Gives a file another name, replacing what has it, in one indivisible act.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Returns when the names in a folder are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// The bytes of a plain file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The names in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Disk;

impl Files for Disk {
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // One handle for both: a failed write-back is reported to the handle that wrote.
        let mut file = beside::create_new(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        plain::read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
}

/// Writes a file whole, or leaves what was there before: temporary file, sync, rename, sync of the
/// folder.
///
/// # Errors
/// The system refuses; the temporary file is then gone.
pub(super) fn place(files: &dyn Files, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = beside::name(path);
    let placed =
        files.write(&temporary, bytes).map_err(|error| Error::disk("write", path, error)).and_then(
            |()| files.rename(&temporary, path).map_err(|error| Error::disk("rename", path, error)),
        );
    if placed.is_err() {
        // Gives the space back.
        files.remove(&temporary).ok();
        return placed;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    files.sync_folder(folder).map_err(|error| Error::disk("sync", folder, error))
}
