//! A run opened to be asked: complete, or stopped and then as it was at its newest checkpoint.

use std::path::{Path, PathBuf};

use super::config::{DataConfig, RunConfig};
use super::files::{GRAPH, MODEL};
use super::folder::{newest_snapshot, read_config, read_model};
use super::source::{Recorded, Source, UNHEARD, check_source, fingerprint, open_told};
use crate::data::Dataset;
use crate::engine::Threads;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::plan::Graph;
use crate::train::Trainer;

/// A run to ask.
pub struct OpenRun {
    /// Its folder.
    pub folder: PathBuf,
    /// Its config.
    pub config: RunConfig,
    /// What it has learned.
    pub model: Model,
    /// The updates after which the model was taken: all of them where the run is complete.
    pub step: u64,
}

impl OpenRun {
    /// Opens the run in `folder`: its model or, where it is not complete, its newest checkpoint,
    /// which needs the data that it learns from.
    ///
    /// # Errors
    /// No run, no checkpoint yet, or data that cannot be read or have changed.
    pub fn new(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref().to_owned();
        let config = read_config(&folder)?;
        let path = folder.join(MODEL);
        if path.exists() {
            let (model, step) = (read_model(&config, &folder)?, config.train.steps);
            return Ok(Self { folder, config, model, step });
        }
        let snapshot = newest_snapshot(&folder)?;
        let source = recorded(&folder, &config, UNHEARD)?;
        let (data, discount) = (source.prepared(&config)?, source.discount(&config));
        let (settings, threads) = (&config.train, Threads::default());
        let mut trainer =
            Trainer::new(&config.algorithm, settings, &data, discount, config.seed, threads)?;
        trainer.restore(&snapshot).map_err(|error| error.in_file(&folder))?;
        let (model, step) = (trainer.model()?.placed(config.places()), snapshot.step);
        Ok(Self { folder, config, model, step })
    }

    /// Whether the last update is done.
    pub fn is_complete(&self) -> bool {
        self.step >= self.config.train.steps
    }

    /// The graph planner over `dataset`, which is kept in the run's folder: the next one over the
    /// same data, with the same model and settings, is read from there.
    ///
    /// # Errors
    /// As [`RunConfig::graph`].
    pub fn graph(&self, dataset: &Dataset) -> Result<Graph<'_, Model>> {
        if dataset.stays_in().is_some() {
            return self.config.graph(&self.model, dataset);
        }
        self.model.need_distance()?;
        let key = format!("{} {}", fingerprint(dataset)?, self.model.distance_fingerprint());
        let path = self.folder.join(GRAPH);
        Graph::kept(&self.model, dataset, self.config.graph_settings(), (&path, &key))
    }

    /// The data the run learns from.
    ///
    /// # Errors
    /// They cannot be read, or are no longer those the run began with.
    pub fn source(&self) -> Result<Source> {
        self.source_told(UNHEARD)
    }

    /// As [`source`](Self::source); `told` is told how far the recording of a world is.
    ///
    /// # Errors
    /// As [`source`](Self::source).
    pub fn source_told(&self, told: Recorded<'_>) -> Result<Source> {
        recorded(&self.folder, &self.config, told)
    }
}

/// Refuses a run whose data are not where its config says.
///
/// # Errors
/// There is no such file: a relative path may be meant from another folder.
pub fn check_data(folder: &Path, config: &RunConfig) -> Result<()> {
    let source = &config.data.source;
    if *source == DataConfig::GIVEN || check_source(source).is_ok() {
        return Ok(());
    }
    let hint = match Path::new(source).is_relative() {
        true => "the path counts from the folder that the run was started in: ask from there",
        false => "restore the file",
    };
    Err(Error::input(format!("the data of the run are not there: `data.source` is `{source}`"))
        .in_file(folder)
        .hint(hint))
}

/// The data of the run in `folder`, which must be those it began with.
fn recorded(folder: &Path, config: &RunConfig, told: Recorded<'_>) -> Result<Source> {
    check_data(folder, config)?;
    let source = open_told(&config.data, told)?;
    // A run whose checkpoints were removed to save space can no longer tell.
    if let Ok(snapshot) = newest_snapshot(folder)
        && let Some(known) = snapshot.facts.get("data")
        && *known != source.fingerprint()?
    {
        return Err(Error::changed("the data are not those the run began with")
            .in_file(folder)
            .hint("restore the data, or train again in another folder"));
    }
    Ok(source)
}

/// The model in `path`: a model file, or that of the run in a folder.
///
/// # Errors
/// There is none, or it is damaged.
pub fn open_model(path: &Path) -> Result<Model> {
    if path.is_dir() {
        return OpenRun::new(path).map(|run| run.model);
    }
    if !path.is_file() {
        return Err(Error::input("neither a model nor a run")
            .in_file(path)
            .hint(format!("name a `{MODEL}` or a folder that `isochrone train` made")));
    }
    Model::load(path)
}
