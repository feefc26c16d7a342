//! Networks and heads as ONNX operators, with weights taken from a flat array in the order of the
//! model's file.

use super::graph::{Attribute, OnnxGraph, TensorName};
use crate::nn::{HeadShape, Network};
use crate::ops::{Activation, Norm};

/// A flat array, taken from front to back.
pub(super) struct FlatNumbers<'a> {
    rest: &'a [f32],
}

impl<'a> FlatNumbers<'a> {
    pub(super) fn new(numbers: &'a [f32]) -> Self {
        Self { rest: numbers }
    }

    fn take(&mut self, count: usize) -> &'a [f32] {
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        taken
    }
}

/// One part of a network's input.
pub(super) enum Part<'a> {
    /// Rows of a tensor, so many numbers each.
    Rows(&'a TensorName, usize),
    /// The same numbers in every row.
    Same(&'a [f32]),
}

/// Weight and bias of a layer, and gain and shift of its norm.
type Layer = (TensorName, TensorName, Option<(TensorName, TensorName)>);

/// A network whose weights are constants of a graph.
pub(super) struct Layers<'a> {
    first: (&'a [f32], &'a [f32]),
    outputs: usize,
    norm: Option<(TensorName, TensorName)>,
    rest: Vec<Layer>,
    activation: Activation,
}

impl<'a> Layers<'a> {
    /// Takes the weights of a network.
    pub(super) fn new(
        graph: &mut OnnxGraph,
        numbers: &mut FlatNumbers<'a>,
        network: &Network,
        (inputs, outputs): (usize, usize),
    ) -> Self {
        let widths: Vec<usize> = network.hidden.iter().copied().chain([outputs]).collect();
        let mut before = inputs;
        let mut layers = Vec::new();
        for (at, &width) in widths.iter().enumerate() {
            let (weight, bias) = (numbers.take(before * width), numbers.take(width));
            let normed = at + 1 < widths.len() && network.norm == Norm::Layer;
            let norm = normed.then(|| {
                [numbers.take(width), numbers.take(width)].map(|row| graph.numbers(&[width], row))
            });
            layers.push((weight, bias, norm.map(|[gain, shift]| (gain, shift)), before, width));
            before = width;
        }
        let (weight, bias, norm, _, width) = layers.remove(0);
        let rest = layers
            .into_iter()
            .map(|(weight, bias, norm, inputs, outputs)| {
                let weight = graph.numbers(&[inputs, outputs], weight);
                (weight, graph.numbers(&[outputs], bias), norm)
            })
            .collect();
        let activation = network.activation;
        Self { first: (weight, bias), outputs: width, norm, rest, activation }
    }

    /// The network over these parts, set side by side. Parts that are the same in every row become
    /// part of the first bias.
    pub(super) fn apply(&self, graph: &mut OnnxGraph, parts: &[Part<'_>]) -> TensorName {
        let (weight, bias) = self.first;
        let mut bias: Vec<f64> = bias.iter().map(|&b| f64::from(b)).collect();
        let (mut rows, mut kept, mut at) = (Vec::new(), Vec::new(), 0);
        for part in parts {
            match part {
                Part::Rows(tensor, width) => {
                    kept.extend_from_slice(&weight[at * self.outputs..][..width * self.outputs]);
                    rows.push(*tensor);
                    at += width;
                }
                Part::Same(values) => {
                    for &value in *values {
                        let row = &weight[at * self.outputs..][..self.outputs];
                        let sums = bias.iter_mut().zip(row);
                        sums.for_each(|(b, &w)| *b += f64::from(value) * f64::from(w));
                        at += 1;
                    }
                }
            }
        }
        let input = graph.joined(&rows, 1);
        let weight = graph.numbers(&[kept.len() / self.outputs, self.outputs], &kept);
        let bias: Vec<f32> = bias.into_iter().map(|b| b as f32).collect();
        let bias = graph.numbers(&[self.outputs], &bias);
        let mut value = graph.op("Gemm", &[&input, &weight, &bias]);
        let mut norm = &self.norm;
        for (weight, bias, next) in &self.rest {
            value = activated(graph, &value, self.activation);
            if let Some((gain, shift)) = norm {
                let attributes = [Attribute::Whole("axis", -1), Attribute::Float("epsilon", 1e-6)];
                value = graph.node("LayerNormalization", &[&value, gain, shift], &attributes);
            }
            value = graph.op("Gemm", &[&value, weight, bias]);
            norm = next;
        }
        value
    }
}

fn activated(graph: &mut OnnxGraph, value: &TensorName, activation: Activation) -> TensorName {
    match activation {
        Activation::Identity => value.clone(),
        Activation::Relu => graph.op("Relu", &[value]),
        Activation::Swish => {
            let gate = graph.op("Sigmoid", &[value]);
            graph.op("Mul", &[value, &gate])
        }
        Activation::Gelu => {
            // ½ z (1 + tanh(√(2/π) (z + 0.044715 z³))); opset 18 has no Gelu.
            let square = graph.op("Mul", &[value, value]);
            let cube = graph.op("Mul", &[&square, value]);
            let cube = graph.scaled(&cube, 0.044_715);
            let sum = graph.op("Add", &[value, &cube]);
            let inner = graph.scaled(&sum, (2.0 / std::f32::consts::PI).sqrt());
            let tanh = graph.op("Tanh", &[&inner]);
            let one = graph.number(1.0);
            let gate = graph.op("Add", &[&tanh, &one]);
            let half = graph.scaled(value, 0.5);
            graph.op("Mul", &[&half, &gate])
        }
    }
}

/// A head whose weights are constants of a graph.
pub(super) struct HeadNode<'a> {
    shape: HeadShape,
    raw: &'a [f32],
    free: &'a [f32],
}

impl<'a> HeadNode<'a> {
    /// Takes the weights of a head.
    pub(super) fn new(numbers: &mut FlatNumbers<'a>, shape: HeadShape) -> Self {
        let (raw, free) = match shape {
            HeadShape::Mrn { .. } | HeadShape::Max { .. } => (0, 0),
            HeadShape::Iqe { .. } => (1, 0),
            HeadShape::Pqe { latent, group } => (latent / group, 0),
            HeadShape::WideNorm { latent, components, size } => (components * size * 2 * latent, 0),
            HeadShape::DeepNorm { latent, layers, units } => {
                ((layers - 1) * units * units, layers * units * latent)
            }
        };
        let (raw, free) = (numbers.take(raw), numbers.take(free));
        Self { shape, raw, free }
    }

    /// The distances of corresponding rows.
    pub(super) fn apply(
        &self,
        graph: &mut OnnxGraph,
        from: &TensorName,
        to: &TensorName,
    ) -> TensorName {
        match self.shape {
            HeadShape::Mrn { latent, components } => {
                let difference = graph.op("Sub", &[from, to]);
                let half = (latent / components / 2) as i64;
                let parts = graph.reshaped(&difference, &[-1, components as i64, 2, half]);
                let [above, norm] = [0, 1].map(|at| {
                    let at = graph.whole(at);
                    graph.gathered(&parts, &at, 2)
                });
                let above = graph.op("Relu", &[&above]);
                let above = graph.reduced("ReduceMax", &above, 2);
                let norm = graph.reduced("ReduceL2", &norm, 2);
                let sum = graph.op("Add", &[&above, &norm]);
                graph.reduced("ReduceMean", &sum, 1)
            }
            HeadShape::Max { .. } => {
                let difference = graph.op("Sub", &[from, to]);
                let above = graph.op("Relu", &[&difference]);
                graph.reduced("ReduceMax", &above, 1)
            }
            HeadShape::Iqe { latent, group } => self.intervals(graph, from, to, (latent, group)),
            HeadShape::Pqe { latent, group } => {
                let difference = graph.op("Sub", &[from, to]);
                let above = graph.op("Relu", &[&difference]);
                let groups = latent / group;
                let above = graph.reshaped(&above, &[-1, groups as i64, group as i64]);
                let mean = graph.reduced("ReduceMean", &above, 2);
                let negative = graph.op("Neg", &[&mean]);
                let left = graph.op("Exp", &[&negative]);
                let one = graph.number(1.0);
                let share = graph.op("Sub", &[&one, &left]);
                let raw = graph.numbers(&[groups], self.raw);
                let alpha = graph.op("Softplus", &[&raw]);
                let shares = graph.op("Mul", &[&alpha, &share]);
                graph.reduced("ReduceSum", &shares, 1)
            }
            HeadShape::WideNorm { latent, components, size } => {
                let above = graph.op("Sub", &[from, to]);
                let below = graph.op("Neg", &[&above]);
                let halves = graph.joined(&[&above, &below], 1);
                let halves = graph.op("Relu", &[&halves]);
                let squares: Vec<f32> = self.raw.iter().map(|raw| raw * raw).collect();
                let weight = across(&squares, 2 * latent);
                let weight = graph.numbers(&[2 * latent, components * size], &weight);
                let image = graph.op("MatMul", &[&halves, &weight]);
                let image = graph.reshaped(&image, &[-1, components as i64, size as i64]);
                let norms = graph.reduced("ReduceL2", &image, 2);
                graph.reduced("ReduceMean", &norms, 1)
            }
            HeadShape::DeepNorm { latent, units, .. } => {
                let difference = graph.op("Sub", &[from, to]);
                let mut outer = self.free.chunks_exact(units * latent).map(|rows| {
                    let weight = across(rows, latent);
                    let weight = graph.numbers(&[latent, units], &weight);
                    graph.op("MatMul", &[&difference, &weight])
                });
                let outer: Vec<TensorName> = outer.by_ref().collect();
                let mut value = graph.op("Relu", &[&outer[0]]);
                for (raw, outer) in self.raw.chunks_exact(units * units).zip(&outer[1..]) {
                    let squares: Vec<f32> = raw.iter().map(|raw| raw * raw).collect();
                    let weight = graph.numbers(&[units, units], &across(&squares, units));
                    let inner = graph.op("MatMul", &[&value, &weight]);
                    let sum = graph.op("Add", &[&inner, outer]);
                    value = graph.op("Relu", &[&sum]);
                }
                graph.reduced("ReduceMean", &value, 1)
            }
        }
    }

    /// The lengths of unions of intervals: sorted by their left ends, then swept.
    fn intervals(
        &self,
        graph: &mut OnnxGraph,
        from: &TensorName,
        to: &TensorName,
        (latent, group): (usize, usize),
    ) -> TensorName {
        let shape = [-1, (latent / group) as i64, group as i64];
        let [from, to] = [from, to].map(|side| graph.reshaped(side, &shape));
        let count = graph.wholes(&[group as i64]);
        let attributes = [("axis", -1), ("largest", 0), ("sorted", 1)]
            .map(|(name, value)| Attribute::Whole(name, value));
        let sorted = graph.several("TopK", &[&from, &count], &attributes, 2);
        let axis = [Attribute::Whole("axis", -1)];
        let high = graph.node("GatherElements", &[&to, &sorted[1]], &axis);
        let (mut length, mut end): (Option<TensorName>, Option<TensorName>) = (None, None);
        for at in 0..group as i64 {
            let at = graph.whole(at);
            let [low, high] = [&sorted[0], &high].map(|side| graph.gathered(side, &at, 2));
            let start = match &end {
                Some(end) => graph.op("Max", &[&low, end]),
                None => low,
            };
            let beyond = graph.op("Sub", &[&high, &start]);
            let beyond = graph.op("Relu", &[&beyond]);
            length = Some(match length {
                Some(length) => graph.op("Add", &[&length, &beyond]),
                None => beyond,
            });
            end = Some(match end {
                Some(end) => graph.op("Max", &[&end, &high]),
                None => high,
            });
        }
        let length = length.unwrap_or(from);
        let mix = 1.0 / (1.0 + (-self.raw[0]).exp());
        let mean = graph.reduced("ReduceMean", &length, 1);
        let top = graph.reduced("ReduceMax", &length, 1);
        let (mean, top) = (graph.scaled(&mean, mix), graph.scaled(&top, 1.0 - mix));
        graph.op("Add", &[&mean, &top])
    }
}

/// Rows of `width` numbers as columns.
fn across(rows: &[f32], width: usize) -> Vec<f32> {
    (0..width).flat_map(|at| rows.chunks_exact(width).map(move |row| row[at])).collect()
}
