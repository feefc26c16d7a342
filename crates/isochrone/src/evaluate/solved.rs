//! How learned steps agree with the fewest along recorded moves, joined across trajectories: what a
//! teacher solves for a few goals, also where no trajectory makes the whole way and no referee knows it.
//!
//! Pairs are drawn from the rows. One kind is judged apart: where a recorded move leads one way and the
//! way back is long, as in a one-way street, two states lie near together and far apart, and a smooth
//! network that has not been trained for long reads the long way as short.

use serde::Serialize;

use super::statistics::median;
use super::steps::all_finite;
use crate::data::{Dataset, Lessons};
use crate::error::Result;
use crate::model::Model;
use crate::random::{Purpose, Stream};

/// Pairs of each kind that are drawn.
const PAIRS: u32 = 4_000;
/// A way back is long from so many steps on.
const LONG_BACK: f64 = 10.0;
/// Fewer pairs than these tell nothing.
const FEWEST: usize = 20;
/// The median relative error up to which learned numbers are called steps.
pub const MOST_OFF: f64 = 0.5;
/// Ways back are lost where less than this share of their steps is learned.
const LEAST_BACK: f64 = 0.5;

/// Learned against solved steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgainstSolved {
    /// Pairs whose goal can be reached.
    pub pairs: usize,
    /// How many steps wide the places are that solving told apart.
    pub place: f64,
    /// The median of |learned − solved| / solved.
    pub median_relative_error: f64,
    /// The ways back over recorded moves, if enough of them are long.
    pub ways_back: Option<WaysBack>,
}

/// Ways back over recorded moves that take 10 steps or more.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WaysBack {
    /// How many of all that were drawn are long.
    pub share: f64,
    /// Solved steps, in the median.
    pub solved: f64,
    /// Learned steps, in the median.
    pub learned: f64,
    /// Whether the learned steps are far too few.
    pub are_lost: bool,
}

/// Two rows, and the solved steps from the one to the other.
struct Pair {
    from: u32,
    goal: u32,
    steps: f64,
}

/// Trajectories, and the distances that a teacher solved for them.
pub struct Solved {
    /// The trajectories.
    pub dataset: Dataset,
    /// Their distances to a few goals.
    pub lessons: Lessons,
    /// How many steps wide the places are that it told apart.
    pub place: f64,
}

/// Compares the steps of `model` with those that were solved; `None` if too few pairs have a way.
///
/// # Errors
/// A model without a distance, for states of another size, or whose distance is not finite; data that can
/// no longer be read.
pub fn against_solved(model: &Model, solved: &Solved, seed: u64) -> Result<Option<AgainstSolved>> {
    let nats_per_step = -model.shape().discount.ln();
    let steps = |from: &[f32], to: &[f32]| model.steps(from, to);
    compare(solved, nats_per_step, seed, steps)
}

fn compare(
    solved: &Solved,
    nats_per_step: f64,
    seed: u64,
    learned: impl Fn(&[f32], &[f32]) -> Result<Vec<f32>>,
) -> Result<Option<AgainstSolved>> {
    let Solved { dataset, lessons, place } = solved;
    let goals = lessons.goals();
    if goals.is_empty() {
        return Ok(None);
    }
    let stream = Stream::new(seed, Purpose::LESSONS_ASKED);
    let pair = |from: u32, goal: u32| {
        let nats = f64::from(lessons.nats(from, goal));
        (nats >= 0.0).then(|| Pair { from, goal, steps: nats / nats_per_step })
    };
    let any: Vec<Pair> = (0..PAIRS)
        .filter_map(|index| {
            let mut draws = stream.draws(0, index);
            let from = draws.below(dataset.rows() as u32);
            pair(from, goals[draws.below(goals.len() as u32) as usize])
        })
        .filter(|pair| pair.steps >= 1.0)
        .collect();
    let moved: Vec<u32> = (0..PAIRS)
        .map(|index| goals[stream.draws(1, index).below(goals.len() as u32) as usize])
        .filter(|&row| dataset.last_row(row as usize) != row as usize)
        .collect();
    let back = moved.iter().filter_map(|&row| pair(row + 1, row));
    let back: Vec<Pair> = back.filter(|pair| pair.steps >= LONG_BACK).collect();
    let learned = |pairs: &[Pair]| -> Result<Vec<f64>> {
        let states = |row: fn(&Pair) -> u32| {
            dataset.gather_states(&pairs.iter().map(row).collect::<Vec<_>>())
        };
        let steps = learned(&states(|pair| pair.from)?, &states(|pair| pair.goal)?)?;
        let steps: Vec<f64> = steps.into_iter().map(f64::from).collect();
        all_finite(steps.iter().copied())?;
        Ok(steps)
    };
    let steps = |pairs: &[Pair]| pairs.iter().map(|pair| pair.steps).collect::<Vec<f64>>();
    if any.len() < FEWEST {
        return Ok(None);
    }
    let errors = learned(&any)?.into_iter().zip(&any);
    let errors = errors.map(|(learned, pair)| (learned - pair.steps).abs() / pair.steps).collect();
    let Some(median_relative_error) = median(errors) else { return Ok(None) };
    let ways_back = match (median(steps(&back)), median(learned(&back)?)) {
        (Some(solved), Some(learned)) if back.len() >= FEWEST => Some(WaysBack {
            share: back.len() as f64 / moved.len() as f64,
            solved,
            learned,
            are_lost: learned < LEAST_BACK * solved,
        }),
        _ => None,
    };
    Ok(Some(AgainstSolved { pairs: any.len(), place: *place, median_relative_error, ways_back }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const NATS: f64 = 0.01;

    /// A ring of 40 places, walked around one way only; `nats` hold one step for every move.
    fn ring() -> Solved {
        let rows: Vec<f32> = (0..80).map(|row| (row % 40) as f32).collect();
        let dataset = Dataset::new(rows, 1, None, &[80]).unwrap();
        let nats = (0..40).flat_map(|goal: i32| {
            (0..40).map(move |from: i32| NATS as f32 * (goal - from).rem_euclid(40) as f32)
        });
        let owners = (0..80).map(|row| row % 40).collect();
        let columns = Arc::new((0..40).collect());
        Solved {
            dataset,
            lessons: Lessons::new(owners, columns, Arc::new(nats.collect())),
            place: 1.0,
        }
    }

    fn compared(steps: impl Fn(f32, f32) -> f32) -> AgainstSolved {
        let learned = |from: &[f32], to: &[f32]| {
            Ok(from.iter().zip(to).map(|(&from, &to)| steps(from, to)).collect())
        };
        compare(&ring(), NATS, 5, learned).unwrap().unwrap()
    }

    #[test]
    fn what_was_solved_is_found_learned() {
        let found = compared(|from, to| (to - from).rem_euclid(40.0));
        assert!(found.median_relative_error < 1e-5 && found.pairs > 3_000, "{found:?}");
        assert_eq!(found.place, 1.0);
        let back = found.ways_back.unwrap();
        assert!((back.share - 1.0).abs() < 1e-12 && !back.are_lost, "{back:?}");
        assert!((back.solved - 39.0).abs() < 1e-4 && back.learned == 39.0, "{back:?}");
        let longer = compared(|from, to| 1.1 * (to - from).rem_euclid(40.0));
        assert!((longer.median_relative_error - 0.1).abs() < 1e-4);
        // As a contrastive learner reads exact steps: in order, and far too many.
        let many = compared(|from, to| 2.0 * (to - from).rem_euclid(40.0) + 30.0);
        assert!(many.median_relative_error > 3.0 * MOST_OFF, "{many:?}");
    }

    #[test]
    fn a_one_way_street_that_is_read_both_ways_is_told() {
        let both = compared(|from, to| {
            let there = (to - from).rem_euclid(40.0);
            there.min(40.0 - there)
        });
        let back = both.ways_back.unwrap();
        assert!(back.are_lost && back.learned == 1.0 && back.solved > 38.0, "{back:?}");
    }

    #[test]
    fn pairs_without_a_way_are_left_out_and_too_few_tell_nothing() {
        let owners: Vec<u32> = (0..80).map(|row| row % 40).collect();
        let lessons = Lessons::new(owners, Arc::new((0..40).collect()), Arc::new(vec![-1.0; 1600]));
        let none = Solved { lessons, ..ring() };
        let learned = |from: &[f32], _: &[f32]| Ok(vec![1.0; from.len()]);
        assert_eq!(compare(&none, NATS, 5, learned).unwrap(), None);
    }
}
