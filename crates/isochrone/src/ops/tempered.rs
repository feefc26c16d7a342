//! X e^−θ: a matrix divided by a temperature whose logarithm θ is learned.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Parameter, Program, Queue, Scalar, Value,
};

struct Tempered;

impl<T: Scalar> Operation<T> for Tempered {
    fn name(&self) -> &'static str {
        "tempered"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let scale = (T::ZERO - run.parameter(0)[0]).exp();
        let input = run.input(0);
        run.output.iter_mut().zip(input).for_each(|(out, &x)| *out = scale * x);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let scale = (T::ZERO - run.parameter(0)[0]).exp();
        let mut along = T::ZERO;
        gradient.iter().zip(run.output).for_each(|(&g, &y)| along += g * y);
        if let Some(target) = run.input_gradient(0) {
            target.iter_mut().zip(&*gradient).for_each(|(t, &g)| *t += scale * g);
        }
        if let Some(target) = run.parameter_gradient(0) {
            target[0] -= along;
        }
    }
}

impl Kernels for Tempered {
    fn source(&self) -> &'static str {
        include_str!("tempered.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let output = queue.output();
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.parameter(0)),
            Argument::Write(output),
            Argument::size(output.length()),
        ];
        queue.launch("tempered_forward", Grid::over(output.length()), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (gradient, count) = (queue.output_gradient(), queue.output().length());
        if let Some(target) = queue.input_target(0) {
            let arguments = [
                Argument::Read(gradient),
                Argument::Read(queue.parameter(0)),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(count),
            ];
            queue.launch("tempered_backward", Grid::over(count), &arguments);
        }
        if let Some(target) = queue.parameter_target(0) {
            let arguments = [
                Argument::Read(queue.output()),
                Argument::Read(gradient),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(count),
            ];
            queue.launch("tempered_temperature", Grid::one(256), &arguments);
        }
    }
}

impl<T: Scalar> Program<T> {
    /// `value` divided by the temperature whose logarithm is a parameter.
    pub fn tempered(&mut self, value: Value, logarithm: Parameter) -> Value {
        self.add_once(Tempered, &[value], &[logarithm], (value.rows, value.columns))
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::Initial;
    use crate::ops::differences::Bench;

    #[test]
    fn a_matrix_and_its_temperature_have_the_gradient_of_the_formula() {
        let mut bench = Bench::new(&[(4, 3)]);
        let arena = bench.parameters.arena("temperature");
        let logarithm = bench.parameters.add(arena, "logarithm", (1, 1), Initial::Uniform(2.0));
        bench.check(|program, values| program.tempered(values[0], logarithm));
    }
}
