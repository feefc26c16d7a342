//! The runs of a comparison, one a thread: for small networks the way that wastes least. On a GPU the
//! updates of all of them run side by side, and each thread evaluates its own run.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::results::Divergence;
use super::{DIVERGED, Job, PLANNER, Plan};
use crate::checkpoint::{Disk, write_whole};
use crate::engine::{Hardware, Threads};
use crate::error::{Error, Result};
use crate::evaluate::{Control, success};
use crate::ledger::{self, Ledger};
use crate::plan::Graph;
use crate::run::{
    Observer, Origin, RunConfig, Source, evaluation_columns, evaluation_row, execute, folder,
    open_model, tasks,
};

/// Who watches a comparison: told of every run, and says when to stop.
pub trait Watch: Sync {
    /// A run begins or goes on: its own observer, dropped when it has ended, well or not.
    fn begins(&self, job: &Job) -> Box<dyn Observer>;
    /// A signal that asks to stop.
    fn signal(&self) -> Option<i32>;
}

/// A run that did not end well.
#[derive(Debug)]
pub struct Failure {
    /// Its folder.
    pub folder: PathBuf,
    /// Why.
    pub error: Error,
}

impl Job {
    /// Whether its last update is done; what cannot be read is not complete.
    pub fn is_complete(&self) -> bool {
        folder::is_complete(&self.config, &self.folder).unwrap_or(false)
    }
}

impl Plan {
    /// Brings every run to its end, `workers` at a time with one thread each; a failing run does
    /// not stop the others. Returns the runs that failed, in the order of the plan.
    pub fn execute(&self, workers: usize, hardware: &Hardware, watch: &dyn Watch) -> Vec<Failure> {
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        let work = || {
            while watch.signal().is_none() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = self.jobs.get(at) else { break };
                let done = self.bring_to_end(job, hardware, watch);
                if let (Err(error), Ok(mut failures)) = (done, failures.lock()) {
                    failures.push((at, Failure { folder: job.folder.clone(), error }));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..workers.min(self.jobs.len()) {
                scope.spawn(work);
            }
        });
        let mut failures = failures.into_inner().unwrap_or_else(|poison| poison.into_inner());
        failures.sort_by_key(|(at, _)| *at);
        failures.into_iter().map(|(_, failure)| failure).collect()
    }

    fn bring_to_end(&self, job: &Job, hardware: &Hardware, watch: &dyn Watch) -> Result<()> {
        let Some(source) = self.source(&job.config) else { return Ok(()) };
        if !job.is_complete() {
            let hardware = Hardware { threads: Threads::default(), ..hardware.clone() };
            let origin = Origin::default();
            let mut observer = watch.begins(job);
            let trained =
                execute(&job.config, source, &job.folder, &origin, hardware, &mut *observer);
            Divergence::keep(&job.folder.join(DIVERGED), trained.as_ref().err())?;
            trained?;
        }
        if self.planner {
            measure_planner(&job.config, source, &job.folder)?;
        }
        Ok(())
    }
}

/// Measures the final model of a run along the graph planner's waypoints, once.
///
/// A model that no graph can be made of leaves an empty row.
fn measure_planner(config: &RunConfig, source: &Source, folder: &Path) -> Result<()> {
    let path = folder.join(PLANNER);
    if path.exists() && !ledger::read(&path)?.rows.is_empty() {
        return Ok(());
    }
    let Some(opened) = &source.world else { return Ok(()) };
    let model = open_model(folder)?;
    let measure = || {
        model.need_distance()?;
        let graph = Graph::new(&model, &source.dataset, config.planner())?;
        let control = Control::Graph(&graph);
        let tasks = tasks(config, source)?;
        success(&*opened.environment, &tasks, &model, control, config.evaluation.seed)
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
    /// Writes down where a run diverged, or removes an older note where it no longer does.
    fn keep(path: &Path, error: Option<&Error>) -> Result<()> {
        if let Some(Error::Diverged { step, metric, value }) = error {
            let note = Self { step: *step, metric: metric.clone(), value: *value };
            let text = toml::to_string(&note)
                .map_err(|error| Error::input(format!("`{path:?}` cannot be written: {error}")))?;
            return write_whole(&Disk, path, text.as_bytes());
        }
        if error.is_none() && path.exists() {
            std::fs::remove_file(path).map_err(|error| Error::disk("remove", path, error))?;
        }
        Ok(())
    }
}
