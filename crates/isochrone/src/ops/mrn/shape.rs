//! The shape of a head, the distance of one pair, and one component against lanes of ends.

use crate::engine::Scalar;
use crate::ops::LANES;

/// The shape of a head: components, each with coordinates for the maximum and for the norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mrn {
    /// Components the distance is the mean of.
    pub components: usize,
    /// Coordinates of the maximum in each.
    pub maxima: usize,
    /// Coordinates of the norm in each.
    pub squares: usize,
}

/// No coordinate is positive: the maximum is the zero of relu.
pub(super) const NONE: u32 = u32::MAX;

/// The most coordinates of a narrow component.
pub(super) const NARROW: usize = 16;

impl Mrn {
    /// Coordinates of a latent vector.
    pub fn width(&self) -> usize {
        self.components * (self.maxima + self.squares)
    }

    /// Whether its components have few coordinates.
    pub(super) fn is_narrow(&self) -> bool {
        self.components > 1 && self.maxima + self.squares <= NARROW
    }

    pub(super) fn share<T: Scalar>(&self) -> T {
        T::ONE / T::of(self.components as f64)
    }

    /// The distance of one pair, in the order of sums that pairs use; calls `part` with each
    /// component, its norm and the index of its maximum.
    #[inline(always)]
    pub(super) fn one<T: Scalar>(
        &self,
        from: &[T],
        to: &[T],
        mut part: impl FnMut(usize, T, u32),
    ) -> T {
        let mut total = T::ZERO;
        let width = self.maxima + self.squares;
        for component in 0..self.components {
            let coordinates = component * width..(component + 1) * width;
            let (from, to) = (&from[coordinates.clone()], &to[coordinates]);
            let (mut best, mut index) = (T::ZERO, NONE);
            for m in 0..self.maxima {
                let difference = from[m] - to[m];
                if difference > best {
                    (best, index) = (difference, m as u32);
                }
            }
            let mut sum = T::ZERO;
            for m in self.maxima..width {
                let difference = from[m] - to[m];
                sum += difference * difference;
            }
            let norm = sum.sqrt();
            total += best + norm;
            part(component, norm, index);
        }
        total * self.share()
    }

    /// The distances of corresponding rows.
    pub fn by_row<T: Scalar>(&self, from: &[T], to: &[T], out: &mut [T]) {
        let width = self.width();
        let rows = from.chunks_exact(width).zip(to.chunks_exact(width));
        out.iter_mut()
            .zip(rows)
            .for_each(|(out, (from, to))| *out = self.one(from, to, |_, _, _| {}));
    }
}

/// Of some rows and lanes of ends: relu of the largest difference, its index, the norm.
pub(super) type Parts<T, const ROWS: usize> =
    ([[T; LANES]; ROWS], [[u32; LANES]; ROWS], [[T; LANES]; ROWS]);

/// Component `at` of some rows against the lanes of ends from `block` on. A row of `across` is
/// `stride` long.
#[inline(always)]
pub(super) fn component<T: Scalar, const ROWS: usize>(
    shape: Mrn,
    from: [&[T]; ROWS],
    across: &[T],
    (stride, block): (usize, usize),
    at: usize,
) -> Parts<T, ROWS> {
    let width = shape.maxima + shape.squares;
    let first = at * width;
    let ends = |m: usize| &whole(&across[(first + m) * stride + block..][..LANES])[0];
    let from = from.map(|row| &row[first..first + width]);
    let start = |row: usize, m: usize| from[row][m];
    let (mut best, mut index) = ([[T::ZERO; LANES]; ROWS], [[NONE; LANES]; ROWS]);
    for m in 0..shape.maxima {
        let y = ends(m);
        for row in 0..ROWS {
            let (x, best, index) = (start(row, m), &mut best[row], &mut index[row]);
            for l in 0..LANES {
                let difference = x - y[l];
                index[l] = if difference > best[l] { m as u32 } else { index[l] };
                best[l] = best[l].at_least(difference);
            }
        }
    }
    let mut sum = [[T::ZERO; LANES]; ROWS];
    for m in shape.maxima..width {
        let y = ends(m);
        for row in 0..ROWS {
            let (x, sum) = (start(row, m), &mut sum[row]);
            for l in 0..LANES {
                let difference = x - y[l];
                sum[l] += difference * difference;
            }
        }
    }
    for sum in &mut sum {
        for sum in sum {
            *sum = sum.sqrt();
        }
    }
    (best, index, sum)
}

/// The numbers as whole lanes.
#[inline(always)]
pub(super) fn whole<T>(numbers: &[T]) -> &[[T; LANES]] {
    numbers.as_chunks().0
}
