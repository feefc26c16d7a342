//! An operation: one formula with its derivative, and what it sees of a program while it runs.

use std::ops::Range;

use super::optimizer::ArenaState;
use super::{Kernels, Parameter, Product, Scalar, Threads};

/// One step of an update, with its derivative. Implemented once per formula in `ops`.
pub trait Operation<T: Scalar>: Send + Sync {
    /// The formula's name, as it appears in timings.
    fn name(&self) -> &'static str;

    /// Computes the output from the inputs.
    fn forward(&self, run: Forward<'_, T>);

    /// Adds to the gradients of inputs and parameters, given that of the output.
    fn backward(&self, run: Backward<'_, T>);

    /// Numbers kept from forward to backward.
    fn saved(&self) -> usize {
        0
    }

    /// Indices kept from forward to backward.
    fn indices(&self) -> usize {
        0
    }

    /// The same formula for a GPU; `None` if there is no kernel, and then a program with this
    /// operation runs on the CPU alone.
    fn kernels(&self) -> Option<&dyn Kernels> {
        None
    }

    /// Whether its backward half on the CPU overwrites a fresh gradient of its first input or first
    /// parameter (see [`Backward::fresh_input`]) instead of adding to a cleared one.
    fn overwrites(&self) -> bool {
        false
    }

    /// The same formula for `rows` of its rows at a time, as shards of a batch are computed; `None` if
    /// it needs all rows at once.
    fn of_rows(&self, _rows: usize) -> Option<OfRows<T>> {
        None
    }

    /// The matrix products of one forward, or of one backward where `wants` says which gradients
    /// of inputs are asked for and `moves` whether those of parameters are.
    fn products(&self, _stage: Stage<'_>) -> Vec<Product> {
        Vec::new()
    }
}

/// An operation for some rows: row i of its output depends on row i of its inputs, but on all rows of
/// those that it sees whole. Gradients of the latter and of parameters are sums over rows.
pub struct OfRows<T: Scalar> {
    /// The formula for so many rows.
    pub operation: Box<dyn Operation<T>>,
    /// Which inputs it sees whole.
    pub whole: &'static [usize],
}

impl<T: Scalar> OfRows<T> {
    /// An operation that sees the same rows of every input.
    pub fn new(operation: impl Operation<T> + 'static) -> Option<Self> {
        Some(Self { operation: Box::new(operation), whole: &[] })
    }

    /// An operation that sets rows of its first input against all of its second.
    pub fn against_all(operation: impl Operation<T> + 'static) -> Option<Self> {
        Some(Self { operation: Box::new(operation), whole: &[1] })
    }
}

/// The rows that an operation sees: those of one shard, and all of some inputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShardPart {
    pub shard: usize,
    pub shards: usize,
    pub whole: &'static [usize],
}

impl ShardPart {
    /// All rows.
    pub const ALL: Self = Self { shard: 0, shards: 1, whole: &[] };

    /// The place of this part's rows among `length` numbers.
    pub fn of(&self, length: usize) -> Range<usize> {
        let share = length / self.shards;
        self.shard * share..(self.shard + 1) * share
    }

    /// The same for input `at`.
    fn of_input(&self, at: usize, length: usize) -> Range<usize> {
        if self.whole.contains(&at) { 0..length } else { self.of(length) }
    }
}

/// Which half of an operation is asked about.
#[derive(Debug, Clone, Copy)]
pub enum Stage<'a> {
    /// The forward half.
    Forward,
    /// The backward half.
    Backward {
        /// Which inputs want a gradient.
        wants: &'a [bool],
        /// Whether the parameters want one.
        moves: bool,
    },
}

/// A matrix that an update computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value {
    pub(super) id: usize,
    pub(super) stopped: bool,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

impl Value {
    /// The same matrix, through which no gradient flows.
    #[must_use]
    pub fn stop(self) -> Self {
        Self { stopped: true, ..self }
    }
}

/// What an operation sees in its forward half.
pub struct Forward<'a, T: Scalar> {
    pub(super) values: &'a [Vec<T>],
    pub(super) arenas: &'a [ArenaState<T>],
    pub(super) inputs: &'a [Value],
    pub(super) parameters: &'a [Parameter],
    pub(super) part: ShardPart,
    /// The output to write.
    pub output: &'a mut [T],
    /// Numbers kept for the backward half.
    pub saved: &'a mut [T],
    /// Indices kept for the backward half.
    pub indices: &'a mut [u32],
    /// The threads to spread rows over.
    pub threads: &'a Threads,
}

impl<'a, T: Scalar> Forward<'a, T> {
    /// Input `at`.
    pub fn input(&self, at: usize) -> &'a [T] {
        let numbers = &self.values[self.inputs[at].id];
        &numbers[self.part.of_input(at, numbers.len())]
    }

    /// Parameter `at`.
    pub fn parameter(&self, at: usize) -> &'a [T] {
        let parameter = self.parameters[at];
        parameter.of(&self.arenas[parameter.arena.0].values)
    }
}

/// What an operation sees in its backward half.
pub struct Backward<'a, T: Scalar> {
    pub(super) values: &'a [Vec<T>],
    pub(super) gradients: &'a mut [Vec<T>],
    pub(super) arenas: &'a mut [ArenaState<T>],
    pub(super) inputs: &'a [Value],
    pub(super) parameters: &'a [Parameter],
    pub(super) wants: &'a [bool],
    pub(super) moves: bool,
    pub(super) part: ShardPart,
    /// Whether the gradient of input 0 holds old numbers, to be overwritten; told to operations
    /// that overwrite, all others add.
    pub fresh_input: bool,
    /// The same of parameter 0.
    pub fresh_parameter: bool,
    /// The output of the forward half.
    pub output: &'a [T],
    /// The derivative of the loss by the output; may be overwritten.
    pub output_gradient: &'a mut [T],
    /// Numbers kept from the forward half; may be overwritten.
    pub saved: &'a mut [T],
    /// Indices kept from the forward half.
    pub indices: &'a [u32],
    /// The threads to spread rows over.
    pub threads: &'a Threads,
}

impl<'a, T: Scalar> Backward<'a, T> {
    /// Input `at`.
    pub fn input(&self, at: usize) -> &'a [T] {
        let numbers = &self.values[self.inputs[at].id];
        &numbers[self.part.of_input(at, numbers.len())]
    }

    /// The gradient of input `at` to add to, where it is wanted.
    pub fn input_gradient(&mut self, at: usize) -> Option<&mut [T]> {
        let gradient = &mut self.gradients[self.inputs[at].id];
        let rows = self.part.of_input(at, gradient.len());
        self.wants[at].then(|| &mut gradient[rows])
    }

    /// Parameter `at`.
    pub fn parameter(&self, at: usize) -> &[T] {
        let parameter = self.parameters[at];
        parameter.of(&self.arenas[parameter.arena.0].values)
    }

    /// The gradient of parameter `at` to add to, where it moves.
    pub fn parameter_gradient(&mut self, at: usize) -> Option<&mut [T]> {
        let parameter = self.parameters[at];
        let length = parameter.rows * parameter.columns;
        let gradient = &mut self.arenas[parameter.arena.0].gradient;
        self.moves.then(|| &mut gradient[parameter.offset..parameter.offset + length])
    }

    /// The gradient of input `at`, where it is wanted, beside parameter `beside`.
    pub fn input_gradient_beside(&mut self, at: usize, beside: usize) -> Option<(&mut [T], &[T])> {
        let parameter = self.parameters[beside];
        let values = parameter.of(&self.arenas[parameter.arena.0].values);
        let gradient = &mut self.gradients[self.inputs[at].id];
        let rows = self.part.of_input(at, gradient.len());
        self.wants[at].then(|| (&mut gradient[rows], values))
    }
}
