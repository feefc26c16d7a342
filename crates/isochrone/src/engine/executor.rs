//! The CPU executor: buffers for every value and arena, and the update itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::operation::{Backward, Forward, ShardPart, Stage};
use super::optimizer::ArenaState;
use super::plan::{UpdatePlan, Visit};
use super::program::Node;
use super::shards::Shards;
use super::{ArenaId, Parameter, Product, Program, Scalar, Threads, Value, Window};
use crate::collective::Collective;
use crate::data::sampler::{Batch, Sampler};
use crate::error::Result;
use crate::pages;

/// A loss that stopped being a finite number.
#[derive(Debug, Clone, PartialEq)]
pub struct BrokenLoss {
    /// The update at which it was first seen.
    pub step: u64,
    /// The pass.
    pub pass: String,
    /// Its value.
    pub value: f64,
}

/// Where the time of updates went, by operation.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// (operation, half) and the time it took.
    pub entries: Vec<(&'static str, &'static str, Duration)>,
}

impl Clock {
    /// Adds the time that one half of an operation took; what has no halves has an empty name there.
    pub(super) fn add(&mut self, (name, half): (&'static str, &'static str), passed: Duration) {
        match self.entries.iter_mut().find(|entry| (entry.0, entry.1) == (name, half)) {
            Some(entry) => entry.2 += passed,
            None => self.entries.push((name, half, passed)),
        }
    }
}

/// Runs a program on the CPU.
pub struct Executor<T: Scalar> {
    program: Arc<Program<T>>,
    threads: Threads,
    values: Vec<Vec<T>>,
    gradients: Vec<Vec<T>>,
    saved: Vec<Vec<T>>,
    indices: Vec<Vec<u32>>,
    arenas: Vec<ArenaState<T>>,
    plans: Vec<UpdatePlan>,
    shards: Shards<T>,
    clock: Option<Clock>,
}

impl Executor<f32> {
    /// Draws the batch of a seed and a step into `batch` and updates on it.
    ///
    /// # Errors
    /// Rows that cannot be read.
    pub fn update_on(
        &mut self,
        sampler: &Sampler<'_>,
        batch: &mut Batch,
        (seed, step): (u64, u64),
    ) -> Result<()> {
        sampler.fill(batch, seed, step)?;
        self.update(batch, step);
        Ok(())
    }
}

impl<T: Scalar> Executor<T> {
    /// Allocates everything an update of `program` needs and sets the first values of `seed`.
    pub fn new(program: impl Into<Arc<Program<T>>>, threads: Threads, seed: u64) -> Self {
        Self::among(program.into(), threads, seed, Collective::default())
    }

    /// As [`Executor::new`], as one of several processes that carry the shards of `program`.
    ///
    /// # Panics
    /// Where the processes do not divide the shards.
    pub fn among(
        program: Arc<Program<T>>,
        threads: Threads,
        seed: u64,
        collective: Collective,
    ) -> Self {
        let shards = Shards::new(&program, collective);
        let buffers = || {
            let one = |&(rows, columns): &(usize, usize)| pages::zeros(T::ZERO, rows * columns);
            program.values.iter().map(one).collect()
        };
        let arenas = program
            .parameters
            .arenas()
            .map(|arena| ArenaState::new(&program.parameters.initial(arena, seed)))
            .collect();
        let kept = program.nodes.iter().enumerate().map(|(index, node)| {
            let (saved, indices) = shards.saved(index, node);
            (pages::zeros(T::ZERO, saved), pages::zeros(0, indices))
        });
        let (saved, indices) = kept.unzip();
        let mut executor = Self {
            threads,
            gradients: buffers(),
            values: buffers(),
            saved,
            indices,
            arenas,
            plans: Vec::new(),
            shards,
            clock: None,
            program,
        };
        let (targets, followers) = (executor.program.followers.clone(), &mut executor.arenas);
        for (target, source, _) in targets {
            followers[target.0].values = followers[source.0].values.clone();
        }
        executor
    }

    /// The program that runs.
    pub fn program(&self) -> &Program<T> {
        &self.program
    }

    /// The processes that carry its shards.
    pub fn collective(&self) -> &Collective {
        self.shards.collective()
    }

    /// The threads it runs on.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Keeps the time of every operation from now on.
    pub fn start_clock(&mut self) {
        self.clock = Some(Clock::default());
    }

    /// The times kept so far.
    pub fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// The numbers of an arena.
    pub fn arena(&self, arena: ArenaId) -> &[T] {
        &self.arenas[arena.0].values
    }

    /// The numbers of an arena, to set.
    pub fn arena_mut(&mut self, arena: ArenaId) -> &mut [T] {
        &mut self.arenas[arena.0].values
    }

    /// The gradient of an arena after an update.
    pub fn gradient(&self, arena: ArenaId) -> &[T] {
        &self.arenas[arena.0].gradient
    }

    /// The numbers of a value after an update.
    pub fn value(&self, value: Value) -> &[T] {
        &self.values[value.id]
    }

    /// Values, first and second moments of an arena: everything a checkpoint keeps of it.
    pub fn state(&self, arena: ArenaId) -> [&[T]; 3] {
        let state = &self.arenas[arena.0];
        [&state.values, &state.first, &state.second]
    }

    /// As [`Executor::state`], to set.
    pub fn state_mut(&mut self, arena: ArenaId) -> [&mut [T]; 3] {
        let state = &mut self.arenas[arena.0];
        [&mut state.values, &mut state.first, &mut state.second]
    }

    /// One update: reads the batch, runs every active pass, steps its arenas.
    pub fn update(&mut self, batch: &Batch, step: u64) {
        self.load(batch);
        let plan = self.plan(step);
        self.forward(plan);
        for pass in 0..self.program.passes.len() {
            if self.plans[plan].active[pass] {
                self.backward(plan, pass);
            }
        }
        self.descend(step);
    }

    /// The losses and gradients of the passes active at `step`, moving nothing.
    pub fn evaluate(&mut self, batch: &Batch, step: u64) {
        self.load(batch);
        let plan = self.plan(step);
        self.forward(plan);
    }

    /// As [`Executor::evaluate`], gradients included.
    pub fn differentiate(&mut self, batch: &Batch, step: u64) {
        self.evaluate(batch, step);
        let plan = self.plan(step);
        for pass in 0..self.program.passes.len() {
            if self.plans[plan].active[pass] {
                self.backward(plan, pass);
            }
        }
    }

    /// The metrics of the last update, in the order of [`Program::metrics`]; NaN where inactive.
    pub fn metrics(&self, step: u64, out: &mut Vec<f64>) {
        out.clear();
        let plan = self.plans.iter().find(|plan| plan.serves(&self.program, step));
        for (_, value) in &self.program.reports {
            let computed = plan.is_some_and(|plan| {
                plan.forward.iter().any(|&node| self.program.nodes[node].output.id == value.id)
            });
            out.push(if computed { self.values[value.id][0].wide() } else { f64::NAN });
        }
        for pass in &self.program.passes {
            let norm = pass.window.contains(step).then(|| {
                let squares = pass
                    .arenas
                    .iter()
                    .map(|(arena, _)| self.arenas[arena.0].gradient_norm().powi(2));
                squares.sum::<f64>().sqrt()
            });
            out.push(norm.unwrap_or(f64::NAN));
        }
    }

    /// The first active loss that is not a finite number, with its metric's name.
    pub fn broken_loss(&self, step: u64) -> Option<(&str, f64)> {
        self.program.passes.iter().filter(|pass| pass.window.contains(step)).find_map(|pass| {
            let loss = self.values[pass.loss.id][0].wide();
            (!loss.is_finite()).then_some((pass.name.as_str(), loss))
        })
    }

    /// The first active pass whose gradient is not finite, with the gradient's norm.
    pub fn broken_gradient(&self, step: u64) -> Option<(&str, f64)> {
        self.program.passes.iter().filter(|pass| pass.window.contains(step)).find_map(|pass| {
            let norms = pass.arenas.iter().map(|(arena, _)| self.arenas[arena.0].gradient_norm());
            let norm = norms.sum::<f64>();
            (!norm.is_finite()).then_some((pass.name.as_str(), norm))
        })
    }

    /// Every matrix product of one update at `step`, in order.
    pub fn products(&mut self, step: u64) -> Vec<Product> {
        let plan = self.plan(step);
        let (plan, nodes) = (&self.plans[plan], &self.program.nodes);
        let forward =
            plan.forward.iter().flat_map(|&node| nodes[node].operation.products(Stage::Forward));
        let backward = plan.backward.iter().flatten().flat_map(|visit| {
            let stage = Stage::Backward { wants: &visit.wants, moves: visit.moves };
            nodes[visit.node].operation.products(stage)
        });
        forward.chain(backward).collect()
    }

    /// Bytes held by values, gradients and arenas.
    pub fn bytes(&self) -> usize {
        let numbers = |buffers: &[Vec<T>]| buffers.iter().map(Vec::len).sum::<usize>();
        let arenas: usize = self.arenas.iter().map(|arena| 4 * arena.values.len()).sum();
        let kept: usize = self.indices.iter().map(Vec::len).sum();
        let all = numbers(&self.values) + numbers(&self.gradients) + numbers(&self.saved) + arenas;
        all * size_of::<T>() + kept * size_of::<u32>()
    }

    fn load(&mut self, batch: &Batch) {
        for (place, numbers) in batch.columns.iter().enumerate() {
            if let Some(value) = self.program.column_of(place) {
                for (target, &number) in self.values[value.id].iter_mut().zip(numbers) {
                    *target = T::of(f64::from(number));
                }
            }
        }
    }

    /// The plan for the passes active at `step`; made when first needed.
    fn plan(&mut self, step: u64) -> usize {
        if let Some(known) = self.plans.iter().position(|plan| plan.serves(&self.program, step)) {
            return known;
        }
        let is_cut = |node: usize| self.shards.is_cut(node);
        self.plans.push(UpdatePlan::new(&self.program, step, is_cut));
        self.plans.len() - 1
    }

    fn forward(&mut self, plan: usize) {
        for &index in &self.plans[plan].forward {
            let node = &self.program.nodes[index];
            let since = Instant::now();
            self.shards.gather_inputs(index, node, &mut self.values);
            let mut output = std::mem::take(&mut self.values[node.output.id]);
            for part in self.shards.parts(index) {
                let (saved, indices) = (&mut self.saved[index], &mut self.indices[index]);
                let (kept, kept_indices) = (
                    self.shards.kept(index, part, saved.len()),
                    self.shards.kept(index, part, indices.len()),
                );
                let place = part.of(output.len());
                self.shards.operation(index, node).forward(Forward {
                    values: &self.values,
                    arenas: &self.arenas,
                    inputs: &node.inputs,
                    parameters: &node.parameters,
                    part,
                    output: &mut output[place],
                    saved: &mut saved[kept],
                    indices: &mut indices[kept_indices],
                    threads: &self.threads,
                });
            }
            self.values[node.output.id] = output;
            if let Some(clock) = &mut self.clock {
                clock.add((node.operation.name(), "forward"), since.elapsed());
            }
        }
    }

    fn backward(&mut self, plan: usize, pass: usize) {
        let plans = std::mem::take(&mut self.plans);
        let program = self.program.clone();
        let visits = &plans[plan].backward[pass];
        self.gradients[program.passes[pass].loss.id].fill(T::ONE);
        for visit in visits {
            let node = &program.nodes[visit.node];
            let since = Instant::now();
            self.backward_of(visit, node);
            if let Some(clock) = &mut self.clock {
                clock.add((node.operation.name(), "backward"), since.elapsed());
            }
        }
        self.shards.add_parameters(visits, &self.threads, &mut self.arenas);
        self.plans = plans;
    }

    /// The backward half of one node: of all rows, or of each own shard.
    fn backward_of(&mut self, visit: &Visit, node: &Node<T>) {
        let fresh_input =
            node.operation.overwrites() && visit.first_values.contains(&node.inputs[0].id);
        for &id in visit.first_values.iter().filter(|_| !fresh_input) {
            self.gradients[id].fill(T::ZERO);
        }
        let mut output_gradient = std::mem::take(&mut self.gradients[node.output.id]);
        self.shards.gather_gradient(visit.node, node, &mut output_gradient);
        self.shards.mark(visit, node);
        self.shards.clear_input(visit, node, &self.gradients);
        for part in self.shards.parts(visit.node) {
            let (arenas, gradients) = (&mut self.arenas, &mut self.gradients);
            self.shards.swap(part.shard, (visit, node), arenas, gradients);
            self.backward_part((visit, node), part, &mut output_gradient, fresh_input);
            let (arenas, gradients) = (&mut self.arenas, &mut self.gradients);
            self.shards.swap(part.shard, (visit, node), arenas, gradients);
        }
        self.shards.add_input((visit, node), &self.threads, &mut self.gradients);
        self.gradients[node.output.id] = output_gradient;
    }

    fn backward_part(
        &mut self,
        (visit, node): (&Visit, &Node<T>),
        part: ShardPart,
        output_gradient: &mut [T],
        fresh_input: bool,
    ) {
        let overwritten = node.parameters.first().filter(|_| node.operation.overwrites());
        let fresh_parameter =
            overwritten.is_some_and(|first| visit.first_parameters.contains(first));
        let added = |parameter: &&Parameter| Some(*parameter) != overwritten;
        for parameter in visit.first_parameters.iter().filter(added) {
            let gradient = &mut self.arenas[parameter.arena.0].gradient;
            let length = parameter.rows * parameter.columns;
            gradient[parameter.offset..parameter.offset + length].fill(T::ZERO);
        }
        let (saved, indices) = (&mut self.saved[visit.node], &self.indices[visit.node]);
        let kept = self.shards.kept(visit.node, part, saved.len());
        let kept_indices = self.shards.kept(visit.node, part, indices.len());
        let (output, place) = (&self.values[node.output.id], part.of(output_gradient.len()));
        self.shards.operation(visit.node, node).backward(Backward {
            values: &self.values,
            gradients: &mut self.gradients,
            arenas: &mut self.arenas,
            inputs: &node.inputs,
            parameters: &node.parameters,
            wants: &visit.wants,
            moves: visit.moves,
            part,
            fresh_input,
            fresh_parameter,
            output: &output[place.clone()],
            output_gradient: &mut output_gradient[place],
            saved: &mut saved[kept],
            indices: &indices[kept_indices],
            threads: &self.threads,
        });
    }

    fn descend(&mut self, step: u64) {
        let since = Instant::now();
        for pass in &self.program.passes {
            let Window { from, until } = pass.window;
            if pass.window.contains(step) {
                for (arena, adam) in &pass.arenas {
                    self.arenas[arena.0].step(&self.threads, adam, step - from, until - from);
                }
            }
        }
        for &(target, source, rate) in &self.program.followers {
            let (first, second) = self.arenas.split_at_mut(target.0.max(source.0));
            let (target, source) = if target.0 < source.0 {
                (&mut first[target.0], &second[0])
            } else {
                (&mut second[0], &first[source.0])
            };
            target.follow(&source.values, rate);
        }
        if let Some(clock) = &mut self.clock {
            clock.add(("adam", ""), since.elapsed());
        }
    }
}
