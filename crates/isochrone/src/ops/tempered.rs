//! X e^−θ: a matrix divided by a temperature whose logarithm θ is learned.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Parameter, Program, Queue, Scalar, Value,
};

/// Numbers that one block adds up along the temperature.
const STRIP: usize = 8192;

struct Tempered {
    count: usize,
}

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
        // So many terms leave little of single precision.
        let along: f64 = gradient.iter().zip(run.output).map(|(g, y)| g.wide() * y.wide()).sum();
        if let Some(target) = run.input_gradient(0) {
            target.iter_mut().zip(&*gradient).for_each(|(t, &g)| *t += scale * g);
        }
        if let Some(target) = run.parameter_gradient(0) {
            target[0] -= T::of(along);
        }
    }
}

impl Kernels for Tempered {
    fn source(&self) -> &'static str {
        include_str!("tempered.cu")
    }

    /// What blocks add up, and a counter.
    fn kept(&self) -> Vec<usize> {
        vec![self.count.div_ceil(STRIP), 1]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.parameter(0)),
            Argument::Write(queue.output()),
            Argument::size(self.count),
        ];
        queue.launch("tempered_forward", Grid::fours(self.count), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let gradient = queue.output_gradient();
        if let Some(target) = queue.input_target(0) {
            let arguments = [
                Argument::Read(gradient),
                Argument::Read(queue.parameter(0)),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(self.count),
            ];
            queue.launch("tempered_backward", Grid::fours(self.count), &arguments);
        }
        if let Some(target) = queue.parameter_target(0) {
            let arguments = [
                Argument::Read(queue.output()),
                Argument::Read(gradient),
                Argument::Write(queue.kept(0)),
                Argument::Write(queue.kept(1)),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(self.count),
            ];
            let grid = Grid::blocks(self.count.div_ceil(STRIP), 1, 256);
            queue.launch("tempered_temperature", grid, &arguments);
        }
    }
}

impl<T: Scalar> Program<T> {
    /// `value` divided by the temperature whose logarithm is a parameter.
    pub fn tempered(&mut self, value: Value, logarithm: Parameter) -> Value {
        let count = value.rows * value.columns;
        self.add_once(Tempered { count }, &[value], &[logarithm], (value.rows, value.columns))
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
