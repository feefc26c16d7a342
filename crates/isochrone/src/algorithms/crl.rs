//! CRL: contrastive reinforcement learning.
//!
//! A critic f = φ(s, a)ᵀψ(g) by contrast of goals: with InfoNCE over goals and a penalty on the
//! log-sum-exp (CPC), or as a binary classifier of all pairs (NCE). At the optimum f is
//! log p(g | s, a) / p(g) up to a constant; the policy descends −f.
//!
//! Eysenbach et al. 2022. Goals may be the start itself unless `offsets` says otherwise.

use serde::{Deserialize, Serialize};

use super::policy::PolicyPass;
use super::{Algorithm, Critic, Phases, Problem, check_critics, counted, numbered, positive};
use crate::data::sampler::{Column, Layout, Offsets, Rows, RowsId};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Value};
use crate::error::Result;
use crate::extraction::{Answers, Critique, Extraction, Farthest};
use crate::model::Learned;
use crate::nn::{MeasureShape, Network, PolicyShape, Scored, ScoredShape};
use crate::ops::{Directions, Term};

/// The choices of CRL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What the critic is a function of.
    pub critic: Critic,
    /// Which contrast, by name.
    pub contrast: Contrast,
    /// The law of a goal's offset from its start.
    pub offsets: Offsets,
    /// τ: logits are divided by it.
    pub temperature: f64,
    /// How many critics: the mean of their distances is the distance, and the policy believes the one
    /// that says farthest.
    pub critics: usize,
    /// Whether a critic of states is learned beside, by the same contrast: AWR's baseline `value`.
    pub value: bool,
    /// Both encoders.
    pub network: Network,
    /// Coordinates of both representations.
    pub latent: usize,
    /// How the critic descends.
    pub optimizer: Adam,
    /// Which updates train what.
    pub phases: Phases,
    /// How a policy is taken from the critic.
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
            critic: Critic::Auto,
            contrast: Contrast::Cpc,
            offsets: Offsets::default(),
            temperature: 1.0,
            critics: 1,
            value: false,
            network: Network::default(),
            latent: 32,
            optimizer: Adam::default(),
            phases: Phases::default(),
            extraction: Extraction::default(),
            policy: PolicyShape::default(),
            policy_optimizer: Adam::default(),
        }
    }
}

/// How the goal that was reached is told from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contrast {
    /// Choose the goal among those of the batch, with a penalty on the log-sum-exp.
    Cpc,
    /// Say of every pair whether it belongs together.
    Nce,
}

/// CRL with its parameters.
pub struct Crl {
    config: Config,
    steps: u64,
    shape: ScoredShape,
    critics: Vec<Scored>,
    value: Option<Scored>,
    policy: PolicyPass,
}

impl Crl {
    /// Initializes both representations and the policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        config.optimizer.check("algorithm.optimizer")?;
        config.network.check("algorithm.network")?;
        positive("algorithm.temperature", config.temperature)?;
        counted("algorithm.latent", config.latent)?;
        let with_action = config.critic.with_action(problem.action_size);
        if with_action {
            problem.need_actions("crl")?;
        }
        let shape = ScoredShape {
            network: config.network.clone(),
            latent: config.latent,
            with_action,
            temperature: config.temperature,
        };
        check_critics(config.critics)?;
        let mut add = |starts: &str, goals: &str, shape: &ScoredShape| {
            let arenas = (parameters.arena(starts), parameters.arena(goals));
            Scored::new(parameters, arenas, shape, problem.critic_sizes())
        };
        let critics = (0..config.critics)
            .map(|member| {
                let [starts, goals] =
                    ["start_encoder", "goal_encoder"].map(|name| numbered(name, member));
                add(&starts, &goals, &shape)
            })
            .collect();
        let of_states = ScoredShape { with_action: false, ..shape.clone() };
        let value = config.value.then(|| add("value_start", "value_goal", &of_states));
        let answers = Answers { value: config.value, ..Answers::either(with_action) };
        let policy = PolicyPass::new(parameters, config.policy_choices(), problem, answers)?;
        Ok(Self { config: config.clone(), steps: problem.steps, shape, critics, value, policy })
    }

    /// The contrast of starts and the goals of their future.
    fn contrast<T: Scalar>(&self, program: &mut Program<T>, critic: &Scored, goal: RowsId) -> Term {
        let state = program.column(Column::State(Layout::START));
        let starts =
            critic.start(program, state, |program| program.column(Column::Action(Layout::START)));
        let goal = program.column(critic.shown(goal));
        let ends = critic.goal(program, goal);
        let logits = critic.pairwise(program, starts, ends);
        let directions = match self.config.contrast {
            Contrast::Cpc => Directions::Forward,
            Contrast::Nce => Directions::Binary,
        };
        Term::new(1.0, program.info_nce(logits, directions))
    }
}

impl Algorithm for Crl {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let goal = program.rows(Rows::Future(config.offsets));
        let learned = || self.critics.iter().chain(&self.value);
        let losses: Vec<Term> =
            learned().map(|critic| self.contrast(program, critic, goal)).collect();
        let loss = program.combine(&losses);
        let arenas = learned().flat_map(Scored::arenas).map(|arena| (arena, config.optimizer));
        let window = config.phases.critic(self.steps);
        program.descend("critic", loss, &arenas.collect::<Vec<_>>(), window);
        self.policy.declare(program, self, config.offsets);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        let shape = MeasureShape::Scored(self.shape.clone()).several(self.critics.len());
        let all = self.critics.iter().flat_map(Scored::arenas).flat_map(numbers).collect();
        Learned { distance: Some((shape, all)), policy: self.policy.learned(numbers) }
    }
}

impl Critique for Crl {
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value> {
        Farthest(&self.critics).after(program, state, action, goal)
    }

    fn from<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        Farthest(&self.critics).from(program, state, goal)
    }

    fn value<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        self.value.as_ref()?.from(program, state, goal)
    }
}

/// −f falls as a goal comes near.
impl Critique for Scored {
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value> {
        self.with_action().then(|| minus_score(program, self, (state, action), goal))
    }

    fn from<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        (!self.with_action()).then(|| minus_score(program, self, (state, state), goal))
    }
}

fn minus_score<T: Scalar>(
    program: &mut Program<T>,
    critic: &Scored,
    (state, action): (Value, Value),
    goal: RowsId,
) -> Value {
    let goal = program.column(critic.shown(goal));
    let starts = critic.start(program, state, |_| action);
    let ends = critic.goal(program, goal);
    let score = critic.between(program, starts, ends);
    program.weighted_sum(&[(-1.0, score)])
}
