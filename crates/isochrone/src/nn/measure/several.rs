//! The mean of several distances of one form, each with networks of its own; a mean of quasimetrics is
//! one.

use super::view::{Embedding, Latents, Measure, Pairs, View};

/// Distances of one form, whose mean counts.
pub struct Several {
    /// One after the other in the array.
    pub members: Vec<Box<dyn Measure>>,
}

impl Measure for Several {
    fn embed(&self, view: &View<'_>, states: &[f32]) -> Vec<Embedding> {
        self.members.iter().flat_map(|member| member.embed(view, states)).collect()
    }

    fn start(&self, view: &View<'_>, states: &[f32], actions: &[f32]) -> Vec<Latents> {
        self.members.iter().flat_map(|member| member.start(view, states, actions)).collect()
    }

    /// Copies are those of the first member, one for every stored action, then those of the next.
    fn measure(
        &self,
        view: &View<'_>,
        copy: usize,
        sides: (&Latents, &Latents),
        pairs: Pairs,
        out: &mut [f32],
    ) {
        let each = view.stored().len();
        self.members[copy / each].measure(view, copy % each, sides, pairs, out);
    }
}
