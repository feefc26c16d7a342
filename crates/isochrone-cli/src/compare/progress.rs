//! The progress of a comparison: a line for each run at work, and one for the whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::ProgressBar;
use isochrone::Error;
use isochrone::evaluate::Success;
use isochrone::run::Observer;
use isochrone::run::compare::{Job, Plan, Watch};

use crate::progress::{Bars, Counter, EpisodeCount, solving};
use crate::signals::Signals;
use crate::wording::counted;

/// Updates between two movements of a bar.
const TOLD_EVERY: u64 = 16;

/// All bars of a comparison; gone when dropped.
pub struct Progress {
    bars: Bars,
    whole: Arc<Whole>,
    signals: Signals,
}

/// The updates of all runs together.
struct Whole {
    updates: Counter,
    ended: AtomicUsize,
}

impl Whole {
    /// Says what is at work now.
    fn note(&self, note: String) {
        self.updates.note(note);
        self.updates.advance(0);
    }

    /// So many more runs have ended.
    fn end(&self, runs: usize) {
        self.ended.fetch_add(runs, Ordering::Relaxed);
        self.note_ended();
    }

    /// Says how many runs have ended, in place of what was at work.
    fn note_ended(&self) {
        let ended = self.ended.load(Ordering::Relaxed) as u64;
        self.updates.note(format!("{} done", counted(ended, "run", "runs")));
    }
}

impl Progress {
    /// Bars for the updates of `plan`, or lines where there is no terminal; nothing unless `shown`.
    pub fn new(plan: &Plan, signals: Signals, shown: bool) -> Self {
        let bars = if shown { Bars::new() } else { Bars::hidden() };
        let complete: Vec<&Job> = plan.jobs.iter().filter(|job| job.is_complete()).collect();
        let updates = |jobs: &[&Job]| jobs.iter().map(|job| job.config.train.steps).sum();
        let runs = counted(plan.jobs.len() as u64, "run", "runs");
        let all = updates(&plan.jobs.iter().collect::<Vec<_>>());
        let updated = Counter::on(bars.bar(&format!("compare  {runs}"), all), "updates", shown);
        updated.skip(updates(&complete));
        let whole = Arc::new(Whole { updates: updated, ended: AtomicUsize::new(0) });
        whole.end(complete.len());
        Self { bars, whole, signals }
    }
}

/// World, learner and seed of a run.
fn label(job: &Job) -> String {
    let parts: Vec<&str> = job.folder.iter().filter_map(|part| part.to_str()).collect();
    parts[parts.len().saturating_sub(3)..].join(" ")
}

impl Watch for Progress {
    fn begins(&self, job: &Job) -> Box<dyn Observer> {
        let bar = self.bars.bar(&label(job), job.config.train.steps);
        let (whole, signals) = (self.whole.clone(), self.signals.clone());
        Box::new(Line { bar, whole, signals, told: 0, episodes: EpisodeCount::default() })
    }

    fn measures(&self, job: &Job) {
        self.whole.note(format!("measuring {}", label(job)));
    }

    fn planned(&self, job: &Job, ended: usize, episodes: usize) {
        let planned = format!("episodes with the planner {ended}/{episodes}");
        self.whole.note(format!("measuring {}: {planned}", label(job)));
    }

    fn measured(&self, _job: &Job) {
        self.whole.note_ended();
    }

    fn signal(&self) -> Option<i32> {
        self.signals.received()
    }
}

/// The line of one run; gone when the run ends.
struct Line {
    bar: ProgressBar,
    whole: Arc<Whole>,
    signals: Signals,
    /// Updates that the whole was told of.
    told: u64,
    /// The evaluation under way.
    episodes: EpisodeCount,
}

impl Line {
    fn tell(&mut self, step: u64) {
        self.bar.set_position(step);
        self.whole.updates.advance(step - self.told);
        self.told = step;
    }
}

impl Observer for Line {
    fn solved(&mut self, solved: usize, goals: usize) {
        if solved == goals {
            self.bar.set_message("");
            self.bar.reset_eta();
            self.whole.note_ended();
        } else if solved.is_multiple_of(16) {
            let solving = solving(solved, goals);
            self.whole.note(format!("{}: {solving}", self.bar.prefix()));
            self.bar.set_message(solving);
        }
    }

    fn updated(&mut self, step: u64, _steps: u64) {
        if step.is_multiple_of(TOLD_EVERY) {
            self.tell(step);
        }
    }

    fn skipped(&mut self, error: &Error) {
        self.bar
            .suspend(|| crate::output::warn(&format!("{error}; using the checkpoint before it")));
    }

    fn resumed(&mut self, step: u64) {
        self.bar.set_position(step);
        self.bar.reset_eta();
        self.whole.updates.skip(step - self.told);
        self.told = step;
    }

    fn evaluating(&mut self, ended: usize, episodes: usize) {
        let evaluating = self.episodes.ended(ended, episodes);
        self.whole.note(format!("{}: {evaluating}", self.bar.prefix()));
        self.bar.set_message(evaluating);
    }

    fn evaluated(&mut self, _step: u64, success: &Success) {
        self.episodes = EpisodeCount::default();
        self.whole.note_ended();
        self.bar.set_message(format!("reached {:.0} %", 100.0 * success.overall.rate));
    }

    fn signal(&self) -> Option<i32> {
        self.signals.received()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // What a run that diverged did not do is not left to do.
        self.tell(self.bar.length().unwrap_or(self.told));
        self.bar.finish_and_clear();
        self.whole.end(1);
    }
}
