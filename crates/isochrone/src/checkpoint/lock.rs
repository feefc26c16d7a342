//! One process at a time works in the folder of a run.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};

/// The file that is locked.
const LOCK: &str = ".lock";
/// How often and how long taking a folder waits for those who only look, in milliseconds.
const TRIES: u32 = 20;
const PAUSE: u64 = 5;

/// The right to work in a folder, held until dropped; the system frees it when a process dies.
#[derive(Debug)]
pub struct Lock {
    held: File,
}

impl Lock {
    /// Takes the folder, creating it where it is not there.
    ///
    /// # Errors
    /// [`Error::Busy`] where another run has it, [`Error::Disk`] where the system refuses.
    pub fn take(folder: &Path) -> Result<Self> {
        let refused = |error| Error::disk("lock", folder, error);
        std::fs::create_dir_all(folder).map_err(refused)?;
        // The file stays after the run: removing it would let two runs hold two files.
        let options = OpenOptions::new().create(true).write(true).truncate(false).clone();
        let file = options.open(folder.join(LOCK)).map_err(refused)?;
        for attempt in 0..TRIES {
            match file.try_lock() {
                Ok(()) => return Ok(Self { held: file }),
                Err(TryLockError::Error(error)) => return Err(refused(error)),
                // Whoever looks with `is_taken` is gone at once.
                Err(TryLockError::WouldBlock) if attempt + 1 < TRIES => {
                    std::thread::sleep(Duration::from_millis(PAUSE));
                }
                Err(TryLockError::WouldBlock) => break,
            }
        }
        Err(Error::busy("another process is working on this run")
            .in_file(folder)
            .hint("wait until it ends or choose another folder with `--out`"))
    }

    /// Whether a process works in the folder. Nothing is created or written, several may ask at
    /// once, and nobody is kept from taking the folder; one that cannot be asked is not taken.
    pub fn is_taken(folder: &Path) -> bool {
        let Ok(file) = File::open(folder.join(LOCK)) else { return false };
        match file.try_lock_shared() {
            Ok(()) => {
                file.unlock().ok();
                false
            }
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => false,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child process just being started may still have the file open.
        self.held.unlock().ok();
    }
}
