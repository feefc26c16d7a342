//! Which operations an update visits: forward all that an active pass needs, backward those between
//! its loss and its arenas.

use super::program::{Node, Pass};
use super::{Parameter, Program, Scalar, Value};

/// The nodes to visit for one set of active passes, the backward half of each from last to first.
pub(super) struct UpdatePlan {
    pub active: Vec<bool>,
    pub forward: Vec<usize>,
    pub backward: Vec<Vec<Visit>>,
}

/// One node in the backward half of a pass: the gradients it owes, and those it is the first to add
/// to. These are cleared just before, while they are still in the cache.
pub(super) struct Visit {
    pub node: usize,
    pub wants: Vec<bool>,
    pub moves: bool,
    pub first_values: Vec<usize>,
    pub first_parameters: Vec<Parameter>,
}

impl UpdatePlan {
    /// The plan for the passes active at `step`. Nodes that `is_cut` names are computed shard by shard:
    /// their gradients of parameters lie apart from those of other nodes.
    pub fn new<T: Scalar>(program: &Program<T>, step: u64, is_cut: impl Fn(usize) -> bool) -> Self {
        let active: Vec<bool> =
            program.passes.iter().map(|pass| pass.window.contains(step)).collect();
        let mut needed = vec![false; program.nodes.len()];
        let mut backward = Vec::new();
        for (pass, &active) in program.passes.iter().zip(&active) {
            if active {
                mark(&program.nodes, pass.loss.id, &mut needed);
                backward.push(visits(&program.nodes, pass, &is_cut));
            } else {
                backward.push(Vec::new());
            }
        }
        for (_, value) in &program.reports {
            mark_report(&program.nodes, value.id, &mut needed);
        }
        let forward = (0..needed.len()).filter(|&node| needed[node]).collect();
        Self { active, forward, backward }
    }

    /// Whether the passes active at `step` are those of this plan.
    pub fn serves<T: Scalar>(&self, program: &Program<T>, step: u64) -> bool {
        let passes = program.passes.iter().zip(&self.active);
        passes.fold(true, |same, (pass, &active)| same && pass.window.contains(step) == active)
    }
}

/// The values whose gradients the backward half of `pass` meets: its loss, and what lies between it and its
/// arenas.
#[cfg(feature = "cuda")]
pub(super) fn met<T: Scalar>(program: &Program<T>, pass: &Pass) -> Vec<usize> {
    let visits = visits(&program.nodes, pass, &|_| false);
    let between = visits.iter().map(|visit| program.nodes[visit.node].output.id);
    std::iter::once(pass.loss.id).chain(between).collect()
}

/// Marks every node that `value` depends on.
fn mark<T: Scalar>(nodes: &[Node<T>], value: usize, needed: &mut [bool]) {
    let mut wanted = vec![value];
    while let Some(value) = wanted.pop() {
        if let Some(index) = nodes.iter().position(|node| node.output.id == value)
            && !needed[index]
        {
            needed[index] = true;
            wanted.extend(nodes[index].inputs.iter().map(|input| input.id));
        }
    }
}

/// Marks the node of a metric whose inputs are computed anyway.
fn mark_report<T: Scalar>(nodes: &[Node<T>], value: usize, needed: &mut [bool]) {
    let producer = |value: usize| nodes.iter().position(|node| node.output.id == value);
    if let Some(index) = producer(value) {
        let mut inputs = nodes[index].inputs.iter().map(|input| producer(input.id));
        needed[index] |= inputs.all(|input| input.is_none_or(|from| needed[from]));
    }
}

/// The backward half of `pass`: the nodes between its loss and its arenas.
fn visits<T: Scalar>(
    nodes: &[Node<T>],
    pass: &Pass,
    is_cut: &impl Fn(usize) -> bool,
) -> Vec<Visit> {
    let moves = |node: &Node<T>| {
        node.parameters.iter().any(|p| pass.arenas.iter().any(|(a, _)| *a == p.arena))
    };
    let producer = |value: &Value| nodes.iter().position(|node| node.output.id == value.id);
    let mut depends = vec![false; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        let through = node
            .inputs
            .iter()
            .any(|input| !input.stopped && producer(input).is_some_and(|from| depends[from]));
        depends[index] = moves(node) || through;
    }
    let mut leads = vec![false; nodes.len()];
    let mut result: Vec<Visit> = Vec::new();
    for (index, node) in nodes.iter().enumerate().rev() {
        leads[index] |= node.output.id == pass.loss.id;
        if !(leads[index] && depends[index]) {
            continue;
        }
        let (mut wants, mut first_values) = (Vec::new(), Vec::new());
        for input in &node.inputs {
            let from = producer(input).filter(|&from| !input.stopped && depends[from]);
            wants.push(from.is_some());
            if let Some(from) = from
                && !std::mem::replace(&mut leads[from], true)
            {
                first_values.push(input.id);
            }
        }
        let moves = moves(node);
        let added = |parameter: &Parameter| {
            result.iter().any(|visit: &Visit| {
                let alike = is_cut(visit.node) == is_cut(index);
                visit.moves && alike && nodes[visit.node].parameters.contains(parameter)
            })
        };
        let first = node.parameters.iter().filter(|&parameter| moves && !added(parameter));
        let first_parameters = first.copied().collect();
        result.push(Visit { node: index, wants, moves, first_values, first_parameters });
    }
    result
}
