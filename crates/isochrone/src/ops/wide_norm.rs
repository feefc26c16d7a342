//! d(x, y) = mean over components of ‖W relu([δ; −δ])‖₂, δ = x − y, W ≥ 0: the wide norm (Pitis et
//! al. 2020).
//!
//! W = raw² entry by entry: never negative, and only an entry at exactly 0 stays there. With raw
//! uniform within ±√(3 / n) an entry's mean is 1 / n.

use super::LANES;
use super::difference::{HeadWeights, Lane, WeightGradients, add_scaled, dot};
use crate::engine::Scalar;

/// The shape of a head: components, each a nonnegative map of the difference's two halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideNorm {
    /// Coordinates of a latent vector.
    pub latent: usize,
    /// Components the distance is the mean of.
    pub components: usize,
    /// Rows of each component's W.
    pub size: usize,
}

/// relu(δ) and relu(−δ).
#[inline(always)]
fn halves<T: Scalar>(difference: &Lane<T>) -> [Lane<T>; 2] {
    let (mut above, mut below) = ([T::ZERO; LANES], [T::ZERO; LANES]);
    for l in 0..LANES {
        above[l] = T::ZERO.at_least(difference[l]);
        below[l] = T::ZERO.at_least(-difference[l]);
    }
    [above, below]
}

impl WideNorm {
    /// Raw numbers of all components.
    pub fn raw(&self) -> usize {
        self.components * self.size * 2 * self.latent
    }

    /// The images of all components, and their norms.
    pub(super) fn room(&self) -> usize {
        self.components * (self.size + 1)
    }

    /// Row `at` of all W: the raw numbers of relu(δ), then those of relu(−δ).
    #[inline(always)]
    fn row(&self, at: usize) -> [std::ops::Range<usize>; 2] {
        let first = at * 2 * self.latent;
        [first..first + self.latent, first + self.latent..first + 2 * self.latent]
    }

    /// Keeps images and norms in `room`.
    #[inline(always)]
    pub(super) fn forward<T: Scalar>(
        &self,
        weights: HeadWeights<'_, T>,
        difference: &[Lane<T>],
        room: &mut [Lane<T>],
        out: &mut Lane<T>,
    ) {
        let (images, norms) = room.split_at_mut(self.components * self.size);
        images.as_flattened_mut().fill(T::ZERO);
        for (at, difference) in difference.iter().enumerate() {
            let [above, below] = halves(difference);
            for (row, image) in images.iter_mut().enumerate() {
                let [first, second] = self.row(row).map(|row| weights.raw[row.start + at]);
                add_scaled(image, first * first, &above);
                add_scaled(image, second * second, &below);
            }
        }
        *out = [T::ZERO; LANES];
        let share = T::ONE / T::of(self.components as f64);
        for (images, norm) in images.chunks_exact(self.size).zip(norms) {
            *norm = [T::ZERO; LANES];
            for image in images {
                (0..LANES).for_each(|l| norm[l] += image[l] * image[l]);
            }
            (0..LANES).for_each(|l| norm[l] = norm[l].sqrt());
            add_scaled(out, share, norm);
        }
    }

    #[inline(always)]
    pub(super) fn backward<T: Scalar>(
        &self,
        (weights, difference): (HeadWeights<'_, T>, &[Lane<T>]),
        room: &mut [Lane<T>],
        upstream: &Lane<T>,
        moved: &mut [Lane<T>],
        gradients: WeightGradients<'_, T>,
    ) {
        let (images, norms) = room.split_at_mut(self.components * self.size);
        let share = T::ONE / T::of(self.components as f64);
        // From here on an image is the derivative of the loss by it.
        for (images, norm) in images.chunks_exact_mut(self.size).zip(norms) {
            for image in images {
                for l in 0..LANES {
                    let slope = upstream[l] * share / norm[l] * image[l];
                    image[l] = if norm[l] > T::ZERO { slope } else { T::ZERO };
                }
            }
        }
        let two = T::ONE + T::ONE;
        for (at, (difference, moved)) in difference.iter().zip(moved).enumerate() {
            let [above, below] = halves(difference);
            for (row, image) in images.iter().enumerate() {
                let places = self.row(row).map(|row| row.start + at);
                let [first, second] = places.map(|place| weights.raw[place]);
                gradients.raw[places[0]] += dot(image, &above) * two * first;
                gradients.raw[places[1]] += dot(image, &below) * two * second;
                for l in 0..LANES {
                    let (up, down) = (first * first * image[l], second * second * image[l]);
                    moved[l] += if difference[l] > T::ZERO { up } else { T::ZERO };
                    moved[l] -= if difference[l] < T::ZERO { down } else { T::ZERO };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::DifferenceHead;

    /// One row of W as given, on two coordinates.
    fn plain(weights: [f64; 4], [x, y]: [f64; 2]) -> f64 {
        let halves = [x.max(0.0), y.max(0.0), (-x).max(0.0), (-y).max(0.0)];
        weights.iter().zip(halves).map(|(weight, half)| weight * half).sum::<f64>().abs()
    }

    #[test]
    fn a_head_of_one_row_and_of_two_components_is_the_formula() {
        let head = DifferenceHead::WideNorm(WideNorm { latent: 2, components: 1, size: 1 });
        let (raw, mut out) = ([1.0f64, -2.0, 0.5, 3.0], [0.0]);
        head.by_row(HeadWeights { raw: &raw, free: &[] }, [&[1.0, -1.0], &[0.0; 2]], &mut out);
        assert_eq!(out[0], 1.0 + 9.0);
        assert_eq!(plain(raw.map(|raw| raw * raw), [1.0, -1.0]), out[0]);
        // Rows (3, 0) and (0, 4) of the first component, (2, 0) and (0, 0) of the second: (5 + 2) / 2.
        let head = DifferenceHead::WideNorm(WideNorm { latent: 1, components: 2, size: 2 });
        let raw = [3f64.sqrt(), 0.0, 2.0, 7.0, 2f64.sqrt(), 1.0, 0.0, 1.0];
        head.by_row(HeadWeights { raw: &raw, free: &[] }, [&[1.0], &[0.0]], &mut out);
        assert!((out[0] - 3.5).abs() < 1e-14);
    }

    #[test]
    fn a_negative_weight_breaks_the_triangle_inequality_and_cannot_be_learned() {
        let (one, other, both) = ([1.0, 1.0], [1.0, -1.0], [2.0, 0.0]);
        let excess =
            |weights: [f64; 4]| plain(weights, both) - plain(weights, one) - plain(weights, other);
        assert!(excess([1.0, -1.0, 0.0, 0.0]) > 0.9);
        assert!(excess([1.0, 1.0, 0.0, 0.0]) <= 0.0);
        let head = DifferenceHead::WideNorm(WideNorm { latent: 2, components: 1, size: 1 });
        let mut signs = [0.0; 2];
        for (out, raw) in signs.iter_mut().zip([[1.0, -1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]) {
            let weights = HeadWeights { raw: &raw, free: &[] };
            head.by_row(weights, [&[1.0, 1.0], &[0.0; 2]], std::slice::from_mut(out));
        }
        assert_eq!(signs, [2.0, 2.0]);
    }
}
