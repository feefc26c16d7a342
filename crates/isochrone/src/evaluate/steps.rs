//! The learned steps from many points to one goal, and the check that all are finite.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::model::Model;

/// Points embedded at a time; a fixed number, so that no thread count changes a bit.
const PORTION: usize = 1_024;

/// The learned steps from each of `points`, states row after row, to one goal.
///
/// # Errors
/// Values that are not whole rows; a model without a distance.
pub fn steps_to(model: &Model, points: &[f32], goal: &[f32]) -> Result<Vec<f32>> {
    let goal = model.embed(goal)?;
    let portion = |points: &[f32]| {
        let nats = model.between(&model.embed(points)?, &goal)?;
        Ok(nats.into_iter().map(|distance| model.in_steps(distance)).collect())
    };
    let portions = points.par_chunks(PORTION * model.shape().state_size).map(portion);
    Ok(portions.collect::<Result<Vec<Vec<f32>>>>()?.concat())
}

/// Refuses learned steps that are not finite.
pub(super) fn all_finite(mut learned: impl Iterator<Item = f64>) -> Result<()> {
    learned.find(|steps| !steps.is_finite()).map_or(Ok(()), |broken| {
        Err(Error::input(format!("a learned distance is `{broken}`, expected a finite number")))
    })
}
