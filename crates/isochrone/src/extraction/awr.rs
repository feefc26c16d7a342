//! Advantage-weighted regression: minimize −mean sg(w) log π(a | s, g), w = min(exp(β A), 100).
//!
//! A = d(s, π(s, g), g) − d(s, a, g) is positive where the data's action is nearer; with the baseline
//! `data` the first term is the mean over recorded actions of other rows, with `value` a learned value
//! of the state. On a critic of states
//! A = (d(s, g) − d(s', g)) / h, s' the state recorded h rows later.

use serde::{Deserialize, Serialize};

use super::{Answers, Critique, PolicyColumns};
use crate::data::sampler::{Column, GoalMix, Layout, Rows, RowsId};
use crate::engine::{Program, Scalar, Value};
use crate::error::{Error, Result};
use crate::nn::Policy;
use crate::ops::{AdvantageWeights, Standardize};

/// How advantages weigh the data's actions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Awr {
    /// β, the inverse temperature: the larger, the more the best actions count.
    pub inverse_temperature: f64,
    /// What a recorded action is compared with.
    pub baseline: Baseline,
    /// Whether advantages are standardized over the batch.
    pub standardize: Standardize,
    /// Where the policy's goals come from.
    pub goals: GoalMix,
    /// Advantages are held to ± this, in the units of the critic: steps for `atlas` and `qrl`, nats or
    /// values for others; left out, they are as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// h, the rows over which a critic of states sees progress; cut at the goal and at the end of the
    /// trajectory. Where a body has inertia, what one action did shows only some rows later.
    pub horizon: u32,
}

/// What a recorded action is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// The policy's own action: the weights move with the policy.
    Policy,
    /// The mean over four recorded actions of other rows: the weights stand still with the critic.
    Data,
    /// The learner's own value of the state, where it learns one: `gciql`, and `crl` with `value = true`.
    Value,
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
            limit: None,
            horizon: 1,
        }
    }
}

impl Awr {
    /// Checks that the critic answers what is compared.
    pub(super) fn check(&self, critic: Answers) -> Result<()> {
        if self.baseline == Baseline::Value && !critic.value {
            return Err(Error::input(
                "`algorithm.extraction.baseline` is `value`, but this learner has no value",
            )
            .hint("`gciql` has one, `crl` with `algorithm.value = true`"));
        }
        if self.horizon == 0 {
            return Err(Error::input("`algorithm.extraction.horizon` is `0`, expected 1 or more")
                .hint("`isochrone config` prints every key with its default"));
        }
        if self.horizon > 1 && !critic.from {
            return Err(Error::input(format!(
                "`algorithm.extraction.horizon` is `{}`, but this critic compares actions",
                self.horizon
            ))
            .hint("set it to 1, or use a critic of states, such as that of `atlas` or `gcivl`"));
        }
        Ok(())
    }

    pub(super) fn declare<T: Scalar>(
        &self,
        program: &mut Program<T>,
        policy: &Policy,
        columns: PolicyColumns,
        critique: &impl Critique,
    ) -> Option<Value> {
        let PolicyColumns { state, action, goals, goal, .. } = columns;
        let statistics = policy.statistics(program, state, goal);
        let log_likelihood = policy.log_likelihood(program, statistics, action);
        let (baseline, taken) = match critique.from(program, state, goals) {
            Some(here) => self.progress(program, critique, here, goals)?,
            None => {
                let taken = critique.after(program, state, action, goals)?;
                let acting = |program: &mut Program<T>| policy.action(program, statistics).stop();
                let baseline = self.baseline(program, critique, (state, goals), acting)?;
                (baseline, taken)
            }
        };
        let weights = AdvantageWeights {
            inverse_temperature: self.inverse_temperature,
            standardize: self.standardize,
            limit: self.limit.unwrap_or(f64::INFINITY),
        };
        Some(program.advantage_regression(log_likelihood, baseline, taken, weights))
    }

    /// The distances here and h rows later, per row.
    fn progress<T: Scalar>(
        &self,
        program: &mut Program<T>,
        critique: &impl Critique,
        here: Value,
        goals: RowsId,
    ) -> Option<(Value, Value)> {
        if self.horizon == 1 {
            let next = program.rows(Rows::Next);
            let next = program.column(Column::State(next));
            return Some((here, critique.from(program, next, goals)?));
        }
        let later = program.rows(Rows::Ahead(self.horizon, Some(goals)));
        let later = program.column(Column::State(later));
        let there = critique.from(program, later, goals)?;
        let share = 1.0 / f64::from(self.horizon);
        let [here, there] = [here, there].map(|far| program.weighted_sum(&[(share, far)]));
        Some((here, there))
    }

    /// The distance that the recorded action's is compared with; `acting` is what the policy does.
    fn baseline<T: Scalar>(
        &self,
        program: &mut Program<T>,
        critique: &impl Critique,
        (state, goals): (Value, RowsId),
        acting: impl Fn(&mut Program<T>) -> Value,
    ) -> Option<Value> {
        match self.baseline {
            Baseline::Policy => {
                let acted = acting(program);
                critique.after(program, state, acted, goals)
            }
            Baseline::Data => {
                let share = 1.0 / f64::from(OTHERS);
                let others: Option<Vec<(f64, Value)>> = (0..OTHERS)
                    .map(|copy| {
                        let other = Column::PermutedAction(Layout::START, copy);
                        let other = program.column(other);
                        Some((share, critique.after(program, state, other, goals)?))
                    })
                    .collect();
                Some(program.weighted_sum(&others?))
            }
            Baseline::Value => critique.value(program, state, goals),
        }
    }
}
