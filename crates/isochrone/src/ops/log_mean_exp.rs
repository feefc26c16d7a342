//! ln mean_m exp(x_m), entry by entry over several matrices; a target, through which no gradient
//! flows.

use crate::engine::{Backward, Forward, Operation, Program, Scalar, Value};

struct LogMeanExp {
    count: usize,
}

impl<T: Scalar> Operation<T> for LogMeanExp {
    fn name(&self) -> &'static str {
        "log_mean_exp"
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

impl<T: Scalar> Program<T> {
    /// The logarithm of the mean exponential of `values`, which are held.
    pub fn log_mean_exp(&mut self, values: &[Value]) -> Value {
        let inputs: Vec<Value> = values.iter().map(|value| value.stop()).collect();
        let shape = (values[0].rows, values[0].columns);
        self.add(LogMeanExp { count: values.len() }, &inputs, &[], shape)
    }
}
