//! C = mean_i relu(d_ii − t_ii)²: how far the distance of matching pairs exceeds its target.
//!
//! A mean, not a sum: the bound on C must not depend on the batch.

use super::squared_hinge::hinge;
use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct Excess {
    size: usize,
}

impl<T: Scalar> Operation<T> for Excess {
    fn name(&self) -> &'static str {
        "excess"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (distance, target) = (run.input(0), run.input(1));
        let mut sum = T::ZERO;
        for at in 0..self.size {
            let place = at * (self.size + 1);
            sum += hinge(distance[place] - target[place]).0;
        }
        run.output[0] = sum / T::of(self.size as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let share = run.output_gradient[0] / T::of(self.size as f64);
        let (distance, target) = (run.input(0), run.input(1));
        if let Some(gradient) = run.input_gradient(0) {
            for at in 0..self.size {
                let place = at * (self.size + 1);
                gradient[place] += share * hinge(distance[place] - target[place]).1;
            }
        }
    }
}

impl Kernels for Excess {
    fn source(&self) -> &'static str {
        include_str!("excess.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::size(self.size),
        ];
        queue.launch("excess_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let target = queue.input_target(0);
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(self.size),
        ];
        queue.launch("excess_backward", Grid::lines(self.size, self.size), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// How far the distance of matching pairs exceeds its target: mean squared.
    pub fn excess(&mut self, distance: Value, target: Value) -> Value {
        self.add(Excess { size: distance.rows }, &[distance, target.stop()], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn it_has_the_gradient_of_its_formula() {
        let bench = || Bench::new(&[(5, 5)]).holding(&[(5, 5)]);
        bench().check(|program, values| program.excess(values[0], values[1]));
    }

    #[test]
    fn no_gradient_flows_into_a_target() {
        let gradients = Bench::new(&[(5, 5); 2])
            .gradients(|program, values| program.excess(values[0], values[1]));
        assert!(gradients[0].iter().any(|&g| g != 0.0));
        assert!(gradients[1].iter().all(|&g| g == 0.0));
    }
}
