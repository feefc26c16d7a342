//! What CMD-1 and CMD-2 share: one encoder whose quasimetric is the distance, and its pairs.

use super::{GoalAction, Problem, numbered, positive};
use crate::data::sampler::{Column, Layout, RowsId};
use crate::engine::{ArenaId, Parameters, Program, Scalar, Value};
use crate::error::{Error, Result};
use crate::extraction::Critique;
use crate::nn::{Encoded, EncodedShape, MeasureShape};

/// The states of `rows`, with noise where `deviation` is above 0.
pub(super) fn noisy<T: Scalar>(program: &mut Program<T>, rows: RowsId, deviation: f64) -> Value {
    program.column(match deviation {
        0.0 => Column::State(rows),
        deviation => Column::Noisy(rows, deviation as f32),
    })
}

/// A distance whose encoder sees states, or states and actions.
pub(super) struct DistanceNet {
    shape: EncodedShape,
    encoder: Encoded,
    goal_action: GoalAction,
}

impl DistanceNet {
    /// Adds the networks of a distance, the `member`th of several, in the arena `distance`.
    pub fn new(
        parameters: &mut Parameters,
        member: usize,
        shape: EncodedShape,
        (goal_action, problem): (GoalAction, Problem),
    ) -> Result<Self> {
        shape.head.check()?;
        shape.network.check("algorithm.network")?;
        positive("algorithm.temperature", shape.temperature)?;
        if shape.with_action && problem.action_size == 0 {
            return Err(Error::input("a state-action critic needs actions, the data have none")
                .hint("set `algorithm.critic = \"state\"`"));
        }
        let arena = parameters.arena(&numbered("distance", member));
        let encoder = Encoded::new(parameters, arena, &shape, problem.sizes());
        Ok(Self { shape, encoder, goal_action })
    }

    pub fn arena(&self) -> ArenaId {
        self.encoder.network.arena()
    }

    pub fn with_action(&self) -> bool {
        self.shape.with_action
    }

    fn encode<T: Scalar>(&self, program: &mut Program<T>, state: Value, action: Value) -> Value {
        let inputs = [state, action];
        self.encoder.network.apply(program, if self.with_action() { &inputs } else { &inputs[..1] })
    }

    /// The encodings of (s_i, a_i), given s.
    pub fn starts<T: Scalar>(&self, program: &mut Program<T>, state: Value) -> Value {
        let action =
            if self.with_action() { program.column(Column::Action(Layout::START)) } else { state };
        self.encode(program, state, action)
    }

    /// The encodings of (g_j, a'_j), given g.
    pub fn ends<T: Scalar>(&self, program: &mut Program<T>, state: Value, goal: RowsId) -> Value {
        let action =
            if self.with_action() { self.goal_action.column(program, goal) } else { state };
        self.encode(program, state, action)
    }

    /// d((s_i, a_i), (g_j, a'_j)) for all i and j.
    pub fn pairwise<T: Scalar>(&self, program: &mut Program<T>, from: Value, to: Value) -> Value {
        self.encoder.head.pairwise(program, from, to)
    }

    /// mean relu(d((s, a), (g, a_g)) − k ln(1/γ))² over starts and their goals, recorded k steps later,
    /// with the actions taken: a recorded way is not shorter than the distance.
    pub fn above_elapsed<T: Scalar>(
        &self,
        program: &mut Program<T>,
        goal: RowsId,
        discount: f64,
    ) -> Value {
        let [from, to] = [Layout::START, goal].map(|rows| {
            let state = program.column(Column::State(rows));
            let action =
                if self.with_action() { program.column(Column::Action(rows)) } else { state };
            self.encode(program, state, action)
        });
        let distance = self.encoder.head.between(program, from, to);
        let elapsed = program.column(Column::Gap(goal));
        let terms = [(1.0 / self.shape.temperature, distance), (discount.ln(), elapsed)];
        let above = program.weighted_sum(&terms);
        program.hinge(above, 0.0)
    }

    /// d((s, a), (g, a')) row by row; without actions the encoder sees none.
    fn between<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Value {
        let goal_state = program.column(Column::State(goal));
        let ends = self.ends(program, goal_state, goal);
        let starts = self.encode(program, state, action);
        self.encoder.head.between(program, starts, ends)
    }

    /// What was learned by `members`, whose scale is `temperature`: the mean of their distances.
    pub fn learned(
        members: &[Self],
        temperature: f64,
        numbers: &dyn Fn(ArenaId) -> Vec<f32>,
    ) -> Option<(MeasureShape, Vec<f32>)> {
        let shape = EncodedShape { temperature, ..members[0].shape.clone() };
        let shape = MeasureShape::Encoded(shape).several(members.len());
        Some((shape, members.iter().flat_map(|member| numbers(member.arena())).collect()))
    }
}

impl Critique for DistanceNet {
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value> {
        self.with_action().then(|| self.between(program, state, action, goal))
    }

    fn from<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        (!self.with_action()).then(|| self.between(program, state, state, goal))
    }
}
