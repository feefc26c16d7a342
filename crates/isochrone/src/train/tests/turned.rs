//! A program as no learner has it yet: an operation mixes rows between two that are computed by shards.

use crate::collective::Collective;
use crate::data::sampler::{Column, Layout, Sampler};
use crate::data::{Dataset, Normalization, Scaling};
use crate::engine::{
    Adam, Backward, Executor, Forward, Kernels, Operation, Parameters, Program, Scalar, Threads,
    Window,
};
use crate::nn::{Mlp, Network};
use crate::ops::Scale;

/// Row i of the output is row i + 3 of the input.
struct Turned {
    columns: usize,
}

impl<T: Scalar> Operation<T> for Turned {
    fn name(&self) -> &'static str {
        "turned"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        None
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (rest, first) = run.input(0).split_at(3 * self.columns);
        run.output[..first.len()].copy_from_slice(first);
        run.output[first.len()..].copy_from_slice(rest);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = run.output_gradient.to_vec();
        if let Some(target) = run.input_gradient(0) {
            let (rest, first) = target.split_at_mut(3 * self.columns);
            let gradient = gradient.split_at(first.len());
            first.iter_mut().zip(gradient.0).for_each(|(sum, &x)| *sum += x);
            rest.iter_mut().zip(gradient.1).for_each(|(sum, &x)| *sum += x);
        }
    }
}

/// The bits of all parameters after two updates.
pub fn updated(collective: Collective) -> Vec<u32> {
    let mut parameters = Parameters::default();
    let arena = parameters.arena("net");
    let network = Network { hidden: vec![5], ..Network::default() };
    let [before, after] =
        [(2, 4), (4, 3)].map(|sizes| Mlp::new(&mut parameters, arena, &network, sizes, 1.0));
    let mut program: Program<f32> = Program::new(parameters, 16, 2, 0);
    program.cut(4);
    let state = program.column(Column::State(Layout::START));
    let hidden = before.apply(&mut program, &[state]);
    let turned = program.add(Turned { columns: 4 }, &[hidden], &[], (16, 4));
    let output = after.apply(&mut program, &[turned]);
    let mean = program.mean(output, Scale::Spread);
    let always = Window { from: 0, until: 9 };
    program.descend("x", mean, &[(arena, Adam::default())], always);
    let numbers = (0..80).map(|x| (x as f32).sin()).collect();
    let dataset = Dataset::new(numbers, 2, None, &[40]).unwrap();
    let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
    let sampler = Sampler::new(&dataset, &plain, program.layout().clone(), 0.9);
    let mut batch = sampler.batch(16);
    let mut executor = Executor::among(program.into(), Threads::default(), 4, collective);
    for step in 0..2 {
        sampler.fill(&mut batch, 1, step).unwrap();
        executor.update(&batch, step);
    }
    executor.arena(arena).iter().map(|number| number.to_bits()).collect()
}
