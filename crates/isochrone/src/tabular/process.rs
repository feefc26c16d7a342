//! A controlled Markov process with finitely many states and actions: P(s' | s, a) and γ.
//!
//! One storage for all sizes: the next states of each (state, action) in compressed rows, so a
//! noisy grid of 10⁴ states holds only its neighbours. An action without next states is not
//! available in that state. The exact distances are solved in `exact`.

use crate::error::{Error, Result};

/// How far a row of probabilities may be from one before it is refused.
pub(super) const ROW_TOLERANCE: f64 = 1e-9;

/// The smallest probability above zero; below it products would lose digits.
const SMALLEST_PROBABILITY: f64 = 1e-250;

/// One possible move: `action` in state `from` leads to state `to` with `probability`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Transition {
    /// The state it starts in.
    pub from: usize,
    /// The action taken there.
    pub action: usize,
    /// The state it leads to.
    pub to: usize,
    /// How likely that is, given `from` and `action`.
    pub probability: f64,
}

/// States, actions, the law of the next state, and a discount.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionProcess {
    states: usize,
    actions: usize,
    discount: f64,
    row_ends: Vec<usize>,
    targets: Vec<u32>,
    probabilities: Vec<f64>,
}

impl DecisionProcess {
    /// Builds a process by asking `row` for the next states of every (state, action).
    ///
    /// `row(state, action, next)` pushes pairs (next state, probability); a next state pushed
    /// twice counts with the sum, and pushing nothing says that the action is not available.
    /// Rows are scaled to sum to one exactly.
    ///
    /// # Errors
    /// Names the state and action whose probabilities are negative, not finite, lead nowhere or do
    /// not sum to one within 1e-9, and a state without actions.
    pub fn from_rows(
        states: usize,
        actions: usize,
        discount: f64,
        mut row: impl FnMut(usize, usize, &mut Vec<(usize, f64)>),
    ) -> Result<Self> {
        check_discount(discount)?;
        if states == 0 || actions == 0 || u32::try_from(states).is_err() {
            return Err(Error::input(format!(
                "{states} states and {actions} actions, expected at least one of each and at most \
                 {} states",
                u32::MAX
            )));
        }
        let mut process = Self {
            states,
            actions,
            discount,
            row_ends: Vec::new(),
            targets: Vec::new(),
            probabilities: Vec::new(),
        };
        let mut next = Vec::new();
        for state in 0..states {
            let before = process.targets.len();
            for action in 0..actions {
                next.clear();
                row(state, action, &mut next);
                process.push_row(state, action, &mut next)?;
            }
            if process.targets.len() == before {
                return Err(Error::input(format!("state `{state}` has no action"))
                    .hint("let a final state lead to itself with probability 1"));
            }
        }
        Ok(process)
    }

    /// Builds a process from a full table.
    ///
    /// # Shapes
    /// `probabilities` is states × actions × states: P(to | from, action) at
    /// (from · actions + action) · states + to. A row of zeros is an action that is not available.
    ///
    /// # Errors
    /// As [`Self::from_rows`], and a table of another size.
    pub fn from_dense(
        states: usize,
        actions: usize,
        discount: f64,
        probabilities: &[f64],
    ) -> Result<Self> {
        let expected = states.checked_mul(actions).and_then(|rows| rows.checked_mul(states));
        if expected != Some(probabilities.len()) {
            return Err(Error::input(format!(
                "{} probabilities, expected {states} states × {actions} actions × {states} states",
                probabilities.len()
            )));
        }
        Self::from_rows(states, actions, discount, |state, action, next| {
            let first = (state * actions + action) * states;
            next.extend(probabilities[first..first + states].iter().copied().enumerate());
        })
    }

    /// Builds a process from a list of moves, in any order.
    ///
    /// # Errors
    /// As [`Self::from_rows`], and a move out of range.
    pub fn from_transitions(
        states: usize,
        actions: usize,
        discount: f64,
        transitions: &[Transition],
    ) -> Result<Self> {
        for (entry, move_) in transitions.iter().enumerate() {
            if move_.from >= states || move_.to >= states || move_.action >= actions {
                return Err(Error::input(format!(
                    "transition {entry} goes from state `{}` by action `{}` to state `{}`, \
                     expected states below {states} and actions below {actions}",
                    move_.from, move_.action, move_.to
                )));
            }
        }
        let mut sorted: Vec<&Transition> = transitions.iter().collect();
        sorted.sort_by_key(|transition| (transition.from, transition.action));
        let mut rest = sorted.into_iter().peekable();
        Self::from_rows(states, actions, discount, |state, action, next| {
            while let Some(found) = rest.next_if(|t| (t.from, t.action) == (state, action)) {
                next.push((found.to, found.probability));
            }
        })
    }

    fn push_row(
        &mut self,
        state: usize,
        action: usize,
        next: &mut Vec<(usize, f64)>,
    ) -> Result<()> {
        for &(to, probability) in next.iter() {
            let usable = probability == 0.0
                || (SMALLEST_PROBABILITY..=1.0 + ROW_TOLERANCE).contains(&probability);
            if !usable || to >= self.states {
                return Err(Error::input(format!(
                    "state `{state}`, action `{action}`: probability `{probability}` of state \
                     `{to}`, expected 0 or {SMALLEST_PROBABILITY:e} to 1, of a state below {}",
                    self.states
                )));
            }
        }
        next.retain(|&(_, probability)| probability > 0.0);
        next.sort_by_key(|&(to, _)| to);
        next.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 += later.1;
            }
            same
        });
        let sum: f64 = next.iter().map(|&(_, probability)| probability).sum();
        if !next.is_empty() && (sum - 1.0).abs() > ROW_TOLERANCE {
            return Err(Error::input(format!(
                "state `{state}`, action `{action}`: probabilities sum to `{sum}`, expected 1 \
                 within {ROW_TOLERANCE:e}"
            ))
            .hint("list every next state of the action, staying included"));
        }
        self.targets.extend(next.iter().map(|&(to, _)| to as u32));
        self.probabilities.extend(next.iter().map(|&(_, probability)| probability / sum));
        self.row_ends.push(self.targets.len());
        Ok(())
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.states
    }

    /// The number of actions; not all need be available in every state.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// The discount γ, in (0, 1).
    pub fn discount(&self) -> f64 {
        self.discount
    }

    /// The same process with another discount.
    ///
    /// # Errors
    /// A discount outside (0, 1).
    pub fn with_discount(mut self, discount: f64) -> Result<Self> {
        check_discount(discount)?;
        self.discount = discount;
        Ok(self)
    }

    /// Whether `action` can be taken in `state`.
    pub fn is_available(&self, state: usize, action: usize) -> bool {
        !self.row(state, action).is_empty()
    }

    /// The next states of an action and their probabilities, in order of the states.
    pub fn next(&self, state: usize, action: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let row = self.row(state, action);
        let targets = self.targets[row.clone()].iter().map(|&to| to as usize);
        targets.zip(self.probabilities[row].iter().copied())
    }

    /// The available (state, action) pairs, in order: the rows and columns of
    /// [`Self::pair_distances`].
    pub fn pairs(&self) -> Vec<(usize, usize)> {
        (0..self.states)
            .flat_map(|state| (0..self.actions).map(move |action| (state, action)))
            .filter(|&(state, action)| self.is_available(state, action))
            .collect()
    }

    fn row(&self, state: usize, action: usize) -> std::ops::Range<usize> {
        let row = state * self.actions + action;
        let start = if row == 0 { 0 } else { self.row_ends[row - 1] };
        start..self.row_ends[row]
    }

    /// The policy that always takes `actions[state]`, as probabilities states × actions.
    pub fn deterministic(&self, actions: &[usize]) -> Vec<f64> {
        let mut policy = vec![0.0; self.states * self.actions];
        for (state, &action) in actions.iter().enumerate() {
            policy[state * self.actions + action] = 1.0;
        }
        policy
    }

    pub(super) fn check_policy(&self, policy: &[f64]) -> Result<()> {
        if policy.len() != self.states * self.actions {
            return Err(Error::input(format!(
                "a policy of {} probabilities, expected {} states × {} actions",
                policy.len(),
                self.states,
                self.actions
            )));
        }
        for (state, row) in policy.chunks_exact(self.actions).enumerate() {
            let sum: f64 = row.iter().sum();
            let allowed = |(action, &p): (usize, &f64)| {
                p == 0.0 || (p >= SMALLEST_PROBABILITY && self.is_available(state, action))
            };
            if !row.iter().enumerate().all(allowed) || (sum - 1.0).abs() > ROW_TOLERANCE {
                return Err(Error::input(format!(
                    "state `{state}`: the policy is `{row:?}`, expected probabilities of available \
                     actions that sum to 1"
                )));
            }
        }
        Ok(())
    }
}

fn check_discount(discount: f64) -> Result<()> {
    if discount > 0.0 && discount < 1.0 {
        return Ok(());
    }
    Err(Error::input(format!("discount `{discount}`, expected a number above 0 and below 1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(result: Result<DecisionProcess>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn a_row_that_is_no_distribution_is_named_by_state_and_action() {
        let short = DecisionProcess::from_dense(2, 1, 0.9, &[0.5, 0.4, 0.0, 1.0]);
        assert!(complaint(short).starts_with(
            "state `0`, action `0`: probabilities sum to `0.9`, expected 1 within 1e-9"
        ));
        for bad in [f64::NAN, f64::INFINITY, -0.5, 1e-300] {
            let table = [1.0, 0.0, bad, 1.0];
            let text = complaint(DecisionProcess::from_dense(2, 1, 0.9, &table));
            assert!(text.starts_with("state `1`, action `0`: probability `"), "{text}");
        }
    }

    #[test]
    fn sizes_discounts_and_moves_out_of_range_are_refused() {
        assert!(complaint(DecisionProcess::from_dense(2, 1, 0.9, &[1.0])).contains("2 states"));
        for discount in [0.0, 1.0, -1.0, f64::NAN] {
            let process = DecisionProcess::from_dense(1, 1, discount, &[1.0]);
            assert!(complaint(process).contains("expected a number above 0 and below 1"));
        }
        let outside = Transition { from: 0, action: 0, to: 7, probability: 1.0 };
        let text = complaint(DecisionProcess::from_transitions(2, 1, 0.9, &[outside]));
        assert!(text.starts_with("transition 0 goes from state `0` by action `0` to state `7`"));
        let stuck = Transition { to: 0, ..outside };
        let text = complaint(DecisionProcess::from_transitions(2, 1, 0.9, &[stuck]));
        assert!(text.starts_with("state `1` has no action"), "{text}");
    }

    #[test]
    fn the_three_constructors_build_the_same_process() {
        let table = [0.25, 0.75, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        let dense = DecisionProcess::from_dense(2, 2, 0.9, &table).unwrap();
        let moves =
            [(1, 0, 0, 1.0), (0, 1, 1, 1.0), (0, 0, 1, 0.5), (0, 0, 0, 0.25), (0, 0, 1, 0.25)];
        let moves = moves.map(|(from, action, to, probability)| Transition {
            from,
            action,
            to,
            probability,
        });
        assert_eq!(DecisionProcess::from_transitions(2, 2, 0.9, &moves).unwrap(), dense);
        assert_eq!(dense.pairs(), [(0, 0), (0, 1), (1, 0)]);
        assert_eq!(dense.next(0, 0).collect::<Vec<_>>(), [(0, 0.25), (1, 0.75)]);
        let to_goal = dense.distances_to(&[1]);
        assert!(dense.action_distance(1, 1, &to_goal).is_infinite());
        assert_eq!(dense.greedy_actions(&to_goal), [1, 0]);
    }

    #[test]
    fn a_policy_must_choose_among_the_available_actions() {
        let process = DecisionProcess::from_dense(1, 2, 0.9, &[1.0, 0.0]).unwrap();
        assert!(process.chain_under(&[1.0, 0.0]).is_ok());
        for policy in [vec![0.5, 0.5], vec![0.5, 0.0], vec![1.0], vec![2.0, -1.0]] {
            assert!(process.chain_under(&policy).is_err(), "{policy:?}");
            assert!(process.pair_chain_under(&policy).is_err(), "{policy:?}");
        }
    }
}
