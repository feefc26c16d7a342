//! mean |κ − 1[A < 0]| · (y − x)²: regression to an upper expectile of the targets y.
//!
//! With κ = ½ everywhere and twice the weight it is the mean squared error. Targets and advantages
//! are held.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct Expectile {
    /// κ; none weighs every row by one.
    expectile: Option<f64>,
}

impl Expectile {
    fn weight<T: Scalar>(&self, advantage: T) -> T {
        match self.expectile {
            None => T::ONE,
            Some(expectile) if advantage < T::ZERO => T::of(1.0 - expectile),
            Some(expectile) => T::of(expectile),
        }
    }
}

impl<T: Scalar> Operation<T> for Expectile {
    fn name(&self) -> &'static str {
        "expectile"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (prediction, target, advantage) = (run.input(0), run.input(1), run.input(2));
        let mut sum = T::ZERO;
        for ((&x, &y), &advantage) in prediction.iter().zip(target).zip(advantage) {
            sum += self.weight(advantage) * (y - x) * (y - x);
        }
        run.output[0] = sum / T::of(prediction.len() as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let (prediction, target, advantage) = (run.input(0), run.input(1), run.input(2));
        let share = run.output_gradient[0] * T::of(2.0 / prediction.len() as f64);
        if let Some(gradient) = run.input_gradient(0) {
            for (at, gradient) in gradient.iter_mut().enumerate() {
                *gradient += share * self.weight(advantage[at]) * (prediction[at] - target[at]);
            }
        }
    }
}

impl Expectile {
    /// The weights of negative and of other advantages.
    fn weights(&self) -> [Argument; 2] {
        [-1.0f32, 1.0].map(|advantage| Argument::Float(self.weight(advantage)))
    }
}

impl Kernels for Expectile {
    fn source(&self) -> &'static str {
        include_str!("expectile.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let mut arguments: Vec<Argument> =
            (0..3).map(|at| Argument::Read(queue.input(at))).collect();
        arguments.push(Argument::Write(queue.output()));
        arguments.push(Argument::size(queue.input(0).length()));
        arguments.extend(self.weights());
        queue.launch("expectile_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (target, count) = (queue.input_target(0), queue.input(0).length());
        let mut arguments: Vec<Argument> =
            (0..3).map(|at| Argument::Read(queue.input(at))).collect();
        arguments.push(Argument::Read(queue.output_gradient()));
        arguments.push(Argument::target(target));
        arguments.push(Argument::keep(target));
        arguments.push(Argument::size(count));
        arguments.extend(self.weights());
        queue.launch("expectile_backward", Grid::over(count), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The expectile loss of predictions: errors where `advantage` is negative weigh 1 − κ, the
    /// others κ.
    pub fn expectile(
        &mut self,
        prediction: Value,
        target: Value,
        advantage: Value,
        expectile: f64,
    ) -> Value {
        let inputs = [prediction, target.stop(), advantage.stop()];
        self.add(Expectile { expectile: Some(expectile) }, &inputs, &[], (1, 1))
    }

    /// The mean squared error of predictions.
    pub fn squared_error(&mut self, prediction: Value, target: Value) -> Value {
        let inputs = [prediction, target.stop(), target.stop()];
        self.add(Expectile { expectile: None }, &inputs, &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn the_loss_has_the_gradient_of_its_formula() {
        Bench::new(&[(6, 1)])
            .holding(&[(6, 1), (6, 1)])
            .check(|program, values| program.expectile(values[0], values[1], values[2], 0.9));
        Bench::new(&[(6, 1)])
            .holding(&[(6, 1)])
            .check(|program, values| program.squared_error(values[0], values[1]));
    }

    #[test]
    fn no_gradient_flows_into_target_or_advantage() {
        let gradients = Bench::new(&[(6, 1); 3])
            .gradients(|program, values| program.expectile(values[0], values[1], values[2], 0.9));
        assert!(gradients[0].iter().all(|&g| g != 0.0));
        assert_eq!(gradients[1..], [[0.0; 6]; 2]);
    }

    #[test]
    fn the_minimum_over_a_constant_is_the_expectile_of_the_targets() {
        // κ = 0.75 of {0, 1}: 0.25 x = 0.75 (1 − x), so x = 0.75.
        let loss = |x: f64, expectile: f64| {
            [0.0, 1.0]
                .map(|y: f64| {
                    let advantage = y - x;
                    let operation = Expectile { expectile: Some(expectile) };
                    operation.weight(advantage) * advantage * advantage
                })
                .iter()
                .sum::<f64>()
        };
        assert!(loss(0.75, 0.75) < loss(0.74, 0.75) && loss(0.75, 0.75) < loss(0.76, 0.75));
    }
}
