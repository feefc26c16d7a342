//! What learned steps are judged by: those that elapsed, and the fewest along recorded moves.

use super::config::RunConfig;
use super::source::Source;
use crate::error::{Error, Result, Tell};
use crate::evaluate::{
    AgainstElapsed, AgainstSolved, Solved, Trajectories, against_elapsed, against_remaining,
    against_solved,
};
use crate::model::Model;

/// What the distance of a run is judged by.
pub struct Judges {
    trajectories: Trajectories,
    /// Whether steps to the end of a trajectory are asked for, not those between any two of its rows.
    remaining: bool,
    solved: Option<Solved>,
    seed: u64,
}

impl Judges {
    /// Those of a run of `config` that learned from `source`. Nothing is solved without `tell`, or
    /// where it hears a signal.
    ///
    /// # Errors
    /// Too few trajectories to hold some out; the file can no longer be read.
    pub fn new(source: &Source, config: &RunConfig, tell: Option<&Tell<'_>>) -> Result<Self> {
        Self::on(source.judged_on(config)?, Some(source), config, tell)
    }

    /// As [`new`](Self::new), on other trajectories; without the data that were learned from nothing is
    /// solved.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn on(
        trajectories: Trajectories,
        source: Option<&Source>,
        config: &RunConfig,
        tell: Option<&Tell<'_>>,
    ) -> Result<Self> {
        let solved = match source.zip(tell).map(|(source, tell)| source.solved(config, tell)) {
            None | Some(Err(Error::Interrupted(_))) => None,
            Some(solved) => solved?,
        };
        Ok(Self { trajectories, remaining: false, solved, seed: config.evaluation.seed })
    }

    /// The same, of the steps that remain to the end of a trajectory.
    pub fn of_remaining(self) -> Self {
        Self { remaining: true, ..self }
    }

    /// How the steps of `model` agree with those that elapsed and with those that were solved; `None`
    /// where too little can be compared.
    ///
    /// # Errors
    /// A model without a distance, or whose distance is not finite.
    pub fn judge(&self, model: &Model) -> Result<(Option<AgainstElapsed>, Option<AgainstSolved>)> {
        let compare = if self.remaining { against_remaining } else { against_elapsed };
        let elapsed = compare(model, &self.trajectories, self.seed)?;
        let solved = self.solved.as_ref().map(|solved| against_solved(model, solved, self.seed));
        Ok((elapsed, solved.transpose()?.flatten()))
    }
}
