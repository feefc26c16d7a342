//! mean b · softplus(a − d / b): pushes distances up, ever less past a · b.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// Where the push of far pairs ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Push {
    /// a, in units of `scale`.
    pub offset: f64,
    /// b, in steps.
    pub scale: f64,
}

impl<T: Scalar> Operation<T> for Push {
    fn name(&self) -> &'static str {
        "push"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let numbers = run.input(0);
        let (offset, inverse) = (T::of(self.offset), T::of(1.0 / self.scale));
        let mut sum = T::ZERO;
        numbers.iter().for_each(|&distance| sum += (offset - distance * inverse).softplus());
        run.output[0] = sum * T::of(self.scale / numbers.len() as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let numbers = run.input(0);
        let (offset, inverse) = (T::of(self.offset), T::of(1.0 / self.scale));
        let share = run.output_gradient[0] / T::of(numbers.len() as f64);
        if let Some(target) = run.input_gradient(0) {
            for (target, &distance) in target.iter_mut().zip(numbers) {
                *target -= share * (offset - distance * inverse).sigmoid();
            }
        }
    }
}

impl Kernels for Push {
    fn source(&self) -> &'static str {
        include_str!("push.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (input, output) = (queue.input(0), queue.output());
        let arguments = [
            Argument::Read(input),
            Argument::Write(output),
            Argument::size(input.length()),
            Argument::Float(self.offset as f32),
            Argument::Float((1.0 / self.scale) as f32),
            Argument::Float((self.scale / input.length() as f64) as f32),
        ];
        queue.launch("push_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (input, target) = (queue.input(0), queue.input_target(0));
        let arguments = [
            Argument::Read(input),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(input.length()),
            Argument::Float(self.offset as f32),
            Argument::Float((1.0 / self.scale) as f32),
        ];
        queue.launch("push_backward", Grid::over(input.length()), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The push of distances.
    pub fn push(&mut self, push: Push, distance: Value) -> Value {
        self.add(push, &[distance], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn the_push_has_the_gradient_of_its_formula() {
        Bench::new(&[(5, 1)]).check_from(
            |_, numbers| numbers.iter_mut().for_each(|x| *x *= 6.0),
            |program, values| program.push(Push { offset: 1.5, scale: 2.0 }, values[0]),
        );
    }
}
