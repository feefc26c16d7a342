//! What learners of an encoded distance share: the encoder with its pairs, and the policy pass.

use super::{GoalAction, Problem};
use crate::data::sampler::{Column, Layout, Offsets, Rows, RowsId};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Value, Window};
use crate::error::{Error, Result};
use crate::extraction::{Extraction, PolicyColumns, Reach};
use crate::model::{DistanceShape, Encoder, Learned};
use crate::nn::{Policy, PolicyShape};

/// A distance whose encoder sees states, or states and actions.
pub(super) struct DistanceNet {
    shape: DistanceShape,
    encoder: Encoder,
    goal_action: GoalAction,
}

impl DistanceNet {
    /// Adds the networks of a distance, in the arena `distance`.
    pub fn new(
        parameters: &mut Parameters,
        shape: DistanceShape,
        goal_action: GoalAction,
        problem: Problem,
    ) -> Result<Self> {
        shape.head.check()?;
        shape.network.check("algorithm.network")?;
        positive("algorithm.temperature", shape.temperature)?;
        if shape.with_action && problem.action_size == 0 {
            return Err(Error::input("a state-action critic needs actions, the data have none")
                .hint("set `algorithm.critic = \"state\"`"));
        }
        let sizes = (problem.state_size, problem.action_size);
        let encoder = Encoder::new(parameters, "distance", &shape, sizes);
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

    /// The encodings of (s_i, a_i).
    pub fn starts<T: Scalar>(&self, program: &mut Program<T>) -> Value {
        let state = program.column(Column::State(Layout::START));
        let action =
            if self.with_action() { program.column(Column::Action(Layout::START)) } else { state };
        self.encode(program, state, action)
    }

    /// The encodings of (g_j, a'_j).
    pub fn ends<T: Scalar>(&self, program: &mut Program<T>, goal: RowsId) -> Value {
        let state = program.column(Column::State(goal));
        let action =
            if self.with_action() { self.goal_action.column(program, goal) } else { state };
        self.encode(program, state, action)
    }

    /// d((s_i, a_i), (g_j, a'_j)) for all i and j.
    pub fn pairwise<T: Scalar>(&self, program: &mut Program<T>, from: Value, to: Value) -> Value {
        self.encoder.head.pairwise(program, from, to)
    }
}

/// The last pass of an update: a policy taken from the distance.
pub(super) struct PolicyNet {
    shape: PolicyShape,
    policy: Option<Policy>,
    extraction: Extraction,
    optimizer: Adam,
    window: Window,
}

impl PolicyNet {
    /// Adds a policy, in the arena `policy`, where the extraction asks for one.
    pub fn new(
        parameters: &mut Parameters,
        (shape, extraction, optimizer): (&PolicyShape, &Extraction, Adam),
        problem: Problem,
        with_action: bool,
        window: Window,
    ) -> Result<Self> {
        extraction.check(problem.action_size, !with_action)?;
        shape.check("algorithm.policy")?;
        optimizer.check("algorithm.policy_optimizer")?;
        let policy = (*extraction != Extraction::None).then(|| {
            let arena = parameters.arena("policy");
            Policy::new(parameters, arena, shape, (problem.state_size, problem.action_size))
        });
        let (shape, extraction) = (shape.clone(), extraction.clone());
        Ok(Self { shape, policy, extraction, optimizer, window })
    }

    /// Declares the pass: through the distance but not into it.
    pub fn declare<T: Scalar>(
        &self,
        program: &mut Program<T>,
        distance: &DistanceNet,
        offsets: Offsets,
    ) {
        let Some(policy) = &self.policy else { return };
        let columns = self.extraction.columns(program, offsets);
        let goals = program.rows(Rows::Mixed(self.extraction.goals(), offsets));
        let ends = distance.ends(program, goals);
        let reach = PolicyReach { distance, columns, ends };
        if let Some(loss) = self.extraction.declare(program, policy, columns, &reach) {
            program.descend("policy", loss, &[(policy.arena(), self.optimizer)], self.window);
        }
    }

    /// What was learned, with the distance it was taken from.
    pub fn learned(
        &self,
        distance: &DistanceNet,
        temperature: f64,
        numbers: &dyn Fn(ArenaId) -> Vec<f32>,
    ) -> Learned {
        let policy = self.policy.as_ref();
        Learned {
            distance: DistanceShape { temperature, ..distance.shape.clone() },
            distance_parameters: numbers(distance.arena()),
            policy: policy.map(|policy| (self.shape.clone(), numbers(policy.arena()))),
        }
    }
}

/// How far a policy's start is from its goal.
struct PolicyReach<'a> {
    distance: &'a DistanceNet,
    columns: PolicyColumns,
    ends: Value,
}

impl PolicyReach<'_> {
    fn from<T: Scalar>(&self, program: &mut Program<T>, state: Value, action: Value) -> Value {
        let starts = self.distance.encode(program, state, action);
        self.distance.encoder.head.between(program, starts, self.ends)
    }
}

impl<T: Scalar> Reach<T> for PolicyReach<'_> {
    fn after(&self, program: &mut Program<T>, action: Value) -> Option<Value> {
        self.distance.with_action().then(|| self.from(program, self.columns.state, action))
    }

    fn stepping(&self, program: &mut Program<T>) -> (Value, Value) {
        let next = program.rows(Rows::Next);
        let next = program.column(Column::State(next));
        let here = self.from(program, self.columns.state, self.columns.action);
        (here, self.from(program, next, self.columns.action))
    }
}

/// Refuses a number that is not positive and finite.
pub(super) fn positive(key: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{value}`, expected a positive number"))
        .hint("`isochrone config` prints every key with its default"))
}
