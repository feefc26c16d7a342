//! h₁ = relu(U₀ δ), h_{l+1} = relu(W_l h_l + U_l δ), d = mean of the last h, δ = x − y, W ≥ 0, no
//! biases: the deep norm (Pitis et al. 2020).
//!
//! Every h is convex and grows in proportion with δ, so the triangle inequality holds; a negative W
//! would break it. W = raw² entry by entry, U is free. With raw uniform within ±√(3 / n) an entry of
//! W has mean 1 / n.

use super::LANES;
use super::difference::{HeadWeights, Lane, WeightGradients, add_scaled, dot};
use crate::engine::Scalar;

/// The shape of a head: layers of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeepNorm {
    /// Coordinates of a latent vector.
    pub latent: usize,
    /// Layers, at least two.
    pub layers: usize,
    /// Units of a layer.
    pub units: usize,
}

impl DeepNorm {
    /// Raw numbers of W, from each layer to the next.
    pub fn raw(&self) -> usize {
        (self.layers - 1) * self.units * self.units
    }

    /// The size of U, from the difference to each layer.
    pub fn free(&self) -> usize {
        self.layers * self.units * self.latent
    }

    /// All units, and the gradients of two layers.
    pub(super) fn room(&self) -> usize {
        (self.layers + 2) * self.units
    }

    /// The raw row of W into `unit` of `layer`, which is not the first.
    #[inline(always)]
    fn inner(&self, layer: usize, unit: usize) -> std::ops::Range<usize> {
        let first = ((layer - 1) * self.units + unit) * self.units;
        first..first + self.units
    }

    /// The row of U into `unit` of `layer`.
    #[inline(always)]
    fn outer(&self, layer: usize, unit: usize) -> std::ops::Range<usize> {
        let first = (layer * self.units + unit) * self.latent;
        first..first + self.latent
    }

    /// Keeps all units in `room`.
    #[inline(always)]
    pub(super) fn forward<T: Scalar>(
        &self,
        weights: HeadWeights<'_, T>,
        difference: &[Lane<T>],
        room: &mut [Lane<T>],
        out: &mut Lane<T>,
    ) {
        for layer in 0..self.layers {
            let (before, here) = room.split_at_mut(layer * self.units);
            for (unit, here) in here[..self.units].iter_mut().enumerate() {
                *here = [T::ZERO; LANES];
                for (&weight, value) in weights.free[self.outer(layer, unit)].iter().zip(difference)
                {
                    add_scaled(here, weight, value);
                }
                if layer > 0 {
                    let before = &before[(layer - 1) * self.units..];
                    for (&raw, value) in weights.raw[self.inner(layer, unit)].iter().zip(before) {
                        add_scaled(here, raw * raw, value);
                    }
                }
                (0..LANES).for_each(|l| here[l] = T::ZERO.at_least(here[l]));
            }
        }
        *out = [T::ZERO; LANES];
        let share = T::ONE / T::of(self.units as f64);
        let last = &room[(self.layers - 1) * self.units..self.layers * self.units];
        last.iter().for_each(|value| add_scaled(out, share, value));
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
        let (values, spare) = room.split_at_mut(self.layers * self.units);
        let (mut slopes, mut below) = spare.split_at_mut(self.units);
        let share = T::ONE / T::of(self.units as f64);
        for slope in slopes.iter_mut() {
            (0..LANES).for_each(|l| slope[l] = upstream[l] * share);
        }
        let two = T::ONE + T::ONE;
        for layer in (0..self.layers).rev() {
            let (before, here) = values.split_at_mut(layer * self.units);
            below.as_flattened_mut().fill(T::ZERO);
            for (unit, (slope, here)) in slopes.iter_mut().zip(&*here).enumerate() {
                for l in 0..LANES {
                    slope[l] = if here[l] > T::ZERO { slope[l] } else { T::ZERO };
                }
                let outer = self.outer(layer, unit);
                for (at, place) in outer.enumerate() {
                    gradients.free[place] += dot(slope, &difference[at]);
                    add_scaled(&mut moved[at], weights.free[place], slope);
                }
                if layer > 0 {
                    let before = &before[(layer - 1) * self.units..];
                    for (at, place) in self.inner(layer, unit).enumerate() {
                        let raw = weights.raw[place];
                        gradients.raw[place] += dot(slope, &before[at]) * two * raw;
                        add_scaled(&mut below[at], raw * raw, slope);
                    }
                }
            }
            std::mem::swap(&mut slopes, &mut below);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::DifferenceHead;

    /// One unit a layer on two coordinates: relu(w relu(δ₁) + δ₂), w as given.
    fn plain(weight: f64, [x, y]: [f64; 2]) -> f64 {
        (weight * x.max(0.0) + y).max(0.0)
    }

    #[test]
    fn two_layers_of_one_unit_and_of_two_are_the_formula() {
        let head = DifferenceHead::DeepNorm(DeepNorm { latent: 2, layers: 2, units: 1 });
        // U₀ reads the first coordinate, U₁ the second.
        let free = [1.0f64, 0.0, 0.0, 1.0];
        let mut out = [0.0];
        for (point, raw) in [([2.0, -1.0], 3.0), ([-2.0, 1.5], 3.0), ([0.5, -9.0], -1.0)] {
            let weights = HeadWeights { raw: &[raw], free: &free };
            head.by_row(weights, [&point, &[0.0; 2]], &mut out);
            assert!((out[0] - plain(raw * raw, point)).abs() < 1e-14);
        }
        let head = DifferenceHead::DeepNorm(DeepNorm { latent: 1, layers: 2, units: 2 });
        // h₁ = (relu(3 δ), relu(−δ)), h₂ = (relu(4 h₁₁ + δ), relu(h₁₂)).
        let weights = HeadWeights { raw: &[2.0, 0.0, 0.0, 1.0], free: &[3.0, -1.0, 1.0, 0.0] };
        head.by_row(weights, [&[1.0], &[0.0]], &mut out);
        assert_eq!(out[0], 13.0 / 2.0);
        head.by_row(weights, [&[0.0], &[1.0]], &mut out);
        assert_eq!(out[0], 1.0 / 2.0);
    }

    #[test]
    fn a_negative_weight_breaks_the_triangle_inequality() {
        let (one, other, both) = ([1.0, 1.0], [-1.0, 1.0], [0.0, 2.0]);
        let excess = |weight: f64| plain(weight, both) - plain(weight, one) - plain(weight, other);
        assert!(excess(-1.0) > 0.9);
        assert!(excess(1.0) <= 0.0);
    }
}
