//! What planners ask and what they answer.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::{Embedded, Model};

/// A distance between states that planners can ask in bulk; answers in steps.
pub trait Distance: Sync {
    /// States prepared for comparison.
    type Embedded: Send + Sync;

    /// Values per state.
    fn state_size(&self) -> usize;

    /// The coordinates that say where a state is: a graph's nodes differ in these.
    fn places(&self) -> Vec<usize> {
        (0..self.state_size()).collect()
    }

    /// Refuses a distance that cannot be asked; planners call this before anything else.
    ///
    /// # Errors
    /// What is missing.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Bytes that a prepared state takes.
    fn bytes_per_state(&self) -> u64 {
        (size_of::<f32>() * self.state_size()) as u64
    }

    /// Prepares states, row after row.
    fn embed(&self, states: &[f32]) -> Self::Embedded;

    /// The steps from every state of `from` to every state of `to`, row after row.
    fn pairwise(&self, from: &Self::Embedded, to: &Self::Embedded) -> Vec<f32>;

    /// The steps of some pairs of embedded states, each given by its two rows.
    fn of_pairs(&self, states: &Self::Embedded, pairs: &[(usize, usize)]) -> Vec<f32>;

    /// How far each state is from the data, in typical spacings of data states; above 1 an answer
    /// is a guess.
    fn novelty(&self, states: &[f32]) -> Vec<f32>;
}

impl Distance for Model {
    type Embedded = Embedded;

    fn state_size(&self) -> usize {
        self.shape().state_size
    }

    fn places(&self) -> Vec<usize> {
        match self.own_places() {
            [] => (0..self.shape().state_size).collect(),
            axes => axes.to_vec(),
        }
    }

    fn check(&self) -> Result<()> {
        self.need_distance()
    }

    fn bytes_per_state(&self) -> u64 {
        Model::bytes_per_state(self).expect("planners check the distance")
    }

    fn embed(&self, states: &[f32]) -> Embedded {
        Model::embed(self, states).expect("planners check the distance and the size of states")
    }

    fn pairwise(&self, from: &Embedded, to: &Embedded) -> Vec<f32> {
        let mut steps = Model::pairwise(self, from, to);
        steps.iter_mut().for_each(|distance| *distance = self.in_steps(*distance));
        steps
    }

    fn of_pairs(&self, states: &Embedded, pairs: &[(usize, usize)]) -> Vec<f32> {
        let mut steps = Model::of_pairs(self, states, pairs);
        steps.iter_mut().for_each(|distance| *distance = self.in_steps(*distance));
        steps
    }

    fn novelty(&self, states: &[f32]) -> Vec<f32> {
        Model::novelty(self, states).expect("planners check the size of states")
    }
}

/// A way from a start toward a goal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Path {
    /// The states passed: the start, data states, and the goal where a graph path arrives.
    pub states: Vec<Vec<f32>>,
    /// Learned steps along it, edge by edge.
    pub steps: f32,
    /// Learned steps from start to goal asked for directly; by the triangle inequality no more than
    /// along a path that arrives.
    pub direct: f32,
    /// The steps the recorded trajectories took along its edges; none for a greedy path.
    pub recorded: Option<usize>,
    /// The recorded moves it borrows, one for each edge between data states: the first leads from its
    /// second state to its third. Empty for a greedy path, which knows no trajectories.
    pub hops: Vec<Hop>,
    /// How many of these moves the learned distance holds for far longer than they were recorded: they
    /// are taken only where no other way is left.
    pub doubted: usize,
    /// How far around itself a data state of the path stands for others, in the coordinates that say
    /// where a state is, each scaled to deviation 1; 0 for a greedy path.
    #[serde(skip)]
    pub radius: f32,
    /// The trajectories of the dataset it borrows from, in order; the fewest that support it edge by
    /// edge.
    pub trajectories: Vec<usize>,
    /// How it ends.
    pub ending: PathEnding,
    /// How far its two ends are from the data.
    pub novelty: Novelty,
}

/// A recorded move from near one data state to near another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// The trajectory that made it.
    pub trajectory: usize,
    /// The steps it took; another trajectory may have taken fewer.
    pub recorded: usize,
    /// The last row of the dataset near the one state.
    pub leaves: usize,
    /// The first row near the other.
    pub arrives: usize,
}

/// How a path ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PathEnding {
    /// At the goal.
    Arrived,
    /// Where no candidate near by is nearer to the goal.
    LocalMinimum {
        /// What stands in the way.
        why: String,
    },
    /// After as many moves as were allowed.
    OutOfMoves {
        /// How many.
        why: String,
    },
    /// At the start: no path was found.
    NoPath {
        /// What is missing.
        why: String,
    },
}

/// How far start and goal are from the data, in typical spacings of data states; above 1 is farther
/// than 99 of 100 data states are from their neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Novelty {
    /// Of the start.
    pub start: f32,
    /// Of the goal.
    pub goal: f32,
}

impl Novelty {
    pub(super) fn of(distance: &impl Distance, start: &[f32], goal: &[f32]) -> Self {
        let far = distance.novelty(&[start, goal].concat());
        Self { start: far[0], goal: far[1] }
    }
}

pub(super) fn check_state(name: &str, state: &[f32], size: usize) -> Result<()> {
    if state.len() != size {
        return Err(Error::input(format!(
            "the {name} has `{}` values, expected `{size}`",
            state.len()
        )));
    }
    match state.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::input(format!(
            "the {name}'s number {at} is `{}`, expected a finite number",
            state[at]
        ))),
    }
}

pub(super) fn squared_gap(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum()
}
