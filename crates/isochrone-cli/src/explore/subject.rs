//! A run that is explored: opened once, opened again when it has trained further.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use isochrone::Result;
use isochrone::report::natural_axes;
use isochrone::run::files::{CHECKPOINTS, MODEL};
use isochrone::run::{OpenRun, RunConfig, read_config};
use isochrone::simulate::{Referee, World};
use serde::Serialize;

use super::desk::Desk;
use super::loaded::Loaded;
use super::recorded::RecordedData;
use super::sent;
use crate::wording;

/// How often a run is looked at for new checkpoints.
const WATCHED: Duration = Duration::from_secs(1);

/// A run in its folder.
pub struct ShownRun {
    /// Its folder.
    pub folder: PathBuf,
    state: Mutex<State>,
}

struct State {
    config: RunConfig,
    version: u64,
    loaded: Option<Arc<Loaded>>,
    /// Why it cannot be asked yet.
    waiting: Option<String>,
    stamp: String,
}

/// What the page knows about a run before it asks anything.
#[derive(Serialize)]
pub struct Description {
    run: usize,
    folder: PathBuf,
    title: String,
    algorithm: String,
    source: String,
    seed: u64,
    step: u64,
    steps: u64,
    complete: bool,
    version: u64,
    /// Why it cannot be asked yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<String>,
    #[serde(flatten)]
    about: Option<About>,
}

/// What is known once a checkpoint is open.
#[derive(Serialize)]
struct About {
    state_size: usize,
    action_size: usize,
    discount: f64,
    rows: usize,
    trajectories: usize,
    world: Option<String>,
    /// The least and the greatest value of each coordinate.
    ranges: Vec<[f32; 2]>,
    /// The coordinates to show first.
    axes: [usize; 2],
    distance: bool,
    quasimetric: bool,
    policy: bool,
    /// Why no episode can be run in the world.
    unrunnable: Option<String>,
    /// What exact steps are counted of, where they are known.
    exact: Option<&'static str>,
    walls: Vec<[f64; 4]>,
    notes: Vec<String>,
}

impl About {
    fn of(loaded: &Loaded) -> Self {
        let (model, data) = (&loaded.opened.model, &loaded.data);
        let (shape, dataset, world) = (model.shape(), &data.source.dataset, data.world());
        Self {
            state_size: shape.state_size,
            action_size: shape.action_size,
            discount: shape.discount,
            rows: dataset.rows(),
            trajectories: dataset.trajectories(),
            world: world.map(|world| world.to_string()),
            ranges: data.ranges.clone(),
            axes: loaded.axes,
            distance: model.has_distance(),
            quasimetric: model.is_quasimetric(),
            policy: model.has_policy(),
            unrunnable: data.unrunnable.clone(),
            exact: world.and_then(Referee::meaning).filter(|_| model.has_distance()),
            walls: world.map_or(Vec::new(), World::walls),
            notes: data.source.notes.clone(),
        }
    }
}

impl ShownRun {
    /// The run in `folder`, opened where it has anything to ask.
    ///
    /// # Errors
    /// There is no run, or a complete one that cannot be opened.
    pub fn new(folder: &Path) -> Result<Arc<Self>> {
        let config = read_config(folder)?;
        let state = State {
            config,
            version: 0,
            loaded: None,
            waiting: Some("the run is being opened".to_owned()),
            stamp: String::new(),
        };
        let subject = Arc::new(Self { folder: folder.to_owned(), state: Mutex::new(state) });
        if folder.join(MODEL).exists() {
            subject.load(stamp(folder))?;
        }
        Ok(subject)
    }

    /// Opens the run, if it has not been yet, at its newest checkpoint.
    ///
    /// # Errors
    /// It has none, or cannot be opened.
    pub fn open(&self) -> Result<Arc<Loaded>> {
        if let Ok(loaded) = self.loaded() {
            return Ok(loaded);
        }
        self.load(stamp(&self.folder))
    }

    /// Looks for new checkpoints from now on.
    pub fn watch(self: &Arc<Self>) {
        let subject = Arc::clone(self);
        std::thread::spawn(move || {
            loop {
                let stamp = stamp(&subject.folder);
                let known = subject.locked(|state| state.stamp == stamp);
                if !known && let Err(error) = subject.load(stamp.clone()) {
                    let words = error.to_string();
                    subject.locked(|state| (state.waiting, state.stamp) = (Some(words), stamp));
                }
                std::thread::sleep(WATCHED);
            }
        });
    }

    fn locked<R>(&self, action: impl FnOnce(&mut State) -> R) -> R {
        action(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn load(&self, stamp: String) -> Result<Arc<Loaded>> {
        let opened = Arc::new(OpenRun::new(&self.folder)?);
        let known = self.locked(|state| state.loaded.as_ref().map(|old| Arc::clone(&old.data)));
        let data = match known {
            Some(data) => data,
            None => Arc::new(RecordedData::of(&opened)?),
        };
        let loaded = self.locked(|state| {
            state.version += 1;
            let desk = Desk::new(Arc::clone(&opened), Arc::clone(&data));
            let axes = natural_axes(&opened.model, &data.source.dataset, data.world());
            let (version, map) = (state.version, OnceLock::new());
            let loaded = Arc::new(Loaded { version, opened, data, desk, axes, map });
            state.config = loaded.opened.config.clone();
            (state.loaded, state.waiting) = (Some(Arc::clone(&loaded)), None);
            state.stamp = stamp;
            loaded
        });
        let early = Arc::clone(&loaded);
        std::thread::spawn(move || sent::first_map(&early));
        Ok(loaded)
    }

    /// The run at its newest checkpoint.
    ///
    /// # Errors
    /// Why it cannot be asked yet.
    pub fn loaded(&self) -> std::result::Result<Arc<Loaded>, String> {
        self.locked(|state| match &state.loaded {
            Some(loaded) => Ok(Arc::clone(loaded)),
            None => Err(state.waiting.clone().unwrap_or_default()),
        })
    }

    /// What the page is told about the run, which is number `run`.
    fn description(&self, run: usize) -> Description {
        let (config, waiting) = self.locked(|state| (state.config.clone(), state.waiting.clone()));
        let loaded = self.loaded().ok();
        let of = |get: &dyn Fn(&Loaded) -> u64| loaded.as_deref().map_or(0, get);
        let source = config.data.source.clone();
        Description {
            run,
            folder: self.folder.clone(),
            title: format!("{} on {}", wording::algorithm(&config), file_name(&source)),
            algorithm: config.algorithm.name().to_owned(),
            source,
            seed: config.seed,
            step: of(&|loaded| loaded.opened.step),
            steps: config.train.steps,
            complete: loaded.as_ref().is_some_and(|loaded| loaded.opened.is_complete()),
            version: of(&|loaded| loaded.version),
            waiting: waiting.filter(|_| loaded.is_none()),
            about: loaded.as_deref().map(About::of),
        }
    }
}

/// What the page is told about each run; of the second one also that it learned from other data.
pub fn described(subjects: &[Arc<ShownRun>]) -> Vec<Description> {
    let mut told: Vec<Description> =
        subjects.iter().enumerate().map(|(run, subject)| subject.description(run)).collect();
    if let [first, second] = subjects
        && let (Ok(one), Ok(other)) = (first.loaded(), second.loaded())
        && !one.data.same_as(&other.data)
        && let [first, second] = &mut told[..]
        && let Some(about) = &mut second.about
    {
        let [one, other] = [&first.source, &second.source].map(|source| file_name(source));
        about.notes.push(if one == other {
            format!(
                "the two runs learned from different recordings of `{one}`, so their steps can \
                 differ for that alone"
            )
        } else {
            format!(
                "the two runs learned from different data, `{one}` and `{other}`, so a place in one \
                 map need not be the same place in the other"
            )
        });
    }
    told
}

/// A file by its name alone, a world as it is.
fn file_name(source: &str) -> &str {
    Path::new(source).file_name().and_then(|name| name.to_str()).unwrap_or(source)
}

/// What changes in a folder when its run has trained further.
fn stamp(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder.join(CHECKPOINTS)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| name.ends_with(".safetensors"));
    names.sort();
    let model = std::fs::metadata(folder.join(MODEL)).and_then(|about| about.modified());
    format!("{names:?} {model:?}")
}
