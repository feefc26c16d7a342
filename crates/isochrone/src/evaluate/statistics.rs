//! Agreement of two columns of numbers, by rank, by a straight line and by a monotone map; and
//! summaries over seeds.
//!
//! Spearman's ρ is the correlation of ranks, ties sharing their mean rank. The line is least
//! squares. The map is isotonic regression, the non-decreasing step values nearest to the data in
//! squares, by pooling adjacent violators (Ayer et al. 1955). The interquartile mean and its
//! stratified bootstrap are those of Agarwal et al., "Deep reinforcement learning at the edge of
//! the statistical precipice", 2021.

use serde::{Deserialize, Serialize};

use crate::random::{Purpose, Stream};

/// The seed of every bootstrap.
const RESAMPLING_SEED: u64 = 0;
/// How often a bootstrap draws again.
pub const RESAMPLES: u64 = 2_000;
/// The share of resamples that an interval holds.
const CONFIDENCE: f64 = 0.95;

/// Spearman's rank correlation; none with fewer than two pairs or a constant column.
pub fn spearman(one: &[f64], other: &[f64]) -> Option<f64> {
    let (one, other) = (ranks(one), ranks(other));
    let moments = Moments::of(&one, &other);
    let scale = (moments.variance_of_one * moments.variance_of_other).sqrt();
    (scale > 0.0).then(|| moments.covariance / scale)
}

/// The chance that one of `higher` exceeds one of `lower`, ties counted half: the area under the ROC
/// curve that tells them apart. None where either is empty.
pub(super) fn exceeding(higher: &[f64], lower: &[f64]) -> Option<f64> {
    let (above, below) = (higher.len() as f64, lower.len() as f64);
    let ranks = ranks(&[higher, lower].concat());
    let sum: f64 = ranks[..higher.len()].iter().sum();
    (above * below > 0.0).then(|| (sum - above * (above + 1.0) / 2.0) / (above * below))
}

/// For each number its place in rising order, from 1; equal numbers share the mean of their places.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|&a, &b| numbers[a].total_cmp(&numbers[b]));
    let mut ranks = vec![0.0; numbers.len()];
    let mut before = 0;
    for tied in order.chunk_by(|&a, &b| numbers[a] == numbers[b]) {
        let rank = before as f64 + (tied.len() + 1) as f64 / 2.0;
        tied.iter().for_each(|&at| ranks[at] = rank);
        before += tied.len();
    }
    ranks
}

/// Sums of centred products.
struct Moments {
    means: [f64; 2],
    variance_of_one: f64,
    variance_of_other: f64,
    covariance: f64,
}

impl Moments {
    fn of(one: &[f64], other: &[f64]) -> Self {
        let count = one.len() as f64;
        let means = [one, other].map(|column| column.iter().sum::<f64>() / count);
        let products = |a: &[f64], a_mean: f64, b: &[f64], b_mean: f64| {
            a.iter().zip(b).map(|(x, y)| (x - a_mean) * (y - b_mean)).sum::<f64>()
        };
        Self {
            means,
            variance_of_one: products(one, means[0], one, means[0]),
            variance_of_other: products(other, means[1], other, means[1]),
            covariance: products(one, means[0], other, means[1]),
        }
    }
}

/// A straight line: value = slope · argument + intercept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The rise per unit.
    pub slope: f64,
    /// The value at 0.
    pub intercept: f64,
}

impl Line {
    /// The line of least squares; none with fewer than two different arguments.
    pub fn fit(arguments: &[f64], values: &[f64]) -> Option<Self> {
        let moments = Moments::of(arguments, values);
        (moments.variance_of_one > 0.0).then(|| {
            let slope = moments.covariance / moments.variance_of_one;
            Self { slope, intercept: moments.means[1] - slope * moments.means[0] }
        })
    }
}

/// A non-decreasing map, linear between its knots and constant beyond them.
///
/// Calibrated steps are not a quasimetric: the map need not keep the triangle inequality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonotoneMap {
    /// The knots' arguments, rising.
    pub arguments: Vec<f64>,
    /// Their values, never falling.
    pub values: Vec<f64>,
}

/// Neighbours that share one value.
struct Pool {
    first: f64,
    last: f64,
    sum: f64,
    count: f64,
}

impl Pool {
    fn value(&self) -> f64 {
        self.sum / self.count
    }

    fn join(&mut self, next: &Self) {
        self.last = next.last;
        self.sum += next.sum;
        self.count += next.count;
    }
}

impl MonotoneMap {
    /// The non-decreasing map nearest to the points in squares; equal arguments get one value. None
    /// without points.
    pub fn fit(arguments: &[f64], values: &[f64]) -> Option<Self> {
        let mut points: Vec<(f64, f64)> =
            arguments.iter().copied().zip(values.iter().copied()).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut pools: Vec<Pool> = Vec::new();
        for tied in points.chunk_by(|one, other| one.0 == other.0) {
            let (at, sum) = (tied[0].0, tied.iter().map(|point| point.1).sum());
            let mut pool = Pool { first: at, last: at, sum, count: tied.len() as f64 };
            while let Some(mut before) = pools.pop_if(|before| before.value() >= pool.value()) {
                before.join(&pool);
                pool = before;
            }
            pools.push(pool);
        }
        let ends = |pool: &Pool| {
            let count = if pool.first < pool.last { 2 } else { 1 };
            let value = pool.value();
            [(pool.first, value), (pool.last, value)].into_iter().take(count)
        };
        let (arguments, values) = pools.iter().flat_map(ends).unzip();
        (!pools.is_empty()).then_some(Self { arguments, values })
    }

    /// The value at `argument`.
    pub fn apply(&self, argument: f64) -> f64 {
        let after = self.arguments.partition_point(|&knot| knot < argument);
        let Some((&right, &high)) = self.arguments.get(after).zip(self.values.get(after)) else {
            return self.values.last().copied().unwrap_or(f64::NAN);
        };
        if after == 0 {
            return high;
        }
        let (left, low) = (self.arguments[after - 1], self.values[after - 1]);
        low + (high - low) * (argument - left) / (right - left)
    }
}

/// The least of `numbers` that `share` of them do not exceed; none without numbers.
pub(super) fn quantile(mut numbers: Vec<f64>, share: f64) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    quantile_of_sorted(&numbers, share)
}

fn quantile_of_sorted(numbers: &[f64], share: f64) -> Option<f64> {
    let place = (numbers.len() as f64 * share).ceil() as usize;
    numbers.get(place.max(1) - 1).copied()
}

/// The median: the mean of the two middle numbers where their count is even.
pub(super) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let upper = *numbers.get(numbers.len() / 2)?;
    let lower = numbers[(numbers.len() - 1) / 2];
    Some(0.5 * (lower + upper))
}

/// A summary over several seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OverSeeds {
    /// How many.
    pub seeds: usize,
    /// Their mean.
    pub mean: f64,
    /// √(Σ (value − mean)² / (n − 1) / n); none of one seed or of several strata.
    pub standard_error: Option<f64>,
    /// The mean without the lowest and the highest quarter.
    pub interquartile_mean: f64,
    /// The bootstrap interval of the interquartile mean, which holds 95 % of the resamples.
    pub interval: [f64; 2],
}

impl OverSeeds {
    /// Summarizes `values`, one per seed; none without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        Self::of_strata(&[values])
    }

    /// Summarizes the values of several `strata`, such as worlds; resampling draws within each. None
    /// without values.
    pub fn of_strata(strata: &[&[f64]]) -> Option<Self> {
        let values = strata.concat();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let defined = values.len() > 1 && strata.len() == 1;
        Some(Self {
            seeds: values.len(),
            mean,
            standard_error: defined.then(|| (squares / (count - 1.0) / count).sqrt()),
            interquartile_mean: interquartile_mean(&values)?,
            interval: bootstrap(strata, interquartile_mean)?,
        })
    }
}

/// The mean of what is left when ⌊n/4⌋ values are cut from either end; none without values.
pub fn interquartile_mean(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = sorted.len() / 4;
    let middle = &sorted[cut..sorted.len() - cut];
    (!middle.is_empty()).then(|| middle.iter().sum::<f64>() / middle.len() as f64)
}

/// The percentile bootstrap interval of `statistic`: of resamples drawn with replacement within
/// each of the `strata`, those between the 2.5th and the 97.5th percentile. The draws are the same
/// for strata of the same lengths. None where the statistic is.
pub fn bootstrap(strata: &[&[f64]], statistic: impl Fn(&[f64]) -> Option<f64>) -> Option<[f64; 2]> {
    let stream = Stream::new(RESAMPLING_SEED, Purpose::RESAMPLING);
    let mut resample = Vec::new();
    let mut found = Vec::new();
    for round in 0..RESAMPLES {
        resample.clear();
        for (index, values) in (0..).zip(strata) {
            let mut draws = stream.draws(round, index);
            let mut draw = |_: &f64| values[draws.below(values.len() as u32) as usize];
            resample.extend(values.iter().map(&mut draw));
        }
        found.push(statistic(&resample)?);
    }
    found.sort_by(f64::total_cmp);
    let outside = 0.5 * (1.0 - CONFIDENCE);
    let at = |share: f64| quantile_of_sorted(&found, share);
    Some([at(outside)?, at(1.0 - outside)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_with_ties_and_the_correlation_are_those_worked_by_hand() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0, 3.0]), [4.0, 1.0, 4.0, 2.0, 4.0]);
        // Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: covariance 4.5, variances 4.5 and 5.
        let rho = spearman(&[1.0, 2.0, 2.0, 5.0], &[10.0, 30.0, 20.0, 40.0]).unwrap();
        assert!((rho - 4.5 / 22.5f64.sqrt()).abs() < 1e-15);
        // Without ties 1 − 6 Σ d² / (n (n² − 1)): d = 1, 1, 0, 1, 1.
        let rho = spearman(&[1.0, 2.0, 3.0, 4.0, 5.0], &[2.0, 1.0, 3.0, 5.0, 4.0]).unwrap();
        assert!((rho - 0.8).abs() < 1e-15);
        let falling = spearman(&[1.0, 2.0, 9.0], &[3.0, 0.0, -70.0]).unwrap();
        assert!((falling + 1.0).abs() < 1e-15);
        assert_eq!(spearman(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(spearman(&[], &[]), None);
    }

    #[test]
    fn one_column_exceeds_another_as_often_as_counted_by_hand() {
        // 2 exceeds 1 and ties with 2; 5 exceeds both.
        assert_eq!(exceeding(&[2.0, 5.0], &[1.0, 2.0]), Some(3.5 / 4.0));
        assert_eq!(exceeding(&[1.0, 1.0, 1.0], &[1.0]), Some(0.5));
        assert_eq!(exceeding(&[0.0], &[1.0, 7.0]), Some(0.0));
        assert_eq!((exceeding(&[], &[1.0]), exceeding(&[1.0], &[])), (None, None));
    }

    #[test]
    fn the_line_of_least_squares_is_that_worked_by_hand() {
        let line = Line::fit(&[0.0, 1.0, 2.0], &[1.0, 2.0, 6.0]).unwrap();
        assert!((line.slope - 2.5).abs() < 1e-15 && (line.intercept - 0.5).abs() < 1e-15);
        assert_eq!(Line::fit(&[2.0, 2.0], &[1.0, 3.0]), None);
    }

    #[test]
    fn adjacent_violators_are_pooled_as_worked_by_hand() {
        let map = MonotoneMap::fit(&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!(
            (map.arguments.as_slice(), map.values.as_slice()),
            (&[1.0, 2.0, 3.0, 4.0][..], &[1.0, 2.5, 2.5, 4.0][..])
        );
        assert_eq!([0.0, 1.5, 2.7, 3.5, 9.0].map(|x| map.apply(x)), [1.0, 1.75, 2.5, 3.25, 4.0]);
        // 4, 3 and 2 fall, so all three become 3.
        let falling = MonotoneMap::fit(&[1.0, 2.0, 3.0, 4.0], &[0.0, 4.0, 3.0, 2.0]).unwrap();
        assert_eq!(falling.values, [0.0, 3.0, 3.0]);
        let tied = MonotoneMap::fit(&[2.0, 1.0, 2.0], &[5.0, 0.0, 7.0]).unwrap();
        assert_eq!((tied.apply(2.0), tied.apply(1.0)), (6.0, 0.0));
        assert_eq!(MonotoneMap::fit(&[], &[]), None);
    }

    #[test]
    fn no_other_monotone_steps_are_nearer() {
        let mut draws = Stream::new(4, Purpose(0)).draws(0, 0);
        let arguments: Vec<f64> = (0..40).map(f64::from).collect();
        let values: Vec<f64> = arguments.iter().map(|x| 0.1 * x + draws.normal()).collect();
        let map = MonotoneMap::fit(&arguments, &values).unwrap();
        let fitted: Vec<f64> = arguments.iter().map(|&x| map.apply(x)).collect();
        assert!(fitted.windows(2).all(|pair| pair[0] <= pair[1]));
        let error =
            |steps: &[f64]| steps.iter().zip(&values).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
        for _ in 0..1_000 {
            let mut other: Vec<f64> = fitted.iter().map(|x| x + 0.1 * draws.normal()).collect();
            other.sort_by(f64::total_cmp);
            assert!(error(&other) >= error(&fitted));
        }
    }

    #[test]
    fn quantiles_and_medians_are_members_or_their_middle() {
        assert_eq!(quantile((1..=10).map(f64::from).collect(), 0.9), Some(9.0));
        assert_eq!(quantile(vec![5.0], 0.9), Some(5.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!((median(vec![7.0, 1.0, 3.0]), median(vec![])), (Some(3.0), None));
    }
    #[test]
    fn seeds_come_to_what_was_worked_by_hand() {
        // Cut one of each end of five: (2 + 3 + 4) / 3. Of eight, two of each end.
        assert_eq!(interquartile_mean(&[100.0, 3.0, 2.0, 4.0, -7.0]), Some(3.0));
        let eight = [9.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0];
        assert_eq!(interquartile_mean(&eight), Some((3.0 + 4.0 + 6.0 + 7.0) / 4.0));
        assert_eq!(interquartile_mean(&[1.0, 2.0, 6.0]), Some(3.0), "nothing is cut of three");
        assert_eq!(interquartile_mean(&[]), None);
        let found = OverSeeds::of(&[1.0, 3.0, 5.0]).unwrap();
        assert_eq!((found.seeds, found.mean), (3, 3.0));
        assert!((found.standard_error.unwrap() - 2.0 / 3.0f64.sqrt()).abs() < 1e-15);
        let one = OverSeeds::of(&[0.25]).unwrap();
        assert_eq!((one.standard_error, one.interval), (None, [0.25; 2]));
        assert_eq!(OverSeeds::of(&[]), None);
    }

    #[test]
    fn a_bootstrap_has_the_quantiles_of_all_resamples() {
        // Means of two draws from {0, 1}: 0, ½, 1 with chances ¼, ½, ¼; of three draws 0 has ⅛.
        let mean = |values: &[f64]| Some(values.iter().sum::<f64>() / values.len() as f64);
        assert_eq!(bootstrap(&[&[0.0, 1.0]], mean), Some([0.0, 1.0]));
        // Ten draws from nine zeros and a one hold k ones by the binomial law at 1/10: no more than
        // 3 with chance 0.987, no more than 2 with 0.930.
        let mut rare = [0.0; 10];
        rare[4] = 1.0;
        let sum = |values: &[f64]| Some(values.iter().sum::<f64>());
        assert_eq!(bootstrap(&[&rare], sum), Some([0.0, 3.0]));
        assert_eq!(bootstrap(&[&rare], sum), bootstrap(&[&rare], sum));
    }

    #[test]
    fn a_bootstrap_draws_within_strata() {
        // Each stratum is constant, so every resample is the sample; mixed, it would not be.
        let found = OverSeeds::of_strata(&[&[0.0; 4], &[1.0; 4]]).unwrap();
        assert_eq!((found.mean, found.interval), (0.5, [0.5; 2]));
        assert_eq!(found.standard_error, None, "strata differ by more than chance");
        let mixed = OverSeeds::of(&[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]).unwrap();
        assert!(mixed.interval[0] < 0.2 && mixed.interval[1] > 0.8, "{mixed:?}");
    }
}
