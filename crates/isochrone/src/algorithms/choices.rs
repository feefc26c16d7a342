//! Choices that several learners have, and their checks.

use serde::{Deserialize, Serialize};

use crate::data::sampler::{Column, RowsId};
use crate::engine::{Adam, Program, Scalar, Value, Window};
use crate::error::{Error, Result};
use crate::extraction::Extraction;
use crate::nn::{MOST_NETWORKS, PolicyShape};

/// What the critic is a function of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Critic {
    /// State-action pairs where the data have actions, states where they have none.
    #[default]
    Auto,
    /// State-action pairs.
    StateAction,
    /// States alone.
    State,
}

impl Critic {
    /// Whether the encoder sees actions.
    pub fn with_action(self, action_size: usize) -> bool {
        match self {
            Self::Auto => action_size > 0,
            Self::StateAction => true,
            Self::State => false,
        }
    }
}

/// The action that stands beside a goal where the encoder needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoalAction {
    /// The batch's goal actions in a fresh random order: the distance cannot depend on it.
    Permuted,
    /// The batch's goal actions, moved one place.
    Rolled,
    /// The action taken at the goal.
    Taken,
}

impl GoalAction {
    /// Declares the column.
    pub fn column<T: Scalar>(self, program: &mut Program<T>, goal: RowsId) -> Value {
        program.column(match self {
            Self::Permuted => Column::PermutedAction(goal, 0),
            Self::Rolled => Column::RolledAction(goal),
            Self::Taken => Column::Action(goal),
        })
    }
}

/// Which updates train what; a critic and a policy may learn together or one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Phases {
    /// The share of all updates after which critic and distance stand still; 1 never stops them.
    pub critic_until: f64,
    /// The share of all updates after which the policy begins to learn; 0 begins at once.
    pub policy_from: f64,
}

impl Default for Phases {
    fn default() -> Self {
        Self { critic_until: 1.0, policy_from: 0.0 }
    }
}

impl Phases {
    /// The updates of the critic and the distance.
    pub fn critic(&self, steps: u64) -> Window {
        Window { from: 0, until: share(self.critic_until, steps) }
    }

    /// The updates of the policy.
    pub fn policy(&self, steps: u64) -> Window {
        Window { from: share(self.policy_from, steps), until: steps }
    }

    /// Checks that both are shares.
    ///
    /// # Errors
    /// Names the one that is not.
    pub fn check(&self) -> Result<()> {
        for (key, value) in [("critic_until", self.critic_until), ("policy_from", self.policy_from)]
        {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::input(format!(
                    "`algorithm.phases.{key}` is `{value}`, expected a share of the updates, 0 to 1"
                ))
                .hint("0.5 is half of `train.steps`"));
            }
        }
        Ok(())
    }
}

fn share(share: f64, steps: u64) -> u64 {
    (share * steps as f64).round() as u64
}

/// Refuses a number that is not positive and finite.
pub(super) fn positive(key: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{value}`, expected a positive number"))
        .hint("`isochrone config` prints every key with its default"))
}

/// Refuses a number that is negative or not finite.
pub(super) fn not_negative(key: &str, value: f64) -> Result<()> {
    if value == 0.0 {
        return Ok(());
    }
    positive(key, value).map_err(|_| {
        Error::input(format!("`{key}` is `{value}`, expected 0 or a positive number"))
            .hint("`isochrone config` prints every key with its default")
    })
}

/// The name of the arena of the `member`th of several networks of one kind; the first has the plain name.
pub(super) fn numbered(name: &str, member: usize) -> String {
    if member == 0 { name.into() } else { format!("{name}{}", member + 1) }
}

/// Refuses a count of zero.
pub(super) fn counted(key: &str, value: usize) -> Result<()> {
    positive(key, value as f64)
}

/// Refuses a number of critics that no model can hold.
pub(super) fn check_critics(count: usize) -> Result<()> {
    if (1..=MOST_NETWORKS).contains(&count) {
        return Ok(());
    }
    Err(Error::input(format!("`algorithm.critics` is `{count}`, expected 1 to {MOST_NETWORKS}"))
        .hint("`isochrone config` prints every key with its default"))
}

/// Refuses a number that is not strictly between 0 and 1.
pub(super) fn share_between(key: &str, value: f64) -> Result<()> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{value}`, expected a number between 0 and 1"))
        .hint("`isochrone config` prints every key with its default"))
}

/// Refuses a number outside 0 to 1.
pub(super) fn up_to_one(key: &str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{value}`, expected a share, 0 to 1"))
        .hint("`isochrone config` prints every key with its default"))
}

/// The choices of a policy, as a learner's config has them.
#[derive(Clone, Copy)]
pub(super) struct PolicyChoices<'a> {
    pub shape: &'a PolicyShape,
    pub extraction: &'a Extraction,
    pub optimizer: Adam,
    pub phases: Phases,
}

/// What a config lets others replace.
pub(super) trait Adjustable {
    /// How a policy is taken from the critic, where that can be chosen.
    fn extraction_mut(&mut self) -> Option<&mut Extraction> {
        None
    }

    /// Which updates train what, where critic and policy are two things.
    fn phases_mut(&mut self) -> Option<&mut Phases> {
        None
    }
}

/// A config with `policy`, `extraction`, `policy_optimizer` and `phases`: its policy is taken from the
/// critic by the chosen extraction.
macro_rules! extracted {
    ($config:ty) => {
        impl $config {
            fn policy_choices(&self) -> $crate::algorithms::choices::PolicyChoices<'_> {
                $crate::algorithms::choices::PolicyChoices {
                    shape: &self.policy,
                    extraction: &self.extraction,
                    optimizer: self.policy_optimizer,
                    phases: self.phases,
                }
            }
        }

        impl $crate::algorithms::choices::Adjustable for $config {
            fn extraction_mut(&mut self) -> Option<&mut $crate::extraction::Extraction> {
                Some(&mut self.extraction)
            }

            fn phases_mut(&mut self) -> Option<&mut $crate::algorithms::Phases> {
                Some(&mut self.phases)
            }
        }
    };
}
pub(super) use extracted;
