//! mean x, divided by a scale of x through which no gradient flows.
//!
//! Magnitude: sg(mean |x| + 1e-6); spread: sg(mean |x − mean x| + 1e-6), which an additive constant
//! in x does not weaken.

use serde::{Deserialize, Serialize};

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// What a mean is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// One.
    Unit,
    /// The mean absolute value.
    Magnitude,
    /// The mean absolute deviation from the mean.
    Spread,
}

/// Keeps the scale away from zero.
const FLOOR: f64 = 1e-6;

struct Mean {
    scale: Scale,
}

impl Mean {
    fn divisor<T: Scalar>(&self, numbers: &[T]) -> T {
        let count = T::of(numbers.len() as f64);
        let center = match self.scale {
            Scale::Unit => return count,
            Scale::Magnitude => T::ZERO,
            Scale::Spread => sum(numbers.iter().copied()) / count,
        };
        let deviation = sum(numbers.iter().map(|&x| (x - center).abs())) / count;
        count * (deviation + T::of(FLOOR))
    }
}

fn sum<T: Scalar>(numbers: impl Iterator<Item = T>) -> T {
    numbers.fold(T::ZERO, |sum, x| sum + x)
}

impl<T: Scalar> Operation<T> for Mean {
    fn name(&self) -> &'static str {
        "mean"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let numbers = run.input(0);
        run.output[0] = sum(numbers.iter().copied()) / self.divisor(numbers);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let share = run.output_gradient[0] / self.divisor(run.input(0));
        if let Some(target) = run.input_gradient(0) {
            target.iter_mut().for_each(|t| *t += share);
        }
    }
}

impl Kernels for Mean {
    fn source(&self) -> &'static str {
        include_str!("mean.cu")
    }

    /// The divisor.
    fn kept(&self) -> Vec<usize> {
        vec![1]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let scale = match self.scale {
            Scale::Unit => 0,
            Scale::Magnitude => 1,
            Scale::Spread => 2,
        };
        let input = queue.input(0);
        let arguments = [
            Argument::Read(input),
            Argument::Write(queue.output()),
            Argument::Write(queue.kept(0)),
            Argument::size(input.length()),
            Argument::Int(scale),
        ];
        queue.launch("mean_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (target, count) = (queue.input_target(0), queue.input(0).length());
        let arguments = [
            Argument::Read(queue.output_gradient()),
            Argument::Read(queue.kept(0)),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(count),
        ];
        queue.launch("mean_backward", Grid::over(count), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The mean of all numbers of `value`, divided by `scale`.
    pub fn mean(&mut self, value: Value, scale: Scale) -> Value {
        self.add(Mean { scale }, &[value], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn a_mean_has_the_gradient_of_its_formula() {
        Bench::new(&[(4, 3)]).check(|program, values| program.mean(values[0], Scale::Unit));
    }

    #[test]
    fn the_scale_is_held_and_spread_ignores_a_constant() {
        let numbers = [1.0, 3.0, -2.0];
        assert!((Mean { scale: Scale::Magnitude }.divisor(&numbers) - 6.0).abs() < 1e-5);
        let spread = Mean { scale: Scale::Spread };
        let moved = numbers.map(|x| x + 100.0);
        assert!((spread.divisor(&numbers) - spread.divisor(&moved)).abs() < 1e-9);
    }
}
