//! d(x, y) = α · mean_k ℓ_k + (1 − α) · max_k ℓ_k, ℓ_k the length of ∪_j [x_kj, max(x_kj, y_kj)].
//!
//! The interval quasimetric embedding (Wang and Isola 2022) with its mean and maximum reduction. α
//! here weighs the mean; α = σ(raw) is learned. The left ends of the intervals belong to the start
//! alone, so one sort per start and group serves all its pairs, and a sweep in that order adds what
//! each interval reaches beyond those before it.

mod kernels;

use super::{BESIDE, LANES, beside, lanes, transpose};
use crate::engine::{
    Backward, Forward, Kernels, OfRows, Operation, Parameter, Program, Scalar, Threads, Value,
    wide_kernel,
};

/// The shape of a head: groups of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Iqe {
    /// Groups whose lengths are averaged and maximized.
    pub groups: usize,
    /// Intervals in a group; 8 or more are advised.
    pub size: usize,
}

/// Rows that one task takes.
const ROWS: usize = 8;

impl Iqe {
    /// Coordinates of a latent vector.
    pub fn width(&self) -> usize {
        self.groups * self.size
    }

    /// Writes, group by group, the coordinates of `from` in ascending order of their value.
    fn sort<T: Scalar>(&self, from: &[T], order: &mut [u32]) {
        for (group, order) in order.chunks_exact_mut(self.size).enumerate() {
            let first = group * self.size;
            order.iter_mut().enumerate().for_each(|(at, index)| *index = (first + at) as u32);
            order.sort_unstable_by(|&a, &b| {
                let (a, b) = (from[a as usize], from[b as usize]);
                a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal)
            });
        }
    }

    /// The distance of one pair given the order of its start.
    fn one<T: Scalar>(&self, from: &[T], order: &[u32], to: &[T]) -> Reduced<T> {
        let mut reduced = Reduced { sum: T::ZERO, top: T::ZERO, pick: 0 };
        for (group, order) in order.chunks_exact(self.size).enumerate() {
            let mut length = T::ZERO;
            let mut end = from[order[0] as usize];
            for &index in order {
                let (low, high) = (from[index as usize], to[index as usize]);
                let start = low.at_least(end);
                length += (high - start).at_least(T::ZERO);
                end = end.at_least(high);
            }
            reduced.add(group, length);
        }
        reduced
    }

    fn reduce<T: Scalar>(&self, sum: T, top: T, mix: T) -> T {
        mix * (sum / T::of(self.groups as f64)) + (T::ONE - mix) * top
    }

    /// Calls `moved(index, of_start, sign)` for every coordinate the length of `group` depends on.
    fn ends<T: Scalar>(from: &[T], order: &[u32], to: &[T], mut moved: impl FnMut(usize, bool, T)) {
        let mut reach: Option<(T, usize)> = None;
        for &index in order {
            let index = index as usize;
            let (low, high) = (from[index], to[index]);
            match reach {
                Some((end, owner)) if end > low => {
                    if high > end {
                        moved(index, false, T::ONE);
                        moved(owner, false, -T::ONE);
                        reach = Some((high, index));
                    }
                }
                _ => {
                    if high > low {
                        moved(index, false, T::ONE);
                        moved(index, true, -T::ONE);
                        reach = Some((high, index));
                    }
                }
            }
        }
    }

    /// The distances of corresponding rows; `mix` is α.
    pub fn by_row<T: Scalar>(&self, from: &[T], to: &[T], mix: T, out: &mut [T]) {
        let width = self.width();
        let mut room = vec![[T::ZERO; BESIDE]; 2 * width];
        let (low, high) = room.split_at_mut(width);
        let some = BESIDE * width;
        for (out, (from, to)) in out.chunks_mut(BESIDE).zip(from.chunks(some).zip(to.chunks(some)))
        {
            rows(*self, from, to, mix, low, high, out);
        }
    }

    /// The distances of all pairs, without what a backward would need.
    pub fn pairs<T: Scalar>(&self, from: &[T], to: &[T], mix: T, out: &mut [T]) {
        let width = self.width();
        let columns = to.len() / width;
        let mut across = vec![T::ZERO; width * lanes(columns)];
        transpose(&Threads::default(), to, width, &mut across, lanes(columns));
        let (mut order, mut spread, mut picks) =
            (vec![0; width], vec![T::ZERO; columns], vec![0; columns]);
        for (out, from) in out.chunks_exact_mut(columns).zip(from.chunks_exact(width)) {
            self.sort(from, &mut order);
            row(*self, from, &order, &across, mix, out, &mut spread, &mut picks);
        }
    }
}

struct Reduced<T> {
    sum: T,
    top: T,
    pick: u32,
}

impl<T: Scalar> Reduced<T> {
    fn add(&mut self, group: usize, length: T) {
        self.sum += length;
        if length > self.top {
            (self.top, self.pick) = (length, group as u32);
        }
    }
}

wide_kernel! {
    /// One row against all columns: distances, mean − max, and the group of the maximum.
    fn row<T>(
        shape: Iqe,
        from: &'k [T],
        order: &'k [u32],
        across: &'k [T],
        mix: T,
        distances: &'k mut [T],
        spread: &'k mut [T],
        picks: &'k mut [u32],
    ) {
        let columns = distances.len();
        let stride = lanes(columns);
        for block in (0..columns).step_by(LANES) {
            let valid = LANES.min(columns - block);
            let (mut sum, mut top, mut pick) = ([T::ZERO; LANES], [T::ZERO; LANES], [0u32; LANES]);
            for (group, order) in order.chunks_exact(shape.size).enumerate() {
                let (mut length, mut end) = ([T::ZERO; LANES], [from[order[0] as usize]; LANES]);
                for &index in order {
                    let low = from[index as usize];
                    let high = &across[index as usize * stride + block..][..LANES];
                    for l in 0..LANES {
                        let start = low.at_least(end[l]);
                        length[l] += (high[l] - start).at_least(T::ZERO);
                        end[l] = end[l].at_least(high[l]);
                    }
                }
                for l in 0..LANES {
                    sum[l] += length[l];
                    let larger = length[l] > top[l];
                    top[l] = if larger { length[l] } else { top[l] };
                    pick[l] = if larger { group as u32 } else { pick[l] };
                }
            }
            for l in 0..valid {
                distances[block + l] = shape.reduce(sum[l], top[l], mix);
                spread[block + l] = sum[l] / T::of(shape.groups as f64) - top[l];
                picks[block + l] = pick[l];
            }
        }
    }
}

wide_kernel! {
    /// The distances of up to 16 corresponding rows side by side. Neighbours are exchanged until the
    /// starts ascend; equal ones keep their order, so that a row has the bits it has among pairs.
    fn rows<T>(
        shape: Iqe,
        from: &'k [T],
        to: &'k [T],
        mix: T,
        low: &'k mut [[T; BESIDE]],
        high: &'k mut [[T; BESIDE]],
        out: &'k mut [T],
    ) {
        beside(from, low);
        beside(to, high);
        let (mut sum, mut top) = ([T::ZERO; BESIDE], [T::ZERO; BESIDE]);
        let groups = low.chunks_exact_mut(shape.size).zip(high.chunks_exact_mut(shape.size));
        for (low, high) in groups {
            for round in 0..shape.size {
                for at in (round % 2 + 1..shape.size).step_by(2) {
                    exchange(low, high, at);
                }
            }
            let (mut length, mut end) = ([T::ZERO; BESIDE], low[0]);
            for (low, high) in low.iter().zip(high.iter()) {
                for l in 0..BESIDE {
                    let start = low[l].at_least(end[l]);
                    length[l] += (high[l] - start).at_least(T::ZERO);
                    end[l] = end[l].at_least(high[l]);
                }
            }
            for l in 0..BESIDE {
                sum[l] += length[l];
                top[l] = top[l].at_least(length[l]);
            }
        }
        for (out, (&sum, &top)) in out.iter_mut().zip(sum.iter().zip(&top)) {
            *out = shape.reduce(sum, top, mix);
        }
    }
}

/// Exchanges interval `at` with the one before it in the lanes where it starts earlier. Each of the
/// four loops is one vector operation.
#[inline(always)]
fn exchange<T: Scalar>(low: &mut [[T; BESIDE]], high: &mut [[T; BESIDE]], at: usize) {
    let (a, b, x, y) = (low[at - 1], low[at], high[at - 1], high[at]);
    for l in 0..BESIDE {
        low[at - 1][l] = if a[l] > b[l] { b[l] } else { a[l] };
    }
    for l in 0..BESIDE {
        low[at][l] = if a[l] > b[l] { a[l] } else { b[l] };
    }
    for l in 0..BESIDE {
        high[at - 1][l] = if a[l] > b[l] { y[l] } else { x[l] };
    }
    for l in 0..BESIDE {
        high[at][l] = if a[l] > b[l] { x[l] } else { y[l] };
    }
}

struct Pairwise {
    shape: Iqe,
    rows: usize,
    columns: usize,
    /// Only corresponding rows are compared.
    diagonal: bool,
}

impl Pairwise {
    fn pairs(&self) -> usize {
        if self.diagonal { self.rows } else { self.rows * self.columns }
    }

    /// The place of pair (i, j).
    fn place(&self, i: usize, j: usize) -> usize {
        if self.diagonal { i } else { i * self.columns + j }
    }

    /// What row `at` of one side is compared with: itself, or all `count` of the other.
    fn partners(&self, at: usize, count: usize) -> std::ops::Range<usize> {
        if self.diagonal { at..at + 1 } else { 0..count }
    }

    /// Adds the gradient of pair (i, j) by its start or its end to `target`.
    fn pair_backward<T: Scalar>(
        &self,
        target: &mut [T],
        (from, order, to): (&[T], &[u32], &[T]),
        (gradient, mix, pick): (T, T, u32),
        of_start: bool,
    ) {
        let size = self.shape.size;
        let mean = gradient * mix / T::of(self.shape.groups as f64);
        for (group, order) in order.chunks_exact(size).enumerate() {
            let weight = if group as u32 == pick { mean + gradient * (T::ONE - mix) } else { mean };
            Iqe::ends(from, order, to, |index, start, sign| {
                if start == of_start {
                    target[index] += sign * weight;
                }
            });
        }
    }
}

impl<T: Scalar> Operation<T> for Pairwise {
    fn name(&self) -> &'static str {
        if self.diagonal { "iqe_by_row" } else { "iqe" }
    }

    /// The ends, transposed, and mean − max of every pair.
    fn saved(&self) -> usize {
        self.shape.width() * lanes(self.columns) + self.pairs()
    }

    /// The group of every pair's maximum, and the order of every start.
    fn indices(&self) -> usize {
        self.pairs() + self.rows * self.shape.width()
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn of_rows(&self, rows: usize) -> Option<OfRows<T>> {
        let Self { shape, columns, diagonal, .. } = *self;
        match diagonal {
            true => OfRows::new(Self { shape, rows, columns: rows, diagonal }),
            false => OfRows::against_all(Self { shape, rows, columns, diagonal }),
        }
    }

    fn forward(&self, run: Forward<'_, T>) {
        let Self { shape, columns, diagonal, .. } = *self;
        let (width, mix) = (shape.width(), run.parameter(0)[0].sigmoid());
        let (from, to) = (run.input(0), run.input(1));
        let (across, spread) = run.saved.split_at_mut(width * lanes(columns));
        let (picks, orders) = run.indices.split_at_mut(self.pairs());
        run.threads.parts(orders, ROWS * width, |part, orders| {
            let from = from[part * ROWS * width..].chunks_exact(width);
            from.zip(orders.chunks_exact_mut(width))
                .for_each(|(from, order)| shape.sort(from, order));
        });
        let orders = &*orders;
        if diagonal {
            run.threads.parts3(
                (run.output, ROWS),
                (spread, ROWS),
                (picks, ROWS),
                |part, distances, spread, picks| {
                    for at in 0..distances.len() {
                        let place = (part * ROWS + at) * width;
                        let (from, to) = (&from[place..][..width], &to[place..][..width]);
                        let reduced = shape.one(from, &orders[place..][..width], to);
                        distances[at] = shape.reduce(reduced.sum, reduced.top, mix);
                        spread[at] = reduced.sum / T::of(shape.groups as f64) - reduced.top;
                        picks[at] = reduced.pick;
                    }
                },
            );
            return;
        }
        transpose(run.threads, to, width, across, lanes(columns));
        let across = &*across;
        run.threads.parts3(
            (run.output, ROWS * columns),
            (spread, ROWS * columns),
            (picks, ROWS * columns),
            |part, distances, spread, picks| {
                let rows = distances
                    .chunks_exact_mut(columns)
                    .zip(spread.chunks_exact_mut(columns).zip(picks.chunks_exact_mut(columns)));
                for (at, (distances, (spread, picks))) in rows.enumerate() {
                    let place = (part * ROWS + at) * width;
                    let (from, order) = (&from[place..][..width], &orders[place..][..width]);
                    row(shape, from, order, across, mix, distances, spread, picks);
                }
            },
        );
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let Self { shape, rows, columns, .. } = *self;
        let (width, mix) = (shape.width(), run.parameter(0)[0].sigmoid());
        let gradient = &*std::mem::take(&mut run.output_gradient);
        let spread = &std::mem::take(&mut run.saved)[width * lanes(columns)..];
        let (from, to, threads) = (run.input(0), run.input(1), run.threads);
        let (picks, orders) = run.indices.split_at(self.pairs());
        if let Some(target) = run.parameter_gradient(0) {
            let mut sum = T::ZERO;
            gradient.iter().zip(spread).for_each(|(&g, &s)| sum += g * s);
            target[0] += sum * mix * (T::ONE - mix);
        }
        let pair = |i: usize, j: usize, of_start: bool, target: &mut [T]| {
            let (place, start, end) = (self.place(i, j), i * width, j * width);
            let ends = (&from[start..][..width], &orders[start..][..width], &to[end..][..width]);
            self.pair_backward(target, ends, (gradient[place], mix, picks[place]), of_start);
        };
        if let Some(target) = run.input_gradient(0) {
            threads.parts(target, ROWS * width, |part, targets| {
                for (at, target) in targets.chunks_exact_mut(width).enumerate() {
                    let i = part * ROWS + at;
                    self.partners(i, columns).for_each(|j| pair(i, j, true, target));
                }
            });
        }
        if let Some(target) = run.input_gradient(1) {
            threads.parts(target, ROWS * width, |part, targets| {
                for (at, target) in targets.chunks_exact_mut(width).enumerate() {
                    let j = part * ROWS + at;
                    self.partners(j, rows).for_each(|i| pair(i, j, false, target));
                }
            });
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The IQE distance of every pair of rows; `mix` is the raw weight of the mean.
    pub fn iqe(&mut self, shape: Iqe, mix: Parameter, from: Value, to: Value) -> Value {
        assert_eq!((from.columns, to.columns), (shape.width(), shape.width()), "latent vectors");
        let (rows, columns) = (from.rows, to.rows);
        let operation = Pairwise { shape, rows, columns, diagonal: false };
        self.add(operation, &[from, to], &[mix], (rows, columns))
    }

    /// The IQE distance of corresponding rows.
    pub fn iqe_by_row(&mut self, shape: Iqe, mix: Parameter, from: Value, to: Value) -> Value {
        assert_eq!((from.rows, from.columns), (to.rows, to.columns), "matrices of one shape");
        let operation = Pairwise { shape, rows: from.rows, columns: to.rows, diagonal: true };
        self.add(operation, &[from, to], &[mix], (from.rows, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Initial;
    use crate::ops::differences::Bench;
    use crate::random::{Purpose, Stream};

    #[test]
    fn the_distance_has_the_gradient_of_its_formula() {
        let shape = Iqe { groups: 2, size: 4 };
        for by_row in [false, true] {
            let mut bench = Bench::new(&[(5, 8), (5, 8)]);
            let arena = bench.parameters.arena("mix");
            let mix = bench.parameters.add(arena, "mix", (1, 1), Initial::Uniform(1.0));
            bench.check(|program, values| match by_row {
                true => program.iqe_by_row(shape, mix, values[0], values[1]),
                false => program.iqe(shape, mix, values[0], values[1]),
            });
        }
    }

    #[test]
    fn the_length_of_a_union_is_right_for_overlapping_and_separate_intervals() {
        let shape = Iqe { groups: 1, size: 4 };
        // [0, 2] ∪ [1, 3] ∪ [5, 6] ∪ (empty, since 9 > 4) = 3 + 1.
        let (from, to) = ([0.0, 5.0, 1.0, 9.0], [2.0, 6.0, 3.0, 4.0]);
        let mut out = [0.0f64];
        shape.by_row(&from, &to, 0.3, &mut out);
        assert!((out[0] - 4.0).abs() < 1e-12);
        // Two groups of lengths 1 and 3: α weighs the mean.
        let shape = Iqe { groups: 2, size: 1 };
        shape.by_row(&[0.0, 0.0], &[1.0, 3.0], 0.25, &mut out);
        assert!((out[0] - (0.25 * 2.0 + 0.75 * 3.0)).abs() < 1e-12);
    }

    #[test]
    fn pairs_and_rows_agree_to_the_last_bit() {
        let mut draws = Stream::new(2, Purpose(0)).draws(0, 0);
        for (groups, size, count) in [(3, 8, 100), (32, 8, 16), (2, 1, 5), (1, 21, 33)] {
            let shape = Iqe { groups, size };
            // Half of the coordinates are coarse, so that ties within a group occur.
            let mut numbers = || {
                let all = 0..count * shape.width();
                let coarse = |x: f64| (x * 4.0).round() as f32 / 7.0;
                all.map(|at| draws.normal() as f32 * (at % 2) as f32 + coarse(draws.normal()))
                    .collect::<Vec<_>>()
            };
            let (from, to) = (numbers(), numbers());
            let (mut pairs, mut rows) = (vec![0.0; count * count], vec![0.0; count]);
            shape.pairs(&from, &to, 0.4, &mut pairs);
            shape.by_row(&from, &to, 0.4, &mut rows);
            for at in 0..count {
                assert_eq!(pairs[at * (count + 1)].to_bits(), rows[at].to_bits(), "{shape:?}");
            }
        }
    }

    #[test]
    fn single_precision_is_within_a_millionth_of_double() {
        let (shape, count) = (Iqe { groups: 32, size: 8 }, 60);
        let mut draws = Stream::new(3, Purpose(0)).draws(0, 0);
        let mut numbers = || -> Vec<f32> {
            (0..count * shape.width()).map(|_| 20.0 * draws.normal() as f32).collect()
        };
        let (from, to) = (numbers(), numbers());
        let wide = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let (mut found, mut exact) = (vec![0.0f32; count * count], vec![0.0; count * count]);
        shape.pairs(&from, &to, 0.4, &mut found);
        shape.pairs(&wide(&from), &wide(&to), f64::from(0.4f32), &mut exact);
        let largest = exact.iter().copied().fold(0.0, f64::max);
        for (&found, exact) in found.iter().zip(exact) {
            assert!((f64::from(found) - exact).abs() < 1e-6 * largest, "{found}, exactly {exact}");
        }
    }
}
