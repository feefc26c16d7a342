//! Multilayer perceptrons: hidden layers with activation and norm, then a plain linear layer.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::engine::{
    ABREAST, Abreast, ArenaId, Initial, Parameter, Parameters, Program, Scalar, Threads, Value,
    can_abreast, from_abreast, lay_abreast,
};
use crate::error::{Error, Result};
use crate::ops::{Activation, Linear, Norm, Weights};

/// The shape of a network between its inputs and outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Activation of the hidden layers.
    pub activation: Activation,
    /// Norm of the hidden layers.
    pub norm: Norm,
    /// First values of the weights. Biases begin at 0, but with `fan-in` those of a first layer with a
    /// norm half as wide as its weights.
    pub initialization: Initialization,
}

impl Default for Network {
    /// The shape that solved the 2-D task: two layers of 128, ReLU, no norm.
    fn default() -> Self {
        Self {
            hidden: vec![128, 128],
            activation: Activation::Relu,
            norm: Norm::None,
            initialization: Initialization::FanIn,
        }
    }
}

impl Network {
    /// Checks that every layer has a width; `key` is where the network stands in a config.
    ///
    /// # Errors
    /// Names the key of a layer without one.
    pub fn check(&self, key: &str) -> Result<()> {
        if !self.hidden.contains(&0) {
            return Ok(());
        }
        Err(Error::input(format!(
            "`{key}.hidden` is `{:?}`, expected positive widths",
            self.hidden
        ))
        .hint("the default is `[128, 128]`"))
    }
}

/// How wide the first weights of a layer are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initialization {
    /// Uniform within ±√(3 / inputs).
    FanIn,
    /// Uniform within ±√(6 / (inputs + outputs)).
    Glorot,
}

impl Initialization {
    fn bound(self, inputs: usize, outputs: usize) -> f64 {
        match self {
            Self::FanIn => (3.0 / inputs as f64).sqrt(),
            Self::Glorot => (6.0 / (inputs + outputs) as f64).sqrt(),
        }
    }
}

/// How wide the first biases of a first layer with a norm are spread, beside its weights. With half as much
/// the middle of the data was still learned worse than the rest, with twice as much one-way doors were.
const FIRST_BIAS: f64 = 0.5;

/// A network in an arena.
#[derive(Debug, Clone)]
pub struct Mlp {
    arena: ArenaId,
    layers: Vec<(Linear, Vec<Parameter>)>,
}

impl Mlp {
    /// Adds a network to `arena`; the weights of its last layer begin `last_scale` times as wide.
    pub fn new(
        parameters: &mut Parameters,
        arena: ArenaId,
        network: &Network,
        (inputs, outputs): (usize, usize),
        last_scale: f64,
    ) -> Self {
        let widths: Vec<usize> = std::iter::once(inputs)
            .chain(network.hidden.iter().copied())
            .chain(std::iter::once(outputs))
            .collect();
        let last = widths.len() - 2;
        let mut layers = Vec::new();
        for (at, pair) in widths.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let shape = if at == last {
                Linear { inputs, outputs, activation: Activation::Identity, norm: Norm::None }
            } else {
                Linear { inputs, outputs, activation: network.activation, norm: network.norm }
            };
            let scale = if at == last { last_scale } else { 1.0 };
            let bound = network.initialization.bound(inputs, outputs);
            let weight = Initial::Uniform(scale * bound);
            // A norm blows up whatever its layer makes of the state in the middle of the data, whose
            // inputs are all near 0: without biases neighbours there would lie far apart.
            let bias = match (at, shape.norm, network.initialization) {
                (0, Norm::Layer, Initialization::FanIn) => Initial::Uniform(FIRST_BIAS * bound),
                _ => Initial::Constant(0.0),
            };
            let mut add = |name: &str, rows: usize, initial: Initial| {
                parameters.add(arena, &format!("layer{at}.{name}"), (rows, outputs), initial)
            };
            let mut views = vec![add("weight", inputs, weight), add("bias", 1, bias)];
            if shape.norm == Norm::Layer {
                views.push(add("gain", 1, Initial::Constant(1.0)));
                views.push(add("shift", 1, Initial::Constant(0.0)));
            }
            layers.push((shape, views));
        }
        Self { arena, layers }
    }

    /// The arena the network lives in.
    pub fn arena(&self) -> ArenaId {
        self.arena
    }

    /// Declares the network over `inputs`, set side by side.
    pub fn apply<T: Scalar>(&self, program: &mut Program<T>, inputs: &[Value]) -> Value {
        let input = program.join(inputs);
        self.layers
            .iter()
            .fold(input, |value, (shape, parameters)| program.linear(*shape, value, parameters))
    }

    /// Applies the network with the numbers of its arena to the rows of `input`. Many rows are spread
    /// over rayon's threads; a row has the same bits among many and alone.
    pub fn infer(&self, threads: &Threads, arena: &[f32], input: &[f32]) -> Vec<f32> {
        let rows = input.len() / self.layers[0].0.inputs;
        if rows >= LEAST_ABREAST && can_abreast() {
            return self.infer_abreast(arena, input, rows);
        }
        self.in_rows(threads, arena, input.to_vec())
    }

    /// As [`Mlp::infer`], computed in double precision and rounded at the end: for few rows that many
    /// answers rest on.
    pub fn infer_precisely(&self, arena: &[f32], input: &[f32]) -> Vec<f32> {
        let double = |all: &[f32]| all.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let arena = double(arena);
        let parts = input.par_chunks(PART * self.layers[0].0.inputs);
        parts
            .flat_map_iter(|part| self.in_rows(&Threads::default(), &arena, double(part)))
            .map(|x| x as f32)
            .collect()
    }

    /// Applies the network to rows, layer after layer.
    fn in_rows<T: Scalar>(&self, threads: &Threads, arena: &[T], mut values: Vec<T>) -> Vec<T> {
        let rows = values.len() / self.layers[0].0.inputs;
        let mut output = Vec::new();
        for (shape, parameters) in &self.layers {
            output.resize(rows * shape.outputs, T::ZERO);
            if rows > 0 {
                shape.apply(threads, weights(shape, parameters, arena), &values, &mut output);
            }
            std::mem::swap(&mut values, &mut output);
        }
        values
    }

    fn infer_abreast(&self, arena: &[f32], input: &[f32], rows: usize) -> Vec<f32> {
        let shapes = self.layers.iter().map(|(shape, _)| shape);
        let widest = shapes.map(|shape| shape.inputs.max(shape.outputs)).max().unwrap_or(0);
        let ends = (&self.layers[0].0, &self.layers[self.layers.len() - 1].0);
        let (inputs, outputs) = (ends.0.inputs, ends.1.outputs);
        let mut all = vec![0.0; rows * outputs];
        let apply = |(input, output): (&[f32], &mut [f32])| {
            let mut room = vec![Abreast::ZERO; 2 * widest];
            let blocks = input.chunks(ABREAST * inputs).zip(output.chunks_mut(ABREAST * outputs));
            for (input, output) in blocks {
                let (mut values, mut next) = room.split_at_mut(widest);
                lay_abreast(input, &mut values[..inputs]);
                for (shape, parameters) in &self.layers {
                    let (from, to) = (&values[..shape.inputs], &mut next[..shape.outputs]);
                    shape.apply_abreast(weights(shape, parameters, arena), from, to);
                    std::mem::swap(&mut values, &mut next);
                }
                from_abreast(&values[..outputs], output);
            }
        };
        if rows <= PART {
            apply((input, &mut all));
        } else {
            let parts = input.par_chunks(PART * inputs);
            parts.zip(all.par_chunks_mut(PART * outputs)).for_each(apply);
        }
        all
    }
}

/// Fewer rows are faster one after the other.
const LEAST_ABREAST: usize = 24;
/// Rows that one task takes.
const PART: usize = 4 * ABREAST;

/// The parameters of a layer among the numbers of its arena.
fn weights<'a, T>(shape: &Linear, parameters: &[Parameter], arena: &'a [T]) -> Weights<'a, T> {
    let view = |at: usize| parameters[at].of(arena);
    let gain = (shape.norm == Norm::Layer).then(|| (view(2), view(3)));
    Weights { weight: view(0), bias: view(1), gain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sampler::{Column, Layout, Sampler};
    use crate::data::{Dataset, Normalization, Scaling};
    use crate::engine::Executor;

    /// A part and some.
    const ROWS: usize = PART + 56;

    #[test]
    fn neighbours_in_the_middle_of_the_data_begin_as_near_as_elsewhere() {
        let network = Network { norm: Norm::Layer, ..Network::default() };
        let mut parameters = Parameters::default();
        let arena = parameters.arena("net");
        let mlp = Mlp::new(&mut parameters, arena, &network, (2, 16), 1.0);
        let program: Program<f32> = Program::new(parameters, 1, 2, 0);
        let executor = Executor::new(program, Threads::default(), 7);
        let numbers = executor.arena(arena);
        let apart = |x: f32| {
            let outputs = mlp.infer(&Threads::default(), numbers, &[x - 0.01, 0.0, x + 0.01, 0.0]);
            let (one, other) = outputs.split_at(16);
            one.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt()
        };
        let (middle, elsewhere) = (apart(0.0), apart(0.5).max(apart(-0.5)));
        assert!(middle < 3.0 * elsewhere, "{middle} in the middle, {elsewhere} elsewhere");
    }

    #[test]
    fn training_and_inference_compute_the_same_bits() {
        for norm in [Norm::None, Norm::Layer] {
            let network = Network {
                hidden: vec![33, 17],
                activation: Activation::Gelu,
                norm,
                initialization: Initialization::Glorot,
            };
            let mut parameters = Parameters::default();
            let arena = parameters.arena("net");
            let mlp = Mlp::new(&mut parameters, arena, &network, (2, 5), 1.0);
            let mut program: Program<f32> = Program::new(parameters, ROWS, 2, 0);
            let state = program.column(Column::State(Layout::START));
            let output = mlp.apply(&mut program, &[state]);
            let mean = program.mean(output, crate::ops::Scale::Unit);
            let always = crate::engine::Window { from: 0, until: 9 };
            program.descend("x", mean, &[(arena, crate::engine::Adam::default())], always);
            let numbers = (0..40).map(|x| (x as f32).sin()).collect();
            let dataset = Dataset::new(numbers, 2, None, &[20]).unwrap();
            let plain = Normalization::fit(&dataset, Scaling::None).unwrap();
            let sampler = Sampler::new(&dataset, &plain, program.layout().clone(), 0.9);
            let mut batch = sampler.batch(ROWS);
            sampler.fill(&mut batch, 1, 2).unwrap();
            let mut executor = Executor::new(program, Threads::default(), 4);
            executor.evaluate(&batch, 0);
            let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            let (inputs, trained) = (&batch.columns[0], executor.value(output));
            // All rows lie abreast, the last of them few; single rows do not.
            for rows in [1, 8, 30, ROWS] {
                let inputs = &inputs[..rows * 2];
                let inferred = mlp.infer(&Threads::default(), executor.arena(arena), inputs);
                assert_eq!(bits(&inferred), bits(&trained[..rows * 5]), "{rows} rows");
            }
        }
    }
}
