//! What TMD and MQE converge to, in exact arithmetic: three operators turn the data policy's distance
//! into the optimal one, and no two of them that leave out the backup or the choice do.
//!
//! Choice: d(s, g) = min_a d((s,a), g). Backup: e^{−d((s,a), g)} = γ Σ P(s'|s,a) e^{−d(s', g)}, or the
//! same over waypoints further ahead. Closure: d(x, g) = min_w d(x, w) + d(w, g), w a state.
//! Source: Myers et al. 2025 (TMD), Zheng et al. 2025 (MQE).

use super::theory::{draws, random_policy, random_process};
use super::*;

/// The promised error of the fixed point, in nats.
const EXACT: f64 = 1e-9;

/// Where a backup looks.
#[derive(Clone, Copy, PartialEq)]
enum Backup {
    /// Nowhere: distances after an action stay the data policy's.
    None,
    /// One step ahead, as TMD.
    Successor,
    /// At a successor or, as often, further along the data policy, never past the goal: MQE.
    Waypoint,
    /// One step ahead, the step's discount forgotten.
    Undiscounted,
}

/// Which operators are applied in each round.
#[derive(Clone, Copy)]
struct Rounds {
    backup: Backup,
    /// How the distances after the actions of a state become the state's; none leaves it alone.
    choice: Option<fn(f64, f64) -> f64>,
    closure: bool,
}

const TMD: Rounds = Rounds { backup: Backup::Successor, choice: Some(f64::min), closure: true };
const MQE: Rounds = Rounds { backup: Backup::Waypoint, ..TMD };

/// The share of waypoints that go no further, at each row they pass.
const STOPS: f64 = 0.5;

/// Distances in nats to every goal: by goals, then by states or (state, action) pairs.
struct Distances<'a> {
    process: &'a DecisionProcess,
    behaviour: Chain,
    states: Vec<Vec<f64>>,
    pairs: Vec<Vec<f64>>,
}

impl<'a> Distances<'a> {
    /// The distances of the policy that the data came from.
    fn of_data(process: &'a DecisionProcess, policy: &[f64]) -> Self {
        let behaviour = process.chain_under(policy).unwrap();
        let states: Vec<Vec<f64>> =
            (0..process.states()).map(|goal| behaviour.distances_to(&[goal])).collect();
        let pairs = states.iter().map(|to_goal| process.action_distances(to_goal)).collect();
        Self { process, behaviour, states, pairs }
    }

    fn back_up(&mut self, backup: Backup) {
        for goal in 0..self.states.len() {
            let ahead = match backup {
                Backup::None => continue,
                Backup::Waypoint => self.left_at_waypoints(goal),
                Backup::Successor | Backup::Undiscounted => self.states[goal].clone(),
            };
            let kept =
                if backup == Backup::Undiscounted { self.process.discount().ln() } else { 0.0 };
            let after = self.process.action_distances(&ahead);
            self.pairs[goal] = after.iter().map(|distance| distance + kept).collect();
        }
    }

    /// −ln E γ^k e^{−d(w, goal)} from every successor, w the k-th state of the data policy from there.
    fn left_at_waypoints(&self, goal: usize) -> Vec<f64> {
        let here: Vec<f64> = self.states[goal].iter().map(|distance| (-distance).exp()).collect();
        let mut value = here.clone();
        for _ in 0..60 {
            let onward = |state: usize| {
                let sum: f64 = self.behaviour.next(state).map(|(to, p)| p * value[to]).sum();
                STOPS * here[state] + (1.0 - STOPS) * self.process.discount() * sum
            };
            value = (0..here.len()).map(|s| if s == goal { 1.0 } else { onward(s) }).collect();
        }
        value.iter().map(|value| -value.ln()).collect()
    }

    fn choose(&mut self, choice: fn(f64, f64) -> f64) {
        for (goal, (states, pairs)) in self.states.iter_mut().zip(&self.pairs).enumerate() {
            let actions = pairs.chunks_exact(self.process.actions());
            for (state, after) in actions.enumerate().filter(|&(state, _)| state != goal) {
                states[state] = after.iter().copied().reduce(choice).unwrap();
            }
        }
    }

    fn close(&mut self) {
        let closed = self.matrix().closure();
        let through = |before: &[Vec<f64>], from: usize, goal: usize| {
            let ways = (0..before.len()).map(|way| before[way][from] + closed.between(way, goal));
            ways.fold(f64::INFINITY, f64::min)
        };
        self.pairs = (0..self.states.len())
            .map(|goal| {
                (0..self.pairs[goal].len()).map(|from| through(&self.pairs, from, goal)).collect()
            })
            .collect();
        for (goal, states) in self.states.iter_mut().enumerate() {
            states.iter_mut().enumerate().for_each(|(from, d)| *d = closed.between(from, goal));
        }
    }

    fn matrix(&self) -> Matrix {
        Matrix::from_columns(&self.states)
    }

    /// Rounds of the operators until none moves a distance, or 5,000.
    fn settled(mut self, rounds: Rounds) -> Matrix {
        for _ in 0..5_000 {
            let before = self.matrix();
            self.back_up(rounds.backup);
            if let Some(choice) = rounds.choice {
                self.choose(choice);
            }
            if rounds.closure {
                self.close();
            }
            if gap(&before, &self.matrix()) < 1e-13 {
                break;
            }
        }
        self.matrix()
    }
}

/// The largest difference of two matrices; infinite where only one of them says "never".
fn gap(one: &Matrix, other: &Matrix) -> f64 {
    let pairs = one.as_slice().iter().zip(other.as_slice());
    pairs.map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() }).fold(0.0, f64::max)
}

/// A random process and the policy its data come from; every second one cannot leave its state 0.
fn noisy(world: u32) -> (DecisionProcess, Vec<f64>) {
    let mut draws = draws(world);
    let trapping = world.is_multiple_of(2);
    let free = random_process(&mut draws, trapping, 3);
    let policy = random_policy(&mut draws, &free);
    let (states, discount) = (free.states(), free.discount());
    let process = DecisionProcess::from_rows(states, 3, discount, |state, action, next| {
        if trapping && state == 0 {
            next.push((0, 1.0));
        } else {
            next.extend(free.next(state, action));
        }
    });
    (process.unwrap(), policy)
}

/// As [`noisy`], where every action leads to one state.
fn deterministic(world: u32) -> (DecisionProcess, Vec<f64>) {
    let mut draws = draws(world);
    let states = 3 + draws.below(6) as usize;
    let process = DecisionProcess::from_rows(states, 2, 0.9, |_, _, next| {
        next.push((draws.below(states as u32) as usize, 1.0));
    })
    .unwrap();
    let policy = random_policy(&mut draws, &process);
    (process, policy)
}

/// On how many of `worlds` the rounds end more than a thousandth of a nat from the optimum.
fn misses(worlds: u32, rounds: Rounds) -> u32 {
    let missed = |world: &u32| {
        let (process, policy) = noisy(*world);
        let found = Distances::of_data(&process, &policy).settled(rounds);
        gap(&found, &process.distances()) > 1e-3
    };
    (0..worlds).filter(missed).count() as u32
}

#[test]
fn choice_backup_and_closure_turn_the_data_policys_distance_into_the_optimal_one() {
    let (mut moved, mut unreachable) = (0, 0);
    for world in 0..400 {
        let (process, policy) = noisy(world);
        let (data, optimal) = (Distances::of_data(&process, &policy), process.distances());
        moved += u32::from(gap(&data.matrix(), &optimal) > 0.1);
        let error = gap(&data.settled(TMD), &optimal);
        assert!(error < EXACT, "world {world}: off by {error:e}");
        unreachable += u32::from(optimal.as_slice().contains(&f64::INFINITY));
    }
    assert!(
        moved > 300 && unreachable == 200,
        "{moved} moved, {unreachable} with unreachable goals"
    );
}

#[test]
fn without_the_backup_most_processes_keep_a_distance_that_is_too_long() {
    let missed = misses(200, Rounds { backup: Backup::None, ..TMD });
    println!("without the backup {missed} of 200 processes are not optimal");
    assert!(missed > 150, "{missed} of 200");
}

#[test]
fn without_the_choice_of_an_action_the_data_policys_distance_stays() {
    for world in 0..50 {
        let (process, policy) = noisy(world);
        let data = Distances::of_data(&process, &policy);
        let first = data.matrix();
        let found = data.settled(Rounds { choice: None, ..TMD });
        assert!(gap(&found, &first) < EXACT, "world {world}");
    }
}

#[test]
fn where_every_action_has_one_outcome_choice_and_closure_are_enough() {
    for world in 0..100 {
        let (process, policy) = deterministic(world);
        for backup in [Backup::None, Backup::Successor, Backup::Waypoint] {
            let found = Distances::of_data(&process, &policy).settled(Rounds { backup, ..TMD });
            assert!(gap(&found, &process.distances()) < EXACT, "world {world}");
        }
    }
}

#[test]
fn backups_over_waypoints_end_between_the_data_policys_distance_and_the_optimal_one() {
    let mut apart = 0;
    for world in 0..100 {
        let (process, policy) = noisy(world);
        let data = Distances::of_data(&process, &policy);
        let (optimal, first) = (process.distances(), data.matrix());
        let found = data.settled(MQE);
        for (at, &distance) in found.as_slice().iter().enumerate() {
            let (least, most) = (optimal.as_slice()[at] - EXACT, first.as_slice()[at] + EXACT);
            assert!((least..=most).contains(&distance), "world {world}: {distance}");
        }
        apart += u32::from(gap(&found, &optimal) > 1e-3);
    }
    println!("with waypoints of the data policy {apart} of 100 processes are not optimal");
    assert!(apart > 50, "{apart} of 100");
}

#[test]
fn a_wrong_operator_misses_the_optimal_distance() {
    let farthest = misses(60, Rounds { choice: Some(f64::max), ..TMD });
    let undiscounted = misses(60, Rounds { backup: Backup::Undiscounted, ..TMD });
    assert!(farthest > 50 && undiscounted > 50, "{farthest}, {undiscounted} of 60");
}
