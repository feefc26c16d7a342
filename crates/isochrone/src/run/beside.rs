//! Evaluations of a run, in turn with training or while a GPU goes on.
//!
//! What is logged meanwhile waits for its row, so that every file has the order of a run that
//! evaluates in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Instant;

use super::config::RunConfig;
use super::source::Source;
use crate::error::{Error, Result, Tell};
use crate::evaluate::{Control, Success, success};
use crate::model::Model;
use crate::simulate::Task;

/// A step and its row of metrics.
type Logged = (u64, Vec<f64>);

/// An evaluation under way.
pub(super) struct Beside<'scope> {
    /// The step of the model that is evaluated.
    pub(super) step: u64,
    thread: ScopedJoinHandle<'scope, Result<Evaluated>>,
    waiting: Vec<Logged>,
    /// The signal at which it ends before its time; 0 while there is none.
    signal: Arc<AtomicI32>,
}

/// An evaluation that has ended.
pub(super) struct Evaluated {
    /// None if there is nothing to evaluate.
    pub(super) success: Option<Success>,
    /// How long it took.
    pub(super) seconds: f64,
}

impl Evaluated {
    /// What `measure` finds, and how long it takes.
    pub(super) fn by(measure: impl FnOnce() -> Result<Option<Success>>) -> Result<Self> {
        let since = Instant::now();
        let success = measure()?;
        Ok(Self { success, seconds: since.elapsed().as_secs_f64() })
    }
}

/// How often the policy reaches its goals; none without a world or a policy. `tell` hears how many
/// episodes have ended.
pub(super) fn measure(
    config: &RunConfig,
    source: &Source,
    tasks: &[Task],
    model: &Model,
    tell: &Tell<'_>,
) -> Result<Option<Success>> {
    let Some(opened) = source.world.as_ref().filter(|_| model.has_policy()) else {
        return Ok(None);
    };
    let seed = config.evaluation.seed;
    success(&*opened.environment, tasks, model, Control::Policy, seed, tell).map(Some)
}

impl<'scope> Beside<'scope> {
    /// Begins to measure, on as many threads as the pool of the caller has.
    pub(super) fn begin(
        scope: &'scope Scope<'scope, '_>,
        step: u64,
        measure: impl FnOnce(&Tell<'_>) -> Result<Option<Success>> + Send + 'scope,
    ) -> Result<Self> {
        let pool = own_pool(rayon::current_num_threads())?;
        let signal = Arc::new(AtomicI32::new(0));
        let asked = signal.clone();
        let measure = move || {
            measure(&|_, _| Some(asked.load(Ordering::Relaxed)).filter(|&signal| signal != 0))
        };
        let thread = scope.spawn(move || pool.install(|| Evaluated::by(measure)));
        Ok(Self { step, thread, waiting: Vec::new(), signal })
    }

    /// Ends it soon, without a result.
    pub(super) fn abandon(self, signal: i32) {
        self.signal.store(signal, Ordering::Relaxed);
    }

    /// Keeps a row of metrics until the evaluation has ended.
    pub(super) fn wait(&mut self, step: u64, row: Vec<f64>) {
        self.waiting.push((step, row));
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end: what was found, and the rows that waited.
    pub(super) fn end(self) -> Result<(Evaluated, Vec<Logged>)> {
        let found = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((found?, self.waiting))
    }
}

/// The threads of one run. Episodes and graphs use threads at every step, and runs that shared a pool
/// would wait for each other.
pub(super) fn own_pool(threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build().map_err(|error| {
        Error::memory(format!("cannot start the threads of a run: {error}"))
            .hint("lower `--threads`")
    })
}
