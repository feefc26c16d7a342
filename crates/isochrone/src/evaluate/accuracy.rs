//! How right learned steps are, against the exact steps of the best use of recorded moves.
//!
//! Goals are recorded rows, and so are the starts of each. Over pairs with a way: Spearman's ρ of all
//! pairs, of near ones (at most 15 exact steps), of far ones (more than 30) and of the starts of each
//! goal (their mean); the line learned = slope · exact + intercept by least squares; the median of
//! |learned − exact| / exact. Pairs without a way should be told apart: the chance that one of them
//! has a larger learned distance than a pair with a way, ties counted half (the area under the ROC
//! curve).

use rayon::prelude::*;
use serde::Serialize;

use super::statistics::{Line, exceeding, median, spearman};
use super::steps::all_finite;
use crate::data::Dataset;
use crate::error::Result;
use crate::model::Model;
use crate::random::{Purpose, Stream};
use crate::simulate::Referee;

/// Exact steps up to which a pair is near.
pub const NEAR: f64 = 15.0;
/// Exact steps above which a pair is far.
pub const FAR: f64 = 30.0;

/// Goals that are asked about, and starts for each.
pub const ASKED: [usize; 2] = [60, 60];

/// Exact steps to one goal; good for any model of the same world.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactSteps {
    /// The goal.
    pub goal: Vec<f32>,
    /// The starts, state after state.
    pub starts: Vec<f32>,
    /// The exact steps from each start, above 0; infinite where no supported moves lead to the goal.
    pub steps: Vec<f64>,
}

/// Draws `goals` recorded rows as goals and for each `starts` recorded rows as starts, and asks
/// `referee` for the supported distance between them. Starts that are already at the goal are left
/// out.
pub fn supported_steps(
    referee: &Referee,
    dataset: &Dataset,
    seed: u64,
    [goals, starts]: [usize; 2],
) -> Vec<ExactSteps> {
    let stream = Stream::new(seed, Purpose::SUPPORTED_PAIRS);
    let judge = |index: usize| {
        let mut draws = stream.draws(0, index as u32);
        let mut row = || dataset.state(draws.below(dataset.rows() as u32) as usize);
        let goal = row();
        let steps_from = referee.steps_to(goal);
        let mut judged = ExactSteps { goal: goal.to_vec(), starts: Vec::new(), steps: Vec::new() };
        for _ in 0..starts {
            let from = row();
            let steps = steps_from(from);
            if steps > 0.0 {
                judged.starts.extend_from_slice(from);
                judged.steps.push(steps);
            }
        }
        judged
    };
    (0..goals).into_par_iter().map(judge).collect()
}

/// How right learned steps are; see the module's head. None where a number is not defined.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Accuracy {
    /// Pairs with a way, which all but the last number are of.
    pub pairs: usize,
    /// Pairs without a way.
    pub unreachable: usize,
    /// Spearman's ρ over all pairs.
    pub spearman: Option<f64>,
    /// Spearman's ρ over pairs of at most [`NEAR`] exact steps.
    pub near: Option<f64>,
    /// Spearman's ρ over pairs of more than [`FAR`] exact steps.
    pub far: Option<f64>,
    /// Spearman's ρ over the starts of each goal, the mean over goals.
    pub per_goal: Option<f64>,
    /// Learned steps per exact step.
    pub slope: Option<f64>,
    /// The learned steps at 0 exact ones, by the same line.
    pub intercept: Option<f64>,
    /// The median of |learned − exact| / exact.
    pub median_relative_error: Option<f64>,
    /// The chance that a pair without a way has a larger learned distance than one with a way.
    pub unreachable_auc: Option<f64>,
}

/// The steps that `model` has learned for each goal from each of its starts.
///
/// # Errors
/// A model without a distance, or one for states of another size.
pub fn learned_steps(model: &Model, exact: &[ExactSteps]) -> Result<Vec<Vec<f64>>> {
    let learned = |asked: &ExactSteps| {
        let steps = super::steps_to(model, &asked.starts, &asked.goal)?;
        Ok(steps.into_iter().map(f64::from).collect())
    };
    exact.iter().map(learned).collect()
}

/// Compares the distance of `model` with exact steps.
///
/// # Errors
/// A learned distance is not finite.
pub fn accuracy(model: &Model, exact: &[ExactSteps]) -> Result<Accuracy> {
    Accuracy::of(exact, &learned_steps(model, exact)?)
}

impl Accuracy {
    /// What the columns of a table are called, in the order of [`Accuracy::values`].
    pub const NAMES: [&str; 10] = [
        "pairs",
        "unreachable",
        "spearman",
        "near",
        "far",
        "per_goal",
        "slope",
        "intercept",
        "median_relative_error",
        "unreachable_auc",
    ];

    /// All numbers; what is not defined is not a number.
    pub fn values(&self) -> [f64; 10] {
        let known = |number: Option<f64>| number.unwrap_or(f64::NAN);
        [
            self.pairs as f64,
            self.unreachable as f64,
            known(self.spearman),
            known(self.near),
            known(self.far),
            known(self.per_goal),
            known(self.slope),
            known(self.intercept),
            known(self.median_relative_error),
            known(self.unreachable_auc),
        ]
    }

    /// Compares `learned` steps, for each goal those of its starts, with exact ones.
    ///
    /// # Errors
    /// A learned distance is not finite.
    pub fn of(exact: &[ExactSteps], learned: &[Vec<f64>]) -> Result<Self> {
        all_finite(learned.iter().flatten().copied())?;
        let all: Vec<Pairs> = exact
            .iter()
            .zip(learned)
            .map(|(asked, learned)| Pairs::of(&asked.steps, learned))
            .collect();
        let joined = Pairs::joined(&all);
        let lost: Vec<f64> = exact
            .iter()
            .zip(learned)
            .flat_map(|(asked, learned)| asked.steps.iter().zip(learned))
            .filter(|(exact, _)| exact.is_infinite())
            .map(|(_, &learned)| learned)
            .collect();
        let by_goal: Vec<f64> = all.iter().filter_map(Pairs::spearman).collect();
        let mean = by_goal.iter().sum::<f64>() / by_goal.len() as f64;
        let line = Line::fit(&joined.exact, &joined.learned);
        Ok(Self {
            pairs: joined.exact.len(),
            unreachable: lost.len(),
            spearman: joined.spearman(),
            near: joined.only(|exact| exact <= NEAR).spearman(),
            far: joined.only(|exact| exact > FAR).spearman(),
            per_goal: (!by_goal.is_empty()).then_some(mean),
            slope: line.map(|line| line.slope),
            intercept: line.map(|line| line.intercept),
            median_relative_error: joined.median_relative_error(),
            unreachable_auc: exceeding(&lost, &joined.learned),
        })
    }
}

/// Exact and learned steps of pairs with a way.
#[derive(Default)]
struct Pairs {
    exact: Vec<f64>,
    learned: Vec<f64>,
}

impl Pairs {
    fn of(exact: &[f64], learned: &[f64]) -> Self {
        let pairs = exact.iter().copied().zip(learned.iter().copied());
        let (exact, learned) = pairs.filter(|(exact, _)| exact.is_finite()).unzip();
        Self { exact, learned }
    }

    fn joined(all: &[Self]) -> Self {
        let exact = all.iter().flat_map(|pairs| pairs.exact.iter().copied()).collect();
        let learned = all.iter().flat_map(|pairs| pairs.learned.iter().copied()).collect();
        Self { exact, learned }
    }

    fn only(&self, wanted: impl Fn(f64) -> bool) -> Self {
        let pairs = self.exact.iter().copied().zip(self.learned.iter().copied());
        let (exact, learned) = pairs.filter(|&(exact, _)| wanted(exact)).unzip();
        Self { exact, learned }
    }

    fn spearman(&self) -> Option<f64> {
        spearman(&self.exact, &self.learned)
    }

    fn median_relative_error(&self) -> Option<f64> {
        let pairs = self.exact.iter().zip(&self.learned);
        median(pairs.map(|(exact, learned)| (learned - exact).abs() / exact).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::World;

    fn asked(steps: &[f64]) -> ExactSteps {
        ExactSteps { goal: vec![0.0], starts: vec![0.0; steps.len()], steps: steps.to_vec() }
    }

    #[test]
    fn the_numbers_are_those_worked_by_hand() {
        let infinity = f64::INFINITY;
        let exact =
            [asked(&[5.0, 10.0, 15.0, infinity]), asked(&[20.0, 40.0, 50.0, 60.0, infinity])];
        let learned = [vec![10.0, 5.0, 20.0, 70.0], vec![30.0, 45.0, 70.0, 60.0, 100.0]];
        let found = Accuracy::of(&exact, &learned).unwrap();
        assert_eq!((found.pairs, found.unreachable), (7, 2));
        let text = serde_json::to_value(found).unwrap();
        for (name, value) in Accuracy::NAMES.iter().zip(found.values()) {
            assert_eq!(text[name].as_f64(), Some(value), "{name}");
        }
        let close = |found: Option<f64>, expected: f64| {
            assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?}, expected {expected}");
        };
        // Ranks 1 to 7 against 2 1 3 4 5 7 6: Σ d² = 4, 1 − 6 · 4 / (7 · 48).
        close(found.spearman, 1.0 - 24.0 / 336.0);
        // Near: 1 2 3 against 2 1 3. Far: 1 2 3 against 1 3 2.
        close(found.near, 0.5);
        close(found.far, 0.5);
        // The first goal ½; the second 1 2 3 4 against 1 2 4 3: 1 − 12 / 60.
        close(found.per_goal, (0.5 + 0.8) / 2.0);
        // Errors 1, ½, ⅓, ½, ⅛, ⅖, 0.
        close(found.median_relative_error, 0.4);
        // 70 exceeds six of seven and ties with one, 100 exceeds all.
        close(found.unreachable_auc, (6.5 + 7.0) / 14.0);
        // Means 200/7 and 240/7; Σ xy − n x̄ȳ = 10175 + 400 − 48000/7 − …, in full:
        let xy = 50.0 + 50.0 + 300.0 + 600.0 + 1_800.0 + 3_500.0 + 3_600.0;
        let xx = 25.0 + 100.0 + 225.0 + 400.0 + 1_600.0 + 2_500.0 + 3_600.0;
        let slope = (xy - 200.0 * 240.0 / 7.0) / (xx - 200.0 * 200.0 / 7.0);
        close(found.slope, slope);
        close(found.intercept, 240.0 / 7.0 - slope * 200.0 / 7.0);
    }

    #[test]
    fn what_is_not_defined_is_none_and_a_broken_distance_is_refused() {
        let all_lost = Accuracy::of(&[asked(&[f64::INFINITY])], &[vec![3.0]]).unwrap();
        assert_eq!((all_lost.pairs, all_lost.unreachable), (0, 1));
        assert_eq!((all_lost.spearman, all_lost.slope), (None, None));
        assert_eq!((all_lost.median_relative_error, all_lost.unreachable_auc), (None, None));
        let constant = Accuracy::of(&[asked(&[1.0, 2.0])], &[vec![3.0, 3.0]]).unwrap();
        assert_eq!((constant.spearman, constant.per_goal, constant.far), (None, None, None));
        assert_eq!((constant.slope, constant.intercept), (Some(0.0), Some(3.0)));
        let error = Accuracy::of(&[asked(&[1.0])], &[vec![f64::NAN]]).unwrap_err().to_string();
        assert!(error.contains("`NaN`"), "{error}");
    }

    #[test]
    fn exact_steps_are_of_recorded_rows_and_the_same_again() {
        let data = World::Pinwheel.open().generate(0).unwrap().dataset;
        let referee = Referee::of(World::Pinwheel, &data, 0.95).unwrap().unwrap();
        let exact = supported_steps(&referee, &data, 1, [3, 30]);
        assert_eq!(exact, supported_steps(&referee, &data, 1, [3, 30]));
        for asked in &exact {
            assert!(asked.steps.iter().all(|&steps| steps > 0.0));
            let steps_from = referee.steps_to(&asked.goal);
            for (start, &exact) in asked.starts.chunks_exact(2).zip(&asked.steps) {
                assert_eq!(steps_from(start), exact);
            }
        }
        let learned: Vec<Vec<f64>> =
            exact.iter().map(|asked| asked.steps.iter().map(|s| s.min(1e3)).collect()).collect();
        let found = Accuracy::of(&exact, &learned).unwrap();
        assert_eq!((found.median_relative_error, found.unreachable_auc), (Some(0.0), Some(1.0)));
        assert!((found.slope.unwrap() - 1.0).abs() < 1e-12);
        assert!(found.pairs > 2 * found.unreachable && found.unreachable > 5, "{found:?}");
    }
}
