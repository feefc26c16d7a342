//! One file an algorithm; a closed enum of their configs.
//!
//! An algorithm declares its update once and, when training is over, hands over what it learned.
//! It runs no loop, opens no file and logs nothing.

mod actions;
pub mod cmd1;
pub mod cmd2;
mod distance;

use serde::{Deserialize, Serialize};

use crate::data::sampler::{Column, RowsId};
use crate::engine::{ArenaId, Parameters, Program, Scalar, Value, Window};
use crate::error::{Error, Result};
use crate::model::Learned;

/// What an algorithm must know of the data and the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Problem {
    /// Numbers of a state.
    pub state_size: usize,
    /// Numbers of an action; 0 without actions.
    pub action_size: usize,
    /// Updates of the whole run.
    pub steps: u64,
}

/// A learner of a distance and a policy.
pub trait Algorithm {
    /// Declares one update: the inside of the paper's loop, in its order.
    fn declare<T: Scalar>(&self, program: &mut Program<T>);

    /// What was learned, given the numbers of every arena.
    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned;
}

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

/// The learners, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Config {
    /// One step: a quasimetric inside a contrastive critic.
    Cmd1(cmd1::Config),
    /// Two steps: a contrastive critic, distilled into a quasimetric.
    Cmd2(cmd2::Config),
}

impl Config {
    /// The learners' names.
    pub const NAMES: [&'static str; 2] = ["cmd1", "cmd2"];

    /// The defaults of the learner called `name`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "cmd1" => Some(Self::Cmd1(cmd1::Config::default())),
            "cmd2" => Some(Self::Cmd2(cmd2::Config::default())),
            _ => None,
        }
    }

    /// The name of this learner.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cmd1(_) => "cmd1",
            Self::Cmd2(_) => "cmd2",
        }
    }

    /// The policy extraction of this learner, to read or replace.
    pub fn extraction_mut(&mut self) -> &mut crate::extraction::Extraction {
        match self {
            Self::Cmd1(config) => &mut config.extraction,
            Self::Cmd2(config) => &mut config.extraction,
        }
    }

    /// The phases of this learner, to read or replace.
    pub fn phases_mut(&mut self) -> &mut Phases {
        match self {
            Self::Cmd1(config) => &mut config.phases,
            Self::Cmd2(config) => &mut config.phases,
        }
    }

    /// Builds the learner: checks its config against the problem and adds its parameters.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn build(&self, problem: Problem, parameters: &mut Parameters) -> Result<Learner> {
        Ok(match self {
            Self::Cmd1(config) => {
                config.phases.check()?;
                Learner::Cmd1(Box::new(cmd1::Cmd1::new(config, problem, parameters)?))
            }
            Self::Cmd2(config) => {
                config.phases.check()?;
                Learner::Cmd2(Box::new(cmd2::Cmd2::new(config, problem, parameters)?))
            }
        })
    }
}

/// A built learner.
pub enum Learner {
    /// CMD-1.
    Cmd1(Box<cmd1::Cmd1>),
    /// CMD-2.
    Cmd2(Box<cmd2::Cmd2>),
}

impl Algorithm for Learner {
    fn declare<T: Scalar>(&self, program: &mut Program<T>) {
        match self {
            Self::Cmd1(learner) => learner.declare(program),
            Self::Cmd2(learner) => learner.declare(program),
        }
    }

    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
        match self {
            Self::Cmd1(learner) => learner.learned(numbers),
            Self::Cmd2(learner) => learner.learned(numbers),
        }
    }
}
