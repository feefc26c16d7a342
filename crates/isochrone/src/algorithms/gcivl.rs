//! GCIVL: goal-conditioned implicit value learning.
//!
//! V(s, g) of −1 per step by an upper expectile of its own backups:
//! Σ_k ℓ_κ(r + γ m V̄_k(s', g) − V_k(s, g); A), A = r + γ m min_k V̄_k(s', g) − mean_k V̄_k(s, g), where r and m
//! are 0 at the goal's own row and −1 and 1 elsewhere. It takes the best of what followed a state, so
//! it is too hopeful where luck decides. The policy weighs actions by V(s', g) − V(s, g).
//!
//! Park et al. 2025 (OGBench), after Kostrikov et al. 2022.

use serde::{Deserialize, Serialize};

use super::policy::PolicyPass;
use super::values::{ValueColumns, expectile_loss};
use super::{Algorithm, Phases, Problem, check_critics, share_between};
use crate::data::sampler::{GoalMix, Offsets, Rows};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar};
use crate::error::Result;
use crate::extraction::{Answers, Awr, Extraction};
use crate::model::Learned;
use crate::nn::{MeasureShape, Network, PolicyShape, Reading, Valued, ValuedShape};
use crate::ops::Standardize;

/// The choices of GCIVL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the value's goals come from.
    pub goals: GoalMix,
    /// The law of a future goal's offset from its start.
    pub offsets: Offsets,
    /// κ: how much more a value that is too low weighs.
    pub expectile: f64,
    /// The share of the way that target networks follow after every update.
    pub follow_rate: f64,
    /// How many critics.
    pub critics: usize,
    /// The critics' networks.
    pub network: Network,
    /// How the critics descend.
    pub optimizer: Adam,
    /// Which updates train what.
    pub phases: Phases,
    /// How a policy is taken from the value.
    pub extraction: Extraction,
    /// The policy's network and law.
    pub policy: PolicyShape,
    /// How the policy descends.
    pub policy_optimizer: Adam,
}

super::extracted!(Config);

impl Default for Config {
    fn default() -> Self {
        Self {
            goals: GoalMix::VALUES,
            offsets: Offsets::default(),
            expectile: 0.9,
            follow_rate: 0.005,
            critics: 2,
            network: Network::default(),
            optimizer: Adam::default(),
            phases: Phases::default(),
            extraction: Extraction::Awr(Awr {
                inverse_temperature: 10.0,
                standardize: Standardize::None,
                ..Awr::default()
            }),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// GCIVL with its parameters.
pub struct Gcivl {
    config: Config,
    steps: u64,
    discount: f64,
    shape: ValuedShape,
    value: Valued,
    target: Valued,
    policy: PolicyPass,
}

impl Gcivl {
    /// Initializes the critics, their targets and the policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        config.optimizer.check("algorithm.optimizer")?;
        config.network.check("algorithm.network")?;
        config.goals.check("algorithm.goals")?;
        share_between("algorithm.expectile", config.expectile)?;
        share_between("algorithm.follow_rate", config.follow_rate)?;
        check_critics(config.critics)?;
        let Problem { steps, discount, .. } = problem;
        let shape = ValuedShape {
            network: config.network.clone(),
            state_values: config.critics,
            action_values: 0,
            representation: None,
            reading: Reading::Steps { discount },
        };
        let (value, target) = (parameters.arena("value"), parameters.arena("target"));
        let value = Valued::new(parameters, value, &shape, problem.critic_sizes());
        let target = Valued::new(parameters, target, &shape, problem.critic_sizes());
        let answers = Answers::either(false);
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, answers)?;
        Ok(Self { config: config.clone(), steps, discount, shape, value, target, policy })
    }
}

impl Algorithm for Gcivl {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let goal = program.rows(Rows::Mixed(config.goals, config.offsets));
        let columns = ValueColumns::declare(program, &self.value, goal);
        let loss = expectile_loss(
            program,
            (&self.value, &self.target),
            columns,
            (self.discount, config.expectile),
        );
        let arenas = [(self.value.arena(), config.optimizer)];
        program.descend("critic", loss, &arenas, config.phases.critic(self.steps));
        program.follow(self.target.arena(), self.value.arena(), config.follow_rate);
        self.policy.declare(program, &self.value, config.offsets);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        let shape = MeasureShape::Valued(self.shape.clone());
        Learned {
            distance: Some((shape, numbers(self.value.arena()))),
            policy: self.policy.learned(numbers),
        }
    }
}
