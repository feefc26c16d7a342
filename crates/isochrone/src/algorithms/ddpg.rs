//! DDPG with hindsight goals.
//!
//! Twin critics Q_k(s, a, g) of −1 per step until the goal is reached: y = r + γ (1 − reached) min_k Q̄_k(s', π(s', g), g)
//! held to [−1/(1−γ), 0], Σ_k (y − Q_k)². In a world a goal is reached within the world's radius, which is
//! knowledge that contrastive learners are not given; in files where the goal's row is the next one.
//!
//! Lillicrap et al. 2016, Andrychowicz et al. 2017, twin critics as in Fujimoto et al. 2018. The action
//! after the next state is the current policy's.

use serde::{Deserialize, Serialize};

use super::policy::{PolicyPass, need_policy};
use super::{Algorithm, Phases, Problem, check_critics, positive, share_between};
use crate::data::sampler::{Column, GoalMix, Layout, Offsets, Rows};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar};
use crate::error::Result;
use crate::extraction::{Answers, DdpgBc, Extraction};
use crate::model::Learned;
use crate::nn::{MeasureShape, Network, PolicyShape, Reading, Valued, ValuedShape};
use crate::ops::{Bootstrap, Extremum, Term};

/// The choices of DDPG.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the value's goals come from.
    pub goals: GoalMix,
    /// The law of a future goal's offset from its start.
    pub offsets: Offsets,
    /// How near a goal counts as reached; left out, the world's own, and the same row in files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radius: Option<f64>,
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
            radius: None,
            follow_rate: 0.005,
            critics: 2,
            network: Network::default(),
            optimizer: Adam::default(),
            phases: Phases::default(),
            extraction: Extraction::DdpgBc(DdpgBc::default()),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// DDPG with its parameters.
pub struct Ddpg {
    config: Config,
    steps: u64,
    discount: f64,
    radius: Option<f32>,
    shape: ValuedShape,
    critic: Valued,
    target: Valued,
    policy: PolicyPass,
}

impl Ddpg {
    /// Initializes the critics, their targets and the policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        problem.need_actions("ddpg")?;
        need_policy("ddpg", &config.extraction)?;
        config.optimizer.check("algorithm.optimizer")?;
        config.network.check("algorithm.network")?;
        config.goals.check("algorithm.goals")?;
        share_between("algorithm.follow_rate", config.follow_rate)?;
        check_critics(config.critics)?;
        config.radius.map_or(Ok(()), |radius| positive("algorithm.radius", radius))?;
        let Problem { steps, discount, .. } = problem;
        let shape = ValuedShape {
            network: config.network.clone(),
            state_values: 0,
            action_values: config.critics,
            representation: None,
            reading: Reading::Steps { discount },
        };
        let (critic, target) = (parameters.arena("critic"), parameters.arena("target"));
        let critic = Valued::new(parameters, critic, &shape, problem.critic_sizes());
        let target = Valued::new(parameters, target, &shape, problem.critic_sizes());
        let answers = Answers::either(true);
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, answers)?;
        let radius = config.radius.or(problem.radius).map(|radius| radius as f32);
        let config = config.clone();
        Ok(Self { config, steps, discount, radius, shape, critic, target, policy })
    }
}

impl Algorithm for Ddpg {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let goal_rows = program.rows(Rows::Mixed(config.goals, config.offsets));
        let next_rows = program.rows(Rows::Next);
        let [state, next] =
            [Layout::START, next_rows].map(|rows| program.column(Column::State(rows)));
        let goal = program.column(self.critic.shown(goal_rows));
        let action = program.column(Column::Action(Layout::START));
        let reached = program.column(Column::Reached(next_rows, goal_rows, self.radius));

        // y = r + γ (1 − reached) min Q̄(s', π(s', g), g), held to what a value can be.
        let ahead = self.policy.acting(program, next, goal_rows);
        let ahead = self.target.of_action(program, next, ahead, goal);
        let ahead = program.extremum_of(Extremum::Least, &ahead);
        let form = Bootstrap { discount: self.discount, held: true };
        let target = program.bootstrap(form, ahead, reached);
        let critics = self.critic.of_action(program, state, action, goal);
        let errors = critics.into_iter().map(|q| program.squared_error(q, target));
        let errors: Vec<Term> = errors.map(|error| Term::new(1.0, error)).collect();
        let loss = program.combine(&errors);
        let arenas = [(self.critic.arena(), config.optimizer)];
        program.descend("critic", loss, &arenas, config.phases.critic(self.steps));
        program.follow(self.target.arena(), self.critic.arena(), config.follow_rate);
        self.policy.declare(program, &self.critic, config.offsets);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        let shape = MeasureShape::Valued(self.shape.clone());
        Learned {
            distance: Some((shape, numbers(self.critic.arena()))),
            policy: self.policy.learned(numbers),
        }
    }
}
