//! The policy's pass, the last of an update; `extraction` says how it follows from a critic.

use super::Problem;
use super::choices::PolicyChoices;
use crate::data::sampler::{Offsets, RowsId};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Value, Window};
use crate::error::{Error, Result};
use crate::extraction::{Answers, Critique, Extraction};
use crate::nn::{ActorShape, Policy, PolicyShape};

/// A policy and how it is taken from a critic.
pub(super) struct PolicyPass {
    problem: Problem,
    shape: PolicyShape,
    policy: Option<Policy>,
    extraction: Extraction,
    optimizer: Adam,
    window: Window,
}

impl PolicyPass {
    /// Adds a policy, in the arena `policy`, where the extraction asks for one.
    ///
    /// # Errors
    /// Choices that do not fit each other, the critic or the data.
    pub fn new(
        parameters: &mut Parameters,
        choices: PolicyChoices<'_>,
        problem: Problem,
        critic: Answers,
    ) -> Result<Self> {
        let PolicyChoices { shape, extraction, optimizer, phases } = choices;
        phases.check()?;
        extraction.check(problem.action_size, critic)?;
        shape.check("algorithm.policy")?;
        optimizer.check("algorithm.policy_optimizer")?;
        let policy = (*extraction != Extraction::None).then(|| {
            let arena = parameters.arena("policy");
            Policy::new(parameters, arena, shape, problem.policy_sizes())
        });
        let (shape, extraction) = (shape.clone(), extraction.clone());
        let window = phases.policy(problem.steps);
        Ok(Self { problem, shape, policy, extraction, optimizer, window })
    }

    /// What the policy does in each state, without a gradient; for learners that [`need_policy`].
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
        if let Some(loss) = self.extraction.declare(program, policy, critique, (offsets, seen)) {
            program.descend("policy", loss, &[(policy.arena(), self.optimizer)], self.window);
        }
    }

    /// What was learned of the policy.
    pub fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Option<(ActorShape, Vec<f32>)> {
        let policy = self.policy.as_ref()?;
        Some((ActorShape::One(self.shape.clone()), numbers(policy.arena())))
    }
}

/// Refuses to learn without a policy where the critic's own target asks it for an action.
pub(super) fn need_policy(name: &str, extraction: &Extraction) -> Result<()> {
    if *extraction != Extraction::None {
        return Ok(());
    }
    Err(Error::input(format!("`{name}` asks its policy what comes next, extraction is `none`"))
        .hint("choose extraction `ddpg-bc` or `awr`"))
}
