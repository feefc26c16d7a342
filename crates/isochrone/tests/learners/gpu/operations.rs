//! Every operation gives the value and the gradient of the CPU.

use isochrone::data::sampler::{Column, Layout, Offsets, Rows, Sampler};
use isochrone::data::{Normalization, Scaling};
use isochrone::engine::{
    Adam, ArenaId, CudaExecutor, Executor, Gpu, Initial, Parameter, Parameters, Precision, Program,
    Threads, Value,
};
use isochrone::ops::{Activation, Linear, Norm, Scale, Term};

use super::forms::{by_row, layers, many_maxima, pairwise, wide_norms};
use super::{ACTION, ALWAYS, STATE, apart, gpu, walks};

type Build = Box<dyn Fn(&mut Program<f32>, &[Value], &[Parameter]) -> Value>;

/// An operation over free inputs of these widths, with parameters of these shapes.
pub struct Case {
    name: String,
    widths: Vec<usize>,
    shapes: Vec<(usize, usize)>,
    build: Build,
}

pub fn case(
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
    agree_among(gpu, cases, batch, (2, 0.25));
}

/// As [`agree`], as so many replicas; in TF32 gradients are apart by at most so much.
fn agree_among(gpu: &Gpu, cases: &[Case], batch: usize, (replicas, most): (u64, f64)) {
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
        [(Precision::Single, (1e-5, 1e-5)), (Precision::Tf32, (1e-2, most))]
    {
        let again = together(cases, batch).0;
        let seeds: Vec<u64> = (0..replicas).map(|at| if at == 1 { 11 } else { 12 + at }).collect();
        let mut executor =
            CudaExecutor::new(again.into(), (gpu, precision), (&sampler, None), &seeds).unwrap();
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

#[test]
fn every_operation_gives_the_value_and_the_gradient_of_the_cpu() {
    let Some((gpu, _turn)) = gpu() else { return };
    let mut all: Vec<Case> = layers().into_iter().chain(by_row()).chain(pairwise()).collect();
    all.extend(wide_norms());
    all.push(many_maxima());
    agree(&gpu, &all, 100);
    agree(&gpu, &all, 256);
    // More pairs take other kernels.
    let mut pairs = pairwise();
    pairs.push(many_maxima());
    agree(&gpu, &pairs, 700);
    // Rows of pairs that begin nowhere near a multiple of four.
    agree(&gpu, &pairwise(), 67);
}

/// So many replicas that gradients of weights have larger tiles, of which these shapes leave some in part.
#[test]
fn weights_of_many_replicas_have_the_gradients_of_the_cpu() {
    let Some((gpu, _turn)) = gpu() else { return };
    let layer = |inputs: usize, outputs: usize| {
        let (activation, norm) = (Activation::Gelu, Norm::Layer);
        let shape = Linear { inputs, outputs, activation, norm };
        let shapes = [(inputs, outputs), (1, outputs), (1, outputs), (1, outputs)];
        case(format!("{inputs} to {outputs}"), &[inputs], &shapes, move |p, x, w| {
            p.linear(shape, x[0], w)
        })
    };
    for batch in [100, 1024] {
        agree_among(&gpu, &[layer(256, 256), layer(200, 70), layer(64, 502)], batch, (16, 1e-2));
    }
}
