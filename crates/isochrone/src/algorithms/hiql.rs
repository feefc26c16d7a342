//! HIQL: hierarchical implicit Q-learning.
//!
//! GCIVL's value on V(s, z), z = √n e / ‖e‖ with e = E([s; g]) in Rⁿ. Two policies by advantage-weighted
//! regression: π(a | s, z(s, w)) for w so many steps ahead, weighed by V(s', w) − V(s, w), and π(z | s, g),
//! whose target is z(s, w), weighed by V(w, g) − V(s, g). To act, the second names a waypoint, brought to
//! length √n, and the first goes there.
//!
//! Park et al. 2023. No gradient flows through z into the value from either policy.

use serde::{Deserialize, Serialize};

use super::values::{ValueColumns, expectile_loss, minus_value};
use super::{
    Adjustable, Algorithm, Phases, Problem, check_critics, counted, positive, share_between,
};
use crate::data::sampler::{Column, GoalMix, Layout, Offsets, Rows};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Value};
use crate::error::Result;
use crate::model::Learned;
use crate::nn::{
    Actor, ActorShape, Law, MeasureShape, Network, Policy, PolicyShape, Reading, Valued,
    ValuedShape,
};
use crate::ops::{AdvantageWeights, Standardize, Term};

/// The choices of HIQL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the value's goals come from.
    pub goals: GoalMix,
    /// Where the goals of the policy that names waypoints come from.
    pub policy_goals: GoalMix,
    /// The law of a future goal's offset from its start.
    pub offsets: Offsets,
    /// How many steps ahead a waypoint is.
    pub waypoint_steps: u32,
    /// Coordinates of a goal's representation.
    pub representation: usize,
    /// κ: how much more a value that is too low weighs.
    pub expectile: f64,
    /// β of both policies.
    pub inverse_temperature: f64,
    /// The share of the way that target networks follow after every update.
    pub follow_rate: f64,
    /// How many critics.
    pub critics: usize,
    /// The critics' networks and that of the representation.
    pub network: Network,
    /// How the critics descend.
    pub optimizer: Adam,
    /// Which updates train what.
    pub phases: Phases,
    /// Network of both policies, and the law of the one that acts.
    pub policy: PolicyShape,
    /// How the policies descend.
    pub policy_optimizer: Adam,
}

impl Adjustable for Config {
    fn phases_mut(&mut self) -> Option<&mut Phases> {
        Some(&mut self.phases)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            goals: GoalMix::VALUES,
            policy_goals: GoalMix::default(),
            offsets: Offsets::default(),
            waypoint_steps: 25,
            representation: 10,
            expectile: 0.7,
            inverse_temperature: 3.0,
            follow_rate: 0.005,
            critics: 2,
            network: Network::default(),
            optimizer: Adam::default(),
            phases: Phases::default(),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// HIQL with its parameters.
pub struct Hiql {
    config: Config,
    problem: Problem,
    shape: ValuedShape,
    value: Valued,
    target: Valued,
    actor_shape: ActorShape,
    actor: ArenaId,
    high: Policy,
    low: Policy,
}

impl Hiql {
    /// Initializes the critics, their targets and both policies.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        problem.need_actions("hiql")?;
        config.check()?;
        let shape = ValuedShape {
            network: config.network.clone(),
            state_values: config.critics,
            action_values: 0,
            representation: Some(config.representation),
            reading: Reading::Steps { discount: problem.discount },
        };
        let (value, target) = (parameters.arena("value"), parameters.arena("target"));
        let value = Valued::new(parameters, value, &shape, problem.critic_sizes());
        let target = Valued::new(parameters, target, &shape, problem.critic_sizes());
        let law = Law::Constant { deviation: 1.0 };
        let actor_shape = ActorShape::Two {
            high: PolicyShape { law, ..config.policy.clone() },
            low: config.policy.clone(),
            representation: config.representation,
        };
        let arena = parameters.arena("policy");
        let actor = Actor::new(
            parameters,
            arena,
            &actor_shape,
            (problem.state_size, problem.goal_size, problem.action_size),
        );
        let Actor::Two(high, low, _) = actor else { unreachable!("an actor of two levels") };
        let config = config.clone();
        Ok(Self { config, problem, shape, value, target, actor_shape, actor: arena, high, low })
    }

    /// How recorded steps are weighed.
    fn weights(&self) -> AdvantageWeights {
        let inverse_temperature = self.config.inverse_temperature;
        AdvantageWeights {
            inverse_temperature,
            standardize: Standardize::None,
            limit: f64::INFINITY,
        }
    }

    /// The policy that acts: the recorded action, on the way to a waypoint.
    fn low<T: Scalar>(&self, program: &mut Program<T>) -> Value {
        let next = program.rows(Rows::Next);
        let waypoint = program.rows(Rows::Ahead(self.config.waypoint_steps, None));
        let [state, next] = [Layout::START, next].map(|rows| program.column(Column::State(rows)));
        let waypoint = program.column(self.value.shown(waypoint));
        let action = program.column(Column::Action(Layout::START));
        let named = self.value.goal(program, state, waypoint).stop();
        let statistics = self.low.statistics(program, state, named);
        let log_likelihood = self.low.log_likelihood(program, statistics, action);
        let here = minus_value(program, &self.value, state, waypoint);
        let there = minus_value(program, &self.value, next, waypoint);
        program.advantage_regression(log_likelihood, here, there, self.weights())
    }

    /// The policy that names waypoints: where the recording was some steps later.
    fn high<T: Scalar>(&self, program: &mut Program<T>) -> Value {
        let config = &self.config;
        let goal = program.rows(Rows::Mixed(config.policy_goals, config.offsets));
        let waypoint = program.rows(Rows::Ahead(config.waypoint_steps, Some(goal)));
        let asked = program.column(self.problem.policy_goal(goal));
        let [state, there] =
            [Layout::START, waypoint].map(|rows| program.column(Column::State(rows)));
        let [waypoint, goal] = [waypoint, goal].map(|rows| program.column(self.value.shown(rows)));
        let named = self.value.goal(program, state, waypoint).stop();
        let statistics = self.high.statistics(program, state, asked);
        let log_likelihood = self.high.log_likelihood(program, statistics, named);
        let here = minus_value(program, &self.value, state, goal);
        let there = minus_value(program, &self.value, there, goal);
        program.advantage_regression(log_likelihood, here, there, self.weights())
    }
}

impl Config {
    fn check(&self) -> Result<()> {
        self.optimizer.check("algorithm.optimizer")?;
        self.policy_optimizer.check("algorithm.policy_optimizer")?;
        self.network.check("algorithm.network")?;
        self.policy.check("algorithm.policy")?;
        self.phases.check()?;
        self.goals.check("algorithm.goals")?;
        self.policy_goals.check("algorithm.policy_goals")?;
        share_between("algorithm.expectile", self.expectile)?;
        share_between("algorithm.follow_rate", self.follow_rate)?;
        positive("algorithm.inverse_temperature", self.inverse_temperature)?;
        check_critics(self.critics)?;
        counted("algorithm.representation", self.representation)?;
        counted("algorithm.waypoint_steps", self.waypoint_steps as usize)
    }
}

impl Algorithm for Hiql {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let goal = program.rows(Rows::Mixed(config.goals, config.offsets));
        let columns = ValueColumns::declare(program, &self.value, goal);
        let loss = expectile_loss(
            program,
            (&self.value, &self.target),
            columns,
            (self.problem.discount, config.expectile),
        );
        let arenas = [(self.value.arena(), config.optimizer)];
        program.descend("critic", loss, &arenas, config.phases.critic(self.problem.steps));
        program.follow(self.target.arena(), self.value.arena(), config.follow_rate);

        let low = self.low(program);
        let high = self.high(program);
        program.report("training/policy/low", low);
        program.report("training/policy/high", high);
        let loss = program.combine(&[Term::new(1.0, low), Term::new(1.0, high)]);
        let arenas = [(self.actor, config.policy_optimizer)];
        program.descend("policy", loss, &arenas, config.phases.policy(self.problem.steps));
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        let shape = MeasureShape::Valued(self.shape.clone());
        Learned {
            distance: Some((shape, numbers(self.value.arena()))),
            policy: Some((self.actor_shape.clone(), numbers(self.actor))),
        }
    }
}
