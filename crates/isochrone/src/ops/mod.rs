//! One operation, one file named after its formula: forward, backward, a check by differences.
//!
//! Operations are named after formulas, never after algorithms. Each adds a method to
//! [`Program`](crate::engine::Program) that declares it.

mod advantage;
mod backup;
mod bootstrap;
mod categorical;
mod clip;
mod closeness;
mod combine;
mod deep_norm;
mod difference;
#[cfg(test)]
pub(crate) mod differences;
mod excess;
mod expectile;
mod extremum;
mod fit;
mod gaussian;
mod hinge;
mod info_nce;
mod inner_product;
mod iqe;
mod join;
#[cfg(test)]
#[cfg(feature = "cuda")]
pub(crate) mod kernels;
mod lanes;
mod linear;
mod log_mean_exp;
mod mean;
mod mrn;
mod multiplier;
mod negative_share;
mod pqe;
mod push;
mod recursive_classification;
mod scores;
mod shortfall;
mod sphere;
mod squared_hinge;
mod tanh_gaussian;
mod targets;
mod tempered;
mod weighted_sum;
mod wide_norm;

pub use advantage::{AdvantageWeights, Standardize};
pub use backup::Backup;
pub use bootstrap::Bootstrap;
pub(crate) use categorical::write_one_hot;
pub use combine::Term;
pub use deep_norm::DeepNorm;
pub use difference::{DifferenceHead, HeadWeights};
pub use extremum::Extremum;
pub use fit::Fit;
pub use info_nce::{Directions, LSE_PENALTY};
pub use iqe::Iqe;
pub(crate) use lanes::{BESIDE, LANES, beside, lanes, transpose};
pub use linear::{Activation, Linear, Norm, Weights};
pub use mean::Scale;
pub use mrn::Mrn;
pub use multiplier::{MULTIPLIER_CAP, MULTIPLIER_FLOOR, Multiplier};
pub use pqe::PqeLh;
pub use push::Push;
pub(crate) use sphere::to_sphere;
pub use targets::Targets;
pub use wide_norm::WideNorm;
