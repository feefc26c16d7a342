//! Batches that a GPU draws are those of the CPU.

use isochrone::data::sampler::{
    Column, End, First, GoalMix, Layout, Offsets, Rows, RowsId, Sampler, Waypoints,
};
use isochrone::data::{Even, Features, Normalization, Scaling};
use isochrone::engine::{Adam, CudaExecutor, Initial, Parameters, Precision, Program};
use isochrone::ops::{Activation, Linear, Norm, Scale};

use super::{ACTION, ALWAYS, STATE, gpu, walks};

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
        let sampler = Sampler::new(data, &norm, program.layout().clone(), 0.97);
        let seeds = [5u64, (77 << 40) + 9];
        let mut executor =
            CudaExecutor::new(program.into(), (&gpu, Precision::Tf32), (&sampler, None), &seeds)
                .unwrap();
        for step in (0..20u64).chain([1 << 33, (1 << 40) + 5]) {
            executor.draw(step).unwrap();
            for (replica, &seed) in seeds.iter().enumerate() {
                drawn(&executor, replica, &sampler, (seed, step), &choices);
            }
        }
    }
}

/// Checks that a replica has drawn the batch of a seed and a step.
fn drawn(
    executor: &CudaExecutor,
    replica: usize,
    sampler: &Sampler<'_>,
    (seed, step): (u64, u64),
    choices: &[RowsId],
) {
    let mut batch = sampler.batch(1000);
    sampler.fill(&mut batch, seed, step).unwrap();
    let rows: Vec<u32> = choices.iter().flat_map(|&choice| batch.rows(choice).to_vec()).collect();
    assert!(executor.rows(replica).unwrap() == rows, "rows of step {step}");
    let found = executor.columns(replica).unwrap();
    // Noise is the last two columns.
    let noise_from = found.len() - 2;
    for (at, (found, expected)) in found.iter().zip(&batch.columns).enumerate() {
        let most = i64::from(at >= noise_from);
        let bits = |x: &f32| i64::from(x.to_bits());
        let near = |(x, y): (&f32, &f32)| (bits(x) - bits(y)).abs() <= most;
        assert!(found.iter().zip(expected).all(near), "column {at} of step {step}");
    }
}

#[test]
fn every_replica_draws_from_its_own_recording() {
    let Some((gpu, _turn)) = gpu() else { return };
    let recordings = [20000, 3000].map(|rows| walks(rows, STATE, ACTION));
    let law = Offsets { from: First::Zero, end: End::Truncate };
    let (program, choices) = all_columns(law, STATE);
    let norms =
        recordings.each_ref().map(|data| Normalization::fit(data, Scaling::Standard).unwrap());
    let samplers: Vec<Sampler<'_>> = recordings
        .iter()
        .zip(&norms)
        .map(|(data, norm)| Sampler::new(data, norm, program.layout().clone(), 0.97))
        .collect();
    let (device, first) = ((&gpu, Precision::Tf32), (&samplers[0], None));
    let mut executor = CudaExecutor::new(program.into(), device, first, &[5, 5, 6]).unwrap();
    let second = executor.add_recording((&samplers[1], None)).unwrap();
    executor.set_recording(1, second).unwrap();
    for step in [0, 1, 1 << 33] {
        executor.draw(step).unwrap();
        for (replica, recording, seed) in [(0, 0, 5), (1, 1, 5), (2, 0, 6)] {
            drawn(&executor, replica, &samplers[recording], (seed, step), &choices);
        }
    }
}
