//! What an operation sees on the GPU, and the list of launches it leaves behind.

use super::buffer::{Buffer, Target};
use super::launch::{Argument, Grid, Launch, down, gate};
use super::multiply::{Factor, Finish, Multiply};
use crate::engine::Product;

/// The kernels of an operation: the same formula as its CPU code.
///
/// A kernel may overwrite the gradient of the operation's output, but not what the forward half
/// kept: two passes may go backward through it.
pub trait Kernels {
    /// The CUDA source, without the prelude.
    fn source(&self) -> &'static str;

    /// Lengths of the buffers kept from forward to backward, or needed for the moment; they begin
    /// as zeros.
    fn kept(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Whether rows are independent, so that several applications of the same parameters may run
    /// as one with more rows.
    fn stacks(&self) -> bool {
        false
    }

    /// Queues the forward half.
    fn forward(&self, queue: &mut Queue<'_>);

    /// Queues the backward half.
    fn backward(&self, queue: &mut Queue<'_>);
}

/// The buffers of one half of an operation; several stacked applications have theirs side by side.
#[derive(Debug, Clone, Default)]
pub(in crate::engine) struct Bound {
    pub replicas: usize,
    pub rows: usize,
    /// Whether the update goes back through this half.
    pub returns: bool,
    pub inputs: Vec<Buffer>,
    pub output: Option<Buffer>,
    pub kept: Vec<Buffer>,
    pub parameters: Vec<Buffer>,
    pub output_gradient: Option<Buffer>,
    pub input_targets: Vec<Option<Target>>,
    pub parameter_targets: Vec<Option<Target>>,
}

/// What an operation sees on the GPU.
pub struct Queue<'a> {
    pub(in crate::engine) bound: Bound,
    pub(in crate::engine) launches: &'a mut Vec<Launch>,
}

/// The output and its gradient are bound before a half of an operation is queued.
const BOUND: &str = "this half of the operation has no such buffer";

impl Queue<'_> {
    /// How many replicas run side by side.
    pub fn replicas(&self) -> usize {
        self.bound.replicas
    }

    /// Rows of the output.
    pub fn rows(&self) -> usize {
        self.bound.rows
    }

    /// Input `at`.
    pub fn input(&self, at: usize) -> Buffer {
        self.bound.inputs[at]
    }

    /// How many inputs.
    pub fn inputs(&self) -> usize {
        self.bound.inputs.len()
    }

    /// The output.
    pub fn output(&self) -> Buffer {
        self.bound.output.expect(BOUND)
    }

    /// Kept buffer `at`.
    pub fn kept(&self, at: usize) -> Buffer {
        self.bound.kept[at]
    }

    /// A buffer that the forward half keeps; absent where the update does not go back.
    pub fn keeping(&self, buffer: Buffer) -> Argument {
        if self.bound.returns { Argument::Write(buffer) } else { Argument::Absent }
    }

    /// Kept buffer `at` as the forward half writes it; absent where the update does not go back.
    pub fn keeps(&self, at: usize) -> Argument {
        self.keeping(self.kept(at))
    }

    /// Parameter `at`.
    pub fn parameter(&self, at: usize) -> Buffer {
        self.bound.parameters[at]
    }

    /// The derivative of the loss by the output, in the backward half; may be overwritten.
    pub fn output_gradient(&self) -> Buffer {
        self.bound.output_gradient.expect(BOUND)
    }

    /// The gradient of input `at` to write, where it is wanted.
    pub fn input_target(&self, at: usize) -> Option<Target> {
        self.bound.input_targets[at]
    }

    /// The gradient of parameter `at` to write, where it moves.
    pub fn parameter_target(&self, at: usize) -> Option<Target> {
        self.bound.parameter_targets[at]
    }

    /// Queues a kernel of the operation's source.
    pub fn launch(&mut self, name: &'static str, grid: Grid, arguments: &[Argument]) {
        self.launches.push(Launch::kernel(name, grid, arguments));
    }

    /// Queues `gradient` ← `gradient` where `told`, as long, is positive, else 0: the way back through
    /// max(0, ·) by its output.
    pub fn gate(&mut self, gradient: Buffer, told: Buffer) {
        self.launches.push(gate(gradient, told));
    }

    /// Adds the rows of `gradient` to those of `bias`, after a gate by `told` where it is given; `room` has
    /// the sums of blocks and their counters ([`super::down_blocks`]).
    pub fn down(
        &mut self,
        gradient: Buffer,
        told: Option<Buffer>,
        bias: Target,
        room: [Buffer; 2],
    ) {
        self.launches.push(down(gradient, told, bias, room));
    }

    /// Queues `out` ← scale · `left` · `right` (+ `out` where it is kept), then `finish`; with
    /// `exact` in full single precision whatever the executor's precision is.
    pub fn multiply(
        &mut self,
        shape: Product,
        (left, right): (Factor, Factor),
        out: Target,
        (scale, finish, exact): (f32, Finish, bool),
    ) {
        let multiply = Multiply { shape, left, right, out, scale, finish, exact };
        self.launches.push(Launch::product(multiply));
    }
}
