//! What learners share of a policy: its pass, the last of an update, and how far a start is from its
//! goal as each learner's critic says.

use super::Problem;
use crate::data::sampler::{Column, Offsets, Rows, RowsId};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Value, Window};
use crate::error::Result;
use crate::extraction::{Extraction, PolicyColumns, Reach};
use crate::nn::{ActorShape, Policy, PolicyShape};

/// A critic that a policy can be taken from: distances, or anything that falls as a goal comes near.
pub(super) trait Critique {
    /// From each (state, action) to its goal; none where the critic sees no actions.
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value>;

    /// From each state to its goal; asked only where [`Critique::after`] gives none.
    fn from<T: Scalar>(&self, program: &mut Program<T>, state: Value, goal: RowsId) -> Value;
}

/// The choices of a policy, as a learner's config has them.
pub(super) type PolicyChoices<'a> = (&'a PolicyShape, &'a Extraction, Adam);

/// The last pass of an update: a policy taken from a critic.
pub(super) struct PolicyNet {
    problem: Problem,
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
        (shape, extraction, optimizer): PolicyChoices<'_>,
        problem: Problem,
        with_action: bool,
        window: Window,
    ) -> Result<Self> {
        extraction.check(problem.action_size, !with_action)?;
        shape.check("algorithm.policy")?;
        optimizer.check("algorithm.policy_optimizer")?;
        let policy = (*extraction != Extraction::None).then(|| {
            let arena = parameters.arena("policy");
            Policy::new(parameters, arena, shape, problem.policy_sizes())
        });
        let (shape, extraction) = (shape.clone(), extraction.clone());
        Ok(Self { problem, shape, policy, extraction, optimizer, window })
    }

    /// What the policy does in each state, held; learners that ask have made sure there is one.
    pub fn acting<T: Scalar>(&self, program: &mut Program<T>, state: Value, goal: RowsId) -> Value {
        let goal = program.column(self.problem.policy_goal(goal));
        let policy = self.policy.as_ref().expect("a policy, as the learner checked");
        let statistics = policy.statistics(program, state, goal);
        policy.action(program, statistics).stop()
    }

    /// Declares the pass: through the critic but not into it.
    pub fn declare<T: Scalar>(
        &self,
        program: &mut Program<T>,
        critique: &impl Critique,
        offsets: Offsets,
    ) {
        let Some(policy) = &self.policy else { return };
        let seen = |goal: RowsId| self.problem.policy_goal(goal);
        let columns = self.extraction.columns(program, offsets, seen);
        let goals = program.rows(Rows::Mixed(self.extraction.goals(), offsets));
        let reach = PolicyReach { critique, columns, goals };
        if let Some(loss) = self.extraction.declare(program, policy, columns, &reach) {
            program.descend("policy", loss, &[(policy.arena(), self.optimizer)], self.window);
        }
    }

    /// What was learned of the policy.
    pub fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Option<(ActorShape, Vec<f32>)> {
        let policy = self.policy.as_ref()?;
        Some((ActorShape::One(self.shape.clone()), numbers(policy.arena())))
    }
}

/// How far a policy's start is from its goal.
struct PolicyReach<'a, C> {
    critique: &'a C,
    columns: PolicyColumns,
    goals: RowsId,
}

impl<T: Scalar, C: Critique> Reach<T> for PolicyReach<'_, C> {
    fn after(&self, program: &mut Program<T>, action: Value) -> Option<Value> {
        self.critique.after(program, self.columns.state, action, self.goals)
    }

    fn stepping(&self, program: &mut Program<T>) -> (Value, Value) {
        let next = program.rows(Rows::Next);
        let next = program.column(Column::State(next));
        let here = self.critique.from(program, self.columns.state, self.goals);
        (here, self.critique.from(program, next, self.goals))
    }
}
