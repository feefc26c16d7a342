//! Runs in training: several side by side, each with a bar on a terminal or with lines elsewhere.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use isochrone::engine::{Companions, Hardware, Threads};
use isochrone::evaluate::Success;
use isochrone::run::{self, Conditions, Finished, Observer, RunConfig, Source};
use isochrone::{Error, Result};

use crate::progress::{Bars, EpisodeCount, left, solving};
use crate::signals::Signals;

/// What runs are trained with.
pub struct Workshop<'a> {
    /// Where updates run.
    pub hardware: &'a Hardware,
    /// Threads of all runs together.
    pub threads: usize,
    /// Seconds between two lines of progress where there is no terminal.
    pub report_every: f64,
    /// What asks to stop.
    pub signals: &'a Signals,
}

/// Trains every job: one after the other with all threads where there is one, else side by side.
pub fn train_all(
    jobs: &[(RunConfig, PathBuf)],
    source: &Source,
    workshop: &Workshop<'_>,
) -> Result<Vec<Result<Finished>>> {
    let bars = Bars::new();
    let threads = workshop.threads;
    // A GPU updates all seeds at once, so all of them must be there.
    let at_once =
        if workshop.hardware.gpu.is_some() { jobs.len() } else { threads.min(jobs.len()) };
    let runs: Vec<(usize, u64)> = jobs.iter().map(|(config, _)| (0, config.seed)).collect();
    let companions = Some(Companions::new(&runs));
    let hardware = Hardware { companions, ..workshop.hardware.clone() };
    let conditions = Conditions::new(option_env!("ISOCHRONE_COMMIT"), threads);
    // A pool each: in a shared one a run that waits would be handed another run to do first.
    let pools = (0..at_once)
        .map(|_| Threads::new((threads / at_once).max(1)))
        .collect::<Result<Vec<_>>>()?;
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work = |pool: &Threads| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((config, folder)) = jobs.get(at) else { break };
            let label = folder.file_name().and_then(|name| name.to_str()).unwrap_or("run");
            let bar = bars.bar(&format!("train  {label}"), config.train.steps);
            let mut observer = Watch::new(label, bar.clone(), config.train.steps, workshop);
            let hardware = Hardware { threads: pool.clone(), ..hardware.clone() };
            let companions = hardware.companions.clone();
            let result = run::execute(config, source, folder, &conditions, hardware, &mut observer);
            companions.iter().for_each(|companions| companions.leave((0, config.seed)));
            end(&bar, result.is_ok());
            if let Ok(mut results) = results.lock() {
                results.push((at, result));
            }
        }
    };
    std::thread::scope(|scope| {
        for pool in &pools {
            scope.spawn(|| work(pool));
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Fills the bar of a complete run; that of another stays where it was.
fn end(bar: &ProgressBar, is_complete: bool) {
    if is_complete { bar.finish() } else { bar.abandon() }
}

/// Shows a run on its bar or, where there is no terminal, tells of it line by line.
struct Watch {
    label: String,
    bar: ProgressBar,
    steps: u64,
    signals: Signals,
    report_every: Duration,
    /// When the run began here, and at which step.
    began: (Instant, u64),
    told: Instant,
    /// The evaluation under way.
    episodes: EpisodeCount,
}

impl Watch {
    fn new(label: &str, bar: ProgressBar, steps: u64, workshop: &Workshop<'_>) -> Self {
        let (label, signals, now) = (label.to_owned(), workshop.signals.clone(), Instant::now());
        let report_every = Duration::from_secs_f64(workshop.report_every);
        let (began, told, episodes) = ((now, 0), now, EpisodeCount::default());
        Self { label, bar, steps, signals, report_every, began, told, episodes }
    }

    /// Whether a line is to be written now, because there is no terminal and the last was long ago.
    fn is_due(&mut self) -> bool {
        let due = self.bar.is_hidden() && self.told.elapsed() >= self.report_every;
        if due {
            self.told = Instant::now();
        }
        due
    }

    /// How far the teacher is and how long it still takes, in one line.
    fn solving(&self, solved: usize, goals: usize) -> String {
        let rate = solved as f64 / self.began.0.elapsed().as_secs_f64();
        let (solving, left) = (solving(solved, goals), left((goals - solved) as u64, rate));
        format!("{}  {solving}  {left} left", self.label)
    }

    /// Step, losses, rate and time left, in one line.
    fn line(&self, step: u64, names: &[String], values: &[f64]) -> String {
        let mut line = format!("{}  step {step}/{}", self.label, self.steps);
        // A pass that does not train now has no loss.
        let told = |(name, value): &(&String, &f64)| name.ends_with("/loss") && !value.is_nan();
        let losses = names.iter().zip(values).filter(told);
        for (name, value) in losses {
            line += &format!("  {name} {value:.4}");
        }
        let seconds = self.began.0.elapsed().as_secs_f64();
        let rate = (step - self.began.1) as f64 / seconds;
        line + &format!("  {rate:.0} updates/s  {} left", left(self.steps - step, rate))
    }
}

impl Observer for Watch {
    fn solved(&mut self, solved: usize, goals: usize) {
        if self.bar.is_hidden() {
            if solved < goals && self.is_due() {
                crate::output::warn(&self.solving(solved, goals));
            }
        } else if solved == goals {
            self.bar.set_message("");
            self.bar.reset_eta();
        } else if solved.is_multiple_of(16) {
            self.bar.set_message(solving(solved, goals));
        }
        if solved == goals {
            self.began = (Instant::now(), 0);
        }
    }

    fn updated(&mut self, step: u64, _steps: u64) {
        if step.is_multiple_of(16) {
            self.bar.set_position(step);
        }
    }

    fn logged(&mut self, step: u64, names: &[String], values: &[f64]) {
        if self.is_due() {
            crate::output::warn(&self.line(step, names, values));
        }
    }

    fn skipped(&mut self, error: &Error) {
        self.bar
            .suspend(|| crate::output::warn(&format!("{error}; using the checkpoint before it")));
    }

    fn resumed(&mut self, step: u64) {
        self.began = (Instant::now(), step);
        self.bar.set_position(step);
        self.bar.reset_eta();
        let line = match self.bar.length() {
            Some(steps) if step >= steps => {
                format!("complete after {step} updates; `--more N` continues the run")
            }
            _ => format!("resuming from step {step}"),
        };
        self.bar.suspend(|| crate::output::warn(&line));
    }

    fn noted(&mut self, note: &str) {
        self.bar.suspend(|| crate::output::warn(note));
    }

    fn evaluating(&mut self, ended: usize, episodes: usize) {
        let evaluating = self.episodes.ended(ended, episodes);
        if self.is_due() {
            crate::output::warn(&format!("{}  {evaluating}", self.label));
        }
        self.bar.set_message(evaluating);
    }

    fn evaluated(&mut self, _step: u64, success: &Success) {
        self.episodes = EpisodeCount::default();
        self.bar.set_message(format!("reached {:.0} %", 100.0 * success.overall.rate));
    }

    fn signal(&self) -> Option<i32> {
        self.signals.received()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_of_a_stopped_run_stays_where_it_was() {
        for (is_complete, position) in [(true, 100), (false, 40)] {
            let bar = ProgressBar::hidden();
            bar.set_length(100);
            bar.set_position(40);
            end(&bar, is_complete);
            assert_eq!((bar.position(), bar.is_finished()), (position, true));
        }
    }

    #[test]
    fn a_line_of_the_teacher_has_goals_and_time_left() {
        let (hardware, signals) = (Hardware::default(), Signals::default());
        let workshop =
            Workshop { hardware: &hardware, threads: 1, report_every: 0.0, signals: &signals };
        let watch = Watch::new("run", ProgressBar::hidden(), 400, &workshop);
        let line = watch.solving(500, 2_000);
        assert!(line.starts_with("run  solving distances to goals 500/2000  "), "{line}");
        assert!(line.ends_with(" left"), "{line}");
    }

    #[test]
    fn a_line_of_progress_has_step_losses_rate_and_time_left() {
        let (hardware, signals) = (Hardware::default(), Signals::default());
        let workshop =
            Workshop { hardware: &hardware, threads: 1, report_every: 0.0, signals: &signals };
        let watch = Watch::new("seed-3", ProgressBar::hidden(), 400, &workshop);
        let names = ["training/critic/loss", "training/critic/accuracy"].map(str::to_owned);
        let line = watch.line(100, &names, &[0.5, 0.25]);
        assert!(line.starts_with("seed-3  step 100/400  training/critic/loss 0.5000  "), "{line}");
        assert!(line.contains(" updates/s  ") && line.ends_with(" left"), "{line}");
        assert!(!line.contains("accuracy"), "{line}");
    }
}
