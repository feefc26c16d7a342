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

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub use config::{ActionKind, DataConfig, EvaluationConfig, RunConfig, preset};
pub use folder::{Listed, Status, list, newest_snapshot, open_model, read_config};

use crate::checkpoint::{Disk, Files, Lock, Snapshot, fingerprint, latest, save_step};
use crate::data::{self, Choices, Dataset, Loaded, Memory, Normalization};
use crate::engine::{Device, Hardware};
use crate::error::{Error, Result};
use crate::evaluate::{Control, OverTraining, Success, success};
use crate::ledger::{self, Ledger};
use crate::model::Model;
use crate::simulate::{Environment, Recording, Task, World};
use crate::train::{Prepared, Trainer};

/// The data of a run and, for a world, the world itself.
pub struct Source {
    /// All trajectories.
    pub dataset: Dataset,
    /// The world they come from.
    pub world: Option<Opened>,
    /// Other trajectories to validate on; where there are none, some of the dataset are held out.
    pub held_out: Option<Dataset>,
    /// What a user should know about the data; one sentence each.
    pub notes: Vec<String>,
}

impl Source {
    /// Trajectories alone.
    pub fn new(dataset: Dataset) -> Self {
        Self { dataset, world: None, held_out: None, notes: Vec::new() }
    }

    /// A name for the contents of the data, held-out ones included.
    ///
    /// # Errors
    /// Data that stay in a file can no longer be read.
    pub fn fingerprint(&self) -> Result<String> {
        let name = fingerprint(&self.dataset)?;
        let Some(held_out) = &self.held_out else { return Ok(name) };
        let both = name + &fingerprint(held_out)?;
        Ok(blake3::hash(both.as_bytes()).to_hex().to_string())
    }

    /// Normalized data to train and validate on, as the config says.
    ///
    /// # Errors
    /// Too few trajectories to hold some out; data that stay in a file can no longer be read.
    pub fn prepared(&self, config: &RunConfig) -> Result<Prepared> {
        match &self.held_out {
            None => prepare(config, &self.dataset),
            Some(held_out) => normalized(config, self.dataset.clone(), Some(held_out.clone())),
        }
    }

    /// The same with its trajectories in memory: where they stay in a file, a sample of them, and a
    /// note says so.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn sampled(mut self) -> Result<Self> {
        let sample = match self.dataset.in_memory()? {
            Cow::Borrowed(_) => return Ok(self),
            Cow::Owned(sample) => sample,
        };
        self.notes.push(format!(
            "{} of {} trajectories, drawn at random, stand for all: more do not fit into memory",
            sample.trajectories(),
            self.dataset.trajectories()
        ));
        if let Some(opened) = &mut self.world {
            // Only files are too large, and a file's trajectories are of one family.
            opened.families.truncate(sample.trajectories());
        }
        self.dataset = sample;
        Ok(self)
    }
}

/// A world that data were recorded in.
pub struct Opened {
    /// Which.
    pub world: World,
    /// To act in.
    pub environment: Box<dyn Environment>,
    /// The family of every trajectory.
    pub families: Vec<u8>,
    /// The families' names.
    pub family_names: Vec<String>,
}

impl Source {
    /// Kinds of tasks that the world asks in turn.
    fn groups(&self) -> usize {
        self.world.as_ref().map_or(1, |opened| opened.environment.groups())
    }
}

/// Generates a world's data or reads a file.
///
/// # Errors
/// The file cannot be read or is not what it must be.
pub fn open_source(config: &DataConfig) -> Result<Source> {
    if let Ok(world) = config.source.parse::<World>() {
        let environment = world.open();
        let Recording { dataset, families, family_names } = match config.episodes {
            None => environment.generate(config.seed)?,
            Some(count) => environment.record(config.seed, 0..count, &|| {})?.recording,
        };
        let world = Some(Opened { world, environment, families, family_names });
        return Ok(Source { world, ..Source::new(dataset) });
    }
    let path = Path::new(&config.source);
    if !path.exists() {
        let known: Vec<String> = World::ALL.iter().map(|world| format!("`{world}`")).collect();
        return Err(Error::input(format!("no file and no world called `{}`", config.source))
            .hint(format!("name an .npz or .hdf5 file, or a world: {}", known.join(", "))));
    }
    let (dataset, mut notes, beside) = load(config, path)?;
    let beside = beside.filter(|_| config.validation > 0.0);
    let held_out = match (config.held_out.as_deref(), beside) {
        (Some("none"), _) | (None, None) => None,
        (Some(path), _) => Some(PathBuf::from(path)),
        (None, Some(path)) => {
            notes.push(format!("validated on {}, which lies beside the data", path.display()));
            Some(path)
        }
    };
    let held_out = held_out.map(|path| load_held_out(config, &path, &dataset)).transpose()?;
    let world = config.recorded_in.map(|world| recorded_in(world, &dataset, path)).transpose()?;
    Ok(Source { dataset, world, held_out, notes })
}

/// Trajectories of a file, what is to be said of them, and the held-out ones that lie beside it.
fn load(config: &DataConfig, path: &Path) -> Result<(Dataset, Vec<String>, Option<PathBuf>)> {
    let memory = config.memory.unwrap_or_else(Memory::usual);
    let Loaded { dataset, notes, held_out, .. } = data::load(path, &Choices::default(), memory)?;
    let dataset = match config.actions {
        ActionKind::Auto => dataset,
        ActionKind::OneHot => dataset.declared_one_hot().map_err(|error| error.in_file(path))?,
    };
    Ok((dataset, notes, held_out))
}

/// Held-out trajectories, whose states and actions must be like those of `dataset`.
fn load_held_out(config: &DataConfig, path: &Path, dataset: &Dataset) -> Result<Dataset> {
    let (held_out, ..) = load(config, path)?;
    let sizes = |data: &Dataset| (data.state_size(), data.action_size());
    let (found, expected) = (sizes(&held_out), sizes(dataset));
    if found != expected || held_out.choices() != dataset.choices() {
        return Err(Error::input(format!(
            "held-out states and actions of {found:?} numbers, those trained on have {expected:?}"
        ))
        .in_file(path)
        .hint("name another file, or set `data.held_out = \"none\"`"));
    }
    Ok(held_out)
}

/// The world that the data of a file are said to come from.
fn recorded_in(world: World, dataset: &Dataset, path: &Path) -> Result<Opened> {
    let environment = world.open();
    let found = (dataset.state_size(), dataset.action_size());
    let expected = (environment.state_size(), environment.action_size());
    if found != expected {
        return Err(Error::input(format!(
            "states and actions of {found:?} numbers, those of `{world}` have {expected:?}"
        ))
        .in_file(path)
        .hint("set `data.recorded_in` to the world the file was recorded in"));
    }
    let families = vec![0; dataset.trajectories()];
    Ok(Opened { world, environment, families, family_names: vec!["file".into()] })
}

/// Splits and normalizes data as the config says.
///
/// # Errors
/// Too few trajectories to hold some out; data that stay in a file can no longer be read.
pub fn prepare(config: &RunConfig, dataset: &Dataset) -> Result<Prepared> {
    let (training, validation) = dataset.split(config.data.validation, config.data.seed)?;
    normalized(config, training, validation)
}

fn normalized(
    config: &RunConfig,
    training: Dataset,
    validation: Option<Dataset>,
) -> Result<Prepared> {
    let features = &config.data.features;
    features.check(training.state_size())?;
    let goal = &config.data.policy_goal;
    Normalization::check_policy_goal(goal, training.state_size())?;
    let normalization = Normalization::fit(&training, config.data.scaling)?
        .with(features.clone())
        .with_policy_goal(goal.clone());
    let training = match &config.data.even {
        Some(law) => training.evened(law)?,
        None => training,
    };
    let radius = config.data.world().map(|world| world.open().radius());
    Ok(Prepared { training, validation, normalization, radius })
}

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

/// The task set of a world: fixed by the evaluation's seed.
///
/// # Errors
/// The world finds no such tasks in the data.
pub fn tasks(config: &RunConfig, source: &Source) -> Result<Vec<Task>> {
    match &source.world {
        Some(opened) => {
            let EvaluationConfig { seed, tasks, .. } = config.evaluation;
            opened.environment.tasks(seed, tasks, &source.dataset)
        }
        None => Ok(Vec::new()),
    }
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
        let found = latest(&Disk, &self.checkpoints())?;
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
            timing: open("timing.csv", &timing)?,
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
        save_step(&Disk, &self.checkpoints(), &snapshot, self.config.train.keep)
    }

    fn finish(&mut self) -> Result<Finished> {
        let model = self.trainer.model()?;
        let path = self.folder.join("model.safetensors");
        if !path.exists() {
            model.save(&Disk as &dyn Files, &path)?;
        }
        Ok(Finished { model, success: self.success.take() })
    }
}

const EVALUATION: &str = "evaluation.csv";

/// What the evaluations of the run in `folder` come to; none where there were none.
///
/// # Errors
/// A table that cannot be read.
pub fn over_training(folder: &Path) -> Result<Option<OverTraining>> {
    let path = folder.join(EVALUATION);
    if !path.exists() {
        return Ok(None);
    }
    let rates = ledger::read(&path)?.column("evaluation/overall_success").unwrap_or_default();
    Ok(OverTraining::of(&rates))
}

/// Switches that have a column of their own, and the most kinds of tasks that a world asks in turn.
const MOST_SWITCHES: u8 = 4;
const MOST_TASKS: usize = 5;

/// The columns of an evaluation: by kind of task where a world asks several in turn, else by switches.
fn evaluation_columns(groups: usize) -> Vec<String> {
    let all =
        ["evaluation/overall_success", "evaluation/stitched_success", "evaluation/mean_steps"];
    let classes: Vec<String> = if groups > 1 {
        let task =
            |task: usize| ["success", "steps"].map(|what| format!("evaluation/task_{task}_{what}"));
        (1..=groups).flat_map(task).collect()
    } else {
        (0..=MOST_SWITCHES)
            .map(|switches| format!("evaluation/switches_{switches}_success"))
            .collect()
    };
    all.map(str::to_owned).into_iter().chain(classes).collect()
}

fn evaluation_row(success: &Success, groups: usize) -> Vec<f64> {
    let known = |number: Option<f64>| number.unwrap_or(f64::NAN);
    let classes: Vec<f64> = if groups > 1 {
        let task = |task: usize| {
            let found = success.by_task.iter().find(|found| found.task == task);
            let rate = known(found.map(|found| found.rate.rate));
            [rate, known(found.and_then(|found| found.mean_steps))]
        };
        (1..=groups).flat_map(task).collect()
    } else {
        let class =
            |switches| success.by_switches.iter().find(move |class| class.switches == switches);
        (0..=MOST_SWITCHES)
            .map(|switches| known(class(switches).map(|class| class.rate.rate)))
            .collect()
    };
    let stitched = known(success.stitched.map(|stitched| stitched.rate));
    let all = [success.overall.rate, stitched, known(success.mean_steps)];
    all.into_iter().chain(classes).collect()
}
