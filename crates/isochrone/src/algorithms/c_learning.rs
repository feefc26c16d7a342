//! C-learning: a classifier of future states, taught by itself.
//!
//! f(s, a, g) is the logit of how much likelier g is in the future of (s, a) than at random:
//! (1−γ) BCE(f(s, a, s'), 1) + γ w BCE(f(s, a, g), 1) + BCE(f(s, a, g), 0), g random, w = e^{f̄(s', π(s', g), g)} held
//! to at most 20. Of several critics the least counts, in f̄ and for the policy, which descends −f.
//!
//! Eysenbach et al. 2021, off-policy form.

use serde::{Deserialize, Serialize};

use super::policy::{PolicyPass, need_policy};
use super::{Algorithm, Phases, Problem, check_critics, share_between};
use crate::data::sampler::{Column, Layout, Offsets, Rows};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar};
use crate::error::Result;
use crate::extraction::{Answers, DdpgBc, Extraction};
use crate::model::Learned;
use crate::nn::{MeasureShape, Network, PolicyShape, Reading, Valued, ValuedShape};
use crate::ops::{Extremum, Term};

/// The choices of C-learning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The law of a policy goal's offset from its start.
    pub offsets: Offsets,
    /// The share of the way that the target network follows after every update.
    pub follow_rate: f64,
    /// How many critics; the least is believed.
    pub critics: usize,
    /// The classifier's network.
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
            offsets: Offsets::default(),
            follow_rate: 0.005,
            critics: 1,
            network: Network::default(),
            optimizer: Adam::default(),
            phases: Phases::default(),
            extraction: Extraction::DdpgBc(DdpgBc::default()),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// C-learning with its parameters.
pub struct CLearning {
    config: Config,
    steps: u64,
    discount: f64,
    shape: ValuedShape,
    critic: Valued,
    target: Valued,
    policy: PolicyPass,
}

impl CLearning {
    /// Initializes the classifier, its target and the policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        problem.need_actions("c-learning")?;
        need_policy("c-learning", &config.extraction)?;
        config.optimizer.check("algorithm.optimizer")?;
        config.network.check("algorithm.network")?;
        share_between("algorithm.follow_rate", config.follow_rate)?;
        check_critics(config.critics)?;
        let Problem { steps, discount, .. } = problem;
        let shape = ValuedShape {
            network: config.network.clone(),
            state_values: 0,
            action_values: config.critics,
            representation: None,
            reading: Reading::Logit,
        };
        let (critic, target) = (parameters.arena("critic"), parameters.arena("target"));
        let critic = Valued::new(parameters, critic, &shape, problem.critic_sizes());
        let target = Valued::new(parameters, target, &shape, problem.critic_sizes());
        let answers = Answers::either(true);
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, answers)?;
        Ok(Self { config: config.clone(), steps, discount, shape, critic, target, policy })
    }
}

impl Algorithm for CLearning {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let next = program.rows(Rows::Next);
        let random = program.rows(Rows::Random);
        let [reached, goal] = [next, random].map(|rows| program.column(self.critic.shown(rows)));
        let [state, next] = [Layout::START, next].map(|rows| program.column(Column::State(rows)));
        let action = program.column(Column::Action(Layout::START));

        let at_next = self.critic.of_action(program, state, action, reached);
        let at_goal = self.critic.of_action(program, state, action, goal);
        let ahead = self.policy.acting(program, next, random);
        let ahead = self.target.of_action(program, next, ahead, goal);
        let ahead = program.extremum_of(Extremum::Least, &ahead);
        let losses: Vec<Term> = at_next
            .into_iter()
            .zip(at_goal)
            .map(|(next, goal)| program.recursive_classification(next, goal, ahead, self.discount))
            .map(|loss| Term::new(1.0, loss))
            .collect();
        let loss = program.combine(&losses);
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
