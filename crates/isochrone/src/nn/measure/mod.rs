//! The forms that a learned distance takes: which networks it is made of and how it is read.
//!
//! Each form is one file with its networks, what they add to a program, and how a trained one is
//! read. Reading embeds every state once; a distance is then a matter of two latent rows.

mod encoded;
mod paired;
mod scored;
mod several;
mod stepped;
mod valued;
mod view;

use serde::{Deserialize, Serialize};

pub use encoded::{Encoded, EncodedShape};
pub use paired::{Paired, PairedShape};
pub use scored::{Scored, ScoredShape};
use several::Several;
pub use stepped::{Projector, Stepped, SteppedShape};
pub use valued::{Reading, Valued, ValuedShape};
pub use view::{Embedding, Gather, Latents, Measure, Pairs, View};
use view::{for_pairs, read, shown};

use crate::engine::{ArenaId, Parameters};
use crate::error::{Error, Result};

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
    /// The mean of several distances of one form.
    Several {
        /// How many.
        members: usize,
        /// Their form: `encoded`, `stepped` or `scored`.
        of: Box<MeasureShape>,
    },
}

impl MeasureShape {
    /// The mean of several distances of this form; one is itself.
    pub fn several(self, members: usize) -> Self {
        if members == 1 { self } else { Self::Several { members, of: Box::new(self) } }
    }

    /// Adds the networks of this form to `arena`, for states, their critics' goals and actions of these
    /// sizes.
    pub fn build(
        &self,
        parameters: &mut Parameters,
        arena: ArenaId,
        sizes: (usize, usize, usize),
    ) -> Box<dyn Measure> {
        let whole = (sizes.0, sizes.2);
        match self {
            Self::Encoded(shape) => Box::new(Encoded::new(parameters, arena, shape, whole)),
            Self::Paired(shape) => Box::new(Paired::new(parameters, arena, shape, whole)),
            Self::Stepped(shape) => Box::new(Stepped::new(parameters, arena, shape, whole)),
            Self::Scored(shape) => Box::new(Scored::new(parameters, (arena, arena), shape, sizes)),
            Self::Valued(shape) => Box::new(Valued::new(parameters, arena, shape, sizes)),
            Self::Several { members, of } => {
                let members = (0..*members).map(|_| of.build(parameters, arena, sizes)).collect();
                Box::new(Several { members })
            }
        }
    }

    /// Checks that the parts fit together, as a file may say anything.
    ///
    /// # Errors
    /// Names what does not fit.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Encoded(shape) => {
                check_positive("temperature", shape.temperature)?;
                shape.network.check("network")?;
                shape.head.check()
            }
            Self::Paired(shape) => {
                check_count("critics", shape.critics)?;
                check_positive("scale", shape.scale)?;
                shape.network.check("network")?;
                shape.head.check()
            }
            Self::Stepped(shape) => {
                check_positive("nats", shape.nats)?;
                shape.network.check("network")?;
                shape.projector.iter().try_for_each(Projector::check)?;
                shape.dynamics.iter().try_for_each(|dynamics| dynamics.check("dynamics"))?;
                shape.head.check()
            }
            Self::Scored(shape) => {
                check_positive("temperature", shape.temperature)?;
                check_positive("latent", shape.latent as f64)?;
                shape.network.check("network")
            }
            Self::Valued(shape) => {
                let most = shape.state_values.max(shape.action_values);
                check_count("the larger of state_values and action_values", most)?;
                check_positive("representation", shape.representation.unwrap_or(1) as f64)?;
                if let Reading::Steps { discount } = shape.reading {
                    check_discount(discount)?;
                }
                shape.network.check("network")
            }
            Self::Several { members, of } => {
                check_count("members", *members)?;
                match **of {
                    Self::Encoded(_) | Self::Stepped(_) | Self::Scored(_) => of.check(),
                    Self::Paired(_) | Self::Valued(_) | Self::Several { .. } => Err(Error::input(
                        "`several` are of another form, expected `encoded`, `stepped` or `scored`",
                    )),
                }
            }
        }
    }

    /// The most values that a hidden layer has of one state.
    pub fn widest(&self) -> usize {
        let network = match self {
            Self::Encoded(shape) => &shape.network,
            Self::Paired(shape) => &shape.network,
            Self::Stepped(shape) => &shape.network,
            Self::Scored(shape) => &shape.network,
            Self::Valued(shape) => &shape.network,
            Self::Several { of, .. } => return of.widest(),
        };
        network.hidden.iter().copied().max().unwrap_or(0)
    }

    /// Whether reading the distance of two states takes stored actions.
    pub fn stores_actions(&self) -> bool {
        match self {
            Self::Encoded(shape) => shape.with_action,
            Self::Paired(_) | Self::Stepped(_) => false,
            Self::Scored(shape) => shape.with_action,
            Self::Valued(shape) => shape.state_values == 0,
            Self::Several { of, .. } => of.stores_actions(),
        }
    }

    /// Whether the triangle inequality holds by construction.
    pub fn is_quasimetric(&self) -> bool {
        match self {
            Self::Encoded(_) | Self::Paired(_) | Self::Stepped(_) => true,
            Self::Scored(_) | Self::Valued(_) => false,
            Self::Several { of, .. } => of.is_quasimetric(),
        }
    }
}

/// Networks of one kind that a distance may have.
pub(crate) const MOST_NETWORKS: usize = 16;

fn check_count(key: &str, found: usize) -> Result<()> {
    if (1..=MOST_NETWORKS).contains(&found) {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{found}`, expected 1 to {MOST_NETWORKS}")))
}

/// Checks a number that distances are multiplied or divided by.
fn check_positive(key: &str, found: f64) -> Result<()> {
    if found > 0.0 && (found as f32).is_normal() {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{found}`, expected a positive number")))
}

/// Checks γ.
///
/// # Errors
/// It is not between 0 and 1.
pub fn check_discount(discount: f64) -> Result<()> {
    if (f64::MIN_POSITIVE..1.0).contains(&discount) {
        return Ok(());
    }
    let expected = "a number above 0 and below 1";
    Err(Error::input(format!("`discount` is `{discount}`, expected {expected}"))
        .hint("0.95 looks about 20 steps ahead, 0.99 about 100"))
}
