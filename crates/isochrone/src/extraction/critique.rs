//! What an extraction asks a critic, and the columns it reads beside.

use crate::data::sampler::RowsId;
use crate::engine::{Program, Scalar, Value};
use crate::ops::Extremum;

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

    /// From each state to the goal of its row, whatever is done there: what recorded actions are
    /// compared with by [`Baseline::Value`](super::Baseline::Value); `None` if nothing learns it.
    fn value<T: Scalar>(
        &self,
        _program: &mut Program<T>,
        _state: Value,
        _goal: RowsId,
    ) -> Option<Value> {
        None
    }
}

/// Which questions of [`Critique`] a critic answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers {
    /// [`Critique::after`].
    pub after: bool,
    /// [`Critique::from`].
    pub from: bool,
    /// [`Critique::value`].
    pub value: bool,
}

impl Answers {
    /// Those of a critic of states and actions or, without actions, of states.
    pub fn either(with_action: bool) -> Self {
        Self { after: with_action, from: !with_action, value: false }
    }
}

/// Several critics, of which the one that says farthest is believed.
pub struct Farthest<'a, C>(pub &'a [C]);

impl<C: Critique> Critique for Farthest<'_, C> {
    fn after<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: RowsId,
    ) -> Option<Value> {
        farthest(self.0, program, |critic, program| critic.after(program, state, action, goal))
    }

    fn from<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: RowsId,
    ) -> Option<Value> {
        farthest(self.0, program, |critic, program| critic.from(program, state, goal))
    }
}

/// The largest of what all critics answer, row by row; `None` if they cannot.
fn farthest<C, T: Scalar>(
    critics: &[C],
    program: &mut Program<T>,
    ask: impl Fn(&C, &mut Program<T>) -> Option<Value>,
) -> Option<Value> {
    let answers: Option<Vec<Value>> = critics.iter().map(|critic| ask(critic, program)).collect();
    Some(program.extremum_of(Extremum::Largest, &answers?))
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
