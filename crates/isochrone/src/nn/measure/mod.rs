//! The forms that a learned distance takes: which networks it is made of and how it is read.
//!
//! Each form is one file with its networks, what they add to a program, and how a trained one is
//! read. Reading embeds every state once; a distance is then a matter of two latent rows.

mod encoded;
mod paired;
mod scored;
mod stepped;
mod valued;
mod view;

use serde::{Deserialize, Serialize};

pub use encoded::{Encoded, EncodedShape};
pub use paired::{Paired, PairedShape};
pub use scored::{Scored, ScoredShape};
pub use stepped::{Stepped, SteppedShape};
pub use valued::{Reading, Valued, ValuedShape};
pub use view::{Embedding, Gather, Latents, Measure, Pairs, View};
use view::{for_pairs, read};

use crate::engine::{ArenaId, Parameters};
use crate::error::Result;

/// Which form a distance has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "kebab-case")]
pub enum MeasureShape {
    /// One encoder of states, or of states with actions, and a quasimetric head.
    Encoded(EncodedShape),
    /// An encoder of starts with their actions, one of states, and a quasimetric head.
    Paired(PairedShape),
    /// One encoder of states, a quasimetric head, and a latent step by an action.
    Stepped(SteppedShape),
    /// Inner products of two encoders.
    Scored(ScoredShape),
    /// A network over start and goal together.
    Valued(ValuedShape),
}

impl MeasureShape {
    /// Adds the networks of this form to `arena`, for states and actions of these sizes.
    pub fn build(
        &self,
        parameters: &mut Parameters,
        arena: ArenaId,
        sizes: (usize, usize),
    ) -> Box<dyn Measure> {
        match self {
            Self::Encoded(shape) => Box::new(Encoded::new(parameters, arena, shape, sizes)),
            Self::Paired(shape) => Box::new(Paired::new(parameters, arena, shape, sizes)),
            Self::Stepped(shape) => Box::new(Stepped::new(parameters, arena, shape, sizes)),
            Self::Scored(shape) => Box::new(Scored::new(parameters, (arena, arena), shape, sizes)),
            Self::Valued(shape) => Box::new(Valued::new(parameters, arena, shape, sizes)),
        }
    }

    /// Checks that the parts fit together, as a file may say anything.
    ///
    /// # Errors
    /// Names what does not fit.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Encoded(shape) => shape.head.check(),
            Self::Paired(shape) => shape.head.check(),
            Self::Stepped(shape) => shape.head.check(),
            Self::Scored(_) | Self::Valued(_) => Ok(()),
        }
    }

    /// Whether reading the distance of two states takes stored actions.
    pub fn stores_actions(&self) -> bool {
        match self {
            Self::Encoded(shape) => shape.with_action,
            Self::Paired(_) | Self::Stepped(_) => false,
            Self::Scored(shape) => shape.with_action,
            Self::Valued(shape) => shape.state_values == 0,
        }
    }

    /// Whether the triangle inequality holds by construction.
    pub fn is_quasimetric(&self) -> bool {
        matches!(self, Self::Encoded(_) | Self::Paired(_) | Self::Stepped(_))
    }
}
