//! The folder of a run: who may write there, what stands in it, and how far it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::config::RunConfig;
use super::files::{CHECKPOINTS, CONFIG, EVALUATION, MODEL};
use super::provenance::{Provenance, data_of};
use crate::checkpoint::{Lock, Snapshot, latest, step_of, write_whole};
use crate::error::{Error, Result};
use crate::ledger;
use crate::model::Model;

/// Checks that the folder holds no run of another config. A run may be continued for more updates:
/// then how many it had.
pub(super) fn check(config: &RunConfig, folder: &Path) -> Result<Option<u64>> {
    if !folder.join(CONFIG).exists() {
        return Ok(None);
    }
    let old = read_config(folder)?;
    let keys = old.differences(config)?;
    let (before, asked) = (old.train.steps, config.train.steps);
    match &keys.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(None),
        ["train.steps"] if asked > before => Ok(Some(before)),
        ["train.steps"] => Err(Error::input(format!(
            "the folder's run has {before} updates, {asked} were asked for"
        ))
        .in_file(folder)
        .hint("choose another folder with `--out`; only more updates continue a run")),
        keys => Err(Error::input(format!(
            "the folder holds a run of another config, which differs in `{}`",
            keys.join("`, `")
        ))
        .in_file(folder)
        .hint("choose another folder with `--out`, or repeat the old command")),
    }
}

/// Writes config and provenance into a new folder, or the config of a run that is continued for more
/// updates. The run is at `step`.
pub(super) fn claim(
    config: &RunConfig,
    provenance: &Provenance<'_>,
    extended: bool,
    step: u64,
    folder: &Path,
) -> Result<()> {
    let checkpoints = folder.join(CHECKPOINTS);
    std::fs::create_dir_all(&checkpoints)
        .map_err(|error| Error::disk("create", &checkpoints, error))?;
    if (1..config.train.steps).contains(&step) {
        provenance.add_resumed(folder, step)?;
    }
    if folder.join(CONFIG).exists() && !extended {
        return Ok(());
    }
    if !extended {
        provenance.write(folder)?;
    }
    // First, because a folder with a model is complete.
    let model = folder.join(MODEL);
    if extended && model.exists() {
        std::fs::remove_file(&model).map_err(|error| Error::disk("remove", &model, error))?;
    }
    write_whole(&folder.join(CONFIG), config.to_toml()?.as_bytes())
}

/// The config of the run in `folder`.
///
/// # Errors
/// The folder holds no run, or its config is damaged.
pub fn read_config(folder: &Path) -> Result<RunConfig> {
    let path = folder.join(CONFIG);
    if !path.exists() {
        return Err(Error::input("no run")
            .in_file(folder)
            .hint("name a folder that `isochrone train` made; `isochrone runs` lists them"));
    }
    RunConfig::read(&path, &[])
}

/// What the model of a run says of the run: its config and the fingerprint of its data.
pub(super) fn model_facts(config: &RunConfig, data: &str) -> Result<BTreeMap<String, String>> {
    let facts = [("config", config.of_model().to_toml()?), ("data", data.to_owned())];
    Ok(facts.map(|(name, fact)| (name.to_owned(), fact)).into())
}

/// The model of the run of `config` in `folder`: whole, and learned by this run.
pub(super) fn read_model(config: &RunConfig, folder: &Path) -> Result<Model> {
    let path = folder.join(MODEL);
    let hint = format!("`isochrone train --out {}` restores it", folder.display());
    let (model, facts) = Model::load_with_facts(&path).map_err(|error| match error {
        Error::Input(_) => error.hint(&hint),
        other => other,
    })?;
    // A model of an earlier version does not say which run it is of.
    let mut differing = match facts.get("config") {
        Some(text) => RunConfig::parse(text, &[])
            .and_then(|other| other.differences(&config.of_model()))
            .map_err(|error| error.in_file(&path))?,
        None => Vec::new(),
    };
    let known = data_of(folder)?;
    if known.is_some() && facts.contains_key("data") && facts.get("data") != known.as_ref() {
        differing.push("data".into());
    }
    if differing.is_empty() {
        return Ok(model.placed(config.places()));
    }
    let keys = differing.join("`, `");
    Err(Error::input(format!("the model is of another run, which differs in `{keys}`"))
        .in_file(&path)
        .hint(hint))
}

/// Whether the run of `config` in `folder` is at its end: its model is whole or, where model and
/// checkpoints were left behind on another machine, its last evaluation.
pub(super) fn is_complete(config: &RunConfig, folder: &Path) -> Result<bool> {
    let table = folder.join(EVALUATION);
    if folder.join(MODEL).exists() && read_model(config, folder).is_ok() {
        return Ok(true);
    }
    if folder.join(CHECKPOINTS).exists() || !table.exists() {
        return Ok(false);
    }
    let steps = ledger::read(&table)?.column("step").unwrap_or_default();
    Ok(steps.last() == Some(&(config.train.steps as f64)))
}

/// What is wrong with a run at its end that is not complete: its model cannot be read, or is gone. None
/// for a run that is merely unfinished.
pub(super) fn damage(config: &RunConfig, folder: &Path) -> Option<Error> {
    if folder.join(MODEL).exists() {
        return read_model(config, folder).err();
    }
    let is_at_end = newest_step(&folder.join(CHECKPOINTS)) >= config.train.steps;
    is_at_end.then(|| {
        Error::input("the run is at its last update but has no model")
            .in_file(&folder.join(MODEL))
            .hint(format!("`isochrone train --out {}` restores it", folder.display()))
    })
}

/// The newest checkpoint of the run in `folder`.
///
/// # Errors
/// There is none that can be read.
pub fn newest_snapshot(folder: &Path) -> Result<Snapshot> {
    read_config(folder)?;
    let mut found = latest(&folder.join(CHECKPOINTS))?;
    match found.snapshot {
        Some(snapshot) => Ok(snapshot),
        None => Err(found.skipped.pop().unwrap_or_else(|| {
            Error::input("the run has no checkpoint yet").in_file(folder).hint("let it train first")
        })),
    }
}

/// The last checkpoint of the run in `folder`, which must be complete.
pub(super) fn final_snapshot(folder: &Path) -> Result<Snapshot> {
    let steps = read_config(folder)?.train.steps;
    let snapshot = newest_snapshot(folder)?;
    if snapshot.step < steps {
        return Err(Error::input(format!("the run is at step {} of {steps}", snapshot.step))
            .in_file(folder)
            .hint(format!("finish it first: `isochrone train --out {}`", folder.display())));
    }
    Ok(snapshot)
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// All updates are done.
    Complete,
    /// A process works on it.
    Running,
    /// It can be resumed.
    Stopped,
    /// Its files cannot be read.
    Damaged,
}

/// One run in a list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Listed {
    /// Its folder.
    pub folder: PathBuf,
    /// How far it is.
    pub status: Status,
    /// Updates done, by its newest checkpoint.
    pub step: u64,
    /// Updates it will have.
    pub steps: u64,
    /// The learner.
    pub algorithm: String,
    /// Where its data come from.
    pub source: String,
    /// Its seed.
    pub seed: u64,
    /// The last overall success, in a world.
    pub success: Option<f64>,
}

/// How deep runs may lie below the folder that is listed.
const DEEPEST: usize = 4;

/// The runs at and below `folder`, by path.
///
/// # Errors
/// The folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Listed>> {
    let mut found = Vec::new();
    search(folder, 0, &mut found)?;
    found.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(found)
}

fn search(folder: &Path, depth: usize, found: &mut Vec<Listed>) -> Result<()> {
    if folder.join(CONFIG).exists() {
        found.push(describe(folder));
        return Ok(());
    }
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Error::input(format!("cannot list runs: {error}")).in_file(folder))
        .map_err(|error| error.hint("name the folder that `isochrone train` keeps runs in"))?;
    for entry in entries.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && depth < DEEPEST {
            search(&entry.path(), depth + 1, found)?;
        }
    }
    Ok(())
}

fn describe(folder: &Path) -> Listed {
    let mut listed = Listed {
        folder: folder.to_owned(),
        status: Status::Damaged,
        step: newest_step(&folder.join(CHECKPOINTS)),
        steps: 0,
        algorithm: String::new(),
        source: String::new(),
        seed: 0,
        success: None,
    };
    let Ok(config) = read_config(folder) else { return listed };
    listed.steps = config.train.steps;
    listed.algorithm = config.algorithm.name().to_owned();
    listed.source = config.data.source.clone();
    listed.seed = config.seed;
    listed.success = crate::ledger::read(&folder.join(EVALUATION))
        .ok()
        .and_then(|table| table.column("evaluation/overall_success")?.last().copied());
    listed.status = if folder.join(MODEL).exists() {
        read_model(&config, folder).map_or(Status::Damaged, |_| Status::Complete)
    } else if Lock::is_taken(folder) {
        Status::Running
    } else {
        Status::Stopped
    };
    listed
}

/// The newest step by the names of the checkpoints; they are not read.
pub(super) fn newest_step(checkpoints: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(checkpoints) else { return 0 };
    entries.flatten().filter_map(|entry| step_of(entry.file_name().to_str()?)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_model_and_checkpoints_were_left_behind_is_complete_by_its_last_evaluation() {
        let folder = tempfile::tempdir().unwrap();
        let config = RunConfig::parse("", &["train.steps=20".to_owned()]).unwrap();
        let complete = || is_complete(&config, folder.path()).unwrap();
        assert!(!complete());
        let table = folder.path().join(EVALUATION);
        std::fs::write(&table, "step,evaluation/overall_success\n10,0.5\n").unwrap();
        assert!(!complete());
        std::fs::write(&table, "step,evaluation/overall_success\n10,0.5\n20,0.6\n").unwrap();
        assert!(complete());
        // A run is evaluated before it is saved: one that was killed in between has no model yet.
        std::fs::create_dir(folder.path().join(CHECKPOINTS)).unwrap();
        assert!(!complete());
    }
}
