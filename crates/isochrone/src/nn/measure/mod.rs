//! The forms that a learned distance takes: which networks it is made of and how it is read.
//!
//! Each form is one file with its networks, what they add to a program, and how a trained one is
//! read. Reading embeds every state once; a distance is then a matter of two latent rows.

mod encoded;
mod paired;
mod scored;
mod stepped;
mod valued;

use serde::{Deserialize, Serialize};

pub use encoded::{Encoded, EncodedShape};
pub use paired::{Paired, PairedShape};
pub use scored::{Scored, ScoredShape};
pub use stepped::{Stepped, SteppedShape};
pub use valued::{Reading, Valued, ValuedShape};

use super::Head;
use crate::engine::{ArenaId, Parameters, Threads};
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

/// What a trained distance is read with.
pub struct View<'a> {
    /// Threads for the products.
    pub threads: &'a Threads,
    /// The numbers of the form's arena.
    pub numbers: &'a [f32],
    /// Stored actions, row after row; empty where none are needed.
    pub actions: &'a [f32],
    /// Numbers of a state.
    pub state_size: usize,
    /// Numbers of an action.
    pub action_size: usize,
}

impl View<'_> {
    /// Each stored action, or once nothing.
    fn stored(&self) -> Vec<&[f32]> {
        if self.actions.is_empty() {
            return vec![&[]];
        }
        self.actions.chunks_exact(self.action_size).collect()
    }

    /// Every state with the same numbers beside it.
    fn beside(&self, states: &[f32], same: &[f32]) -> Vec<f32> {
        let rows = states.chunks_exact(self.state_size);
        rows.flat_map(|state| state.iter().chain(same)).copied().collect()
    }

    /// Every state with the action of its row beside it; the states alone where there are none.
    fn with(&self, states: &[f32], actions: Option<&[f32]>) -> Vec<f32> {
        let Some(actions) = actions else { return states.to_vec() };
        let rows = states.chunks_exact(self.state_size).zip(actions.chunks_exact(self.action_size));
        rows.flat_map(|(state, action)| state.iter().chain(action)).copied().collect()
    }
}

/// Rows of latent numbers.
#[derive(Debug, Clone)]
pub struct Latents {
    /// Numbers of a row.
    pub width: usize,
    /// Row after row.
    pub numbers: Vec<f32>,
}

impl Latents {
    fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.numbers.chunks_exact(self.width)
    }
}

/// States as one copy of a distance sees them.
#[derive(Debug, Clone)]
pub struct Embedding {
    /// As starts.
    pub from: Latents,
    /// As goals, where that differs.
    pub to: Option<Latents>,
}

impl Embedding {
    fn same(width: usize, numbers: Vec<f32>) -> Self {
        Self { from: Latents { width, numbers }, to: None }
    }

    /// As goals.
    pub fn to(&self) -> &Latents {
        self.to.as_ref().unwrap_or(&self.from)
    }
}

/// How the copies of a distance become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gather {
    /// Their mean.
    Mean,
    /// The largest.
    Largest,
}

/// Which pairs of rows are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// All, start by start.
    All,
    /// Corresponding rows.
    ByRow,
}

/// Reads a trained distance. States are normalized; distances are in nats.
pub trait Measure: Send + Sync {
    /// Embeds states, once for every copy of the distance.
    fn embed(&self, view: &View<'_>, states: &[f32]) -> Vec<Embedding>;

    /// Embeds states with the action taken in each as starts, once for every copy.
    fn start(&self, view: &View<'_>, states: &[f32], actions: &[f32]) -> Vec<Latents>;

    /// Writes the distances of one copy.
    fn measure(
        &self,
        view: &View<'_>,
        copy: usize,
        sides: (&Latents, &Latents),
        pairs: Pairs,
        out: &mut [f32],
    );

    /// How the copies become one distance.
    fn gather(&self) -> Gather {
        Gather::Mean
    }
}

/// Writes what a head says of the pairs asked for.
fn read(
    head: &Head,
    view: &View<'_>,
    (from, to): (&Latents, &Latents),
    pairs: Pairs,
    out: &mut [f32],
) {
    match pairs {
        Pairs::All => head.infer_pairs(view.numbers, &from.numbers, &to.numbers, out),
        Pairs::ByRow => head.infer_rows(view.numbers, &from.numbers, &to.numbers, out),
    }
}

/// Writes `distance` of the pairs asked for.
fn for_pairs(
    (from, to): (&Latents, &Latents),
    pairs: Pairs,
    out: &mut [f32],
    distance: impl Fn(&[f32], &[f32]) -> f32,
) {
    match pairs {
        Pairs::ByRow => {
            let rows = from.rows().zip(to.rows());
            out.iter_mut().zip(rows).for_each(|(out, (from, to))| *out = distance(from, to));
        }
        Pairs::All => {
            let all = from.rows().flat_map(|from| to.rows().map(move |to| (from, to)));
            out.iter_mut().zip(all).for_each(|(out, (from, to))| *out = distance(from, to));
        }
    }
}
