//! Executes the runs of a comparison, one per thread, which is most efficient for small networks. On
//! a GPU the runs of a learner that differ in nothing it sees, seeds and worlds, are updated together,
//! one learner after the other: side by side each would be as slow as the slowest.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::plan::recording;
use super::results::Divergence;
use super::{Job, Plan};
use crate::checkpoint::write_whole;
use crate::engine::{Companions, Hardware, Threads};
use crate::error::{Error, Result, Tell};
use crate::evaluate::{ASKED, Accuracy, Control, ExactSteps, accuracy, success, supported_steps};
use crate::ledger::{self, Ledger};
use crate::run::beside::own_pool;
use crate::run::files::{ACCURACY, DIVERGED, MODEL, PLANNER};
use crate::run::tables::{evaluation_columns, evaluation_row};
use crate::run::{Conditions, Observer, RunConfig, Source, execute, folder, open_model, tasks};
use crate::simulate::Referee;

/// Runs that a GPU updates at once at most: more of them fill it no better.
const MOST_TOGETHER: usize = 16;

/// Watches a comparison: is told about every run and says when to stop.
pub trait Watch: Sync {
    /// A run starts or resumes: returns its observer, which is dropped when the run ends or fails.
    fn begins(&self, job: &Job) -> Box<dyn Observer>;
    /// What a complete run learned is measured now, if it was not before.
    fn measures(&self, _job: &Job) {}
    /// So many of all its episodes with the planner have ended.
    fn planned(&self, _job: &Job, _ended: usize, _episodes: usize) {}
    /// It is measured, or could not be.
    fn measured(&self, _job: &Job) {}
    /// A signal that asks to stop.
    fn signal(&self) -> Option<i32>;
}

/// A run that failed.
#[derive(Debug)]
pub struct Failure {
    /// Its folder.
    pub folder: PathBuf,
    /// Why.
    pub error: Error,
}

impl Job {
    /// Whether its last update is done; a run that cannot be read is not complete.
    pub fn is_complete(&self) -> bool {
        folder::is_complete(&self.config, &self.folder).unwrap_or(false)
    }
}

impl Plan {
    /// Completes every run: as many at a time as there are threads, with one thread each, or more if
    /// there are fewer runs. A run that fails does not stop the others. Returns the runs that failed,
    /// in the order of the plan.
    pub fn execute(
        &self,
        conditions: &Conditions,
        hardware: &Hardware,
        watch: &dyn Watch,
    ) -> Vec<Failure> {
        self.execute_by_turns(conditions, hardware, watch, hardware.gpu.is_some())
    }

    /// As [`Plan::execute`]; `on_gpu` says whether learners take turns, whatever the device.
    fn execute_by_turns(
        &self,
        conditions: &Conditions,
        hardware: &Hardware,
        watch: &dyn Watch,
        on_gpu: bool,
    ) -> Vec<Failure> {
        let workers = conditions.threads;
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        let bundles = self.bundles(on_gpu);
        let widest = bundles.iter().map(Vec::len).max().unwrap_or(1);
        // While one bundle is on the GPU, what the one before it learned is measured. That takes less
        // time than the evaluations beside training, which therefore have threads for all cores.
        let at_once = if on_gpu { 2 } else { workers }.min(bundles.len());
        let share = if on_gpu { workers.div_ceil(widest) } else { workers / at_once.max(1) };
        let each = |jobs: &[usize], work: &(dyn Fn(usize) -> Result<()> + Sync)| {
            let one = |at: usize| {
                let ended = own_pool(share).and_then(|pool| pool.install(|| work(at)));
                if let (Err(error), Ok(mut failures)) = (ended, failures.lock()) {
                    failures.push((at, Failure { folder: self.jobs[at].folder.clone(), error }));
                }
            };
            std::thread::scope(|scope| {
                for &at in jobs {
                    scope.spawn(move || one(at));
                }
            });
        };
        let turn = Mutex::new(());
        let work = || {
            while watch.signal().is_none() {
                let Some(bundle) = bundles.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                let left = bundle.iter().filter(|&&at| !self.jobs[at].is_complete());
                let left: Vec<usize> = left.copied().collect();
                let runs =
                    left.iter().map(|&at| (self.recording_of(at), self.jobs[at].config.seed));
                let companions = Some(Companions::new(&runs.collect::<Vec<_>>()));
                let on_turn = on_gpu.then(|| turn.lock());
                if watch.signal().is_none() {
                    each(&left, &|at| {
                        let (companions, recording) = (companions.clone(), self.recording_of(at));
                        let hardware = Hardware { companions, recording, ..hardware.clone() };
                        self.train(&self.jobs[at], conditions, hardware, watch)
                    });
                }
                drop(on_turn);
                let complete = bundle.iter().filter(|&&at| self.jobs[at].is_complete());
                each(&complete.copied().collect::<Vec<_>>(), &|at| {
                    watch.measures(&self.jobs[at]);
                    let measured = self.measure(&self.jobs[at], watch);
                    watch.measured(&self.jobs[at]);
                    measured
                });
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..at_once {
                scope.spawn(work);
            }
        });
        let mut failures = failures.into_inner().unwrap_or_else(|poison| poison.into_inner());
        failures.sort_by_key(|(at, _)| *at);
        failures.into_iter().map(|(_, failure)| failure).collect()
    }

    /// The indices of runs that are trained together: on a GPU those that differ in nothing a learner
    /// sees, else each run alone.
    fn bundles(&self, together: bool) -> Vec<Vec<usize>> {
        let mut found: Vec<Vec<usize>> = Vec::new();
        for (at, job) in self.jobs.iter().enumerate() {
            let fits = |bundle: &&mut Vec<usize>| {
                together && bundle.len() < MOST_TOGETHER && self.alike(&self.jobs[bundle[0]], job)
            };
            match found.iter_mut().find(fits) {
                Some(bundle) => bundle.push(at),
                None => found.push(vec![at]),
            }
        }
        found
    }

    /// The number of the recording that a run learns from.
    fn recording_of(&self, at: usize) -> usize {
        let own = |at: usize| recording(&self.jobs[at].config.data);
        (0..at).find(|&other| own(other) == own(at)).unwrap_or(at)
    }

    /// Whether two runs make the same updates on other batches: the same learner in worlds of the same
    /// kind. A teacher's distances are those of one recording.
    fn alike(&self, one: &Job, other: &Job) -> bool {
        let (a, b) = (&one.config, &other.config);
        if recording(&a.data) == recording(&b.data) {
            return one.folder.parent() == other.folder.parent();
        }
        let (Some(source), Some(other)) = (self.source(a), self.source(b)) else { return false };
        let kind = |source: &Source, config: &RunConfig| {
            let (state, action) = (source.dataset.state_size(), source.dataset.action_size());
            let radius = source.world.as_ref().map(|opened| opened.environment.radius());
            (state, action, radius, source.discount(config), source.dataset.choices().is_some())
        };
        let prepared = |config: &RunConfig| {
            let nowhere = (String::new(), 0, None, None);
            let mut data = config.data.clone();
            (data.source, data.seed, data.episodes, data.recorded_in) = nowhere;
            data
        };
        kind(source, a) == kind(other, b)
            && a.algorithm.teacher().is_none()
            && (&a.algorithm, &a.train, &a.from) == (&b.algorithm, &b.train, &b.from)
            && prepared(a) == prepared(b)
    }

    /// Brings a run to its last update.
    fn train(
        &self,
        job: &Job,
        conditions: &Conditions,
        hardware: Hardware,
        watch: &dyn Watch,
    ) -> Result<()> {
        let Some(source) = self.source(&job.config) else { return Ok(()) };
        let hardware = Hardware { threads: Threads::default(), ..hardware };
        let (companions, run) =
            (hardware.companions.clone(), (hardware.recording, job.config.seed));
        let mut observer = watch.begins(job);
        let trained =
            execute(&job.config, source, &job.folder, conditions, hardware, &mut *observer);
        companions.iter().for_each(|companions| companions.leave(run));
        Divergence::keep(&job.folder.join(DIVERGED), trained.as_ref().err())?;
        trained.map(|_| ())
    }

    /// Measures what a complete run learned, besides its own evaluations.
    fn measure(&self, job: &Job, watch: &dyn Watch) -> Result<()> {
        let Some(source) = self.source(&job.config) else { return Ok(()) };
        if self.planner {
            let tell = |ended, of| {
                watch.planned(job, ended, of);
                watch.signal()
            };
            measure_planner(&job.config, source, &job.folder, &tell)?;
        }
        self.measure_accuracy(&job.config, source, &job.folder)
    }

    /// Measures once how accurate the steps of a run's final model are. Nothing is written if the
    /// world has no referee, the model has no distance, or its file is missing.
    fn measure_accuracy(&self, config: &RunConfig, source: &Source, folder: &Path) -> Result<()> {
        let path = folder.join(ACCURACY);
        let measured = path.exists() && !ledger::read(&path)?.rows.is_empty();
        if measured || !folder.join(MODEL).exists() {
            return Ok(());
        }
        let model = open_model(folder)?;
        let exact = if model.has_distance() { self.exact_steps(config, source)? } else { None };
        let Some(exact) = exact else { return Ok(()) };
        let found = accuracy(&model, &exact)?;
        let columns = Accuracy::NAMES.map(|name| format!("accuracy/{name}"));
        let mut ledger = Ledger::open(&path, &columns, None)?;
        ledger.append(config.train.steps, &found.values())?;
        ledger.sync()
    }

    /// Exact steps between recorded states, computed once for all runs of a recording; none if the
    /// world has no referee. There are at most as many goals as tasks.
    fn exact_steps(
        &self,
        config: &RunConfig,
        source: &Source,
    ) -> Result<Option<Arc<Vec<ExactSteps>>>> {
        let Some(opened) = &source.world else { return Ok(None) };
        let ((name, seed, episodes), discount) = (recording(&config.data), source.discount(config));
        let asked = config.evaluation.seed;
        let key = (name.to_owned(), seed, episodes, discount.to_bits(), asked);
        let mut known = self.exact.lock().unwrap_or_else(|poison| poison.into_inner());
        if let Some((_, exact)) = known.iter().find(|(other, _)| *other == key) {
            return Ok(Some(exact.clone()));
        }
        let data = source.dataset.in_memory()?;
        let Some(referee) = Referee::of(opened.world, &data, discount)? else { return Ok(None) };
        let count = [ASKED[0].min(config.evaluation.tasks), ASKED[1]];
        let exact = Arc::new(supported_steps(&referee, &data, asked, count));
        known.push((key, exact.clone()));
        Ok(Some(exact))
    }
}

/// Measures once how the final model of a run does following the graph planner's waypoints.
///
/// A model from which no graph can be built gets an empty row.
fn measure_planner(
    config: &RunConfig,
    source: &Source,
    folder: &Path,
    tell: &Tell<'_>,
) -> Result<()> {
    let path = folder.join(PLANNER);
    if path.exists() && !ledger::read(&path)?.rows.is_empty() {
        return Ok(());
    }
    let Some(opened) = &source.world else { return Ok(()) };
    let model = open_model(folder)?;
    let measure = || {
        let graph = config.graph(&model, &source.dataset)?;
        let control = Control::Graph(&graph);
        let tasks = tasks(config, source)?;
        success(&*opened.environment, &tasks, &model, control, config.evaluation.seed, tell)
    };
    let groups = source.groups();
    let columns = evaluation_columns(groups);
    let row = match measure() {
        Ok(success) => evaluation_row(&success, groups),
        Err(Error::Input(_)) => vec![f64::NAN; columns.len()],
        Err(error) => return Err(error),
    };
    let mut ledger = Ledger::open(&path, &columns, None)?;
    ledger.append(config.train.steps, &row)?;
    ledger.sync()
}

impl Divergence {
    /// Records where a run diverged, or removes an older record if it no longer does.
    fn keep(path: &Path, error: Option<&Error>) -> Result<()> {
        if let Some(Error::Diverged { step, metric, value }) = error {
            let note = Self { step: *step, metric: metric.clone(), value: *value };
            let text = toml::to_string(&note)
                .map_err(|error| Error::input(format!("`{path:?}` cannot be written: {error}")))?;
            return write_whole(path, text.as_bytes());
        }
        if error.is_none() && path.exists() {
            std::fs::remove_file(path).map_err(|error| Error::disk("remove", path, error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::compare::{Choice, Request, Sheet};
    use crate::run::{Silent, UNHEARD};

    fn request(worlds: &[&str], algorithms: &[&str], one_recording: bool) -> Request {
        let sheet = format!(
            "title = ''\nworlds = []\nalgorithms = []\nseeds = 2\none_recording = {one_recording}"
        );
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Request {
            worlds: words(worlds),
            algorithms: words(algorithms),
            extraction: Choice::Default,
            seeds: 2,
            overrides: words(&["data.episodes=20"]),
            planner: false,
            sheet: Some(Sheet::parse(&sheet).unwrap()),
        }
    }

    fn plan_of(worlds: &[&str], algorithms: &[&str], one_recording: bool, out: &Path) -> Plan {
        Plan::new(&request(worlds, algorithms, one_recording), out, UNHEARD).unwrap()
    }

    fn plan(one_recording: bool, out: &Path) -> Plan {
        plan_of(&["pinwheel"], &["gcbc", "cmd1"], one_recording, out)
    }

    /// Keeps how many threads each run has, and stops it after its first update.
    #[derive(Default)]
    struct Counted(Mutex<Vec<usize>>);

    struct Stop;

    impl Observer for Stop {
        fn signal(&self) -> Option<i32> {
            Some(15)
        }
    }

    impl Watch for Counted {
        fn begins(&self, _: &Job) -> Box<dyn Observer> {
            self.0.lock().unwrap().push(rayon::current_num_threads());
            Box::new(Stop)
        }
        fn signal(&self) -> Option<i32> {
            None
        }
    }

    #[test]
    fn runs_share_the_threads_and_on_a_gpu_those_of_a_learner_share_them_all() {
        for (workers, on_gpu, each) in [(3, false, 1), (9, false, 2), (3, true, 2), (9, true, 5)] {
            let out = tempfile::tempdir().unwrap();
            let (conditions, hardware) = (Conditions::new(None, workers), Hardware::default());
            let (plan, counted) = (plan(true, out.path()), Counted::default());
            let stopped = plan.execute_by_turns(&conditions, &hardware, &counted, on_gpu);
            assert!(stopped.iter().all(|run| matches!(run.error, Error::Interrupted(15))));
            assert_eq!((stopped.len(), counted.0.into_inner().unwrap()), (4, vec![each; 4]));
        }
    }

    /// The learners of the runs that train, and what they were whenever a run began.
    #[derive(Debug, Default)]
    struct Seen {
        training: Vec<PathBuf>,
        together: Vec<Vec<PathBuf>>,
    }

    #[derive(Clone, Default)]
    struct Witness(Arc<Mutex<Seen>>);

    struct Seeing(Witness, PathBuf);

    impl Observer for Seeing {
        fn updated(&mut self, _: u64, _: u64) {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        fn signal(&self) -> Option<i32> {
            Some(15)
        }
    }

    impl Drop for Seeing {
        fn drop(&mut self) {
            let training = &mut self.0.0.lock().unwrap().training;
            let at = training.iter().position(|learner| *learner == self.1).unwrap();
            training.remove(at);
        }
    }

    impl Watch for Witness {
        fn begins(&self, job: &Job) -> Box<dyn Observer> {
            let learner = job.folder.parent().unwrap().to_path_buf();
            let mut seen = self.0.lock().unwrap();
            seen.training.push(learner.clone());
            let together = seen.training.clone();
            seen.together.push(together);
            Box::new(Seeing(self.clone(), learner))
        }
        fn signal(&self) -> Option<i32> {
            None
        }
    }

    #[test]
    fn on_a_gpu_one_learner_trains_after_the_other() {
        let out = tempfile::tempdir().unwrap();
        let (plan, witness) = (plan(true, out.path()), Witness::default());
        let (conditions, hardware) = (Conditions::new(None, 4), Hardware::default());
        let stopped = plan.execute_by_turns(&conditions, &hardware, &witness, true);
        let seen = witness.0.lock().unwrap();
        assert_eq!((stopped.len(), seen.together.len(), seen.training.len()), (4, 4, 0));
        let one = |learners: &Vec<PathBuf>| learners.iter().all(|other| *other == learners[0]);
        assert!(seen.together.iter().all(one), "{seen:?}");
    }

    /// Stops once episodes with the planner are told of, if it is to.
    struct Planning {
        stops: bool,
        told: AtomicUsize,
    }

    impl Watch for Planning {
        fn begins(&self, _: &Job) -> Box<dyn Observer> {
            Box::new(Silent)
        }
        fn planned(&self, _: &Job, ended: usize, episodes: usize) {
            assert!(ended <= episodes && episodes == 3);
            self.told.fetch_add(1, Ordering::Relaxed);
        }
        fn signal(&self) -> Option<i32> {
            (self.stops && self.told.load(Ordering::Relaxed) > 0).then_some(2)
        }
    }

    #[test]
    fn a_signal_ends_what_is_measured_along_the_planner_and_it_is_measured_later() {
        let out = tempfile::tempdir().unwrap();
        let mut request = request(&["pinwheel"], &["cmd1"], true);
        request.planner = true;
        let small = ["train.steps=2", "train.batch_size=8", "evaluation.tasks=3"];
        request.overrides.extend(small.map(str::to_owned));
        let plan = Plan::new(&request, out.path(), UNHEARD).unwrap();
        let (conditions, hardware) = (Conditions::new(None, 1), Hardware::default());
        let rows = || {
            let rows =
                |job: &Job| ledger::read(&job.folder.join(PLANNER)).map_or(0, |it| it.rows.len());
            plan.jobs.iter().map(rows).collect::<Vec<_>>()
        };
        let watch = Planning { stops: true, told: AtomicUsize::new(0) };
        let stopped = plan.execute(&conditions, &hardware, &watch);
        assert!(matches!(stopped[..], [Failure { error: Error::Interrupted(2), .. }]));
        assert_eq!(rows(), [0, 0]);
        let watch = Planning { stops: false, ..watch };
        assert!(plan.execute(&conditions, &hardware, &watch).is_empty());
        assert_eq!(rows(), [1, 1]);
    }

    #[test]
    fn what_a_learner_cannot_tell_apart_runs_together_on_a_gpu_and_alone_elsewhere() {
        let out = Path::new("out");
        for one_recording in [true, false] {
            let one = plan(one_recording, out);
            assert_eq!(one.bundles(true), [[0, 2], [1, 3]]);
            assert_eq!(one.bundles(false), [[0], [1], [2], [3]]);
            let recordings: Vec<usize> = (0..4).map(|at| one.recording_of(at)).collect();
            assert_eq!(recordings, if one_recording { [0, 0, 0, 0] } else { [0, 0, 2, 2] });
        }
        // Presets differ by world, teachers by recording.
        let worlds = ["pinwheel", "pinwheel-shortcut", "roads"];
        let several = plan_of(&worlds, &["gcbc", "atlas"], true, out);
        let named = |&at: &usize| {
            let folder = several.jobs[at].folder.strip_prefix(out).unwrap();
            folder.display().to_string()
        };
        let bundles = several.bundles(true);
        let bundles: Vec<Vec<String>> =
            bundles.iter().map(|bundle| bundle.iter().map(named).collect()).collect();
        let seeds = |of: &str| [0, 1].map(|seed| format!("{of}/seed-{seed}")).to_vec();
        let mut gcbc = [seeds("pinwheel/gcbc"), seeds("pinwheel-shortcut/gcbc")].concat();
        gcbc.swap(1, 2);
        assert_eq!(
            bundles,
            [
                gcbc,
                seeds("pinwheel/atlas-awr"),
                seeds("pinwheel-shortcut/atlas-awr"),
                seeds("roads/gcbc"),
                seeds("roads/atlas-awr")
            ]
        );
    }
}
