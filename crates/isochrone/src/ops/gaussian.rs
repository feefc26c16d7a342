//! log N(a; μ, σ²) = −½ Σ ((a − μ)/σ)² − n ln σ − n/2 ln 2π, row by row, with a constant σ.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// ½ ln 2π.
pub(super) const HALF_LN_TAU: f64 = 0.918_938_533_204_672_7;

struct LogLikelihood {
    width: usize,
    deviation: f64,
}

impl LogLikelihood {
    /// n ln σ + n/2 ln 2π.
    fn constant(&self) -> f64 {
        self.width as f64 * (self.deviation.ln() + HALF_LN_TAU)
    }
}

impl<T: Scalar> Operation<T> for LogLikelihood {
    fn name(&self) -> &'static str {
        "gaussian"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let inverse = T::of(1.0 / self.deviation);
        let constant = self.constant();
        let rows = run.input(0).chunks_exact(self.width).zip(run.input(1).chunks_exact(self.width));
        for (out, (mean, action)) in run.output.iter_mut().zip(rows) {
            let mut sum = T::ZERO;
            for (&mean, &action) in mean.iter().zip(action) {
                let z = (action - mean) * inverse;
                sum += z * z;
            }
            *out = T::of(-0.5) * sum - T::of(constant);
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let (mean, action) = (run.input(0), run.input(1));
        let inverse = T::of(1.0 / (self.deviation * self.deviation));
        if let Some(target) = run.input_gradient(0) {
            for (at, target) in target.iter_mut().enumerate() {
                *target += gradient[at / self.width] * (action[at] - mean[at]) * inverse;
            }
        }
    }
}

impl Kernels for LogLikelihood {
    fn source(&self) -> &'static str {
        include_str!("gaussian.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::size(queue.rows()),
            Argument::size(self.width),
            Argument::Float((1.0 / self.deviation) as f32),
            Argument::Float(self.constant() as f32),
        ];
        queue.launch("gaussian_forward", Grid::over(queue.rows()), &arguments);
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
            Argument::Float((1.0 / (self.deviation * self.deviation)) as f32),
        ];
        queue.launch("gaussian_backward", Grid::over(queue.rows() * self.width), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The log-likelihood of each row of `action` under a normal law around `mean`.
    pub fn gaussian(&mut self, mean: Value, action: Value, deviation: f64) -> Value {
        let operation = LogLikelihood { width: mean.columns, deviation };
        self.add(operation, &[mean, action.stop()], &[], (mean.rows, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn the_constant_is_that_of_the_density_at_its_mean() {
        let side = (2.0 * std::f64::consts::PI).sqrt();
        for (width, deviation, density) in [(1, 1.0, side.recip()), (3, 2.0, (2.0 * side).powi(-3))]
        {
            let at_mean = (-LogLikelihood { width, deviation }.constant()).exp();
            assert!((at_mean - density).abs() < 1e-15, "{at_mean} for {density}");
        }
    }

    #[test]
    fn the_likelihood_has_the_gradient_of_its_formula() {
        Bench::new(&[(4, 3)])
            .holding(&[(4, 3)])
            .check(|program, values| program.gaussian(values[0], values[1], 0.7));
    }
}
