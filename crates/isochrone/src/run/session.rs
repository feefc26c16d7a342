//! The loop of a run: updates, rows of metrics, evaluations and checkpoints, from where its folder
//! stands to its end.

mod evaluating;
mod saving;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::Scope;
use std::time::Instant;

use super::beside::{Beside, measure};
use super::config::RunConfig;
use super::files::{CHECKPOINTS, MODEL};
use super::folder::{self, final_snapshot};
use super::journal::{Journal, MetricNames, due};
use super::provenance::{Conditions, Provenance};
use super::source::{Source, tasks};
use super::tables::evaluation_columns;
use crate::algorithms;
use crate::checkpoint::{Lock, latest, tidy};
use crate::collective::Collective;
use crate::engine::Hardware;
use crate::error::{Error, Result};
use crate::evaluate::{Success, TypicalPairs};
use crate::extraction::Extraction;
use crate::ledger::Due;
use crate::model::Model;
use crate::simulate::Task;
use crate::train::{Prepared, Trainer};

/// What a run tells while it goes, and when it should stop.
pub trait Observer: Send {
    /// The teacher of a learner that has one has solved so many of all its goals.
    fn solved(&mut self, _solved: usize, _goals: usize) {}
    /// Updates up to `step` are done.
    fn updated(&mut self, _step: u64, _steps: u64) {}
    /// A row of metrics was written: their names and values.
    fn logged(&mut self, _step: u64, _names: &[String], _values: &[f64]) {}
    /// A checkpoint is damaged and was skipped.
    fn skipped(&mut self, _error: &Error) {}
    /// The run resumes from a checkpoint.
    fn resumed(&mut self, _step: u64) {}
    /// Something that a user should know.
    fn noted(&mut self, _note: &str) {}
    /// So many of all episodes of an evaluation have ended, where training waits for it.
    fn evaluating(&mut self, _ended: usize, _episodes: usize) {}
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

/// A run that is complete.
pub struct Finished {
    /// What it learned.
    pub model: Model,
    /// The last evaluation, in a world.
    pub success: Option<Success>,
}

/// Runs `config` in `folder` to its end, resuming from what the folder holds.
///
/// # Errors
/// Whatever is wrong with config, data, folder or machine; a signal ends with
/// [`Error::Interrupted`] after saving.
pub fn execute(
    config: &RunConfig,
    source: &Source,
    folder: &Path,
    conditions: &Conditions,
    hardware: impl Into<Hardware>,
    observer: &mut dyn Observer,
) -> Result<Finished> {
    execute_beside(config, source, folder, conditions, hardware.into(), observer, None)
}

/// As [`execute`]; `beside` says whether evaluations run beside training, whatever the device.
fn execute_beside(
    config: &RunConfig,
    source: &Source,
    folder: &Path,
    conditions: &Conditions,
    hardware: Hardware,
    observer: &mut dyn Observer,
    beside: Option<bool>,
) -> Result<Finished> {
    let collective = hardware.collective.clone();
    // Of several processes that carry the run, rank 0 alone reads and writes its folder.
    let keeps = collective.rank() == 0;
    let _lock = keeps.then(|| Lock::take(folder)).transpose()?;
    let extended = if keeps { folder::check(config, folder)? } else { None };
    let data = source.prepared(config)?;
    let trainer = begin(config, source, &data, &hardware, observer)?;
    let device = hardware.gpu.as_ref().filter(|_| trainer.on_gpu()).map(|gpu| gpu.name.clone());
    let mut conditions = conditions.clone();
    conditions.device = device.unwrap_or(conditions.device);
    let mut session = Session {
        config,
        source,
        folder,
        data: source.fingerprint()?,
        tasks: tasks(config, source)?,
        typical: TypicalPairs::of(&source.dataset, config.seed)?,
        trainer,
        success: None,
        saved: None,
        keeps,
        beside: false,
    };
    session.beside = beside.unwrap_or(session.trainer.on_gpu());
    session.agree(&collective)?;
    let from = if keeps { session.begin(observer)? } else { None };
    session.trainer.share(&collective)?;
    // Only now: a command that was refused leaves the folder free for the corrected one.
    let discount = source.discount(config);
    let mut provenance = Provenance::new(conditions, &source.dataset, &session.data, discount);
    provenance.from = config.from.as_deref();
    provenance.from_step = from;
    if keeps {
        let step = session.trainer.step();
        folder::claim(config, &provenance, extended.is_some(), step, folder)?;
    }
    if let Some(before) = extended {
        observer.noted(&format!(
            "continuing from {before} to {} updates; schedules and phases now span all of them",
            config.train.steps
        ));
        if let Some(needed) = distance_needs(config, before) {
            observer.noted(&format!(
                "the new updates train the policy alone (`algorithm.phases`); the distance is trained \
                 further from `--more {needed}` on"
            ));
        }
    }
    hardware.threads.enter(|| session.run(observer))
}

/// How many more updates than `before` it takes until some of them train the distance; none if some of
/// those that `config` asks for do, or none ever do.
fn distance_needs(config: &RunConfig, before: u64) -> Option<u64> {
    let until = config.algorithm.clone().phases_mut()?.critic_until;
    let misses = until > 0.0 && until * config.train.steps as f64 <= before as f64;
    misses.then(|| (before as f64 / until) as u64 + 1 - before)
}

/// Trains `config` to its end without a folder: nothing is kept, and nothing can be resumed.
pub(super) fn train_in_memory(
    config: &RunConfig,
    source: &Source,
    hardware: Hardware,
    observer: &mut dyn Observer,
) -> Result<Finished> {
    let data = source.prepared(config)?;
    let mut trainer = begin(config, source, &data, &hardware, observer)?;
    take_over(config, &mut trainer)?;
    let steps = config.train.steps;
    hardware.threads.enter(|| {
        while trainer.step() < steps {
            let portion = if trainer.on_gpu() { PORTION } else { 1 };
            trainer.updates(steps.min(trainer.step() + portion))?;
            observer.updated(trainer.step(), steps);
            if let Some(signal) = observer.signal() {
                return Err(Error::Interrupted(signal));
            }
        }
        let model = trainer.model()?;
        TypicalPairs::of(&source.dataset, config.seed)?.check(&model, steps)?;
        let tell = telling(observer, |observer, ended, of| observer.evaluating(ended, of));
        let success = measure(config, source, &tasks(config, source)?, &model, &tell)?;
        Ok(Finished { model, success })
    })
}

/// The trainer of a run at its first step.
fn begin<'d>(
    config: &RunConfig,
    source: &Source,
    data: &'d Prepared,
    hardware: &Hardware,
    observer: &mut dyn Observer,
) -> Result<Trainer<'d>> {
    let (seed, discount) = (config.seed, source.discount(config));
    let tell = telling(observer, |observer, solved, goals| observer.solved(solved, goals));
    let (algorithm, settings, hardware) = (&config.algorithm, &config.train, hardware.clone());
    let trainer = Trainer::telling(algorithm, settings, data, discount, seed, hardware, &tell)?;
    drop(tell);
    trainer.notes().iter().for_each(|note| observer.noted(note));
    let wants_policy = |algorithm: &mut algorithms::Config| {
        algorithm.extraction_mut().is_some_and(|extraction| *extraction != Extraction::None)
    };
    if source.dataset.action_size() == 0 && wants_policy(&mut config.algorithm.clone()) {
        observer.noted("the data have no actions: the distance is learned, without a policy");
    }
    Ok(trainer)
}

/// Tells `observer` from any thread how far some work is, and passes on its signal.
fn telling<'o>(
    observer: &'o mut dyn Observer,
    tell: fn(&mut dyn Observer, usize, usize),
) -> impl Fn(usize, usize) -> Option<i32> + Sync + 'o {
    let observer = Mutex::new(observer);
    move |done, of| {
        let mut observer = observer.lock().unwrap_or_else(PoisonError::into_inner);
        tell(&mut **observer, done, of);
        observer.signal()
    }
}

/// Takes over what the run builds on; the updates of the run whose distance it was.
fn take_over(config: &RunConfig, trainer: &mut Trainer<'_>) -> Result<Option<u64>> {
    let mut step = None;
    if let Some(run) = config.from.as_deref().map(Path::new) {
        let snapshot = final_snapshot(run)?;
        let adopted = trainer.adopt(&snapshot, |name| name != "policy");
        adopted.map_err(|error| error.in_file(run))?;
        step = Some(snapshot.step);
    }
    if let crate::algorithms::Config::Cmd2(config) = &config.algorithm
        && let Some(run) = config.trained_critic.as_deref().map(Path::new)
    {
        let adopted = trainer.adopt(&final_snapshot(run)?, |name| name.ends_with("_encoder"));
        adopted.map_err(|error| error.in_file(run))?;
    }
    Ok(step)
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
    /// Where a distance that has run away shows.
    typical: TypicalPairs,
    trainer: Trainer<'a>,
    success: Option<Success>,
    /// The step of the newest checkpoint that was saved here.
    saved: Option<u64>,
    /// Whether this process reads and writes the folder.
    keeps: bool,
    /// Whether training goes on while the policy is evaluated: a GPU leaves the cores idle.
    beside: bool,
}

impl Session<'_> {
    /// What a checkpoint remembers of the config it belongs to.
    fn config_hash(&self) -> Result<String> {
        // A run may be continued for more updates than it began with.
        let mut identity = self.config.identity();
        identity.train.steps = 0;
        Ok(blake3::hash(identity.to_toml()?.as_bytes()).to_hex().to_string())
    }

    /// Checks that all processes of the run have the data and the config of rank 0.
    fn agree(&self, collective: &Collective) -> Result<()> {
        let own = blake3::hash(format!("{} {}", self.config_hash()?, self.data).as_bytes());
        let mut first = *own.as_bytes();
        collective.broadcast(&mut first);
        if first == *own.as_bytes() {
            return Ok(());
        }
        Err(Error::changed("the data or the config are not those of rank 0")
            .hint("every machine needs the same files and the same command"))
    }

    fn checkpoints(&self) -> PathBuf {
        self.folder.join(CHECKPOINTS)
    }

    /// Restores the newest checkpoint, or takes over what the run builds on; then the updates of the
    /// run whose distance it is.
    fn begin(&mut self, observer: &mut dyn Observer) -> Result<Option<u64>> {
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
            tidy(&self.checkpoints(), snapshot.step, self.config.train.keep)?;
            observer.resumed(snapshot.step);
            Ok(None)
        } else if !found.skipped.is_empty() {
            Err(Error::input("every checkpoint of the run is damaged")
                .in_file(&self.checkpoints())
                .hint("remove the folder `checkpoints` to begin again"))
        } else {
            take_over(self.config, &mut self.trainer)
        }
    }

    fn open_journal(&self) -> Result<Journal> {
        let step = self.trainer.step();
        let resume = (step > 0).then_some(step);
        let evaluated = !self.tasks.is_empty() && self.trainer.model()?.has_policy();
        let is_complete = self.folder.join(MODEL).exists();
        let names = MetricNames {
            metrics: self.trainer.metrics(),
            evaluation: evaluated.then(|| evaluation_columns(self.source.groups())),
        };
        Journal::open(self.folder, names, &self.config.train, resume, is_complete)
    }

    fn run(&mut self, observer: &mut dyn Observer) -> Result<Finished> {
        let mut journal = self.keeps.then(|| self.open_journal()).transpose()?;
        std::thread::scope(|scope| self.train(scope, journal.as_mut(), observer))?;
        self.finish(observer)
    }

    /// Updates, rows and checkpoints up to the last step.
    fn train<'scope>(
        &mut self,
        scope: &'scope Scope<'scope, '_>,
        mut journal: Option<&mut Journal>,
        observer: &mut dyn Observer,
    ) -> Result<()>
    where
        Self: 'scope,
    {
        let (settings, names) = (&self.config.train, self.trainer.metrics());
        let [logged, evaluated] = due(settings);
        let saved = Due { every: settings.save_every, last: settings.steps };
        let mut since = (Instant::now(), self.trainer.step());
        let mut seconds = f64::NAN;
        let mut beside: Option<Beside<'scope>> = None;
        if let Some(journal) = journal.as_deref_mut() {
            self.catch_up(journal, observer)?;
        }
        while self.trainer.step() < settings.steps {
            self.trainer.updates(self.next_stop())?;
            let step = self.trainer.step();
            let last = step == settings.steps;
            if logged.at(step) {
                let row = self.trainer.row()?;
                observer.logged(step, &names, &row);
                match (&mut beside, journal.as_deref_mut()) {
                    (Some(beside), _) => beside.wait(step, row),
                    (None, Some(journal)) => journal.logged(step, &row)?,
                    (None, None) => {}
                }
            }
            let due = evaluated.at(step);
            let mut unfinished = None;
            if let Some(journal) = journal.as_deref_mut() {
                if let Some(ended) = beside.take_if(|beside| due || beside.has_ended()) {
                    seconds = self.settle(ended, journal, observer)?;
                }
                if due && self.beside && !last {
                    beside = Some(self.evaluate_beside(scope, journal)?);
                } else if due {
                    match self.evaluate(journal, observer) {
                        // Made again when the run is resumed.
                        Err(Error::Interrupted(signal)) => unfinished = Some(signal),
                        taken => seconds = taken?,
                    }
                }
            }
            observer.updated(step, settings.steps);
            let signal = self.trainer.stops(observer.signal().or(unfinished));
            let saves = saved.at(step) || signal.is_some();
            if let Some(journal) = journal.as_deref_mut().filter(|_| saves) {
                // A checkpoint needs the rows before it; that of its own step can be made again.
                let needed = |beside: &mut Beside<'_>| beside.step < step;
                if let Some(ended) = beside.take_if(needed) {
                    seconds = self.settle(ended, journal, observer)?;
                }
                let rate = (step - since.1) as f64 / since.0.elapsed().as_secs_f64();
                journal.timed(step, [rate, std::mem::replace(&mut seconds, f64::NAN)])?;
                since = (Instant::now(), step);
                self.save_there(journal, observer)?;
                self.saved = Some(step);
            }
            if let Some(signal) = signal.filter(|_| !last || unfinished.is_some()) {
                beside.into_iter().for_each(|beside| beside.abandon(signal));
                return Err(Error::Interrupted(signal));
            }
        }
        Ok(())
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

    /// Writes the model unless it is there, whole and of this run.
    fn finish(&mut self, observer: &mut dyn Observer) -> Result<Finished> {
        let model = self.trainer.model()?;
        if !self.keeps {
            return Ok(Finished { model, success: None });
        }
        let path = self.folder.join(MODEL);
        let refused = folder::read_model(self.config, self.folder).err();
        if let Some(error) = &refused {
            if path.exists() {
                observer.noted(&format!("restoring the model: {error}"));
            }
            model.save_with(&path, folder::model_facts(self.config, &self.data)?)?;
        }
        Ok(Finished { model, success: self.success.take() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Threads;
    use crate::run::open_source;

    /// What a run leaves, apart from what depends on the clock.
    const FILES: [&str; 4] = ["metrics.csv", "evaluation.csv", "metrics.jsonl", MODEL];

    fn config(save_every: u64) -> RunConfig {
        let settings = [
            "data.source=pinwheel",
            "data.episodes=6",
            "train.steps=12",
            "train.batch_size=16",
            "train.log_every=1",
            "train.evaluate_every=4",
            "train.keep=9",
            "evaluation.tasks=3",
            "algorithm.name=gcbc",
        ];
        let saved = format!("train.save_every={save_every}");
        let settings: Vec<String> =
            settings.iter().map(|setting| (*setting).to_owned()).chain([saved]).collect();
        RunConfig::parse("", &settings).unwrap()
    }

    fn executed(config: &RunConfig, folder: &Path, beside: bool) {
        let source = open_source(&config.data).unwrap();
        let (conditions, hardware) = (Conditions::default(), Hardware::from(Threads::default()));
        let how = Some(beside);
        execute_beside(config, &source, folder, &conditions, hardware, &mut Silent, how).unwrap();
    }

    /// Asks to stop in its nth evaluation.
    struct StopsIn(usize);

    impl Observer for StopsIn {
        fn evaluating(&mut self, ended: usize, of: usize) {
            self.0 -= usize::from(ended == of);
        }
        fn signal(&self) -> Option<i32> {
            (self.0 == 0).then_some(15)
        }
    }

    /// Asks to stop after so many updates.
    struct StopsAt(u64);

    impl Observer for StopsAt {
        fn updated(&mut self, step: u64, _: u64) {
            self.0 *= u64::from(step < self.0);
        }
        fn signal(&self) -> Option<i32> {
            (self.0 == 0).then_some(15)
        }
    }

    fn left(folder: &Path) -> Vec<Vec<u8>> {
        FILES.map(|name| std::fs::read(folder.join(name)).unwrap()).into()
    }

    #[test]
    fn an_evaluation_beside_training_leaves_the_files_of_one_in_turn() {
        for save_every in [3, 4, 12] {
            let config = config(save_every);
            let [turn, beside] = [false, true].map(|beside| {
                let folder = tempfile::tempdir().unwrap();
                executed(&config, folder.path(), beside);
                left(folder.path())
            });
            assert!(turn == beside, "saved every {save_every}");
        }
    }

    #[test]
    fn a_run_stopped_in_an_evaluation_saves_its_step_and_makes_the_evaluation_again() {
        let config = config(12);
        let whole = tempfile::tempdir().unwrap();
        executed(&config, whole.path(), false);
        for evaluation in 1..=3 {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let source = open_source(&config.data).unwrap();
            let mut stops = StopsIn(evaluation);
            let go = |observer: &mut dyn Observer| {
                let conditions = Conditions::default();
                execute(&config, &source, folder, &conditions, Threads::default(), observer)
            };
            let stopped = go(&mut stops).err().unwrap();
            assert!(matches!(stopped, Error::Interrupted(15)));
            let step = 4 * evaluation as u64;
            assert_eq!(folder::newest_step(&folder.join(CHECKPOINTS)), step);
            assert!(!folder.join(MODEL).exists());
            // Whoever asks the stopped run sees the evaluations before.
            let before = crate::run::over_training(&config, folder).unwrap();
            assert_eq!(before.map_or(0, |before| before.evaluations), evaluation - 1);
            // Stopped in the same evaluation once more, then not.
            assert!(go(&mut StopsIn(1)).is_err());
            go(&mut Silent).unwrap();
            assert!(left(folder) == left(whole.path()), "evaluation {evaluation}");
        }
    }

    #[test]
    fn a_signal_ends_an_evaluation_beside_training() {
        std::thread::scope(|scope| {
            let wait = |tell: &crate::Tell<'_>| loop {
                if let Some(signal) = tell(0, 1) {
                    return Err(Error::Interrupted(signal));
                }
                std::thread::yield_now();
            };
            // Without the signal it would never end.
            Beside::begin(scope, 4, wait).unwrap().abandon(2);
        });
        for (save_every, stop) in [(4, 8), (4, 9), (4, 11), (12, 8), (12, 9)] {
            let config = config(save_every);
            let [whole, folder] = [(); 2].map(|()| tempfile::tempdir().unwrap());
            executed(&config, whole.path(), false);
            let source = open_source(&config.data).unwrap();
            let go = |observer: &mut dyn Observer| {
                let (conditions, hardware) = (Conditions::default(), Threads::default().into());
                let (folder, how) = (folder.path(), Some(true));
                execute_beside(&config, &source, folder, &conditions, hardware, observer, how)
            };
            // Whether the evaluation of step 8 has ended by then or not.
            assert!(matches!(go(&mut StopsAt(stop)).err(), Some(Error::Interrupted(15))));
            go(&mut Silent).unwrap();
            assert!(left(folder.path()) == left(whole.path()), "{save_every} {stop}");
        }
    }

    #[test]
    fn a_run_killed_before_its_evaluation_ended_evaluates_its_checkpoint() {
        let config = config(4);
        for beside in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            executed(&config, folder, true);
            let whole = left(folder);
            // Killed after the checkpoint of step 8 was saved, while its evaluation ran.
            let checkpoints = std::fs::read_dir(folder.join(CHECKPOINTS)).unwrap();
            let mut paths: Vec<PathBuf> = checkpoints.map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            std::fs::remove_file(paths.pop().unwrap()).unwrap();
            std::fs::remove_file(folder.join(MODEL)).unwrap();
            let table = folder.join("evaluation.csv");
            let text = std::fs::read_to_string(&table).unwrap();
            let rows: Vec<&str> = text.split_inclusive('\n').collect();
            assert_eq!(rows.len(), 4, "{text}");
            std::fs::write(&table, rows[..2].concat()).unwrap();
            executed(&config, folder, beside);
            assert!(left(folder) == whole);
        }
    }
}
