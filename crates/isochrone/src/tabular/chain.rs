//! A Markov chain: a process without choice. Its occupancy, its distance, its hitting times.
//!
//! p(g|s) = (1 − γ) Σ_{k ≥ 0} γ^k P(s_k = g | s_0 = s), d(s, g) = ln p(g|g) / p(g|s) = −ln E γ^H.
//! The offsets begin at 0: begun at 1 (as much public code samples them) the same ratio is negative
//! somewhere and breaks the triangle inequality for most chains.

use super::elimination;
use super::exact::Solver;
use super::matrix::Matrix;
use super::process::{DecisionProcess, Transition};
use crate::error::Result;

/// The largest chain whose distances come from one elimination; larger ones go goal by goal.
const LARGEST_ELIMINATION: usize = 1024;

/// Occupancies below this may have lost digits to underflow.
const SMALLEST_OCCUPANCY: f64 = 1e-250;

/// The first offset k that the occupancy counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstOffset {
    /// k ≥ 0: the start itself counts. The law under which the distance is a quasimetric.
    Zero,
    /// k ≥ 1: (1 − γ) Σ γ^{k−1} P(s_k = g). A counter-example, kept to compare with others.
    One,
}

/// A Markov chain with finitely many states and a discount.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    process: DecisionProcess,
}

impl Chain {
    /// Builds a chain by asking `row(state, next)` to push (next state, probability).
    ///
    /// # Errors
    /// As [`DecisionProcess::from_rows`]; the action named in it is 0.
    pub fn from_rows(
        states: usize,
        discount: f64,
        mut row: impl FnMut(usize, &mut Vec<(usize, f64)>),
    ) -> Result<Self> {
        let row = |state: usize, _: usize, next: &mut Vec<(usize, f64)>| row(state, next);
        Ok(Self { process: DecisionProcess::from_rows(states, 1, discount, row)? })
    }

    /// Builds a chain from its full table, states × states, by rows.
    ///
    /// # Errors
    /// As [`DecisionProcess::from_dense`].
    pub fn from_dense(states: usize, discount: f64, probabilities: &[f64]) -> Result<Self> {
        Ok(Self { process: DecisionProcess::from_dense(states, 1, discount, probabilities)? })
    }

    /// Builds a chain from a list of moves, whose actions must be 0.
    ///
    /// # Errors
    /// As [`DecisionProcess::from_transitions`].
    pub fn from_transitions(
        states: usize,
        discount: f64,
        transitions: &[Transition],
    ) -> Result<Self> {
        Ok(Self { process: DecisionProcess::from_transitions(states, 1, discount, transitions)? })
    }

    /// The chain as a process with one action.
    pub fn as_process(&self) -> &DecisionProcess {
        &self.process
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.process.states()
    }

    /// The discount γ, in (0, 1).
    pub fn discount(&self) -> f64 {
        self.process.discount()
    }

    /// The same chain with another discount.
    ///
    /// # Errors
    /// A discount outside (0, 1).
    pub fn with_discount(self, discount: f64) -> Result<Self> {
        Ok(Self { process: self.process.with_discount(discount)? })
    }

    /// The next states of `state` and their probabilities.
    pub fn next(&self, state: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.process.next(state, 0)
    }

    /// The discounted occupancy p(to | from): every row sums to one.
    ///
    /// Takes states² numbers and states³ steps.
    pub fn occupancy(&self, first: FirstOffset) -> Matrix {
        let size = self.states();
        let discount = self.discount();
        let mut flow = vec![0.0; size * size];
        for state in 0..size {
            for (to, probability) in self.next(state) {
                flow[state * size + to] = discount * probability;
            }
        }
        let begin = |from: usize, to: usize| match first {
            FirstOffset::Zero => f64::from(from == to),
            FirstOffset::One => flow[from * size + to] / discount,
        };
        let right = Matrix::from_fn(size, |from, to| (1.0 - discount) * begin(from, to));
        let leak = vec![1.0 - discount; size];
        let occupancy = elimination::solve(flow, leak, right.as_slice().to_vec());
        Matrix::from_fn(size, |from, to| occupancy[from * size + to])
    }

    /// ln p(to|to) / p(to|from), from the occupancy of the given offsets; +∞ where p(to|from) = 0.
    ///
    /// With [`FirstOffset::Zero`] this is the successor distance as the paper defines it (for
    /// occupancies that do not underflow; [`Self::distances`] has no such limit). With
    /// [`FirstOffset::One`] it is no quasimetric.
    pub fn occupancy_ratios(&self, first: FirstOffset) -> Matrix {
        let occupancy = self.occupancy(first);
        Matrix::from_fn(self.states(), |from, to| match occupancy.between(from, to) {
            0.0 => f64::INFINITY,
            reached => occupancy.between(to, to).ln() - reached.ln(),
        })
    }

    /// The distance in nats from every state to the set `goals`: −ln E γ^H.
    ///
    /// 0 inside the set, +∞ exactly where it cannot be reached, accurate to 1e-12 · max(1, d).
    pub fn distances_to(&self, goals: &[usize]) -> Vec<f64> {
        self.process.distances_to(goals)
    }

    /// The distances in nats between all states.
    pub fn distances(&self) -> Matrix {
        let size = self.states();
        if size > LARGEST_ELIMINATION {
            return self.process.distances();
        }
        let occupancy = self.occupancy(FirstOffset::Zero);
        let solver = Solver::new(&self.process);
        let column = |goal: usize| {
            let reached = |from: usize| occupancy.between(from, goal);
            let (sources, _) = solver.outward_from(&[goal]);
            if sources.iter().any(|&from| reached(from) < SMALLEST_OCCUPANCY) {
                return solver.distances_to(&[goal]);
            }
            let itself = occupancy.between(goal, goal).ln();
            let distance =
                |from: usize| if from == goal { 0.0 } else { itself - reached(from).ln() };
            (0..size).map(distance).collect()
        };
        Matrix::from_columns(&(0..size).map(column).collect::<Vec<_>>())
    }

    /// The expected number of steps from every state to `goal`; +∞ where it may never be reached.
    ///
    /// It satisfies the triangle inequality, and the distance in steps is never above it.
    pub fn hitting_times_to(&self, goal: usize) -> Vec<f64> {
        let certain = self.certain_to_reach(goal);
        let places: Vec<usize> =
            (0..self.states()).filter(|&state| certain[state] && state != goal).collect();
        let mut index = vec![usize::MAX; self.states()];
        for (place, &state) in places.iter().enumerate() {
            index[state] = place;
        }
        let size = places.len();
        let (mut flow, mut leak) = (vec![0.0; size * size], vec![0.0; size]);
        for (place, &state) in places.iter().enumerate() {
            for (to, probability) in self.next(state) {
                if to == goal {
                    leak[place] = probability;
                } else {
                    flow[place * size + index[to]] = probability;
                }
            }
        }
        let solved = elimination::solve(flow, leak, vec![1.0; size]);
        let mut times = vec![f64::INFINITY; self.states()];
        times[goal] = 0.0;
        for (&state, time) in places.iter().zip(solved) {
            times[state] = time;
        }
        times
    }

    /// The states from which `goal` is reached with probability one.
    fn certain_to_reach(&self, goal: usize) -> Vec<bool> {
        let mut certain = vec![false; self.states()];
        for state in Solver::new(&self.process).outward_from(&[goal]).0 {
            certain[state] = true;
        }
        // A way to a state that is not certain makes its start uncertain, unless it passes the goal.
        loop {
            let lost = |&state: &usize| {
                certain[state] && state != goal && self.next(state).any(|(to, _)| !certain[to])
            };
            let lost: Vec<usize> = (0..self.states()).filter(lost).collect();
            if lost.is_empty() {
                return certain;
            }
            lost.iter().for_each(|&state| certain[state] = false);
        }
    }
}

impl DecisionProcess {
    /// The chain of states under a fixed policy π(a | s).
    ///
    /// # Shapes
    /// `policy` is states × actions, by rows.
    ///
    /// # Errors
    /// Names the state whose probabilities do not sum to one or choose an action that is not there.
    pub fn chain_under(&self, policy: &[f64]) -> Result<Chain> {
        self.check_policy(policy)?;
        Chain::from_rows(self.states(), self.discount(), |state, next| {
            for action in 0..self.actions() {
                let chosen = policy[state * self.actions() + action];
                next.extend(self.next(state, action).map(|(to, p)| (to, chosen * p)));
            }
        })
    }

    /// The chain of (state, action) pairs under a fixed policy: P(s'|s,a) π(a'|s').
    ///
    /// Its occupancy and its distance are those of the data that the policy records, over the
    /// pairs of [`Self::pairs`].
    ///
    /// # Errors
    /// As [`Self::chain_under`].
    pub fn pair_chain_under(&self, policy: &[f64]) -> Result<Chain> {
        self.check_policy(policy)?;
        let pairs = self.pairs();
        let mut first_pair = vec![0; self.states() + 1];
        for &(state, _) in &pairs {
            first_pair[state + 1] += 1;
        }
        for state in 0..self.states() {
            first_pair[state + 1] += first_pair[state];
        }
        Chain::from_rows(pairs.len(), self.discount(), |pair, next| {
            let (state, action) = pairs[pair];
            for (to, p) in self.next(state, action) {
                let reached = first_pair[to]..first_pair[to + 1];
                let chosen = |pair: usize| policy[to * self.actions() + pairs[pair].1];
                next.extend(reached.map(|pair| (pair, p * chosen(pair))));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tabular::steps;

    #[test]
    fn rows_of_the_occupancy_sum_to_one_for_both_laws() {
        let chain =
            Chain::from_dense(3, 0.9, &[0.2, 0.8, 0.0, 0.0, 0.5, 0.5, 1.0, 0.0, 0.0]).unwrap();
        for first in [FirstOffset::Zero, FirstOffset::One] {
            let occupancy = chain.occupancy(first);
            for state in 0..3 {
                assert!((occupancy.row(state).iter().sum::<f64>() - 1.0).abs() < 1e-14);
            }
        }
        // p₀ = (1 − γ) δ + γ p₁.
        let (zero, one) = (chain.occupancy(FirstOffset::Zero), chain.occupancy(FirstOffset::One));
        for (from, to) in [(0, 0), (0, 2), (2, 1)] {
            let expected = 0.1 * f64::from(u8::from(from == to)) + 0.9 * one.between(from, to);
            assert!((zero.between(from, to) - expected).abs() < 1e-15);
        }
    }

    #[test]
    fn distances_whose_occupancy_underflows_are_still_exact() {
        // Forward with ½, else stay: E γ^H = (γ/2 / (1 − γ/2))^hops, 1e-3 a step.
        let (length, discount) = (400, 2e-3f64);
        let chain = Chain::from_rows(length, discount, |state, next| {
            next.push((state, 0.5));
            next.push(((state + 1).min(length - 1), 0.5));
        })
        .unwrap();
        let distances = chain.distances();
        let step = -(0.5 * discount / (1.0 - 0.5 * discount)).ln();
        for from in 0..length {
            let exact = (length - 1 - from) as f64 * step;
            let found = distances.between(from, length - 1);
            assert!((found - exact).abs() <= 1e-12 * exact.max(1.0), "{from}: {found} {exact}");
            assert!(from == 0 || distances.between(from, 0).is_infinite());
        }
        assert!(chain.occupancy(FirstOffset::Zero).between(0, length - 1) == 0.0);
        assert!(steps(distances.between(0, length - 1), discount) > length as f64 - 1.0);
    }

    #[test]
    fn a_chain_too_large_for_elimination_gives_the_same_kind_of_answer() {
        let size = LARGEST_ELIMINATION + 1;
        let ring = Chain::from_rows(size, 0.99, |state, next| next.push(((state + 1) % size, 1.0)));
        let distances = ring.unwrap().distances();
        for (from, to) in [(0, size - 1), (size - 1, 0), (5, 4)] {
            let moves = (to + size - from) % size;
            assert!((steps(distances.between(from, to), 0.99) / moves as f64 - 1.0).abs() < 1e-12);
        }
    }
}
