//! A complete run, opened to be asked: its config, its model, its data.

use std::path::{Path, PathBuf};

use isochrone::model::Model;
use isochrone::run::{self, RunConfig, Source};
use isochrone::{Error, Result};

/// A complete run.
pub struct OpenRun {
    /// Its folder.
    pub folder: PathBuf,
    /// Its config.
    pub config: RunConfig,
    /// What it learned.
    pub model: Model,
}

impl OpenRun {
    /// Opens the run in `folder`.
    ///
    /// # Errors
    /// No run, several seeds of one, or a run that is not complete.
    pub fn new(folder: &Path) -> Result<Self> {
        if let [first, ..] = &seed_folders(folder)[..] {
            return Err(Error::input("several seeds, expected one run")
                .in_file(folder)
                .hint(format!("name one of them, such as `{}`", first.display())));
        }
        let config = run::read_config(folder)?;
        let model = run::open_model(folder)?;
        Ok(Self { folder: folder.to_owned(), config, model })
    }

    /// The data the run learned from.
    ///
    /// # Errors
    /// They cannot be read, or are no longer those the run began with.
    pub fn source(&self) -> Result<Source> {
        let source = run::open_source(&self.config.data)?;
        // A run whose checkpoints were removed to save space can no longer tell.
        if let Ok(snapshot) = run::newest_snapshot(&self.folder)
            && let Some(known) = snapshot.facts.get("data")
            && *known != source.fingerprint()?
        {
            return Err(Error::changed("the data are not those the run began with")
                .in_file(&self.folder)
                .hint("restore the data, or train again in another folder"));
        }
        sampled(source)
    }
}

/// Data to ask about, in memory: a sample where they do not fit, which is said.
pub fn sampled(source: Source) -> Result<Source> {
    let before = source.notes.len();
    let source = source.sampled()?;
    source.notes[before..].iter().for_each(|note| crate::warn(note));
    Ok(source)
}

/// The folders `seed-…` of a folder that holds several seeds of one run, by number.
pub fn seed_folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let numbered = |name: &str| name.strip_prefix("seed-")?.parse::<u64>().ok();
    let mut found: Vec<(u64, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((numbered(entry.file_name().to_str()?)?, entry.path())))
        .filter(|(_, path)| path.join("config.toml").exists())
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}
