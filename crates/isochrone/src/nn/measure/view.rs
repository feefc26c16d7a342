//! How a trained distance is read, whatever its form.

use std::borrow::Cow;
use std::ops::Range;

use crate::data::sampler::{Column, RowsId};
use crate::engine::Threads;
use crate::nn::{Head, Mlp};

/// What a trained distance is read with.
pub struct View<'a> {
    /// Threads for the products.
    pub threads: &'a Threads,
    /// The numbers of the form's arena.
    pub numbers: &'a [f32],
    /// Stored actions, row after row; empty where none are needed.
    pub actions: &'a [f32],
    /// Values per state.
    pub state_size: usize,
    /// Values per action.
    pub action_size: usize,
    /// The positions within a state that networks see of a goal; none if they see all of it.
    pub goal_places: Option<&'a [usize]>,
    /// Whether networks compute in double precision.
    pub precise: bool,
}

impl View<'_> {
    /// What `network` makes of the rows of `inputs`.
    pub(super) fn infer(&self, network: &Mlp, inputs: &[f32]) -> Vec<f32> {
        match self.precise {
            true => network.infer_precisely(self.numbers, inputs),
            false => network.infer(self.threads, self.numbers, inputs),
        }
    }

    /// What networks that take goals are shown of these states.
    pub(super) fn shown<'s>(&self, states: &'s [f32]) -> Cow<'s, [f32]> {
        let Some(places) = self.goal_places else { return Cow::Borrowed(states) };
        let part = |state: &'s [f32]| places.iter().map(move |&place| state[place]);
        states.chunks_exact(self.state_size).flat_map(part).collect()
    }

    /// Each stored action, or once nothing.
    pub(super) fn stored(&self) -> Vec<&[f32]> {
        if self.actions.is_empty() {
            return vec![&[]];
        }
        self.actions.chunks_exact(self.action_size).collect()
    }

    /// Every state with the same numbers beside it.
    pub(super) fn beside(&self, states: &[f32], same: &[f32]) -> Vec<f32> {
        let rows = states.len() / self.state_size;
        let mut all = Vec::with_capacity(states.len() + rows * same.len());
        for state in states.chunks_exact(self.state_size) {
            all.extend_from_slice(state);
            all.extend_from_slice(same);
        }
        all
    }

    /// Every state with the action of its row beside it; the states alone where there are none.
    pub(super) fn with(&self, states: &[f32], actions: Option<&[f32]>) -> Vec<f32> {
        let Some(actions) = actions else { return states.to_vec() };
        let rows = states.chunks_exact(self.state_size).zip(actions.chunks_exact(self.action_size));
        rows.flat_map(|(state, action)| state.iter().chain(action)).copied().collect()
    }
}

/// Rows of latent numbers.
#[derive(Debug, Clone)]
pub struct Latents {
    /// Values per row.
    pub width: usize,
    /// Row after row.
    pub numbers: Vec<f32>,
}

impl Latents {
    pub(super) fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.numbers.chunks_exact(self.width)
    }

    /// Some of the rows, in this order.
    fn at(&self, rows: &[usize]) -> Self {
        let row = |&row: &usize| &self.numbers[row * self.width..][..self.width];
        Self { width: self.width, numbers: rows.iter().flat_map(row).copied().collect() }
    }

    /// Some of the rows.
    pub fn part(&self, rows: &Range<usize>) -> Self {
        let numbers = self.numbers[rows.start * self.width..rows.end * self.width].to_vec();
        Self { width: self.width, numbers }
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
    pub(super) fn same(width: usize, numbers: Vec<f32>) -> Self {
        Self { from: Latents { width, numbers }, to: None }
    }

    /// Some of the states, in this order.
    pub fn at(&self, rows: &[usize]) -> Self {
        Self { from: self.from.at(rows), to: self.to.as_ref().map(|to| to.at(rows)) }
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

/// What a network is shown of `rows` as goals: whole states, or a part of so many values.
pub(super) fn shown(rows: RowsId, part: Option<usize>) -> Column {
    part.map_or(Column::State(rows), |width| Column::Goal(rows, width))
}

/// Writes what a head says of the pairs asked for.
pub(super) fn read(
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
pub(super) fn for_pairs(
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
