//! InfoNCE over all pairs of a batch, and its binary form.
//!
//! Choosing the goal:  mean_i (LSE_j f_ij − f_ii); choosing the start: mean_j (LSE_i f_ij − f_jj).
//! Symmetric is their sum. The gradient is closed: G_ij = (P_ij + Q_ij − 2 δ_ij) / B, P the softmax
//! of rows, Q of columns. Choosing the goal alone leaves a constant C(start) free, so it comes with
//! 0.01 · mean_i LSE_i², whose gradient is 0.02 · LSE_i · P_ij / B. Binary: mean over all pairs of
//! the cross-entropy of σ(f_ij) against δ_ij, summed as B² terms over B².

use serde::{Deserialize, Serialize};

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
    wide_kernel,
};

/// Which classification the logits are trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directions {
    /// Choose the goal of each start and the start of each goal.
    Symmetric,
    /// Choose the goal of each start, with the LSE² penalty (the authors' code).
    Forward,
    /// Choose the goal of each start without the penalty: the constant of each start is free.
    ForwardFree,
    /// Choose the start of each goal.
    Backward,
    /// Tell every pair as matching or not.
    Binary,
}

/// The weight of mean LSE² that fixes the free constant of a start.
pub const LSE_PENALTY: f64 = 0.01;

/// Partial sums of a row.
const SUMS: usize = 16;

struct InfoNce {
    size: usize,
    directions: Directions,
}

impl<T: Scalar> Operation<T> for InfoNce {
    fn name(&self) -> &'static str {
        "info_nce"
    }

    /// The gradient by the logits, and room for two numbers a column.
    fn saved(&self) -> usize {
        self.size * (self.size + 2)
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (size, logits) = (self.size, run.input(0));
        let (gradient, columns) = run.saved.split_at_mut(size * size);
        if self.directions == Directions::Binary {
            let mut sum = 0.0;
            binary(logits, gradient, size, &mut sum);
            run.output[0] = T::of(sum / (size * size) as f64);
            return;
        }
        let (first, second) = columns.split_at_mut(size);
        let mut loss = 0.0;
        if matches!(self.directions, Directions::Symmetric | Directions::Backward) {
            choose_start(logits, gradient, first, second, &mut loss);
        } else {
            gradient.fill(T::ZERO);
        }
        if self.directions != Directions::Backward {
            let penalty = if self.directions == Directions::Forward { LSE_PENALTY } else { 0.0 };
            choose_goal(logits, gradient, first, penalty, &mut loss);
        }
        run.output[0] = T::of(loss / size as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let scale = match self.directions {
            Directions::Binary => self.size * self.size,
            _ => self.size,
        };
        let upstream = run.output_gradient[0] / T::of(scale as f64);
        let saved = std::mem::take(&mut run.saved);
        if let Some(target) = run.input_gradient(0) {
            target.iter_mut().zip(&*saved).for_each(|(t, &g)| *t += upstream * g);
        }
    }
}

impl InfoNce {
    /// Whether rows and columns are classified, and the weight of LSE², as kernels take them.
    fn choices(&self) -> (bool, bool, f64) {
        match self.directions {
            Directions::Symmetric => (true, true, 0.0),
            Directions::Forward => (true, false, LSE_PENALTY),
            Directions::ForwardFree => (true, false, 0.0),
            Directions::Backward => (false, true, 0.0),
            Directions::Binary => (false, false, 0.0),
        }
    }
}

impl Kernels for InfoNce {
    fn source(&self) -> &'static str {
        include_str!("info_nce.cu")
    }

    /// Tops and sums of rows and columns, and a counter of blocks.
    fn kept(&self) -> Vec<usize> {
        vec![4 * self.size, 1]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (size, (rows, columns, penalty)) = (self.size, self.choices());
        let mut arguments = vec![
            Argument::Read(queue.input(0)),
            Argument::Write(queue.output()),
            Argument::Write(queue.kept(0)),
            Argument::Write(queue.kept(1)),
            Argument::size(size),
        ];
        if self.directions == Directions::Binary {
            queue.launch("info_nce_binary_forward", Grid::blocks(size, 1, 256), &arguments);
            return;
        }
        arguments.extend([Argument::Int(rows.into()), Argument::Int(columns.into())]);
        arguments.push(Argument::Wide(penalty));
        let blocks = |wanted: bool, each: usize| if wanted { size.div_ceil(each) } else { 0 };
        let grid = Grid::blocks(blocks(rows, 32) + blocks(columns, 8), 1, 1024);
        queue.launch("info_nce_forward", grid, &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (size, (rows, columns, penalty)) = (self.size, self.choices());
        let target = queue.input_target(0);
        let shared = [
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(size),
        ];
        let mut arguments = vec![Argument::Read(queue.input(0))];
        if self.directions == Directions::Binary {
            arguments.extend(shared);
            queue.launch("info_nce_binary_backward", Grid::lines(size, size), &arguments);
            return;
        }
        arguments.push(Argument::Read(queue.kept(0)));
        arguments.extend(shared);
        arguments.extend([Argument::Int(rows.into()), Argument::Int(columns.into())]);
        arguments.push(Argument::Wide(penalty));
        let grid = Grid::blocks(size.div_ceil(256), size.div_ceil(8), 256);
        queue.launch("info_nce_backward", grid, &arguments);
    }
}

wide_kernel! {
    /// Adds P_ij − δ_ij (and the penalty's share) to `gradient` and the losses of all rows to
    /// `loss`; `exponentials` is room for one row.
    fn choose_goal<T>(
        logits: &'k [T],
        gradient: &'k mut [T],
        exponentials: &'k mut [T],
        penalty: f64,
        loss: &'k mut f64,
    ) {
        let size = exponentials.len();
        let rows = logits.chunks_exact(size).zip(gradient.chunks_exact_mut(size));
        for (at, (row, gradient)) in rows.enumerate() {
            let (top, sum) = row_exponentials(row, exponentials);
            let total = (top + sum.ln()).wide();
            *loss += total - row[at].wide() + penalty * total * total;
            let scale = T::of(1.0 + 2.0 * penalty * total) / sum;
            gradient.iter_mut().zip(&*exponentials).for_each(|(g, &e)| *g += e * scale);
            gradient[at] -= T::ONE;
        }
    }
}

/// Writes exp(f − top) and finds the top of a row and the sum of its exponentials, each in a fixed
/// number of lanes that are joined in order.
#[inline(always)]
fn row_exponentials<T: Scalar>(row: &[T], out: &mut [T]) -> (T, T) {
    let (lanes, rest) = row.as_chunks::<SUMS>();
    let mut tops = [row[0]; SUMS];
    for lanes in lanes {
        (0..SUMS).for_each(|l| tops[l] = tops[l].at_least(lanes[l]));
    }
    let top = tops.into_iter().chain(rest.iter().copied()).fold(row[0], T::at_least);
    let (out_lanes, out_rest) = out.as_chunks_mut::<SUMS>();
    let mut sums = [T::ZERO; SUMS];
    for (out, lanes) in out_lanes.iter_mut().zip(lanes) {
        for l in 0..SUMS {
            out[l] = (lanes[l] - top).exp();
            sums[l] += out[l];
        }
    }
    let mut sum = sums.into_iter().fold(T::ZERO, |sum, x| sum + x);
    for (out, &f) in out_rest.iter_mut().zip(rest) {
        *out = (f - top).exp();
        sum += *out;
    }
    (top, sum)
}

wide_kernel! {
    /// Writes Q_ij − δ_ij to `gradient` and adds the losses of all columns to `loss`; `tops` and
    /// `sums` are room for one number a column.
    fn choose_start<T>(
        logits: &'k [T],
        gradient: &'k mut [T],
        tops: &'k mut [T],
        sums: &'k mut [T],
        loss: &'k mut f64,
    ) {
        let size = tops.len();
        tops.copy_from_slice(&logits[..size]);
        for row in logits.chunks_exact(size) {
            tops.iter_mut().zip(row).for_each(|(top, &f)| *top = top.at_least(f));
        }
        sums.fill(T::ZERO);
        for (row, gradient) in logits.chunks_exact(size).zip(gradient.chunks_exact_mut(size)) {
            for (((g, &f), &top), sum) in gradient.iter_mut().zip(row).zip(&*tops).zip(&mut *sums) {
                *g = (f - top).exp();
                *sum += *g;
            }
        }
        for at in 0..size {
            *loss += (tops[at] + sums[at].ln() - logits[at * size + at]).wide();
            sums[at] = T::ONE / sums[at];
        }
        for (at, gradient) in gradient.chunks_exact_mut(size).enumerate() {
            gradient.iter_mut().zip(&*sums).for_each(|(g, &inverse)| *g *= inverse);
            gradient[at] -= T::ONE;
        }
    }
}

wide_kernel! {
    fn binary<T>(logits: &'k [T], gradient: &'k mut [T], size: usize, loss: &'k mut f64) {
        let rows = logits.chunks_exact(size).zip(gradient.chunks_exact_mut(size));
        for (at, (row, gradient)) in rows.enumerate() {
            for (g, &f) in gradient.iter_mut().zip(row) {
                *g = f.sigmoid();
            }
            gradient[at] -= T::ONE;
            let sum = row.iter().fold(-row[at], |sum, &f| sum + f.softplus());
            *loss += sum.wide();
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The contrastive loss of square `logits`, whose diagonal holds the matching pairs.
    pub fn info_nce(&mut self, logits: Value, directions: Directions) -> Value {
        assert_eq!(logits.rows, logits.columns, "every start has its goal");
        self.add(InfoNce { size: logits.rows, directions }, &[logits], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    const ALL: [Directions; 5] = [
        Directions::Symmetric,
        Directions::Forward,
        Directions::ForwardFree,
        Directions::Backward,
        Directions::Binary,
    ];

    #[test]
    fn every_direction_has_the_gradient_of_its_loss() {
        for directions in ALL {
            for size in [6, 19] {
                Bench::new(&[(size, size)])
                    .check(|program, values| program.info_nce(values[0], directions));
            }
        }
    }

    fn loss(logits: &[f64], size: usize, directions: Directions) -> f64 {
        let mut gradient = vec![0.0; size * size];
        let (mut first, mut second, mut loss) = (vec![0.0; size], vec![0.0; size], 0.0);
        match directions {
            Directions::Backward => {
                choose_start(logits, &mut gradient, &mut first, &mut second, &mut loss);
            }
            _ => choose_goal(logits, &mut gradient, &mut first, 0.0, &mut loss),
        }
        loss / size as f64
    }

    #[test]
    fn losses_are_those_written_out_with_the_match_in_the_denominator() {
        let logits = [1.0, 2.0, -1.0, 0.5];
        let goal =
            (1.0f64.exp() + 2.0f64.exp()).ln() - 1.0 + ((-1.0f64).exp() + 0.5f64.exp()).ln() - 0.5;
        assert!((loss(&logits, 2, Directions::ForwardFree) - goal / 2.0).abs() < 1e-12);
        let start =
            (1.0f64.exp() + (-1.0f64).exp()).ln() - 1.0 + (2.0f64.exp() + 0.5f64.exp()).ln() - 0.5;
        assert!((loss(&logits, 2, Directions::Backward) - start / 2.0).abs() < 1e-12);
    }

    #[test]
    fn the_binary_loss_of_many_pairs_keeps_its_digits_in_single_precision() {
        let size = 500;
        let logits: Vec<f32> =
            (0..size * size).map(|at| (at * 7919 % 1009) as f32 * 0.01).collect();
        let (mut gradient, mut single) = (vec![0.0f32; size * size], 0.0);
        binary(&logits, &mut gradient, size, &mut single);
        let logits: Vec<f64> = logits.iter().map(|&f| f.into()).collect();
        let (mut gradient, mut double) = (vec![0.0f64; size * size], 0.0);
        binary(&logits, &mut gradient, size, &mut double);
        assert!((single / double - 1.0).abs() < 2e-6, "{single} {double}");
    }

    #[test]
    fn large_logits_stay_finite() {
        let logits = [1e4, -1e4, -1e4, 1e4];
        for directions in [Directions::ForwardFree, Directions::Backward] {
            let value = loss(&logits, 2, directions);
            assert!(value.is_finite() && value.abs() < 1e-9);
        }
        let mut gradient = [0.0f32; 4];
        let mut sum = 0.0;
        binary(&[1e4f32, -1e4, 1e4, -1e4], &mut gradient, 2, &mut sum);
        assert!(sum.is_finite() && gradient.iter().all(|g| g.is_finite()));
    }
}
