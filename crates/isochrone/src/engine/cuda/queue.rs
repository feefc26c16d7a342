//! What an operation sees on the GPU, and the list of launches it leaves behind.
//!
//! Nothing runs while a list is made. Each launch says which buffers it reads and writes, and from
//! that alone follows what it must wait for; everything else runs side by side.

use std::ops::Range;

use super::machine::Grid;
use super::memory::{Buffer, Target};
use super::products::{Factor, Finish, Multiply};
use super::tiles;
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

/// One argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// A buffer that is read.
    Read(Buffer),
    /// A buffer that is written, and perhaps read.
    Write(Buffer),
    /// A buffer of which only some numbers are written: those of this part. Launches that write
    /// different parts do not wait for each other.
    Part(Buffer, u8),
    /// No buffer.
    Absent,
    /// A buffer that is touched without being an argument; true where it is written.
    Touch(Buffer, bool),
    /// An address that all replicas share and nobody writes.
    Shared(u64),
    /// Where the memory of the first replica begins.
    Origin,
    /// A signed integer of 32 bits.
    Int(i32),
    /// An unsigned integer of 64 bits.
    Long(u64),
    /// A single-precision number.
    Float(f32),
    /// A double-precision number.
    Wide(f64),
}

impl Argument {
    /// A size.
    pub fn size(number: usize) -> Self {
        Self::Int(number as i32)
    }

    /// The buffer of a gradient, where it is wanted.
    pub fn target(target: Option<Target>) -> Self {
        target.map_or(Self::Absent, |target| Self::Write(target.buffer))
    }

    /// Whether a gradient is added to.
    pub fn keep(target: Option<Target>) -> Self {
        Self::Int(target.is_some_and(|target| target.keep).into())
    }

    /// A buffer that is read, where there is one.
    pub fn maybe(buffer: Option<Buffer>) -> Self {
        buffer.map_or(Self::Absent, Self::Read)
    }
}

/// What a launch does.
#[derive(Debug, Clone)]
pub(super) enum Work {
    Kernel { name: &'static str, grid: Grid, arguments: Vec<Argument> },
    Product(Multiply),
}

/// A launch with the places it reads and writes.
#[derive(Debug, Clone)]
pub(super) struct Launch {
    pub work: Work,
    pub reads: Vec<Range<usize>>,
    pub writes: Vec<Range<usize>>,
    /// The buffers of which a part is written, and which part.
    pub parts: Vec<(Range<usize>, u8)>,
    /// The operation it belongs to and which half of it.
    pub of: Of,
}

/// An operation and one of its halves; what is no operation has no halves.
pub(super) type Of = (&'static str, &'static str);

impl Launch {
    pub fn kernel(name: &'static str, grid: Grid, arguments: &[Argument]) -> Self {
        let (mut reads, mut writes, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for argument in arguments {
            match argument {
                Argument::Read(buffer) | Argument::Touch(buffer, false) => {
                    reads.push(buffer.range());
                }
                Argument::Write(buffer) | Argument::Touch(buffer, true) => {
                    writes.push(buffer.range());
                }
                Argument::Part(buffer, part) => parts.push((buffer.range(), *part)),
                _ => {}
            }
        }
        let work = Work::Kernel { name, grid, arguments: arguments.to_vec() };
        Self { work, reads, writes, parts, of: ("", "") }
    }

    pub fn product(multiply: Multiply) -> Self {
        let mut reads = vec![multiply.left.buffer().range(), multiply.right.buffer().range()];
        reads.extend(multiply.finish.bias().map(Buffer::range));
        let writes = vec![multiply.out.buffer.range()];
        let (work, parts) = (Work::Product(multiply), Vec::new());
        Self { work, reads, writes, parts, of: ("", "") }
    }

    /// Says what launches belong to.
    pub fn belong(launches: &mut [Self], of: Of) {
        launches.iter_mut().for_each(|launch| launch.of = of);
    }

    /// Whether any of these numbers is read or written.
    pub fn touches(&self, numbers: &Range<usize>) -> bool {
        let parts = self.parts.iter().map(|(part, _)| part);
        let mut all = self.reads.iter().chain(&self.writes).chain(parts);
        all.any(|range| range.start < numbers.end && numbers.start < range.end)
    }

    /// Whether any of these numbers is written.
    pub fn changes(&self, numbers: &Range<usize>) -> bool {
        let parts = self.parts.iter().map(|(part, _)| part);
        let mut all = self.writes.iter().chain(parts);
        all.any(|range| range.start < numbers.end && numbers.start < range.end)
    }

    /// Whether `self` must wait for `earlier`.
    pub fn follows(&self, earlier: &Self) -> bool {
        let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let any =
            |a: &[Range<usize>], b: &[Range<usize>]| a.iter().any(|a| b.iter().any(|b| meet(a, b)));
        let partly = |parts: &[(Range<usize>, u8)], whole: &Self| {
            parts.iter().any(|(part, _)| {
                whole.reads.iter().chain(&whole.writes).any(|other| meet(part, other))
            })
        };
        any(&self.reads, &earlier.writes)
            || any(&self.writes, &earlier.writes)
            || any(&self.writes, &earlier.reads)
            || partly(&self.parts, earlier)
            || partly(&earlier.parts, self)
            || self
                .parts
                .iter()
                .any(|(a, part)| earlier.parts.iter().any(|(b, other)| part == other && meet(a, b)))
    }
}

/// The buffers of one half of an operation; several stacked applications have theirs side by side.
#[derive(Debug, Clone, Default)]
pub(super) struct Bound {
    pub replicas: usize,
    pub rows: usize,
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
    pub(super) bound: Bound,
    pub(super) launches: &'a mut Vec<Launch>,
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
        self.launches.push(tiles::gate(gradient, told));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_waits_for_writers_of_what_it_reads_and_readers_of_what_it_writes() {
        let buffer = |offset: usize| Buffer { offset, length: 10 };
        let launch = |read: usize, write: usize| {
            let arguments = [Argument::Read(buffer(read)), Argument::Write(buffer(write))];
            Launch::kernel("any", Grid::one(32), &arguments)
        };
        assert!(launch(10, 20).follows(&launch(0, 10)), "reads what was written");
        assert!(launch(40, 5).follows(&launch(0, 10)), "writes what was read and written");
        assert!(launch(40, 10).follows(&launch(0, 10)), "writes what was written");
        assert!(!launch(0, 20).follows(&launch(0, 10)), "both only read");
        assert!(!launch(10, 30).follows(&launch(0, 20)), "neighbours");
        let part =
            |part: u8| Launch::kernel("any", Grid::one(32), &[Argument::Part(buffer(10), part)]);
        assert!(!part(1).follows(&part(2)), "different parts");
        assert!(part(1).follows(&part(1)), "the same part");
        assert!(part(1).follows(&launch(0, 10)), "a part of what was written");
        assert!(launch(10, 0).follows(&part(2)), "reads what was partly written");
    }
}
