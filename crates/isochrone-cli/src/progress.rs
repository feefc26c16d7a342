//! Progress of work that takes long: bars on a terminal, a line now and then where there is none.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Seconds between two lines where there is no terminal.
pub const REPORT_EVERY: f64 = 10.0;
/// How long a recording takes at least if it is shown.
const WORTH_SHOWING: Duration = Duration::from_millis(500);

/// How long `parts` take at `rate` parts a second.
pub fn left(parts: u64, rate: f64) -> HumanDuration {
    let left = Duration::try_from_secs_f64(parts as f64 / rate.max(1e-9));
    HumanDuration(left.unwrap_or(Duration::MAX))
}

/// How far a teacher is.
pub fn solving(solved: usize, goals: usize) -> String {
    format!("solving distances to goals {solved}/{goals}")
}

/// How far the recording of a world is.
pub fn recording(world: &str, episodes: u32, of: u32) -> String {
    match episodes {
        0 => format!("waiting for another process to record {world}"),
        _ => format!("recording {world}: episodes {episodes}/{of}"),
    }
}

/// How far an evaluation is.
#[derive(Default)]
pub struct EpisodeCount {
    /// When it was first heard of, and how many episodes had ended by then.
    began: Option<(Instant, usize)>,
}

impl EpisodeCount {
    /// So many have ended, and the time left, in words.
    pub fn ended(&mut self, ended: usize, of: usize) -> String {
        self.ended_at(ended, of, Instant::now())
    }

    fn ended_at(&mut self, ended: usize, of: usize, now: Instant) -> String {
        let (began, from) = *self.began.get_or_insert((now, ended));
        let line = format!("evaluating episodes {ended}/{of}");
        if ended <= from {
            return line;
        }
        let rate = (ended - from) as f64 / now.duration_since(began).as_secs_f64();
        format!("{line}  {} left", left(of.saturating_sub(ended) as u64, rate))
    }
}

/// Progress bars on the terminal; nothing where there is none.
pub struct Bars {
    bars: MultiProgress,
}

impl Bars {
    /// No bars yet.
    pub fn new() -> Self {
        Self { bars: MultiProgress::new() }
    }

    /// Bars that are not drawn.
    pub fn hidden() -> Self {
        Self { bars: MultiProgress::with_draw_target(ProgressDrawTarget::hidden()) }
    }

    /// A bar of `length` steps with the time left.
    pub fn bar(&self, label: &str, length: u64) -> ProgressBar {
        let bar = self.bars.add(ProgressBar::new(length));
        let template =
            "{prefix:<16} [{bar:24}] {elapsed_precise} left {eta_precise}  {pos}/{len}  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("#> "));
        }
        bar.set_prefix(label.to_owned());
        bar
    }
}

/// Says what work under a spinner is doing.
pub struct Spinner {
    bar: ProgressBar,
}

impl Spinner {
    /// What stands beside the time.
    pub fn note(&self, note: String) {
        self.bar.set_message(note);
    }

    fn line(&self, elapsed: Duration) -> String {
        let line = format!("{}  {} so far", self.bar.prefix(), HumanDuration(elapsed));
        let note = self.bar.message();
        if note.is_empty() { line } else { format!("{line}  {note}") }
    }
}

/// Does work of unknown length under a spinner or, where there is no terminal, with lines on standard
/// error that say how long it has taken so far.
pub fn waiting<R>(label: &str, work: impl FnOnce(&Spinner) -> R) -> R {
    let bar = ProgressBar::new_spinner();
    let template = "{prefix:<16} {spinner} {elapsed_precise}  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix(label.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    let spinner = Spinner { bar };
    let every = Duration::from_secs_f64(REPORT_EVERY);
    let tell = |elapsed| crate::output::warn(&spinner.line(elapsed));
    let work = || work(&spinner);
    let answer = if spinner.bar.is_hidden() { telling(every, tell, work) } else { work() };
    spinner.bar.finish_and_clear();
    answer
}

/// Does `work`, and calls `tell` with the time that has passed `every` so often until it is done.
fn telling<R>(every: Duration, tell: impl Fn(Duration) + Send, work: impl FnOnce() -> R) -> R {
    let began = Instant::now();
    std::thread::scope(|scope| {
        // Dropped when the work is done, which ends the thread's wait.
        let (_working, done) = channel::<()>();
        let listen = move || {
            while done.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                tell(began.elapsed());
            }
        };
        // Where no thread can be started, nothing is told.
        let _ = std::thread::Builder::new().spawn_scoped(scope, listen);
        work()
    })
}

/// Work of known length on a bar of its own or, where there is no terminal, in lines on standard error.
/// Gone when dropped.
pub struct Counter {
    bar: ProgressBar,
    /// What is counted.
    parts: &'static str,
    /// When lines are written; `None` if there are to be none.
    pace: Option<Mutex<Pace>>,
}

struct Pace {
    /// When the work began or resumed, and how much of it was done by then.
    began: (Instant, u64),
    told: Instant,
}

impl Counter {
    /// Work of `length` parts, which are called `parts`.
    pub fn new(label: &str, length: u64, parts: &'static str) -> Self {
        Self::on(Bars::new().bar(label, length), parts, true)
    }

    /// On a bar among others. Without a terminal lines are written only if it `speaks`.
    pub fn on(bar: ProgressBar, parts: &'static str, speaks: bool) -> Self {
        let now = Instant::now();
        let pace = Pace { began: (now, bar.position()), told: now };
        let pace = (speaks && bar.is_hidden()).then(|| Mutex::new(pace));
        Self { bar, parts, pace }
    }

    /// So many more parts are done.
    pub fn advance(&self, parts: u64) {
        self.bar.inc(parts);
        self.tell();
    }

    /// So many parts are done in all.
    pub fn reach(&self, position: u64) {
        self.bar.set_position(position);
        self.tell();
    }

    /// So many more parts were done before: they say nothing about the time left.
    pub fn skip(&self, parts: u64) {
        self.bar.inc(parts);
        self.bar.reset_eta();
        if let Some(mut pace) = self.pace.as_ref().and_then(|pace| pace.lock().ok()) {
            pace.began = (Instant::now(), self.bar.position());
        }
    }

    /// What stands beside the numbers.
    pub fn note(&self, note: String) {
        self.bar.set_message(note);
    }

    fn tell(&self) {
        if let Some(line) = self.due(Instant::now()) {
            crate::output::warn(&line);
        }
    }

    /// The line that is to be written at `now`, if any.
    fn due(&self, now: Instant) -> Option<String> {
        // Whoever finds it locked leaves the line to another thread.
        let mut pace = self.pace.as_ref()?.try_lock().ok()?;
        if now.duration_since(pace.told).as_secs_f64() < REPORT_EVERY {
            return None;
        }
        pace.told = now;
        let (began, from) = pace.began;
        Some(self.line(now.duration_since(began), from))
    }

    /// What is done, the time left and the note, in one line; `from` were done before `elapsed` began.
    fn line(&self, elapsed: Duration, from: u64) -> String {
        let (position, length) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let mut line = format!("{}  {position}/{length} {}", self.bar.prefix(), self.parts);
        if position > from {
            let rate = (position - from) as f64 / elapsed.as_secs_f64();
            line += &format!("  {} left", left(length.saturating_sub(position), rate));
        }
        let note = self.bar.message();
        if note.is_empty() { line } else { format!("{line}  {note}") }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Shows the recordings of worlds, one after the other, those that take long.
#[derive(Default)]
pub struct Recordings {
    now: Mutex<Option<Now>>,
}

/// The recording that is being made.
struct Now {
    world: String,
    began: Instant,
    shown: Option<Counter>,
}

impl Recordings {
    /// So many of all episodes of a world are recorded; none while another process records them.
    pub fn recorded(&self, world: &str, episodes: u32, of: u32) {
        let Ok(mut now) = self.now.lock() else { return };
        let at = Instant::now();
        let fresh = || Now { world: world.to_owned(), began: at, shown: None };
        let current = now.get_or_insert_with(fresh);
        if current.world != world {
            *current = fresh();
        }
        if episodes == of {
            *now = None;
        } else if at.duration_since(current.began) > WORTH_SHOWING {
            let shown = || Counter::new(&format!("record  {world}"), of.into(), "episodes");
            let counter = current.shown.get_or_insert_with(shown);
            counter.note(if episodes == 0 {
                "waiting for another process".to_owned()
            } else {
                String::new()
            });
            counter.reach(episodes.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_is_done_the_time_left_and_the_note() {
        let counter = Counter::new("score", 100, "rows");
        let minute = Duration::from_secs(60);
        assert_eq!(counter.line(minute, 0), "score  0/100 rows");
        counter.advance(25);
        assert_eq!(counter.line(minute, 0), "score  25/100 rows  3 minutes left");
        counter.skip(50);
        assert_eq!(counter.line(minute, 75), "score  75/100 rows");
        counter.reach(80);
        counter.note("two seeds".into());
        assert_eq!(counter.line(minute, 75), "score  80/100 rows  4 minutes left  two seeds");
    }

    #[test]
    fn a_recording_has_its_episodes_or_who_makes_it() {
        assert_eq!(recording("roads", 3, 5), "recording roads: episodes 3/5");
        assert_eq!(recording("roads", 0, 5), "waiting for another process to record roads");
    }

    #[test]
    fn an_evaluation_has_its_episodes_and_the_time_left() {
        let (mut episodes, began) = (EpisodeCount::default(), Instant::now());
        let mut line =
            |ended, seconds| episodes.ended_at(ended, 50, began + Duration::from_secs(seconds));
        assert_eq!(line(2, 0), "evaluating episodes 2/50");
        assert_eq!(line(12, 20), "evaluating episodes 12/50  76 seconds left");
        assert_eq!(line(50, 96), "evaluating episodes 50/50  0 seconds left");
    }

    #[test]
    fn lines_are_written_now_and_then_where_bars_are_hidden_and_not_where_nobody_speaks() {
        let hidden = || Bars::hidden().bar("score", 100);
        let counter = Counter::on(hidden(), "rows", true);
        let began = counter.pace.as_ref().unwrap().lock().unwrap().told;
        let later = began + Duration::from_secs_f64(REPORT_EVERY);
        assert_eq!(counter.due(began), None);
        counter.bar.set_position(50);
        assert_eq!(counter.due(later).unwrap(), "score  50/100 rows  10 seconds left");
        assert_eq!(counter.due(later), None);
        assert!(Counter::on(hidden(), "rows", false).pace.is_none());
    }

    #[test]
    fn work_of_unknown_length_tells_how_long_it_has_taken_until_it_is_done() {
        let (told, heard) = channel();
        let often = Duration::from_millis(1);
        let tell = move |elapsed| told.send(elapsed).unwrap();
        // The work lasts until two lines were told; where none came, it would never end.
        let answer = telling(often, tell, || [(); 2].map(|()| heard.recv().unwrap()));
        assert!(often <= answer[0] && answer[0] < answer[1]);
        let spinner = Spinner { bar: ProgressBar::hidden() };
        spinner.bar.set_prefix("plan");
        let seconds = Duration::from_secs(20);
        assert_eq!(spinner.line(seconds), "plan  20 seconds so far");
        spinner.note("the graph".into());
        assert_eq!(spinner.line(seconds), "plan  20 seconds so far  the graph");
        let silent = telling(Duration::from_secs(3_600), |_| panic!("too early"), || 7);
        assert_eq!(silent, 7);
    }

    #[test]
    fn a_short_recording_is_not_shown_and_a_complete_one_is_forgotten() {
        let recordings = Recordings::default();
        let shown = || {
            let now = recordings.now.lock().unwrap();
            now.as_ref().map(|now| (now.world.clone(), now.shown.is_some()))
        };
        recordings.recorded("roads", 1, 3);
        assert_eq!(shown(), Some(("roads".into(), false)));
        if let Some(now) = recordings.now.lock().unwrap().as_mut() {
            now.began -= 2 * WORTH_SHOWING;
        }
        recordings.recorded("roads", 2, 3);
        assert_eq!(shown(), Some(("roads".into(), true)));
        recordings.recorded("pinwheel", 1, 3);
        assert_eq!(shown(), Some(("pinwheel".into(), false)));
        recordings.recorded("pinwheel", 3, 3);
        assert_eq!(shown(), None);
    }
}
