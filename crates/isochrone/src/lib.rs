//! Learns how many steps apart states are, from recorded trajectories.
//!
//! Modules stand in the order data pass through them; a module uses only those above it. The
//! blank lines keep rustfmt from sorting them, and `tests/flow.rs` enforces the order.

pub mod error;

pub mod random;

pub mod data;

pub use error::{Error, Result};
