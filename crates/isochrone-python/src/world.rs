//! A built-in world, step by step; `worlds.py` makes a Gymnasium environment of it.

use isochrone::random::{Purpose, Stream};
use isochrone::simulate::{Environment, Recording, Task, World};
use isochrone::{Dataset, Error};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays::{row, rows};
use crate::dataset::PyDataset;
use crate::errors::{raised, refused};

/// The seed of the recording whose states tasks start from, as in an evaluation.
const RECORDED: u64 = 0;

/// A world in which one episode runs at a time.
#[pyclass(name = "WorldCore", module = "isochrone._isochrone")]
pub struct PyWorld {
    world: World,
    environment: Box<dyn Environment>,
    /// What tasks start from, once somebody has asked.
    recorded: Option<Dataset>,
    episode: Option<Episode>,
}

struct Episode {
    seed: u64,
    step: u64,
    state: Vec<f64>,
    goal: Vec<f32>,
}

impl PyWorld {
    fn task(&mut self, seed: u64, kind: usize) -> isochrone::Result<Task> {
        if self.recorded.is_none() {
            self.recorded = Some(record(&*self.environment, self.world)?);
        }
        let data = self.recorded.as_ref().ok_or_else(|| Error::input("nothing is recorded"))?;
        let mut tasks = self.environment.tasks(seed, kind + 1, data)?;
        tasks.pop().ok_or_else(|| Error::input("the world has no tasks"))
    }

    fn observe(&self, episode: &Episode) -> Vec<f32> {
        let sensing = Stream::new(episode.seed, Purpose::SENSING);
        self.environment.observe(&episode.state, &mut sensing.draws(episode.step, 0))
    }
}

/// States that tasks may start from. Only a pinwheel draws them from its data; elsewhere a single
/// episode will do.
fn record(environment: &dyn Environment, world: World) -> isochrone::Result<Dataset> {
    let Recording { dataset, .. } = match world.pinwheel() {
        Some(_) => environment.generate(RECORDED)?,
        None => environment.record(RECORDED, 0..1, &|| {})?.recording,
    };
    Ok(dataset)
}

type Begun<'py> = (Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<f32>>);

#[pymethods]
impl PyWorld {
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        let world = name.parse::<World>().map_err(raised)?;
        Ok(Self { world, environment: world.open(), recorded: None, episode: None })
    }

    /// Begins an episode: the task of this seed and kind, or given ends. Returns observation and goal.
    #[pyo3(signature = (seed, kind, start = None, goal = None))]
    fn begin<'py>(
        &mut self,
        py: Python<'py>,
        seed: u64,
        kind: usize,
        start: Option<&Bound<'py, PyAny>>,
        goal: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Begun<'py>> {
        let size = self.environment.state_size();
        let given = |name: &str, value: Option<&Bound<'py, PyAny>>| {
            value.map(|value| rows(name, value, size).map(|rows| rows.values)).transpose()
        };
        let (start, goal) = (given("start", start)?, given("goal", goal)?);
        let mut task = py.detach(|| self.task(seed, kind)).map_err(raised)?;
        if let Some(start) = start {
            if task.start.len() != size || start.len() != size {
                return Err(refused(
                    format!("a start cannot be given in `{}`", self.world),
                    "its states hold more than what is observed; leave `start` out",
                ));
            }
            task.start = start.into_iter().map(f64::from).collect();
        }
        task.goal = goal.unwrap_or(task.goal);
        let episode = Episode { seed, step: 0, state: task.start, goal: task.goal };
        let (seen, goal) = (self.observe(&episode), episode.goal.clone());
        self.episode = Some(episode);
        Ok((row(py, seen), row(py, goal)))
    }

    /// Moves by one action: the next observation, and whether the goal is reached.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        action: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, bool)> {
        let action = rows("action", action, self.environment.action_size())?.values;
        let Some(mut episode) = self.episode.take() else {
            return Err(refused("no episode has begun", "call `reset` first"));
        };
        let action: Vec<f32> = action.into_iter().map(|value| value.clamp(-1.0, 1.0)).collect();
        let motion = Stream::new(episode.seed, Purpose::MOTION);
        let mut draws = motion.draws(episode.step, 0);
        self.environment.step(&mut episode.state, &action, &mut draws);
        episode.step += 1;
        let is_reached = self.environment.reached(&episode.state, &episode.goal);
        let seen = self.observe(&episode);
        self.episode = Some(episode);
        Ok((row(py, seen), is_reached))
    }

    /// Records episodes: the world's own dataset, or so many.
    #[pyo3(signature = (seed = 0, episodes = None))]
    fn record(&self, py: Python<'_>, seed: u64, episodes: Option<u32>) -> PyResult<PyDataset> {
        let record = || match episodes {
            None => self.environment.generate(seed),
            Some(count) => {
                self.environment.record(seed, 0..count, &|| {}).map(|episodes| episodes.recording)
            }
        };
        let recorded = py.detach(record).map_err(raised)?;
        Ok(PyDataset::given(recorded.dataset))
    }

    /// The world's name.
    #[getter]
    fn name(&self) -> &'static str {
        self.world.name()
    }

    /// Values per observation.
    #[getter]
    fn state_size(&self) -> usize {
        self.environment.state_size()
    }

    /// Values per action, each within [−1, 1].
    #[getter]
    fn action_size(&self) -> usize {
        self.environment.action_size()
    }

    /// The discount that distances are learned with here.
    #[getter]
    fn discount(&self) -> f64 {
        self.environment.discount()
    }

    /// Steps after which an episode counts as failed.
    #[getter]
    fn horizon(&self) -> usize {
        self.environment.horizon()
    }

    /// The distance from the goal within which an episode has succeeded.
    #[getter]
    fn radius(&self) -> f64 {
        self.environment.radius()
    }

    /// Kinds of tasks.
    #[getter]
    fn kinds(&self) -> usize {
        self.environment.groups()
    }
}

/// The names of all worlds.
#[pyfunction]
pub fn world_names() -> Vec<&'static str> {
    World::ALL.iter().map(|world| world.name()).collect()
}
