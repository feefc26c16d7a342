//! L = mean over i ≠ j of relu(t_ij − d_ij)²: how far the distance of other pairs falls short of its target.

use super::squared_hinge::hinge;
use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct Shortfall {
    size: usize,
}

impl Shortfall {
    fn pairs(&self) -> f64 {
        (self.size * (self.size - 1)).max(1) as f64
    }
}

impl<T: Scalar> Operation<T> for Shortfall {
    fn name(&self) -> &'static str {
        "shortfall"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let rows = run.input(0).chunks_exact(self.size).zip(run.input(1).chunks_exact(self.size));
        let mut total = T::ZERO;
        for (at, (distance, target)) in rows.enumerate() {
            let mut sum = -hinge(target[at] - distance[at]).0;
            distance.iter().zip(target).for_each(|(&d, &t)| sum += hinge(t - d).0);
            total += sum;
        }
        run.output[0] = total / T::of(self.pairs());
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let share = run.output_gradient[0] / T::of(self.pairs());
        let (distance, target) = (run.input(0), run.input(1));
        if let Some(gradient) = run.input_gradient(0) {
            for ((g, &d), &t) in gradient.iter_mut().zip(distance).zip(target) {
                *g -= share * hinge(t - d).1;
            }
            for place in (0..self.size).map(|at| at * (self.size + 1)) {
                gradient[place] += share * hinge(target[place] - distance[place]).1;
            }
        }
    }
}

impl Kernels for Shortfall {
    fn source(&self) -> &'static str {
        include_str!("shortfall.cu")
    }

    /// The sums of rows, and a counter of blocks.
    fn kept(&self) -> Vec<usize> {
        vec![self.size, 1]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::Write(queue.kept(0)),
            Argument::Write(queue.kept(1)),
            Argument::size(self.size),
            Argument::Float(self.pairs() as f32),
        ];
        queue.launch("shortfall_forward", Grid::blocks(self.size, 1, 256), &arguments);
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
            Argument::Float(self.pairs() as f32),
        ];
        queue.launch("shortfall_backward", Grid::lines(self.size, self.size), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// How far the distance of other pairs falls short of its target: mean squared.
    pub fn shortfall(&mut self, distance: Value, target: Value) -> Value {
        self.add(Shortfall { size: distance.rows }, &[distance, target.stop()], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn it_has_the_gradient_of_its_formula() {
        let bench = || Bench::new(&[(5, 5)]).holding(&[(5, 5)]);
        bench().check(|program, values| program.shortfall(values[0], values[1]));
        // Distances below nearly all targets, the matching ones among them, which do not count.
        bench().check_from(
            |_, numbers| numbers.iter_mut().for_each(|x| *x -= 1.0),
            |program, values| program.shortfall(values[0], values[1]),
        );
    }

    #[test]
    fn no_gradient_flows_into_a_target() {
        let gradients = Bench::new(&[(5, 5); 2])
            .gradients(|program, values| program.shortfall(values[0], values[1]));
        assert!(gradients[0].iter().any(|&g| g != 0.0));
        assert!(gradients[1].iter().all(|&g| g == 0.0));
    }

    #[test]
    fn it_is_a_mean_over_the_pairs_that_do_not_match() {
        assert_eq!(Shortfall { size: 4 }.pairs(), 12.0);
    }
}
