//! `fit`: training in a thread of its own, so that the interpreter hears of Ctrl-C meanwhile.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use isochrone::engine::{Hardware, Threads};
use isochrone::evaluate::Success;
use isochrone::run::{Fitted, LastCheck, Observer, RunData};
use isochrone::{Device, Error, Run};
use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dataset::PyDataset;
use crate::errors::{raised, refused};
use crate::model::PyModel;

/// How often the interpreter is asked for signals while a run trains.
const LOOK: Duration = Duration::from_millis(50);
/// What an observer says when Python wants to stop: SIGINT.
const STOPPED: i32 = 2;

/// What a run tells while it trains.
enum News {
    Solved(usize, usize),
    Updated(u64, u64),
    Logged(u64, Vec<(String, f64)>),
    Resumed(u64),
    Noted(String),
    Evaluating(usize, usize),
    Evaluated(u64, f64),
}

/// Passes news on to the thread of the interpreter, and its wish to stop back to the run.
struct Reporter<'a> {
    news: Sender<News>,
    is_stopped: &'a AtomicBool,
}

impl Reporter<'_> {
    fn tell(&self, news: News) {
        // Nobody listens any more once the interpreter has given up.
        self.news.send(news).unwrap_or_default();
    }
}

impl Observer for Reporter<'_> {
    fn solved(&mut self, solved: usize, goals: usize) {
        self.tell(News::Solved(solved, goals));
    }

    fn updated(&mut self, step: u64, steps: u64) {
        self.tell(News::Updated(step, steps));
    }

    fn logged(&mut self, step: u64, names: &[String], values: &[f64]) {
        let row = names.iter().cloned().zip(values.iter().copied()).collect();
        self.tell(News::Logged(step, row));
    }

    fn skipped(&mut self, error: &Error) {
        self.tell(News::Noted(format!("a damaged checkpoint was skipped: {error}")));
    }

    fn resumed(&mut self, step: u64) {
        self.tell(News::Resumed(step));
    }

    fn noted(&mut self, note: &str) {
        self.tell(News::Noted(note.to_owned()));
    }

    fn evaluating(&mut self, ended: usize, episodes: usize) {
        self.tell(News::Evaluating(ended, episodes));
    }

    fn evaluated(&mut self, step: u64, success: &Success) {
        self.tell(News::Evaluated(step, success.overall.rate));
    }

    fn signal(&self) -> Option<i32> {
        self.is_stopped.load(Ordering::Relaxed).then_some(STOPPED)
    }
}

/// Everything that decides a run.
struct Order {
    data: RunData,
    settings: Vec<(String, serde_json::Value)>,
    device: Device,
    out: Option<PathBuf>,
    threads: Option<usize>,
    is_checked: bool,
}

impl Order {
    /// What was trained, and what a check said of its steps.
    fn train(self, reporter: &mut Reporter<'_>) -> isochrone::Result<(Fitted, Option<LastCheck>)> {
        let mut run = Run::on(self.data).device(self.device);
        for (key, value) in self.settings {
            run = run.setting(&key, value);
        }
        if let Some(threads) = self.threads {
            run = run.threads(threads);
        }
        if let Some(folder) = &self.out {
            run = run.folder(folder);
        }
        let fitted = run.fit_watched(reporter)?;
        let kept = self.out.as_ref().and_then(|folder| LastCheck::read(folder, &fitted.model));
        if kept.is_some() || !self.is_checked {
            return Ok((fitted, kept));
        }
        let check = fitted.check(&|solved, goals| {
            reporter.tell(News::Solved(solved, goals));
            reporter.signal()
        })?;
        if let (Some(folder), Some(check)) = (&self.out, &check) {
            check.keep(folder)?;
        }
        Ok((fitted, check))
    }
}

/// Trains a model; `tell` is called with what happens: a word, then numbers or a text.
///
/// `settings` are pairs of a dotted key of the config and a value as JSON.
#[pyfunction]
#[pyo3(signature = (data, settings, device, out, threads, is_checked, tell))]
#[expect(clippy::too_many_arguments, reason = "one for each of `isochrone.fit`")]
pub fn fit(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    settings: Vec<(String, String)>,
    device: &str,
    out: Option<PathBuf>,
    threads: Option<usize>,
    is_checked: bool,
    tell: &Bound<'_, PyAny>,
) -> PyResult<PyModel> {
    let data = match data.cast::<PyDataset>() {
        Ok(dataset) => dataset.get().for_run(),
        Err(_) => RunData::from(data.extract::<PathBuf>().map_err(|_| {
            refused("the data are neither a Dataset nor a path", "pass `Dataset.from_arrays(…)`")
        })?),
    };
    let parsed = |(key, value): (String, String)| match serde_json::from_str(&value) {
        Ok(value) => Ok((key, value)),
        Err(_) => Err(refused(
            format!("`{key}` is `{value}`, expected a finite value"),
            "see `isochrone config`",
        )),
    };
    let settings = settings.into_iter().map(parsed).collect::<PyResult<_>>()?;
    let device = py.detach(|| present(device.parse()?)).map_err(raised)?;
    let is_saved = out.is_some();
    let order = Order { data, settings, device, out, threads, is_checked };
    let tell = tell.clone().unbind();
    match py.detach(|| watched(order, &tell)) {
        Ok((fitted, check)) => Ok(PyModel::fitted(fitted, check)),
        Err(Ended::Library(error)) => Err(raised(error)),
        Err(Ended::Python(error)) if error_is_interrupt(py, &error) && !is_saved => Err(
            PyKeyboardInterrupt::new_err("stopped; nothing is saved without a folder (`out=…`)"),
        ),
        Err(Ended::Python(error)) if error_is_interrupt(py, &error) => {
            Err(raised(Error::Interrupted(STOPPED)))
        }
        Err(Ended::Python(error)) => Err(error),
    }
}

/// The CPU instead of `auto` where there is no GPU: nobody asked for one, so it is not worth a warning.
fn present(device: Device) -> isochrone::Result<Device> {
    let (hardware, _) = Hardware::choose(device, Threads::default())?;
    Ok(if hardware.gpu.is_none() { Device::Cpu } else { device })
}

fn error_is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyKeyboardInterrupt>(py)
}

/// Why there is no model: an error of the library, or an exception of Python that stopped the run.
enum Ended {
    Library(Error),
    Python(PyErr),
}

/// Trains in another thread while this one, which is the interpreter's, passes on news and signals.
fn watched(order: Order, tell: &Py<PyAny>) -> Result<(Fitted, Option<LastCheck>), Ended> {
    let is_stopped = AtomicBool::new(false);
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let mut reporter = Reporter { news: sender, is_stopped: &is_stopped };
        let training = scope.spawn(move || order.train(&mut reporter));
        let exception = listen(&receiver, tell).err();
        is_stopped.store(exception.is_some(), Ordering::Relaxed);
        let trained = training.join().map_err(|_| {
            Ended::Python(PyRuntimeError::new_err("training panicked; please report it"))
        })?;
        match (trained, exception) {
            // Whoever stops at the last step still has a complete run in the folder.
            (_, Some(exception)) => Err(Ended::Python(exception)),
            (trained, None) => trained.map_err(Ended::Library),
        }
    })
}

/// Passes news on until the run ends, Ctrl-C is pressed or `tell` raises.
fn listen(news: &Receiver<News>, tell: &Py<PyAny>) -> PyResult<()> {
    loop {
        let first = match news.recv_timeout(LOOK) {
            Ok(first) => Some(first),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        let all: Vec<News> = first.into_iter().chain(news.try_iter()).collect();
        Python::attach(|py| {
            py.check_signals()?;
            for (at, one) in all.iter().enumerate() {
                // Of many updates in a row only the last is worth a call.
                let is_old =
                    matches!((one, all.get(at + 1)), (News::Updated(..), Some(News::Updated(..))));
                if !is_old {
                    pass_on(py, one, tell)?;
                }
            }
            Ok::<(), PyErr>(())
        })?;
        std::thread::sleep(LOOK / 5);
    }
}

fn pass_on(py: Python<'_>, news: &News, tell: &Py<PyAny>) -> PyResult<()> {
    match news {
        News::Solved(solved, goals) => tell.call1(py, ("solved", *solved, *goals)),
        News::Updated(step, steps) => tell.call1(py, ("updated", *step, *steps)),
        News::Logged(step, row) => {
            let metrics = PyDict::new(py);
            row.iter().try_for_each(|(name, value)| metrics.set_item(name, value))?;
            tell.call1(py, ("logged", *step, metrics))
        }
        News::Resumed(step) => tell.call1(py, ("resumed", *step)),
        News::Noted(note) => tell.call1(py, ("noted", note.as_str())),
        News::Evaluating(ended, episodes) => tell.call1(py, ("evaluating", *ended, *episodes)),
        News::Evaluated(step, rate) => tell.call1(py, ("evaluated", *step, *rate)),
    }
    .map(drop)
}
