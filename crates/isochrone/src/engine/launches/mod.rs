//! What operations ask of a GPU: buffers, products and kernels, as a list that [`super::cuda`] runs.
//!
//! Nothing here needs a driver, so every operation says what it launches in every build.
#![cfg_attr(not(feature = "cuda"), allow(dead_code, unused_imports))]

mod buffer;
mod launch;
mod multiply;
mod queue;

pub use buffer::{Buffer, Target};
pub(crate) use launch::down_blocks;
pub use launch::{Argument, Grid};
pub(in crate::engine) use launch::{DOWN, GATE, Launch, Of, Work};
#[cfg(test)]
pub(in crate::engine) use launch::{down, gate};
pub(in crate::engine) use multiply::Multiply;
pub use multiply::{Factor, Finish, Precision};
pub(in crate::engine) use queue::Bound;
pub use queue::{Kernels, Queue};
