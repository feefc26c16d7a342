//! Learns how many steps apart states are, from recorded trajectories.
//!
//! Modules stand in the order data pass through them; a module uses only those above it.

pub mod algorithms;
pub mod checkpoint;
pub mod data;
pub mod engine;
pub mod error;
pub mod extraction;
pub mod model;
pub mod nn;
pub mod ops;
pub mod random;
pub mod report;

pub use error::{Error, Result};
