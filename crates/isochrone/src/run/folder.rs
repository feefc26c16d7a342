//! The folder of a run: who may write there, what stands in it, and how far it is.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::RunConfig;
use crate::checkpoint::{Lock, Snapshot, latest, step_of, write_whole};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::ledger;
use crate::model::Model;

const CONFIG: &str = "config.toml";
const PROVENANCE: &str = "provenance.toml";
pub(super) const MODEL: &str = "model.safetensors";
const CHECKPOINTS: &str = "checkpoints";

/// Where a run's data and program come from.
#[derive(Serialize)]
struct Provenance<'a> {
    version: &'static str,
    data: &'a str,
    data_rows: usize,
    data_trajectories: usize,
    device: &'a str,
}

/// Checks that the folder holds no run of another config.
pub(super) fn check(config: &RunConfig, folder: &Path) -> Result<()> {
    if !folder.join(CONFIG).exists() {
        return Ok(());
    }
    let keys = read_config(folder)?.differences(config)?;
    if keys.is_empty() {
        return Ok(());
    }
    Err(Error::input(format!(
        "the folder holds a run of another config, which differs in `{}`",
        keys.join("`, `")
    ))
    .in_file(folder)
    .hint("choose another folder with `--out`, or repeat the old command"))
}

/// Writes config and provenance into a new folder.
pub(super) fn claim(
    config: &RunConfig,
    (dataset, data): (&Dataset, &str),
    device: &str,
    folder: &Path,
) -> Result<()> {
    let checkpoints = folder.join(CHECKPOINTS);
    std::fs::create_dir_all(&checkpoints)
        .map_err(|error| Error::disk("create", &checkpoints, error))?;
    if folder.join(CONFIG).exists() {
        return Ok(());
    }
    let provenance = Provenance {
        version: env!("CARGO_PKG_VERSION"),
        data,
        data_rows: dataset.rows(),
        data_trajectories: dataset.trajectories(),
        device,
    };
    let provenance = toml::to_string(&provenance)
        .map_err(|error| Error::input(format!("the provenance cannot be written: {error}")))?;
    write_whole(&folder.join(PROVENANCE), provenance.as_bytes())?;
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

/// Whether the run of `config` in `folder` is at its end: its model is written or, where model and
/// checkpoints were left behind on another machine, its last evaluation.
pub(super) fn is_complete(config: &RunConfig, folder: &Path) -> Result<bool> {
    let table = folder.join(super::EVALUATION);
    if folder.join(MODEL).exists() {
        return Ok(true);
    }
    if folder.join(CHECKPOINTS).exists() || !table.exists() {
        return Ok(false);
    }
    let steps = ledger::read(&table)?.column("step").unwrap_or_default();
    Ok(steps.last() == Some(&(config.train.steps as f64)))
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

/// The model in `path`: a model file, or the folder of a run that is complete.
///
/// # Errors
/// There is none, or it is damaged.
pub fn open_model(path: &Path) -> Result<Model> {
    if !path.is_dir() {
        if !path.is_file() {
            return Err(Error::input("no model and no run")
                .in_file(path)
                .hint("name a `model.safetensors` or a folder that `isochrone train` made"));
        }
        return Model::load(path);
    }
    let model = path.join(MODEL);
    if model.exists() {
        return Model::load(&model);
    }
    let config = read_config(path)?;
    let step = newest_snapshot(path)?.step;
    Err(Error::input(format!(
        "the run is at step {step} of {}, it has no model yet",
        config.train.steps
    ))
    .in_file(path)
    .hint("repeat its command: it goes on where it stopped"))
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// All updates are done.
    Complete,
    /// A process works on it.
    Running,
    /// It can go on.
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
    listed.source = config.data.source;
    listed.seed = config.seed;
    listed.success = crate::ledger::read(&folder.join("evaluation.csv"))
        .ok()
        .and_then(|table| table.column("evaluation/overall_success")?.last().copied());
    listed.status = if folder.join(MODEL).exists() {
        Status::Complete
    } else if Lock::is_taken(folder) {
        Status::Running
    } else {
        Status::Stopped
    };
    listed
}

/// The newest step by the names of the checkpoints; they are not read.
fn newest_step(checkpoints: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(checkpoints) else { return 0 };
    entries.flatten().filter_map(|entry| step_of(entry.file_name().to_str()?)).max().unwrap_or(0)
}
