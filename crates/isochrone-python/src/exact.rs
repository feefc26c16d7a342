//! `exact`: distances of small decision processes that are given by their probabilities.

use std::path::PathBuf;

use isochrone::tabular::{Chain, DecisionProcess, Matrix, Transition, read, steps};
use numpy::{PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays::{row, table};
use crate::errors::{raised, refused};

/// A decision process, as columns of its moves; what `exact.Moves` has.
#[derive(FromPyObject)]
pub struct Moves<'py> {
    states: usize,
    actions: usize,
    origins: PyReadonlyArray1<'py, i64>,
    choices: PyReadonlyArray1<'py, i64>,
    targets: PyReadonlyArray1<'py, i64>,
    probabilities: PyReadonlyArray1<'py, f64>,
}

impl Moves<'_> {
    fn transitions(&self) -> PyResult<Vec<Transition>> {
        let (origins, choices) = (self.origins.as_slice()?, self.choices.as_slice()?);
        let (targets, probabilities) = (self.targets.as_slice()?, self.probabilities.as_slice()?);
        let columns = origins.iter().zip(choices).zip(targets.iter().zip(probabilities));
        let one = |((&from, &action), (&to, &probability)): ((&i64, &i64), (&i64, &f64))| {
            let (from, action, to) = (from as usize, action as usize, to as usize);
            Transition { from, action, to, probability }
        };
        Ok(columns.map(one).collect())
    }
}

fn in_steps(py: Python<'_>, nats: Matrix, discount: f64) -> PyResult<Bound<'_, PyArray2<f64>>> {
    let size = nats.size();
    table(py, nats.map(|nats| steps(nats, discount)).as_slice().to_vec(), size, size)
}

/// Steps between all states: of a chain or, with actions, under the best policy for each goal.
#[pyfunction]
pub fn exact_distances<'py>(
    py: Python<'py>,
    moves: Moves<'py>,
    discount: f64,
    is_chain: bool,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (states, actions, moves) = (moves.states, moves.actions, moves.transitions()?);
    let solve = || -> isochrone::Result<Matrix> {
        if is_chain {
            return Ok(Chain::from_transitions(states, discount, &moves)?.distances());
        }
        Ok(DecisionProcess::from_transitions(states, actions, discount, &moves)?.distances())
    };
    in_steps(py, py.detach(solve).map_err(raised)?, discount)
}

/// The best action of every state on the way to one goal.
#[pyfunction]
pub fn exact_policy<'py>(
    py: Python<'py>,
    moves: Moves<'py>,
    discount: f64,
    goal: usize,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let (states, actions, moves) = (moves.states, moves.actions, moves.transitions()?);
    if goal >= states {
        return Err(refused(
            format!("the goal is state {goal}, expected a state below {states}"),
            "states are numbered from 0",
        ));
    }
    let solve = || -> isochrone::Result<Vec<usize>> {
        let process = DecisionProcess::from_transitions(states, actions, discount, &moves)?;
        Ok(process.greedy_actions(&process.distances_to(&[goal])))
    };
    let best = py.detach(solve).map_err(raised)?;
    Ok(row(py, best.into_iter().map(|action| action as i64).collect()))
}

/// The names of the states of a TOML or JSON file and the steps between them.
#[pyfunction]
#[pyo3(signature = (path, discount = None))]
pub fn exact_file(
    py: Python<'_>,
    path: PathBuf,
    discount: Option<f64>,
) -> PyResult<(Vec<String>, Bound<'_, PyArray2<f64>>)> {
    let solve = || read(&path, discount).map(|world| (world.distances(), world));
    let (distances, world) = py.detach(solve).map_err(raised)?;
    let discount = world.discount();
    Ok((world.states, in_steps(py, distances, discount)?))
}
