//! The gradient of a policy through its action and a wide distance, seed by seed.

use isochrone::data::sampler::{Column, Layout, Rows, Sampler};
use isochrone::data::{Normalization, Scaling};
use isochrone::engine::{
    Adam, ArenaId, CudaExecutor, Executor, Initial, Parameter, Parameters, Precision, Program,
    Threads, Value,
};
use isochrone::ops::{Activation, Linear, Mrn, Norm, Scale};

use super::{ACTION, ALWAYS, STATE, apart, gpu, walks};

/// Sizes of the chain: those of the paper.
const WIDE: usize = 512;
const MAXIMA: usize = 256;

/// A policy and the distance after its action, as DDPG goes through them.
struct Chain {
    program: Program<f32>,
    arenas: [ArenaId; 2],
    /// Outputs of all layers with ReLU.
    hidden: Vec<Value>,
    starts: Value,
    ends: Value,
}

impl Chain {
    fn new(batch: usize) -> Self {
        let mut parameters = Parameters::default();
        let arenas = ["policy", "encoder"].map(|name| parameters.arena(name));
        let mut layers = |arena, widths: &[usize]| -> Vec<[Parameter; 2]> {
            let layer = |pair: &[usize]| {
                let first = Initial::Uniform((3.0 / pair[0] as f64).sqrt());
                let weight = parameters.add(arena, "weight", (pair[0], pair[1]), first);
                [weight, parameters.add(arena, "bias", (1, pair[1]), Initial::Uniform(0.1))]
            };
            widths.windows(2).map(layer).collect()
        };
        let policy = layers(arenas[0], &[2 * STATE, WIDE, WIDE, WIDE, WIDE, ACTION]);
        let encoder = layers(arenas[1], &[STATE + ACTION, WIDE, WIDE, WIDE, WIDE, WIDE]);
        let mut program = Program::new(parameters, batch, STATE, ACTION);
        let random = program.rows(Rows::Random);
        let [state, goal] = [Layout::START, random].map(|rows| program.column(Column::State(rows)));
        let action = program.column(Column::Action(random));
        let mut hidden = Vec::new();
        let mut apply =
            |program: &mut Program<f32>, layers: &[[Parameter; 2]], inputs: &[Value]| {
                let first = program.join(inputs);
                layers.iter().enumerate().fold(first, |value, (at, layer)| {
                    let last = at + 1 == layers.len();
                    let activation = if last { Activation::Identity } else { Activation::Relu };
                    let (inputs, outputs, norm) = (value.columns, layer[0].columns, Norm::None);
                    let out =
                        program.linear(Linear { inputs, outputs, activation, norm }, value, layer);
                    hidden.extend((!last).then_some(out));
                    out
                })
            };
        let ends = apply(&mut program, &encoder, &[goal, action]);
        let chosen = apply(&mut program, &policy, &[state, goal]);
        let starts = apply(&mut program, &encoder, &[state, chosen]);
        let shape = Mrn { components: 1, maxima: MAXIMA, squares: WIDE - MAXIMA };
        let distances = program.mrn_by_row(shape, starts, ends);
        let loss = program.mean(distances, Scale::Unit);
        program.descend("all", loss, &arenas.map(|arena| (arena, Adam::default())), ALWAYS);
        Self { program, arenas, hidden, starts, ends }
    }

    /// What `value` finds on one device decides where every row's kinks lie: the signs of hidden units
    /// and the place of the maximum.
    fn kinks(&self, value: impl Fn(Value) -> Vec<f32>) -> Vec<(Vec<bool>, Option<usize>)> {
        let hidden: Vec<Vec<f32>> = self.hidden.iter().map(|&layer| value(layer)).collect();
        let (starts, ends) = (value(self.starts), value(self.ends));
        let row = |row: usize| {
            let units = hidden.iter().flat_map(|layer| &layer[row * WIDE..][..WIDE]);
            let place = |m: usize| row * WIDE + m;
            let gap = |m: usize| starts[place(m)] - ends[place(m)];
            let largest = (0..MAXIMA).max_by(|&a, &b| gap(a).total_cmp(&gap(b)));
            (units.map(|&unit| unit > 0.0).collect(), largest)
        };
        (0..self.starts.rows).map(row).collect()
    }
}

#[test]
fn one_seed_among_eight_has_the_gradient_of_the_cpu_where_no_kink_lies_elsewhere() {
    let Some((gpu, _turn)) = gpu() else { return };
    let batch = 1024;
    let data = walks(4000, STATE, ACTION);
    let norm = Normalization::fit(&data, Scaling::Standard).unwrap();
    let chain = Chain::new(batch);
    let sampler = Sampler::new(&data, &norm, chain.program.layout().clone(), 0.9);
    let mut drawn = sampler.batch(batch);
    sampler.fill(&mut drawn, 3, 0).unwrap();
    let mut cpu = Executor::new(Chain::new(batch).program, Threads::default(), 3);
    let device = (&gpu, Precision::Single);
    let seeds: Vec<u64> = (0..8).collect();
    let mut eight =
        CudaExecutor::new(Chain::new(batch).program.into(), device, (&sampler, None), &seeds)
            .unwrap();
    // Rounding moves some unit or maximum across its kink, and with it a whole row's share of the
    // gradient: such rows give way to others.
    for _ in 0..10 {
        cpu.differentiate(&drawn, 0);
        eight.load(3, &drawn).unwrap();
        eight.differentiate(0).unwrap();
        let expected = chain.kinks(|value| cpu.value(value).to_vec());
        let found = chain.kinks(|value| eight.value(3, value).unwrap());
        let same: Vec<usize> = (0..batch).filter(|&row| expected[row] == found[row]).collect();
        assert!(same.len() > batch / 2, "{} rows of {batch}", same.len());
        if same.len() == batch {
            for arena in chain.arenas {
                let gap = apart(cpu.gradient(arena), &eight.gradient(3, arena).unwrap());
                assert!(gap < 1e-5, "{gap}");
            }
            return;
        }
        for column in &mut drawn.columns {
            let width = column.len() / batch;
            for row in (0..batch).filter(|row| !same.contains(row)) {
                let from = same[row % same.len()] * width;
                column.copy_within(from..from + width, row * width);
            }
        }
    }
    panic!("rows with a kink elsewhere remain");
}

#[test]
fn seeds_that_lie_beyond_two_gibibytes_learn_as_the_first_does() {
    let Some((gpu, _turn)) = gpu() else { return };
    let data = walks(4000, STATE, ACTION);
    let norm = Normalization::fit(&data, Scaling::Standard).unwrap();
    let Chain { program, arenas, .. } = Chain::new(1024);
    let sampler = Sampler::new(&data, &norm, program.layout().clone(), 0.9);
    for precision in [Precision::Single, Precision::Tf32] {
        let executor = |seeds: &[u64]| {
            let program = Chain::new(1024).program;
            CudaExecutor::new(program.into(), (&gpu, precision), (&sampler, None), seeds).unwrap()
        };
        let seeds = vec![3; (2 << 30) / executor(&[3]).bytes() + 2];
        let mut all = executor(&seeds);
        assert!(all.bytes() > 2 << 30);
        all.updates(0, 10).unwrap();
        for arena in arenas {
            let first = all.state(0, arena).unwrap();
            for replica in 0..seeds.len() {
                assert_eq!(all.broken_loss(replica).unwrap(), None);
                let other = all.state(replica, arena).unwrap();
                let gap = first.iter().zip(&other).map(|(a, b)| apart(a, b)).fold(0.0, f64::max);
                assert!(gap < 0.1, "{precision:?}: {gap} for replica {replica} of {}", seeds.len());
            }
        }
    }
}

#[test]
fn an_update_taken_apart_has_every_operation_and_a_chain_shorter_than_their_sum() {
    let Some((gpu, _turn)) = gpu() else { return };
    let data = walks(4000, STATE, ACTION);
    let norm = Normalization::fit(&data, Scaling::Standard).unwrap();
    let Chain { program, .. } = Chain::new(256);
    let sampler = Sampler::new(&data, &norm, program.layout().clone(), 0.9);
    let device = (&gpu, Precision::Tf32);
    let mut executor = CudaExecutor::new(program.into(), device, (&sampler, None), &[3]).unwrap();
    let count = CudaExecutor::TOGETHER;
    executor.updates(0, count).unwrap();
    let parts = executor.dissect(count).unwrap();
    let mut named: Vec<&str> = parts.clock.entries.iter().map(|entry| entry.0).collect();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named, ["adam", "join", "linear", "mean", "mrn_by_row", "sample and load"]);
    let sum: std::time::Duration = parts.clock.entries.iter().map(|entry| entry.2).sum();
    assert!(parts.launches > 20 && parts.chain < sum, "{parts:?}");
}
