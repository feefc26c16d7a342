//! mean (1−γ) · softplus(−f(s,a,s')) + γ w · softplus(−f(s,a,g)) + softplus(f(s,a,g)), with
//! w = min(e^{f̄(s',a',g)}, 20) held: a classifier of future states, taught by itself.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// The largest weight of a random goal as a positive.
const LARGEST_WEIGHT: f64 = 20.0;

struct RecursiveClassification {
    discount: f64,
}

impl RecursiveClassification {
    fn weight<T: Scalar>(&self, ahead: T) -> T {
        T::of(self.discount) * ahead.exp().at_most(T::of(LARGEST_WEIGHT))
    }
}

impl<T: Scalar> Operation<T> for RecursiveClassification {
    fn name(&self) -> &'static str {
        "recursive_classification"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (next, goal, ahead) = (run.input(0), run.input(1), run.input(2));
        let mut sum = T::ZERO;
        for ((&next, &goal), &ahead) in next.iter().zip(goal).zip(ahead) {
            sum += T::of(1.0 - self.discount) * (-next).softplus()
                + self.weight(ahead) * (-goal).softplus()
                + goal.softplus();
        }
        run.output[0] = sum / T::of(next.len() as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let (next, goal, ahead) = (run.input(0), run.input(1), run.input(2));
        let share = run.output_gradient[0] / T::of(next.len() as f64);
        if let Some(target) = run.input_gradient(0) {
            for (target, &next) in target.iter_mut().zip(next) {
                *target -= share * T::of(1.0 - self.discount) * (-next).sigmoid();
            }
        }
        if let Some(target) = run.input_gradient(1) {
            for (at, target) in target.iter_mut().enumerate() {
                let positive = self.weight(ahead[at]) * (-goal[at]).sigmoid();
                *target += share * (goal[at].sigmoid() - positive);
            }
        }
    }
}

impl Kernels for RecursiveClassification {
    fn source(&self) -> &'static str {
        include_str!("recursive_classification.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.input(2)),
            Argument::Write(queue.output()),
            Argument::size(queue.input(0).length()),
            Argument::Float((1.0 - self.discount) as f32),
            Argument::Float(self.discount as f32),
            Argument::Float(LARGEST_WEIGHT as f32),
        ];
        queue.launch("recursive_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (gradient, count) = (Argument::Read(queue.output_gradient()), queue.input(0).length());
        if let Some(target) = queue.input_target(0) {
            let arguments = [
                Argument::Read(queue.input(0)),
                gradient,
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(count),
                Argument::Float((1.0 - self.discount) as f32),
            ];
            queue.launch("recursive_next", Grid::over(count), &arguments);
        }
        if let Some(target) = queue.input_target(1) {
            let arguments = [
                Argument::Read(queue.input(1)),
                Argument::Read(queue.input(2)),
                gradient,
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(count),
                Argument::Float(self.discount as f32),
                Argument::Float(LARGEST_WEIGHT as f32),
            ];
            queue.launch("recursive_goal", Grid::over(count), &arguments);
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The loss of a classifier's logits at the next state and at a random goal, given the logit of
    /// that goal one step ahead.
    pub fn recursive_classification(
        &mut self,
        next: Value,
        goal: Value,
        ahead: Value,
        discount: f64,
    ) -> Value {
        let inputs = [next, goal, ahead.stop()];
        self.add(RecursiveClassification { discount }, &inputs, &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn the_loss_has_the_gradient_of_its_formula_and_weights_are_capped() {
        Bench::new(&[(5, 1), (5, 1)]).holding(&[(5, 1)]).check(|program, values| {
            program.recursive_classification(values[0], values[1], values[2], 0.9)
        });
        let operation = RecursiveClassification { discount: 0.5 };
        assert_eq!(operation.weight(100.0f64), 10.0);
        assert!((operation.weight(1.0f64) - 0.5 * 1.0f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn no_gradient_flows_into_the_weight() {
        let gradients = Bench::new(&[(5, 1); 3]).gradients(|program, values| {
            program.recursive_classification(values[0], values[1], values[2], 0.9)
        });
        assert!(gradients[..2].iter().flatten().all(|&g| g != 0.0));
        assert_eq!(gradients[2], [0.0; 5]);
    }

    #[test]
    fn the_optimum_is_the_ratio_of_the_discounted_future_to_the_marginal() {
        // Two states that alternate, marginal ½ each. From state 0 the discounted future (k ≥ 1) is
        // p(1) = (1−γ)(1 + γ² + …) = 1/(1+γ), p(0) = γ/(1+γ); at the optimum e^f = p(g|s)/p(g).
        let discount = 0.8f64;
        let ratio = |same: bool| 2.0 * if same { discount } else { 1.0 } / (1.0 + discount);
        for goal_is_start in [false, true] {
            // Half of the random goals are this one; the next state is it unless it is the start.
            let score = ratio(goal_is_start).ln();
            let ahead: f64 = ratio(!goal_is_start);
            let positive = if goal_is_start { 0.0 } else { 1.0 - discount };
            let mass = positive + 0.5 * discount * ahead;
            let slope = 0.5 * score.sigmoid() - mass * (-score).sigmoid();
            assert!(slope.abs() < 1e-12, "{slope}");
        }
    }
}
