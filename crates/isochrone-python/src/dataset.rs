//! `Dataset`: trajectories from a file, a world or arrays.

use std::path::PathBuf;

use isochrone::Dataset;
use isochrone::data::{Choices, Memory, load, npz};
use isochrone::run::{DataConfig, RunData, Source, open_source};
use isochrone::simulate::World;
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arrays::{Values, as_array, finite, kind, row, shown, table, values};
use crate::errors::{raised, refused};

/// Recorded trajectories: rows of observations and, if they are known, the actions taken in them.
///
/// >>> import numpy, isochrone
/// >>> walk = numpy.linspace([0, 0], [1, 1], 5)
/// >>> data = isochrone.Dataset.from_trajectories([walk, walk[::-1]])
/// >>> data
/// Dataset(rows=10, trajectories=2, state_size=2, action_size=0)
/// >>> len(data), data.lengths.tolist()
/// (10, [5, 5])
#[pyclass(name = "Dataset", module = "isochrone", frozen)]
pub struct PyDataset {
    pub data: Dataset,
    /// The file or the world that it was read from with the usual choices.
    name: Option<String>,
    notes: Vec<String>,
}

impl PyDataset {
    pub fn given(data: Dataset) -> Self {
        Self { data, name: None, notes: Vec::new() }
    }

    /// What a run learns from: the file itself where there is one, so that its folder can be asked later.
    pub fn for_run(&self) -> RunData {
        match &self.name {
            Some(name) => RunData::Named(name.clone()),
            None => RunData::from(Source::new(self.data.clone())),
        }
    }

    /// The same in memory: where the rows stay in a file, a sample of them.
    pub fn in_memory(&self) -> isochrone::Result<Dataset> {
        Source::new(self.data.clone()).sampled().map(|source| source.dataset)
    }
}

#[pymethods]
impl PyDataset {
    /// Reads trajectories from a file or a folder, or records a built-in world.
    ///
    /// The format is told by the content: OGBench's and plain npz, D4RL's and Minari's HDF5 and, in a
    /// build with the feature `parquet`, LeRobot. `keys` chooses the observations that make up a state
    /// if a Minari file names several. Rows that do not fit into memory stay on disk.
    ///
    /// >>> isochrone.Dataset.load("pinwheel").trajectories
    /// 400
    #[staticmethod]
    #[pyo3(signature = (path, *, keys = None))]
    fn load(py: Python<'_>, path: PathBuf, keys: Option<Vec<String>>) -> PyResult<Self> {
        let name = path.display().to_string();
        let read = move || -> isochrone::Result<Self> {
            let Some(keys) = keys else {
                let config = DataConfig { source: name.clone(), ..DataConfig::default() };
                // Only a world is opened with its name: a file beside it is for `fit` to find.
                if name.parse::<World>().is_ok() {
                    let Source { dataset, notes, .. } = open_source(&config)?;
                    return Ok(Self { data: dataset, name: Some(name), notes });
                }
                let loaded = load(&path, &Choices::default(), Memory::usual())?;
                return Ok(Self { data: loaded.dataset, name: Some(name), notes: loaded.notes });
            };
            let loaded = load(&path, &Choices { keys }, Memory::usual())?;
            Ok(Self { data: loaded.dataset, name: None, notes: loaded.notes })
        };
        py.detach(read).map_err(raised)
    }

    /// Trajectories from arrays with one row per step.
    ///
    /// `observations` is rows × state size. `actions` is rows × action size, within [−1, 1], or one
    /// integer per row for discrete actions. `terminals` is true on the last row of each trajectory;
    /// without it all rows are one trajectory.
    ///
    /// >>> data = isochrone.Dataset.from_arrays([[0.0], [0.1], [0.2], [0.9]], terminals=[0, 1, 0, 1])
    /// >>> data.lengths.tolist()
    /// [2, 2]
    #[staticmethod]
    #[pyo3(signature = (observations, actions = None, terminals = None))]
    fn from_arrays(
        observations: &Bound<'_, PyAny>,
        actions: Option<&Bound<'_, PyAny>>,
        terminals: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut rows = Rows::default();
        rows.add("observations", observations, actions)?;
        if let Some(terminals) = terminals {
            let ends = flags(terminals)?;
            if ends.len() != rows.lengths[0] {
                let (found, expected) = (ends.len(), rows.lengths[0]);
                return Err(refused(
                    format!("`terminals` has {found} rows, `observations` has {expected}"),
                    "every array has one row per observation, including the last of a trajectory",
                ));
            }
            rows.lengths = npz::lengths(&ends).map_err(raised)?;
        }
        rows.dataset()
    }

    /// Trajectories one by one: arrays of observations, pairs (observations, actions), or dicts with
    /// these keys.
    ///
    /// A trajectory of n observations has n or, as in Gymnasium, n − 1 actions: the last observation
    /// is where it ended.
    ///
    /// >>> walk = {"observations": [[0.0], [0.1], [0.2]], "actions": [[1.0], [1.0]]}
    /// >>> isochrone.Dataset.from_trajectories([walk])
    /// Dataset(rows=3, trajectories=1, state_size=1, action_size=1)
    #[staticmethod]
    fn from_trajectories(trajectories: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut rows = Rows::default();
        for (index, trajectory) in trajectories.try_iter()?.enumerate() {
            let name = format!("trajectories[{index}]");
            let (observations, actions) = parts(&name, &trajectory?)?;
            rows.add(&name, &observations, actions.as_ref())?;
        }
        rows.dataset()
    }

    /// Writes the trajectories as OGBench's npz: `observations`, `terminals` and, if there are any,
    /// `actions`.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| npz::write(&path, &self.data)).map_err(raised)
    }

    /// The observations and actions of one trajectory, as arrays; actions are None without any.
    #[allow(clippy::type_complexity)]
    fn trajectory<'py>(
        &self,
        py: Python<'py>,
        index: isize,
    ) -> PyResult<(Bound<'py, PyArray2<f32>>, Option<Bound<'py, PyArray2<f32>>>)> {
        let count = self.data.trajectories();
        let place = if index < 0 { index + count as isize } else { index };
        let place =
            usize::try_from(place).ok().filter(|&place| place < count).ok_or_else(|| {
                pyo3::exceptions::PyIndexError::new_err(format!("trajectory {index} of {count}"))
            })?;
        let rows = self.data.trajectory(place);
        let (mut states, mut actions) = (Vec::new(), Vec::new());
        for at in rows.clone() {
            states.extend_from_slice(&self.data.read_state(at).map_err(raised)?);
            actions.extend_from_slice(&self.data.read_action(at).map_err(raised)?);
        }
        let (size, width) = (self.data.state_size(), self.data.action_size());
        let actions = (width > 0).then(|| table(py, actions, rows.len(), width)).transpose()?;
        Ok((table(py, states, rows.len(), size)?, actions))
    }

    /// All observations, rows × state size: a copy.
    #[getter]
    fn observations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let mut all = Vec::new();
        let mut take = |part: &[f32]| {
            all.extend_from_slice(part);
            Ok(())
        };
        self.data.each_states(&mut take).map_err(raised)?;
        table(py, all, self.data.rows(), self.data.state_size())
    }

    /// All actions, rows × action size, one-hot if they are discrete: a copy. None without any.
    #[getter]
    fn actions<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        let mut all = Vec::new();
        let mut take = |part: &[f32]| {
            all.extend_from_slice(part);
            Ok(())
        };
        self.data.each_actions(&mut take).map_err(raised)?;
        let width = self.data.action_size();
        (width > 0).then(|| table(py, all, self.data.rows(), width)).transpose()
    }

    /// True on the last row of each trajectory.
    #[getter]
    fn terminals<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let mut ends = vec![false; self.data.rows()];
        (0..self.data.trajectories()).for_each(|at| ends[self.data.trajectory(at).end - 1] = true);
        row(py, ends)
    }

    /// The number of rows of each trajectory.
    #[getter]
    fn lengths<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        row(py, self.data.lengths().map(|length| length as i64).collect())
    }

    /// The number of rows.
    #[getter]
    fn rows(&self) -> usize {
        self.data.rows()
    }

    /// The number of trajectories.
    #[getter]
    fn trajectories(&self) -> usize {
        self.data.trajectories()
    }

    /// Values per observation.
    #[getter]
    fn state_size(&self) -> usize {
        self.data.state_size()
    }

    /// Values per action; 0 without actions.
    #[getter]
    fn action_size(&self) -> usize {
        self.data.action_size()
    }

    /// How many discrete actions there are to choose from; None if actions are continuous.
    #[getter]
    fn choices(&self) -> Option<usize> {
        self.data.choices()
    }

    /// What was converted, dropped or left out while reading; one sentence each.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn __len__(&self) -> usize {
        self.data.rows()
    }

    fn __repr__(&self) -> String {
        let data = &self.data;
        format!(
            "Dataset(rows={}, trajectories={}, state_size={}, action_size={})",
            data.rows(),
            data.trajectories(),
            data.state_size(),
            data.action_size()
        )
    }
}

/// The observations and actions of one given trajectory.
fn parts<'py>(
    name: &str,
    given: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)> {
    if let Ok(dict) = given.cast::<PyDict>() {
        let observations = dict.get_item("observations")?.ok_or_else(|| {
            refused(
                format!("`{name}` has no key `observations`"),
                "pass {\"observations\": …, \"actions\": …}",
            )
        })?;
        let actions = dict.get_item("actions")?.filter(|actions| !actions.is_none());
        return Ok((observations, actions));
    }
    match given.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => {
            let actions = Some(pair.get_item(1)?).filter(|actions| !actions.is_none());
            Ok((pair.get_item(0)?, actions))
        }
        Ok(other) => Err(refused(
            format!("`{name}` is a tuple of {}, expected (observations, actions)", other.len()),
            "pass a pair, or the observations alone",
        )),
        Err(_) => Ok((given.clone(), None)),
    }
}

fn flags(terminals: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
    let Values { values, shape } = values::<f32>("terminals", terminals)?;
    if shape.len() != 1 {
        return Err(refused(
            format!("`terminals` has the shape {}, expected (rows,)", shown(&shape)),
            "pass `terminals.reshape(-1)`",
        ));
    }
    let flag = |(row, value): (usize, f32)| match value {
        0.0 => Ok(false),
        1.0 => Ok(true),
        other => Err(refused(
            format!("`terminals` row {row} is `{other}`, expected 0 or 1"),
            "it is 1 on the last row of each trajectory and 0 elsewhere",
        )),
    };
    values.into_iter().enumerate().map(flag).collect()
}

/// Rows of given arrays, one trajectory after the other.
#[derive(Default)]
struct Rows {
    states: Vec<f32>,
    state_size: Option<usize>,
    actions: Vec<f32>,
    /// Values per action; none before the first trajectory, 0 without actions.
    action_size: Option<usize>,
    is_discrete: bool,
    lengths: Vec<usize>,
}

impl Rows {
    fn add(
        &mut self,
        name: &str,
        observations: &Bound<'_, PyAny>,
        actions: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let Values { values: states, shape } = values::<f32>(name, observations)?;
        let [rows, size] = shape[..] else {
            return Err(refused(
                format!("`{name}` has the shape {}, expected (rows, state size)", shown(&shape)),
                "pass `x.reshape(-1, 1)` if each row has one value",
            ));
        };
        if *self.state_size.get_or_insert(size) != size {
            let expected = self.state_size.unwrap_or_default();
            return Err(refused(
                format!("`{name}` has {size} values per row, those before have {expected}"),
                "all trajectories need the same state size",
            ));
        }
        finite(name, &states, size)?;
        self.states.extend(states);
        self.add_actions(name, actions, rows)?;
        self.lengths.push(rows);
        Ok(())
    }

    fn add_actions(
        &mut self,
        name: &str,
        actions: Option<&Bound<'_, PyAny>>,
        rows: usize,
    ) -> PyResult<()> {
        let is_first = self.lengths.is_empty();
        let (mut values, found, size, discrete) = match actions {
            None => (Vec::new(), rows, 0, false),
            Some(actions) => taken(name, actions)?,
        };
        if !is_first && (self.action_size != Some(size) || self.is_discrete != discrete) {
            return Err(refused(
                format!("the actions of `{name}` are not like those of the trajectories before"),
                "all trajectories need actions of the same kind and size, or none has any",
            ));
        }
        (self.action_size, self.is_discrete) = (Some(size), discrete);
        if found != rows && found + 1 != rows {
            return Err(refused(
                format!("`{name}` has {rows} observations and {found} actions"),
                "pass as many actions as observations, or one less",
            ));
        }
        // Nothing follows the last row: its action is never read.
        values.resize(rows * size, 0.0);
        self.actions.extend(values);
        Ok(())
    }

    fn dataset(self) -> PyResult<PyDataset> {
        let size = self
            .state_size
            .ok_or_else(|| refused("no trajectories", "pass at least one, of two rows or more"))?;
        if size == 0 {
            return Err(refused(
                "the observations have no values",
                "pass one value or more per row",
            ));
        }
        let data = match self.action_size.unwrap_or_default() {
            0 => Dataset::new(self.states, size, None, &self.lengths),
            _ if self.is_discrete => {
                let choices: Vec<u32> = self.actions.iter().map(|&action| action as u32).collect();
                let count = choices.iter().max().map_or(0, |&most| most as usize + 1);
                Dataset::with_choices(self.states, size, (&choices, count), &self.lengths)
            }
            width => Dataset::new(self.states, size, Some((self.actions, width)), &self.lengths),
        };
        data.map(PyDataset::given).map_err(raised)
    }
}

/// Actions: their values, rows and width, and whether they are discrete.
fn taken(name: &str, actions: &Bound<'_, PyAny>) -> PyResult<(Vec<f32>, usize, usize, bool)> {
    let array = as_array("actions", actions)?;
    let is_whole = ["i", "u"].contains(&kind(&array)?.as_str());
    let Values { values, shape } = values::<f32>("actions", &array)?;
    match shape[..] {
        [rows] | [rows, 1] if is_whole => match values.iter().position(|&action| action < 0.0) {
            None => Ok((values, rows, 1, true)),
            Some(row) => Err(refused(
                format!("`actions` row {row} is `{}`, expected 0 or more", values[row]),
                "number the actions from 0",
            )),
        },
        [rows, size] => {
            finite("actions", &values, size)?;
            Ok((values, rows, size, false))
        }
        _ => Err(refused(
            format!(
                "the actions of `{name}` have the shape {}, expected (rows, size)",
                shown(&shape)
            ),
            "pass `actions.reshape(-1, 1)`, or one integer per row for discrete actions",
        )),
    }
}
