//! d(x, y) = Σ_i α_i (1 − exp(−mean_j relu(x_ij − y_ij))): a Poisson quasimetric embedding in its
//! Lebesgue-measure, half-line form (Wang and Isola 2022, PQE-LH).
//!
//! α_i = softplus(raw_i) ≥ 0: a negative α would break the triangle inequality. A group i of
//! coordinates adds at most α_i, so the distance is bounded by Σ α.

use super::LANES;
use super::difference::{HeadWeights, Lane, WeightGradients, dot};
use crate::engine::Scalar;

/// The shape of a head: groups of coordinates, each with a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PqeLh {
    /// Groups whose shares are summed.
    pub groups: usize,
    /// Coordinates in a group.
    pub size: usize,
}

impl PqeLh {
    /// Keeps 1 − exp(−mean) of every group in `room`.
    #[inline(always)]
    pub(super) fn forward<T: Scalar>(
        &self,
        weights: HeadWeights<'_, T>,
        difference: &[Lane<T>],
        room: &mut [Lane<T>],
        out: &mut Lane<T>,
    ) {
        *out = [T::ZERO; LANES];
        let share = T::ONE / T::of(self.size as f64);
        let groups = difference.chunks_exact(self.size).zip(room).zip(weights.raw);
        for ((difference, kept), &raw) in groups {
            let mut sum = [T::ZERO; LANES];
            for difference in difference {
                (0..LANES).for_each(|l| sum[l] += T::ZERO.at_least(difference[l]));
            }
            let alpha = raw.softplus();
            for l in 0..LANES {
                kept[l] = T::ONE - (-(sum[l] * share)).exp();
                out[l] += alpha * kept[l];
            }
        }
    }

    #[inline(always)]
    pub(super) fn backward<T: Scalar>(
        &self,
        (weights, difference): (HeadWeights<'_, T>, &[Lane<T>]),
        room: &[Lane<T>],
        upstream: &Lane<T>,
        moved: &mut [Lane<T>],
        gradients: WeightGradients<'_, T>,
    ) {
        let share = T::ONE / T::of(self.size as f64);
        for (group, (kept, &raw)) in room.iter().zip(weights.raw).enumerate() {
            let (alpha, slope) = (raw.softplus(), raw.sigmoid());
            gradients.raw[group] += dot(upstream, kept) * slope;
            let places = group * self.size..(group + 1) * self.size;
            for (moved, difference) in moved[places.clone()].iter_mut().zip(&difference[places]) {
                for l in 0..LANES {
                    let through = upstream[l] * alpha * (T::ONE - kept[l]) * share;
                    moved[l] += if difference[l] > T::ZERO { through } else { T::ZERO };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::DifferenceHead;

    /// The formula with α as given.
    fn plain(alpha: &[f64], size: usize, difference: &[f64]) -> f64 {
        let share = |group: &[f64]| {
            1.0 - (-group.iter().map(|x| x.max(0.0)).sum::<f64>() / size as f64).exp()
        };
        alpha.iter().zip(difference.chunks(size)).map(|(alpha, group)| alpha * share(group)).sum()
    }

    #[test]
    fn two_groups_have_the_distance_of_the_formula() {
        let head = DifferenceHead::PqeLh(PqeLh { groups: 2, size: 2 });
        let (raw, mut out) = ([0.5f64, -1.0], [0.0]);
        let (from, to) = ([1.0, 2.0, 0.0, -1.0], [0.0, 3.0, -2.0, -2.0]);
        head.by_row(HeadWeights { raw: &raw, free: &[] }, [&from, &to], &mut out);
        let alpha = raw.map(Scalar::softplus);
        // The first group's mean is (1 + 0) / 2, the second's (2 + 1) / 2.
        let expected = alpha[0] * (1.0 - (-0.5f64).exp()) + alpha[1] * (1.0 - (-1.5f64).exp());
        assert!((out[0] - expected).abs() < 1e-14);
        assert!((plain(&alpha, 2, &[1.0, -1.0, 2.0, 1.0]) - expected).abs() < 1e-14);
    }

    #[test]
    fn a_negative_weight_breaks_the_triangle_inequality() {
        let distance = |alpha: f64, difference: f64| plain(&[alpha], 1, &[difference]);
        assert!(distance(1.0, 2.0) <= 2.0 * distance(1.0, 1.0));
        assert!(distance(-1.0, 2.0) > 2.0 * distance(-1.0, 1.0));
    }
}
