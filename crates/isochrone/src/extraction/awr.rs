//! Advantage-weighted regression: minimize −mean sg(w) log π(a | s, g), w = min(exp(β A), 100).
//!
//! A = d(s, π(s, g), g) − d(s, a, g) is positive where the data's action is nearer; with the baseline
//! `data` the first term is the mean over recorded actions of other rows. On a state critic
//! A = d(s, g) − d(s', g).

use serde::{Deserialize, Serialize};

use super::{PolicyColumns, Reach};
use crate::data::sampler::{Column, GoalMix, Layout};
use crate::engine::{Program, Scalar, Value};
use crate::nn::Policy;
use crate::ops::{AdvantageWeights, Standardize};

/// How advantages weigh the data's actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Awr {
    /// β.
    pub inverse_temperature: f64,
    /// What a recorded action is compared with.
    pub baseline: Baseline,
    /// Whether advantages are standardized over the batch.
    pub standardize: Standardize,
    /// Where the policy's goals come from.
    pub goals: GoalMix,
}

/// What a recorded action is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// The policy's own action: the weights move with the policy.
    Policy,
    /// The mean over four recorded actions of other rows: the weights stand still with the critic.
    Data,
}

/// Recorded actions that [`Baseline::Data`] is the mean over.
const OTHERS: u8 = 4;

impl Default for Awr {
    /// β = 10 on standardized advantages, half of the goals random: on the 2-D task better than 10/3 and
    /// 1 for most critics.
    fn default() -> Self {
        Self {
            inverse_temperature: 10.0,
            baseline: Baseline::Policy,
            standardize: Standardize::Batch,
            goals: GoalMix::default(),
        }
    }
}

impl Awr {
    pub(super) fn declare<T: Scalar>(
        &self,
        program: &mut Program<T>,
        policy: &Policy,
        columns: PolicyColumns,
        reach: &impl Reach<T>,
    ) -> Value {
        let statistics = policy.statistics(program, columns.state, columns.goal);
        let log_likelihood = policy.log_likelihood(program, statistics, columns.action);
        let taken = reach.after(program, columns.action);
        let (baseline, taken) = match taken {
            Some(taken) => (self.baseline(program, policy, statistics, reach), taken),
            None => reach.stepping(program),
        };
        let weights = AdvantageWeights {
            inverse_temperature: self.inverse_temperature,
            standardize: self.standardize,
        };
        program.advantage_regression(log_likelihood, baseline, taken, weights)
    }

    /// The distance that a recorded action is compared with, on a critic that sees actions.
    fn baseline<T: Scalar>(
        &self,
        program: &mut Program<T>,
        policy: &Policy,
        statistics: Value,
        reach: &impl Reach<T>,
    ) -> Value {
        let after = |program: &mut Program<T>, action: Value| {
            reach.after(program, action).expect("a critic that sees actions")
        };
        match self.baseline {
            Baseline::Policy => {
                let acted = policy.action(program, statistics).stop();
                after(program, acted)
            }
            Baseline::Data => {
                let share = 1.0 / f64::from(OTHERS);
                let others: Vec<(f64, Value)> = (0..OTHERS)
                    .map(|copy| {
                        let other = Column::PermutedAction(Layout::START, copy);
                        let other = program.column(other);
                        (share, after(program, other))
                    })
                    .collect();
                program.weighted_sum(&others)
            }
        }
    }
}
