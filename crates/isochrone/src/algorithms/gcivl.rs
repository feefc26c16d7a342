//! GCIVL: goal-conditioned implicit value learning.
//!
//! V(s, g) of −1 a step by an upper expectile of its own backups:
//! Σ_k ℓ_κ(r + γ m V̄_k(s', g) − V_k(s, g); A), A = r + γ m min_k V̄_k(s', g) − mean_k V̄_k(s, g), where r and m
//! are 0 at the goal's own row and −1 and 1 elsewhere. It takes the best of what followed a state, so
//! it is too hopeful where luck decides. The policy weighs actions by V(s', g) − V(s, g).
//!
//! Park et al. 2025 (OGBench), after Kostrikov et al. 2022.

use serde::{Deserialize, Serialize};

use super::policy::{Critique, PolicyNet};
use super::{Algorithm, Phases, Problem, counted, share_between};
use crate::data::sampler::{Column, GoalMix, Layout, Offsets, Rows, RowsId};
use crate::engine::{Adam, ArenaId, Parameters, Program, Scalar, Value};
use crate::error::Result;
use crate::extraction::{Awr, Extraction};
use crate::model::Learned;
use crate::nn::{MeasureShape, Network, PolicyShape, Reading, Valued, ValuedShape};
use crate::ops::{Bootstrap, Extremum, Standardize, Term};

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
    policy: PolicyNet,
}

impl Gcivl {
    /// Initializes the critics, their targets and the policy.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(config: &Config, problem: Problem, parameters: &mut Parameters) -> Result<Self> {
        config.optimizer.check("algorithm.optimizer")?;
        config.network.check("algorithm.network")?;
        config.phases.check()?;
        config.goals.check("algorithm.goals")?;
        share_between("algorithm.expectile", config.expectile)?;
        share_between("algorithm.follow_rate", config.follow_rate)?;
        counted("algorithm.critics", config.critics)?;
        let Problem { steps, discount, .. } = problem;
        let shape = ValuedShape {
            network: config.network.clone(),
            state_values: config.critics,
            action_values: 0,
            representation: None,
            reading: Reading::Steps { discount },
        };
        let (value, target) = (parameters.arena("value"), parameters.arena("target"));
        let value = Valued::new(parameters, value, &shape, problem.sizes());
        let target = Valued::new(parameters, target, &shape, problem.sizes());
        let policy = PolicyNet::new(
            parameters,
            (&config.policy, &config.extraction, config.policy_optimizer),
            problem,
            false,
            config.phases.policy(problem.steps),
        )?;
        Ok(Self { config: config.clone(), steps, discount, shape, value, target, policy })
    }
}

impl Algorithm for Gcivl {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        let config = &self.config;
        let goal = program.rows(Rows::Mixed(config.goals, config.offsets));
        let columns = ValueColumns::declare(program, goal);
        let loss = expectile_loss(
            program,
            (&self.value, &self.target),
            columns,
            (self.discount, config.expectile),
        );
        let arenas = [(self.value.arena(), config.optimizer)];
        program.descend("critic", loss, &arenas, config.phases.critic(self.steps));
        program.follow(self.target.arena(), self.value.arena(), config.follow_rate);
        self.policy.declare(program, self, config.offsets);
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        let shape = MeasureShape::Valued(self.shape.clone());
        Learned {
            distance: Some((shape, numbers(self.value.arena()))),
            policy: self.policy.learned(numbers),
        }
    }
}

impl Critique for Gcivl {
    fn after<T: Scalar>(&self, _: &mut Program<T>, _: Value, _: Value, _: RowsId) -> Option<Value> {
        None
    }

    fn from<T: Scalar>(&self, program: &mut Program<T>, state: Value, goal: RowsId) -> Value {
        let goal = program.column(Column::State(goal));
        minus_value(program, &self.value, state, goal)
    }
}

/// The columns that a value's backup reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueColumns {
    pub state: Value,
    pub next: Value,
    pub goal: Value,
    pub reached: Value,
}

impl ValueColumns {
    /// Declares them for goals of `rows`; a start that is its own goal has arrived.
    pub fn declare<T: Scalar>(program: &mut Program<T>, rows: RowsId) -> Self {
        let next = program.rows(Rows::Next);
        Self {
            state: program.column(Column::State(Layout::START)),
            next: program.column(Column::State(next)),
            goal: program.column(Column::State(rows)),
            reached: program.column(Column::Reached(Layout::START, rows, None)),
        }
    }
}

/// −mean_k V_k(s, g), which falls as the goal comes near.
pub(super) fn minus_value<T: Scalar>(
    program: &mut Program<T>,
    value: &Valued,
    state: Value,
    goal: Value,
) -> Value {
    let goal = value.goal(program, state, goal);
    let values = value.of_state(program, state, goal);
    mean(program, &values, -1.0)
}

fn mean<T: Scalar>(program: &mut Program<T>, values: &[Value], sign: f64) -> Value {
    let share = sign / values.len() as f64;
    let terms: Vec<(f64, Value)> = values.iter().map(|&value| (share, value)).collect();
    program.weighted_sum(&terms)
}

/// Σ_k ℓ_κ(r + γ m V̄_k(s', g) − V_k(s, g); A): the loss of GCIVL's value, and of HIQL's.
pub(super) fn expectile_loss<T: Scalar>(
    program: &mut Program<T>,
    (value, target): (&Valued, &Valued),
    columns: ValueColumns,
    (discount, expectile): (f64, f64),
) -> Value {
    let ValueColumns { state, next, goal, reached } = columns;
    let read = |program: &mut Program<T>, of: &Valued, at: Value| {
        let goal = of.goal(program, at, goal);
        of.of_state(program, at, goal)
    };
    let form = Bootstrap { discount, held: false };
    let ahead = read(program, target, next);
    let least = program.extremum_of(Extremum::Least, &ahead);
    let backed_up = program.bootstrap(form, least, reached);
    let held = read(program, target, state);
    let held = mean(program, &held, 1.0);
    let advantage = program.weighted_sum(&[(1.0, backed_up), (-1.0, held)]);
    let here = read(program, value, state);
    let terms: Vec<Term> = here
        .into_iter()
        .zip(ahead)
        .map(|(here, ahead)| {
            let target = program.bootstrap(form, ahead, reached);
            Term::new(1.0, program.expectile(here, target, advantage, expectile))
        })
        .collect();
    program.combine(&terms)
}
