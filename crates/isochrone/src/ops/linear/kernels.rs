//! A layer on the GPU: its product with bias and ReLU fused, everything else in one kernel a half.

use super::{Activation, Layer, Linear, Norm};
use crate::engine::{Argument, Factor, Finish, Grid, Kernels, Product, Queue, Target};

/// Threads, columns and rows of a block that adds down columns.
const DOWN: (usize, usize, usize) = (256, 32, 128);
/// Rows of a sum that is found together with a gate.
const GATED: usize = 32;
/// Threads of a block that has one row.
const ACROSS: usize = 128;

impl Layer {
    fn code(&self) -> Argument {
        Argument::Int(match self.shape.activation {
            Activation::Identity => 0,
            Activation::Relu => 1,
            Activation::Gelu => 2,
            Activation::Swish => 3,
        })
    }

    /// Room for the sums of blocks, and their counters: the last two kept buffers.
    fn room(&self, queue: &Queue<'_>) -> [Argument; 2] {
        let first = self.remembered().len();
        [first, first + 1].map(|at| Argument::Write(queue.kept(at)))
    }

    /// The sums; for a norm also the centred rows and the inverse deviations.
    fn remembered(&self) -> Vec<usize> {
        let all = self.rows * self.shape.outputs;
        match (self.keeps_sums(), self.shape.norm) {
            (false, _) => Vec::new(),
            (true, Norm::None) => vec![all],
            (true, Norm::Layer) => vec![all, all, self.rows],
        }
    }

    fn down(&self, queue: &Queue<'_>) -> Grid {
        let (columns, rows) = (self.shape.outputs.div_ceil(DOWN.1), queue.rows().div_ceil(DOWN.2));
        Grid::blocks(columns, rows, DOWN.0)
    }

    /// Turns the gradient of the norm's output into that of the sums, in place, with the gradients
    /// of gain and shift on the way.
    fn norm_to_sums(&self, queue: &mut Queue<'_>) {
        let (rows, width) = (queue.rows(), self.shape.outputs);
        let (gradient, room) = (queue.output_gradient(), self.room(queue));
        if let Some(gain) = queue.parameter_target(2) {
            let shift = queue.parameter_target(3);
            let arguments = [
                Argument::Read(gradient),
                Argument::Read(queue.kept(1)),
                Argument::Write(gain.buffer),
                Argument::keep(Some(gain)),
                Argument::target(shift),
                Argument::keep(shift),
                room[0],
                room[1],
                Argument::size(rows),
                Argument::size(width),
            ];
            queue.launch("linear_norm_sums", self.down(queue), &arguments);
        }
        let arguments = [
            Argument::Write(gradient),
            Argument::Read(queue.kept(1)),
            Argument::Read(queue.kept(2)),
            Argument::Read(queue.parameter(2)),
            Argument::Read(queue.kept(0)),
            Argument::size(width),
            self.code(),
        ];
        queue.launch("linear_norm_backward", Grid::blocks(rows, 1, ACROSS), &arguments);
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

    /// Adds the rows of the gradient of the sums to that of the bias.
    fn bias(&self, queue: &mut Queue<'_>, bias: Target) {
        let room = self.room(queue);
        let arguments = [
            Argument::Read(queue.output_gradient()),
            Argument::Write(bias.buffer),
            Argument::keep(Some(bias)),
            room[0],
            room[1],
            Argument::size(queue.rows()),
            Argument::size(self.shape.outputs),
        ];
        queue.launch("linear_bias", self.down(queue), &arguments);
    }
}

impl Kernels for Layer {
    fn source(&self) -> &'static str {
        include_str!("../linear.cu")
    }

    fn kept(&self) -> Vec<usize> {
        let width = self.shape.outputs;
        let parts = (2 * self.rows.div_ceil(DOWN.2)).max(self.rows.div_ceil(GATED)) * width;
        self.remembered().into_iter().chain([parts, width.div_ceil(DOWN.1)]).collect()
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
            let arguments = [
                Argument::Read(queue.kept(0)),
                Argument::Read(queue.parameter(2)),
                Argument::Read(queue.parameter(3)),
                Argument::Write(queue.output()),
                Argument::Write(queue.kept(1)),
                Argument::Write(queue.kept(2)),
                Argument::size(outputs),
                self.code(),
            ];
            queue.launch("linear_normalize", Grid::blocks(rows, 1, ACROSS), &arguments);
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
        match (self.shape.norm, self.shape.activation) {
            (Norm::Layer, _) => self.norm_to_sums(queue),
            (Norm::None, Activation::Identity) => {}
            (Norm::None, Activation::Relu) => queue.gate(queue.output_gradient(), queue.output()),
            (Norm::None, _) => self.activation_to_sums(queue),
        }
        let (rows, gradient) = (queue.rows(), queue.output_gradient());
        let how = (1.0, Finish::None, false);
        if let Some(target) = queue.input_target(0) {
            let shape = Product { m: rows, k: outputs, n: inputs };
            let sides = (Factor::Plain(gradient), Factor::Across(queue.parameter(0)));
            queue.multiply(shape, sides, target, how);
        }
        if let Some(target) = queue.parameter_target(1) {
            self.bias(queue, target);
        }
        if let Some(target) = queue.parameter_target(0) {
            let shape = Product { m: inputs, k: rows, n: outputs };
            let sides = (Factor::Across(queue.input(0)), Factor::Plain(gradient));
            queue.multiply(shape, sides, target, how);
        }
    }
}
