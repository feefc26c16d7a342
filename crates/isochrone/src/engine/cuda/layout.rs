//! Where everything of a program stands on the GPU, and the launches of its forward and backward.

use super::arrangement::Arrangement;
use super::memory::Places;
use super::optimizer::ArenaPlaces;
use crate::engine::launches::{Bound, Buffer, Kernels, Launch, Queue, Target};
use crate::engine::plan::{UpdatePlan, Visit, met};
use crate::engine::{Parameter, Program};
use crate::error::{Error, Result};

/// The places of all values, gradients and kept numbers.
pub(super) struct DeviceLayout {
    replicas: usize,
    stacks: Vec<Vec<usize>>,
    pub values: Vec<Buffer>,
    /// For every pass a gradient of every value that it meets, so that passes run side by side.
    gradients: Vec<Vec<Buffer>>,
    kept: Vec<Vec<Buffer>>,
}

/// The kernels of an operation.
///
/// # Errors
/// It has none.
pub(super) fn kernels(program: &Program<f32>, node: usize) -> Result<&dyn Kernels> {
    let operation = &program.nodes[node].operation;
    operation.kernels().ok_or_else(|| {
        Error::input(format!("the operation `{}` has no kernel for a GPU", operation.name()))
            .hint("use `--device cpu`")
    })
}

impl DeviceLayout {
    /// Takes places for every value, gradient and kept number of `program`, which runs `replicas` times
    /// side by side.
    ///
    /// # Errors
    /// An operation has no kernels.
    pub fn new(places: &mut Places, program: &Program<f32>, replicas: usize) -> Result<Self> {
        for node in 0..program.nodes.len() {
            kernels(program, node)?;
        }
        let arrangement = Arrangement::new(program, |node| {
            node.operation.kernels().is_some_and(|kernels| kernels.stacks())
        });
        let mut take = |wanted: &dyn Fn(usize) -> bool| {
            let mut buffers = vec![Buffer::NONE; program.values.len()];
            for group in &arrangement.groups {
                let group = group.iter().copied().filter(|&value| wanted(value));
                let length = |value: usize| program.values[value].0 * program.values[value].1;
                let lengths: Vec<usize> = group.clone().map(length).collect();
                for (value, buffer) in group.zip(places.side_by_side(&lengths)) {
                    buffers[value] = buffer;
                }
            }
            buffers
        };
        let values = take(&|_| true);
        let gradients = program.passes.iter().map(|pass| {
            let met = met(program, pass);
            take(&|value| met.contains(&value))
        });
        let gradients = gradients.collect();
        let mut kept = vec![Vec::new(); program.nodes.len()];
        for stack in &arrangement.stacks {
            let lengths: Vec<Vec<usize>> = stack
                .iter()
                .map(|&node| Ok(kernels(program, node)?.kept()))
                .collect::<Result<_>>()?;
            for slot in 0..lengths[0].len() {
                let side: Vec<usize> = lengths.iter().map(|lengths| lengths[slot]).collect();
                for (&node, buffer) in stack.iter().zip(places.side_by_side(&side)) {
                    kept[node].push(buffer);
                }
            }
        }
        Ok(Self { replicas, stacks: arrangement.stacks, values, gradients, kept })
    }

    /// The places of the columns of a batch, in the order of the batch.
    pub fn columns(&self, program: &Program<f32>) -> Vec<Buffer> {
        let place = |at| program.column_of(at).map_or(Buffer::NONE, |value| self.values[value.id]);
        (0..program.layout().columns().len()).map(place).collect()
    }

    /// The place of every pass's loss.
    pub fn losses(&self, program: &Program<f32>) -> Vec<Buffer> {
        program.passes.iter().map(|pass| self.values[pass.loss.id]).collect()
    }

    /// The place of the derivative of a pass's loss by itself, which is one.
    pub fn seed_gradient(&self, program: &Program<f32>, pass: usize) -> Buffer {
        self.gradients[pass][program.passes[pass].loss.id]
    }

    /// The buffers of the forward half of stacked operations.
    fn bound(&self, program: &Program<f32>, arenas: &[ArenaPlaces], run: &[usize]) -> Bound {
        let nodes = &program.nodes;
        let first = &nodes[run[0]];
        let join = |buffer: &dyn Fn(usize) -> Buffer| {
            run[1..].iter().fold(buffer(run[0]), |all, &node| all.and(buffer(node)))
        };
        let parameter = |parameter: &Parameter| {
            let arena = &arenas[parameter.arena.0];
            arena.part(arena.values, parameter)
        };
        let inputs = (0..first.inputs.len())
            .map(|at| join(&|node| self.values[nodes[node].inputs[at].id]))
            .collect();
        let kept =
            (0..self.kept[run[0]].len()).map(|at| join(&|node| self.kept[node][at])).collect();
        Bound {
            replicas: self.replicas,
            rows: run.iter().map(|&node| nodes[node].output.rows).sum(),
            inputs,
            output: Some(join(&|node| self.values[nodes[node].output.id])),
            kept,
            parameters: first.parameters.iter().map(parameter).collect(),
            ..Bound::default()
        }
    }

    /// Queues the forward half of everything `plan` needs.
    pub fn forward(
        &self,
        program: &Program<f32>,
        arenas: &[ArenaPlaces],
        plan: &UpdatePlan,
        launches: &mut Vec<Launch>,
    ) -> Result<()> {
        for stack in &self.stacks {
            let needed = stack.split(|node| !plan.forward.contains(node));
            for run in needed.filter(|run| !run.is_empty()) {
                let (mut bound, first) = (self.bound(program, arenas, run), launches.len());
                bound.returns = visited(plan, run);
                kernels(program, run[0])?.forward(&mut Queue { bound, launches });
                let name = program.nodes[run[0]].operation.name();
                Launch::belong(&mut launches[first..], (name, "forward"));
            }
        }
        Ok(())
    }

    /// Queues the backward half of every active pass.
    pub fn active_backward(
        &self,
        program: &Program<f32>,
        arenas: &[ArenaPlaces],
        plan: &UpdatePlan,
        launches: &mut Vec<Launch>,
    ) -> Result<()> {
        let mut active = (0..program.passes.len()).filter(|&pass| plan.active[pass]);
        active.try_for_each(|pass| self.backward(program, arenas, (plan, pass), launches))
    }

    /// Queues the backward half of one pass.
    fn backward(
        &self,
        program: &Program<f32>,
        arenas: &[ArenaPlaces],
        (plan, pass): (&UpdatePlan, usize),
        launches: &mut Vec<Launch>,
    ) -> Result<()> {
        let mut written = Written::default();
        let visits = &plan.backward[pass];
        for stack in self.stacks.iter().rev() {
            let visit = |&node: &usize| visits.iter().find(|visit| visit.node == node);
            let mut rest: Vec<(usize, &Visit)> = stack
                .iter()
                .enumerate()
                .filter_map(|(at, node)| Some((at, visit(node)?)))
                .collect();
            while !rest.is_empty() {
                let alike = |visit: &Visit| {
                    let inputs = &program.nodes[visit.node].inputs;
                    let kept: Vec<bool> =
                        inputs.iter().map(|input| written.values.contains(&input.id)).collect();
                    (visit.wants.clone(), visit.moves, kept)
                };
                let (first, shape) = (rest[0].0, alike(rest[0].1));
                let length = rest
                    .iter()
                    .enumerate()
                    .take_while(|(at, (place, visit))| {
                        *place == first + at && alike(visit) == shape
                    })
                    .count();
                let run: Vec<(usize, &Visit)> = rest.drain(..length).collect();
                let nodes: Vec<usize> = run.iter().map(|(_, visit)| visit.node).collect();
                let mut bound = self.bound(program, arenas, &nodes);
                self.bind_gradients(program, arenas, pass, &run, &mut bound, &mut written);
                let first = launches.len();
                kernels(program, nodes[0])?.backward(&mut Queue { bound, launches });
                let name = program.nodes[nodes[0]].operation.name();
                Launch::belong(&mut launches[first..], (name, "backward"));
            }
        }
        Ok(())
    }

    /// Adds the gradients of a run of visits to `bound` and notes what they write.
    fn bind_gradients(
        &self,
        program: &Program<f32>,
        arenas: &[ArenaPlaces],
        pass: usize,
        run: &[(usize, &Visit)],
        bound: &mut Bound,
        written: &mut Written,
    ) {
        let nodes = &program.nodes;
        let gradients = &self.gradients[pass];
        let first = run[0].1;
        let join = |buffer: &dyn Fn(&Visit) -> Buffer| {
            run[1..].iter().fold(buffer(first), |all, (_, visit)| all.and(buffer(visit)))
        };
        bound.output_gradient = Some(join(&|visit| gradients[nodes[visit.node].output.id]));
        for (at, &wanted) in first.wants.iter().enumerate() {
            let target = wanted.then(|| {
                let mut keep = false;
                for (_, visit) in run {
                    keep |= written.value(nodes[visit.node].inputs[at].id);
                }
                Target { buffer: join(&|visit| gradients[nodes[visit.node].inputs[at].id]), keep }
            });
            bound.input_targets.push(target);
        }
        for parameter in &nodes[first.node].parameters {
            let target = first.moves.then(|| {
                let arena = &arenas[parameter.arena.0];
                let buffer = arena.part(arena.gradient, parameter);
                Target { buffer, keep: written.parameter(*parameter) }
            });
            bound.parameter_targets.push(target);
        }
    }
}

/// Whether some pass goes back through one of these nodes.
fn visited(plan: &UpdatePlan, run: &[usize]) -> bool {
    plan.backward.iter().flatten().any(|visit| run.contains(&visit.node))
}

/// The gradients that a pass has written so far.
#[derive(Default)]
struct Written {
    values: Vec<usize>,
    parameters: Vec<Parameter>,
}

impl Written {
    /// Whether the gradient of a value was written before; from now on it is.
    fn value(&mut self, value: usize) -> bool {
        let before = self.values.contains(&value);
        self.values.push(value);
        before
    }

    fn parameter(&mut self, parameter: Parameter) -> bool {
        let before = self.parameters.contains(&parameter);
        self.parameters.push(parameter);
        before
    }
}
