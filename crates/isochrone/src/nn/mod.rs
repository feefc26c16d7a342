//! Networks, heads and policies: parameters, and the operations they add to a program.
//!
//! Each is its own arena, so that a model can keep it by itself.

mod head;
mod mlp;
mod policy;

pub use head::{Head, HeadShape};
pub use mlp::{Initialization, Mlp, Network};
pub use policy::{Law, Policy, PolicyShape};
