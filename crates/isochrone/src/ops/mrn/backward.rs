//! The backward half of all pairs: one scatter per pair for the maximum, streamed sums for the norm.
//!
//! With W_ij = G_ij / (K ‖u_i − v_j‖), 0 where that is 0: dU_i = Σ_j W_ij (u_i − v_j) and
//! dV_j = −Σ_i W_ij (u_i − v_j), in lanes of pairs; the maximum costs O(B²) whatever its width.

use super::super::LANES;
use super::shape::{Mrn, NONE, whole};
use crate::engine::{Scalar, wide_kernel};

/// What the backward half of all pairs reads. Rows of `shares`, `weights` and `picks` are `stride`
/// long; those of the last two stand component by component.
#[derive(Clone, Copy)]
pub(super) struct BackwardPairs<'a, T> {
    pub shape: Mrn,
    /// Numbers from one row of pairs to the next.
    pub stride: usize,
    /// The part of a row that is read, in whole lanes.
    pub used: usize,
    pub from: &'a [T],
    /// The ends, transposed.
    pub across: &'a [T],
    /// G / K, and 0 beyond the last column.
    pub shares: &'a [T],
    /// W.
    pub weights: &'a [T],
    pub picks: &'a [u32],
}

impl<'a, T> BackwardPairs<'a, T> {
    /// The lanes of shares of a row.
    #[inline(always)]
    fn shares(&self, row: usize) -> &'a [[T; LANES]] {
        whole(&self.shares[row * self.stride..][..self.used])
    }

    /// The lanes of W and of picks of a row and component.
    #[inline(always)]
    fn parts(&self, row: usize, component: usize) -> (&'a [[T; LANES]], &'a [[u32; LANES]]) {
        let first = (row * self.shape.components + component) * self.stride;
        let places = first..first + self.used;
        (whole(&self.weights[places.clone()]), whole(&self.picks[places]))
    }

    /// The lanes of a coordinate of all ends.
    #[inline(always)]
    fn ends(&self, coordinate: usize) -> &'a [[T; LANES]] {
        whole(&self.across[coordinate * self.stride..][..self.used])
    }
}

/// Adds what lanes of pairs give to a coordinate of the norm.
#[inline(always)]
fn add_weighed<T: Scalar>(sums: &mut [T; LANES], from: T, to: &[T; LANES], weights: &[T; LANES]) {
    for l in 0..LANES {
        sums[l] += weights[l] * (from - to[l]);
    }
}

/// The sum of all lanes, joined in halves.
#[inline(always)]
pub(super) fn join<T: Scalar>(mut sums: [T; LANES]) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            sums[l] += sums[l + half];
        }
        half /= 2;
    }
    sums[0]
}

wide_kernel! {
    /// Writes the shares G / K of a row and turns its norms into W = G / (K ‖u − v‖), 0 where the
    /// norm is 0.
    pub(super) fn weigh<T>(shape: Mrn, gradient: &'k [T], shares: &'k mut [T], norms: &'k mut [T]) {
        let length = gradient.len();
        shares[length..].fill(T::ZERO);
        for (share, &g) in shares.iter_mut().zip(gradient) {
            *share = g * shape.share();
        }
        for norms in norms.chunks_exact_mut(shares.len()) {
            for (norm, &share) in norms.iter_mut().zip(&*shares) {
                let weight = share / *norm;
                *norm = if *norm > T::ZERO { weight } else { T::ZERO };
            }
        }
    }
}

wide_kernel! {
    /// Adds the gradient of consecutive starts, from row `first`: one scatter per pair for the maximum,
    /// sums along rows of pairs for the norm.
    pub(super) fn starts_backward<T>(pairs: BackwardPairs<'k, T>, first: usize, targets: &'k mut [T]) {
        let (shape, width) = (pairs.shape, pairs.shape.width());
        for component in 0..shape.components {
            let start = component * (shape.maxima + shape.squares);
            for (at, target) in targets.chunks_exact_mut(width).enumerate() {
                let picks = pairs.parts(first + at, component).1;
                for (shares, picks) in pairs.shares(first + at).iter().zip(picks) {
                    for (&share, &pick) in shares.iter().zip(picks) {
                        if pick != NONE {
                            target[start + pick as usize] += share;
                        }
                    }
                }
            }
            for coordinate in start + shape.maxima..start + shape.maxima + shape.squares {
                for (at, target) in targets.chunks_exact_mut(width).enumerate() {
                    let from = pairs.from[(first + at) * width + coordinate];
                    let weights = pairs.parts(first + at, component).0;
                    let mut sums = [T::ZERO; LANES];
                    for (to, weights) in pairs.ends(coordinate).iter().zip(weights) {
                        add_weighed(&mut sums, from, to, weights);
                    }
                    target[coordinate] += join(sums);
                }
            }
        }
    }
}

/// Coordinates of the ends' norm that share one pass over the weights.
const AT_ONCE: usize = 4;
/// Rows of pairs whose weights stay in the first cache while some coordinates pass over them.
const CHUNK: usize = 128;
/// Coordinates that pass over a chunk.
const GROUP: usize = 32;

wide_kernel! {
    /// Adds the gradient of the ends in lanes `lane`: one scatter per pair for the maximum, sums down
    /// rows of pairs for the norm.
    pub(super) fn ends_backward<T>(pairs: BackwardPairs<'k, T>, lane: usize, targets: &'k mut [T]) {
        let (shape, width) = (pairs.shape, pairs.shape.width());
        let rows = pairs.from.len() / width;
        for component in 0..shape.components {
            let start = component * (shape.maxima + shape.squares);
            for row in 0..rows {
                let picks = &pairs.parts(row, component).1[lane];
                let picked = pairs.shares(row)[lane].iter().zip(picks);
                for (target, (&share, &pick)) in targets.chunks_exact_mut(width).zip(picked) {
                    if pick != NONE {
                        target[start + pick as usize] -= share;
                    }
                }
            }
            let (begin, end) = (start + shape.maxima, start + shape.maxima + shape.squares);
            for begin in (begin..end).step_by(GROUP) {
                let end = end.min(begin + GROUP);
                let mut kept = [[T::ZERO; LANES]; GROUP];
                for (chunk, from) in pairs.from.chunks(CHUNK * width).enumerate() {
                    for coordinate in (begin..end).step_by(AT_ONCE) {
                        let places: [usize; AT_ONCE] =
                            std::array::from_fn(|at| (coordinate + at).min(end - 1));
                        let to = places.map(|place| &pairs.ends(place)[lane]);
                        let mut sums = places.map(|place| kept[place - begin]);
                        for (row, from) in from.chunks_exact(width).enumerate() {
                            let weights = &pairs.parts(chunk * CHUNK + row, component).0[lane];
                            for (at, sums) in sums.iter_mut().enumerate() {
                                add_weighed(sums, from[places[at]], to[at], weights);
                            }
                        }
                        for (place, sums) in places.into_iter().zip(sums) {
                            kept[place - begin] = sums;
                        }
                    }
                }
                for (end_of, target) in targets.chunks_exact_mut(width).enumerate() {
                    for (target, sums) in target[begin..end].iter_mut().zip(&kept) {
                        *target -= sums[end_of];
                    }
                }
            }
        }
    }
}
