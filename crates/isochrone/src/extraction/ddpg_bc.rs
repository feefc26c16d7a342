//! DDPG+BC: minimize mean d(s, â, g) / sg(mean |d| + 1e-6) − weight · mean log π(a | s, g).
//!
//! The paper's policy loss with the sign of the cloning term corrected (see `docs/paper.md`).

use serde::{Deserialize, Serialize};

use super::{Critique, PolicyColumns};
use crate::data::sampler::GoalMix;
use crate::engine::{Program, Scalar, Value};
use crate::nn::Policy;
use crate::ops::{Scale, Term};

/// How far the policy may leave the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DdpgBc {
    /// The weight of the cloning term.
    pub cloning_weight: f64,
    /// What the mean distance is divided by.
    pub scale: Scale,
    /// Where the policy's goals come from.
    pub goals: GoalMix,
    /// Which goals the cloning term sees.
    pub cloning_goals: CloningGoals,
}

/// Which goals the cloning term sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloningGoals {
    /// Those of the distance term.
    Same,
    /// A goal of the start's own future.
    Future,
}

impl Default for DdpgBc {
    fn default() -> Self {
        Self {
            cloning_weight: 0.03,
            scale: Scale::Magnitude,
            goals: GoalMix::default(),
            cloning_goals: CloningGoals::Same,
        }
    }
}

impl DdpgBc {
    pub(super) fn declare<T: Scalar>(
        &self,
        program: &mut Program<T>,
        policy: &Policy,
        columns: PolicyColumns,
        critique: &impl Critique,
    ) -> Option<Value> {
        let statistics = policy.statistics(program, columns.state, columns.goal);
        let action = policy.action(program, statistics);
        let distance = critique.after(program, columns.state, action, columns.goals)?;
        let distance = program.mean(distance, self.scale);
        let own = match self.cloning_goals {
            CloningGoals::Same => statistics,
            CloningGoals::Future => policy.statistics(program, columns.state, columns.own_goal),
        };
        let log_likelihood = policy.log_likelihood(program, own, columns.action);
        let cloning = program.mean(log_likelihood, Scale::Unit);
        program.report("training/policy/log_likelihood", cloning);
        Some(program.combine(&[Term::new(1.0, distance), Term::new(-self.cloning_weight, cloning)]))
    }
}
