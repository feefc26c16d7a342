//! `Model`: what was learned, and questions to it.

use std::path::PathBuf;

use isochrone::checkpoint::write_whole;
use isochrone::evaluate::{AgainstElapsed, AgainstSolved, Trajectories, audit};
use isochrone::report::pictures;
use isochrone::run::{Fitted, Judges, LastCheck, OpenRun, open_model};
use isochrone::{Model, onnx};
use numpy::PyArray2;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use serde::Serialize;

use crate::answers::plain;
use crate::arrays::{RowValues, row, rows, table};
use crate::dataset::PyDataset;
use crate::errors::{raised, refused};
use crate::origin::Origin;

/// A learned distance and, if there is one, its policy.
///
/// States are arrays of shape (state size,) for one or (rows, state size) for many; one state or goal
/// may stand beside many of the other. One pair is answered with a float, many with an array.
///
/// >>> model = isochrone.load("model.safetensors")
/// >>> model
/// Model(state_size=2, action_size=2, discount=0.95, distance=True, policy=True)
/// >>> model.steps([0.0, 0.0], [0.0, 0.0])
/// 0.0
#[pyclass(name = "Model", module = "isochrone", frozen)]
pub struct PyModel {
    origin: Origin,
    /// What the last check of its run said.
    judged: Option<LastCheck>,
}

/// What learned steps are judged by.
#[derive(Serialize)]
struct Calibration {
    #[serde(flatten)]
    elapsed: AgainstElapsed,
    against_solved: Option<AgainstSolved>,
}

/// Two lists of states that belong together.
struct Pairs {
    from: Vec<f32>,
    to: Vec<f32>,
    rows: usize,
    is_single: bool,
}

impl PyModel {
    pub fn fitted(fitted: Fitted, judged: Option<LastCheck>) -> Self {
        Self { origin: Origin::Fitted(Box::new(fitted)), judged }
    }

    fn model(&self) -> &Model {
        self.origin.model()
    }

    fn pairs(
        &self,
        names: [&str; 2],
        from: &Bound<'_, PyAny>,
        to: &Bound<'_, PyAny>,
    ) -> PyResult<Pairs> {
        let size = self.model().shape().state_size;
        let (from, to) = (rows(names[0], from, size)?, rows(names[1], to, size)?);
        let is_single = from.is_single && to.is_single;
        let RowValues { values: mut states, rows, .. } = from;
        let rows = match (rows, to.rows) {
            (1, goals) if goals != 1 => {
                states = states.repeat(goals);
                goals
            }
            (rows, _) => rows,
        };
        if to.rows != rows && to.rows != 1 {
            return Err(refused(
                format!("{} rows of `{}` for {rows} of `{}`", to.rows, names[1], names[0]),
                "pass one goal per state, or one goal for all of them",
            ));
        }
        Ok(Pairs { from: states, to: to.values, rows, is_single })
    }

    /// The steps from each start to its goal, times `unit`.
    fn apart<'py>(
        &self,
        py: Python<'py>,
        start: &Bound<'py, PyAny>,
        goal: &Bound<'py, PyAny>,
        unit: f32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pairs = self.pairs(["start", "goal"], start, goal)?;
        let steps = py.detach(|| -> isochrone::Result<Vec<f32>> {
            if pairs.rows == 0 {
                self.model().need_distance()?;
                return Ok(Vec::new());
            }
            let steps = self.model().steps(&pairs.from, &pairs.to)?;
            Ok(steps.into_iter().map(|steps| steps * unit).collect())
        });
        let steps = steps.map_err(raised)?;
        match pairs.is_single {
            true => steps[0].into_bound_py_any(py),
            false => row(py, steps).into_bound_py_any(py),
        }
    }

    fn one(&self, name: &str, state: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
        let size = self.model().shape().state_size;
        let state = rows(name, state, size)?;
        if state.rows == 1 {
            return Ok(state.values);
        }
        Err(refused(format!("`{name}` has {} rows, expected one", state.rows), "plan one by one"))
    }
}

#[pymethods]
impl PyModel {
    /// The steps from each start to its goal.
    ///
    /// >>> model.steps([[0.0, 0.0], [0.5, 0.5]], [1.0, 1.0]).shape
    /// (2,)
    fn steps<'py>(
        &self,
        py: Python<'py>,
        start: &Bound<'py, PyAny>,
        goal: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.apart(py, start, goal, 1.0)
    }

    /// The distance from each start to its goal in nats: steps × ln(1 / discount).
    fn distance<'py>(
        &self,
        py: Python<'py>,
        start: &Bound<'py, PyAny>,
        goal: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.apart(py, start, goal, (1.0 / self.model().shape().discount).ln() as f32)
    }

    /// The steps from every start to every goal: starts × goals.
    ///
    /// >>> model.pairwise([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]], [[1.0, 0.0]]).shape
    /// (3, 1)
    fn pairwise<'py>(
        &self,
        py: Python<'py>,
        starts: &Bound<'py, PyAny>,
        goals: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (model, size) = (self.model(), self.model().shape().state_size);
        let (starts, goals) = (rows("starts", starts, size)?, rows("goals", goals, size)?);
        let nats = py.detach(|| -> isochrone::Result<Vec<f32>> {
            model.need_distance()?;
            if starts.rows == 0 || goals.rows == 0 {
                return Ok(Vec::new());
            }
            model.pairwise_steps(&starts.values, &goals.values)
        });
        table(py, nats.map_err(raised)?, starts.rows, goals.rows)
    }

    /// The policy's action for each observation on the way to its goal.
    ///
    /// An action is an array of (action size,) for one observation and (rows, action size) for many;
    /// if actions are discrete, it is an integer or an array of integers.
    ///
    /// >>> model.act([0.0, 0.0], [1.0, 1.0]).shape
    /// (2,)
    fn act<'py>(
        &self,
        py: Python<'py>,
        observation: &Bound<'py, PyAny>,
        goal: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pairs = self.pairs(["observation", "goal"], observation, goal)?;
        let (model, size) = (self.model(), self.model().shape().action_size);
        if model.acts_by_choice() {
            let chosen = py.detach(|| match pairs.rows {
                0 => Ok(Vec::new()),
                _ => model.choose(&pairs.from, &pairs.to),
            });
            let chosen: Vec<i64> =
                chosen.map_err(raised)?.into_iter().map(|choice| choice as i64).collect();
            return match pairs.is_single {
                true => chosen[0].into_bound_py_any(py),
                false => row(py, chosen).into_bound_py_any(py),
            };
        }
        let actions = py.detach(|| {
            model.need_policy()?;
            if pairs.rows == 0 { Ok(Vec::new()) } else { model.act(&pairs.from, &pairs.to) }
        });
        let actions = actions.map_err(raised)?;
        match pairs.is_single {
            true => row(py, actions).into_bound_py_any(py),
            false => table(py, actions, pairs.rows, size)?.into_bound_py_any(py),
        }
    }

    /// How far each state is from the data, in typical spacings of data states: above 1, answers are
    /// guesses.
    fn novelty<'py>(
        &self,
        py: Python<'py>,
        states: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let states = rows("states", states, self.model().shape().state_size)?;
        let far = py.detach(|| self.model().novelty(&states.values)).map_err(raised)?;
        match states.is_single {
            true => far[0].into_bound_py_any(py),
            false => row(py, far).into_bound_py_any(py),
        }
    }

    /// A path over recorded states, as a dict: `states` (rows × state size), `steps` along it,
    /// `direct` steps, `recorded` steps, `arrived`, `trajectories`, `doubts` and more.
    ///
    /// It is planned over `dataset`, or over the data that the model learned from.
    #[pyo3(signature = (start, goal, dataset = None))]
    fn plan<'py>(
        &self,
        py: Python<'py>,
        start: &Bound<'py, PyAny>,
        goal: &Bound<'py, PyAny>,
        dataset: Option<Bound<'py, PyDataset>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (start, goal) = (self.one("start", start)?, self.one("goal", goal)?);
        let (model, dataset) = (self.model(), dataset.as_ref().map(Bound::get));
        let planned = py.detach(|| self.origin.plan(dataset, &start, &goal)).map_err(raised)?;
        let states = planned.path.states.concat();
        let answer = plain(py, &planned)?;
        let rows = planned.path.states.len();
        answer.set_item("states", table(py, states, rows, model.shape().state_size)?)?;
        Ok(answer)
    }

    /// Draws a map of the learned steps to `goal` with a path planned from `start`, beside the data, for
    /// states of two values. Writes `path` as .svg and .png.
    ///
    /// Without `start` and `goal` it chooses ends that no single trajectory joins.
    #[pyo3(signature = (path, start = None, goal = None, dataset = None))]
    fn draw_map(
        &self,
        py: Python<'_>,
        path: PathBuf,
        start: Option<&Bound<'_, PyAny>>,
        goal: Option<&Bound<'_, PyAny>>,
        dataset: Option<Bound<'_, PyDataset>>,
    ) -> PyResult<()> {
        let start = start.map(|start| self.one("start", start)).transpose()?;
        let goal = goal.map(|goal| self.one("goal", goal)).transpose()?;
        let dataset = dataset.as_ref().map(Bound::get);
        let draw = || {
            let picture =
                self.origin.with_data(dataset, |source| self.origin.map(source, start, goal))?;
            pictures::isochrones(&picture, &path.with_extension(""))
        };
        py.detach(draw).map_err(raised)
    }

    /// Whether the distance is a quasimetric on states of `dataset`, as a dict: `violations` of the
    /// triangle inequality on `triples`, the `worst` one, `mean_steps`, `asymmetry`, `identity`.
    #[pyo3(signature = (dataset = None, *, triples = 1_000_000, seed = 0))]
    fn audit<'py>(
        &self,
        py: Python<'py>,
        dataset: Option<Bound<'py, PyDataset>>,
        triples: u64,
        seed: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dataset = dataset.as_ref().map(Bound::get);
        let found = py.detach(|| {
            self.origin.with_data(dataset, |source| {
                audit(self.model(), source.dataset.states(), triples, seed)
            })
        });
        plain(py, &found.map_err(raised)?)
    }

    /// How learned steps agree with the steps that elapsed on recorded trajectories, as a dict:
    /// `spearman`, `at_or_below`, `bands`, and in `reading` whether they can be read as `steps`.
    ///
    /// It is judged on `dataset` or, without it, on the trajectories held out of training. In
    /// `against_solved`, where the data that the model learned from are at hand and suit it:
    /// `median_relative_error` against the fewest steps along their moves, joined across trajectories.
    /// Where it is above 0.5, the numbers are not steps either.
    #[pyo3(signature = (dataset = None, *, seed = 1_000))]
    fn calibration<'py>(
        &self,
        py: Python<'py>,
        dataset: Option<Bound<'py, PyDataset>>,
        seed: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dataset = dataset.as_ref().map(Bound::get);
        let compare = || {
            self.model().need_distance()?;
            let (source, mut config) = (self.origin.source(), self.origin.config().into_owned());
            config.evaluation.seed = seed;
            let (source, judged) = match dataset {
                None => {
                    let source = source?;
                    let judged = source.judged_on(&config)?;
                    (Some(source), judged)
                }
                // Whether the model learned from these nobody knows.
                Some(dataset) => {
                    let (dataset, places) = (dataset.in_memory()?, config.places().to_vec());
                    (source.ok(), Trajectories { dataset, held_out: None, places })
                }
            };
            self.origin.check(&judged.dataset)?;
            let judges = Judges::on(judged, source.as_ref(), &config, Some(&|_, _| None))?;
            let (elapsed, against_solved) = judges.judge(self.model())?;
            Ok(elapsed.map(|elapsed| Calibration { elapsed, against_solved }))
        };
        plain(py, &py.detach(compare).map_err(raised)?)
    }

    /// Writes the model to one file, which `isochrone.load` and the command read.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.model().save(&path)).map_err(raised)
    }

    /// Writes distance and policy as one ONNX file: `observation` and `goal` in, `steps` and `action`
    /// out.
    fn export_onnx(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| write_whole(&path, &onnx::export(self.model())?)).map_err(raised)
    }

    /// γ, between 0 and 1.
    #[getter]
    fn discount(&self) -> f64 {
        self.model().shape().discount
    }

    /// Values per state.
    #[getter]
    fn state_size(&self) -> usize {
        self.model().shape().state_size
    }

    /// Values per action; 0 without actions.
    #[getter]
    fn action_size(&self) -> usize {
        self.model().shape().action_size
    }

    /// Whether it has a distance.
    #[getter]
    fn has_distance(&self) -> bool {
        self.model().has_distance()
    }

    /// Whether it has a policy.
    #[getter]
    fn has_policy(&self) -> bool {
        self.model().has_policy()
    }

    /// Whether its distance obeys the triangle inequality by construction.
    #[getter]
    fn is_quasimetric(&self) -> bool {
        self.model().is_quasimetric()
    }

    /// The config of its run as TOML, every default written out; None for a model file.
    #[getter]
    fn config_toml(&self) -> PyResult<Option<String>> {
        match &self.origin {
            Origin::File(_) => Ok(None),
            _ => self.origin.config().to_toml().map(Some).map_err(raised),
        }
    }

    /// The share of goals that the policy reached in its last evaluation; None outside of a world.
    #[getter]
    fn success(&self) -> Option<f64> {
        match &self.origin {
            Origin::Fitted(fitted) => fitted.success.as_ref().map(|success| success.overall.rate),
            _ => None,
        }
    }

    /// Why its numbers should not be read as steps, as the last check of its run said, that of `fit` or
    /// of the command; None if that found nothing, or nobody checked.
    #[getter]
    fn doubt(&self) -> Option<&str> {
        self.judged.as_ref()?.doubt.as_deref()
    }

    fn __repr__(&self) -> String {
        let shape = self.model().shape();
        let word = |yes: bool| if yes { "True" } else { "False" };
        format!(
            "Model(state_size={}, action_size={}, discount={}, distance={}, policy={})",
            shape.state_size,
            shape.action_size,
            shape.discount,
            word(self.model().has_distance()),
            word(self.model().has_policy())
        )
    }
}

/// Opens a model file, or the run in a folder: its model or, if it is not complete, its newest
/// checkpoint.
#[pyfunction]
pub fn load(py: Python<'_>, path: PathBuf) -> PyResult<PyModel> {
    let open = || -> isochrone::Result<PyModel> {
        let origin = match path.is_dir() {
            true => Origin::Run(Box::new(OpenRun::new(&path)?)),
            false => Origin::File(Box::new(open_model(&path)?)),
        };
        let judged = LastCheck::read(&path, origin.model());
        Ok(PyModel { origin, judged })
    };
    py.detach(open).map_err(raised)
}
