//! mean relu(d − b)²: what distances exceed a bound by.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct Hinge {
    bound: f64,
}

impl<T: Scalar> Operation<T> for Hinge {
    fn name(&self) -> &'static str {
        "hinge"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (numbers, bound) = (run.input(0), T::of(self.bound));
        let mut sum = T::ZERO;
        for &distance in numbers {
            let above = (distance - bound).at_least(T::ZERO);
            sum += above * above;
        }
        run.output[0] = sum / T::of(numbers.len() as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let (numbers, bound) = (run.input(0), T::of(self.bound));
        let share = run.output_gradient[0] * T::of(2.0 / numbers.len() as f64);
        if let Some(target) = run.input_gradient(0) {
            for (target, &distance) in target.iter_mut().zip(numbers) {
                *target += share * (distance - bound).at_least(T::ZERO);
            }
        }
    }
}

impl Kernels for Hinge {
    fn source(&self) -> &'static str {
        include_str!("hinge.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (input, output) = (queue.input(0), queue.output());
        let arguments = [
            Argument::Read(input),
            Argument::Write(output),
            Argument::size(input.length()),
            Argument::Float(self.bound as f32),
        ];
        queue.launch("hinge_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (input, target) = (queue.input(0), queue.input_target(0));
        let arguments = [
            Argument::Read(input),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(input.length()),
            Argument::Float(self.bound as f32),
        ];
        queue.launch("hinge_backward", Grid::over(input.length()), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The mean squared excess of `distance` over `bound`.
    pub fn hinge(&mut self, distance: Value, bound: f64) -> Value {
        self.add(Hinge { bound }, &[distance], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn only_what_is_above_the_bound_is_moved() {
        Bench::new(&[(6, 1)]).check(|program, values| program.hinge(values[0], 0.2));
    }
}
