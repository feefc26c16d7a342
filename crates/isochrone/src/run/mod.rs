//! A run: its config, its folder, and the loop that fills it.
//!
//! ```text
//! config.toml        every choice, defaults written out; feeding it back gives the same run
//! provenance.toml    version, data fingerprint, device
//! checkpoints/       step-….safetensors, the newest few
//! metrics.csv        functions of seed, data and config alone
//! evaluation.csv     likewise
//! timing.csv         everything that depends on the clock
//! model.safetensors  the distance and the policy, when the run is complete
//! ```
//!
//! The same command in the same folder goes on where the newest checkpoint stands.

pub mod compare;
mod config;
mod folder;
mod presets;
mod source;
mod tables;

use std::path::{Path, PathBuf};
use std::time::Instant;

pub use config::{ActionKind, DataConfig, EvaluationConfig, RunConfig};
pub use folder::{Listed, Status, list, newest_snapshot, open_model, read_config};
pub use presets::preset;
pub use source::{Opened, Source, open_source, prepare, tasks};
pub use tables::{over_training, update_seconds};

use self::tables::{EVALUATION, TIMING, evaluation_columns, evaluation_row};
use crate::checkpoint::{Lock, Snapshot, latest, save_step};
use crate::engine::{Device, Hardware};
use crate::error::{Error, Result};
use crate::evaluate::{Control, Success, success};
use crate::ledger::Ledger;
use crate::model::Model;
use crate::simulate::Task;
use crate::train::Trainer;

/// What a run tells while it goes, and when it should stop.
pub trait Observer: Send {
    /// An update is done; `loss` is the first pass's.
    fn updated(&mut self, _step: u64, _steps: u64) {}
    /// A checkpoint was found damaged and passed over.
    fn skipped(&mut self, _error: &Error) {}
    /// The run goes on from a checkpoint.
    fn resumed(&mut self, _step: u64) {}
    /// Something about the device that a user should know.
    fn noted(&mut self, _note: &str) {}
    /// An evaluation is done.
    fn evaluated(&mut self, _step: u64, _success: &Success) {}
    /// A signal that asks to stop.
    fn signal(&self) -> Option<i32> {
        None
    }
}

/// An observer that is told everything and says nothing.
pub struct Silent;

impl Observer for Silent {}

/// Where a run begins, when not from its own first values.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// A run whose distance is taken over and stands still while a new policy is learned.
    pub distance_from: Option<PathBuf>,
}

/// A run that is complete.
pub struct Finished {
    /// What it learned.
    pub model: Model,
    /// The last evaluation, in a world.
    pub success: Option<Success>,
}

/// Runs `config` in `folder` to its end, going on from what the folder holds.
///
/// # Errors
/// Whatever the user must mend; a signal ends with [`Error::Interrupted`] after saving.
pub fn execute(
    config: &RunConfig,
    source: &Source,
    folder: &Path,
    origin: &Origin,
    hardware: impl Into<Hardware>,
    observer: &mut dyn Observer,
) -> Result<Finished> {
    let hardware = hardware.into();
    let _lock = Lock::take(folder)?;
    folder::check(config, folder)?;
    let data = source.prepared(config)?;
    let (seed, discount) = (config.seed, config.discount());
    let trainer =
        Trainer::new(&config.algorithm, &config.train, &data, discount, seed, hardware.clone())?;
    if let Some(note) = trainer.note() {
        observer.noted(note);
    }
    let device = hardware.gpu.as_ref().filter(|_| trainer.on_gpu()).map_or_else(
        || "cpu".to_owned(),
        |gpu| format!("{} ({})", Device::Cuda(gpu.number), gpu.name),
    );
    let mut session = Session {
        config,
        source,
        folder,
        data: source.fingerprint()?,
        tasks: tasks(config, source)?,
        trainer,
        success: None,
    };
    session.begin(origin, observer)?;
    // Only now: a command that was refused leaves the folder free for the mended one.
    folder::claim(config, (&source.dataset, &session.data), &device, folder)?;
    hardware.threads.enter(|| session.go_on(observer))
}

/// Updates that a GPU is asked for at once at most, between two looks at signals.
const PORTION: u64 = 256;

/// A run in progress in its folder.
struct Session<'a> {
    config: &'a RunConfig,
    source: &'a Source,
    folder: &'a Path,
    /// The fingerprint of the data.
    data: String,
    tasks: Vec<Task>,
    trainer: Trainer<'a>,
    success: Option<Success>,
}

struct Ledgers {
    metrics: Ledger,
    evaluation: Option<Ledger>,
    timing: Ledger,
}

impl Session<'_> {
    /// What a checkpoint remembers of the config it belongs to.
    fn config_hash(&self) -> Result<String> {
        Ok(blake3::hash(self.config.identity().to_toml()?.as_bytes()).to_hex().to_string())
    }

    fn checkpoints(&self) -> PathBuf {
        self.folder.join("checkpoints")
    }

    /// Restores the newest checkpoint, or takes over what the run builds on.
    fn begin(&mut self, origin: &Origin, observer: &mut dyn Observer) -> Result<()> {
        let found = latest(&self.checkpoints())?;
        if let Some(snapshot) = found.snapshot {
            found.skipped.iter().for_each(|error| observer.skipped(error));
            if snapshot.facts.get("data") != Some(&self.data) {
                return Err(Error::changed("the data are not those the run began with")
                    .in_file(self.folder)
                    .hint("restore the data, or choose another folder with `--out`"));
            }
            if snapshot.facts.get("config") != Some(&self.config_hash()?) {
                return Err(Error::input("the newest checkpoint is of another config")
                    .in_file(self.folder)
                    .hint("choose another folder with `--out`"));
            }
            self.trainer.restore(&snapshot).map_err(|error| error.in_file(self.folder))?;
            observer.resumed(snapshot.step);
        } else if !found.skipped.is_empty() {
            return Err(Error::input("every checkpoint of the run is damaged")
                .in_file(&self.checkpoints())
                .hint("remove the folder `checkpoints` to begin again"));
        } else {
            self.take_over(origin)?;
        }
        Ok(())
    }

    fn take_over(&mut self, origin: &Origin) -> Result<()> {
        if let Some(run) = &origin.distance_from {
            let snapshot = newest_snapshot(run)?;
            self.trainer
                .adopt(&snapshot, |name| name != "policy")
                .map_err(|error| error.in_file(run))?;
        }
        if let crate::algorithms::Config::Cmd2(config) = &self.config.algorithm
            && let Some(run) = &config.trained_critic
        {
            let snapshot = newest_snapshot(Path::new(run))?;
            self.trainer
                .adopt(&snapshot, |name| name.ends_with("_encoder"))
                .map_err(|error| error.in_file(Path::new(run)))?;
        }
        Ok(())
    }

    fn open_ledgers(&self) -> Result<Ledgers> {
        let step = self.trainer.step();
        let resume = (step > 0).then_some(step);
        let open =
            |name: &str, columns: &[String]| Ledger::open(&self.folder.join(name), columns, resume);
        let evaluation = (!self.tasks.is_empty())
            .then(|| open(EVALUATION, &evaluation_columns(self.source.groups())));
        let timing = ["time/updates_per_second", "time/evaluation_seconds"].map(str::to_owned);
        Ok(Ledgers {
            metrics: open("metrics.csv", &self.trainer.metrics())?,
            evaluation: evaluation.transpose()?,
            timing: open(TIMING, &timing)?,
        })
    }

    fn go_on(&mut self, observer: &mut dyn Observer) -> Result<Finished> {
        let mut ledgers = self.open_ledgers()?;
        let settings = &self.config.train;
        let due = |step: u64, every: u64| every > 0 && step.is_multiple_of(every);
        let mut since = (Instant::now(), self.trainer.step());
        while self.trainer.step() < settings.steps {
            self.trainer.updates(self.next_stop())?;
            let step = self.trainer.step();
            let last = step == settings.steps;
            if due(step, settings.log_every) || last {
                let row = self.trainer.row()?;
                ledgers.metrics.append(step, &row)?;
            }
            let mut seconds = f64::NAN;
            if due(step, settings.evaluate_every) || last {
                seconds = self.evaluate(&mut ledgers, observer)?;
            }
            observer.updated(step, settings.steps);
            let signal = self.trainer.stops(observer.signal());
            if due(step, settings.save_every) || last || signal.is_some() {
                let rate = (step - since.1) as f64 / since.0.elapsed().as_secs_f64();
                ledgers.timing.append(step, &[rate, seconds])?;
                since = (Instant::now(), step);
                self.save(&ledgers)?;
            }
            if let Some(signal) = signal.filter(|_| !last) {
                return Err(Error::Interrupted(signal));
            }
        }
        self.finish()
    }

    /// The next step at which there is something to do besides updating.
    fn next_stop(&self) -> u64 {
        let settings = &self.config.train;
        let step = self.trainer.step();
        let portion = if self.trainer.on_gpu() { PORTION } else { 1 };
        let next = |every: u64| (step / every + 1) * every;
        [portion, settings.log_every, settings.save_every, settings.evaluate_every]
            .into_iter()
            .filter(|&every| every > 0)
            .fold(settings.steps, |stop, every| stop.min(next(every)))
    }

    /// Measures success in the world; how many seconds it took.
    fn evaluate(&mut self, ledgers: &mut Ledgers, observer: &mut dyn Observer) -> Result<f64> {
        let (Some(opened), Some(ledger)) = (&self.source.world, &mut ledgers.evaluation) else {
            return Ok(f64::NAN);
        };
        let model = self.trainer.model()?;
        if !model.has_policy() {
            return Ok(f64::NAN);
        }
        let since = Instant::now();
        let seed = self.config.evaluation.seed;
        let measured = success(&*opened.environment, &self.tasks, &model, Control::Policy, seed)?;
        let row = evaluation_row(&measured, self.source.groups());
        ledger.append(self.trainer.step(), &row)?;
        observer.evaluated(self.trainer.step(), &measured);
        self.success = Some(measured);
        Ok(since.elapsed().as_secs_f64())
    }

    /// Tables first, then the checkpoint: a table is never behind it.
    fn save(&self, ledgers: &Ledgers) -> Result<()> {
        for ledger in [Some(&ledgers.metrics), ledgers.evaluation.as_ref(), Some(&ledgers.timing)] {
            ledger.map_or(Ok(()), Ledger::sync)?;
        }
        let mut snapshot: Snapshot = self.trainer.snapshot()?;
        snapshot.facts.insert("kind".into(), "checkpoint".into());
        snapshot.facts.insert("data".into(), self.data.clone());
        snapshot.facts.insert("config".into(), self.config_hash()?);
        save_step(&self.checkpoints(), &snapshot, self.config.train.keep)
    }

    fn finish(&mut self) -> Result<Finished> {
        let model = self.trainer.model()?;
        let path = self.folder.join("model.safetensors");
        if !path.exists() {
            model.save(&path)?;
        }
        Ok(Finished { model, success: self.success.take() })
    }
}
