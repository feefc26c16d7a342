//! Checkpoints of a run in progress, in a folder that may be away for a moment.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::{Journal, Observer, Session};
use crate::checkpoint::{Snapshot, save_step};
use crate::data::Dataset;
use crate::error::{Error, Result};

/// How long a folder may be away before the run gives up, and how long it waits between two looks.
const AWAY: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);

impl Session<'_> {
    /// Saves once the folder is there, and once more if it went meanwhile.
    pub(super) fn save_there(&self, journal: &Journal, observer: &mut dyn Observer) -> Result<()> {
        self.await_folder(observer)?;
        match self.save(journal) {
            Err(Error::Disk { source, .. }) if source.kind() == ErrorKind::NotFound => {
                self.await_folder(observer)?;
                self.save(journal)
            }
            saved => saved,
        }
    }

    /// Waits for the folder if it is gone: a disk that machines share may be away for a moment.
    fn await_folder(&self, observer: &mut dyn Observer) -> Result<()> {
        let folder = self.checkpoints();
        let since = Instant::now();
        while let Err(error) = std::fs::metadata(&folder) {
            if error.kind() != ErrorKind::NotFound {
                break;
            }
            if since.elapsed() > AWAY || observer.signal().is_some() {
                return Err(Error::disk("find", folder, error));
            }
            if since.elapsed() < PAUSE {
                let seconds = AWAY.as_secs();
                observer.noted(&format!(
                    "{} is gone; waiting up to {seconds} s for it",
                    folder.display()
                ));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Tables first, then the checkpoint: a table is never behind it. A distance that has run away
    /// is not saved.
    fn save(&self, journal: &Journal) -> Result<()> {
        let (model, step) = (self.trainer.model()?, self.trainer.step());
        self.typical.check(&model, step)?;
        // What was learned from other data is not saved under the fingerprint of these.
        let held_out = self.source.held_out.iter();
        held_out.chain([&self.source.dataset]).try_for_each(Dataset::check_unchanged)?;
        journal.sync()?;
        let mut snapshot: Snapshot = self.trainer.snapshot()?;
        snapshot.facts.insert("kind".into(), "checkpoint".into());
        snapshot.facts.insert("data".into(), self.data.clone());
        snapshot.facts.insert("config".into(), self.config_hash()?);
        save_step(&self.checkpoints(), &snapshot, self.config.train.keep)
    }
}
