//! Everything a run needs to resume, in one safetensors file that is either whole or not there.
//!
//! Temporary file → fsync → rename → fsync of the folder. Every bit is covered by a checksum, and
//! the newest checkpoint is found by looking, never by a pointer.

mod files;
mod lock;
mod snapshot;
mod steps;

use std::path::Path;

pub(crate) use self::files::{Disk, Files};
pub use self::lock::Lock;
pub use self::snapshot::{FORMAT, Snapshot, Tensor};
pub use self::steps::Latest;
pub(crate) use self::steps::step_of;
use crate::beside;
use crate::data::check_room;
use crate::error::{Error, Result};

/// Writes a snapshot to `path`: the whole file, or none and what was there before.
///
/// # Errors
/// [`Error::Diverged`] with the tensor's name where a number is not finite, [`Error::Disk`] where
/// the system refuses, [`Error::Input`] where a name stands twice or a shape does not fit.
pub fn save(path: &Path, snapshot: &Snapshot) -> Result<()> {
    replaceable(path)?;
    steps::save(&Disk, path, snapshot)
}

/// Reads a snapshot and verifies every bit of it.
///
/// # Errors
/// [`Error::Disk`] where the file cannot be read; [`Error::Input`] where it is damaged, was not
/// written by [`save`], or has another format.
pub fn load(path: &Path) -> Result<Snapshot> {
    // The bytes, and the numbers that they are read as.
    let bytes = std::fs::metadata(path).map_or(0, |about| 2 * about.len());
    check_room("the tensors of the file", bytes, "use a machine with more memory")
        .map_err(|error| error.in_file(path))?;
    steps::load(&Disk, path)
}

/// Writes `step-<12 digits>.safetensors` into `folder` and removes what is no longer needed:
/// temporary files that a killed save left, and all but the `keep` newest checkpoints up to this
/// step. The one just written always stays.
///
/// # Errors
/// As [`save`]; where only the tidying fails, the checkpoint is already safe.
pub fn save_step(folder: &Path, snapshot: &Snapshot, keep: usize) -> Result<()> {
    steps::save_step(&Disk, folder, snapshot, keep)
}

/// Removes all but the `keep` newest checkpoints up to `step`, of which a save that was killed at its end
/// leaves one too many. The one of `step` always stays.
///
/// # Errors
/// [`Error::Disk`] where the system refuses.
pub fn tidy(folder: &Path, step: u64, keep: usize) -> Result<()> {
    steps::tidy(&Disk, folder, step, keep)
}

/// Finds the newest checkpoint of `folder` that verifies; a folder that is not there has none.
///
/// # Errors
/// [`Error::Disk`] where the folder cannot be listed. A damaged checkpoint is no error: it is
/// passed over and told in [`Latest::skipped`].
pub fn latest(folder: &Path) -> Result<Latest> {
    steps::latest(&Disk, folder)
}

/// Writes a file whole, or leaves what was there before.
///
/// # Errors
/// [`Error::Disk`] where the system refuses; the temporary file is then gone.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    replaceable(path)?;
    files::place(&Disk, path, bytes)
}

/// Refuses to replace anything but a regular file, and removes what killed processes left.
fn replaceable(path: &Path) -> Result<()> {
    beside::check(path).map_err(|error| Error::disk("write", path, error))?;
    beside::sweep(path);
    Ok(())
}

#[cfg(test)]
mod tests;
