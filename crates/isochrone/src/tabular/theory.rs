//! The theory, checked on worked examples and on thousands of random worlds, and its
//! counter-examples, which must be caught.

use super::*;
use crate::random::{Draws, Purpose, Stream};

/// Rounding of a few operations on distances of a few nats.
const ROUNDING: f64 = 1e-11;

pub(super) fn draws(world: u32) -> Draws {
    Stream::new(20_240_627, Purpose(900)).draws(0, world)
}

/// Positive weights of very different sizes, scaled to one; some zero where `gaps` is set.
fn random_row(draws: &mut Draws, size: usize, gaps: bool) -> Vec<f64> {
    let mut row: Vec<f64> = (0..size)
        .map(|_| {
            let empty = draws.uniform() < 0.5 && gaps;
            let weight = (-3.0 * draws.uniform().ln()).exp2();
            if empty { 0.0 } else { weight }
        })
        .collect();
    if row.iter().all(|&weight| weight == 0.0) {
        row[draws.below(size as u32) as usize] = 1.0;
    }
    let sum: f64 = row.iter().sum();
    row.iter_mut().for_each(|weight| *weight /= sum);
    row
}

pub(super) fn random_process(draws: &mut Draws, gaps: bool, actions: usize) -> DecisionProcess {
    let states = 2 + draws.below(5) as usize;
    let discount = [0.3, 0.8, 0.95, 0.99][draws.below(4) as usize];
    let rows = states * actions;
    let table: Vec<f64> = (0..rows).flat_map(|_| random_row(draws, states, gaps)).collect();
    DecisionProcess::from_dense(states, actions, discount, &table).unwrap()
}

fn random_chain(draws: &mut Draws, gaps: bool) -> Chain {
    let process = random_process(draws, gaps, 1);
    process.chain_under(&vec![1.0; process.states()]).unwrap()
}

pub(super) fn random_policy(draws: &mut Draws, process: &DecisionProcess) -> Vec<f64> {
    (0..process.states()).flat_map(|_| random_row(draws, process.actions(), false)).collect()
}

/// The axioms that `distances` break: positivity, identity, triangle inequality.
fn broken_axioms(distances: &Matrix) -> [bool; 3] {
    let pairs =
        || (0..distances.size()).flat_map(|from| (0..distances.size()).map(move |to| (from, to)));
    let negative = pairs().any(|(from, to)| distances.between(from, to) < -ROUNDING);
    let identity = pairs().any(|(from, to)| {
        let distance = distances.between(from, to);
        if from == to { distance.abs() > ROUNDING } else { distance.abs() <= ROUNDING }
    });
    [negative, identity, distances.audit(ROUNDING).violations > 0]
}

fn assert_close(found: f64, expected: f64) {
    let error = (found - expected).abs();
    assert!(
        found == expected || error <= 1e-12 * expected.abs().max(1.0),
        "found {found}, expected {expected}, error {error:e}"
    );
}

/// The same linear system by elimination with pivoting: what a general solver would say.
fn solved_by_pivoting(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|&l, &r| matrix[l][column].abs().total_cmp(&matrix[r][column].abs()))
            .unwrap();
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..size {
            let factor = matrix[row][column] / matrix[column][column];
            let above = matrix[column].clone();
            for (value, above) in matrix[row].iter_mut().zip(above).skip(column) {
                *value -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|other| matrix[row][other] * right[other]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
}

#[test]
fn the_first_worked_example_has_its_closed_form() {
    for discount in [0.1, 0.9, 0.99] {
        let chain = Chain::from_dense(3, discount, &[0., 1., 0., 0., 0., 1., 0., 0., 1.]).unwrap();
        let occupancy = chain.occupancy(FirstOffset::Zero);
        let stay = 1.0 - discount;
        let expected =
            [stay, discount * stay, discount.powi(2), 0.0, stay, discount, 0.0, 0.0, 1.0];
        for (found, expected) in occupancy.as_slice().iter().zip(expected) {
            assert_close(*found, expected);
        }
        let (step, never) = (-discount.ln(), f64::INFINITY);
        let expected = [0.0, step, 2.0 * step, never, 0.0, step, never, never, 0.0];
        for (found, expected) in chain.distances().as_slice().iter().zip(expected) {
            assert_close(*found, expected);
        }
    }
}

#[test]
fn the_second_worked_example_has_its_closed_form() {
    let discount: f64 = 0.9;
    let table = [0., 0.5, 0.5, 0., 0., 0., 0., 1., 0., 0., 0., 1., 0., 0., 0., 1.];
    let chain = Chain::from_dense(4, discount, &table).unwrap();
    let occupancy = chain.occupancy(FirstOffset::Zero);
    assert_close(occupancy.between(0, 1), 0.5 * (1.0 - discount) * discount);
    assert_close(occupancy.between(0, 3), discount.powi(2));
    let distances = chain.distances();
    let (step, two) = (-discount.ln(), std::f64::consts::LN_2);
    assert_close(distances.between(0, 1), step + two);
    assert_close(distances.between(1, 3), step);
    assert_close(distances.between(0, 3), 2.0 * step);
    // To the set {2, 3} the triangle inequality is tight again.
    assert_close(chain.distances_to(&[1, 2])[0], step);
    assert!(distances.between(1, 2).is_infinite());
}

#[test]
fn chains_are_quasimetric_spaces() {
    for world in 0..3_000 {
        let mut draws = draws(world);
        let distances = random_chain(&mut draws, world % 2 == 0).distances();
        assert_eq!(broken_axioms(&distances), [false; 3], "world {world}");
    }
}

#[test]
fn decision_processes_are_quasimetric_spaces() {
    for world in 0..1_000 {
        let mut draws = draws(world);
        let process = random_process(&mut draws, world % 2 == 0, 3);
        assert_eq!(broken_axioms(&process.distances()), [false; 3], "world {world}");
        assert_eq!(broken_axioms(&process.pair_distances()), [false; 3], "world {world}");
    }
}

#[test]
fn offsets_from_one_break_the_axioms_of_most_chains() {
    let worlds = 1_000;
    let mut broken = [0; 3];
    for world in 0..worlds {
        let mut draws = draws(world);
        let chain = random_chain(&mut draws, false);
        let found = broken_axioms(&chain.occupancy_ratios(FirstOffset::One));
        assert_eq!(broken_axioms(&chain.occupancy_ratios(FirstOffset::Zero)), [false; 3]);
        for (count, found) in broken.iter_mut().zip(found) {
            *count += u32::from(found);
        }
    }
    assert!(broken[0] > worlds / 2 && broken[2] > worlds / 2, "{broken:?} of {worlds}");
}

#[test]
fn offsets_from_one_change_the_occupancy_of_other_states_by_one_factor() {
    for world in 0..300 {
        let chain = random_chain(&mut draws(world), world % 2 == 0);
        let (zero, one) = (chain.occupancy(FirstOffset::Zero), chain.occupancy(FirstOffset::One));
        for from in 0..chain.states() {
            for to in 0..chain.states() {
                let expected = zero.between(from, to) / chain.discount();
                let off = (one.between(from, to) - expected).abs() / expected.max(1e-300);
                assert_eq!(off < 1e-9 || expected == 0.0, from != to, "world {world}: {off}");
            }
        }
    }
}

#[test]
fn another_action_at_the_goal_is_at_least_one_step_away() {
    for world in 0..300 {
        let process = random_process(&mut draws(world), world % 2 == 0, 3);
        let (pairs, distances) = (process.pairs(), process.pair_distances());
        for (from, &(state, action)) in pairs.iter().enumerate() {
            for (to, &(goal, goal_action)) in pairs.iter().enumerate() {
                let distance = distances.between(from, to);
                if state == goal && action != goal_action {
                    assert!(distance >= -process.discount().ln() - ROUNDING, "world {world}");
                }
                if state != goal {
                    let first = pairs.iter().position(|&(state, _)| state == goal).unwrap();
                    assert_eq!(distance, distances.between(from, first), "independent of a'");
                }
            }
        }
    }
}

#[test]
fn the_data_policys_distance_depends_on_the_goal_action() {
    let mut dependent = 0;
    for world in 0..200 {
        let mut draws = draws(world);
        let process = random_process(&mut draws, false, 2);
        let policy = random_policy(&mut draws, &process);
        let chain = process.pair_chain_under(&policy).unwrap();
        let distances = chain.distances();
        assert_eq!(broken_axioms(&distances), [false; 3], "a chain of pairs is still a chain");
        // Pairs 0, 1 are the actions of state 0, pairs 2, 3 those of state 1.
        let spread = distances.between(0, 2) - distances.between(0, 3);
        dependent += u32::from(spread.abs() > 0.1);
    }
    assert!(dependent > 150, "{dependent} of 200");
}

#[test]
fn the_goal_action_free_target_of_a_data_policy_breaks_the_triangle_inequality() {
    let mut broken = 0;
    for world in 0..800 {
        let mut draws = draws(world);
        let process = random_process(&mut draws, false, 2);
        let policy = random_policy(&mut draws, &process);
        let states = process.chain_under(&policy).unwrap().occupancy(FirstOffset::Zero);
        // ln p(g|g) / p(g|s,a), 0 at the goal whatever the actions.
        let pairs = process.pairs();
        let target = |from: usize, to: usize| {
            let ((state, action), goal) = (pairs[from], pairs[to].0);
            let onward: f64 =
                process.next(state, action).map(|(s, p)| p * states.between(s, goal)).sum();
            let reached = process.discount() * onward;
            if state == goal { 0.0 } else { (states.between(goal, goal) / reached).ln() }
        };
        let values: Vec<f64> = (0..pairs.len())
            .flat_map(|from| (0..pairs.len()).map(move |to| (from, to)))
            .map(|(from, to)| target(from, to))
            .collect();
        let audit = Matrix::new(pairs.len(), values).unwrap().audit(ROUNDING);
        broken += u32::from(audit.violations > 0);
    }
    assert!(broken > 300, "{broken} of 800");
}

#[test]
fn the_nearest_action_is_the_most_valuable_one() {
    for world in 0..300 {
        let process = random_process(&mut draws(world), world % 2 == 0, 3);
        let (discount, goal) = (process.discount(), 0);
        // Q of the reward (1 − γ) at the goal, by plain value iteration without absorption.
        let mut value = vec![0.0; process.states()];
        let worth = |state: usize, action: usize, value: &[f64]| {
            let onward: f64 = process.next(state, action).map(|(to, p)| p * value[to]).sum();
            f64::from(state == goal) * (1.0 - discount) + discount * onward
        };
        for _ in 0..(40.0 / -discount.ln()) as usize {
            value = (0..process.states())
                .map(|state| (0..3).map(|a| worth(state, a, &value)).fold(0.0, f64::max))
                .collect();
        }
        let to_goal = process.distances_to(&[goal]);
        let nearest = process.greedy_actions(&to_goal);
        for (state, &action) in nearest.iter().enumerate() {
            let most = (0..3).map(|a| worth(state, a, &value)).fold(0.0, f64::max);
            assert!(worth(state, action, &value) >= most * (1.0 - 1e-9), "world {world}");
        }
        // Followed as a policy, the nearest actions attain the distance.
        let chain = process.chain_under(&process.deterministic(&nearest)).unwrap();
        for (found, &expected) in chain.distances_to(&[goal]).iter().zip(&to_goal) {
            assert_close(*found, expected);
        }
    }
}

#[test]
fn no_policy_is_nearer_than_the_best_one() {
    for world in 0..300 {
        let mut draws = draws(world);
        let process = random_process(&mut draws, world % 2 == 0, 3);
        let best = process.distances();
        let policy = random_policy(&mut draws, &process);
        let other = process.chain_under(&policy).unwrap().distances();
        for (best, other) in best.as_slice().iter().zip(other.as_slice()) {
            assert!(*best <= other + ROUNDING, "world {world}: {best} {other}");
        }
    }
}

#[test]
fn deterministic_motion_costs_one_step_a_move() {
    // A ring of seven where one action stays and the other moves on.
    let ring = DecisionProcess::from_rows(7, 2, 0.97, |state, action, next| {
        next.push(((state + action) % 7, 1.0));
    })
    .unwrap();
    let distances = ring.distances();
    for from in 0..7 {
        for to in 0..7 {
            let moves = (to + 7 - from) % 7;
            assert_close(steps(distances.between(from, to), 0.97), moves as f64);
        }
    }
}

#[test]
fn steps_are_at_most_the_expected_hitting_time() {
    for world in 0..1_000 {
        let chain = random_chain(&mut draws(world), world % 2 == 0);
        let distances = chain.distances();
        let columns: Vec<Vec<f64>> =
            (0..chain.states()).map(|goal| chain.hitting_times_to(goal)).collect();
        let times = Matrix::from_columns(&columns);
        for (distance, time) in distances.as_slice().iter().zip(times.as_slice()) {
            let steps = steps(*distance, chain.discount());
            assert!(steps <= time * (1.0 + 1e-12), "world {world}: {steps} above {time}");
        }
        // Expected hitting times satisfy the triangle inequality, relative to their size.
        let largest =
            times.as_slice().iter().filter(|t| t.is_finite()).fold(1.0f64, |a, &b| a.max(b));
        assert_eq!(times.audit(1e-12 * largest).violations, 0, "world {world}");
    }
}

#[test]
fn a_goal_missed_for_good_costs_ln_two_and_an_infinite_expected_time() {
    let chain = Chain::from_dense(3, 0.95, &[0., 0.5, 0.5, 0., 1., 0., 0., 0., 1.]).unwrap();
    assert_close(chain.distances_to(&[1])[0], std::f64::consts::LN_2 - 0.95f64.ln());
    assert_eq!(chain.hitting_times_to(1), [f64::INFINITY, 0.0, f64::INFINITY]);
    assert!((steps(std::f64::consts::LN_2, 0.95) - 13.5).abs() < 0.05);
}

#[test]
fn a_fair_walk_has_its_textbook_hitting_time() {
    // From the left end of a walk on 0..=n the right end takes n² steps.
    let length = 12;
    let walk = Chain::from_rows(length + 1, 0.9, |state, next| {
        next.push((state.saturating_sub(1).max(usize::from(state == 0)), 0.5));
        next.push(((state + 1).min(length), 0.5));
    })
    .unwrap();
    let times = walk.hitting_times_to(length);
    for (state, time) in times.iter().enumerate() {
        assert_close(*time, (length * length - state * state) as f64);
    }
}

#[test]
fn distances_agree_with_a_general_linear_solver() {
    let mut strict = 0;
    for world in 0..500 {
        let chain = random_chain(&mut draws(world), world % 2 == 0);
        let (size, discount) = (chain.states(), chain.discount());
        let matrix = chain.distances();
        for goal in 0..size {
            let mut table = vec![vec![0.0; size]; size];
            let mut right = vec![0.0; size];
            for state in 0..size {
                table[state][state] = 1.0;
                if state == goal {
                    right[state] = 1.0;
                } else {
                    chain.next(state).for_each(|(to, p)| table[state][to] -= discount * p);
                }
            }
            let values = solved_by_pivoting(table, right);
            let iterated = chain.distances_to(&[goal]);
            for (state, &value) in values.iter().enumerate() {
                let found = matrix.between(state, goal);
                assert_close(found, iterated[state]);
                if found.is_finite() {
                    // The general solver subtracts: its own error grows as the value shrinks.
                    let its_error = 1e-15 / ((1.0 - discount) * value);
                    let error = (found + value.ln()).abs();
                    assert!(error < 1e-12 * found.max(1.0) + its_error, "world {world}: {error:e}");
                    strict += u32::from(its_error < 1e-12);
                } else {
                    assert!(value.abs() < 1e-12, "world {world}: {value:e}");
                }
            }
        }
    }
    assert!(strict > 3_000, "only {strict} pairs compared to twelve digits");
    println!("figures: {strict} distances within 1e-12 of a general solver");
}

#[test]
fn a_set_is_as_near_as_the_chance_to_enter_it_anywhere() {
    for world in 0..300 {
        let process = random_process(&mut draws(world), world % 2 == 0, 2);
        let last = process.states() - 1;
        let both = process.distances_to(&[0, last]);
        let (one, other) = (process.distances_to(&[0]), process.distances_to(&[last]));
        for state in 0..process.states() {
            assert!(both[state] <= one[state].min(other[state]) + ROUNDING, "world {world}");
            // V of the set is at most the sum of the members' values.
            let sum = (-one[state]).exp() + (-other[state]).exp();
            assert!((-both[state]).exp() <= sum * (1.0 + 1e-12), "world {world}");
        }
        assert_eq!(process.distances_to(&[]), vec![f64::INFINITY; process.states()]);
    }
}
