//! What an extraction asks a critic, and the columns it reads beside.

use crate::data::sampler::RowsId;
use crate::engine::{Program, Scalar, Value};

/// A critic that a policy can be taken from: distances, or anything that falls as a goal comes near.
///
/// A critic answers at least one of the two questions; the table of [`extraction`](super) says what follows.
pub trait Critique {
    /// From each state, by way of its action, to the goal of its row; `None` if the critic cannot tell
    /// where an action leads.
    fn after<T: Scalar>(
        &self,
        _program: &mut Program<T>,
        _state: Value,
        _action: Value,
        _goal: RowsId,
    ) -> Option<Value> {
        None
    }

    /// From each state to the goal of its row; `None` if recorded actions are compared by
    /// [`Critique::after`].
    fn from<T: Scalar>(
        &self,
        _program: &mut Program<T>,
        _state: Value,
        _goal: RowsId,
    ) -> Option<Value> {
        None
    }
}

/// What a policy learns from.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolicyColumns {
    /// The state it acts in.
    pub state: Value,
    /// The action recorded there.
    pub action: Value,
    /// The rows it is asked to reach, for the critic.
    pub goals: RowsId,
    /// What it sees of them.
    pub goal: Value,
    /// The goal whose recorded action it clones.
    pub own_goal: Value,
}
