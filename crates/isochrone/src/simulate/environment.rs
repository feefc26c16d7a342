//! What a world is: motion under actions, a recording, tasks.

use std::ops::Range;

use crate::data::{Dataset, available, rounded};
use crate::error::{Error, Result};
use crate::random::Draws;

/// A world: how states move under actions, what is recorded in it and what is asked of a policy.
pub trait Environment: Send + Sync {
    /// Values per observation. A state begins with as many and may hold more, which a policy does
    /// not see.
    fn state_size(&self) -> usize;

    /// Values per action, each in [−1, 1].
    fn action_size(&self) -> usize;

    /// The discount that this world's distances are learned with unless a config says otherwise.
    fn discount(&self) -> f64;

    /// Steps after which an episode counts as failed.
    fn horizon(&self) -> usize;

    /// The distance from the goal within which an episode has succeeded.
    fn radius(&self) -> f64;

    /// Moves `state` by one step of `action`.
    fn step(&self, state: &mut [f64], action: &[f32], draws: &mut Draws);

    /// What a policy sees of `state`.
    fn observe(&self, state: &[f64], draws: &mut Draws) -> Vec<f32>;

    /// Whether `state` lies within [`radius`](Self::radius) of `goal`.
    fn reached(&self, state: &[f64], goal: &[f32]) -> bool {
        let squared =
            state.iter().zip(goal).map(|(here, &there)| (here - f64::from(there)).powi(2));
        squared.sum::<f64>() <= self.radius() * self.radius()
    }

    /// Episodes that one thread carries on together. A policy answers 32 observations in a few times
    /// the time that one takes; where a step takes much longer than an answer, 1 keeps more threads
    /// busy.
    fn together(&self) -> usize {
        32
    }

    /// Kinds of tasks: task i of a list is of kind i mod `groups`.
    fn groups(&self) -> usize {
        1
    }

    /// Episodes in the world's own dataset.
    fn episodes(&self) -> u32 {
        0
    }

    /// Rows of a recorded episode, in the mean.
    fn rows(&self) -> usize {
        1
    }

    /// Whether recording takes minutes, so that what was recorded is kept for the next command.
    fn records_slowly(&self) -> bool {
        false
    }

    /// Records `episodes`, each a function of the seed and its number; calls `told` after each.
    ///
    /// # Errors
    /// Those of [`Dataset::new`]; a simulator that is not installed.
    fn record(&self, _: u64, _: Range<u32>, _told: &(dyn Fn() + Sync)) -> Result<Episodes> {
        Err(Error::input("nothing is recorded in this world"))
    }

    /// Records the world's own dataset; the same seed gives the same bytes.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    fn generate(&self, seed: u64) -> Result<Recording> {
        self.record(seed, 0..self.episodes(), &|| {}).map(|episodes| episodes.recording)
    }

    /// Draws `count` evaluation tasks; the first tasks of a longer list are those of a shorter one.
    ///
    /// # Errors
    /// Says so where `data` hold no state from which a task can start.
    fn tasks(&self, seed: u64, count: usize, data: &Dataset) -> Result<Vec<Task>>;
}

/// Checks that `episodes` recorded in a world fit into memory.
///
/// # Errors
/// [`Error::Memory`] where they do not.
pub fn check_memory(environment: &dyn Environment, episodes: u32) -> Result<()> {
    // A file holds positions and velocities beside what is seen; episodes are joined by copying.
    let row = 2 * 4 * (2 * environment.state_size() + environment.action_size());
    let bytes = (row * environment.rows()) as u64 * u64::from(episodes);
    if available().is_some_and(|free| bytes > free) {
        let size = rounded(bytes);
        return Err(Error::memory(format!(
            "recording {episodes} episodes takes {size}, which does not fit into memory"
        ))
        .hint("ask for fewer: `data.episodes` of a config, `--episodes` of `data generate`"));
    }
    Ok(())
}

/// A dataset and which family of behaviour each of its trajectories belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The recorded rows.
    pub dataset: Dataset,
    /// For each trajectory the index of its family.
    pub families: Vec<u8>,
    /// The names of the families.
    pub family_names: Vec<String>,
}

impl Recording {
    /// A recording whose trajectories are all of one family.
    pub(super) fn of_one_kind(dataset: Dataset, name: &str) -> Self {
        let families = vec![0; dataset.trajectories()];
        Self { dataset, families, family_names: vec![name.to_owned()] }
    }
}

/// Recorded episodes, and what a file of them holds beside what is seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Episodes {
    /// What is seen and done.
    pub recording: Recording,
    /// The rest.
    pub further: Vec<ExtraArray>,
}

impl From<Recording> for Episodes {
    fn from(recording: Recording) -> Self {
        Self { recording, further: Vec::new() }
    }
}

/// An array with one row for each row of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtraArray {
    /// Its name in a file.
    pub name: &'static str,
    /// Values per row.
    pub width: usize,
    /// Row after row.
    pub values: Vec<f32>,
}

/// One question to a policy: get from `start` to `goal`.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The state an episode begins in.
    pub start: Vec<f64>,
    /// The state to come near to.
    pub goal: Vec<f32>,
    /// How often a route along recorded trajectories changes from one family to another, where the
    /// world knows. A task with one switch or more is "stitched".
    pub switches: Option<u8>,
}
