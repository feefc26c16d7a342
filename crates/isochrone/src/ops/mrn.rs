//! d(x, y) = mean over components of max_m relu(v_m(x) − v_m(y)) + ‖u(x) − u(y)‖₂.
//!
//! The metric residual network (Liu et al. 2023) with the square root that the triangle inequality
//! needs (Wang and Isola 2022, appendix C.2); the paper's equation `mrn`. A latent vector is cut
//! into equal components, in each the coordinates of the maximum first, then those of the norm.
//! Without norm coordinates it is the head max_m relu(x_m − y_m).
//!
//! All pairs are streamed over coordinates: direct differences (a Gram form cancels at near points),
//! a running maximum with its index, no buffer larger than pairs × components. Backward: with
//! W = G / ‖u_i − v_j‖ (0 where that is 0) dU_i = Σ_j W_ij (u_i − v_j), dV_j = −Σ_i W_ij (u_i − v_j);
//! the maximum scatters G once per pair. d(x, x) is exactly 0 and has gradient 0. On a GPU long
//! norms of many pairs come from products after all, those of near points from differences.

mod backward;
mod kernels;
mod long;
mod narrow;
mod shape;

use backward::{BackwardPairs, ends_backward, starts_backward, weigh};
use narrow::{NarrowPairs, narrow_ends, narrow_row, narrow_starts};
pub use shape::Mrn;
use shape::{NONE, component};

use super::{LANES, lanes, transpose};
use crate::engine::{
    Backward, Forward, Kernels, OfRows, Operation, Program, Scalar, Threads, Value, wide_kernel,
};

/// Rows that one task takes.
const ROWS: usize = 8;
/// Rows that one task of the forward half takes at most: all ends pass by for each task, and where
/// they do not fit into the second cache that takes time.
const MOST_ROWS: usize = 64;

impl Mrn {
    /// The distances of all pairs, without what a backward would need.
    pub fn pairs<T: Scalar>(&self, from: &[T], to: &[T], out: &mut [T]) {
        let width = self.width();
        let columns = to.len() / width;
        let stride = stride_of(columns);
        let mut across = vec![T::ZERO; width * stride];
        transpose(&Threads::default(), to, width, &mut across, stride);
        let (mut norms, mut picks) =
            (vec![T::ZERO; self.components * stride], vec![0; self.components * stride]);
        for (out, from) in out.chunks_exact_mut(columns).zip(from.chunks_exact(width)) {
            rows_against(*self, from, &across, out, &mut norms, &mut picks);
        }
    }
}

/// Rows that are set against lanes of ends together: with more the registers are not enough.
const TOGETHER: usize = 2;

/// How far the rows of all pairs lie apart: whole lanes, and not a power of two, whose rows would all
/// want the same places of a cache.
fn stride_of(columns: usize) -> usize {
    /// Rows this far apart, or a multiple of it, share too few places.
    const CROWDED: usize = 8 * LANES;
    let whole = lanes(columns);
    if whole.is_multiple_of(CROWDED) { whole + LANES } else { whole }
}

/// Where what is found for rows of pairs goes: distances, and per component norms and indices of
/// maxima, whose rows are `stride` long.
struct Found<'a, T> {
    distances: &'a mut [T],
    norms: &'a mut [T],
    picks: &'a mut [u32],
    columns: usize,
    stride: usize,
}

impl<T: Scalar> Found<'_, T> {
    /// Finds the lanes of ends from `block` on for the rows from `first` on.
    #[inline(always)]
    fn block<const ROWS: usize>(
        &mut self,
        shape: Mrn,
        from: [&[T]; ROWS],
        across: &[T],
        (first, block): (usize, usize),
    ) {
        let mut total = [[T::ZERO; LANES]; ROWS];
        for at in 0..shape.components {
            let (best, index, norm) = component(shape, from, across, (self.stride, block), at);
            for row in 0..ROWS {
                for l in 0..LANES {
                    total[row][l] += best[row][l] + norm[row][l];
                }
                let place = ((first + row) * shape.components + at) * self.stride + block;
                self.norms[place..place + LANES].copy_from_slice(&norm[row]);
                self.picks[place..place + LANES].copy_from_slice(&index[row]);
            }
        }
        let (share, valid) = (shape.share(), LANES.min(self.columns - block));
        for (row, total) in total.iter().enumerate() {
            let distances = &mut self.distances[(first + row) * self.columns + block..][..valid];
            distances.iter_mut().zip(total).for_each(|(d, &total)| *d = total * share);
        }
    }
}

wide_kernel! {
    /// Rows against all columns: distances, and per component norms and indices of maxima. A block of
    /// ends serves all rows while it is in the cache.
    fn rows_against<T>(
        shape: Mrn,
        from: &'k [T],
        across: &'k [T],
        distances: &'k mut [T],
        norms: &'k mut [T],
        picks: &'k mut [u32],
    ) {
        let width = shape.width();
        let rows = from.len() / width;
        let columns = distances.len() / rows;
        let row = |at: usize| &from[at * width..][..width];
        let mut found = Found { distances, norms, picks, columns, stride: stride_of(columns) };
        for block in (0..columns).step_by(LANES) {
            let together = rows - rows % TOGETHER;
            for first in (0..together).step_by(TOGETHER) {
                let some: [&[T]; TOGETHER] = std::array::from_fn(|at| row(first + at));
                found.block(shape, some, across, (first, block));
            }
            for first in together..rows {
                found.block(shape, [row(first)], across, (first, block));
            }
        }
    }
}

/// Adds the gradient of one pair to `target`: of its start (`sign` 1) or of its end (−1).
fn pair_backward<T: Scalar>(
    shape: Mrn,
    target: &mut [T],
    (from, to): (&[T], &[T]),
    (gradient, sign): (T, T),
    part: impl Fn(usize) -> (T, u32),
) {
    let width = shape.maxima + shape.squares;
    let gradient = gradient * shape.share() * sign;
    for component in 0..shape.components {
        let (norm, pick) = part(component);
        let first = component * width;
        if pick != NONE {
            target[first + pick as usize] += gradient;
        }
        if norm > T::ZERO {
            let weight = gradient / norm;
            (first + shape.maxima..first + width)
                .for_each(|m| target[m] += weight * (from[m] - to[m]));
        }
    }
}

struct Pairwise {
    shape: Mrn,
    rows: usize,
    columns: usize,
}

impl<T: Scalar> Operation<T> for Pairwise {
    fn name(&self) -> &'static str {
        "mrn"
    }

    /// The ends, transposed, a share for every pair and, of wide components, a norm for every pair.
    fn saved(&self) -> usize {
        let Self { shape, rows, columns } = *self;
        let norms = if shape.is_narrow() { 0 } else { shape.components };
        (shape.width() + rows * (1 + norms)) * stride_of(columns)
    }

    fn indices(&self) -> usize {
        let picks = if self.shape.is_narrow() { 0 } else { self.shape.components };
        self.rows * picks * stride_of(self.columns)
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn of_rows(&self, rows: usize) -> Option<OfRows<T>> {
        OfRows::against_all(Self { rows, ..*self })
    }

    fn forward(&self, run: Forward<'_, T>) {
        let Self { shape, rows, columns } = *self;
        let (width, stride) = (shape.width(), stride_of(columns));
        let (from, to) = (run.input(0), run.input(1));
        let (across, kept) = run.saved.split_at_mut(width * stride);
        transpose(run.threads, to, width, across, stride);
        let (across, norms) = (&*across, &mut kept[rows * stride..]);
        if shape.is_narrow() {
            run.threads.parts(run.output, columns, |row, distances| {
                narrow_row(shape, &from[row * width..][..width], across, stride, distances);
            });
            return;
        }
        let parts = stride * shape.components;
        let some = rows.div_ceil(2 * run.threads.count()).clamp(ROWS, MOST_ROWS);
        run.threads.parts3(
            (run.output, some * columns),
            (norms, some * parts),
            (run.indices, some * parts),
            |part, distances, norms, picks| {
                let from = &from[part * some * width..][..distances.len() / columns * width];
                rows_against(shape, from, across, distances, norms, picks);
            },
        );
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let Self { shape, rows, columns } = *self;
        let (width, stride) = (shape.width(), stride_of(columns));
        let gradient = std::mem::take(&mut run.output_gradient);
        let (across, kept) = std::mem::take(&mut run.saved).split_at_mut(width * stride);
        let (shares, norms) = kept.split_at_mut(rows * stride);
        if shape.is_narrow() {
            run.threads.parts(shares, stride, |row, shares| {
                weigh(shape, &gradient[row * columns..][..columns], shares, &mut []);
            });
            return self.narrow_backward(run, across, shares);
        }
        run.threads.parts3(
            (gradient, columns),
            (shares, stride),
            (norms, stride * shape.components),
            |_, gradient, shares, norms| weigh(shape, gradient, shares, norms),
        );
        let (from, picks, threads) = (run.input(0), run.indices, run.threads);
        let used = lanes(columns);
        let pairs =
            BackwardPairs { shape, stride, used, from, across, shares, weights: norms, picks };
        if let Some(target) = run.input_gradient(0) {
            threads.parts(target, ROWS * width, |part, targets| {
                starts_backward(pairs, part * ROWS, targets);
            });
        }
        if let Some(target) = run.input_gradient(1) {
            threads.parts(target, LANES * width, |part, targets| {
                ends_backward(pairs, part, targets);
            });
        }
    }
}

impl Pairwise {
    /// The backward half of narrow components, given the ends, transposed, and the shares.
    fn narrow_backward<T: Scalar>(&self, mut run: Backward<'_, T>, across: &[T], shares: &[T]) {
        let Self { shape, columns, .. } = *self;
        let (width, stride) = (shape.width(), stride_of(columns));
        let (from, threads) = (run.input(0), run.threads);
        let pairs = NarrowPairs { shape, stride, used: lanes(columns), from, across, shares };
        if let Some(target) = run.input_gradient(0) {
            threads.parts(target, ROWS * width, |part, targets| {
                narrow_starts(pairs, part * ROWS, targets);
            });
        }
        if let Some(target) = run.input_gradient(1) {
            threads.parts(target, LANES * width, |part, targets| narrow_ends(pairs, part, targets));
        }
    }
}

struct ByRow {
    shape: Mrn,
    rows: usize,
}

impl<T: Scalar> Operation<T> for ByRow {
    fn name(&self) -> &'static str {
        "mrn_by_row"
    }

    fn saved(&self) -> usize {
        self.rows * self.shape.components
    }

    fn indices(&self) -> usize {
        self.rows * self.shape.components
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn of_rows(&self, rows: usize) -> Option<OfRows<T>> {
        OfRows::new(Self { rows, ..*self })
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (width, components) = (self.shape.width(), self.shape.components);
        let rows = run.input(0).chunks_exact(width).zip(run.input(1).chunks_exact(width));
        for (at, (out, (from, to))) in run.output.iter_mut().zip(rows).enumerate() {
            *out = self.shape.one(from, to, |component, norm, pick| {
                run.saved[at * components + component] = norm;
                run.indices[at * components + component] = pick;
            });
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let (width, components) = (self.shape.width(), self.shape.components);
        let (gradient, norms) =
            (&*std::mem::take(&mut run.output_gradient), &*std::mem::take(&mut run.saved));
        let (from, to, picks) = (run.input(0), run.input(1), run.indices);
        for (input, sign) in [(0, T::ONE), (1, -T::ONE)] {
            if let Some(target) = run.input_gradient(input) {
                for (at, target) in target.chunks_exact_mut(width).enumerate() {
                    let ends = (&from[at * width..][..width], &to[at * width..][..width]);
                    pair_backward(self.shape, target, ends, (gradient[at], sign), |component| {
                        let place = at * components + component;
                        (norms[place], picks[place])
                    });
                }
            }
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The MRN distance of every pair of rows.
    pub fn mrn(&mut self, shape: Mrn, from: Value, to: Value) -> Value {
        assert_eq!((from.columns, to.columns), (shape.width(), shape.width()), "latent vectors");
        let (rows, columns) = (from.rows, to.rows);
        self.add(Pairwise { shape, rows, columns }, &[from, to], &[], (rows, columns))
    }

    /// The MRN distance of corresponding rows.
    pub fn mrn_by_row(&mut self, shape: Mrn, from: Value, to: Value) -> Value {
        assert_eq!((from.rows, from.columns), (to.rows, to.columns), "matrices of one shape");
        self.add(ByRow { shape, rows: from.rows }, &[from, to], &[], (from.rows, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;
    use crate::random::{Purpose, Stream};

    const SHAPES: [Mrn; 5] = [
        Mrn { components: 1, maxima: 3, squares: 3 },
        Mrn { components: 2, maxima: 2, squares: 2 },
        Mrn { components: 3, maxima: 5, squares: 1 },
        Mrn { components: 1, maxima: 6, squares: 0 },
        Mrn { components: 1, maxima: 0, squares: 5 },
    ];

    #[test]
    fn the_distance_has_the_gradient_of_its_formula() {
        for shape in SHAPES {
            let width = shape.width();
            Bench::new(&[(5, width), (4, width)])
                .check(|program, values| program.mrn(shape, values[0], values[1]));
            Bench::new(&[(5, width), (5, width)])
                .check(|program, values| program.mrn_by_row(shape, values[0], values[1]));
            Bench::new(&[(70, width), (3, width)])
                .check(|program, values| program.mrn(shape, values[1], values[0]));
        }
    }

    #[test]
    fn ties_and_coincident_points_have_gradient_zero_or_that_of_one_side() {
        // Two equal ends share the gradient of a tie between different starts; no derivative by the
        // coincident points themselves is asked for, since the distance has a kink there.
        let shape = SHAPES[0];
        Bench::new(&[(4, 6), (3, 6)]).check_from(
            |at, numbers| {
                if at == 1 {
                    let (first, rest) = numbers.split_at_mut(6);
                    rest[..6].copy_from_slice(first);
                }
            },
            |program, values| program.mrn(shape, values[0], values[1]),
        );
        let point = [0.3f32, -0.2, 0.9, 1.0, 2.0, -1.0];
        let mut target = [0.0f32; 6];
        let mut seen = Vec::new();
        assert_eq!(shape.one(&point, &point, |_, norm, pick| seen.push((norm, pick))), 0.0);
        pair_backward(shape, &mut target, (&point, &point), (1.0, 1.0), |c| seen[c]);
        assert_eq!(target, [0.0; 6]);
    }

    #[test]
    fn near_points_have_small_finite_distances_and_bounded_gradients() {
        let shape = Mrn { components: 1, maxima: 8, squares: 8 };
        let mut draws = Stream::new(1, Purpose(0)).draws(0, 0);
        for scale in [1e-3, 1e-6, 1e-12, 1e-18, 1e-25, 1e-38] {
            let from: Vec<f32> = (0..16).map(|_| draws.normal() as f32).collect();
            let to: Vec<f32> = from.iter().map(|x| x + (scale * draws.normal()) as f32).collect();
            let zero = vec![0.0f32; 16];
            let tiny: Vec<f32> = (0..16).map(|_| (scale * draws.normal()) as f32).collect();
            for (from, to) in [(&from, &to), (&zero, &tiny)] {
                let mut seen = Vec::new();
                let d = shape.one(from, to, |_, norm, pick| seen.push((norm, pick)));
                assert!(d.is_finite() && d >= 0.0 && f64::from(d) <= 40.0 * scale.max(1e-6));
                let mut target = vec![0.0; 16];
                pair_backward(shape, &mut target, (from, to), (1.0, 1.0), |c| seen[c]);
                assert!(
                    target.iter().all(|g| g.is_finite() && g.abs() <= 2.0),
                    "{scale} {target:?}"
                );
            }
        }
    }

    #[test]
    fn pairs_and_rows_agree_to_the_last_bit() {
        let mut draws = Stream::new(2, Purpose(0)).draws(0, 0);
        for shape in SHAPES {
            let width = shape.width();
            let mut numbers =
                || (0..130 * width).map(|_| draws.normal() as f32).collect::<Vec<_>>();
            let (from, to) = (numbers(), numbers());
            let (mut pairs, mut rows) = (vec![0.0; 130 * 130], vec![0.0; 130]);
            shape.pairs(&from, &to, &mut pairs);
            shape.by_row(&from, &to, &mut rows);
            for at in 0..130 {
                assert_eq!(pairs[at * 131].to_bits(), rows[at].to_bits());
            }
        }
    }
}
