//! A model's distances between embedded states.

use rayon::prelude::*;

use super::Model;
use super::blocks::{BLOCK, in_blocks};
use super::embedded::{Embedded, PAIRS};
use crate::data::Normalization;
use crate::engine::{Wide, wide};
use crate::error::Result;
use crate::nn::{Embedding, Gather, Latents, Measure, MeasureShape, Pairs, View};

/// Writes what networks see of states, for the machine's vectors.
struct Normalizing<'a> {
    normalization: &'a Normalization,
    states: &'a [f32],
    normalized: &'a mut [f32],
    /// Values per state, as recorded and as seen.
    size: usize,
    width: usize,
}

impl Wide for Normalizing<'_> {
    #[inline(always)]
    fn run(self) {
        let targets = self.normalized.chunks_exact_mut(self.width);
        for (state, target) in self.states.chunks_exact(self.size).zip(targets) {
            self.normalization.apply(state, target);
        }
    }
}

impl Model {
    pub(super) fn normalized(&self, states: &[f32]) -> Vec<f32> {
        let (size, width) = (self.shape.state_size, self.shape.normalization.width());
        let mut normalized = vec![0.0; states.len() / size * width];
        let normalization = &self.shape.normalization;
        wide(Normalizing { normalization, states, normalized: &mut normalized, size, width });
        normalized
    }

    /// The distance and what it is read with.
    ///
    /// # Panics
    /// Where there is none: whoever has an [`Embedded`] has asked [`Model::need_distance`].
    pub(super) fn measure(&self) -> (&dyn Measure, View<'_>) {
        let (measure, numbers) = self.distance.as_ref().expect("a model with a distance");
        let view = View {
            threads: &self.threads,
            numbers,
            actions: &self.stored_actions,
            state_size: self.shape.normalization.width(),
            action_size: self.shape.action_size,
            goal_places: self.shape.normalization.critic_goal_places(),
            precise: false,
        };
        (&**measure, view)
    }

    /// Embeds states, row after row.
    ///
    /// # Errors
    /// Values that are not whole rows; a model without a distance.
    pub fn embed(&self, states: &[f32]) -> Result<Embedded> {
        self.need_distance()?;
        let rows = Self::rows("states", states, self.shape.state_size)?;
        Ok(self.embed_seen(rows, &self.normalized(states)))
    }

    /// Bytes that an embedded state takes: its latent rows, once more while they are compared, and
    /// what a network reads and writes while it is embedded.
    ///
    /// # Errors
    /// A model without a distance.
    pub(crate) fn bytes_per_state(&self) -> Result<u64> {
        let one = self.embed(&vec![0.0; self.shape.state_size])?;
        let sides = |copy: &Embedding| [copy.from.width, copy.to.as_ref().map_or(0, |to| to.width)];
        let latent: usize = one.copies.iter().flat_map(sides).sum();
        let widest = self.shape.distance.as_ref().map_or(0, MeasureShape::widest);
        let seen = self.shape.normalization.width() + self.shape.action_size;
        let at_once = one.copies.iter().flat_map(sides).fold(widest.max(seen), usize::max);
        Ok(size_of::<f32>() as u64 * (2 * (latent + seen + at_once)) as u64)
    }

    /// As [`Model::embed`], in double precision rounded at the end: distances between such states are
    /// right to a millionth of the largest. Takes several times as long.
    ///
    /// # Errors
    /// As [`Model::embed`].
    pub fn embed_precisely(&self, states: &[f32]) -> Result<Embedded> {
        self.need_distance()?;
        let rows = Self::rows("states", states, self.shape.state_size)?;
        let (measure, view) = self.measure();
        let view = View { precise: true, ..view };
        Ok(Embedded { rows, copies: measure.embed(&view, &self.normalized(states)) })
    }

    /// Embeds `rows` states, given what networks see of them.
    pub(super) fn embed_seen(&self, rows: usize, seen: &[f32]) -> Embedded {
        let (measure, view) = self.measure();
        Embedded { rows, copies: measure.embed(&view, seen) }
    }

    /// The distance in nats from every state of `from` to every state of `to`, row after row. Both
    /// must have been embedded by this model.
    pub fn pairwise(&self, from: &Embedded, to: &Embedded) -> Vec<f32> {
        let mut all = vec![0.0; from.rows * to.rows];
        self.write_pairs(from, to, &mut all);
        all
    }

    /// Writes the distances of all pairs into `all`, which has room for each.
    pub(super) fn write_pairs(&self, from: &Embedded, to: &Embedded, all: &mut [f32]) {
        let block = (PAIRS / to.rows.max(1)).max(1);
        let write = |(part, out): (usize, &mut [f32])| {
            let rows = part * block..from.rows.min((part + 1) * block);
            let starts: Vec<Latents> =
                from.copies.iter().map(|copy| copy.from.part(&rows)).collect();
            let starts: Vec<&Latents> = starts.iter().collect();
            out.copy_from_slice(&self.gather(out.len(), &starts, to, Pairs::All));
        };
        if from.rows <= block {
            return write((0, all));
        }
        all.par_chunks_mut(block * to.rows.max(1)).enumerate().for_each(write);
    }

    /// The distance in nats from each state of `from` to the goal of its row, or to the one goal.
    ///
    /// # Errors
    /// Neither as many goals as states nor one.
    pub fn between(&self, from: &Embedded, to: &Embedded) -> Result<Vec<f32>> {
        let starts: Vec<&Latents> = from.copies.iter().map(|copy| &copy.from).collect();
        self.to_goals(from.rows, &starts, to)
    }

    /// The distances in nats of some pairs of embedded states, each given by its two rows.
    pub(crate) fn of_pairs(&self, states: &Embedded, pairs: &[(usize, usize)]) -> Vec<f32> {
        let measured = in_blocks(pairs.len(), BLOCK, |block| {
            let (from, to): (Vec<_>, Vec<_>) = pairs[block].iter().copied().unzip();
            self.between(&states.at(&from), &states.at(&to))
        });
        measured.unwrap_or_default().concat()
    }

    pub(super) fn to_goals(
        &self,
        rows: usize,
        from: &[&Latents],
        to: &Embedded,
    ) -> Result<Vec<f32>> {
        Self::matched(rows, to.rows)?;
        let pairs = if to.rows == rows { Pairs::ByRow } else { Pairs::All };
        Ok(self.gather(rows, from, to, pairs))
    }

    fn gather(&self, count: usize, from: &[&Latents], to: &Embedded, pairs: Pairs) -> Vec<f32> {
        let (measure, view) = self.measure();
        let mut all = vec![0.0; count];
        let mut one = vec![0.0; count];
        for (at, (from, to)) in from.iter().zip(&to.copies).enumerate() {
            measure.measure(&view, at, (from, to.to()), pairs, &mut one);
            match (at, measure.gather()) {
                (0, _) => all.copy_from_slice(&one),
                (_, Gather::Mean) => all.iter_mut().zip(&one).for_each(|(all, &d)| *all += d),
                (_, Gather::Largest) => {
                    all.iter_mut().zip(&one).for_each(|(all, &d)| *all = all.max(d));
                }
            }
        }
        if measure.gather() == Gather::Mean {
            let share = 1.0 / from.len() as f32;
            all.iter_mut().for_each(|d| *d *= share);
        }
        all
    }
}
