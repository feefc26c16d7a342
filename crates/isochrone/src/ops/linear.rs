//! y = norm(activation(x W + b)): one layer of a network.
//!
//! Layer norm: y = (z − mean z) / √(var z + 1e-6) · gain + shift over each row. The activation and
//! the norm run on each thread's rows while they are still in its cache.

mod abreast;
mod kernels;

use serde::{Deserialize, Serialize};

use super::BESIDE;
use crate::engine::{
    Backward, Forward, Kernels, OfRows, Operation, Parameter, Product, Program, Scalar, Side,
    Stage, Threads, Value, multiply, wide_kernel,
};

/// What a layer applies to its sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// Nothing.
    Identity,
    /// max(0, z).
    Relu,
    /// z Φ(z) in its tanh form.
    Gelu,
    /// z σ(z).
    Swish,
}

/// What a layer applies to its activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// Nothing.
    None,
    /// Layer normalization with gain and shift.
    Layer,
}

/// The widest row of a norm that a GPU has a kernel for: 512 threads with 16 numbers each.
const WIDEST_NORM: usize = 512 * 16;

/// Added to the variance of a row before its root.
const NORM_EPSILON: f64 = 1e-6;

/// The shape of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Linear {
    /// Numbers in.
    pub inputs: usize,
    /// Numbers out.
    pub outputs: usize,
    /// Applied to the sums.
    pub activation: Activation,
    /// Applied to the activations.
    pub norm: Norm,
}

/// The parameters of a layer.
#[derive(Debug, Clone, Copy)]
pub struct Weights<'a, T> {
    /// Inputs × outputs.
    pub weight: &'a [T],
    /// One value per output.
    pub bias: &'a [T],
    /// Gain and shift of the norm, where there is one.
    pub gain: Option<(&'a [T], &'a [T])>,
}

impl Linear {
    /// Applies the layer to the rows of `input`.
    pub fn apply<T: Scalar>(
        &self,
        threads: &Threads,
        weights: Weights<'_, T>,
        input: &[T],
        output: &mut [T],
    ) {
        let rows = output.len() / self.outputs;
        let shape = Product { m: rows, k: self.inputs, n: self.outputs };
        let (left, right) = (Side::Plain(input), Side::Plain(weights.weight));
        multiply(threads, shape, left, right, T::ZERO, output, &|_, rows| {
            activate_sums(rows, weights.bias, self.activation);
            if let Some((gain, shift)) = weights.gain {
                for row in rows.chunks_exact_mut(self.outputs) {
                    let (mean, inverse) = moments(row);
                    normalize(row, mean, inverse, gain, shift);
                }
            }
        });
    }
}

wide_kernel! {
    /// Adds `bias` to every row.
    fn add_bias<T>(rows: &'k mut [T], bias: &'k [T]) {
        for row in rows.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(z, &b)| *z += b);
        }
    }
}

wide_kernel! {
    /// Adds `bias` to every row and applies the activation.
    fn activate_sums<T>(rows: &'k mut [T], bias: &'k [T], activation: Activation) {
        for row in rows.chunks_exact_mut(bias.len()) {
            match activation {
                Activation::Relu => {
                    row.iter_mut().zip(bias).for_each(|(z, &b)| *z = T::ZERO.at_least(*z + b));
                }
                _ => {
                    row.iter_mut().zip(bias).for_each(|(z, &b)| *z += b);
                    activate(row, activation);
                }
            }
        }
    }
}

wide_kernel! {
    /// Adds the columns from `first` on of every row, `width` numbers long, to `sum`.
    fn add_columns<T>(sum: &'k mut [T], rows: &'k [T], width: usize, first: usize) {
        for row in rows.chunks_exact(width) {
            sum.iter_mut().zip(&row[first..]).for_each(|(sum, &x)| *sum += x);
        }
    }
}

/// Columns of a sum of rows that one task takes.
const COLUMNS: usize = 128;

wide_kernel! {
    /// Adds every row to `sum`.
    fn add_rows<T>(sum: &'k mut [T], rows: &'k [T]) {
        for row in rows.chunks_exact(sum.len()) {
            sum.iter_mut().zip(row).for_each(|(sum, &x)| *sum += x);
        }
    }
}

wide_kernel! {
    fn activate<T>(row: &'k mut [T], activation: Activation) {
        match activation {
            Activation::Identity => {}
            Activation::Relu => row.iter_mut().for_each(|z| *z = T::ZERO.at_least(*z)),
            Activation::Gelu => row.iter_mut().for_each(|z| {
                *z = T::of(0.5) * *z * (T::ONE + gelu_inner(*z).tanh());
            }),
            Activation::Swish => row.iter_mut().for_each(|z| *z *= z.sigmoid()),
        }
    }
}

/// √(2/π) (z + 0.044715 z³), the argument of GELU's tanh.
#[inline(always)]
fn gelu_inner<T: Scalar>(z: T) -> T {
    T::of((2.0 / std::f64::consts::PI).sqrt()) * (z + T::of(0.044_715) * z * z * z)
}

/// The derivative of the activation at z.
#[inline(always)]
fn slope<T: Scalar>(activation: Activation, z: T) -> T {
    match activation {
        Activation::Identity => T::ONE,
        Activation::Relu => {
            if z > T::ZERO {
                T::ONE
            } else {
                T::ZERO
            }
        }
        Activation::Gelu => {
            let tanh = gelu_inner(z).tanh();
            let inner =
                T::of((2.0 / std::f64::consts::PI).sqrt()) * (T::ONE + T::of(0.134_145) * z * z);
            T::of(0.5) * (T::ONE + tanh) + T::of(0.5) * z * (T::ONE - tanh * tanh) * inner
        }
        Activation::Swish => {
            let sigmoid = z.sigmoid();
            sigmoid * (T::ONE + z * (T::ONE - sigmoid))
        }
    }
}

/// The mean of a row and the inverse of its deviation.
fn moments<T: Scalar>(row: &[T]) -> (T, T) {
    let mut found = (T::ZERO, T::ZERO);
    find_moments(row, &mut found);
    found
}

wide_kernel! {
    fn find_moments<T>(row: &'k [T], found: &'k mut (T, T)) {
        let count = T::of(row.len() as f64);
        let mean = sum_in_lanes(row, |x| x) / count;
        let variance = sum_in_lanes(row, |x| (x - mean) * (x - mean)) / count;
        *found = (mean, T::ONE / (variance + T::of(NORM_EPSILON)).sqrt());
    }
}

/// The sum of what `of` makes of a row, added up in lanes first: one long sum would lose digits.
#[inline(always)]
fn sum_in_lanes<T: Scalar>(row: &[T], of: impl Fn(T) -> T) -> T {
    let mut lanes = [T::ZERO; BESIDE];
    let blocks = row.chunks_exact(BESIDE);
    let rest = blocks.remainder();
    for block in blocks {
        lanes.iter_mut().zip(block).for_each(|(lane, &x)| *lane += of(x));
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, &x)| *lane += of(x));
    let mut sum = T::ZERO;
    lanes.into_iter().for_each(|lane| sum += lane);
    sum
}

wide_kernel! {
    fn normalize<T>(row: &'k mut [T], mean: T, inverse: T, gain: &'k [T], shift: &'k [T]) {
        for ((x, &gain), &shift) in row.iter_mut().zip(gain).zip(shift) {
            *x = (*x - mean) * inverse * gain + shift;
        }
    }
}

struct Layer {
    shape: Linear,
    rows: usize,
}

/// Rows that one task of an element-wise pass takes.
const ROWS: usize = 16;

impl Layer {
    /// The output tells the slope of ReLU and identity; otherwise z is kept.
    fn keeps_sums(&self) -> bool {
        let told = matches!(self.shape.activation, Activation::Identity | Activation::Relu);
        self.shape.norm == Norm::Layer || !told
    }

    /// Activation and norm of kept sums, keeping centred rows and inverse deviations as well.
    fn normalized<T: Scalar>(&self, run: Forward<'_, T>, gain: &[T], shift: &[T]) {
        let Linear { outputs, activation, .. } = self.shape;
        let (sums, rest) = run.saved.split_at_mut(self.rows * outputs);
        let (centred, inverses) = rest.split_at_mut(self.rows * outputs);
        run.threads.parts3(
            (run.output, ROWS * outputs),
            (centred, ROWS * outputs),
            (inverses, ROWS),
            |part, output, centred, inverses| {
                output.copy_from_slice(&sums[part * ROWS * outputs..][..output.len()]);
                activate(output, activation);
                for ((row, centred), inverse) in output
                    .chunks_exact_mut(outputs)
                    .zip(centred.chunks_exact_mut(outputs))
                    .zip(inverses)
                {
                    let mean;
                    (mean, *inverse) = moments(row);
                    for (centred, &x) in centred.iter_mut().zip(&*row) {
                        *centred = (x - mean) * *inverse;
                    }
                    normalize(row, mean, *inverse, gain, shift);
                }
            },
        );
    }

    /// Turns the gradient of the norm's output into that of its input:
    /// dx = (e − mean e − x̂ mean(e x̂)) / deviation with e = gradient · gain.
    fn norm_backward<T: Scalar>(&self, run: &mut Backward<'_, T>, gradient: &mut [T]) {
        let outputs = self.shape.outputs;
        let saved = std::mem::take(&mut run.saved);
        let (centred, inverses) = saved[self.rows * outputs..].split_at(self.rows * outputs);
        if let Some(target) = run.parameter_gradient(2) {
            for (row, centred) in gradient.chunks_exact(outputs).zip(centred.chunks_exact(outputs))
            {
                add_products(target, row, centred);
            }
        }
        if let Some(target) = run.parameter_gradient(3) {
            add_rows(target, gradient);
        }
        let gain = run.parameter(2);
        run.threads.parts(gradient, ROWS * outputs, |part, rows| {
            for (at, row) in rows.chunks_exact_mut(outputs).enumerate() {
                let at = part * ROWS + at;
                center(row, &centred[at * outputs..][..outputs], gain, inverses[at]);
            }
        });
        run.saved = saved;
    }
}

wide_kernel! {
    fn add_products<T>(target: &'k mut [T], left: &'k [T], right: &'k [T]) {
        for ((target, &left), &right) in target.iter_mut().zip(left).zip(right) {
            *target += left * right;
        }
    }
}

fn center<T: Scalar>(row: &mut [T], centred: &[T], gain: &[T], inverse: T) {
    let count = T::of(row.len() as f64);
    let (mut sum, mut product) = (T::ZERO, T::ZERO);
    for ((g, &gain), &x) in row.iter_mut().zip(gain).zip(centred) {
        *g *= gain;
        sum += *g;
        product += *g * x;
    }
    let (mean, tilt) = (sum / count, product / count);
    row.iter_mut().zip(centred).for_each(|(g, &x)| *g = (*g - mean - x * tilt) * inverse);
}

wide_kernel! {
    /// Multiplies a gradient by the slope of the activation, which `told` (z, or for ReLU its
    /// output) determines.
    fn scale_by_slope<T>(gradient: &'k mut [T], told: &'k [T], activation: Activation) {
        match activation {
            Activation::Identity => {}
            Activation::Relu => {
                for (g, &z) in gradient.iter_mut().zip(told) {
                    *g = if z > T::ZERO { *g } else { T::ZERO };
                }
            }
            Activation::Gelu | Activation::Swish => {
                for (g, &z) in gradient.iter_mut().zip(told) {
                    *g *= slope(activation, z);
                }
            }
        }
    }
}

impl<T: Scalar> Operation<T> for Layer {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn saved(&self) -> usize {
        let sums = if self.keeps_sums() { self.rows * self.shape.outputs } else { 0 };
        match self.shape.norm {
            Norm::None => sums,
            Norm::Layer => 2 * sums + self.rows,
        }
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        let fits = self.shape.norm == Norm::None || self.shape.outputs <= WIDEST_NORM;
        fits.then_some(self as &dyn Kernels)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let Linear { inputs, outputs, activation, norm } = self.shape;
        let (weight, bias) = (run.parameter(0), run.parameter(1));
        if !self.keeps_sums() {
            let weights = Weights { weight, bias, gain: None };
            self.shape.apply(run.threads, weights, run.input(0), run.output);
            return;
        }
        let product = Product { m: self.rows, k: inputs, n: outputs };
        let (left, right) = (Side::Plain(run.input(0)), Side::Plain(weight));
        let sums = &mut run.saved[..self.rows * outputs];
        multiply(run.threads, product, left, right, T::ZERO, sums, &|_, rows| {
            add_bias(rows, bias);
        });
        match norm {
            Norm::Layer => {
                let (gain, shift) = (run.parameter(2), run.parameter(3));
                self.normalized(run, gain, shift);
            }
            Norm::None => run.threads.parts(run.output, ROWS * outputs, |part, rows| {
                rows.copy_from_slice(&sums[part * ROWS * outputs..][..rows.len()]);
                activate(rows, activation);
            }),
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let Linear { inputs, outputs, activation, norm } = self.shape;
        let gradient = std::mem::take(&mut run.output_gradient);
        if norm == Norm::Layer {
            self.norm_backward(&mut run, gradient);
        }
        let told = if self.keeps_sums() { &*run.saved } else { run.output };
        run.threads.parts(gradient, ROWS * outputs, |part, rows| {
            scale_by_slope(rows, &told[part * ROWS * outputs..][..rows.len()], activation);
        });
        let (input, threads) = (run.input(0), run.threads);
        let keep = |fresh: bool| if fresh { T::ZERO } else { T::ONE };
        let (keep_weight, keep_input) = (keep(run.fresh_parameter), keep(run.fresh_input));
        if let Some(target) = run.parameter_gradient(0) {
            let shape = Product { m: inputs, k: self.rows, n: outputs };
            let (left, right) = (Side::Across(input), Side::Plain(&*gradient));
            multiply(threads, shape, left, right, keep_weight, target, &|_, _| {});
        }
        // The product before left all rows in the cache of every core.
        if let Some(target) = run.parameter_gradient(1) {
            threads.parts(target, COLUMNS, |part, sum| {
                add_columns(sum, gradient, outputs, part * COLUMNS);
            });
        }
        if let Some((target, weight)) = run.input_gradient_beside(0, 0) {
            let shape = Product { m: self.rows, k: outputs, n: inputs };
            let (left, right) = (Side::Plain(&*gradient), Side::Across(weight));
            multiply(threads, shape, left, right, keep_input, target, &|_, _| {});
        }
    }

    fn overwrites(&self) -> bool {
        true
    }

    fn of_rows(&self, rows: usize) -> Option<OfRows<T>> {
        OfRows::new(Self { rows, ..*self })
    }

    fn products(&self, stage: Stage<'_>) -> Vec<Product> {
        let (m, k, n) = (self.rows, self.shape.inputs, self.shape.outputs);
        match stage {
            Stage::Forward => vec![Product { m, k, n }],
            Stage::Backward { wants, moves } => {
                let weight = moves.then_some(Product { m: k, k: m, n });
                let input = wants[0].then_some(Product { m, k: n, n: k });
                weight.into_iter().chain(input).collect()
            }
        }
    }
}

impl<T: Scalar> Program<T> {
    /// Declares a layer over `input`; `parameters` are weight, bias and, for a norm, gain, shift.
    pub fn linear(&mut self, shape: Linear, input: Value, parameters: &[Parameter]) -> Value {
        assert_eq!(input.columns, shape.inputs, "the input of a layer");
        let rows = input.rows;
        self.add_once(Layer { shape, rows }, &[input], parameters, (rows, shape.outputs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Initial;
    use crate::ops::differences::Bench;

    #[test]
    fn every_activation_and_norm_has_the_gradient_of_its_formula() {
        for activation in
            [Activation::Identity, Activation::Relu, Activation::Gelu, Activation::Swish]
        {
            for norm in [Norm::None, Norm::Layer] {
                let mut bench = Bench::new(&[(5, 3)]);
                let arena = bench.parameters.arena("layer");
                let mut parameters = vec![
                    bench.parameters.add(arena, "weight", (3, 4), Initial::Uniform(1.0)),
                    bench.parameters.add(arena, "bias", (1, 4), Initial::Uniform(1.0)),
                ];
                if norm == Norm::Layer {
                    let mut one =
                        |name| bench.parameters.add(arena, name, (1, 4), Initial::Uniform(1.0));
                    parameters.extend([one("gain"), one("shift")]);
                }
                let shape = Linear { inputs: 3, outputs: 4, activation, norm };
                bench.check(|program, values| program.linear(shape, values[0], &parameters));
            }
        }
    }

    #[test]
    fn a_layer_computes_its_formula() {
        let shape =
            Linear { inputs: 2, outputs: 2, activation: Activation::Relu, norm: Norm::None };
        let weights = Weights { weight: &[1.0, -1.0, 2.0, 0.5], bias: &[0.5, 0.0], gain: None };
        let mut output = [0.0f64; 2];
        shape.apply(&Threads::default(), weights, &[1.0, 2.0], &mut output);
        assert_eq!(output, [5.5, 0.0]);
        let gelu = Linear { activation: Activation::Gelu, ..shape };
        gelu.apply(&Threads::default(), weights, &[1.0, 2.0], &mut output);
        assert!((output[0] - 5.499_999_9).abs() < 1e-6 && output[1] == 0.0);
    }
}
