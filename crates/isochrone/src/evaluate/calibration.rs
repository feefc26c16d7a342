//! How well learned steps agree with exact ones, and the map that makes them agree better.
//!
//! A learned distance to a point reads as steps plus a constant, an exact one is to a set, so raw
//! errors mean little. Told instead: Spearman's ρ by kind of pair, the line learned = slope · exact
//! + intercept, and the error left after a fitted monotone map from learned to exact steps.
//!
//! Which column is exact: pairs that one trajectory answers are compared with the data's own
//! occupancy distance, which is what a contrastive loss estimates; pairs that need several, where
//! that is infinite, with its triangle closure, which is what stitching alone can give. Both kinds
//! are compared with the optimal distance, which is what a user asks for; line and map use it.

use rayon::prelude::*;
use serde::Serialize;

use super::statistics::{Line, MonotoneMap, median, quantile, spearman};
use super::steps::all_finite;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::random::{Purpose, Stream};
use crate::simulate::referee::Columns;
use crate::simulate::referee::pinwheel::{Answer, Pair};

/// Rows looked at for each start that is wanted, before a goal is content with fewer.
const TRIES: usize = 50;
/// The share of errors that a band should hold.
const BAND: f64 = 0.9;

/// A goal, starts, and what the referee says about them; good for any model of the same world.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedGoal {
    /// The goal.
    pub goal: Vec<f32>,
    /// Starts outside the goal with their exact distances.
    pub starts: Vec<Judged>,
    /// Starts that were drawn and left out: no chain of recorded trajectories leads from them.
    pub unreachable: usize,
}

/// A start and its exact distances to a goal.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The start.
    pub from: Vec<f32>,
    /// The exact distances, in nats.
    pub answer: Answer,
}

/// Draws `goals` data states as goals and for each about `starts` data states as starts, one half
/// answered by one trajectory and one half stitched, and lets the referee judge them.
///
/// The referee solves each goal once, about 50 ms.
pub fn referee_pairs(
    referee: &Columns,
    dataset: &Dataset,
    seed: u64,
    goals: usize,
    starts: usize,
) -> Vec<JudgedGoal> {
    let stream = Stream::new(seed, Purpose::PAIRS);
    let judge = |index: usize| {
        let mut draws = stream.draws(0, index as u32);
        let mut row = || dataset.state(draws.below(dataset.rows() as u32) as usize);
        let goal = row();
        let seen = referee.seen(goal);
        let (closure, optimal) = (referee.closure(goal), referee.optimal(goal));
        let (mut room_seen, mut room_stitched) = (starts - starts / 2, starts / 2);
        let mut judged = JudgedGoal { goal: goal.to_vec(), starts: Vec::new(), unreachable: 0 };
        for _ in 0..starts * TRIES {
            let from = row();
            let answer = Answer {
                seen: seen.at(from),
                closure: closure.at(from),
                optimal: optimal.at(from),
            };
            let room = match answer.kind() {
                Pair::Seen => &mut room_seen,
                Pair::Stitched => &mut room_stitched,
            };
            if answer.optimal == 0.0 || *room == 0 {
                continue;
            }
            if answer.closure.is_finite() && answer.optimal.is_finite() {
                *room -= 1;
                judged.starts.push(Judged { from: from.to_vec(), answer });
            } else {
                judged.unreachable += 1;
            }
            if room_seen + room_stitched == 0 {
                break;
            }
        }
        judged
    };
    (0..goals).into_par_iter().map(judge).collect()
}

/// Agreement by rank on one kind of pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Agreement {
    /// How many pairs.
    pub pairs: usize,
    /// Spearman's ρ with what the data say: their occupancy distance on pairs seen together, its
    /// triangle closure on stitched pairs. None where it is not defined.
    pub data: Option<f64>,
    /// Spearman's ρ with the optimal distance.
    pub optimal: Option<f64>,
}

/// One pair: exact (optimal) and learned steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Steps under the best policy.
    pub exact: f64,
    /// Learned steps.
    pub learned: f64,
    /// Whether several trajectories must be joined.
    pub stitched: bool,
}

/// How a model's steps relate to exact ones.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// On pairs that one trajectory answers.
    pub seen: Agreement,
    /// On pairs that need several.
    pub stitched: Agreement,
    /// Pairs left out because an exact distance is infinite.
    pub left_out: usize,
    /// learned = slope · exact + intercept, by least squares over all pairs.
    pub line: Option<Line>,
    /// From learned to exact steps, fitted over all pairs.
    pub map: Option<MonotoneMap>,
    /// The median error in steps after the map, on goals the map was not fitted on: it is fitted on
    /// every other goal and judged on the rest, and the reverse.
    pub median_error: Option<f64>,
    /// Half the width in steps of the band around the map that holds 90 % of the pairs.
    pub band: Option<f64>,
    /// The share of pairs that such a band holds on goals it was not fitted on.
    pub coverage: Option<f64>,
    /// The pairs.
    pub points: Vec<Point>,
}

/// Compares the distance of `model` with the referee's answers.
///
/// # Errors
/// No pair has finite exact distances, or a learned distance is not finite.
pub fn calibrate(model: &Model, judged: &[JudgedGoal]) -> Result<Calibration> {
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for goal in judged {
        for start in &goal.starts {
            from.extend_from_slice(&start.from);
            to.extend_from_slice(&goal.goal);
        }
    }
    Calibration::of(judged, &model.steps(&from, &to)?, model.shape().discount)
}

/// A pair in steps: `data` is the column its kind is compared with.
struct Compared {
    goal: usize,
    data: f64,
    point: Point,
}

impl Calibration {
    /// Compares `learned` steps, one for each judged pair in order, with the answers; `discount`
    /// turns those into steps.
    ///
    /// # Errors
    /// No pair has finite exact distances, or a learned distance is not finite.
    pub fn of(judged: &[JudgedGoal], learned: &[f32], discount: f64) -> Result<Self> {
        let all = judged
            .iter()
            .enumerate()
            .flat_map(|(at, goal)| goal.starts.iter().map(move |start| (at, start.answer)));
        let compared: Vec<Compared> = all
            .zip(learned)
            .map(|((goal, answer), &learned)| Compared::new(goal, answer, learned, discount))
            .collect();
        all_finite(compared.iter().map(|pair| pair.point.learned))?;
        let asked = compared.len() + judged.iter().map(|goal| goal.unreachable).sum::<usize>();
        let compared: Vec<Compared> = compared
            .into_iter()
            .filter(|pair| pair.data.is_finite() && pair.point.exact.is_finite())
            .collect();
        if compared.is_empty() {
            return Err(Error::input(format!(
                "none of `{asked}` pairs has finite exact distances, expected some"
            ))
            .hint("draw more goals or starts"));
        }
        let points: Vec<Point> = compared.iter().map(|pair| pair.point).collect();
        let (exact, learned) = columns(&compared);
        let map = MonotoneMap::fit(&learned, &exact);
        let errors = |map: &MonotoneMap| errors(map, &compared);
        let held_out = HeldOut::of(&compared);
        Ok(Self {
            seen: agreement(&compared, false),
            stitched: agreement(&compared, true),
            left_out: asked - compared.len(),
            line: Line::fit(&exact, &learned),
            band: map.as_ref().and_then(|map| quantile(errors(map), BAND)),
            map,
            median_error: median(held_out.errors),
            coverage: (held_out.judged > 0).then(|| held_out.held / held_out.judged as f64),
            points,
        })
    }
}

impl Compared {
    fn new(goal: usize, answer: Answer, learned: f32, discount: f64) -> Self {
        let stitched = answer.kind() == Pair::Stitched;
        let steps = |nats: f64| crate::tabular::steps(nats, discount);
        let data = steps(if stitched { answer.closure } else { answer.seen });
        let point = Point { exact: steps(answer.optimal), learned: f64::from(learned), stitched };
        Self { goal, data, point }
    }
}

/// Exact and learned steps.
fn columns<'a>(pairs: impl IntoIterator<Item = &'a Compared>) -> (Vec<f64>, Vec<f64>) {
    pairs.into_iter().map(|pair| (pair.point.exact, pair.point.learned)).unzip()
}

fn errors<'a>(map: &MonotoneMap, pairs: impl IntoIterator<Item = &'a Compared>) -> Vec<f64> {
    let error = |pair: &Compared| (map.apply(pair.point.learned) - pair.point.exact).abs();
    pairs.into_iter().map(error).collect()
}

fn agreement(compared: &[Compared], stitched: bool) -> Agreement {
    let kind: Vec<&Compared> =
        compared.iter().filter(|pair| pair.point.stitched == stitched).collect();
    let (exact, learned) = columns(kind.iter().copied());
    let data: Vec<f64> = kind.iter().map(|pair| pair.data).collect();
    Agreement {
        pairs: kind.len(),
        data: spearman(&data, &learned),
        optimal: spearman(&exact, &learned),
    }
}

/// Errors of maps on goals they were not fitted on.
struct HeldOut {
    errors: Vec<f64>,
    judged: usize,
    held: f64,
}

impl HeldOut {
    fn of(compared: &[Compared]) -> Self {
        let mut found = Self { errors: Vec::new(), judged: 0, held: 0.0 };
        for fold in 0..2 {
            let (judged, fitted): (Vec<&Compared>, Vec<&Compared>) =
                compared.iter().partition(|pair| pair.goal % 2 == fold);
            let (exact, learned) = columns(fitted.iter().copied());
            let Some(map) = MonotoneMap::fit(&learned, &exact) else { continue };
            let Some(band) = quantile(errors(&map, fitted.iter().copied()), BAND) else { continue };
            let errors = errors(&map, judged.iter().copied());
            found.judged += errors.len();
            found.held += errors.iter().filter(|&&error| error <= band).count() as f64;
            found.errors.extend(errors);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::{Environment, World};

    const DISCOUNT: f64 = 0.9;

    /// Goals whose starts are 1, 2, … steps away; every third start is stitched and the data take
    /// twice as long; every seventh cannot be reached at all.
    fn judged(goals: usize, starts: usize) -> Vec<JudgedGoal> {
        let nats = |steps: f64| steps * -DISCOUNT.ln();
        let judge = |goal: usize, start: usize| {
            let optimal = nats((start + 1) as f64 + 0.1 * goal as f64);
            let closure = 2.0 * optimal;
            let seen = if start.is_multiple_of(3) { f64::INFINITY } else { closure };
            let lost = start % 7 == 6;
            let closure = if lost { f64::INFINITY } else { closure };
            let seen = if lost { f64::INFINITY } else { seen };
            Judged { from: vec![start as f32], answer: Answer { seen, closure, optimal } }
        };
        (0..goals)
            .map(|goal| JudgedGoal {
                goal: vec![goal as f32],
                starts: (0..starts).map(|start| judge(goal, start)).collect(),
                unreachable: 2,
            })
            .collect()
    }

    fn learned(judged: &[JudgedGoal], change: impl Fn(f64) -> f64) -> Vec<f32> {
        let answers = judged.iter().flat_map(|goal| &goal.starts).map(|start| start.answer);
        answers.map(|answer| change(answer.optimal / -DISCOUNT.ln()) as f32).collect()
    }

    #[test]
    fn steps_that_are_stretched_and_shifted_are_recognized() {
        let judged = judged(10, 21);
        let stretched = learned(&judged, |steps| 2.0 * steps + 5.0);
        let found = Calibration::of(&judged, &stretched, DISCOUNT).unwrap();
        let line = found.line.unwrap();
        assert!((line.slope - 2.0).abs() < 1e-5 && (line.intercept - 5.0).abs() < 1e-4);
        assert_eq!((found.seen.pairs, found.stitched.pairs), (120, 60));
        assert_eq!(found.left_out, 10 * (3 + 2));
        for rho in [found.seen.data, found.seen.optimal, found.stitched.data] {
            assert!((rho.unwrap() - 1.0).abs() < 1e-9);
        }
        assert!(found.median_error.unwrap() < 0.2 && found.band.unwrap() < 1e-4);
        assert_eq!(found.points.len(), 180);
        let map = found.map.unwrap();
        assert!((map.apply(25.0) - 10.0).abs() < 1e-3);
        let text = serde_json::to_string(&map).unwrap();
        assert_eq!(
            serde_json::from_str::<MonotoneMap>(&text).unwrap().values.len(),
            map.values.len()
        );
    }

    #[test]
    fn a_distance_that_says_the_same_of_all_pairs_has_no_rank_and_the_error_of_the_mean() {
        let judged = judged(4, 21);
        let constant = learned(&judged, |_| 3.0);
        let found = Calibration::of(&judged, &constant, DISCOUNT).unwrap();
        assert_eq!((found.seen.optimal, found.stitched.data), (None, None));
        assert_eq!(found.line.unwrap().slope, 0.0);
        assert!(found.median_error.unwrap() > 3.0);
        let coverage = found.coverage.unwrap();
        assert!((coverage - 0.9).abs() < 0.05, "{coverage}");
    }

    #[test]
    fn nothing_to_compare_and_broken_distances_are_refused() {
        let mut judged = judged(1, 5);
        let mut steps = learned(&judged, |steps| steps);
        steps[2] = f32::NAN;
        assert!(
            Calibration::of(&judged, &steps, DISCOUNT).unwrap_err().to_string().contains("NaN")
        );
        judged[0].starts.clear();
        let error = Calibration::of(&judged, &[], DISCOUNT).unwrap_err().to_string();
        assert!(error.starts_with("none of `2` pairs has finite exact distances"), "{error}");
    }

    #[test]
    fn the_referee_is_asked_about_both_kinds_of_pairs_and_agrees_with_itself() {
        let world = World::Pinwheel.pinwheel().unwrap();
        let data = world.generate(0).unwrap().dataset;
        let referee = Columns::new(&world, &data, world.discount()).unwrap();
        let judged = referee_pairs(&referee, &data, 1, 4, 20);
        assert_eq!(judged, referee_pairs(&referee, &data, 1, 4, 20));
        for goal in &judged {
            let pairs: Vec<(&[f32], &[f32])> =
                goal.starts.iter().map(|start| (&start.from[..], &goal.goal[..])).collect();
            let answers: Vec<Answer> = goal.starts.iter().map(|start| start.answer).collect();
            assert_eq!(referee.judge(&pairs), answers);
            assert!(answers.iter().all(|answer| answer.optimal > 0.0));
            let seen = answers.iter().filter(|answer| answer.kind() == Pair::Seen).count();
            assert!(seen <= 10 && answers.len() - seen <= 10, "{seen} of {}", answers.len());
        }
        let count = judged.iter().map(|goal| goal.starts.len()).sum::<usize>();
        assert!(count >= 60, "{count} of 80 pairs");
    }
}
