//! The programs whose kernels are checked, and a batch for each.

use std::sync::Arc;

use super::{BATCH, STATE};
use crate::data::sampler::{Batch, Column, GoalMix, Layout, Offsets, Rows, Sampler, Waypoints};
use crate::data::{Dataset, Even, Lessons, Normalization, Scaling};
use crate::engine::cuda::emulation::{AfterUpdates, updates};
use crate::engine::{
    Adam, ArenaId, Initial, Parameter, Parameters, Program, Schedule, Value, Window,
};
use crate::ops::{
    Activation, AdvantageWeights, Backup, Bootstrap, DeepNorm, DifferenceHead, Directions,
    Extremum, Fit, Iqe, Linear, Mrn, Multiplier, Norm, PqeLh, Push, Scale, Standardize, Targets,
    Term, WideNorm,
};
use crate::random::{Purpose, Stream};

/// A program in the making: values that depend on parameters, and a sum of everything declared.
pub(super) struct KernelBench {
    pub program: Program<f32>,
    arena: ArenaId,
    /// Width and parameters of layers that are not applied yet.
    layers: Vec<(usize, [Parameter; 4])>,
    mix: Parameter,
    /// Heads of the difference with their weights.
    heads: Vec<(DifferenceHead, Vec<Parameter>)>,
    terms: Vec<Term>,
}

const DIFFERENCES: [DifferenceHead; 3] = [
    DifferenceHead::PqeLh(PqeLh { groups: 2, size: 3 }),
    DifferenceHead::WideNorm(WideNorm { latent: 6, components: 2, size: 3 }),
    DifferenceHead::DeepNorm(DeepNorm { latent: 6, layers: 3, units: 4 }),
];

impl KernelBench {
    pub fn new(batch: usize) -> Self {
        let mut parameters = Parameters::default();
        let arena = parameters.arena("free");
        let mut one = |rows: usize, columns: usize| {
            parameters.add(arena, "free", (rows, columns), Initial::Uniform(1.0))
        };
        let widths = [[1, 3, 4, 6, 8, 16, 24, 40, 64, 80, 128, 260]; 9].concat();
        let layer = |&width: &usize| {
            (width, [one(STATE, width), one(1, width), one(1, width), one(1, width)])
        };
        let layers = widths.iter().map(layer).collect();
        let mix = one(1, 1);
        let sizes = |head: DifferenceHead| [head.raw(), head.free()].into_iter().filter(|&n| n > 0);
        let heads =
            DIFFERENCES.map(|head| (head, sizes(head).map(|size| one(1, size)).collect())).to_vec();
        let program = Program::new(parameters, batch, STATE, 3);
        Self { program, arena, layers, mix, heads, terms: Vec::new() }
    }

    /// A matrix of `width` columns: a layer over the states of some rows.
    fn free(&mut self, width: usize, rows: Rows, activation: Activation, norm: Norm) -> Value {
        let rows = self.program.rows(rows);
        self.layer(width, Column::State(rows), activation, norm)
    }

    pub fn layer(
        &mut self,
        width: usize,
        input: Column,
        activation: Activation,
        norm: Norm,
    ) -> Value {
        let input = self.program.column(input);
        let unused = self.layers.iter().position(|layer| layer.0 == width).unwrap();
        let parameters = self.layers.swap_remove(unused).1;
        let shape = Linear { inputs: STATE, outputs: width, activation, norm };
        let count = if norm == Norm::Layer { 4 } else { 2 };
        self.program.linear(shape, input, &parameters[..count])
    }

    pub fn pair(&mut self, width: usize) -> (Value, Value) {
        let goals = Rows::Future(Offsets::default());
        let start = self.free(width, Rows::Start, Activation::Identity, Norm::None);
        (start, self.free(width, goals, Activation::Identity, Norm::None))
    }

    /// Lets the loss depend on a value.
    pub fn use_up(&mut self, value: Value) {
        let of = match (value.rows, value.columns) {
            (1, 1) => value,
            _ => self.program.mean(value, Scale::Spread),
        };
        self.terms.push(Term::new(1.0, of));
    }

    fn layers(&mut self) {
        for activation in
            [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::Swish]
        {
            for norm in [Norm::None, Norm::Layer] {
                let value = self.free(8, Rows::Random, activation, norm);
                self.use_up(value);
            }
        }
    }

    pub fn heads(&mut self) {
        for (components, half) in [(1, 20), (2, 4)] {
            let (from, to) = self.pair(2 * components * half);
            let shape = Mrn { components, maxima: half, squares: half };
            let pairs = self.program.mrn(shape, from, to);
            let rows = self.program.mrn_by_row(shape, from, to);
            self.use_up(pairs);
            self.use_up(rows);
        }
        let (from, to) = self.pair(24);
        let shape = Iqe { groups: 3, size: 8 };
        let pairs = self.program.iqe(shape, self.mix, from, to);
        let rows = self.program.iqe_by_row(shape, self.mix, from, to);
        self.use_up(pairs);
        self.use_up(rows);
        for (head, parameters) in self.heads.clone() {
            let (from, to) = self.pair(6);
            for by_row in [false, true] {
                let value = self.program.difference(head, &parameters, (from, to), by_row);
                self.use_up(value);
            }
        }
    }

    fn critics(&mut self) {
        let (from, to) = self.pair(4);
        let potential = self.free(1, Rows::Random, Activation::Identity, Norm::None);
        let products = self.program.inner_products(from, to, 0.7);
        for potential in [None, Some(potential)] {
            let logits = self.program.scores(potential, products, 0.7);
            for directions in [Directions::Symmetric, Directions::Forward, Directions::Binary] {
                let loss = self.program.info_nce(logits, directions);
                self.use_up(loss);
            }
        }
        let target = self.program.targets(potential, products, Targets::Clamped);
        let (excess, shortfall) =
            (self.program.excess(products, target), self.program.shortfall(products, target));
        let (multiplier, share) = (
            self.program.multiplier(Multiplier::Floored, self.mix),
            self.program.negative_share(potential, products),
        );
        for value in [excess, shortfall, multiplier, share] {
            self.use_up(value);
        }
        let several = self.program.log_mean_exp(&[from, to, from]);
        let rows = self.program.inner_products_by_row(several, to, 1.0);
        self.use_up(rows);
    }

    fn policies(&mut self) {
        let noise = self.program.column(Column::Noise(3));
        let action = self.program.column(Column::Action(Layout::START));
        let mean = self.free(3, Rows::Start, Activation::Identity, Norm::None);
        let statistics = self.free(6, Rows::Start, Activation::Identity, Norm::None);
        let clipped = self.program.clip(mean);
        let sample = self.program.tanh_sample(statistics, noise);
        let joined = self.program.join(&[clipped, sample, mean, clipped, statistics]);
        let constant = self.program.gaussian(mean, action, 0.5);
        let squashed = self.program.tanh_gaussian(statistics, action);
        let weights = AdvantageWeights {
            inverse_temperature: 3.0,
            standardize: Standardize::Batch,
            limit: 0.4,
        };
        let loss = self.program.advantage_regression(constant, squashed, squashed, weights);
        for value in [joined, constant, squashed, loss] {
            self.use_up(value);
        }
    }

    fn values(&mut self) {
        let waypoints = self.program.rows(Rows::Waypoint(Waypoints::default(), Layout::START));
        let ahead = self.program.rows(Rows::Ahead(2, Some(waypoints)));
        let gap = self.program.column(Column::Gap(waypoints));
        let reached = self.program.column(Column::Reached(waypoints, ahead, Some(0.1)));
        let (from, to) = self.pair(4);
        let (one, other) = self.pair(1);
        let distances = self.program.inner_products(from, to, 1.0);
        let backup = Backup { scale: 1.5, discount: 0.9, cutoff: 2.0, diagonal: 0.5 };
        let left = self.program.inner_products(to, from, 1.0);
        let backup = self.program.backup(backup, distances, left, gap);
        let form = Bootstrap { discount: 0.9, held: true };
        let target = self.program.bootstrap(form, one, reached);
        let sphere = self.program.sphere(from);
        let tempered = self.program.tempered(sphere, self.mix);
        let sum = self.program.weighted_sum(&[(1.0, one), (0.5, other), (2.0, one)]);
        let least = self.program.extremum(Extremum::Least, sum, other);
        let losses = [
            backup,
            tempered,
            least,
            self.program.expectile(one, target, other, 0.9),
            self.program.squared_error(other, target),
            self.program.closeness(one),
            self.program.fit(Fit { power: 0.5, unit: 0.1 }, one, target),
            self.program.hinge(one, 0.2),
            self.program.push(Push { offset: 2.0, scale: 3.0 }, one),
            self.program.recursive_classification(one, other, sum, 0.9),
            self.program.multiplier(Multiplier::Exponential, self.mix),
        ];
        losses.into_iter().for_each(|value| self.use_up(value));
    }

    fn choices(&mut self) {
        let logits = self.free(3, Rows::Start, Activation::Identity, Norm::None);
        let action = self.program.column(Column::Action(Layout::START));
        let likely = self.program.most_likely(logits);
        let likelihood = self.program.categorical(logits, action);
        let joined = self.program.join(&[likely, logits]);
        self.use_up(likelihood);
        self.use_up(joined);
    }

    /// A program with every operation in it that has kernels.
    pub fn everything() -> Program<f32> {
        let mut bench = Self::new(BATCH);
        bench.layers();
        bench.heads();
        bench.critics();
        bench.policies();
        bench.values();
        bench.choices();
        bench.end()
    }

    /// The program whose one loss is the sum of everything declared.
    pub fn end(mut self) -> Program<f32> {
        let loss = self.program.combine(&self.terms);
        let window = Window { from: 0, until: 10 };
        self.program.descend("all", loss, &[(self.arena, Adam::default())], window);
        self.program
    }
}

/// Layers with norms, from states to the last of these widths.
pub(super) fn layered(widths: &[usize]) -> Program<f32> {
    let mut parameters = Parameters::default();
    let arena = parameters.arena("wide");
    let layer = |pair: &[usize]| {
        [pair[0], 1, 1, 1]
            .map(|rows| parameters.add(arena, "wide", (rows, pair[1]), Initial::Uniform(0.3)))
    };
    let layers: Vec<[Parameter; 4]> = widths.windows(2).map(layer).collect();
    let mut program: Program<f32> = Program::new(parameters, BATCH, STATE, 3);
    let mut value = program.column(Column::State(Layout::START));
    for (layer, &outputs) in layers.iter().zip(&widths[1..]) {
        let (inputs, activation, norm) = (value.columns, Activation::Gelu, Norm::Layer);
        value = program.linear(Linear { inputs, outputs, activation, norm }, value, layer);
    }
    let loss = program.mean(value, Scale::Spread);
    let window = Window { from: 0, until: 10 };
    program.descend("wide", loss, &[(arena, Adam::default())], window);
    program
}

/// A program with every choice of rows and every column that a GPU draws, two passes that descend by
/// different rules, and a follower.
pub(super) fn trained(law: Offsets) -> Program<f32> {
    let mut parameters = Parameters::default();
    let [fast, slow, other] =
        ["fast", "slow", "other"].map(|name| parameters.arena(name)).map(|arena| {
            let shapes = [(STATE, 7), (1, 7)];
            (arena, shapes.map(|it| parameters.add(arena, "layer", it, Initial::Uniform(0.5))))
        });
    let mut program: Program<f32> = Program::new(parameters, BATCH, STATE, 3);
    let future = program.rows(Rows::Future(law));
    let (next, random) = (program.rows(Rows::Next), program.rows(Rows::Random));
    let mix = GoalMix { current: 0.15, future: 0.3, trajectory: 0.25, random: 0.3 };
    let mixed = program.rows(Rows::Mixed(mix, law));
    let way = program.rows(Rows::Waypoint(Waypoints::default(), mixed));
    let ahead = program.rows(Rows::Ahead(5, Some(way)));
    let free = program.rows(Rows::Ahead(u32::MAX, None));
    let taught = program.rows(Rows::Taught);
    for column in [
        Column::Noise(3),
        Column::State(next),
        Column::State(random),
        Column::State(mixed),
        Column::State(free),
        Column::State(taught),
        Column::Goal(mixed, GOAL.len()),
        Column::Action(future),
        Column::PermutedAction(future, 0),
        Column::PermutedAction(mixed, 1),
        Column::RolledAction(random),
        Column::Gap(way),
        Column::Gap(ahead),
        Column::Reached(ahead, mixed, None),
        Column::Reached(way, mixed, Some(0.4)),
        Column::Lesson(Layout::START, taught),
    ] {
        program.column(column);
    }
    let steep = Adam { learning_rate: 1e-2, ..Adam::default() };
    let rules = [
        Adam { clip: 0.05, decay: 0.1, schedule: Schedule::Cosine, ..steep },
        Adam { schedule: Schedule::Warmup, ..steep },
    ];
    for (((arena, layer), rows), rule) in
        [(fast, Layout::START), (other, future)].into_iter().zip(rules)
    {
        let state = program.column(Column::State(rows));
        let (activation, norm) = (Activation::Gelu, Norm::None);
        let shape = Linear { inputs: STATE, outputs: 7, activation, norm };
        let value = program.linear(shape, state, &layer);
        let held = program.linear(shape, state, &slow.1);
        let both = program.weighted_sum(&[(1.0, value), (-0.5, held)]);
        let loss = program.mean(both, Scale::Spread);
        program.descend("any", loss, &[(arena, rule)], Window { from: 0, until: 10 });
    }
    program.follow(slow.0, fast.0, 0.3);
    program
}

/// The column of `trained` that is noise.
pub(super) const NOISE: usize = 0;

/// The coordinates that policies see of a goal.
const GOAL: [usize; 2] = [0, 3];

/// Random walks.
fn walks() -> (Dataset, Normalization) {
    let mut draws = Stream::new(1, Purpose(900)).draws(0, 0);
    let mut states = vec![0.0f32; 500 * STATE];
    for at in 0..states.len() {
        let before = if (at / STATE).is_multiple_of(50) { 0.0 } else { states[at - STATE] };
        states[at] = before + 0.1 * draws.normal() as f32;
    }
    let actions = (0..500 * 3).map(|_| draws.between(-1.0, 1.0) as f32).collect();
    let data = Dataset::new(states, STATE, Some((actions, 3)), &[50; 10]).unwrap();
    let normalization = Normalization::fit(&data, Scaling::Standard).unwrap();
    (data, normalization)
}

/// A batch of `program` from random walks.
pub(super) fn drawn(program: &Program<f32>) -> Batch {
    let (data, normalization) = walks();
    let sampler = Sampler::new(&data, &normalization, program.layout().clone(), 0.9);
    let mut batch = sampler.batch(program.batch_size());
    sampler.fill(&mut batch, 3, 7).unwrap();
    batch
}

/// Whole updates of `trained` on random walks with a teacher's answers, evened out or as they are.
pub(super) fn after_updates(law: Offsets, evened: bool) -> Option<AfterUpdates> {
    let (data, normalization) = walks();
    let data = if evened {
        data.evened(&Even { axes: vec![0, 1], side: 0.2, share: 0.4 }).unwrap()
    } else {
        data
    };
    let normalization = normalization.with_policy_goal(GOAL.to_vec());
    // Ten landmarks, of which five were solved; the others have no column.
    let owners = (0..500).map(|row| row / 50).collect();
    let columns = (0..10).map(|at| if at % 2 == 0 { at / 2 } else { u32::MAX }).collect();
    let nats = (0..50).map(|at| 0.3 * at as f32 - 2.0).collect();
    let lessons = Lessons::new(owners, Arc::new(columns), Arc::new(nats));
    let program = || trained(law);
    let sampler = Sampler::new(&data, &normalization, program().layout().clone(), 0.9);
    updates(&program, &sampler.taught(Some(lessons)), 3)
}
