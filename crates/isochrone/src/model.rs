//! What survives training: a distance between states and a policy; answers in steps.
//!
//! A distance learned over state-action pairs becomes one between states by a mean over M stored
//! actions, d(s, g) = mean_m d((s, a_m), (g, a_m)): a mean of quasimetrics pulled back, so the
//! triangle inequality is exact and d(s, s) = 0. Nats inside, steps outside: steps = d / ln(1/γ).

mod blocks;
mod distances;
mod distinct;
mod embedded;
mod file;
mod reference;
mod shape;

use rayon::prelude::*;

use self::blocks::{BLOCK, in_blocks};
use self::distinct::Distinct;
pub use self::embedded::Embedded;
use self::embedded::{PAIRS, room_for};
pub use self::reference::DataSample;
use self::reference::ReferenceStates;
pub use self::shape::ModelShape;
use crate::data::Normalization;
use crate::engine::{Parameters, Threads};
use crate::error::{Error, Result};
use crate::nn::{Actor, ActorShape, Measure, MeasureShape};

/// Pairs among which repeated states are looked for, to be embedded once.
const PORTION: usize = 1 << 16;

/// What was learned, as an algorithm hands it over: shapes and flat parameters.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The distance's shape and the numbers of its networks.
    pub distance: Option<(MeasureShape, Vec<f32>)>,
    /// The policy's shape and the numbers of its arena.
    pub policy: Option<(ActorShape, Vec<f32>)>,
}

/// A learned distance and, where there is one, its policy.
pub struct Model {
    shape: ModelShape,
    distance: Option<(Box<dyn Measure>, Vec<f32>)>,
    stored_actions: Vec<f32>,
    policy: Option<(Actor, Vec<f32>)>,
    reference: ReferenceStates,
    threads: Threads,
    /// The coordinates that say where a state is; none if what the policy sees of a goal does.
    places: Vec<usize>,
}

/// The flat arrays of a model, as its file has them.
#[derive(Debug, Clone, Copy)]
pub struct ModelNumbers<'a> {
    /// The networks of the distance, where one was learned.
    pub distance: Option<&'a [f32]>,
    /// The networks of the policy, likewise.
    pub policy: Option<&'a [f32]>,
    /// The stored actions, row after row; empty where none are needed.
    pub stored_actions: &'a [f32],
}

impl Model {
    /// A model of what was learned from the data of `sample`.
    pub fn new(
        learned: Learned,
        sample: &DataSample,
        normalization: Normalization,
        discount: f64,
    ) -> Self {
        let (distance, numbers) = learned.distance.unzip();
        let (policy, policy_numbers) = learned.policy.unzip();
        let shape = ModelShape {
            state_size: sample.state_size,
            action_size: sample.action_size,
            discount,
            normalization,
            distance,
            policy,
        };
        let actions = if shape.stores_actions() { sample.actions.clone() } else { Vec::new() };
        Self::assemble(shape, numbers, actions, policy_numbers, sample.reference.clone())
    }

    fn assemble(
        shape: ModelShape,
        distance: Option<Vec<f32>>,
        stored_actions: Vec<f32>,
        policy: Option<Vec<f32>>,
        reference: ReferenceStates,
    ) -> Self {
        let mut parameters = Parameters::default();
        let (measure, actor) = shape.build(&mut parameters);
        Self {
            distance: measure.map(|(_, measure)| measure).zip(distance),
            policy: actor.map(|(_, actor)| actor).zip(policy),
            shape,
            stored_actions,
            reference,
            threads: Threads::default(),
            places: Vec::new(),
        }
    }

    /// The same model, for planners that go by the coordinates `places`; all if there are none.
    #[must_use]
    pub(crate) fn placed(self, places: &[usize]) -> Self {
        Self { places: places.to_vec(), ..self }
    }

    /// The coordinates that say where a state is, if not all do: those it was told, else what its
    /// policy sees of a goal.
    pub(crate) fn own_places(&self) -> &[usize] {
        if self.places.is_empty() { &self.shape.normalization.policy_goal } else { &self.places }
    }

    /// Everything about the model but its numbers.
    pub fn shape(&self) -> &ModelShape {
        &self.shape
    }

    /// The flat arrays of its file.
    pub fn numbers(&self) -> ModelNumbers<'_> {
        ModelNumbers {
            distance: self.distance.as_ref().map(|(_, numbers)| &**numbers),
            policy: self.policy.as_ref().map(|(_, numbers)| &**numbers),
            stored_actions: &self.stored_actions,
        }
    }

    /// Nats to steps.
    pub fn in_steps(&self, nats: f32) -> f32 {
        nats / (1.0 / self.shape.discount).ln() as f32
    }

    /// Whether it has a policy.
    pub fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// Whether its policy chooses among discrete actions.
    pub fn acts_by_choice(&self) -> bool {
        self.shape.policy.as_ref().is_some_and(ActorShape::is_categorical)
    }

    /// Whether it has a distance.
    pub fn has_distance(&self) -> bool {
        self.distance.is_some()
    }

    /// Whether its distance obeys the triangle inequality by construction.
    pub fn is_quasimetric(&self) -> bool {
        self.shape.distance.as_ref().is_some_and(MeasureShape::is_quasimetric)
    }

    /// Refuses a model that learned a policy alone.
    ///
    /// # Errors
    /// The model has no distance.
    pub fn need_distance(&self) -> Result<()> {
        if self.has_distance() {
            return Ok(());
        }
        Err(Error::input("the model has no distance, only a policy")
            .hint("cloning learns none; train another algorithm, such as `atlas`"))
    }

    /// Refuses a model that learned a distance alone.
    ///
    /// # Errors
    /// The model has no policy.
    pub fn need_policy(&self) -> Result<()> {
        if self.has_policy() {
            return Ok(());
        }
        Err(Error::input("the model has no policy").hint(match self.shape().action_size {
            0 => {
                "the data it learned from have no actions; without them a policy cannot be learned"
            }
            _ => "train one with `--from RUN --extraction awr`",
        }))
    }

    /// How many rows of `size` values there are.
    fn rows(what: &str, values: &[f32], size: usize) -> Result<usize> {
        if values.len().is_multiple_of(size) {
            return Ok(values.len() / size);
        }
        Err(Error::input(format!(
            "the {what} have {} values, which is not a multiple of {size}",
            values.len()
        ))
        .hint("pass whole rows, one after the other"))
    }

    /// Checks that there is a goal per state, or one for all.
    fn matched(states: usize, goals: usize) -> Result<()> {
        if goals == states || goals == 1 {
            return Ok(());
        }
        Err(Error::input(format!("{goals} goals for {states} states"))
            .hint("pass one goal per state, or one goal for all of them"))
    }

    /// What `answer` says of blocks of states and their goals, or of the one goal, given what
    /// networks see of them.
    fn ask<R: Send>(
        &self,
        what: &str,
        states: &[f32],
        goals: &[f32],
        answer: impl Fn(&[f32], &[f32]) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let size = self.shape.state_size;
        let rows = Self::rows(what, states, size)?;
        let count = Self::rows("goals", goals, size)?;
        Self::matched(rows, count)?;
        in_blocks(rows, BLOCK, |block| {
            let part = block.start * size..block.end * size;
            let goals = if count == rows { &goals[part.clone()] } else { goals };
            answer(&self.normalized(&states[part]), &self.normalized(goals))
        })
    }

    /// The steps from each state of `from` to the state of `to` in the same row, or to the one state
    /// of `to`.
    ///
    /// # Errors
    /// Values that are not whole rows, neither as many goals as states nor one, or a model without a
    /// distance.
    pub fn steps(&self, from: &[f32], to: &[f32]) -> Result<Vec<f32>> {
        self.need_distance()?;
        let portions = self.in_portions(from, to, |from, to| match self.repeated(from, to) {
            Some(distinct) => self.steps_of_distinct(&distinct),
            None => Ok(self.ask("states", from, to, |from, to| self.steps_of(from, to))?.concat()),
        })?;
        Ok(portions.concat())
    }

    /// What `answer` says of portions of states and their goals, or of the one goal.
    fn in_portions<R>(
        &self,
        from: &[f32],
        to: &[f32],
        answer: impl Fn(&[f32], &[f32]) -> Result<R>,
    ) -> Result<Vec<R>> {
        let size = self.shape.state_size;
        let (rows, goals) = (Self::rows("states", from, size)?, Self::rows("goals", to, size)?);
        Self::matched(rows, goals)?;
        let portion = |start: usize| {
            let part = start * size..(start + PORTION).min(rows) * size;
            let to = if goals == rows { &to[part.clone()] } else { to };
            answer(&from[part], to)
        };
        (0..rows).step_by(PORTION).map(portion).collect()
    }

    /// The distinct states of corresponding rows, if enough of them repeat.
    fn repeated(&self, from: &[f32], to: &[f32]) -> Option<Distinct> {
        if from.len() == to.len() { Distinct::of(from, to, self.shape.state_size) } else { None }
    }

    /// The steps between what networks see of corresponding states, or to the one goal.
    fn steps_of(&self, from: &[f32], to: &[f32]) -> Result<Vec<f32>> {
        let width = self.shape.normalization.width();
        let embed = |seen: &[f32]| self.embed_seen(seen.len() / width, seen);
        let nats = self.between(&embed(from), &embed(to))?;
        Ok(nats.into_iter().map(|d| self.in_steps(d)).collect())
    }

    /// The steps of pairs whose states repeat, each of which is embedded once.
    fn steps_of_distinct(&self, distinct: &Distinct) -> Result<Vec<f32>> {
        let nats = self.of_pairs(&self.embed(&distinct.states)?, &distinct.pairs);
        Ok(nats.into_iter().map(|d| self.in_steps(d)).collect())
    }

    /// The answers of [`Model::steps`] and [`Model::act`] to the same question in less time than one
    /// after the other.
    ///
    /// # Errors
    /// As of both.
    pub fn steps_and_actions(&self, from: &[f32], to: &[f32]) -> Result<(Vec<f32>, Vec<f32>)> {
        self.need_distance()?;
        self.need_policy()?;
        let portions = self.in_portions(from, to, |from, to| {
            if let Some(distinct) = self.repeated(from, to) {
                let (steps, actions) =
                    rayon::join(|| self.steps_of_distinct(&distinct), || self.act(from, to));
                return Ok((steps?, actions?));
            }
            let blocks = self.ask("states", from, to, |from, to| {
                Ok((self.steps_of(from, to)?, self.actions_of(from, to)))
            })?;
            let (steps, actions): (Vec<_>, Vec<_>) = blocks.into_iter().unzip();
            Ok((steps.concat(), actions.concat()))
        })?;
        let (steps, actions): (Vec<_>, Vec<_>) = portions.into_iter().unzip();
        Ok((steps.concat(), actions.concat()))
    }

    /// The steps from every state of `from` to every state of `to`, row after row.
    ///
    /// # Errors
    /// Values that are not whole rows; a model without a distance; more pairs than fit in memory.
    pub fn pairwise_steps(&self, from: &[f32], to: &[f32]) -> Result<Vec<f32>> {
        let size = self.shape.state_size;
        let mut distances =
            room_for(Self::rows("states", from, size)?, Self::rows("goals", to, size)?)?;
        let [from, to] = [self.embed_precisely(from)?, self.embed_precisely(to)?];
        self.write_pairs(&from, &to, &mut distances);
        distances.par_iter_mut().with_min_len(PAIRS).for_each(|d| *d = self.in_steps(*d));
        Ok(distances)
    }

    /// The distance in nats from each (state, action) to the goal of its row, or to the one goal.
    ///
    /// # Errors
    /// As [`Model::steps`]; another number of actions than of states.
    pub fn after(&self, states: &[f32], actions: &[f32], goals: &Embedded) -> Result<Vec<f32>> {
        self.need_distance()?;
        let rows = Self::rows("states", states, self.shape.state_size)?;
        let expected = rows * self.shape.action_size;
        if actions.len() != expected {
            return Err(Error::input(format!(
                "the actions have {} values, expected {expected} for {rows} states",
                actions.len()
            )));
        }
        let (measure, view) = self.measure();
        let starts = measure.start(&view, &self.normalized(states), actions);
        self.to_goals(rows, &starts.iter().collect::<Vec<_>>(), goals)
    }

    /// The policy's action for each observation and the goal of its row, or the one goal.
    ///
    /// # Errors
    /// Values that are not whole rows, neither as many goals as observations nor one, or a model
    /// without a policy.
    pub fn act(&self, observations: &[f32], goals: &[f32]) -> Result<Vec<f32>> {
        self.need_policy()?;
        let act = |states: &[f32], goals: &[f32]| Ok(self.actions_of(states, goals));
        Ok(self.ask("observations", observations, goals, act)?.concat())
    }

    /// The policy's actions for normalized states and the goals of their rows, or one goal.
    fn actions_of(&self, states: &[f32], goals: &[f32]) -> Vec<f32> {
        let (policy, numbers) = self.policy.as_ref().expect("a model with a policy");
        let normalization = &self.shape.normalization;
        let sizes = (normalization.width(), normalization.goal_width());
        let rows = states.chunks_exact(sizes.0).zip(goals.chunks_exact(sizes.0).cycle());
        let mut inputs = Vec::with_capacity(states.len() / sizes.0 * (sizes.0 + sizes.1));
        for (state, goal) in rows {
            inputs.extend_from_slice(state);
            inputs.extend(normalization.of_goal(goal));
        }
        policy.infer(&self.threads, numbers, &inputs, sizes)
    }

    /// Which of the discrete actions the policy takes for each observation and goal, from 0.
    ///
    /// # Errors
    /// The model has no policy, or one of continuous actions.
    pub fn choose(&self, observations: &[f32], goals: &[f32]) -> Result<Vec<usize>> {
        let size = self.shape.action_size;
        let actions = self.act(observations, goals)?;
        let one_hot = |row: &[f32]| {
            let place = row.iter().position(|&x| x == 1.0);
            place.filter(|&at| row.iter().enumerate().all(|(other, &x)| other == at || x == 0.0))
        };
        actions.chunks_exact(size).map(one_hot).collect::<Option<_>>().ok_or_else(|| {
            Error::input("the model's actions are continuous").hint("ask for the action itself")
        })
    }

    /// How far each state is from the data, in typical spacings of data states: above 1 is farther
    /// than 99 of 100 data states are from their neighbours, and answers there are guesses.
    ///
    /// # Errors
    /// Values that are not whole rows.
    pub fn novelty(&self, states: &[f32]) -> Result<Vec<f32>> {
        let size = self.shape.state_size;
        let rows = Self::rows("states", states, size)?;
        in_blocks(rows, BLOCK, |block| {
            Ok(self.reference.novelty(&states[block.start * size..block.end * size]))
        })
        .map(|blocks| blocks.concat())
    }
}
