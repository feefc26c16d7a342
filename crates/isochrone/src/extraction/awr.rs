//! Advantage-weighted regression: minimize −mean sg(w) log π(a | s, g), w = min(exp(β A), 100).
//!
//! A = d(s, π(s, g), g) − d(s, a, g) is positive where the data's action is nearer. On a state
//! critic A = d(s, g) − d(s', g).

use serde::{Deserialize, Serialize};

use super::{PolicyColumns, Reach};
use crate::data::sampler::GoalMix;
use crate::engine::{Program, Scalar, Value};
use crate::nn::Policy;
use crate::ops::{AdvantageWeights, Standardize};

/// How advantages weigh the data's actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Awr {
    /// β.
    pub inverse_temperature: f64,
    /// Whether advantages are standardized over the batch.
    pub standardize: Standardize,
    /// Where the policy's goals come from.
    pub goals: GoalMix,
}

impl Default for Awr {
    /// Temperature 0.3 on standardized advantages, half of the goals random.
    fn default() -> Self {
        Self {
            inverse_temperature: 1.0 / 0.3,
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
        let acted = policy.action(program, statistics).stop();
        let ways = (reach.after(program, acted), reach.after(program, columns.action));
        let (baseline, taken) = match ways {
            (Some(baseline), Some(taken)) => (baseline, taken),
            _ => reach.stepping(program),
        };
        let weights = AdvantageWeights {
            inverse_temperature: self.inverse_temperature,
            standardize: self.standardize,
        };
        program.advantage_regression(log_likelihood, baseline, taken, weights)
    }
}
