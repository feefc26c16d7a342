//! d(x, y) = n(x − y): distances that see two latent vectors only through their difference.
//!
//! n is an asymmetric norm, or a concave function of some, so d obeys the triangle inequality. Pairs
//! are worked on in lanes, coordinates × [`LANES`]; each lane is computed by itself, so all pairs and
//! corresponding rows agree to the last bit. Backward computes the lanes again instead of keeping
//! them: nothing is as large as pairs × coordinates. d(x, x) is exactly 0 and has gradient 0.

mod kernels;
mod lane;
mod operation;

pub use lane::HeadWeights;
pub(crate) use lane::{Lane, WeightGradients, add_scaled, dot};

use super::{DeepNorm, LANES, PqeLh, WideNorm, lanes, transpose};
use crate::engine::{Scalar, Threads, wide_kernel};

/// A head of the difference, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceHead {
    /// A Poisson quasimetric embedding.
    PqeLh(PqeLh),
    /// A mean of norms of nonnegative maps.
    WideNorm(WideNorm),
    /// Layers that keep an asymmetric norm.
    DeepNorm(DeepNorm),
}

impl DifferenceHead {
    fn name(&self, by_row: bool) -> &'static str {
        match (self, by_row) {
            (Self::PqeLh(_), false) => "pqe_lh",
            (Self::PqeLh(_), true) => "pqe_lh_by_row",
            (Self::WideNorm(_), false) => "wide_norm",
            (Self::WideNorm(_), true) => "wide_norm_by_row",
            (Self::DeepNorm(_), false) => "deep_norm",
            (Self::DeepNorm(_), true) => "deep_norm_by_row",
        }
    }

    /// Coordinates of a latent vector.
    pub fn width(&self) -> usize {
        match self {
            Self::PqeLh(head) => head.groups * head.size,
            Self::WideNorm(head) => head.latent,
            Self::DeepNorm(head) => head.latent,
        }
    }

    /// Raw numbers behind nonnegative weights.
    pub fn raw(&self) -> usize {
        match self {
            Self::PqeLh(head) => head.groups,
            Self::WideNorm(head) => head.raw(),
            Self::DeepNorm(head) => head.raw(),
        }
    }

    /// Weights of either sign.
    pub fn free(&self) -> usize {
        match self {
            Self::PqeLh(_) | Self::WideNorm(_) => 0,
            Self::DeepNorm(head) => head.free(),
        }
    }

    /// Lanes that one block of pairs needs between its forward and its backward.
    fn room(&self) -> usize {
        match self {
            Self::PqeLh(head) => head.groups,
            Self::WideNorm(head) => head.room(),
            Self::DeepNorm(head) => head.room(),
        }
    }

    /// Writes the distances of corresponding rows.
    pub fn by_row<T: Scalar>(&self, weights: HeadWeights<'_, T>, ends: [&[T]; 2], out: &mut [T]) {
        let (width, mut room) = (self.width(), vec![[T::ZERO; LANES]; self.room()]);
        let mut difference = vec![[T::ZERO; LANES]; width];
        for (block, out) in out.chunks_mut(LANES).enumerate() {
            row_differences(ends, width, block * LANES, &mut difference);
            let mut lane = [T::ZERO; LANES];
            evaluate(*self, weights, &difference, &mut room, &mut lane);
            out.copy_from_slice(&lane[..out.len()]);
        }
    }

    /// Writes the distances of all pairs.
    pub fn pairs<T: Scalar>(&self, weights: HeadWeights<'_, T>, ends: [&[T]; 2], out: &mut [T]) {
        let width = self.width();
        let columns = ends[1].len() / width;
        let mut across = vec![T::ZERO; width * lanes(columns)];
        transpose(&Threads::default(), ends[1], width, &mut across, lanes(columns));
        let mut room = vec![T::ZERO; (width + self.room()) * LANES];
        for (from, out) in ends[0].chunks_exact(width).zip(out.chunks_exact_mut(columns)) {
            row(*self, weights, from, &across, &mut room, out);
        }
    }
}

/// The numbers as whole lanes.
#[inline(always)]
fn whole<T>(numbers: &mut [T]) -> &mut [Lane<T>] {
    numbers.as_chunks_mut().0
}

/// Differences of one start and a block of ends, which stand transposed.
#[inline(always)]
fn pair_differences<T: Scalar>(
    from: &[T],
    across: &[T],
    (stride, block): (usize, usize),
    difference: &mut [Lane<T>],
) {
    for (at, (difference, &from)) in difference.iter_mut().zip(from).enumerate() {
        let to = &across[at * stride + block..][..LANES];
        (0..LANES).for_each(|l| difference[l] = from - to[l]);
    }
}

/// Differences of corresponding rows from row `first`; 0 in lanes beyond the last.
fn row_differences<T: Scalar>(
    [from, to]: [&[T]; 2],
    width: usize,
    first: usize,
    difference: &mut [Lane<T>],
) {
    for (at, difference) in difference.iter_mut().enumerate() {
        for (l, difference) in difference.iter_mut().enumerate() {
            let place = (first + l) * width + at;
            *difference = if place < from.len() { from[place] - to[place] } else { T::ZERO };
        }
    }
}

wide_kernel! {
    /// The distances of one block of pairs.
    fn evaluate<T>(
        head: DifferenceHead,
        weights: HeadWeights<'k, T>,
        difference: &'k [Lane<T>],
        room: &'k mut [Lane<T>],
        out: &'k mut Lane<T>,
    ) {
        forward(head, weights, difference, room, out);
    }
}

#[inline(always)]
fn forward<T: Scalar>(
    head: DifferenceHead,
    weights: HeadWeights<'_, T>,
    difference: &[Lane<T>],
    room: &mut [Lane<T>],
    out: &mut Lane<T>,
) {
    match head {
        DifferenceHead::PqeLh(head) => head.forward(weights, difference, room, out),
        DifferenceHead::WideNorm(head) => head.forward(weights, difference, room, out),
        DifferenceHead::DeepNorm(head) => head.forward(weights, difference, room, out),
    }
}

wide_kernel! {
    /// One start against all ends; `room` is for the lanes of differences and the head's own.
    fn row<T>(
        head: DifferenceHead,
        weights: HeadWeights<'k, T>,
        from: &'k [T],
        across: &'k [T],
        room: &'k mut [T],
        distances: &'k mut [T],
    ) {
        let stride = lanes(distances.len());
        let (difference, room) = whole(room).split_at_mut(head.width());
        for (at, distances) in distances.chunks_mut(LANES).enumerate() {
            pair_differences(from, across, (stride, at * LANES), difference);
            let mut lane = [T::ZERO; LANES];
            forward(head, weights, difference, room, &mut lane);
            distances.copy_from_slice(&lane[..distances.len()]);
        }
    }
}

wide_kernel! {
    /// Adds the gradients of one block of pairs: by the difference to `moved`, by the weights to
    /// `gradients`. Lanes beyond the last pair have `upstream` 0.
    fn differentiate<T>(
        head: DifferenceHead,
        weights: HeadWeights<'k, T>,
        difference: &'k [Lane<T>],
        room: &'k mut [Lane<T>],
        upstream: &'k Lane<T>,
        moved: &'k mut [Lane<T>],
        gradients: WeightGradients<'k, T>,
    ) {
        forward(head, weights, difference, room, &mut [T::ZERO; LANES]);
        moved.as_flattened_mut().fill(T::ZERO);
        let inputs = (weights, difference);
        match head {
            DifferenceHead::PqeLh(head) => head.backward(inputs, room, upstream, moved, gradients),
            DifferenceHead::WideNorm(head) => {
                head.backward(inputs, room, upstream, moved, gradients);
            }
            DifferenceHead::DeepNorm(head) => {
                head.backward(inputs, room, upstream, moved, gradients);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Initial, Parameter};
    use crate::ops::differences::Bench;
    use crate::random::{Purpose, Stream};

    const HEADS: [DifferenceHead; 3] = [
        DifferenceHead::PqeLh(PqeLh { groups: 2, size: 3 }),
        DifferenceHead::WideNorm(WideNorm { latent: 6, components: 2, size: 3 }),
        DifferenceHead::DeepNorm(DeepNorm { latent: 6, layers: 3, units: 4 }),
    ];

    fn bench(head: DifferenceHead, shapes: &[(usize, usize)]) -> (Bench, Vec<Parameter>) {
        let mut bench = Bench::new(shapes);
        let arena = bench.parameters.arena("head");
        let sizes = [head.raw(), head.free()].into_iter().filter(|&size| size > 0);
        let parameters = sizes
            .map(|size| bench.parameters.add(arena, "weights", (1, size), Initial::Uniform(1.0)))
            .collect();
        (bench, parameters)
    }

    #[test]
    fn the_distance_has_the_gradient_of_its_formula() {
        for head in HEADS {
            // Two equal ends: ties between pairs. Coincident points have a kink and are tested below;
            // starts are moved, since one of those drawn is within a difference of a unit's kink.
            let tie = |at: usize, numbers: &mut [f64]| {
                if at == 1 {
                    let (first, rest) = numbers.split_at_mut(6);
                    rest[..6].copy_from_slice(first);
                } else {
                    numbers.iter_mut().for_each(|x| *x *= 0.9);
                }
            };
            for (rows, columns, by_row) in
                [(5, 4, false), (70, 2, false), (2, 70, false), (5, 5, true)]
            {
                let (bench, parameters) = bench(head, &[(rows, 6), (columns, 6)]);
                bench.check_from(tie, |program, values| {
                    program.difference(head, &parameters, (values[0], values[1]), by_row)
                });
            }
        }
    }

    #[test]
    fn coincident_points_have_distance_and_gradient_zero() {
        for head in HEADS {
            let mut draws = Stream::new(4, Purpose(0)).draws(0, 0);
            let mut numbers = |count: usize| (0..count).map(|_| draws.normal()).collect::<Vec<_>>();
            let (point, raw, free) = (numbers(6), numbers(head.raw()), numbers(head.free()));
            let weights = HeadWeights { raw: &raw, free: &free };
            let mut out = [f64::NAN];
            head.by_row(weights, [&point, &point], &mut out);
            assert_eq!(out, [0.0]);
            let (mut by_raw, mut by_free) = (vec![0.0; raw.len()], vec![0.0; free.len()]);
            let (mut room, mut moved) = (vec![[0.0; LANES]; head.room()], [[1.0; LANES]; 6]);
            let gradients = WeightGradients { raw: &mut by_raw, free: &mut by_free };
            let (difference, upstream) = ([[0.0; LANES]; 6], [1.0; LANES]);
            differentiate(head, weights, &difference, &mut room, &upstream, &mut moved, gradients);
            let found = moved.as_flattened().iter().chain(&by_raw).chain(&by_free);
            assert!(found.copied().all(|g| g == 0.0), "{head:?}");
        }
    }

    #[test]
    fn pairs_and_rows_agree_to_the_last_bit() {
        let mut draws = Stream::new(2, Purpose(0)).draws(0, 0);
        for head in HEADS {
            let mut numbers =
                |count: usize| (0..count).map(|_| draws.normal() as f32).collect::<Vec<f32>>();
            let (from, to) = (numbers(130 * 6), numbers(130 * 6));
            let (raw, free) = (numbers(head.raw()), numbers(head.free()));
            let weights = HeadWeights { raw: &raw, free: &free };
            let (mut pairs, mut rows) = (vec![0.0; 130 * 130], vec![0.0; 130]);
            head.pairs(weights, [&from, &to], &mut pairs);
            head.by_row(weights, [&from, &to], &mut rows);
            for at in 0..130 {
                assert_eq!(pairs[at * 131].to_bits(), rows[at].to_bits(), "{head:?}");
            }
        }
    }

    #[test]
    fn near_points_have_finite_distances() {
        for head in HEADS {
            let (raw, free) = (vec![1.0f32; head.raw()], vec![1.0f32; head.free()]);
            for scale in [1e-6f32, 1e-18, 1e-30, 1e-38] {
                let mut out = [f32::NAN];
                let weights = HeadWeights { raw: &raw, free: &free };
                head.by_row(weights, [&[scale; 6], &[0.0; 6]], &mut out);
                assert!(out[0] >= 0.0 && out[0] <= 1e3 * scale.max(1e-6), "{head:?} {out:?}");
            }
        }
    }
}
