//! min(max(x, −1), 1): an action inside its bounds; no gradient flows from outside them.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct Clip;

impl<T: Scalar> Operation<T> for Clip {
    fn name(&self) -> &'static str {
        "clip"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let input = run.input(0);
        for (out, &x) in run.output.iter_mut().zip(input) {
            *out = x.at_least(-T::ONE).at_most(T::ONE);
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let input = run.input(0);
        if let Some(target) = run.input_gradient(0) {
            for ((target, &g), &x) in target.iter_mut().zip(&*gradient).zip(input) {
                if x.abs() <= T::ONE {
                    *target += g;
                }
            }
        }
    }
}

impl Kernels for Clip {
    fn source(&self) -> &'static str {
        include_str!("clip.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (input, output) = (queue.input(0), queue.output());
        let count = output.length();
        let arguments = [Argument::Read(input), Argument::Write(output), Argument::size(count)];
        queue.launch("clip_forward", Grid::over(count), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (target, gradient) = (queue.input_target(0), queue.output_gradient());
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(gradient),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(gradient.length()),
        ];
        queue.launch("clip_backward", Grid::over(gradient.length()), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// Every number held to [−1, 1].
    pub fn clip(&mut self, value: Value) -> Value {
        self.add(Clip, &[value], &[], (value.rows, value.columns))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn clipping_stops_the_gradient_outside_the_bounds() {
        Bench::new(&[(4, 4)]).check_from(
            |_, numbers| numbers.iter_mut().for_each(|x| *x *= 2.0),
            |program, values| program.clip(values[0]),
        );
    }
}
