//! The laws that goals and waypoints are drawn by, as a config states them.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The law of the offset between a start and its future goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Offsets {
    /// The smallest offset: 0 makes the distance a quasimetric; 1 is what most public code samples.
    pub from: First,
    /// What happens where the trajectory ends.
    pub end: End,
}

/// The smallest offset of a future goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum First {
    /// The start itself may be the goal.
    Zero,
    /// The goal is at least one row later.
    One,
}

impl From<First> for u8 {
    fn from(first: First) -> Self {
        match first {
            First::Zero => 0,
            First::One => 1,
        }
    }
}

impl TryFrom<u8> for First {
    type Error = String;

    fn try_from(value: u8) -> std::result::Result<Self, String> {
        match value {
            0 => Ok(Self::Zero),
            1 => Ok(Self::One),
            _ => Err(format!("offsets begin at 0 or 1, found `{value}`")),
        }
    }
}

/// What happens to an offset that passes the end of its trajectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The law is cut at the end and renormalized.
    Truncate,
    /// The offset is cut to the last row: the occupancy of a process whose end is absorbing.
    Clip,
}

impl Default for Offsets {
    fn default() -> Self {
        Self { from: First::Zero, end: End::Truncate }
    }
}

/// Where the goals of a policy or a value come from; the shares sum to one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GoalMix {
    /// Share of goals that are the start itself.
    pub current: f64,
    /// Share of goals from the start's future, at an offset drawn as in `algorithm.offsets`.
    pub future: f64,
    /// Share of goals uniform over the rest of the start's trajectory.
    pub trajectory: f64,
    /// Share of goals uniform over all rows.
    pub random: f64,
}

impl Default for GoalMix {
    fn default() -> Self {
        Self { current: 0.0, future: 0.5, trajectory: 0.0, random: 0.5 }
    }
}

impl GoalMix {
    /// The mix that learners of values are published with.
    pub const VALUES: Self = Self { current: 0.2, future: 0.5, trajectory: 0.0, random: 0.3 };

    /// Checks that all are shares and sum to one; `key` is where they stand in a config.
    ///
    /// # Errors
    /// Names the key and the shares.
    pub fn check(&self, key: &str) -> Result<()> {
        let shares = [self.current, self.future, self.trajectory, self.random];
        let sum: f64 = shares.iter().sum();
        if shares.iter().all(|share| (0.0..=1.0).contains(share)) && (sum - 1.0).abs() < 1e-9 {
            return Ok(());
        }
        let [current, future, trajectory, random] = shares;
        Err(Error::input(format!(
            "`{key}` are {current}, {future}, {trajectory}, {random}, expected shares of current, \
             future, trajectory and random goals that sum to 1"
        ))
        .hint("the default of a policy is `{ future = 0.5, random = 0.5, … = 0 }`"))
    }
}

/// The law of a waypoint between a start and its goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Waypoints {
    /// The share of waypoints that are the start's successor.
    pub successor: f64,
    /// ρ: the others are k ≥ 1 rows ahead with P(k) ∝ ρᵏ, not past the goal.
    pub ratio: f64,
}

impl Default for Waypoints {
    fn default() -> Self {
        Self { successor: 0.2, ratio: 0.95 }
    }
}

impl Waypoints {
    /// Checks both numbers; `key` is where they stand in a config.
    ///
    /// # Errors
    /// Names the number that is not a share, or no ratio.
    pub fn check(&self, key: &str) -> Result<()> {
        for (name, value, fits) in [
            ("successor", self.successor, (0.0..=1.0).contains(&self.successor)),
            ("ratio", self.ratio, self.ratio > 0.0 && self.ratio < 1.0),
        ] {
            if !fits {
                return Err(Error::input(format!(
                    "`{key}.{name}` is `{value}`, expected a number between 0 and 1"
                ))
                .hint("the default is `{ successor = 0.2, ratio = 0.95 }`"));
            }
        }
        Ok(())
    }
}
