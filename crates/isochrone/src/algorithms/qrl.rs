//! QRL: quasimetric reinforcement learning.
//!
//! A quasimetric over states, in steps: neighbours are held at one step, mean relu(d(s, s') − 1)² ≤ ε²
//! by a dual multiplier λ, and all else is pushed away, mean b · softplus(a − d(s, g) / b) on random
//! goals. Latent dynamics ẑ' = z + m(z, a) are learned beside it, ½ mean (d(ẑ', z') + d(z', ẑ')), and the
//! policy descends d(ẑ'(s, π), z(g)). Exact for deterministic worlds; a lucky step counts as a sure one.
//!
//! Wang et al. 2023, section 3 and algorithm 1.

use serde::{Deserialize, Serialize};

use super::policy::PolicyPass;
use super::{Algorithm, Phases, Problem, check_critics, numbered, positive};
use crate::data::sampler::{Column, Layout, Offsets, Rows, RowsId};
use crate::engine::{Adam, ArenaId, Initial, Parameter, Parameters, Program, Scalar, Value};
use crate::error::{Error, Result};
use crate::extraction::{Answers, Critique, Extraction, Farthest};
use crate::model::Learned;
use crate::nn::{HeadShape, MeasureShape, Network, PolicyShape, Projector, Stepped, SteppedShape};
use crate::ops::{Multiplier, Push, Scale, Term};

/// The choices of QRL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The law of a policy goal's offset from its start.
    pub offsets: Offsets,
    /// ε², the bound on how far neighbours may exceed one step, in steps².
    pub tolerance: f64,
    /// a: the push begins to fade at a · b steps.
    pub push_offset: f64,
    /// b, in steps.
    pub push_scale: f64,
    /// How the raw number becomes λ.
    pub multiplier: Multiplier,
    /// λ before the first update.
    pub first_multiplier: f64,
    /// The weight of the dynamics' loss.
    pub dynamics_weight: f64,
    /// How far a predicted latent state is from the one reached.
    pub dynamics_error: DynamicsError,
    /// How many distances, each with dynamics and a multiplier of its own: their mean is the distance,
    /// and the policy believes the one that says farthest.
    pub critics: usize,
    /// What AWR compares.
    pub advantage: Advantage,
    /// The encoder and the dynamics.
    pub network: Network,
    /// The network between latent states and the head; the authors' code has 128 latent values and one
    /// layer of 512. Left out, the head sees latent states as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub projector: Option<Projector>,
    /// The quasimetric head.
    pub head: HeadShape,
    /// How encoder and dynamics descend.
    pub optimizer: Adam,
    /// How λ ascends.
    pub dual_optimizer: Adam,
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
    /// The authors' constants, ε = 0.25, λ from 0.01 at rate 1e-2 and their push for long horizons, an IQE
    /// head, and OGBench's latent dynamics: weight 1 on distances, where the authors have 0.1 on squares.
    fn default() -> Self {
        Self {
            offsets: Offsets::default(),
            tolerance: 0.0625,
            push_offset: 5.0,
            push_scale: 100.0,
            multiplier: Multiplier::Softplus,
            first_multiplier: 0.01,
            dynamics_weight: 1.0,
            dynamics_error: DynamicsError::Distance,
            critics: 1,
            advantage: Advantage::Dynamics,
            network: Network::default(),
            projector: None,
            head: HeadShape::Iqe { latent: 32, group: 8 },
            optimizer: Adam::default(),
            dual_optimizer: Adam { learning_rate: 1e-2, ..Adam::default() },
            phases: Phases::default(),
            extraction: Extraction::default(),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// How far a predicted latent state is from the one reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DynamicsError {
    /// The distance both ways.
    Distance,
    /// Its square, as the authors' code.
    Square,
}

/// What AWR compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advantage {
    /// d(ẑ'(s, π), z(g)) − d(ẑ'(s, a), z(g)): actions, by the learned dynamics.
    Dynamics,
    /// d(s, g) − d(s', g): states, s' recorded one row later, or `extraction.horizon` rows later.
    Successor,
}

/// QRL with its parameters.
pub struct Qrl {
    config: Config,
    steps: u64,
    shape: SteppedShape,
    members: Vec<Member>,
    policy: PolicyPass,
}

/// One distance, and the multiplier that holds its neighbours at one step.
struct Member {
    distance: Stepped,
    multiplier: (ArenaId, Parameter),
    advantage: Advantage,
}

impl Qrl {
    /// Initializes encoder, dynamics, multiplier and policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        problem.need_whole_goals("qrl")?;
        config.optimizer.check("algorithm.optimizer")?;
        config.dual_optimizer.check("algorithm.dual_optimizer")?;
        config.network.check("algorithm.network")?;
        config.head.check()?;
        config.projector.iter().try_for_each(Projector::check)?;
        check_critics(config.critics)?;
        for (key, value) in [
            ("tolerance", config.tolerance),
            ("push_offset", config.push_offset),
            ("push_scale", config.push_scale),
            ("first_multiplier", config.first_multiplier),
            ("dynamics_weight", config.dynamics_weight),
        ] {
            positive(&format!("algorithm.{key}"), value)?;
        }
        let with_action = problem.action_size > 0;
        let shape = SteppedShape {
            network: config.network.clone(),
            projector: config.projector.clone(),
            head: config.head,
            dynamics: with_action.then(|| config.network.clone()),
            nats: (1.0 / problem.discount).ln(),
        };
        let raw = config.multiplier.raw(config.first_multiplier);
        if !raw.is_finite() {
            return Err(Error::input(format!(
                "`algorithm.first_multiplier` is `{}`, expected more than 0.01 where \
                 `algorithm.multiplier` is `floored`",
                config.first_multiplier
            )));
        }
        let first = Initial::Constant(raw);
        let members = (0..config.critics)
            .map(|member| {
                let arena = parameters.arena(&numbered("distance", member));
                let distance = Stepped::new(parameters, arena, &shape, problem.sizes());
                let dual = parameters.arena(&numbered("multiplier", member));
                let multiplier = (dual, parameters.add(dual, "raw", (1, 1), first));
                Member { distance, multiplier, advantage: config.advantage }
            })
            .collect();
        let from = config.advantage == Advantage::Successor;
        let answers = Answers { after: with_action, from, value: false };
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, answers)?;
        Ok(Self { config: config.clone(), steps: problem.steps, shape, members, policy })
    }

    /// The terms of one distance's loss, and of its multiplier's. The first member's are reported.
    fn loss<T: Scalar>(&self, program: &mut Program<T>, at: usize) -> (Vec<Term>, Vec<Term>) {
        let (config, Member { distance, multiplier, .. }) = (&self.config, &self.members[at]);
        let next = program.rows(Rows::Next);
        let random = program.rows(Rows::Random);
        let [state, next, random] =
            [Layout::START, next, random].map(|rows| program.column(Column::State(rows)));
        let [here, there, far] = [state, next, random].map(|state| distance.encode(program, state));

        // Push random pairs apart, hold neighbours at one step.
        let apart = distance.between(program, here, far);
        let push = Push { offset: config.push_offset, scale: config.push_scale };
        let push = program.push(push, apart);
        let step = distance.between(program, here, there);
        let excess = program.hinge(step, 1.0);
        let multiplier = program.multiplier(config.multiplier, multiplier.1);
        let mut terms = vec![
            Term::new(1.0, push),
            Term { constant: 1.0, factor: Some((multiplier, 1.0)), of: excess },
        ];
        let error = self.dynamics(program, distance, here, there);
        terms.extend(error.map(|error| Term::new(config.dynamics_weight, error)));
        if at == 0 {
            let measured = [("push", push), ("excess", excess), ("multiplier", multiplier)];
            let error = error.map(|error| ("dynamics", error));
            for (name, value) in error.into_iter().chain(measured) {
                program.report(&format!("training/critic/{name}"), value);
            }
        }
        (terms, Term::dual(multiplier, config.tolerance, excess).into())
    }

    /// ½ mean (d(ẑ', z') + d(z', ẑ')), or of their squares; none without actions.
    fn dynamics<T: Scalar>(
        &self,
        program: &mut Program<T>,
        distance: &Stepped,
        latent: Value,
        next: Value,
    ) -> Option<Value> {
        self.shape.dynamics.as_ref()?;
        let action = program.column(Column::Action(Layout::START));
        let error = self.config.dynamics_error;
        distance.prediction_error(program, latent, action, next, |program, distance| match error {
            DynamicsError::Distance => program.mean(distance, Scale::Unit),
            DynamicsError::Square => program.hinge(distance, 0.0),
        })
    }
}

impl Algorithm for Qrl {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let window = config.phases.critic(self.steps);
        let (distance, dual): (Vec<_>, Vec<_>) =
            (0..self.members.len()).map(|at| self.loss(program, at)).unzip();
        let loss = program.combine(&distance.concat());
        let arenas = self.members.iter().map(|of| (of.distance.arena(), config.optimizer));
        program.descend("critic", loss, &arenas.collect::<Vec<_>>(), window);

        // λ ← λ + α (excess − ε²), kept positive.
        let dual = program.combine(&dual.concat());
        let arenas = self.members.iter().map(|of| (of.multiplier.0, config.dual_optimizer));
        program.descend("multiplier", dual, &arenas.collect::<Vec<_>>(), window);

        self.policy.declare(program, &Farthest(&self.members), config.offsets);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        let shape = MeasureShape::Stepped(self.shape.clone()).several(self.members.len());
        let all = self.members.iter().flat_map(|of| numbers(of.distance.arena())).collect();
        Learned { distance: Some((shape, all)), policy: self.policy.learned(numbers) }
    }
}

impl Critique for Member {
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value> {
        let here = self.distance.encode(program, state);
        let there = self.distance.step(program, here, action)?;
        Some(self.left(program, there, goal))
    }

    fn from<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        (self.advantage == Advantage::Successor).then(|| {
            let here = self.distance.encode(program, state);
            self.left(program, here, goal)
        })
    }
}

impl Member {
    /// The steps from latent states to goals.
    fn left<T: Scalar>(&self, program: &mut Program<T>, from: Value, goal: RowsId) -> Value {
        let goal = program.column(Column::State(goal));
        let goal = self.distance.encode(program, goal);
        self.distance.between(program, from, goal)
    }
}
