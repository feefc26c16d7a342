//! GCBC: goal-conditioned behavioural cloning.
//!
//! Maximizes log π(a | s, g) of the recorded action for goals of the start's own future. No distance
//! is learned.
//!
//! Ghosh et al. 2021, with goals by the discounted law that the other learners use.

use serde::{Deserialize, Serialize};

use super::{Adjustable, Algorithm, Problem};
use crate::data::sampler::{Column, GoalMix, Layout, Offsets, Rows};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Window};
use crate::error::Result;
use crate::model::Learned;
use crate::nn::{ActorShape, Policy, PolicyShape};
use crate::ops::{Scale, Term};

/// The choices of GCBC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where goals come from.
    pub goals: GoalMix,
    /// The law of a goal's offset from its start.
    pub offsets: Offsets,
    /// The policy's network and law.
    pub policy: PolicyShape,
    /// How the policy descends.
    pub policy_optimizer: Adam,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            goals: GoalMix { current: 0.0, future: 1.0, trajectory: 0.0, random: 0.0 },
            offsets: Offsets::default(),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

impl Adjustable for Config {}

/// GCBC with its parameters.
pub struct Gcbc {
    config: Config,
    problem: Problem,
    policy: Policy,
}

impl Gcbc {
    /// Initializes the policy.
    ///
    /// # Errors
    /// Choices that do not fit the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        problem.need_actions("gcbc")?;
        config.goals.check("algorithm.goals")?;
        config.policy.check("algorithm.policy")?;
        config.policy_optimizer.check("algorithm.policy_optimizer")?;
        let arena = parameters.arena("policy");
        let policy = Policy::new(parameters, arena, &config.policy, problem.policy_sizes());
        Ok(Self { config: config.clone(), problem, policy })
    }
}

impl Algorithm for Gcbc {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let Config { goals, offsets, .. } = self.config;
        let goal = program.rows(match goals {
            GoalMix { future: 1.0, .. } => Rows::Future(offsets),
            mixed => Rows::Mixed(mixed, offsets),
        });
        let state = program.column(Column::State(Layout::START));
        let action = program.column(Column::Action(Layout::START));
        let goal = program.column(self.problem.policy_goal(goal));
        let statistics = self.policy.statistics(program, state, goal);
        let log_likelihood = self.policy.log_likelihood(program, statistics, action);
        let mean = program.mean(log_likelihood, Scale::Unit);
        program.report("training/policy/log_likelihood", mean);
        let loss = program.combine(&[Term::new(-1.0, mean)]);
        let arena = (self.policy.arena(), self.config.policy_optimizer);
        program.descend("policy", loss, &[arena], Window { from: 0, until: self.problem.steps });
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        let shape = ActorShape::One(self.config.policy.clone());
        Learned { distance: None, policy: Some((shape, numbers(self.policy.arena()))) }
    }
}
