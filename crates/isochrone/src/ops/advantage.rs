//! −mean sg(w) · log π, w = min(exp(β A), 100): advantage-weighted regression.
//!
//! A = d(policy's way) − d(data's way), positive where the data's action is nearer to the goal, held to
//! ± a limit so that a few large ones do not drown the rest in the deviation. With
//! standardization A is divided by its deviation over the batch and w by its mean.

use serde::{Deserialize, Serialize};

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// Whether advantages are brought to a common scale before they are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standardize {
    /// The advantage as it is.
    None,
    /// Mean 0, deviation 1 over the batch; weights divided by their mean.
    Batch,
}

/// The largest weight of a row.
const LARGEST_WEIGHT: f64 = 100.0;

/// How advantages become weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdvantageWeights {
    /// β.
    pub inverse_temperature: f64,
    /// Whether the advantage is standardized.
    pub standardize: Standardize,
    /// Advantages are held to ± this before anything else; infinite holds none.
    pub limit: f64,
}

impl AdvantageWeights {
    /// Writes the weights of advantages `baseline` − `taken`.
    fn write<T: Scalar>(&self, baseline: &[T], taken: &[T], weights: &mut [T]) {
        let count = weights.len() as f64;
        for ((weight, &baseline), &taken) in weights.iter_mut().zip(baseline).zip(taken) {
            *weight = (baseline - taken).at_least(T::of(-self.limit)).at_most(T::of(self.limit));
        }
        if self.standardize == Standardize::Batch {
            let mean = weights.iter().map(|w| w.wide()).sum::<f64>() / count;
            let variance = weights.iter().map(|w| (w.wide() - mean).powi(2)).sum::<f64>() / count;
            let inverse = 1.0 / (variance.sqrt() + 1e-6);
            weights.iter_mut().for_each(|w| *w = T::of((w.wide() - mean) * inverse));
        }
        for weight in weights.iter_mut() {
            let exponential = (T::of(self.inverse_temperature) * *weight).exp();
            *weight = exponential.at_most(T::of(LARGEST_WEIGHT));
        }
        if self.standardize == Standardize::Batch {
            let mean = weights.iter().map(|w| w.wide()).sum::<f64>() / count;
            weights.iter_mut().for_each(|w| *w = T::of(w.wide() / mean));
        }
    }
}

struct Regression {
    rows: usize,
    weights: AdvantageWeights,
}

impl<T: Scalar> Operation<T> for Regression {
    fn name(&self) -> &'static str {
        "advantage"
    }

    fn saved(&self) -> usize {
        self.rows
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        self.weights.write(run.input(1), run.input(2), run.saved);
        let mut sum = T::ZERO;
        run.input(0).iter().zip(&*run.saved).for_each(|(&log, &weight)| sum += weight * log);
        run.output[0] = -sum / T::of(self.rows as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let share = -run.output_gradient[0] / T::of(self.rows as f64);
        let weights = std::mem::take(&mut run.saved);
        if let Some(target) = run.input_gradient(0) {
            target.iter_mut().zip(&*weights).for_each(|(t, &weight)| *t += share * weight);
        }
    }
}

impl Kernels for Regression {
    fn source(&self) -> &'static str {
        include_str!("advantage.cu")
    }

    /// The weights.
    fn kept(&self) -> Vec<usize> {
        vec![self.rows]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let standardize = self.weights.standardize == Standardize::Batch;
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.input(2)),
            Argument::Write(queue.output()),
            Argument::Write(queue.kept(0)),
            Argument::size(self.rows),
            Argument::Float(self.weights.inverse_temperature as f32),
            Argument::Int(standardize.into()),
            Argument::Float(self.weights.limit as f32),
        ];
        queue.launch("advantage_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let target = queue.input_target(0);
        let arguments = [
            Argument::Read(queue.output_gradient()),
            Argument::Read(queue.kept(0)),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(self.rows),
        ];
        queue.launch("advantage_backward", Grid::over(self.rows), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The loss of a policy whose log-likelihood of the data's actions is `log_likelihood`, weighed
    /// by how much nearer the data's way (`taken`) is than the policy's (`baseline`).
    pub fn advantage_regression(
        &mut self,
        log_likelihood: Value,
        baseline: Value,
        taken: Value,
        weights: AdvantageWeights,
    ) -> Value {
        let inputs = [log_likelihood, baseline.stop(), taken.stop()];
        self.add(Regression { rows: log_likelihood.rows, weights }, &inputs, &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn advantages_are_held_to_the_limit() {
        let (inverse_temperature, standardize) = (1.0, Standardize::None);
        let held = AdvantageWeights { inverse_temperature, standardize, limit: 0.5 };
        let mut weights = [0.0f64; 3];
        held.write(&[3.0, 0.2, -4.0], &[0.0; 3], &mut weights);
        assert_eq!(weights, [0.5, 0.2, -0.5].map(f64::exp));
    }

    #[test]
    fn the_loss_has_the_gradient_of_its_formula() {
        for standardize in [Standardize::None, Standardize::Batch] {
            let weights = AdvantageWeights { inverse_temperature: 3.0, standardize, limit: 0.4 };
            Bench::new(&[(5, 1)]).holding(&[(5, 1), (5, 1)]).check(|program, values| {
                program.advantage_regression(values[0], values[1], values[2], weights)
            });
        }
    }

    #[test]
    fn nearer_actions_weigh_more_and_weights_are_capped() {
        let plain = AdvantageWeights {
            inverse_temperature: 1.0,
            standardize: Standardize::None,
            limit: f64::INFINITY,
        };
        let mut weights = [0.0f64; 3];
        plain.write(&[2.0, 2.0, 100.0], &[1.0, 3.0, 0.0], &mut weights);
        assert!((weights[0] - 1.0f64.exp()).abs() < 1e-12);
        assert!((weights[1] - (-1.0f64).exp()).abs() < 1e-12);
        assert_eq!(weights[2], LARGEST_WEIGHT);
        let batch = AdvantageWeights { standardize: Standardize::Batch, ..plain };
        batch.write(&[2.0, 2.0, 2.0], &[1.0, 3.0, 2.0], &mut weights);
        assert!((weights.iter().sum::<f64>() - 3.0).abs() < 1e-9);
        assert!(weights[0] > weights[2] && weights[2] > weights[1]);
    }

    #[test]
    fn standardized_advantages_have_mean_zero_and_deviation_one() {
        let standardize = Standardize::Batch;
        let batch = AdvantageWeights { inverse_temperature: 1.0, standardize, limit: 1e9 };
        let mut weights = [0.0f64; 4];
        batch.write(&[9.0, 3.0, 9.0, 3.0], &[0.0; 4], &mut weights);
        // Advantages of ±1, whose exponentials are then divided by their mean.
        let mean = 1.0f64.cosh();
        let expected = [1.0, -1.0, 1.0, -1.0].map(|advantage: f64| advantage.exp() / mean);
        let close = |(a, b): (&f64, f64)| (a - b).abs() < 1e-5;
        assert!(weights.iter().zip(expected).all(close), "{weights:?}, expected {expected:?}");
    }

    #[test]
    fn no_gradient_flows_into_the_weights() {
        for standardize in [Standardize::None, Standardize::Batch] {
            let weights = AdvantageWeights { inverse_temperature: 3.0, standardize, limit: 0.4 };
            let gradients = Bench::new(&[(5, 1); 3]).gradients(|program, values| {
                program.advantage_regression(values[0], values[1], values[2], weights)
            });
            assert!(gradients[0].iter().all(|&g| g != 0.0));
            assert_eq!(gradients[1..], [[0.0; 5]; 2]);
        }
    }
}
