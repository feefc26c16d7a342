//! Paths from distances: greedy steps in a ball, shortest paths over data states.
//!
//! Greedy moves to the candidate near by with the least d(candidate, goal). The graph has data
//! states as nodes and an edge (u, v) of length d(u, v) only where that is short *and* a recorded
//! trajectory goes from u to v within a few rows: a learned distance alone finds short-cuts through
//! walls. Every answer says how far start and goal are from the data, and why it ends where it does;
//! [`Doubts`] are what speaks against following it.

mod cover;
mod doubts;
mod graph;
mod greedy;
mod kept;
mod path;
mod roadmap;
mod shortest;

pub use doubts::{Doubts, Gap};
pub(crate) use graph::KeptMap;
pub use graph::{Graph, GraphSettings, Tree};
pub use greedy::{Ball, Greedy};
pub use path::{Distance, Hop, Novelty, Path, PathEnding};
use path::{check_state, squared_gap};
pub use roadmap::Longest;

#[cfg(test)]
pub(crate) mod toy {
    use super::Distance;

    /// A distance in closed form.
    pub(crate) struct Toy<F: Fn(&[f32], &[f32]) -> f32 + Sync> {
        pub(crate) size: usize,
        pub(crate) steps: F,
    }

    impl<F: Fn(&[f32], &[f32]) -> f32 + Sync> Distance for Toy<F> {
        type Embedded = Vec<f32>;

        fn state_size(&self) -> usize {
            self.size
        }

        fn embed(&self, states: &[f32]) -> Vec<f32> {
            states.to_vec()
        }

        fn pairwise(&self, from: &Vec<f32>, to: &Vec<f32>) -> Vec<f32> {
            let rows = from.chunks_exact(self.size);
            rows.flat_map(|x| to.chunks_exact(self.size).map(move |y| (self.steps)(x, y))).collect()
        }

        fn of_pairs(&self, states: &Vec<f32>, pairs: &[(usize, usize)]) -> Vec<f32> {
            let state = |row: usize| &states[row * self.size..][..self.size];
            pairs.iter().map(|&(from, to)| (self.steps)(state(from), state(to))).collect()
        }

        /// The largest coordinate's excess over 10.
        fn novelty(&self, states: &[f32]) -> Vec<f32> {
            let excess = |state: &[f32]| state.iter().fold(0.0, |far: f32, x| far.max(x - 10.0));
            states.chunks_exact(self.size).map(excess).collect()
        }
    }

    pub(crate) fn euclid(from: &[f32], to: &[f32]) -> f32 {
        super::squared_gap(from, to).sqrt()
    }
}
