//! mean (e^{−d} − 1)²: pulls distances to 0, more gently the farther they are.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct Closeness;

impl<T: Scalar> Operation<T> for Closeness {
    fn name(&self) -> &'static str {
        "closeness"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let numbers = run.input(0);
        let mut sum = T::ZERO;
        for &distance in numbers {
            let short = (-distance).exp() - T::ONE;
            sum += short * short;
        }
        run.output[0] = sum / T::of(numbers.len() as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let numbers = run.input(0);
        let share = run.output_gradient[0] * T::of(2.0 / numbers.len() as f64);
        if let Some(target) = run.input_gradient(0) {
            for (target, &distance) in target.iter_mut().zip(numbers) {
                let near = (-distance).exp();
                *target += share * (T::ONE - near) * near;
            }
        }
    }
}

impl Kernels for Closeness {
    fn source(&self) -> &'static str {
        include_str!("closeness.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (input, output) = (queue.input(0), queue.output());
        let arguments =
            [Argument::Read(input), Argument::Write(output), Argument::size(input.length())];
        queue.launch("closeness_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (input, target) = (queue.input(0), queue.input_target(0));
        let arguments = [
            Argument::Read(input),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(input.length()),
        ];
        queue.launch("closeness_backward", Grid::over(input.length()), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// How far `distance` is from 0, on the scale of e^{−d}.
    pub fn closeness(&mut self, distance: Value) -> Value {
        self.add(Closeness, &[distance], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn the_loss_has_the_gradient_of_its_formula() {
        Bench::new(&[(5, 1)]).check(|program, values| program.closeness(values[0]));
    }
}
