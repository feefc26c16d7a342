//! What trained a run and what it learned from: `provenance.toml`, written when the run begins. A program
//! of another version or commit, or on another device, that resumes the run adds itself.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::PROVENANCE;
use crate::checkpoint::write_whole;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::plain;

/// What trained a run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Conditions {
    /// The version of the library.
    pub version: String,
    /// The commit that the program was built from, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Threads of the program: in a comparison, runs at a time with one thread each.
    #[serde(default)]
    pub threads: usize,
    /// Where updates ran: `cpu`, or the name of the GPU.
    pub device: String,
    /// What resumed the run, where it was not what had trained it before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resumed: Vec<Resumption>,
}

/// What trained a run from some step on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Resumption {
    /// The updates before it.
    pub step: u64,
    /// The version of the library.
    pub version: String,
    /// The commit that the program was built from, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Where updates ran: `cpu`, or the name of the GPU.
    pub device: String,
}

/// What stands for the CPU.
const CPU: &str = "cpu";

impl Default for Conditions {
    fn default() -> Self {
        Self::new(None, 1)
    }
}

/// The GPU that `device` is; none is the CPU.
fn gpu(device: &str) -> Option<&str> {
    Some(device).filter(|device| *device != CPU)
}

impl Resumption {
    /// The GPU that updates ran on; none is the CPU.
    pub fn gpu(&self) -> Option<&str> {
        gpu(&self.device)
    }
}

impl Conditions {
    /// A program built from `commit` with so many threads; runs that use a GPU name it themselves.
    pub fn new(commit: Option<&str>, threads: usize) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit.map(str::to_owned),
            threads,
            device: CPU.to_owned(),
            resumed: Vec::new(),
        }
    }

    /// The GPU that updates ran on at first; none is the CPU.
    pub fn gpu(&self) -> Option<&str> {
        gpu(&self.device)
    }

    /// Where updates ran, one device after the other, for a table.
    pub fn places(&self) -> impl Iterator<Item = &str> {
        let devices = std::iter::once(self.gpu()).chain(self.resumed.iter().map(Resumption::gpu));
        devices.map(|gpu| gpu.unwrap_or("CPU"))
    }

    /// What the folder of a run says of them; `None` if it says nothing.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>> {
        read_toml(&folder.join(PROVENANCE))
    }
}

/// What trained a run and what it learned from.
#[derive(Debug, Serialize)]
pub(super) struct Provenance<'a> {
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The fingerprint of the data.
    pub data: &'a str,
    pub data_rows: usize,
    pub data_trajectories: usize,
    /// γ, as the config or else the data's source says.
    pub discount: f64,
    /// The run whose distance was taken over, and its updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_step: Option<u64>,
}

impl<'a> Provenance<'a> {
    /// Of a run that learns from `dataset`, whose fingerprint is `data`.
    pub fn new(conditions: Conditions, dataset: &Dataset, data: &'a str, discount: f64) -> Self {
        Self {
            conditions,
            data,
            data_rows: dataset.rows(),
            data_trajectories: dataset.trajectories(),
            discount,
            from: None,
            from_step: None,
        }
    }

    /// Writes it into the folder of its run.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = toml::to_string(self)
            .map_err(|error| Error::input(format!("the provenance cannot be written: {error}")))?;
        write_whole(&folder.join(PROVENANCE), text.as_bytes())
    }

    /// Adds what resumes the run in `folder` at `step`, unless it is what trained it before. Another number
    /// of threads gives the same bytes and is not added.
    pub fn add_resumed(&self, folder: &Path, step: u64) -> Result<()> {
        #[derive(Serialize)]
        struct Added {
            resumed: [Resumption; 1],
        }
        let Conditions { version, commit, device, .. } = self.conditions.clone();
        let now = Resumption { step, version, commit, device };
        let path = folder.join(PROVENANCE);
        let Some(text) = read_text(&path)? else { return Ok(()) };
        let before: Conditions = parse(&path, &text)?;
        let last = before
            .resumed
            .last()
            .map_or((&before.version, &before.commit, &before.device), |last| {
                (&last.version, &last.commit, &last.device)
            });
        if last == (&now.version, &now.commit, &now.device) {
            return Ok(());
        }
        let added = toml::to_string(&Added { resumed: [now] })
            .map_err(|error| Error::input(format!("the provenance cannot be written: {error}")))?;
        write_whole(&path, format!("{}\n\n{added}", text.trim_end()).as_bytes())
    }
}

/// The fingerprint of the data that the run in `folder` began with; `None` if it is not said.
pub(super) fn data_of(folder: &Path) -> Result<Option<String>> {
    #[derive(Deserialize)]
    struct Said {
        data: Option<String>,
    }
    Ok(read_toml::<Said>(&folder.join(PROVENANCE))?.and_then(|said| said.data))
}

/// The TOML file at `path`; `None` if there is no such file.
pub(super) fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    read_text(path)?.map(|text| parse(path, &text)).transpose()
}

/// What the file at `path` says; `None` if there is no such file.
fn read_text(path: &Path) -> Result<Option<String>> {
    if !path.exists() {
        return Ok(None);
    }
    plain::read_text(path).map(Some).map_err(|error| Error::disk("read", path, error))
}

/// The TOML that was read from `path`.
fn parse<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        Error::input(format!("cannot be read back: {}", error.message()))
            .in_file(path)
            .hint("remove the file and repeat the command")
    })
}
