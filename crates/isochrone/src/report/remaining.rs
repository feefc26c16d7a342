//! Steps that remain along trajectories, learned and real.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Learned steps to the goal along some trajectories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remaining {
    /// The line above the picture.
    pub title: String,
    /// The text below the picture; empty for none.
    pub caption: String,
    /// One panel each.
    pub trajectories: Vec<TrajectoryCourse>,
}

/// One trajectory over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrajectoryCourse {
    /// What stands above the panel.
    pub name: String,
    /// Learned steps to the goal, frame after frame.
    pub learned: Vec<f32>,
    /// Whether the goal is the last frame, so that the steps that really remained are known.
    pub to_last: bool,
}

impl Remaining {
    /// Says whether the picture can be drawn.
    ///
    /// # Errors
    /// No trajectory, one without frames, or a number that is not finite.
    pub fn check(&self) -> Result<()> {
        if self.trajectories.is_empty() {
            return Err(Error::input("a picture of trajectories has none, expected at least one"));
        }
        for course in &self.trajectories {
            if course.learned.is_empty() {
                return Err(Error::input(format!("`{}` has no frames", course.name)));
            }
            if let Some(steps) = course.learned.iter().find(|steps| !steps.is_finite()) {
                return Err(Error::input(format!(
                    "the steps of `{}` hold `{steps}`, expected finite numbers",
                    course.name
                )));
            }
        }
        Ok(())
    }
}
