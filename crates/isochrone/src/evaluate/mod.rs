//! Measures; never trains: success, triangle audit, agreement with exact answers.
//!
//! Numbers leave here in steps, d / ln(1/γ); the audit's excesses are in nats, as the inequality is.

mod audit;
mod calibration;
mod statistics;
mod success;

use rayon::prelude::*;

pub use audit::{AUDITED_STATES, Audit, TOLERANCE, Worst, audit, audit_matrix};
pub use calibration::{
    Agreement, Calibration, Judged, JudgedGoal, Point, calibrate, referee_pairs,
};
pub use statistics::{Line, MonotoneMap, spearman};
pub use success::{Class, Control, Rate, Success, outcomes, success};

use crate::model::Model;

/// Points embedded at a time; a fixed number, so that no thread count changes a bit.
const PORTION: usize = 1_024;

/// The learned steps from each of `points`, states row after row, to one goal.
pub fn steps_to(model: &Model, points: &[f32], goal: &[f32]) -> Vec<f32> {
    let goal = model.embed(goal);
    let portion = |points: &[f32]| {
        let nats = model.pairwise(&model.embed(points), &goal);
        nats.into_iter().map(|distance| model.in_steps(distance)).collect::<Vec<f32>>()
    };
    points.par_chunks(PORTION * model.shape().state_size).flat_map_iter(portion).collect()
}
