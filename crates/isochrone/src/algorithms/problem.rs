//! What an algorithm is told, and what it must give.

use crate::data::sampler::{Column, RowsId};
use crate::engine::{ArenaId, Program, Scalar};
use crate::error::{Error, Result};
use crate::model::Learned;

/// What an algorithm must know of the data and the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Problem {
    /// Values per state.
    pub state_size: usize,
    /// Values of a goal that a policy sees.
    pub goal_size: usize,
    /// Values of a goal that a critic sees, where that is not the whole state.
    pub critic_goal: Option<usize>,
    /// Values per action; 0 without actions.
    pub action_size: usize,
    /// Updates of the whole run.
    pub steps: u64,
    /// γ.
    pub discount: f64,
    /// How near a goal counts as reached, where a world says so.
    pub radius: Option<f64>,
    /// The nats beyond which a goal is out of reach, where a teacher says so.
    pub farthest: Option<f64>,
}

impl Problem {
    /// The sizes of a state and of an action.
    pub fn sizes(&self) -> (usize, usize) {
        (self.state_size, self.action_size)
    }

    /// What a policy sees of `rows` as goals.
    pub(super) fn policy_goal(&self, rows: RowsId) -> Column {
        match self.goal_size {
            whole if whole == self.state_size => Column::State(rows),
            part => Column::Goal(rows, part),
        }
    }

    /// The sizes of a state, of a critic's goal and of an action.
    pub(super) fn critic_sizes(&self) -> (usize, usize, usize) {
        (self.state_size, self.critic_goal.unwrap_or(self.state_size), self.action_size)
    }

    /// Refuses critics that see coordinates of a goal: a quasimetric compares states with states.
    pub(super) fn need_whole_goals(&self, name: &str) -> Result<()> {
        if self.critic_goal.is_none() {
            return Ok(());
        }
        Err(Error::input(format!(
            "`data.critic_goal` is `policy`, but the distance of `{name}` compares whole states"
        ))
        .hint(
            "leave it out, or train `crl`, `gciql`, `gcivl`, `hiql`, `ddpg` or `c-learning`, \
             whose critics have an input for the goal",
        ))
    }

    /// The sizes of a policy's input and of an action.
    pub(super) fn policy_sizes(&self) -> (usize, usize) {
        (self.state_size + self.goal_size, self.action_size)
    }

    /// Refuses data without actions.
    pub(super) fn need_actions(&self, name: &str) -> Result<()> {
        if self.action_size > 0 {
            return Ok(());
        }
        Err(Error::input(format!("`{name}` needs actions, the data have none"))
            .hint("without actions `atlas`, `cmd1`, `cmd2`, `mqe`, `tmd`, `qrl`, `crl` and `gcivl` learn a distance"))
    }
}

/// A learner of a distance and a policy.
pub trait Algorithm {
    /// Declares one update: the inside of the paper's loop, in its order.
    fn declare<T: Scalar>(&self, program: &mut Program<T>);

    /// What was learned, given the numbers of every arena.
    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned;
}
