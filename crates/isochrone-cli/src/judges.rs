//! What learned steps are judged by: those that elapsed, and the fewest along recorded moves.

use isochrone::evaluate::{
    AgainstElapsed, AgainstSolved, Solved, Trajectories, against_elapsed, against_solved,
};
use isochrone::model::Model;
use isochrone::run::{RunConfig, Source};
use isochrone::{Error, Result, Tell};

/// What the distance of a run is judged by.
pub struct Judges {
    trajectories: Trajectories,
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
        let trajectories = source.judged_on(config)?;
        let solved = match tell.map(|tell| source.solved(config, tell)) {
            None | Some(Err(Error::Interrupted(_))) => None,
            Some(solved) => solved?,
        };
        Ok(Self { trajectories, solved, seed: config.evaluation.seed })
    }

    /// How the steps of `model` agree with those that elapsed and with those that were solved; `None`
    /// where too little can be compared.
    ///
    /// # Errors
    /// A model without a distance, or whose distance is not finite.
    pub fn judge(&self, model: &Model) -> Result<(Option<AgainstElapsed>, Option<AgainstSolved>)> {
        let elapsed = against_elapsed(model, &self.trajectories, self.seed)?;
        let solved = self.solved.as_ref().map(|solved| against_solved(model, solved, self.seed));
        Ok((elapsed, solved.transpose()?.flatten()))
    }
}
