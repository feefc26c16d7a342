//! How learned steps relate to the steps that elapsed on recorded trajectories; needs no referee.
//!
//! From row t − k of a trajectory to its row t, k steps elapsed. The best use of recorded moves takes
//! at most about k: less where the recording wanders, more only where it was lucky. Goals are rows
//! drawn at random; the starts of a goal are earlier rows of its trajectory, one for each band of
//! elapsed steps: 1, 2 to 3, 4 to 7, 8 to 15 and so on, so that near and far pairs count alike.
//!
//! The drop is how much the learned steps to a goal fall per elapsed step on the way to it: the
//! median slope between two starts of one goal (Theil 1950, Sen 1968). It is 1 where the recording
//! heads for the goal and less where it wanders.
//!
//! No way is shorter than its fastest: in no coordinate does a row change by more than the largest
//! recorded change, so that a goal is at least max over i of |Δᵢ| / (largest |change of i|) steps away.

use std::ops::Range;

use serde::Serialize;

use super::statistics::{median, spearman};
use super::steps::all_finite;
use crate::data::Dataset;
use crate::error::Result;
use crate::model::Model;
use crate::random::{Draws, Purpose, Stream};

/// Goals that are drawn.
const GOALS: u32 = 400;
/// Learned steps are far above elapsed ones beyond this factor and so many steps, fewer where few
/// elapsed: a goal has a width, and no learner is right to the step.
const FACTOR: f64 = 2.0;
const SLACK: f64 = 10.0;
const SLACK_NEAR: f64 = 2.0;
/// They are far below the fewest that are possible beyond these: nothing is recorded that is faster.
const FACTOR_BELOW: f64 = 1.5;
const SLACK_BELOW: f64 = 5.0;
/// The share of the pairs of a band that may be far off, and the fewest pairs that tell.
const MOST_FAR: f64 = 0.5;
const FEWEST: usize = 20;
/// Spearman's ρ with elapsed steps below which learned ones count as not ordered.
const LEAST_ORDER: f64 = 0.2;

/// Recorded trajectories to judge a distance on.
pub struct Trajectories {
    /// The trajectories, in memory.
    pub dataset: Dataset,
    /// Whether they were held out of training; `None` where nobody knows.
    pub held_out: Option<bool>,
    /// The coordinates that say where a state is; all if there are none.
    pub places: Vec<usize>,
}

/// Pairs whose elapsed steps lie in one range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Band {
    /// The fewest elapsed steps that belong to it; the next band begins at twice as many.
    pub from: usize,
    /// How many pairs.
    pub pairs: usize,
    /// The median of their elapsed steps.
    pub elapsed: f64,
    /// The median of their learned steps.
    pub learned: f64,
    /// The share whose learned steps are more than twice the elapsed ones plus 10, or plus 4, 6 and 8 where
    /// one, two and three steps elapsed.
    pub far_above: f64,
    /// The share for which 1.5 times the learned steps plus 5 are too few, even at the fastest recorded
    /// change of every coordinate.
    pub far_below: f64,
}

/// Whether learned steps can be read as steps, as far as recorded trajectories can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Nothing speaks against it.
    Steps,
    /// In some band most pairs read more than twice the elapsed steps plus 10, or less where they are few.
    FarAbove,
    /// In some band 1.5 times the learned steps plus 5 are too few for most pairs, even at the fastest
    /// recorded change of every coordinate.
    FarBelow,
    /// They hardly rise with elapsed steps.
    Unordered,
    /// Nothing speaks against it, but no band has enough pairs to tell.
    TooFew,
}

/// Learned against elapsed steps; see the module's head. None where a number is not defined.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgainstElapsed {
    /// Whether the trajectories were held out of training; `None` where nobody knows.
    pub held_out: Option<bool>,
    /// How many trajectories there are.
    pub trajectories: usize,
    /// How many pairs were drawn on them.
    pub pairs: usize,
    /// The share of pairs whose learned steps are at or below the elapsed ones.
    pub at_or_below: f64,
    /// Spearman's ρ of learned and elapsed steps.
    pub spearman: Option<f64>,
    /// How much learned steps to a goal fall per elapsed step, in the median.
    pub drop_per_step: Option<f64>,
    /// Medians by elapsed steps, nearest first.
    pub bands: Vec<Band>,
    /// Whether learned steps can be read as steps.
    pub reading: Verdict,
    /// (elapsed, learned) of every pair.
    #[serde(skip)]
    pub points: Vec<[f32; 2]>,
}

/// A pair of rows on one trajectory.
struct Pair {
    goal: u32,
    from: usize,
    to: usize,
}

/// Compares the distance of `model` with the steps that elapsed; `None` if no trajectory has two
/// rows.
///
/// # Errors
/// A model without a distance or for states of another size, or a learned distance that is not
/// finite.
pub fn against_elapsed(
    model: &Model,
    trajectories: &Trajectories,
    seed: u64,
) -> Result<Option<AgainstElapsed>> {
    let pairs = draw(&trajectories.dataset, seed);
    compare(trajectories, &pairs, |from, to| model.steps(from, to))
}

/// The same for the steps that remained until the last row of a trajectory, which is every goal.
///
/// # Errors
/// As [`against_elapsed`].
pub fn against_remaining(
    model: &Model,
    trajectories: &Trajectories,
    seed: u64,
) -> Result<Option<AgainstElapsed>> {
    let pairs = draw_to_last(&trajectories.dataset, seed);
    compare(trajectories, &pairs, |from, to| model.steps(from, to))
}

fn compare(
    trajectories: &Trajectories,
    pairs: &[Pair],
    steps: impl Fn(&[f32], &[f32]) -> Result<Vec<f32>>,
) -> Result<Option<AgainstElapsed>> {
    let dataset = &trajectories.dataset;
    if pairs.is_empty() {
        return Ok(None);
    }
    let states = |row: fn(&Pair) -> usize| {
        dataset.gather_states(&pairs.iter().map(|pair| row(pair) as u32).collect::<Vec<_>>())
    };
    let (starts, goals) = (states(|pair| pair.from)?, states(|pair| pair.to)?);
    let learned = steps(&starts, &goals)?;
    let learned: Vec<f64> = learned.into_iter().map(f64::from).collect();
    all_finite(learned.iter().copied())?;
    let elapsed: Vec<f64> = pairs.iter().map(|pair| (pair.to - pair.from) as f64).collect();
    let bands = bands(&elapsed, &learned, &fewest(trajectories, &starts, &goals));
    let is_off = |share: fn(&Band) -> f64| {
        bands.iter().any(|band| band.pairs >= FEWEST && share(band) > MOST_FAR)
    };
    let spearman = spearman(&elapsed, &learned);
    let reading = if is_off(|band| band.far_above) {
        Verdict::FarAbove
    } else if spearman.is_none_or(|rho| rho < LEAST_ORDER) && elapsed.iter().any(|&k| k >= 2.0) {
        Verdict::Unordered
    } else if is_off(|band| band.far_below) {
        Verdict::FarBelow
    } else if bands.iter().all(|band| band.pairs < FEWEST) {
        Verdict::TooFew
    } else {
        Verdict::Steps
    };
    Ok(Some(AgainstElapsed {
        held_out: trajectories.held_out,
        trajectories: dataset.trajectories(),
        pairs: pairs.len(),
        at_or_below: share(&elapsed, &learned, |elapsed, learned| learned <= elapsed),
        spearman,
        drop_per_step: drop_per_step(pairs, &elapsed, &learned),
        bands,
        reading,
        points: elapsed.iter().zip(&learned).map(|(&k, &d)| [k as f32, d as f32]).collect(),
    }))
}

/// Goals and, for each, one start in every band that its trajectory has room for.
fn draw(dataset: &Dataset, seed: u64) -> Vec<Pair> {
    let stream = Stream::new(seed, Purpose::ELAPSED_PAIRS);
    let mut pairs = Vec::new();
    for goal in 0..GOALS {
        let mut draws = stream.draws(0, goal);
        let row = draws.below(dataset.rows() as u32) as usize;
        let rows = dataset.trajectory(dataset.trajectory_of(row));
        let to = row.max(rows.start + 1);
        if to < rows.end {
            starts_of(goal, to, &rows, &mut draws, &mut pairs);
        }
    }
    pairs
}

/// The last rows of trajectories, all or as many as goals are drawn, with their starts.
fn draw_to_last(dataset: &Dataset, seed: u64) -> Vec<Pair> {
    let stream = Stream::new(seed, Purpose::ELAPSED_PAIRS);
    let count = dataset.trajectories() as u32;
    let mut pairs = Vec::new();
    for goal in 0..GOALS.min(count) {
        let mut draws = stream.draws(1, goal);
        let trajectory = if count > GOALS { draws.below(count) } else { goal };
        let rows = dataset.trajectory(trajectory as usize);
        starts_of(goal, rows.end - 1, &rows, &mut draws, &mut pairs);
    }
    pairs
}

/// Adds one start of a goal in every band that its trajectory has room for.
fn starts_of(goal: u32, to: usize, rows: &Range<usize>, draws: &mut Draws, pairs: &mut Vec<Pair>) {
    let most = to - rows.start;
    let mut least = 1;
    while least <= most {
        let room = least.min(most - least + 1);
        let elapsed = least + draws.below(room as u32) as usize;
        pairs.push(Pair { goal, from: to - elapsed, to });
        least *= 2;
    }
}

/// The median slope between two starts of one goal; those of a goal follow each other, nearest first.
fn drop_per_step(pairs: &[Pair], elapsed: &[f64], learned: &[f64]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (far, pair) in pairs.iter().enumerate() {
        let near = (0..far).rev().take_while(|&near| pairs[near].goal == pair.goal);
        slopes.extend(near.map(|at| (learned[far] - learned[at]) / (elapsed[far] - elapsed[at])));
    }
    median(slopes)
}

/// The share of pairs whose elapsed and learned steps are counted.
fn share(elapsed: &[f64], learned: &[f64], counts: impl Fn(f64, f64) -> bool) -> f64 {
    let both = elapsed.iter().zip(learned);
    both.filter(|(elapsed, learned)| counts(**elapsed, **learned)).count() as f64
        / elapsed.len() as f64
}

/// The fewest steps that lie between starts and goals at the fastest recorded change of every
/// coordinate that says where a state is.
fn fewest(trajectories: &Trajectories, starts: &[f32], goals: &[f32]) -> Vec<f64> {
    let dataset = &trajectories.dataset;
    let size = dataset.state_size();
    if dataset.is_divided() {
        // No process has seen all changes: the fewest that is certain is none.
        return vec![0.0; starts.len() / size];
    }
    let counts =
        |axis: &usize| trajectories.places.is_empty() || trajectories.places.contains(axis);
    let axes: Vec<usize> = (0..size).filter(counts).collect();
    let mut fastest = vec![0.0f32; axes.len()];
    for trajectory in 0..dataset.trajectories() {
        let rows = dataset.trajectory(trajectory);
        for row in rows.start + 1..rows.end {
            let (before, after) = (dataset.state(row - 1), dataset.state(row));
            for (fastest, &axis) in fastest.iter_mut().zip(&axes) {
                *fastest = fastest.max((after[axis] - before[axis]).abs());
            }
        }
    }
    let pairs = starts.chunks_exact(size).zip(goals.chunks_exact(size));
    let of_pair = |(start, goal): (&[f32], &[f32])| {
        let each = axes.iter().zip(&fastest).filter(|(_, fastest)| **fastest > 0.0);
        let steps =
            each.map(|(&axis, fastest)| f64::from((goal[axis] - start[axis]).abs() / fastest));
        steps.fold(0.0, f64::max)
    };
    pairs.map(of_pair).collect()
}

fn bands(elapsed: &[f64], learned: &[f64], fewest: &[f64]) -> Vec<Band> {
    let mut bands = Vec::new();
    let farthest = elapsed.iter().copied().fold(0.0, f64::max) as usize;
    let mut from = 1;
    while from <= farthest {
        let inside: Vec<usize> = (0..elapsed.len())
            .filter(|&at| (from..2 * from).contains(&(elapsed[at] as usize)))
            .collect();
        let of = |all: &[f64]| inside.iter().map(|&at| all[at]).collect::<Vec<f64>>();
        let (steps, learned) = (of(elapsed), of(learned));
        let far_above =
            share(&steps, &learned, |k, d| d > FACTOR * k + SLACK.min(SLACK_NEAR * (k + 1.0)));
        let far_below = share(&of(fewest), &learned, |k, d| k > FACTOR_BELOW * d + SLACK_BELOW);
        if let (Some(elapsed), Some(learned)) = (median(steps), median(learned)) {
            let pairs = inside.len();
            bands.push(Band { from, pairs, elapsed, learned, far_above, far_below });
        }
        from *= 2;
    }
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks of 48 rows along a line, a unit a row.
    fn walks(count: usize) -> Trajectories {
        let states = (0..count).flat_map(|_| (0..48).map(|row| row as f32)).collect();
        let dataset = Dataset::new(states, 1, None, &vec![48; count]).unwrap();
        Trajectories { dataset, held_out: Some(true), places: Vec::new() }
    }

    fn judged(on: &Trajectories, steps: impl Fn(f32, f32) -> f32) -> AgainstElapsed {
        let answers = |from: &[f32], to: &[f32]| {
            Ok(from.iter().zip(to).map(|(&from, &to)| steps(from, to)).collect())
        };
        compare(on, &draw(&on.dataset, 3), answers).unwrap().unwrap()
    }

    #[test]
    fn a_step_that_reads_as_nine_is_far_above_and_one_that_reads_as_five_is_not() {
        let far = |elapsed: f64, learned: f64| {
            let (elapsed, learned) = ([elapsed; 30], [learned; 30]);
            bands(&elapsed, &learned, &[0.0; 30]).last().unwrap().far_above
        };
        assert_eq!((far(1.0, 9.0), far(1.0, 5.0)), (1.0, 0.0));
        assert_eq!((far(4.0, 18.5), far(4.0, 17.5)), (1.0, 0.0));
        assert_eq!((far(50.0, 111.0), far(50.0, 109.0)), (1.0, 0.0));
    }

    #[test]
    fn a_distance_that_counts_steps_is_read_as_steps() {
        let found = judged(&walks(10), |from, to| to - from);
        assert_eq!((found.at_or_below, found.drop_per_step), (1.0, Some(1.0)));
        assert!((found.spearman.unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(
            (found.reading, found.held_out, found.trajectories),
            (Verdict::Steps, Some(true), 10)
        );
        let from: Vec<usize> = found.bands.iter().map(|band| band.from).collect();
        assert_eq!(from, [1, 2, 4, 8, 16, 32]);
        assert!(found.bands.iter().all(|band| band.learned == band.elapsed && band.pairs > 50));
        assert_eq!(found.bands.iter().map(|band| band.pairs).sum::<usize>(), found.pairs);
    }

    #[test]
    fn a_constant_that_drowns_the_steps_is_called_far_above() {
        // Exact steps e are read as 1.8 e + 163 by a contrastive learner, as 1.1 e + 9 by a network that
        // was not fitted for long and as 1.1 e + 3 by one that was; noise on top.
        let noise = |from: f32, to: f32| ((37.0 * from + 11.0 * to) % 7.0) - 3.0;
        let contrastive =
            judged(&walks(10), |from, to| 1.8 * (to - from) + 163.0 + noise(from, to));
        assert_eq!((contrastive.reading, contrastive.at_or_below), (Verdict::FarAbove, 0.0));
        assert!((contrastive.drop_per_step.unwrap() - 1.8).abs() < 0.2, "{contrastive:?}");
        let fitted = |constant: f32| {
            judged(&walks(10), |from, to| 1.1 * (to - from) + constant + noise(from, to))
        };
        assert_eq!([9.0, 3.0].map(|it| fitted(it).reading), [Verdict::FarAbove, Verdict::Steps]);
        // Near pairs may be right where far ones are not.
        let torn = judged(&walks(10), |from, to| if to - from < 16.0 { to - from } else { 400.0 });
        assert_eq!(torn.reading, Verdict::FarAbove);
        assert!(torn.at_or_below > 0.6, "{torn:?}");
        let below = judged(&walks(10), |from, to| 0.7 * (to - from));
        assert_eq!((below.reading, below.at_or_below), (Verdict::Steps, 1.0), "wandering data");
    }

    #[test]
    fn fewer_steps_than_the_fastest_recorded_moves_take_are_called_far_below() {
        let below = judged(&walks(10), |from, to| 0.2 * (to - from));
        assert_eq!((below.reading, below.at_or_below), (Verdict::FarBelow, 1.0));
        let far = below.bands.last().unwrap();
        assert!(far.from == 32 && far.far_below == 1.0 && below.bands[2].far_below == 0.0);
        // Who wanders may be told a tenth of the steps that elapsed: here and back again.
        let wander = |row: usize| [0.0, 1.0, 2.0, 1.0][row % 4];
        let states = (0..10).flat_map(|_| (0..48).map(wander)).collect();
        let dataset = Dataset::new(states, 1, None, &[48; 10]).unwrap();
        let wandering = judged(
            &Trajectories { dataset, held_out: Some(true), places: Vec::new() },
            |from, to| (to - from).abs(),
        );
        assert!(wandering.bands.iter().all(|band| band.far_below == 0.0));
        // A single leap makes every way possible.
        let mut leaping = walks(10);
        let mut states = leaping.dataset.states().to_vec();
        states[47] = 1e6;
        leaping.dataset = Dataset::new(states, 1, None, &[48; 10]).unwrap();
        assert_ne!(judged(&leaping, |from, to| 0.2 * (to - from)).reading, Verdict::FarBelow);
    }

    #[test]
    fn a_few_pairs_tell_nothing() {
        let on = walks(3);
        let right = |from: &[f32], to: &[f32]| {
            Ok(from.iter().zip(to).map(|(from, to)| to - from).collect())
        };
        let found = compare(&on, &draw_to_last(&on.dataset, 3), right).unwrap().unwrap();
        assert_eq!((found.reading, found.pairs), (Verdict::TooFew, 18));
        let on = walks(20);
        let found = compare(&on, &draw_to_last(&on.dataset, 3), right).unwrap().unwrap();
        assert_eq!(found.reading, Verdict::Steps);
    }

    #[test]
    fn a_distance_without_order_is_called_so() {
        let constant = judged(&walks(10), |_, _| 5.0);
        assert_eq!((constant.reading, constant.spearman), (Verdict::Unordered, None));
        assert_eq!(constant.drop_per_step, Some(0.0));
        let falling = judged(&walks(10), |from, to| 5.8 - 0.1 * (to - from));
        assert_eq!(falling.reading, Verdict::Unordered);
    }

    #[test]
    fn what_remains_is_counted_to_the_last_row() {
        let on = walks(600);
        let pairs = draw_to_last(&on.dataset, 3);
        assert!(pairs.iter().all(|pair| pair.to % 48 == 47 && pair.from / 48 == pair.to / 48));
        assert_eq!(pairs.len(), 400 * 6, "one start in each of six bands");
        let few = draw_to_last(&walks(3).dataset, 3);
        let goals: Vec<usize> = few.iter().step_by(6).map(|pair| pair.to).collect();
        assert_eq!(goals, [47, 95, 143], "every trajectory where there are few");
    }

    #[test]
    fn the_median_slope_is_that_worked_by_hand() {
        let pair = |goal, from| Pair { goal, from, to: 10 };
        // Goal 0: (1, 2), (3, 4), (8, 30): slopes 1, 4, 5.2. Goal 1: (1, 9), (2, 9): slope 0.
        let pairs = [pair(0, 9), pair(0, 7), pair(0, 2), pair(1, 9), pair(1, 8)];
        let slope =
            drop_per_step(&pairs, &[1.0, 3.0, 8.0, 1.0, 2.0], &[2.0, 4.0, 30.0, 9.0, 9.0]).unwrap();
        // Of 0, 1, 4 and 5.2 the middle is 2.5.
        assert!((slope - 2.5).abs() < 1e-12, "{slope}");
    }

    #[test]
    fn trajectories_of_one_row_have_no_pairs_and_broken_distances_are_refused() {
        let dataset = Dataset::new(vec![1.0, 2.0, 3.0], 1, None, &[1, 2]).unwrap();
        let on = Trajectories { dataset, held_out: Some(false), places: Vec::new() };
        let found = judged(&on, |_, _| 1.0);
        assert_eq!((found.bands.len(), found.reading), (1, Verdict::Steps));
        let pairs = draw(&on.dataset, 0);
        let broken = compare(&on, &pairs, |from, _| Ok(vec![f32::NAN; from.len()])).unwrap_err();
        assert!(broken.to_string().contains("`NaN`"), "{broken}");
    }
}
