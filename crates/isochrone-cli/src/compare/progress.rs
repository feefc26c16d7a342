//! The progress of a comparison: a line for each run at work, and one for the whole.

use indicatif::ProgressBar;
use isochrone::Error;
use isochrone::evaluate::Success;
use isochrone::run::Observer;
use isochrone::run::compare::{Job, Plan, Watch};

use crate::output::Bars;
use crate::signals::Signals;

/// Updates between two movements of a bar.
const TOLD_EVERY: u64 = 16;

/// All bars of a comparison.
pub struct Progress {
    bars: Bars,
    whole: ProgressBar,
    signals: Signals,
}

impl Progress {
    /// Bars for the updates of `plan`; none that is seen unless `shown`.
    pub fn new(plan: &Plan, signals: Signals, shown: bool) -> Self {
        let bars = if shown { Bars::new() } else { Bars::hidden() };
        let updates = |complete: bool| -> u64 {
            let jobs = plan.jobs.iter().filter(|job| !complete || job.is_complete());
            jobs.map(|job| job.config.train.steps).sum()
        };
        let runs = crate::wording::counted(plan.jobs.len() as u64, "run", "runs");
        let whole = bars.bar(&format!("compare  {runs}"), updates(false));
        whole.set_position(updates(true));
        whole.reset_eta();
        Self { bars, whole, signals }
    }

    /// Takes the bars away.
    pub fn finish(&self) {
        self.whole.finish_and_clear();
    }
}

impl Watch for Progress {
    fn begins(&self, job: &Job) -> Box<dyn Observer> {
        let parts: Vec<&str> = job.folder.iter().filter_map(|part| part.to_str()).collect();
        let label = parts[parts.len().saturating_sub(3)..].join(" ");
        let bar = self.bars.bar(&label, job.config.train.steps);
        let (whole, signals) = (self.whole.clone(), self.signals.clone());
        Box::new(Line { bar, whole, signals, told: 0 })
    }

    fn signal(&self) -> Option<i32> {
        self.signals.received()
    }
}

/// The line of one run; gone when the run ends.
struct Line {
    bar: ProgressBar,
    whole: ProgressBar,
    signals: Signals,
    /// Updates that the whole was told of.
    told: u64,
}

impl Line {
    fn tell(&mut self, step: u64) {
        self.bar.set_position(step);
        self.whole.inc(step - self.told);
        self.told = step;
    }
}

impl Observer for Line {
    fn updated(&mut self, step: u64, _steps: u64) {
        if step.is_multiple_of(TOLD_EVERY) {
            self.tell(step);
        }
    }

    fn skipped(&mut self, error: &Error) {
        self.bar.suspend(|| crate::output::warn(&format!("{error}; the one before it is used")));
    }

    fn resumed(&mut self, step: u64) {
        self.tell(step);
        self.bar.reset_eta();
        self.whole.reset_eta();
    }

    fn evaluated(&mut self, _step: u64, success: &Success) {
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
    }
}
