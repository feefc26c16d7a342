//! Learns how many steps apart states are, from recorded trajectories.
//!
//! Modules stand in the order data pass through them; a module uses only those above it.

pub mod data;
pub mod error;
pub mod random;
pub mod simulate;
pub mod tabular;

pub use error::{Error, Result};
