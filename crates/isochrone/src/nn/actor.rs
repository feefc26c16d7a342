//! Who acts once training is over: one policy, or one that names a waypoint and one that goes there.

use serde::{Deserialize, Serialize};

use super::{Law, Policy, PolicyShape};
use crate::engine::{ArenaId, Parameters, Threads};
use crate::error::{Error, Result};
use crate::ops::to_sphere;

/// The policies of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "levels", rename_all = "kebab-case")]
pub enum ActorShape {
    /// π(a | s, g).
    One(PolicyShape),
    /// π(z | s, g), a representation of a waypoint, then π(a | s, z).
    Two {
        /// The policy that names a waypoint.
        high: PolicyShape,
        /// The policy that goes there.
        low: PolicyShape,
        /// Coordinates of a waypoint's representation.
        representation: usize,
    },
}

impl ActorShape {
    /// Checks that the policies can be built, as a file may say anything.
    ///
    /// # Errors
    /// Names what does not fit.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::One(policy) => policy.check("policy"),
            Self::Two { representation: 0, .. } => {
                Err(Error::input("`representation` is `0`, expected at least 1"))
            }
            Self::Two { high, low, .. } => high.check("high").and_then(|()| low.check("low")),
        }
    }

    /// Whether the action is one of several.
    pub fn is_categorical(&self) -> bool {
        let (Self::One(policy) | Self::Two { low: policy, .. }) = self;
        policy.law == Law::Categorical
    }
}

/// The policies of a model, in one arena.
#[derive(Debug, Clone)]
pub enum Actor {
    /// π(a | s, g).
    One(Policy),
    /// π(z | s, g) and π(a | s, z), z of so many coordinates.
    Two(Policy, Policy, usize),
}

impl Actor {
    /// Adds the policies to `arena`, given the sizes of a state, of a goal and of an action
    /// there are.
    pub fn new(
        parameters: &mut Parameters,
        arena: ArenaId,
        shape: &ActorShape,
        (state_size, goal_size, action_size): (usize, usize, usize),
    ) -> Self {
        let mut policy = |shape: &PolicyShape, sizes: (usize, usize)| {
            Policy::new(parameters, arena, shape, sizes)
        };
        match shape {
            ActorShape::One(shape) => {
                Self::One(policy(shape, (state_size + goal_size, action_size)))
            }
            ActorShape::Two { high, low, representation } => Self::Two(
                policy(high, (state_size + goal_size, *representation)),
                policy(low, (state_size + representation, action_size)),
                *representation,
            ),
        }
    }

    /// The most likely action for each row of normalized `inputs`: state, then goal.
    pub fn infer(
        &self,
        threads: &Threads,
        arena: &[f32],
        inputs: &[f32],
        (state_size, goal_size): (usize, usize),
    ) -> Vec<f32> {
        match self {
            Self::One(policy) => policy.infer(threads, arena, inputs),
            Self::Two(high, low, size) => {
                let named = high.center(threads, arena, inputs);
                let rows =
                    inputs.chunks_exact(state_size + goal_size).zip(named.chunks_exact(*size));
                let mut waypoint = vec![0.0; *size];
                let mut seen = Vec::with_capacity(named.len() + inputs.len());
                for (input, raw) in rows {
                    to_sphere(raw, &mut waypoint);
                    seen.extend_from_slice(&input[..state_size]);
                    seen.extend_from_slice(&waypoint);
                }
                low.infer(threads, arena, &seen)
            }
        }
    }
}
