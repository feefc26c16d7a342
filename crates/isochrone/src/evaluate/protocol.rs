//! Two ways to report the evaluations of one run: the mean of its last three, and the best of all.
//!
//! The best of many noisy evaluations is too high, the more so the more there are; it is what some
//! papers print, so it stands beside the mean of the last three and never alone.

use serde::Serialize;

/// Evaluations that the mean is over.
pub const LAST: usize = 3;

/// A summary of the evaluations of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OverTraining {
    /// How many evaluations there were.
    pub evaluations: usize,
    /// The mean of the last three; of all where there are fewer.
    pub last_three: f64,
    /// The best of all.
    pub best: f64,
    /// The mean of the last three, or of half where there are fewer than six, less that of as many before
    /// them; none where there is only one.
    pub change: Option<f64>,
}

impl OverTraining {
    /// Summarizes `rates`, in the order of training; none if nothing was measured.
    pub fn of(rates: &[f64]) -> Option<Self> {
        let rates: Vec<f64> = rates.iter().copied().filter(|rate| rate.is_finite()).collect();
        let mean = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
        let last = |count: usize| rates.len().saturating_sub(count);
        let held = LAST.min(rates.len() / 2);
        let change = || mean(&rates[last(held)..]) - mean(&rates[last(2 * held)..last(held)]);
        (!rates.is_empty()).then(|| Self {
            evaluations: rates.len(),
            last_three: mean(&rates[last(LAST)..]),
            best: rates.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            change: (held > 0).then(change),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_three_count_and_the_best_stands_beside_them() {
        let found = OverTraining::of(&[0.9, 0.1, 0.2, f64::NAN, 0.6]).unwrap();
        assert_eq!((found.evaluations, found.best), (4, 0.9));
        assert!((found.last_three - 0.3).abs() < 1e-12);
        let short = OverTraining::of(&[0.5, 0.25]).unwrap();
        assert_eq!((short.evaluations, short.last_three, short.best), (2, 0.375, 0.5));
        assert!((found.change.unwrap() + 0.1).abs() < 1e-12);
        assert_eq!((short.change, OverTraining::of(&[0.5]).unwrap().change), (Some(-0.25), None));
        let long = OverTraining::of(&[0.9, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5]).unwrap();
        assert_eq!(long.change, Some(0.25));
        assert_eq!(OverTraining::of(&[f64::NAN]), None);
    }
}
