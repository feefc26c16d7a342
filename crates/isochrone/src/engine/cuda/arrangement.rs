//! Which applications of a network run as one, and which values stand side by side for that.
//!
//! Two applications of the same layer, equally far from the batch, are one product with more rows
//! where their inputs are neighbours in memory; their outputs become neighbours in turn. So an
//! encoder applied to starts, goals and a policy's goals is one chain of products.

use crate::engine::program::{Node, Program};

/// The order of operations and the neighbours among values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Arrangement {
    /// Operations that may run as one, every operation once; none needs a later one.
    pub stacks: Vec<Vec<usize>>,
    /// Values side by side, every value once.
    pub groups: Vec<Vec<usize>>,
}

impl Arrangement {
    /// Arranges `program`, whose operations stack where `stacks` says so.
    pub fn new(program: &Program<f32>, stacks: impl Fn(&Node<f32>) -> bool) -> Self {
        let nodes = &program.nodes;
        let depths = depths(nodes, program.values.len());
        let mut candidates: Vec<Vec<usize>> = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let alike = |other: usize| {
                depths[other] == depths[index]
                    && nodes[other].parameters == node.parameters
                    && nodes[other].operation.name() == node.operation.name()
            };
            let stacks = stacks(node) && node.inputs.len() == 1 && !node.parameters.is_empty();
            match candidates.iter_mut().find(|list| stacks && alike(list[0])) {
                Some(list) => list.push(index),
                None => candidates.push(vec![index]),
            }
        }
        candidates.sort_by_key(|list| (depths[list[0]], list[0]));
        let mut neighbours = Neighbours::new(program.values.len());
        let mut result = Vec::new();
        for list in candidates {
            let inputs = |index: usize| nodes[index].inputs.first().map(|input| input.id);
            for stack in neighbours.runs(list, inputs) {
                let outputs: Vec<usize> =
                    stack.iter().map(|&index| nodes[index].output.id).collect();
                if outputs.len() > 1 {
                    neighbours.join(&outputs);
                }
                result.push(stack);
            }
        }
        Self { stacks: result, groups: neighbours.all() }
    }
}

/// How many operations lie between the batch and each node, at most.
fn depths(nodes: &[Node<f32>], values: usize) -> Vec<usize> {
    let mut of_value = vec![0; values];
    let mut result = Vec::new();
    for node in nodes {
        let depth = 1 + node.inputs.iter().map(|input| of_value[input.id]).max().unwrap_or(0);
        of_value[node.output.id] = depth;
        result.push(depth);
    }
    result
}

/// Groups of values, and each value's place in its own.
struct Neighbours {
    groups: Vec<Vec<usize>>,
    places: Vec<Option<(usize, usize)>>,
}

impl Neighbours {
    fn new(values: usize) -> Self {
        Self { groups: Vec::new(), places: vec![None; values] }
    }

    fn join(&mut self, values: &[usize]) {
        for (at, &value) in values.iter().enumerate() {
            assert!(self.places[value].is_none(), "a value has one place");
            self.places[value] = Some((self.groups.len(), at));
        }
        self.groups.push(values.to_vec());
    }

    /// Cuts `list` into runs whose inputs are neighbours in order; those with no place yet become
    /// neighbours.
    fn runs(
        &mut self,
        mut list: Vec<usize>,
        input: impl Fn(usize) -> Option<usize>,
    ) -> Vec<Vec<usize>> {
        if list.len() == 1 {
            return vec![list];
        }
        let free: Vec<usize> = list
            .iter()
            .filter_map(|&index| input(index).filter(|&value| self.places[value].is_none()))
            .collect();
        if free.len() > 1 {
            self.join(&free);
        }
        let place = |index: usize| input(index).and_then(|value| self.places[value]);
        list.sort_by_key(|&index| (place(index), index));
        let mut runs: Vec<Vec<usize>> = Vec::new();
        for index in list {
            let follows = |last: usize| match (place(last), place(index)) {
                (Some((group, at)), Some((other, next))) => group == other && at + 1 == next,
                _ => false,
            };
            match runs.last_mut() {
                Some(run) if run.last().is_some_and(|&last| follows(last)) => run.push(index),
                _ => runs.push(vec![index]),
            }
        }
        runs
    }

    fn all(self) -> Vec<Vec<usize>> {
        let alone = (0..self.places.len()).filter(|&value| self.places[value].is_none());
        let alone: Vec<Vec<usize>> = alone.map(|value| vec![value]).collect();
        self.groups.into_iter().chain(alone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sampler::{Column, Layout, Rows};
    use crate::engine::{Initial, Operation, Parameter, Parameters, Value};

    struct Any(&'static str);

    impl Operation<f32> for Any {
        fn name(&self) -> &'static str {
            self.0
        }
        fn forward(&self, _run: crate::engine::Forward<'_, f32>) {}
        fn backward(&self, _run: crate::engine::Backward<'_, f32>) {}
    }

    fn network(program: &mut Program<f32>, layers: &[Parameter], input: Value) -> Value {
        layers.iter().fold(input, |value, &layer| {
            program.add(Any("layer"), &[value], &[layer], (value.rows, 3))
        })
    }

    #[test]
    fn applications_of_one_network_run_as_one_where_they_are_equally_far_from_the_batch() {
        let mut parameters = Parameters::default();
        let arena = parameters.arena("net");
        let layers: Vec<Parameter> =
            (0..2).map(|_| parameters.add(arena, "w", (3, 3), Initial::Constant(0.0))).collect();
        let mut program: Program<f32> = Program::new(parameters, 4, 3, 0);
        let starts = program.column(Column::State(Layout::START));
        let random = program.rows(Rows::Random);
        let goals = program.column(Column::State(random));
        let first = network(&mut program, &layers, starts);
        let second = network(&mut program, &layers, goals);
        let third = network(&mut program, &layers, second);
        let arranged = Arrangement::new(&program, |_| true);
        // Nodes 0, 1 encode starts, 2, 3 goals, 4, 5 what was encoded before.
        assert_eq!(arranged.stacks, [vec![0, 2], vec![1, 3], vec![4], vec![5]]);
        for pair in [[starts.id, goals.id], [first.id, second.id]] {
            assert!(arranged.groups.iter().any(|group| group == &pair), "{pair:?}");
        }
        assert_eq!(arranged.groups.iter().flatten().count(), 8);
        assert!(arranged.groups.contains(&vec![third.id]));
        let apart = Arrangement::new(&program, |_| false);
        assert!(apart.stacks.iter().all(|stack| stack.len() == 1));
    }
}
