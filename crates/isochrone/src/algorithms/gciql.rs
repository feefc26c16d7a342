//! GCIQL: goal-conditioned implicit Q-learning.
//!
//! V(s, g) is an upper expectile of min_k Q̄_k(s, a, g) over recorded actions, Q_k(s, a, g) the backup of V:
//! ℓ_κ(min_k Q̄_k − V) + Σ_k (r + γ m V(s', g) − Q_k)², where r and m are 0 at the goal's own row and −1 and 1
//! elsewhere. The policy descends −min_k Q_k.
//!
//! Kostrikov et al. 2022 with goals as in Park et al. 2025 (OGBench); the paper's own column quotes
//! single-task IQL.

use serde::{Deserialize, Serialize};

use super::policy::PolicyPass;
use super::values::ValueColumns;
use super::{Algorithm, Phases, Problem, check_critics, share_between};
use crate::data::sampler::{Column, GoalMix, Layout, Offsets, Rows, RowsId};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Value};
use crate::error::Result;
use crate::extraction::{Answers, Critique, DdpgBc, Extraction};
use crate::model::Learned;
use crate::nn::{MeasureShape, Network, PolicyShape, Reading, Valued, ValuedShape};
use crate::ops::{Bootstrap, Extremum, Term};

/// The choices of GCIQL.
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
    /// How many critics of actions.
    pub critics: usize,
    /// Every network of a value.
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
            extraction: Extraction::DdpgBc(DdpgBc::default()),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// GCIQL with its parameters.
pub struct Gciql {
    config: Config,
    steps: u64,
    discount: f64,
    shape: ValuedShape,
    value: Valued,
    critic: Valued,
    target: Valued,
    policy: PolicyPass,
}

impl Gciql {
    /// Initializes the value, the critics, their targets and the policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        problem.need_actions("gciql")?;
        config.optimizer.check("algorithm.optimizer")?;
        config.network.check("algorithm.network")?;
        config.goals.check("algorithm.goals")?;
        share_between("algorithm.expectile", config.expectile)?;
        share_between("algorithm.follow_rate", config.follow_rate)?;
        check_critics(config.critics)?;
        let Problem { steps, discount, .. } = problem;
        let shape = ValuedShape {
            network: config.network.clone(),
            state_values: 1,
            action_values: config.critics,
            representation: None,
            reading: Reading::Steps { discount },
        };
        let of_states = ValuedShape { action_values: 0, ..shape.clone() };
        let of_actions = ValuedShape { state_values: 0, ..shape.clone() };
        let mut add = |name: &str, shape: &ValuedShape| {
            let arena = parameters.arena(name);
            Valued::new(parameters, arena, shape, problem.critic_sizes())
        };
        let value = add("value", &of_states);
        let critic = add("critic", &of_actions);
        let target = add("target", &of_actions);
        let answers = Answers { value: true, ..Answers::either(true) };
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, answers)?;
        let config = config.clone();
        Ok(Self { config, steps, discount, shape, value, critic, target, policy })
    }
}

impl Algorithm for Gciql {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let goal = program.rows(Rows::Mixed(config.goals, config.offsets));
        let ValueColumns { state, next, goal, reached } =
            ValueColumns::declare(program, &self.critic, goal);
        let action = program.column(Column::Action(Layout::START));

        // V to an upper expectile of the least Q̄.
        let held = self.target.of_action(program, state, action, goal);
        let held = program.extremum_of(Extremum::Least, &held);
        let value = self.value.of_state(program, state, goal)[0];
        let advantage = program.weighted_sum(&[(1.0, held), (-1.0, value)]);
        let value = program.expectile(value, held, advantage, config.expectile);

        // Q to the backup of V.
        let ahead = self.value.of_state(program, next, goal)[0];
        let form = Bootstrap { discount: self.discount, held: false };
        let backed_up = program.bootstrap(form, ahead, reached);
        let critics = self.critic.of_action(program, state, action, goal);
        let errors = critics.into_iter().map(|q| program.squared_error(q, backed_up));
        let errors: Vec<Term> = errors.map(|error| Term::new(1.0, error)).collect();
        let errors = program.combine(&errors);

        let loss = program.combine(&[Term::new(1.0, value), Term::new(1.0, errors)]);
        program.report("training/critic/value", value);
        program.report("training/critic/backup", errors);
        let arenas = [&self.value, &self.critic].map(|of| (of.arena(), config.optimizer));
        program.descend("critic", loss, &arenas, config.phases.critic(self.steps));
        program.follow(self.target.arena(), self.critic.arena(), config.follow_rate);
        self.policy.declare(program, self, config.offsets);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        let shape = MeasureShape::Valued(self.shape.clone());
        let both = [self.value.arena(), self.critic.arena()].map(numbers).concat();
        Learned { distance: Some((shape, both)), policy: self.policy.learned(numbers) }
    }
}

impl Critique for Gciql {
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value> {
        self.critic.after(program, state, action, goal)
    }

    fn value<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        self.value.from(program, state, goal)
    }
}
