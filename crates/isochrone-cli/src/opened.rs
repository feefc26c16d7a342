//! Runs opened to be asked, and what a user should know of them.

use std::path::{Path, PathBuf};

use isochrone::model::Model;
use isochrone::run::files::CONFIG;
use isochrone::run::{LastCheck, OpenRun, Source, open_model};
use isochrone::{Error, Result};

use crate::progress::recording;

/// Opens the run in `folder`; where it is not complete, says at which step it is asked.
///
/// # Errors
/// No run, several seeds of one, or a run without a checkpoint.
pub fn open_run(folder: &Path) -> Result<OpenRun> {
    if let [first, ..] = &seed_folders(folder)[..] {
        return Err(Error::input("several seeds, expected one run")
            .in_file(folder)
            .hint(format!("name one of them, such as `{}`", first.display())));
    }
    let opened = OpenRun::new(folder)?;
    if !opened.is_complete() {
        let (step, steps) = (opened.step, opened.config.train.steps);
        crate::output::warn(&format!(
            "the run is not complete: answers are those of step {step} of {steps}"
        ));
    }
    Ok(opened)
}

/// The model of the run in a folder, or of a model file, and what the last check said of it.
///
/// # Errors
/// As [`open_run`]; a file that holds no model.
pub fn open_asked(path: &Path) -> Result<(Model, Option<LastCheck>)> {
    let model = if path.is_dir() { open_run(path)?.model } else { open_model(path)? };
    let judged = LastCheck::read(path, &model).filter(|_| model.has_distance());
    Ok((model, judged))
}

/// The data that a run learned from; `note` is told how far their recording is.
///
/// # Errors
/// They cannot be read, or are no longer those the run began with.
pub fn data_of(opened: &OpenRun, note: &(dyn Fn(String) + Sync)) -> Result<Source> {
    let source = opened.source_told(&|world, done, of| note(recording(world, done, of)))?;
    note(String::new());
    Ok(source)
}

/// Data to ask about, in memory: a sample where they do not fit, which is said.
pub fn sampled(source: Source) -> Result<Source> {
    let before = source.notes.len();
    let source = source.sampled()?;
    source.notes[before..].iter().for_each(|note| crate::output::warn(note));
    Ok(source)
}

/// The folders `seed-…` of a folder that holds several seeds of one run, by number.
pub fn seed_folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let numbered = |name: &str| name.strip_prefix("seed-")?.parse::<u64>().ok();
    let mut found: Vec<(u64, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| Some((numbered(entry.file_name().to_str()?)?, entry.path())))
        .filter(|(_, path)| path.join(CONFIG).exists())
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}
