//! The distances of a process: between states, after actions, between pairs of both.

use rayon::prelude::*;

use super::exact::Solver;
use super::matrix::Matrix;
use super::process::DecisionProcess;

impl DecisionProcess {
    /// The distance in nats from every state to the set `goals`, under the best policy.
    ///
    /// d(s) = −ln max E γ^H with H the first time in the set: 0 inside it, +∞ exactly where no
    /// policy can reach it, and accurate to 1e-12 · max(1, d).
    pub fn distances_to(&self, goals: &[usize]) -> Vec<f64> {
        Solver::new(self).distances_to(goals)
    }

    /// The distances in nats between all states, each under the best policy for its goal.
    pub fn distances(&self) -> Matrix {
        let solver = Solver::new(self);
        let columns: Vec<Vec<f64>> =
            (0..self.states()).into_par_iter().map(|goal| solver.distances_to(&[goal])).collect();
        Matrix::from_columns(&columns)
    }

    /// The distance to a goal after taking `action` in `state`: −ln γ Σ P(s'|s,a) e^{−d(s')}.
    ///
    /// `to_goal` are the distances of [`Self::distances_to`]. An action that is not available is
    /// at +∞. Inside the goal this is the distance of coming back, at least one step.
    pub fn action_distance(&self, state: usize, action: usize, to_goal: &[f64]) -> f64 {
        let nearest =
            self.next(state, action).map(|(to, _)| to_goal[to]).fold(f64::INFINITY, f64::min);
        if nearest == f64::INFINITY {
            return f64::INFINITY;
        }
        let mean: f64 =
            self.next(state, action).map(|(to, p)| p * (nearest - to_goal[to]).exp()).sum();
        nearest - self.discount().ln() - mean.ln()
    }

    /// [`Self::action_distance`] of all actions in all states: states × actions, by rows.
    pub fn action_distances(&self, to_goal: &[f64]) -> Vec<f64> {
        (0..self.states())
            .flat_map(|state| (0..self.actions()).map(move |action| (state, action)))
            .map(|(state, action)| self.action_distance(state, action, to_goal))
            .collect()
    }

    /// The action nearest to the goal in every state; the first available one where none reaches.
    pub fn greedy_actions(&self, to_goal: &[f64]) -> Vec<usize> {
        let nearest = |state: usize| {
            (0..self.actions())
                .filter(|&action| self.is_available(state, action))
                .min_by(|&left, &right| {
                    let left = self.action_distance(state, left, to_goal);
                    left.total_cmp(&self.action_distance(state, right, to_goal))
                })
                .expect("every state has an action")
        };
        (0..self.states()).map(nearest).collect()
    }

    /// The distances in nats between all (state, action) pairs of [`Self::pairs`].
    ///
    /// d((s, a), (g, a')) = −ln γ Σ P(s'|s,a) e^{−d(s', g)}, and 0 for the same pair. It does not
    /// depend on a' where s ≠ g; from (g, a) to (g, a') with a ≠ a' it is at least ln(1/γ).
    pub fn pair_distances(&self) -> Matrix {
        let pairs = self.pairs();
        let solver = Solver::new(self);
        let by_goal: Vec<Vec<f64>> = (0..self.states())
            .into_par_iter()
            .map(|goal| {
                let to_goal = solver.distances_to(&[goal]);
                pairs.iter().map(|&(s, a)| self.action_distance(s, a, &to_goal)).collect()
            })
            .collect();
        Matrix::from_fn(
            pairs.len(),
            |from, to| {
                if from == to { 0.0 } else { by_goal[pairs[to].0][from] }
            },
        )
    }
}
