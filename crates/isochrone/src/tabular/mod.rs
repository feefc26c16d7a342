//! Worlds whose answer is known: the referee of every learned distance.
//!
//! d(s, g) = min over policies of ln p(g|g) / p(g|s) = −ln max over policies of E γ^H, with H the
//! first time at g and p(g|s) = (1 − γ) Σ_{k ≥ 0} γ^k P(s_k = g | s_0 = s).
//! Source: the paper's definition of the successor distance and its appendix of worked examples.
//!
//! Distances are in nats; [`steps`] is the only door out. A number of steps is a certainty
//! equivalent: at most the expected number, and a goal missed for good with probability ½ costs
//! ln 2 nats on top, which is 13.5 steps at a discount of 0.95 and 69 at 0.99.

mod chain;
mod distances;
mod elimination;
mod exact;
mod file;
mod matrix;
mod names;
mod process;
#[cfg(test)]
mod successors;
#[cfg(test)]
mod theory;

pub use chain::{Chain, FirstOffset};
pub use file::{Dynamics, TabularWorld, read};
pub use matrix::{Matrix, TriangleAudit};
pub use process::{DecisionProcess, Transition};

/// How many steps a distance in nats is: d / ln(1/γ).
///
/// With deterministic motion it is the number of steps to the goal; otherwise it is at most the
/// expected number. Infinity stays infinity.
pub fn steps(distance: f64, discount: f64) -> f64 {
    distance / -discount.ln()
}
