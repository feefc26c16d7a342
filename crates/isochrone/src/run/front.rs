//! The way in for programs: data, a learner, a few choices, and a model at the end.

use std::path::{Path, PathBuf};

use super::config::{DataConfig, RunConfig};
use super::judges::Judges;
use super::last_check::LastCheck;
use super::presets::tuned;
use super::provenance::Conditions;
use super::session::{Finished, Observer, Silent, execute, train_in_memory};
use super::source::{Source, open_source};
use crate::algorithms;
use crate::data::Dataset;
use crate::engine::{Device, Hardware, Threads};
use crate::error::{Result, Tell};
use crate::evaluate::{Judgement, Success};
use crate::model::Model;
use crate::plan::{Graph, KeptMap};
use crate::simulate::World;

/// Data to learn from: the path of a file or the name of a world, or trajectories in memory.
pub enum RunData {
    /// A file or a world.
    Named(String),
    /// The caller's own trajectories.
    Given(Box<Source>),
}

impl From<&str> for RunData {
    fn from(name: &str) -> Self {
        Self::Named(name.to_owned())
    }
}

impl From<String> for RunData {
    fn from(name: String) -> Self {
        Self::Named(name)
    }
}

impl From<&Path> for RunData {
    fn from(path: &Path) -> Self {
        Self::Named(path.display().to_string())
    }
}

impl From<PathBuf> for RunData {
    fn from(path: PathBuf) -> Self {
        path.as_path().into()
    }
}

impl From<World> for RunData {
    fn from(world: World) -> Self {
        Self::Named(world.to_string())
    }
}

impl From<Dataset> for RunData {
    fn from(dataset: Dataset) -> Self {
        Source::new(dataset).into()
    }
}

impl From<Source> for RunData {
    fn from(source: Source) -> Self {
        Self::Given(Box::new(source))
    }
}

/// A run to be trained; see the [front page](crate) for a whole program.
///
/// What is not chosen has the defaults of [`RunConfig`] or, in a world, the settings tuned to it.
#[must_use = "a run learns nothing until `fit` is called"]
pub struct Run {
    data: RunData,
    settings: Vec<String>,
    changes: Vec<Change>,
    folder: Option<PathBuf>,
    threads: Option<usize>,
    device: Device,
}

type Change = Box<dyn FnOnce(&mut RunConfig)>;

/// What was trained.
pub struct Fitted {
    /// What it learned.
    pub model: Model,
    /// Everything that decided it.
    pub config: RunConfig,
    /// The data it learned from.
    pub source: Source,
    /// The last evaluation, in a world.
    pub success: Option<Success>,
    /// What the planner is built from, once it was asked for.
    map: KeptMap,
}

impl Fitted {
    /// What speaks against reading learned numbers as steps: they are compared with the steps that
    /// elapsed on held-out trajectories and with the fewest along recorded moves, which takes seconds.
    /// `None` without a distance, or where too little can be compared; `tell` hears how many goals are
    /// solved, and may stop that.
    ///
    /// # Errors
    /// Data that stay in a file can no longer be read; a distance that is not finite.
    pub fn check(&self, tell: &Tell<'_>) -> Result<Option<LastCheck>> {
        if !self.model.has_distance() {
            return Ok(None);
        }
        let judges = Judges::new(&self.source, &self.config, Some(tell))?;
        let (elapsed, solved) = judges.judge(&self.model)?;
        let algorithm = self.config.algorithm.name();
        let (elapsed, solved) = (elapsed.as_ref(), solved.as_ref());
        Ok(LastCheck::new(&self.model, &Judgement { elapsed, solved, exact: None, algorithm }))
    }

    /// A planner over the data with the learned distance; the first one takes longest.
    ///
    /// # Errors
    /// A model without a distance.
    pub fn planner(&self) -> Result<Graph<'_, Model>> {
        self.model.need_distance()?;
        let settings = self.config.graph_settings();
        Graph::remembered(&self.model, &self.source.dataset, settings, &self.map)
    }
}

impl Run {
    /// A run that learns from `data`: the path of a file, the name of a world, or a [`Dataset`].
    pub fn on(data: impl Into<RunData>) -> Self {
        let (data, device) = (data.into(), Device::Cpu);
        let (settings, changes) = (Vec::new(), Vec::new());
        Self { data, settings, changes, folder: None, threads: None, device }
    }

    /// Learns with exactly these choices, such as `cmd1::Config::default()`.
    pub fn learner(self, config: impl Into<algorithms::Config>) -> Self {
        let learner = config.into();
        self.configure(move |config| config.algorithm = learner)
    }

    /// Learns with the learner of this name and, in a world, the settings tuned to both.
    pub fn algorithm(self, name: &str) -> Self {
        self.setting("algorithm.name", name)
    }

    /// Sets one key of the config, as `--set key=value` of the command does: numbers, texts and
    /// lists are those of JSON.
    pub fn setting(mut self, key: &str, value: impl Into<serde_json::Value>) -> Self {
        self.settings.push(format!("{key}={}", value.into()));
        self
    }

    /// Trains for so many updates.
    pub fn updates(self, count: u64) -> Self {
        self.configure(move |config| config.train.steps = count)
    }

    /// Rows of a batch.
    pub fn batch_size(self, rows: usize) -> Self {
        self.configure(move |config| config.train.batch_size = rows)
    }

    /// Seeds first values, batches and noise; 0 unless chosen.
    pub fn seed(self, seed: u64) -> Self {
        self.configure(move |config| config.seed = seed)
    }

    /// γ, between 0 and 1: 0.95 looks about 20 steps ahead, 0.99 about 100. Unless chosen it is the
    /// world's own, and 0.99 for other data.
    pub fn discount(self, discount: f64) -> Self {
        self.configure(move |config| config.discount = Some(discount))
    }

    /// Changes anything else of the config.
    pub fn configure(mut self, change: impl FnOnce(&mut RunConfig) + 'static) -> Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Keeps checkpoints, tables and the model in this folder; the same run there resumes.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Threads to use; all cores unless chosen. They change no result.
    pub fn threads(mut self, count: usize) -> Self {
        self.threads = Some(count);
        self
    }

    /// Where updates run; the CPU unless chosen.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// Trains to the end.
    ///
    /// # Errors
    /// Data that cannot be read, choices that do not fit each other or the data, a number that
    /// stopped being finite, or failed disk I/O.
    pub fn fit(self) -> Result<Fitted> {
        self.fit_watched(&mut Silent)
    }

    /// As [`Run::fit`], with somebody who is told how it goes and may stop it.
    ///
    /// # Errors
    /// As [`Run::fit`]; [`Error::Interrupted`](crate::Error::Interrupted) where the observer asks to stop.
    pub fn fit_watched(self, observer: &mut dyn Observer) -> Result<Fitted> {
        let Self { data, settings, changes, folder, threads, device } = self;
        let (config, source) = resolve(data, settings, changes)?;
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.unwrap_or_else(cores);
        let (hardware, note) = Hardware::choose(device, Threads::new(threads)?)?;
        source.notes.iter().chain(&note).for_each(|note| observer.noted(note));
        let Finished { model, success } = match folder {
            None => train_in_memory(&config, &source, hardware, observer)?,
            Some(folder) => {
                let conditions = Conditions::new(None, threads);
                execute(&config, &source, &folder, &conditions, hardware, observer)?
            }
        };
        Ok(Fitted { model, config, source, success, map: KeptMap::default() })
    }
}

/// The config of a run and the data it names or was given.
fn resolve(
    data: RunData,
    mut settings: Vec<String>,
    changes: Vec<Change>,
) -> Result<(RunConfig, Source)> {
    let name = match &data {
        RunData::Named(name) => name.as_str(),
        RunData::Given(_) => DataConfig::GIVEN,
    };
    settings.insert(0, format!("data.source={}", serde_json::Value::from(name)));
    let mut config = tuned(&settings)?;
    changes.into_iter().for_each(|change| change(&mut config));
    config.check()?;
    let source = match data {
        RunData::Named(_) => open_source(&config.data)?,
        RunData::Given(source) => *source,
    };
    Ok((config, source))
}
