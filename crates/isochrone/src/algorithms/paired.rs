//! What TMD and MQE share: critics of two encoders, φ(s, a) and ψ(s), under one quasimetric.

use super::{Critic, Problem, check_critics, positive};
use crate::data::sampler::{Column, Layout, RowsId};
use crate::engine::{ArenaId, Parameters, Program, Scalar, Value};
use crate::error::Result;
use crate::extraction::Critique;
use crate::nn::{HeadShape, MeasureShape, Network, Paired, PairedShape};

/// Critics whose largest distance counts.
pub(super) struct PairedNet {
    shape: PairedShape,
    pub critics: Paired,
}

/// The choices of paired critics, as a learner's config has them.
pub(super) struct PairedChoices<'a> {
    pub name: &'a str,
    pub critic: Critic,
    pub network: &'a Network,
    pub head: HeadShape,
    pub critics: usize,
    pub scale: Option<f64>,
}

impl PairedNet {
    /// Adds the critics, in the arena `distance`.
    pub fn new(
        parameters: &mut Parameters,
        choices: &PairedChoices<'_>,
        problem: Problem,
    ) -> Result<Self> {
        problem.need_whole_goals(choices.name)?;
        choices.head.check()?;
        choices.network.check("algorithm.network")?;
        check_critics(choices.critics)?;
        let scale = choices.scale.unwrap_or((choices.head.latent() as f64).sqrt());
        positive("algorithm.scale", scale)?;
        let with_action = choices.critic.with_action(problem.action_size);
        if with_action {
            problem.need_actions(choices.name)?;
        }
        let shape = PairedShape {
            network: choices.network.clone(),
            head: choices.head,
            critics: choices.critics,
            with_action,
            scale,
        };
        let arena = parameters.arena("distance");
        let critics = Paired::new(parameters, arena, &shape, problem.sizes());
        Ok(Self { shape, critics })
    }

    /// What distances are divided by.
    pub fn scale(&self) -> f64 {
        self.shape.scale
    }

    pub fn with_action(&self) -> bool {
        self.shape.with_action
    }

    pub fn arena(&self) -> ArenaId {
        self.critics.arena()
    }

    /// φ_k(s, a) of the batch's starts.
    pub fn starts<T: Scalar>(&self, program: &mut Program<T>, critic: usize) -> Value {
        let state = program.column(Column::State(Layout::START));
        let action =
            if self.with_action() { program.column(Column::Action(Layout::START)) } else { state };
        self.critics.start(program, critic, state, action)
    }

    /// ψ_k of the states of `rows`.
    pub fn states<T: Scalar>(
        &self,
        program: &mut Program<T>,
        critic: usize,
        rows: RowsId,
    ) -> Value {
        let state = program.column(Column::State(rows));
        self.critics.state(program, critic, state)
    }

    /// d_k(ψ(s), φ(s, a)), which the best action leaves at 0; none without actions.
    pub fn choosing<T: Scalar>(
        &self,
        program: &mut Program<T>,
        critic: usize,
        starts: Value,
    ) -> Option<Value> {
        self.with_action().then(|| {
            let states = self.states(program, critic, Layout::START);
            self.critics.between(program, critic, states, starts)
        })
    }

    pub fn learned(
        &self,
        numbers: &dyn Fn(ArenaId) -> Vec<f32>,
    ) -> Option<(MeasureShape, Vec<f32>)> {
        Some((MeasureShape::Paired(self.shape.clone()), numbers(self.arena())))
    }
}

impl Critique for PairedNet {
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value> {
        self.with_action().then(|| {
            let goal = program.column(Column::State(goal));
            self.critics.largest(program, goal, |program, critic| {
                self.critics.start(program, critic, state, action)
            })
        })
    }

    fn from<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        (!self.with_action()).then(|| {
            let goal = program.column(Column::State(goal));
            self.critics.largest(program, goal, |program, critic| {
                self.critics.state(program, critic, state)
            })
        })
    }
}
