//! All pairs where a component has few coordinates: the backward half computes norms and picks again,
//! which costs less than to keep one of each for every pair and component.
//!
//! Starts and ends are sums of the same terms, along a row of pairs and down a lane of them; the
//! maximum adds its share where the coordinate was picked, without a scatter.

use super::super::LANES;
use super::backward::join;
use super::shape::{Mrn, NARROW, component, whole};
use crate::engine::{Scalar, wide_kernel};

/// What the backward half reads.
#[derive(Clone, Copy)]
pub(super) struct NarrowPairs<'a, T> {
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
}

impl<'a, T: Scalar> NarrowPairs<'a, T> {
    /// The lanes of shares of a row.
    #[inline(always)]
    fn shares(&self, row: usize) -> &'a [[T; LANES]] {
        whole(&self.shares[row * self.stride..][..self.used])
    }

    /// Adds what a row and a lane of ends give to the coordinates of component `at`.
    #[inline(always)]
    fn add(&self, at: usize, (row, lane): (usize, usize), sums: &mut [[T; LANES]; NARROW]) {
        let Mrn { maxima, squares, .. } = self.shape;
        let (width, block) = (self.shape.width(), lane * LANES);
        let from = &self.from[row * width..][..width];
        let shares = &self.shares(row)[lane];
        let (_, [index], [norm]) =
            component(self.shape, [from], self.across, (self.stride, block), at);
        for (m, sums) in sums[..maxima].iter_mut().enumerate() {
            for l in 0..LANES {
                sums[l] += if index[l] == m as u32 { shares[l] } else { T::ZERO };
            }
        }
        let mut weights = [T::ZERO; LANES];
        for l in 0..LANES {
            let weight = shares[l] / norm[l];
            weights[l] = if norm[l] > T::ZERO { weight } else { T::ZERO };
        }
        for (m, sums) in sums[..maxima + squares].iter_mut().enumerate().skip(maxima) {
            let place = at * (maxima + squares) + m;
            let (x, y) = (from[place], &self.across[place * self.stride + block..][..LANES]);
            for l in 0..LANES {
                sums[l] += weights[l] * (x - y[l]);
            }
        }
    }
}

wide_kernel! {
    /// One row against all columns: distances alone.
    pub(super) fn narrow_row<T>(
        shape: Mrn,
        from: &'k [T],
        across: &'k [T],
        stride: usize,
        distances: &'k mut [T],
    ) {
        for (lane, distances) in distances.chunks_mut(LANES).enumerate() {
            let mut total = [T::ZERO; LANES];
            for at in 0..shape.components {
                let ([best], _, [norm]) =
                    component(shape, [from], across, (stride, lane * LANES), at);
                for l in 0..LANES {
                    total[l] += best[l] + norm[l];
                }
            }
            let share = shape.share();
            for (distance, total) in distances.iter_mut().zip(total) {
                *distance = total * share;
            }
        }
    }
}

wide_kernel! {
    /// Adds the gradient of consecutive starts, from row `first`.
    pub(super) fn narrow_starts<T>(pairs: NarrowPairs<'k, T>, first: usize, targets: &'k mut [T]) {
        let (shape, width) = (pairs.shape, pairs.shape.width());
        let coordinates = shape.maxima + shape.squares;
        for (row, target) in targets.chunks_exact_mut(width).enumerate() {
            for (at, target) in target.chunks_exact_mut(coordinates).enumerate() {
                let mut sums = [[T::ZERO; LANES]; NARROW];
                for lane in 0..pairs.used / LANES {
                    pairs.add(at, (first + row, lane), &mut sums);
                }
                target.iter_mut().zip(sums).for_each(|(target, sums)| *target += join(sums));
            }
        }
    }
}

wide_kernel! {
    /// Adds the gradient of the ends in lanes `lane`.
    pub(super) fn narrow_ends<T>(pairs: NarrowPairs<'k, T>, lane: usize, targets: &'k mut [T]) {
        let (shape, width) = (pairs.shape, pairs.shape.width());
        let coordinates = shape.maxima + shape.squares;
        for at in 0..shape.components {
            let mut sums = [[T::ZERO; LANES]; NARROW];
            for row in 0..pairs.from.len() / width {
                pairs.add(at, (row, lane), &mut sums);
            }
            for (end, target) in targets.chunks_exact_mut(width).enumerate() {
                let target = &mut target[at * coordinates..][..coordinates];
                target.iter_mut().zip(&sums).for_each(|(target, sums)| *target -= sums[end]);
            }
        }
    }
}
