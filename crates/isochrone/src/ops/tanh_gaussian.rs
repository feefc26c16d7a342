//! a = tanh(μ + σ ε) and log π(a) = log N(u; μ, σ²) − Σ ln(1 − a²), u = atanh a.
//!
//! The statistics hold μ, then ln σ, held to [−5, 2]. Recorded actions are often exactly ±1 and are
//! held to ±(1 − 1e-5) before atanh.

use super::gaussian::HALF_LN_TAU;
use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

const LOG_DEVIATION: [f64; 2] = [-5.0, 2.0];
const EDGE: f64 = 1.0 - 1e-5;

/// ln σ held to its bounds, and whether a gradient passes.
#[inline(always)]
fn bounded<T: Scalar>(log: T) -> (T, bool) {
    let held = log.at_least(T::of(LOG_DEVIATION[0])).at_most(T::of(LOG_DEVIATION[1]));
    (held, held == log)
}

struct Sample {
    width: usize,
}

impl<T: Scalar> Operation<T> for Sample {
    fn name(&self) -> &'static str {
        "tanh_sample"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (statistics, noise) = (run.input(0), run.input(1));
        for (at, out) in run.output.iter_mut().enumerate() {
            let place = at / self.width * 2 * self.width + at % self.width;
            let deviation = bounded(statistics[place + self.width]).0.exp();
            *out = (statistics[place] + deviation * noise[at]).tanh();
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let (statistics, noise, output) = (run.input(0), run.input(1), run.output);
        if let Some(target) = run.input_gradient(0) {
            for (at, &g) in gradient.iter().enumerate() {
                let place = at / self.width * 2 * self.width + at % self.width;
                let inner = g * (T::ONE - output[at] * output[at]);
                let (log, passes) = bounded(statistics[place + self.width]);
                target[place] += inner;
                if passes {
                    target[place + self.width] += inner * noise[at] * log.exp();
                }
            }
        }
    }
}

const SOURCE: &str = include_str!("tanh_gaussian.cu");

impl Kernels for Sample {
    fn source(&self) -> &'static str {
        SOURCE
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::size(queue.rows()),
            Argument::size(self.width),
        ];
        queue.launch("tanh_sample_forward", Grid::over(queue.rows() * self.width), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let target = queue.input_target(0);
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.output()),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(queue.rows()),
            Argument::size(self.width),
        ];
        queue.launch("tanh_sample_backward", Grid::over(queue.rows() * self.width), &arguments);
    }
}

struct LogLikelihood {
    width: usize,
}

impl LogLikelihood {
    /// (u − μ)/σ, ln σ and whether it is free, for coordinate `at` of the actions.
    fn terms<T: Scalar>(&self, statistics: &[T], action: T, at: usize) -> (T, T, bool) {
        let place = at / self.width * 2 * self.width + at % self.width;
        let inside = action.at_least(T::of(-EDGE)).at_most(T::of(EDGE));
        let u = T::of(0.5) * ((T::ONE + inside) / (T::ONE - inside)).ln();
        let (log, passes) = bounded(statistics[place + self.width]);
        ((u - statistics[place]) * (-log).exp(), log, passes)
    }
}

impl<T: Scalar> Operation<T> for LogLikelihood {
    fn name(&self) -> &'static str {
        "tanh_gaussian"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (statistics, actions) = (run.input(0), run.input(1));
        let constant = T::of(HALF_LN_TAU);
        for (row, out) in run.output.iter_mut().enumerate() {
            *out = T::ZERO;
            let first = row * self.width;
            for (at, &action) in actions[first..first + self.width].iter().enumerate() {
                let (z, log, _) = self.terms(statistics, action, first + at);
                let inside = action.at_least(T::of(-EDGE)).at_most(T::of(EDGE));
                *out -= T::of(0.5) * z * z + log + constant + (T::ONE - inside * inside).ln();
            }
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let (statistics, actions) = (run.input(0), run.input(1));
        if let Some(target) = run.input_gradient(0) {
            for (at, &action) in actions.iter().enumerate() {
                let g = gradient[at / self.width];
                let place = at / self.width * 2 * self.width + at % self.width;
                let (z, log, passes) = self.terms(statistics, action, at);
                target[place] += g * z * (-log).exp();
                if passes {
                    target[place + self.width] += g * (z * z - T::ONE);
                }
            }
        }
    }
}

impl Kernels for LogLikelihood {
    fn source(&self) -> &'static str {
        SOURCE
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::size(queue.rows()),
            Argument::size(self.width),
        ];
        queue.launch("tanh_gaussian_forward", Grid::over(queue.rows()), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let target = queue.input_target(0);
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(queue.rows()),
            Argument::size(self.width),
        ];
        queue.launch("tanh_gaussian_backward", Grid::over(queue.rows() * self.width), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// A reparametrized action for each row of `statistics` (means, then log-deviations).
    pub fn tanh_sample(&mut self, statistics: Value, noise: Value) -> Value {
        let width = statistics.columns / 2;
        self.add(Sample { width }, &[statistics, noise.stop()], &[], (statistics.rows, width))
    }

    /// The log-likelihood of each row of `action` under the squashed normal law.
    pub fn tanh_gaussian(&mut self, statistics: Value, action: Value) -> Value {
        let operation = LogLikelihood { width: statistics.columns / 2 };
        self.add(operation, &[statistics, action.stop()], &[], (statistics.rows, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn sample_and_likelihood_have_the_gradient_of_their_formulas() {
        let bench = || Bench::new(&[(4, 6)]).holding(&[(4, 3)]);
        bench().check(|program, values| program.tanh_sample(values[0], values[1]));
        bench().check(|program, values| program.tanh_gaussian(values[0], values[1]));
    }

    #[test]
    fn actions_at_the_bounds_have_finite_likelihood() {
        let operation = LogLikelihood { width: 1 };
        for action in [-1.0f32, 1.0] {
            let (z, log, _) = operation.terms(&[0.0, -20.0], action, 0);
            assert!(z.is_finite() && log == -5.0);
        }
    }
}
