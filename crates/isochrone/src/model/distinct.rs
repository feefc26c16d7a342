//! States that a question names more than once.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// Rows of both lists after which the search ends if none was seen twice.
const TRIAL: usize = 2048;

/// The distinct states of a list of pairs, and which of them each pair has.
pub(super) struct Distinct {
    /// Each state once.
    pub states: Vec<f32>,
    /// The start and the goal of each pair, by their place among the states.
    pub pairs: Vec<(usize, usize)>,
}

/// A state, equal to another if its bits are.
struct State<'a>(&'a [f32]);

impl State<'_> {
    fn bits(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|value| value.to_bits())
    }
}

impl PartialEq for State<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.bits().eq(other.bits())
    }
}

impl Eq for State<'_> {}

impl Hash for State<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.bits().for_each(|bits| hasher.write_u32(bits));
    }
}

impl Distinct {
    /// The distinct states of the pairs of corresponding rows; `None` if more than three of four rows
    /// are distinct.
    pub fn of(from: &[f32], to: &[f32], size: usize) -> Option<Self> {
        let rows = from.len() / size;
        let most = 2 * rows * 3 / 4;
        let mut places = HashMap::new();
        let mut found = Self { states: Vec::new(), pairs: Vec::with_capacity(rows) };
        for (from, to) in from.chunks_exact(size).zip(to.chunks_exact(size)) {
            let [from, to] = [from, to].map(|state| {
                let next = places.len();
                *places.entry(State(state)).or_insert_with(|| {
                    found.states.extend_from_slice(state);
                    next
                })
            });
            found.pairs.push((from, to));
            let seen = 2 * found.pairs.len();
            if places.len() > most || seen == TRIAL && places.len() == seen {
                return None;
            }
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_states_are_found_by_their_bits() {
        let found = Distinct::of(&[1.0, 2.0, 0.0, 1.0], &[2.0, 2.0, -0.0, 2.0], 1).unwrap();
        assert_eq!(found.states, [1.0, 2.0, 0.0, -0.0]);
        assert_eq!(found.pairs, [(0, 1), (1, 1), (2, 3), (0, 1)]);
        let other = Distinct::of(&[1.0, 2.0, 1.0, 2.0], &[1.0, 2.0, 1.0, 3.0], 2).unwrap();
        assert_eq!((other.states, other.pairs), (vec![1.0, 2.0, 1.0, 3.0], vec![(0, 0), (0, 1)]));
    }

    #[test]
    fn too_few_repetitions_are_not_worth_it() {
        assert!(Distinct::of(&[1.0, 2.0], &[3.0, 1.0], 1).is_some());
        assert!(Distinct::of(&[1.0, 2.0], &[3.0, 4.0], 1).is_none());
        let numbers = |from: usize| (from..from + 2000).map(|x| x as f32).collect::<Vec<_>>();
        // All of the first rows differ, though later ones do not.
        let starts = [numbers(0), vec![0.0; 9000]].concat();
        let goals = [numbers(5000), vec![0.0; 9000]].concat();
        assert!(Distinct::of(&starts, &goals, 1).is_none());
    }
}
