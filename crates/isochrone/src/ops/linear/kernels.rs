//! A layer on the GPU: its product with bias and ReLU fused, activation and norm in one kernel a half.
//! What a norm's strips of rows add to the gradients of parameters, a second one adds up.

use super::{Activation, Layer, Linear, Norm};
use crate::engine::{
    Argument, Buffer, Factor, Finish, Grid, Kernels, Product, Queue, Target, down_blocks,
};

/// Threads and columns of a block that adds down what strips of rows left.
const TOTALS: (usize, usize) = (256, 32);
/// Numbers of a norm's row that one thread holds at most.
const HELD: usize = 16;
/// Numbers of a row of which each lane of a warp holds half as many.
const HALF_HELD: usize = 32 * HELD / 2;
/// Warps of a norm's block forward and backward, where a warp has a row.
const WARPS: [usize; 2] = [4, 8];
/// Rows that a norm's block has backward.
const STRIP: usize = 16;

impl Layer {
    fn code(&self) -> Argument {
        Argument::Int(match self.shape.activation {
            Activation::Identity => 0,
            Activation::Relu => 1,
            Activation::Gelu => 2,
            Activation::Swish => 3,
        })
    }

    /// Room for the sums of blocks, and their counters: the last two buffers kept without a norm.
    fn room(&self, queue: &Queue<'_>) -> [Buffer; 2] {
        let first = self.remembered().len();
        [queue.kept(first), queue.kept(first + 1)]
    }

    /// The sums; for a norm also the mean and the inverse deviation of every row.
    fn remembered(&self) -> Vec<usize> {
        let all = self.rows * self.shape.outputs;
        match (self.keeps_sums(), self.shape.norm) {
            (false, _) => Vec::new(),
            (true, Norm::None) => vec![all],
            (true, Norm::Layer) => vec![all, 2 * self.rows],
        }
    }

    /// Threads that have a row of the norm: a warp, or all of a block.
    fn lanes(&self) -> usize {
        self.shape.outputs.div_ceil(HELD).next_multiple_of(32)
    }

    /// Threads of a norm's block: so many warps where each has a row, else those of one row.
    fn threads(&self, warps: usize) -> usize {
        let lanes = self.lanes();
        if lanes == 32 { warps * lanes } else { lanes }
    }

    /// Rows, width and lanes, whether these buffers allow fours, and the activation.
    fn norm_arguments(&self, queue: &Queue<'_>, buffers: &[Buffer]) -> [Argument; 5] {
        let width = self.shape.outputs;
        let wide = width.is_multiple_of(4) && buffers.iter().all(|buffer| buffer.is_aligned());
        let [rows, width, lanes] = [queue.rows(), width, self.lanes()].map(Argument::size);
        [rows, width, lanes, Argument::Int(wide.into()), self.code()]
    }

    /// Turns the gradient of the norm's output into that of the sums, in place, with the gradients
    /// of gain, shift and bias on the way.
    fn norm_to_sums(&self, queue: &mut Queue<'_>) {
        let (width, strips) = (self.shape.outputs, queue.rows().div_ceil(STRIP));
        let (gradient, parts) = (queue.output_gradient(), queue.kept(self.remembered().len()));
        let targets = [2, 3, 1].map(|at| queue.parameter_target(at));
        let moves = targets.iter().any(Option::is_some);
        let (sums, gain) = (queue.kept(0), queue.parameter(2));
        let mut arguments = vec![
            Argument::Write(gradient),
            Argument::Read(sums),
            Argument::Read(queue.kept(1)),
            Argument::Read(gain),
            if moves { Argument::Write(parts) } else { Argument::Absent },
        ];
        arguments.extend(self.norm_arguments(queue, &[gradient, sums, gain]));
        let grid = Grid::blocks(strips, 1, self.threads(WARPS[1]));
        let names = ["linear_norm_backward", "linear_norm_backward_large"];
        queue.launch(names[usize::from(width > HALF_HELD)], grid, &arguments);
        if moves {
            let mut arguments = vec![Argument::Read(parts)];
            for target in targets {
                arguments.extend([Argument::target(target), Argument::keep(target)]);
            }
            arguments.extend([strips, width].map(Argument::size));
            let grid = Grid::blocks(width.div_ceil(TOTALS.1), targets.len(), TOTALS.0);
            queue.launch("linear_norm_totals", grid, &arguments);
        }
    }

    /// Turns the gradient of the activation into that of the sums, in place.
    fn activation_to_sums(&self, queue: &mut Queue<'_>) {
        let gradient = queue.output_gradient();
        let told = queue.kept(0);
        let arguments = [
            Argument::Write(gradient),
            Argument::Read(told),
            Argument::size(gradient.length()),
            self.code(),
            Argument::Int((gradient.is_aligned() && told.is_aligned()).into()),
        ];
        queue.launch("linear_slopes", Grid::over(gradient.length().div_ceil(4)), &arguments);
    }
}

impl Kernels for Layer {
    fn source(&self) -> &'static str {
        include_str!("../linear.cu")
    }

    fn kept(&self) -> Vec<usize> {
        let width = self.shape.outputs;
        let mut kept = self.remembered();
        match self.shape.norm {
            Norm::None => {
                let [down, across] = down_blocks(self.rows, width);
                kept.extend([down * width, across]);
            }
            Norm::Layer => kept.push(3 * self.rows.div_ceil(STRIP) * width),
        }
        kept
    }

    fn stacks(&self) -> bool {
        true
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let Linear { inputs, outputs, activation, norm } = self.shape;
        let (rows, bias) = (queue.rows(), queue.parameter(1));
        let shape = Product { m: rows, k: inputs, n: outputs };
        let sides = (Factor::Plain(queue.input(0)), Factor::Plain(queue.parameter(0)));
        let kept = self.keeps_sums();
        let finish = match activation {
            Activation::Relu if !kept => Finish::BiasRelu(bias),
            _ => Finish::Bias(bias),
        };
        let buffer = if kept { queue.kept(0) } else { queue.output() };
        queue.multiply(shape, sides, Target { buffer, keep: false }, (1.0, finish, false));
        if norm == Norm::Layer {
            let [sums, gain, shift] = [queue.kept(0), queue.parameter(2), queue.parameter(3)];
            let mut arguments = vec![
                Argument::Read(sums),
                Argument::Read(gain),
                Argument::Read(shift),
                Argument::Write(queue.output()),
                Argument::Write(queue.kept(1)),
            ];
            let buffers = [sums, gain, shift, queue.output()];
            arguments.extend(self.norm_arguments(queue, &buffers));
            let threads = self.threads(WARPS[0]);
            let grid = Grid::blocks(rows.div_ceil(threads / self.lanes()), 1, threads);
            let names = ["linear_normalize", "linear_normalize_large"];
            queue.launch(names[usize::from(outputs > HALF_HELD)], grid, &arguments);
        } else if kept {
            let count = queue.output().length();
            let arguments = [
                Argument::Read(queue.kept(0)),
                Argument::Write(queue.output()),
                Argument::size(count),
                self.code(),
            ];
            queue.launch("linear_activate", Grid::over(count), &arguments);
        }
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let Linear { inputs, outputs, .. } = self.shape;
        let (rows, gradient) = (queue.rows(), queue.output_gradient());
        let relu = (self.shape.activation == Activation::Relu).then(|| queue.output());
        match (self.shape.norm, self.shape.activation) {
            (Norm::Layer, _) => self.norm_to_sums(queue),
            (Norm::None, Activation::Gelu | Activation::Swish) => self.activation_to_sums(queue),
            (Norm::None, Activation::Identity | Activation::Relu) => {}
        }
        if self.shape.norm == Norm::None {
            match (queue.parameter_target(1), relu) {
                (Some(bias), told) => queue.down(gradient, told, bias, self.room(queue)),
                (None, Some(told)) => queue.gate(gradient, told),
                (None, None) => {}
            }
        }
        let how = (1.0, Finish::None, false);
        if let Some(target) = queue.input_target(0) {
            let shape = Product { m: rows, k: outputs, n: inputs };
            let sides = (Factor::Plain(gradient), Factor::Across(queue.parameter(0)));
            queue.multiply(shape, sides, target, how);
        }
        if let Some(target) = queue.parameter_target(0) {
            let shape = Product { m: inputs, k: rows, n: outputs };
            let sides = (Factor::Across(queue.input(0)), Factor::Plain(gradient));
            queue.multiply(shape, sides, target, how);
        }
    }
}
