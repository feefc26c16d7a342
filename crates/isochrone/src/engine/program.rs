//! A program: what one update computes, declared once.
//!
//! Values are matrices written by one operation each. A pass has one loss and the arenas it may
//! move; its backward visits only the operations between the two. All passes read the parameters
//! the update began with and all arenas step at its end.

use super::operation::{Operation, Value};
use super::{Adam, ArenaId, Parameter, Parameters, Scalar};
use crate::data::sampler::{Column, Layout, Rows, RowsId};

/// The updates during which a pass is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The first update, from 0.
    pub from: u64,
    /// The first update at which it is no longer active.
    pub until: u64,
}

impl Window {
    /// Whether `step` lies inside.
    pub fn contains(&self, step: u64) -> bool {
        (self.from..self.until).contains(&step)
    }
}

pub(super) struct Node<T: Scalar> {
    pub operation: Box<dyn Operation<T>>,
    pub inputs: Vec<Value>,
    pub parameters: Vec<Parameter>,
    pub output: Value,
}

#[derive(Debug, Clone)]
pub(super) struct Pass {
    pub name: String,
    pub loss: Value,
    pub arenas: Vec<(ArenaId, Adam)>,
    pub window: Window,
}

/// What one update computes.
pub struct Program<T: Scalar> {
    batch_size: usize,
    state_size: usize,
    action_size: usize,
    shards: usize,
    layout: Layout,
    column_values: Vec<Option<Value>>,
    pub(super) values: Vec<(usize, usize)>,
    pub(super) nodes: Vec<Node<T>>,
    pub(super) passes: Vec<Pass>,
    pub(super) followers: Vec<(ArenaId, ArenaId, f64)>,
    pub(super) reports: Vec<(String, Value)>,
    pub(super) parameters: Parameters,
}

impl<T: Scalar> Program<T> {
    /// An empty program over `parameters` for batches of `batch_size` rows.
    pub fn new(
        parameters: Parameters,
        batch_size: usize,
        state_size: usize,
        action_size: usize,
    ) -> Self {
        Self {
            batch_size,
            state_size,
            action_size,
            shards: 1,
            layout: Layout::default(),
            column_values: Vec::new(),
            values: Vec::new(),
            nodes: Vec::new(),
            passes: Vec::new(),
            followers: Vec::new(),
            reports: Vec::new(),
            parameters,
        }
    }

    /// Bytes of every value, its gradient and what operations keep between forward and backward, in
    /// 32-bit numbers.
    pub fn bytes(&self) -> u64 {
        let values = self.values.iter().map(|&(rows, columns)| 2 * rows as u64 * columns as u64);
        let kept = |node: &Node<T>| node.operation.saved() as u64 + node.operation.indices() as u64;
        4 * (values.sum::<u64>() + self.nodes.iter().map(kept).sum::<u64>())
    }

    /// Rows of a batch.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Cuts a batch into so many shards: sums over its rows are then sums of each shard, added pairwise,
    /// so that several processes can carry the shards. On a GPU it changes nothing.
    ///
    /// # Panics
    /// Where it is no power of two or does not divide the rows.
    pub fn cut(&mut self, shards: usize) {
        assert!(shards.is_power_of_two() && self.batch_size.is_multiple_of(shards), "shards");
        self.shards = shards;
    }

    /// Shards of a batch.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// Values per action; 0 if the data have none.
    pub fn action_size(&self) -> usize {
        self.action_size
    }

    /// The columns the program reads.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Declares a choice of rows.
    pub fn rows(&mut self, rows: Rows) -> RowsId {
        self.layout.rows(rows)
    }

    /// The value of a column of the batch.
    pub fn column(&mut self, column: Column) -> Value {
        let place = self.layout.column(column);
        if let Some(Some(value)) = self.column_values.get(place) {
            return *value;
        }
        let width = self.layout.width(place, self.state_size, self.action_size);
        let value = self.value(self.batch_size, width);
        self.column_values.resize(place + 1, None);
        self.column_values[place] = Some(value);
        value
    }

    pub(super) fn column_of(&self, place: usize) -> Option<Value> {
        self.column_values.get(place).copied().flatten()
    }

    fn value(&mut self, rows: usize, columns: usize) -> Value {
        self.values.push((rows, columns));
        Value { id: self.values.len() - 1, stopped: false, rows, columns }
    }

    /// Adds an operation whose output is rows × columns.
    pub fn add(
        &mut self,
        operation: impl Operation<T> + 'static,
        inputs: &[Value],
        parameters: &[Parameter],
        (rows, columns): (usize, usize),
    ) -> Value {
        let output = self.value(rows, columns);
        self.nodes.push(Node {
            operation: Box::new(operation),
            inputs: inputs.to_vec(),
            parameters: parameters.to_vec(),
            output,
        });
        output
    }

    /// As [`Program::add`], for operations whose name, inputs and parameters say everything: one
    /// that stands in the program already is not computed twice.
    pub fn add_once(
        &mut self,
        operation: impl Operation<T> + 'static,
        inputs: &[Value],
        parameters: &[Parameter],
        shape: (usize, usize),
    ) -> Value {
        let known = self.nodes.iter().find(|node| {
            node.operation.name() == operation.name()
                && node.inputs == inputs
                && node.parameters == parameters
        });
        match known {
            Some(node) => node.output,
            None => self.add(operation, inputs, parameters, shape),
        }
    }

    /// Declares a pass: while `window` is open, `arenas` descend `loss`.
    ///
    /// # Panics
    /// Where an arena already belongs to another pass, or the loss is not one number.
    pub fn descend(&mut self, name: &str, loss: Value, arenas: &[(ArenaId, Adam)], window: Window) {
        assert_eq!((loss.rows, loss.columns), (1, 1), "the loss of `{name}` is one number");
        for (arena, _) in arenas {
            let taken =
                self.passes.iter().any(|p| p.arenas.iter().any(|(other, _)| other == arena));
            assert!(!taken, "an arena of `{name}` belongs to another pass");
        }
        self.report(&format!("training/{name}/loss"), loss);
        let arenas = arenas.to_vec();
        self.passes.push(Pass { name: name.to_owned(), loss, arenas, window });
    }

    /// Declares that `target` moves a share `rate` of the way to `source` after every update.
    pub fn follow(&mut self, target: ArenaId, source: ArenaId, rate: f64) {
        self.followers.push((target, source, rate));
    }

    /// Declares that the single number `value` is a metric called `name`.
    pub fn report(&mut self, name: &str, value: Value) {
        assert_eq!((value.rows, value.columns), (1, 1), "the metric `{name}` is one number");
        self.reports.push((name.to_owned(), value));
    }

    /// The names of all metrics: the reports, then the gradient norm of every pass.
    pub fn metrics(&self) -> Vec<String> {
        let norms = self.passes.iter().map(|pass| format!("training/{}/gradient_norm", pass.name));
        self.reports.iter().map(|(name, _)| name.clone()).chain(norms).collect()
    }

    /// The parameters the program reads.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }
}
