//! Learns how many steps apart states are, from recorded trajectories.
//!
//! Modules stand in the order data pass through them; a module uses only those above it.

pub mod checkpoint;
pub mod data;
pub mod error;
pub mod ledger;
pub mod random;

pub use error::{Error, Result};
