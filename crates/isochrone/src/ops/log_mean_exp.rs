//! ln mean_m exp(x_m), entry by entry over several matrices; a target, through which no gradient
//! flows.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct LogMeanExp {
    count: usize,
}

impl<T: Scalar> Operation<T> for LogMeanExp {
    fn name(&self) -> &'static str {
        "log_mean_exp"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        (self.count <= MATRICES).then_some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        for at in 0..run.output.len() {
            let mut top = run.input(0)[at];
            (1..self.count).for_each(|m| top = top.at_least(run.input(m)[at]));
            let mut sum = T::ZERO;
            (0..self.count).for_each(|m| sum += (run.input(m)[at] - top).exp());
            run.output[at] = top + (sum / T::of(self.count as f64)).ln();
        }
    }

    fn backward(&self, _run: Backward<'_, T>) {}
}

/// Matrices that one launch takes.
const MATRICES: usize = 8;

impl Kernels for LogMeanExp {
    fn source(&self) -> &'static str {
        include_str!("log_mean_exp.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let count = queue.output().length();
        let input = |at: usize| Argument::maybe((at < self.count).then(|| queue.input(at)));
        let mut arguments: Vec<Argument> = (0..MATRICES).map(input).collect();
        arguments.push(Argument::Write(queue.output()));
        arguments.extend([self.count, count].map(Argument::size));
        queue.launch("log_mean_exp_forward", Grid::over(count), &arguments);
    }

    fn backward(&self, _queue: &mut Queue<'_>) {}
}

impl<T: Scalar> Program<T> {
    /// The logarithm of the mean exponential of `values`, which are held.
    pub fn log_mean_exp(&mut self, values: &[Value]) -> Value {
        let inputs: Vec<Value> = values.iter().map(|value| value.stop()).collect();
        let shape = (values[0].rows, values[0].columns);
        self.add(LogMeanExp { count: values.len() }, &inputs, &[], shape)
    }
}
