//! Atlas: distances solved in the data's own decision process, drawn as one map.
//!
//! A teacher ([`crate::teacher`]) covers recorded states with landmarks and solves
//! t(u, g) = −ln max E γ^H between them exactly, over recorded kinds of actions, with chance priced.
//! A quasimetric of states d(z(s), z(g)) is fitted to it on recorded rows, mean w(t) |d − t|, and pairs
//! without a way are pushed beyond a bound. The map has the triangle inequality, a slope within each
//! landmark, and an answer for states that are none. A policy is taken from it by AWR on
//! d(s, g) − d(s', g), s' one row later or several, or by DDPG+BC through latent dynamics, as QRL has them.
//!
//! Ours; there is no paper to compare with.

use serde::{Deserialize, Serialize};

use super::policy::PolicyPass;
use super::{Algorithm, Phases, Problem, positive};
use crate::data::sampler::{Column, Layout, Offsets, Rows, RowsId};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Schedule, Value};
use crate::error::{Error, Result};
use crate::extraction::{Answers, Awr, Critique, Extraction};
use crate::model::Learned;
use crate::nn::{HeadShape, MeasureShape, Network, PolicyShape, Stepped, SteppedShape};
use crate::ops::{Fit, Norm, Scale, Term};
use crate::teacher;

/// The choices of Atlas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How the data's own decision process is made and solved.
    pub teacher: teacher::Settings,
    /// p in the weight (1 + t)^−p of a pair t steps apart: 0 fits absolute errors, 1 relative ones.
    pub relative: f64,
    /// The law of a policy goal's offset from its start.
    pub offsets: Offsets,
    /// The weight of the dynamics' loss, where the policy needs dynamics.
    pub dynamics_weight: f64,
    /// The encoder and the dynamics.
    pub network: Network,
    /// The quasimetric head.
    pub head: HeadShape,
    /// How encoder and dynamics descend.
    pub optimizer: Adam,
    /// Which updates train what.
    pub phases: Phases,
    /// How a policy is taken from the distance.
    pub extraction: Extraction,
    /// The policy's network and law.
    pub policy: PolicyShape,
    /// How the policy descends.
    pub policy_optimizer: Adam,
}

super::extracted!(Config);

impl Default for Config {
    /// Settings that were best on both pinwheels together, with seed 0.
    fn default() -> Self {
        let wide = Network { hidden: vec![256; 3], ..Network::default() };
        Self {
            teacher: teacher::Settings::default(),
            relative: 0.5,
            offsets: Offsets::default(),
            dynamics_weight: 1.0,
            network: Network { norm: Norm::Layer, ..wide.clone() },
            head: HeadShape::Iqe { latent: 256, group: 8 },
            optimizer: Adam { learning_rate: 1e-3, schedule: Schedule::Cosine, ..Adam::default() },
            phases: Phases { critic_until: 0.5, policy_from: 0.5 },
            // A step into a dead end loses a hundred steps, a good one gains one.
            extraction: Extraction::Awr(Awr { limit: Some(2.0), ..Awr::default() }),
            policy: PolicyShape { network: wide, ..PolicyShape::default() },
            policy_optimizer: Adam {
                learning_rate: 1e-3,
                schedule: Schedule::Tail,
                ..Adam::default()
            },
        }
    }
}

/// Atlas with its parameters.
pub struct Atlas {
    config: Config,
    problem: Problem,
    shape: SteppedShape,
    distance: Stepped,
    policy: PolicyPass,
}

impl Atlas {
    /// Initializes encoder, dynamics and policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        problem.need_whole_goals("atlas")?;
        config.optimizer.check("algorithm.optimizer")?;
        config.network.check("algorithm.network")?;
        config.head.check()?;
        config.teacher.check()?;
        positive("algorithm.dynamics_weight", config.dynamics_weight)?;
        if !(0.0..=1.0).contains(&config.relative) {
            return Err(Error::input(format!(
                "`algorithm.relative` is `{}`, expected 0 to 1",
                config.relative
            ))
            .hint("0 fits absolute errors, 1 relative ones"));
        }
        let descends = matches!(config.extraction, Extraction::DdpgBc(_));
        let with_action = descends && problem.action_size > 0;
        let shape = SteppedShape {
            network: config.network.clone(),
            projector: None,
            head: config.head,
            dynamics: with_action.then(|| config.network.clone()),
            nats: 1.0,
        };
        let arena = parameters.arena("distance");
        let distance = Stepped::new(parameters, arena, &shape, problem.sizes());
        let answers = Answers { after: with_action, from: true, value: false };
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, answers)?;
        Ok(Self { config: config.clone(), problem, shape, distance, policy })
    }

    /// ½ mean (d(ẑ', z') + d(z', ẑ')); `None` if the policy needs no dynamics.
    fn dynamics<T: Scalar>(&self, program: &mut Program<T>, here: Value) -> Option<Value> {
        self.shape.dynamics.as_ref()?;
        let next = program.rows(Rows::Next);
        let next = program.column(Column::State(next));
        let next = self.distance.encode(program, next);
        let action = program.column(Column::Action(Layout::START));
        self.distance.prediction_error(program, here, action, next, |program, distance| {
            program.mean(distance, Scale::Unit)
        })
    }

    /// The steps to the goal, at most to the farthest: how far beyond reach a goal is says nothing about
    /// the way there.
    fn far<T: Scalar>(&self, program: &mut Program<T>, here: Value, goal: RowsId) -> Value {
        let goal = program.column(Column::State(goal));
        let goal = self.distance.encode(program, goal);
        let distance = self.distance.between(program, here, goal);
        let farthest = self.problem.farthest.expect("a teacher");
        let share = program.weighted_sum(&[(1.0 / farthest, distance)]);
        let share = program.clip(share);
        program.weighted_sum(&[(farthest / (1.0 / self.problem.discount).ln(), share)])
    }
}

impl Algorithm for Atlas {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let window = config.phases.critic(self.problem.steps);
        let goal = program.rows(Rows::Taught);
        let lesson = program.column(Column::Lesson(Layout::START, goal));
        let [here, there] = [Layout::START, goal].map(|rows| {
            let state = program.column(Column::State(rows));
            self.distance.encode(program, state)
        });

        // Fit the map to what the teacher says.
        let distance = self.distance.between(program, here, there);
        let fit = Fit { power: config.relative, unit: (1.0 / self.problem.discount).ln() };
        let error = program.fit(fit, distance, lesson);
        let mut terms = vec![Term::new(1.0, error)];
        if let Some(dynamics) = self.dynamics(program, here) {
            terms.push(Term::new(config.dynamics_weight, dynamics));
            program.report("training/critic/dynamics", dynamics);
        }
        let loss = program.combine(&terms);
        program.descend("critic", loss, &[(self.distance.arena(), config.optimizer)], window);
        program.report("training/critic/error", error);

        self.policy.declare(program, self, config.offsets);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        let shape = MeasureShape::Stepped(self.shape.clone());
        Learned {
            distance: Some((shape, numbers(self.distance.arena()))),
            policy: self.policy.learned(numbers),
        }
    }
}

impl Critique for Atlas {
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value> {
        let here = self.distance.encode(program, state);
        let there = self.distance.step(program, here, action)?;
        Some(self.far(program, there, goal))
    }

    fn from<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        let here = self.distance.encode(program, state);
        Some(self.far(program, here, goal))
    }
}
