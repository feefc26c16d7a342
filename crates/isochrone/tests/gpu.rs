//! A GPU computes what the CPU computes: every operation, every batch, every learner, and several
//! seeds side by side. Where there is no GPU, each test says so and passes.
#![allow(clippy::unwrap_used)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use isochrone::algorithms::{Algorithm, Config, Problem};
use isochrone::data::sampler::{
    Column, End, First, GoalMix, Layout, Offsets, Rows, RowsId, Sampler, Waypoints,
};
use isochrone::data::{Dataset, Even, Features, Normalization, Scaling};
use isochrone::engine::{
    Adam, ArenaId, Chosen, CudaExecutor, Device, Executor, Gpu, Initial, Parameter, Parameters,
    Precision, Program, Threads, Value, Window,
};
use isochrone::ops::*;
use isochrone::random::{Purpose, Stream};

const ALWAYS: Window = Window { from: 0, until: 1 << 40 };
const STATE: usize = 5;
const ACTION: usize = 3;
/// Tests take turns at the GPU.
static TURN: Mutex<()> = Mutex::new(());

/// The first GPU and a turn at it; without one a line says that a test is skipped.
fn gpu() -> Option<(Gpu, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match Device::Cuda(0).choose() {
        Ok(Chosen::Cuda(gpu)) => Some((gpu, turn)),
        Ok(_) => None,
        Err(error) => {
            let line = format!("skipped: {error}\n");
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
            None
        }
    }
}

/// Walks of 50 steps.
fn walks(rows: usize, state: usize, action: usize) -> Dataset {
    let mut draws = Stream::new(1, Purpose(900)).draws(0, 0);
    let mut states = vec![0.0f32; rows * state];
    for at in 0..states.len() {
        let before = if (at / state).is_multiple_of(50) { 0.0 } else { states[at - state] };
        states[at] = before + 0.1 * draws.normal() as f32;
    }
    let actions = (0..rows * action).map(|_| draws.between(-1.0, 1.0) as f32).collect();
    Dataset::new(states, state, Some((actions, action)), &vec![50; rows / 50]).unwrap()
}

/// The largest distance of two lists over the largest number of the first.
fn apart(expected: &[f32], found: &[f32]) -> f64 {
    assert_eq!(expected.len(), found.len());
    let top = expected.iter().fold(1e-20, |top, x| f64::max(top, x.abs().into()));
    let gap = |(x, y): (&f32, &f32)| f64::from((x - y).abs());
    let gaps = expected.iter().zip(found).map(gap);
    gaps.map(|gap| if gap.is_nan() { f64::INFINITY } else { gap }).fold(0.0, f64::max) / top
}

type Build = Box<dyn Fn(&mut Program<f32>, &[Value], &[Parameter]) -> Value>;

/// An operation over free inputs of these widths, with parameters of these shapes.
struct Case {
    name: String,
    widths: Vec<usize>,
    shapes: Vec<(usize, usize)>,
    build: Build,
}

fn case(
    name: impl Into<String>,
    widths: &[usize],
    shapes: &[(usize, usize)],
    build: impl Fn(&mut Program<f32>, &[Value], &[Parameter]) -> Value + 'static,
) -> Case {
    let (widths, shapes) = (widths.to_vec(), shapes.to_vec());
    Case { name: name.into(), widths, shapes, build: Box::new(build) }
}

/// One program with all cases, each over layers of its own arena, and one loss: their sum.
fn together(cases: &[Case], batch: usize) -> (Program<f32>, Vec<(Value, ArenaId)>) {
    let mut parameters = Parameters::default();
    let mut declared = Vec::new();
    for case in cases {
        let arena = parameters.arena(&case.name);
        let mut add = |shape| parameters.add(arena, "any", shape, Initial::Uniform(1.0));
        let layers: Vec<[Parameter; 2]> =
            case.widths.iter().map(|&width| [add((STATE, width)), add((1, width))]).collect();
        let own: Vec<Parameter> = case.shapes.iter().map(|&shape| add(shape)).collect();
        declared.push((arena, layers, own));
    }
    let mut program = Program::new(parameters, batch, STATE, ACTION);
    let rows =
        [Layout::START, program.rows(Rows::Random), program.rows(Rows::Future(Offsets::default()))];
    let (mut terms, mut found, mut arenas) = (Vec::new(), Vec::new(), Vec::new());
    for (case, (arena, layers, own)) in cases.iter().zip(&declared) {
        let mut inputs = Vec::new();
        for (at, layer) in layers.iter().enumerate() {
            let state = program.column(Column::State(rows[at % 3]));
            let (activation, norm) = (Activation::Identity, Norm::None);
            let shape = Linear { inputs: STATE, outputs: case.widths[at], activation, norm };
            inputs.push(program.linear(shape, state, layer));
        }
        let out = (case.build)(&mut program, &inputs, own);
        let mut loss = out;
        if (out.rows, out.columns) != (1, 1) {
            let noise = program.column(Column::Noise(out.columns));
            let by_row = program.inner_products_by_row(out, noise, 1.0);
            loss = program.mean(by_row, Scale::Unit);
        }
        terms.push(Term::new(1.0, loss));
        found.push((out, *arena));
        arenas.push((*arena, Adam::default()));
    }
    let loss = program.combine(&terms);
    program.descend("all", loss, &arenas, ALWAYS);
    (program, found)
}

/// Values and gradients of all cases, on the CPU and as two replicas in both precisions. In single precision
/// they are apart by rounding alone; in TF32 some maxima are found elsewhere.
fn agree(gpu: &Gpu, cases: &[Case], batch: usize) {
    let data = walks(4000, STATE, ACTION);
    let norm = Normalization::fit(&data, Scaling::Standard).unwrap();
    let (program, places) = together(cases, batch);
    let sampler = Sampler::new(&data, &norm, program.layout().clone(), 0.9);
    let mut drawn = sampler.batch(batch);
    sampler.fill(&mut drawn, 3, 7).unwrap();
    let mut cpu = Executor::new(program, Threads::default(), 11);
    cpu.differentiate(&drawn, 0);
    let mut wrong = Vec::new();
    for (precision, (most_value, most_gradient)) in
        [(Precision::Single, (1e-5, 1e-5)), (Precision::Tf32, (1e-2, 0.25))]
    {
        let again = together(cases, batch).0;
        let seeds = [12, 11];
        let mut executor =
            CudaExecutor::new(again, (gpu, precision), (&sampler, None), &seeds).unwrap();
        executor.load(1, &drawn).unwrap();
        executor.differentiate(0).unwrap();
        for (case, &(out, arena)) in cases.iter().zip(&places) {
            let value = apart(cpu.value(out), &executor.value(1, out).unwrap());
            let gradient = apart(cpu.gradient(arena), &executor.gradient(1, arena).unwrap());
            if value > most_value || gradient > most_gradient {
                wrong.push(format!(
                    "{batch} {precision:?} {} {value:.1e} {gradient:.1e}",
                    case.name
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn pairwise() -> Vec<Case> {
    let mut all = Vec::new();
    for (components, maxima, squares) in [(1, 8, 8), (2, 3, 3), (1, 24, 0), (1, 20, 20), (1, 0, 16)]
    {
        let shape = Mrn { components, maxima, squares };
        let (width, name) = (shape.width(), format!("mrn {components} {maxima} {squares}"));
        all.push(case(&name, &[width, width], &[], move |p, x, _| p.mrn(shape, x[0], x[1])));
        all.push(case(format!("{name} by row"), &[width, width], &[], move |p, x, _| {
            p.mrn_by_row(shape, x[0], x[1])
        }));
    }
    let shape = Iqe { groups: 3, size: 8 };
    all.push(case("iqe", &[24, 24], &[(1, 1)], move |p, x, w| p.iqe(shape, w[0], x[0], x[1])));
    all.push(case("iqe by row", &[24, 24], &[(1, 1)], move |p, x, w| {
        p.iqe_by_row(shape, w[0], x[0], x[1])
    }));
    for head in [
        DifferenceHead::PqeLh(PqeLh { groups: 3, size: 4 }),
        DifferenceHead::WideNorm(WideNorm { latent: 12, components: 2, size: 3 }),
        DifferenceHead::DeepNorm(DeepNorm { latent: 12, layers: 3, units: 8 }),
    ] {
        for by_row in [false, true] {
            let shapes = [(1, head.raw()), (1, head.free())];
            let count = if head.free() > 0 { 2 } else { 1 };
            all.push(case(
                format!("{head:?} {by_row}"),
                &[12, 12],
                &shapes[..count],
                move |p, x, w| p.difference(head, w, (x[0], x[1]), by_row),
            ));
        }
    }
    for directions in [
        Directions::Symmetric,
        Directions::Forward,
        Directions::ForwardFree,
        Directions::Backward,
        Directions::Binary,
    ] {
        all.push(case(format!("info_nce {directions:?}"), &[4, 4], &[], move |p, x, _| {
            let logits = p.inner_products(x[0], x[1], 0.7);
            p.info_nce(logits, directions)
        }));
    }
    all.push(case("scores", &[4, 4, 1], &[], |p, x, _| {
        let products = p.inner_products(x[0], x[1], 1.0);
        p.scores(Some(x[2]), products, 0.7)
    }));
    all.push(case("scores alone", &[4, 4], &[], |p, x, _| {
        let products = p.inner_products(x[0], x[1], 1.0);
        p.scores(None, products, 0.7)
    }));
    for targets in [Targets::Raw, Targets::Clamped] {
        all.push(case(
            format!("distillation {targets:?}"),
            &[4, 4, 4, 4, 1],
            &[(1, 1)],
            move |p, x, w| {
                let (first, second) =
                    (p.inner_products(x[0], x[1], 1.0), p.inner_products(x[2], x[3], 1.0));
                let target = p.targets(x[4], second, targets);
                let (over, under) = (p.excess(first, target), p.shortfall(first, target));
                let factor = p.multiplier(Multiplier::Floored, w[0]);
                let share = p.negative_share(x[4], second);
                p.report("negative", share);
                p.combine(&[
                    Term { constant: 0.7, factor: Some((factor, 0.5)), of: over },
                    Term { constant: 1.3, factor: Some((factor, -0.5)), of: under },
                    Term::new(-0.3, factor),
                    Term::new(1.0, over),
                    Term::new(0.5, under),
                ])
            },
        ));
    }
    all.push(case("backup", &[4, 4, 4, 4], &[], |p, x, _| {
        let (first, second) =
            (p.inner_products(x[0], x[1], 1.0), p.inner_products(x[2], x[3], 1.0));
        let way = p.rows(Rows::Waypoint(Waypoints::default(), Layout::START));
        let gaps = p.column(Column::Gap(way));
        p.backup(Backup { discount: 0.9, cutoff: 1.0, diagonal: 0.4 }, first, second, gaps)
    }));
    all
}

fn layers() -> Vec<Case> {
    let mut all = Vec::new();
    for activation in [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::Swish]
    {
        for norm in [Norm::None, Norm::Layer] {
            let shape = Linear { inputs: 8, outputs: 40, activation, norm };
            let shapes = [(8, 40), (1, 40), (1, 40), (1, 40)];
            let count = if norm == Norm::Layer { 4 } else { 2 };
            all.push(case(
                format!("linear {activation:?} {norm:?}"),
                &[8],
                &shapes[..count],
                move |p, x, w| p.linear(shape, x[0], w),
            ));
        }
    }
    all.push(case(
        "three layers",
        &[8],
        &[(8, 64), (1, 64), (64, 64), (1, 64), (64, 3), (1, 3)],
        |p, x, w| {
            let shape = |inputs, outputs, activation| Linear {
                inputs,
                outputs,
                activation,
                norm: Norm::None,
            };
            let first = p.linear(shape(8, 64, Activation::Relu), x[0], &w[..2]);
            let second = p.linear(shape(64, 64, Activation::Relu), first, &w[2..4]);
            p.linear(shape(64, 3, Activation::Identity), second, &w[4..])
        },
    ));
    all
}

fn by_row() -> Vec<Case> {
    let mut all = vec![
        case("clip", &[3], &[], |p, x, _| p.clip(x[0])),
        case("join", &[3, 4, 1], &[], |p, x, _| p.join(&[x[1], x[0], x[2], x[1], x[0]])),
        case("gaussian", &[3], &[], |p, x, _| {
            let action = p.column(Column::Action(Layout::START));
            p.gaussian(x[0], action, 0.7)
        }),
        case("tanh_gaussian", &[6], &[], |p, x, _| {
            let action = p.column(Column::Action(Layout::START));
            p.tanh_gaussian(x[0], action)
        }),
        case("tanh_sample", &[6], &[], |p, x, _| {
            let noise = p.column(Column::Noise(3));
            p.tanh_sample(x[0], noise)
        }),
        case("closeness", &[1], &[], |p, x, _| p.closeness(x[0])),
        case("expectile", &[1, 1, 1], &[], |p, x, _| p.expectile(x[0], x[1], x[2], 0.9)),
        case("hinge", &[1], &[], |p, x, _| p.hinge(x[0], 0.2)),
        case("push", &[1], &[], |p, x, _| p.push(Push { offset: 1.5, scale: 2.0 }, x[0])),
        case("recursive_classification", &[1, 1, 1], &[], |p, x, _| {
            p.recursive_classification(x[0], x[1], x[2], 0.9)
        }),
        case("sphere", &[40], &[], |p, x, _| p.sphere(x[0])),
        case("weighted_sum", &[3, 3], &[], |p, x, _| {
            p.weighted_sum(&[(0.7, x[0]), (-2.0, x[1]), (1.5, x[0]), (0.3, x[1]), (0.2, x[0])])
        }),
        case("categorical", &[4, 4], &[], |p, x, _| {
            let best = p.most_likely(x[1]);
            p.categorical(x[0], best)
        }),
        case("log_mean_exp", &[3, 3, 3], &[], |p, x, _| {
            let both = p.log_mean_exp(&[x[0], x[1]]);
            p.inner_products_by_row(both, x[2], 1.0)
        }),
    ];
    for scale in [Scale::Unit, Scale::Magnitude, Scale::Spread] {
        all.push(case(format!("mean {scale:?}"), &[3], &[], move |p, x, _| p.mean(x[0], scale)));
    }
    for which in [Extremum::Least, Extremum::Largest] {
        all.push(case(format!("extremum {which:?}"), &[3, 3, 3], &[], move |p, x, _| {
            p.extremum_of(which, &[x[0], x[1], x[2], x[0]])
        }));
    }
    for standardize in [Standardize::None, Standardize::Batch] {
        all.push(case(format!("advantage {standardize:?}"), &[1, 1, 1], &[], move |p, x, _| {
            let weights = AdvantageWeights { inverse_temperature: 1.0, standardize };
            p.advantage_regression(x[0], x[1], x[2], weights)
        }));
    }
    for held in [false, true] {
        all.push(case(format!("bootstrap held {held}"), &[1, 1], &[], move |p, x, _| {
            let goal = p.rows(Rows::Mixed(GoalMix::VALUES, Offsets::default()));
            let reached = p.column(Column::Reached(Layout::START, goal, Some(0.5)));
            let target = p.bootstrap(Bootstrap { discount: 0.9, held }, x[0], reached);
            p.squared_error(x[1], target)
        }));
    }
    for form in [Multiplier::Floored, Multiplier::Softplus, Multiplier::Exponential] {
        all.push(case(format!("multiplier {form:?}"), &[1], &[(1, 1)], move |p, x, w| {
            let (factor, mean) = (p.multiplier(form, w[0]), p.mean(x[0], Scale::Unit));
            p.combine(&[Term::new(1.0, factor), Term::new(1.0, mean)])
        }));
    }
    all
}

#[test]
fn every_operation_gives_the_value_and_the_gradient_of_the_cpu() {
    let Some((gpu, _turn)) = gpu() else { return };
    let all: Vec<Case> = layers().into_iter().chain(by_row()).chain(pairwise()).collect();
    agree(&gpu, &all, 100);
    agree(&gpu, &all, 256);
    // More pairs take other kernels.
    agree(&gpu, &pairwise(), 700);
}

/// Sizes of the policy's chain below: those of the paper.
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
        CudaExecutor::new(Chain::new(batch).program, device, (&sampler, None), &seeds).unwrap();
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
            CudaExecutor::new(program, (&gpu, precision), (&sampler, None), seeds).unwrap()
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

/// A program with every choice of rows and every column, over states `width` wide.
fn all_columns(law: Offsets, width: usize) -> (Program<f32>, Vec<RowsId>) {
    let mut parameters = Parameters::default();
    let arena = parameters.arena("any");
    let mut add = |shape| parameters.add(arena, "any", shape, Initial::Uniform(1.0));
    let layer = [add((width, 1)), add((1, 1))];
    let mut program: Program<f32> = Program::new(parameters, 1000, width, ACTION);
    let state = program.column(Column::State(Layout::START));
    let (activation, norm) = (Activation::Identity, Norm::None);
    let out = program.linear(Linear { inputs: width, outputs: 1, activation, norm }, state, &layer);
    let loss = program.mean(out, Scale::Unit);
    program.descend("any", loss, &[(arena, Adam::default())], ALWAYS);
    let future = program.rows(Rows::Future(law));
    let (next, random) = (program.rows(Rows::Next), program.rows(Rows::Random));
    let mix = GoalMix { current: 0.15, future: 0.3, trajectory: 0.25, random: 0.3 };
    let mixed = program.rows(Rows::Mixed(mix, law));
    let way = program.rows(Rows::Waypoint(Waypoints::default(), mixed));
    let ahead = program.rows(Rows::Ahead(5, Some(way)));
    let free = program.rows(Rows::Ahead(7, None));
    for column in [
        Column::State(future),
        Column::State(next),
        Column::State(random),
        Column::State(mixed),
        Column::State(free),
        Column::Action(future),
        Column::PermutedAction(future, 0),
        Column::PermutedAction(mixed, 1),
        Column::RolledAction(random),
        Column::Gap(way),
        Column::Gap(ahead),
        Column::Reached(ahead, mixed, None),
        Column::Reached(way, mixed, Some(0.4)),
        Column::Noise(3),
        Column::Noise(7),
    ] {
        program.column(column);
    }
    (program, vec![Layout::START, future, next, random, mixed, way, ahead, free])
}

#[test]
fn batches_drawn_there_are_those_of_the_cpu_bit_for_bit_and_noise_to_the_last_bit() {
    let Some((gpu, _turn)) = gpu() else { return };
    let data = walks(20000, STATE, ACTION);
    let plain = Normalization::fit(&data, Scaling::Standard).unwrap();
    let waves = Features::Fourier { axes: vec![0, 1], count: 8, length: 2.0 };
    let even = Even { axes: vec![0, 1], side: 0.2, share: 0.4 };
    let evened = data.clone().evened(&even).unwrap();
    for (from, end, width, norm, data) in [
        (First::Zero, End::Truncate, STATE, plain.clone(), &data),
        (First::One, End::Clip, STATE, plain.clone(), &evened),
        (First::Zero, End::Clip, STATE + 16, plain.with(waves), &data),
    ] {
        let (program, choices) = all_columns(Offsets { from, end }, width);
        let noise_from = program.layout().columns().len() - 2;
        let sampler = Sampler::new(data, &norm, program.layout().clone(), 0.97);
        let seeds = [5u64, (77 << 40) + 9];
        let mut executor =
            CudaExecutor::new(program, (&gpu, Precision::Tf32), (&sampler, None), &seeds).unwrap();
        let mut batch = sampler.batch(1000);
        for step in (0..20u64).chain([1 << 33, (1 << 40) + 5]) {
            executor.draw(step).unwrap();
            for (replica, &seed) in seeds.iter().enumerate() {
                sampler.fill(&mut batch, seed, step).unwrap();
                let rows: Vec<u32> =
                    choices.iter().flat_map(|&choice| batch.rows(choice).to_vec()).collect();
                assert!(executor.rows(replica).unwrap() == rows, "rows of step {step}");
                let found = executor.columns(replica).unwrap();
                for (at, (found, expected)) in found.iter().zip(&batch.columns).enumerate() {
                    let most = i64::from(at >= noise_from);
                    let bits = |x: &f32| i64::from(x.to_bits());
                    let near = |(x, y): (&f32, &f32)| (bits(x) - bits(y)).abs() <= most;
                    assert!(found.iter().zip(expected).all(near), "column {at} of step {step}");
                }
            }
        }
    }
}

/// Updates of a whole run, and of its first and last part.
const STEPS: u64 = 1000;
const PART: u64 = 100;
const BATCH: usize = 64;

fn declared(config: &Config, data: &Dataset) -> Program<f32> {
    let (state_size, action_size) = (data.state_size(), data.action_size());
    let mut parameters = Parameters::default();
    let (steps, discount, radius) = (STEPS, 0.95, Some(0.3));
    let problem =
        Problem { state_size, goal_size: state_size, action_size, steps, discount, radius };
    let learner = config.fitted(data).unwrap().build(problem, &mut parameters).unwrap();
    let mut program = Program::new(parameters, BATCH, state_size, action_size);
    learner.declare(&mut program);
    program
}

/// What a run leaves behind: the parameters after its first part, all numbers at the end, and the
/// mean of every metric over its last part.
struct Trace {
    early: Vec<Vec<f32>>,
    state: Vec<[Vec<f32>; 3]>,
    means: Vec<f64>,
}

impl Trace {
    fn on_cpu(executor: &mut Executor<f32>, sampler: &Sampler<'_>, seed: u64) -> Self {
        let arenas: Vec<ArenaId> = executor.program().parameters().arenas().collect();
        let mut means = vec![0.0; executor.program().metrics().len()];
        let (mut batch, mut early, mut metrics) = (sampler.batch(BATCH), Vec::new(), Vec::new());
        for step in 0..STEPS {
            sampler.fill(&mut batch, seed, step).unwrap();
            executor.update(&batch, step);
            if step + 1 == PART {
                early = arenas.iter().map(|&arena| executor.state(arena)[0].to_vec()).collect();
            }
            if step + PART >= STEPS {
                executor.metrics(step, &mut metrics);
                add_share(&mut means, &metrics);
            }
        }
        let state = arenas.iter().map(|&arena| executor.state(arena).map(<[f32]>::to_vec));
        Self { early, state: state.collect(), means }
    }

    fn on_gpu(executor: &mut CudaExecutor, replica: usize) -> Self {
        let arenas: Vec<ArenaId> = executor.program().parameters().arenas().collect();
        let mut means = vec![0.0; executor.program().metrics().len()];
        let mut metrics = Vec::new();
        executor.updates(0, PART).unwrap();
        let early = arenas.iter().map(|&arena| executor.state(replica, arena).unwrap()[0].clone());
        let early = early.collect();
        executor.updates(PART, STEPS - 2 * PART).unwrap();
        for step in STEPS - PART..STEPS {
            executor.update(step).unwrap();
            executor.metrics(replica, step, &mut metrics).unwrap();
            add_share(&mut means, &metrics);
        }
        assert_eq!(executor.broken_loss(replica).unwrap(), None);
        let state = arenas.iter().map(|&arena| executor.state(replica, arena).unwrap());
        Self { early, state: state.collect(), means }
    }

    /// How far parameters are apart after the first part.
    fn early_from(&self, other: &Self) -> f64 {
        self.early.iter().zip(&other.early).map(|(a, b)| apart(a, b)).fold(0.0, f64::max)
    }

    /// How far metrics are apart at the end, as a share of themselves.
    fn late_from(&self, other: &Self) -> f64 {
        let share = |(a, b): (&f64, &f64)| (a - b).abs() / (a.abs() + 0.02);
        let shares = self.means.iter().zip(&other.means).map(share);
        shares.map(|share| if share.is_nan() { 0.0 } else { share }).fold(0.0, f64::max)
    }
}

fn add_share(means: &mut [f64], metrics: &[f64]) {
    means.iter_mut().zip(metrics).for_each(|(mean, metric)| *mean += metric / PART as f64);
}

/// One update from the numbers that a run on the other device has left.
fn resumed(cpu: &mut Executor<f32>, gpu: &mut CudaExecutor, sampler: &Sampler<'_>) -> f64 {
    let arenas: Vec<ArenaId> = cpu.program().parameters().arenas().collect();
    for &arena in &arenas {
        gpu.set_state(0, arena, cpu.state(arena)).unwrap();
    }
    let mut batch = sampler.batch(BATCH);
    sampler.fill(&mut batch, 4, STEPS - 1).unwrap();
    cpu.update(&batch, STEPS - 1);
    gpu.update(STEPS - 1).unwrap();
    let gap = |&arena: &ArenaId| {
        let (ours, theirs) = (cpu.state(arena), gpu.state(0, arena).unwrap());
        ours.iter().zip(&theirs).map(|(a, b)| apart(a, b)).fold(0.0, f64::max)
    };
    arenas.iter().map(gap).fold(0.0, f64::max)
}

/// A thousand updates of the learner called `name` on both devices, alone and among others.
fn agrees(name: &str) {
    let Some((gpu, _turn)) = gpu() else { return };
    let data = walks(20000, 6, 2);
    let norm = Normalization::fit(&data, Scaling::Standard).unwrap();
    let config = Config::named(name).unwrap();
    let program = || declared(&config, &data);
    let sampler = Sampler::new(&data, &norm, program().layout().clone(), 0.95);
    let executor = |precision, seeds: &[u64]| {
        CudaExecutor::new(program(), (&gpu, precision), (&sampler, None), seeds).unwrap()
    };
    let mut cpu = Executor::new(program(), Threads::default(), 4);
    let expected = Trace::on_cpu(&mut cpu, &sampler, 4);
    let mut alone = executor(Precision::Single, &[4]);
    let single = Trace::on_gpu(&mut alone, 0);
    let again = Trace::on_gpu(&mut executor(Precision::Single, &[4]), 0);
    let replica = Trace::on_gpu(&mut executor(Precision::Single, &[9, 4, 1, 0, 2, 3, 5, 6]), 1);
    let rounded = Trace::on_gpu(&mut executor(Precision::Tf32, &[4]), 0);
    let rounded_again = Trace::on_gpu(&mut executor(Precision::Tf32, &[4]), 0);
    assert!(single.state == again.state, "two runs in single precision give the same bits");
    assert!(rounded.state == rounded_again.state, "two runs in TF32 give the same bits");
    let early = [&single, &replica, &rounded].map(|trace| expected.early_from(trace));
    let late = [&single, &replica, &rounded].map(|trace| expected.late_from(trace));
    let resumed = resumed(&mut cpu, &mut alone, &sampler);
    assert!(early[0] < 0.02 && early[1] < 0.02 && early[2] < 0.1, "{early:?}");
    assert!(late.iter().all(|&gap| gap < 0.3), "{late:?}");
    assert!(resumed < 1e-3, "{resumed}");
}

#[test]
fn an_update_reads_the_numbers_that_were_set_just_before() {
    let Some((gpu, _turn)) = gpu() else { return };
    let data = walks(4000, 6, 2);
    let norm = Normalization::fit(&data, Scaling::Standard).unwrap();
    let program = declared(&Config::named("cmd1").unwrap(), &data);
    let sampler = Sampler::new(&data, &norm, program.layout().clone(), 0.95);
    let device = (&gpu, Precision::Tf32);
    let mut executor = CudaExecutor::new(program, device, (&sampler, None), &[4, 5]).unwrap();
    let arenas: Vec<ArenaId> = executor.program().parameters().arenas().collect();
    let states = |executor: &CudaExecutor| -> Vec<[Vec<f32>; 3]> {
        arenas.iter().map(|&arena| executor.state(1, arena).unwrap()).collect()
    };
    executor.updates(0, 10).unwrap();
    let (before, mut after) = (states(&executor), None);
    for _ in 0..100 {
        for (&arena, state) in arenas.iter().zip(&before) {
            executor.set_state(1, arena, state.each_ref().map(Vec::as_slice)).unwrap();
        }
        executor.update(10).unwrap();
        let found = states(&executor);
        assert!(*after.get_or_insert_with(|| found.clone()) == found);
        executor.updates(11, 8).unwrap();
    }
}

macro_rules! learners {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                agrees($name);
            }
        )*

        #[test]
        fn every_learner_is_among_them() {
            assert_eq!([$($name),*], Config::NAMES);
        }
    };
}

learners! {
    cmd1_agrees_repeats_and_resumes: "cmd1",
    cmd2_agrees_repeats_and_resumes: "cmd2",
    mqe_agrees_repeats_and_resumes: "mqe",
    tmd_agrees_repeats_and_resumes: "tmd",
    qrl_agrees_repeats_and_resumes: "qrl",
    crl_agrees_repeats_and_resumes: "crl",
    gcbc_agrees_repeats_and_resumes: "gcbc",
    gcivl_agrees_repeats_and_resumes: "gcivl",
    gciql_agrees_repeats_and_resumes: "gciql",
    hiql_agrees_repeats_and_resumes: "hiql",
    ddpg_agrees_repeats_and_resumes: "ddpg",
    c_learning_agrees_repeats_and_resumes: "c-learning",
}
