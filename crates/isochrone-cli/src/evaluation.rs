//! What is measured of one run.

use std::path::PathBuf;

use isochrone::evaluate::{AgainstElapsed, AgainstSolved, Audit, Judgement, OverTraining, Success};
use serde::Serialize;

use crate::examiner::{Against, Measured, Steering};

/// What is measured of one run; printed as lines or as JSON.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    /// The run.
    pub folder: PathBuf,
    /// Its learner.
    pub algorithm: String,
    /// Where its data come from.
    pub source: String,
    /// Its seed.
    pub seed: u64,
    /// Its updates.
    pub updates: u64,
    /// Who steered.
    pub control: Steering,
    /// How often goals were reached, in a world and with a policy.
    pub success: Option<Success>,
    /// All evaluations of the policy while it trained, in a maze.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_training: Option<OverTraining>,
    /// How right learned steps are against the best use of recorded moves, in a world with a referee.
    pub accuracy: Option<Measured>,
    /// Agreement with the other exact columns, on a pinwheel.
    pub against_exact: Option<Against>,
    /// Agreement with the steps that elapsed on recorded trajectories, where a distance was learned.
    pub against_elapsed: Option<AgainstElapsed>,
    /// Agreement with the fewest steps along recorded moves, where a distance was learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against_solved: Option<AgainstSolved>,
    /// Why learned steps should not be read as steps, if something speaks against it.
    pub doubt: Option<String>,
    /// The triangle inequality, where a distance was learned.
    pub audit: Option<Audit>,
    /// What could not be measured, and why.
    pub not_available: Vec<String>,
    /// The pictures drawn.
    pub pictures: Vec<PathBuf>,
}

impl Evaluation {
    /// What its steps are judged by.
    pub fn judgement(&self) -> Judgement<'_> {
        Judgement {
            elapsed: self.against_elapsed.as_ref(),
            solved: self.against_solved.as_ref(),
            exact: self.accuracy.as_ref().and_then(|found| found.found.median_relative_error),
            algorithm: &self.algorithm,
        }
    }

    /// The learner and its data.
    pub fn name(&self) -> String {
        format!("{} on {}", self.algorithm, self.source)
    }
}
