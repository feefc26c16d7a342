//! Whether a distance has run away: typical states are farther apart than any could honestly be.
//!
//! The most that is believed is 10 · (longest trajectory + 100 / (1 − γ)) steps. At the second part
//! alone e^−d = E[γ^H] is e^−1000, smaller than the smallest double; the constant that a learner adds
//! to every distance is some tens of nats.

use super::statistics::median;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::random::{Purpose, Stream};

/// Pairs of recorded states whose median is typical.
const PAIRS: u32 = 64;
/// Longest trajectories and horizons that are believed.
const TIMES: f64 = 10.0;
/// Horizons of 1 / (1 − γ) steps that a constant may take.
const HORIZONS: f64 = 100.0;
/// What the number is called where it is reported.
const METRIC: &str = "distance/median_steps";

/// Random pairs of recorded states, whose median distance tells whether a distance has run away.
pub struct TypicalPairs {
    from: Vec<f32>,
    to: Vec<f32>,
    /// Rows of the longest trajectory.
    longest: usize,
}

impl TypicalPairs {
    /// Pairs of `dataset`.
    ///
    /// # Errors
    /// Data that stay in a file can no longer be read.
    pub fn of(dataset: &Dataset, seed: u64) -> Result<Self> {
        let stream = Stream::new(seed, Purpose::TYPICAL_PAIRS);
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for index in 0..PAIRS {
            let mut draws = stream.draws(0, index);
            for side in [&mut from, &mut to] {
                side.push(draws.below(dataset.rows() as u32));
            }
        }
        let longest = dataset.lengths().max().unwrap_or(0);
        Ok(Self { from: dataset.gather_states(&from)?, to: dataset.gather_states(&to)?, longest })
    }

    /// Refuses the distance of `model` after `step` updates if it has run away; a model without a
    /// distance passes.
    ///
    /// # Errors
    /// [`Error::Diverged`] with the median distance of the pairs in steps.
    pub fn check(&self, model: &Model, step: u64) -> Result<()> {
        if !model.has_distance() {
            return Ok(());
        }
        let steps = model.steps(&self.from, &self.to)?;
        let value = median(steps.iter().map(|&steps| f64::from(steps.abs())).collect());
        let value = value.unwrap_or(0.0);
        if value <= most(self.longest, model.shape().discount) {
            return Ok(());
        }
        Err(Error::Diverged { step, metric: METRIC.into(), value })
    }
}

/// The most steps that are believed of a typical pair, where the longest trajectory has so many rows.
fn most(longest: usize, discount: f64) -> f64 {
    TIMES * (longest as f64 + HORIZONS / (1.0 - discount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_and_long_recordings_are_believed_and_runaways_are_not() {
        assert!((most(48, 0.95) - 20_480.0).abs() < 1e-6);
        // Contrastive learners read 300 steps on the pinwheel, 666 in a corridor at 0.99.
        assert!(most(48, 0.95) > 300.0 && most(100, 0.99) > 666.0);
        assert!(most(48, 0.95) < 1e6 && most(1_000, 0.999) < 1e11);
        assert!(most(1_000_000, 0.95) > 1e6, "one recording of a million rows");
    }
}
