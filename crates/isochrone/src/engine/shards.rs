//! A batch cut into shards, which several processes may carry: the bits depend on the number of shards
//! alone.
//!
//! A process computes the rows of its own shards wherever an operation works row by row. Values and
//! gradients of rows are gathered for operations that need all of them, which every process repeats.
//! What is a sum over rows is summed for each shard; sums of neighbouring shards are added, then
//! those of pairs, and so on. The shards of a process are a branch of this tree.

use std::ops::Range;

use super::operation::{OfRows, Operation, ShardPart};
use super::optimizer::ArenaState;
use super::plan::Visit;
use super::program::Node;
use super::{Parameter, Program, Scalar, Threads};
use crate::collective::Collective;
use crate::pages;

/// Numbers that one task adds.
const NUMBERS: usize = 1 << 14;

/// The shards of a program's batch, and what this process keeps for its own.
pub(super) struct Shards<T: Scalar> {
    count: usize,
    own: Range<usize>,
    collective: Collective,
    /// By node, what computes a shard; none where all rows are needed at once.
    cut: Vec<Option<OfRows<T>>>,
    /// By value, whether this process lacks the other processes' rows of it, and of its gradient.
    lacks: Vec<bool>,
    lacks_gradient: Vec<bool>,
    /// By arena and own shard, the gradients of parameters.
    parameters: Vec<Vec<Vec<T>>>,
    /// By own shard, the gradient of an input that is seen whole.
    inputs: Vec<Vec<T>>,
    room: Vec<f32>,
}

impl<T: Scalar> Shards<T> {
    /// The shards of `program` that this process carries among the others.
    pub fn new(program: &Program<T>, collective: Collective) -> Self {
        let (count, size) = (program.shards(), collective.size());
        assert!(count.is_multiple_of(size), "{size} processes for {count} shards");
        let own = count / size * collective.rank()..count / size * (collective.rank() + 1);
        let cut: Vec<_> = program.nodes.iter().map(|node| cut(program, node)).collect();
        let mut parameters: Vec<Vec<Vec<T>>> =
            program.parameters.arenas().map(|_| Vec::new()).collect();
        for node in
            program.nodes.iter().zip(&cut).filter_map(|(node, cut)| cut.as_ref().and(Some(node)))
        {
            for parameter in &node.parameters {
                let length = program.parameters.length(parameter.arena);
                parameters[parameter.arena.0]
                    .resize_with(own.len(), || pages::zeros(T::ZERO, length));
            }
        }
        let values = program.values.len();
        Self {
            inputs: vec![Vec::new(); own.len()],
            count,
            own,
            collective,
            cut,
            lacks: vec![false; values],
            lacks_gradient: vec![false; values],
            parameters,
            room: Vec::new(),
        }
    }

    /// The processes that carry the shards.
    pub fn collective(&self) -> &Collective {
        &self.collective
    }

    /// Whether a node is computed shard by shard.
    pub fn is_cut(&self, node: usize) -> bool {
        self.cut[node].is_some()
    }

    /// The parts in which a node is computed: the own shards, or all rows at once.
    pub fn parts(&self, node: usize) -> impl Iterator<Item = ShardPart> + use<T> {
        let (shards, own) = match &self.cut[node] {
            Some(cut) => {
                (ShardPart { shard: 0, shards: self.count, whole: cut.whole }, self.own.clone())
            }
            None => (ShardPart::ALL, 0..1),
        };
        own.map(move |shard| ShardPart { shard, ..shards })
    }

    /// What computes one part of a node.
    pub fn operation<'a>(&'a self, index: usize, node: &'a Node<T>) -> &'a dyn Operation<T> {
        self.cut[index].as_ref().map_or(&*node.operation, |cut| &*cut.operation)
    }

    /// The place of one part among what a node keeps.
    pub fn kept(&self, node: usize, part: ShardPart, length: usize) -> Range<usize> {
        if !self.is_cut(node) {
            return 0..length;
        }
        let (share, at) = (length / self.own.len(), part.shard - self.own.start);
        at * share..(at + 1) * share
    }

    /// How many numbers and indices a node keeps for all its parts.
    pub fn saved(&self, index: usize, node: &Node<T>) -> (usize, usize) {
        let (operation, parts) = (self.operation(index, node), self.parts(index).count());
        (parts * operation.saved(), parts * operation.indices())
    }

    /// Gathers the values that a node is about to read whole.
    pub fn gather_inputs(&mut self, index: usize, node: &Node<T>, values: &mut [Vec<T>]) {
        for (at, input) in node.inputs.iter().enumerate() {
            let whole = self.cut[index].as_ref().is_none_or(|cut| cut.whole.contains(&at));
            if whole && std::mem::take(&mut self.lacks[input.id]) {
                gather(&self.collective, &mut values[input.id]);
            }
        }
        self.lacks[node.output.id] = self.cut[index].is_some();
    }

    /// Gathers the gradient that a node is about to read whole.
    pub fn gather_gradient(&mut self, index: usize, node: &Node<T>, gradient: &mut [T]) {
        if self.cut[index].is_none() && std::mem::take(&mut self.lacks_gradient[node.output.id]) {
            gather(&self.collective, gradient);
        }
    }

    /// Before a node's backward half: gradients of other processes' rows will be missing.
    pub fn mark(&mut self, visit: &Visit, node: &Node<T>) {
        for &id in &visit.first_values {
            self.lacks_gradient[id] = false;
        }
        let Some(cut) = &self.cut[visit.node] else { return };
        for (at, input) in node.inputs.iter().enumerate() {
            self.lacks_gradient[input.id] |= visit.wants[at] && !cut.whole.contains(&at);
        }
    }

    /// Exchanges the gradients that an operation writes for those of one shard, and back again.
    pub fn swap(
        &mut self,
        shard: usize,
        (visit, node): (&Visit, &Node<T>),
        arenas: &mut [ArenaState<T>],
        gradients: &mut [Vec<T>],
    ) {
        if !self.is_cut(visit.node) {
            return;
        }
        let at = shard - self.own.start;
        // An arena that holds several parameters of a node is exchanged once.
        for (place, parameter) in node.parameters.iter().enumerate() {
            let arena = parameter.arena.0;
            let known = node.parameters[..place].iter().any(|other| other.arena.0 == arena);
            if visit.moves && !known {
                std::mem::swap(&mut arenas[arena].gradient, &mut self.parameters[arena][at]);
            }
        }
        if let Some(input) = self.summed_input(visit, node) {
            std::mem::swap(&mut gradients[input], &mut self.inputs[at]);
        }
    }

    /// The input whose gradient is a sum over shards.
    fn summed_input(&self, visit: &Visit, node: &Node<T>) -> Option<usize> {
        let cut = self.cut[visit.node].as_ref()?;
        cut.whole.iter().find(|&&at| visit.wants[at]).map(|&at| node.inputs[at].id)
    }

    /// Empties the room for the gradient of an input that is seen whole.
    pub fn clear_input(&mut self, visit: &Visit, node: &Node<T>, gradients: &[Vec<T>]) {
        if let Some(input) = self.summed_input(visit, node) {
            for room in &mut self.inputs {
                room.resize(gradients[input].len(), T::ZERO);
                room.fill(T::ZERO);
            }
        }
    }

    /// Adds what all shards found for the gradient of an input that is seen whole.
    pub fn add_input(
        &mut self,
        (visit, node): (&Visit, &Node<T>),
        threads: &Threads,
        gradients: &mut [Vec<T>],
    ) {
        if let Some(input) = self.summed_input(visit, node) {
            sum(&self.collective, threads, &mut self.inputs, &mut self.room);
            add(threads, &mut gradients[input], &self.inputs[0]);
        }
    }

    /// After the backward half of a pass: adds what all shards found for its parameters to what nodes
    /// that are not cut found.
    pub fn add_parameters(
        &mut self,
        visits: &[Visit],
        threads: &Threads,
        arenas: &mut [ArenaState<T>],
    ) {
        let Self { cut, collective, parameters, room, .. } = self;
        let is_cut = |visit: &&Visit| cut[visit.node].is_some();
        for (arena, (found, state)) in parameters.iter_mut().zip(arenas).enumerate() {
            let of_arena = |parameter: &&Parameter| parameter.arena.0 == arena;
            let mut summed =
                visits.iter().filter(is_cut).flat_map(first_parameters).filter(of_arena).peekable();
            if summed.peek().is_some() {
                sum(collective, threads, found, room);
            }
            for parameter in summed {
                let mut whole =
                    visits.iter().filter(|visit| !is_cut(visit)).flat_map(first_parameters);
                let range = parameter.offset..parameter.offset + parameter.rows * parameter.columns;
                let (target, found) = (&mut state.gradient[range.clone()], &found[0][range]);
                match whole.any(|other| other == parameter) {
                    true => add(threads, target, found),
                    false => target.copy_from_slice(found),
                }
            }
        }
    }
}

fn first_parameters(visit: &Visit) -> std::slice::Iter<'_, Parameter> {
    visit.first_parameters.iter()
}

/// What computes a shard of `node`, if it has the rows of a batch.
fn cut<T: Scalar>(program: &Program<T>, node: &Node<T>) -> Option<OfRows<T>> {
    let (batch, shards) = (program.batch_size(), program.shards());
    let cut = node.operation.of_rows(batch / shards).filter(|_| shards > 1)?;
    let of_batch = |at: usize| node.inputs[at].rows == batch;
    let apart = |at: usize| {
        // A value that is also seen whole would get two kinds of gradients in one place.
        cut.whole.iter().all(|&other| other == at || node.inputs[other].id != node.inputs[at].id)
    };
    let fits =
        (0..node.inputs.len()).all(|at| cut.whole.contains(&at) || of_batch(at) && apart(at));
    (fits && node.output.rows == batch).then_some(cut)
}

fn single<T: Scalar>(numbers: &mut [T]) -> &mut [f32] {
    T::single(numbers).expect("only training runs over several processes, in single precision")
}

/// The rows of all processes.
fn gather<T: Scalar>(collective: &Collective, numbers: &mut [T]) {
    if collective.size() > 1 {
        collective.all_gather(single(numbers));
    }
}

/// Adds up what own shards found, then what all processes found; the sum is the first's.
fn sum<T: Scalar>(
    collective: &Collective,
    threads: &Threads,
    found: &mut [Vec<T>],
    room: &mut Vec<f32>,
) {
    let mut apart = 1;
    while apart < found.len() {
        for first in (0..found.len()).step_by(2 * apart) {
            let (left, right) = found.split_at_mut(first + apart);
            add(threads, &mut left[first], &right[0]);
        }
        apart *= 2;
    }
    if collective.size() > 1 {
        collective.sum(single(&mut found[0]), room);
    }
}

fn add<T: Scalar>(threads: &Threads, sum: &mut [T], numbers: &[T]) {
    threads.parts(sum, NUMBERS, |part, sum| {
        let numbers = &numbers[part * NUMBERS..][..sum.len()];
        sum.iter_mut().zip(numbers).for_each(|(sum, &number)| *sum += number);
    });
}
