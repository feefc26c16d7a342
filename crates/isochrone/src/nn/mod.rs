//! Networks, heads and policies: parameters, and the operations they add to a program.
//!
//! Each is its own arena, so that a model can keep it by itself.

mod actor;
mod head;
mod measure;
mod mlp;
mod policy;

pub use actor::{Actor, ActorShape};
pub use head::{Head, HeadShape};
pub(crate) use measure::MOST_NETWORKS;
pub use measure::{
    Embedding, Encoded, EncodedShape, Gather, Latents, Measure, MeasureShape, Paired, PairedShape,
    Pairs, Projector, Reading, Scored, ScoredShape, Stepped, SteppedShape, Valued, ValuedShape,
    View, check_discount,
};
pub use mlp::{Initialization, Mlp, Network};
pub use policy::{Law, Policy, PolicyShape};
