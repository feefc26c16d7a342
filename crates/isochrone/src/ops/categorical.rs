//! log π(a) = Σ_i a_i (l_i − LSE l), row by row: the log-likelihood of a one-hot action under logits
//! l; and the one-hot of the largest logit, through which no gradient flows.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// The place of the largest number, the first of equals.
pub(crate) fn largest<T: Scalar>(numbers: &[T]) -> usize {
    (1..numbers.len()).fold(0, |best, at| if numbers[at] > numbers[best] { at } else { best })
}

/// Writes the one-hot of the largest number of each row of `width`.
pub(crate) fn write_one_hot<T: Scalar>(logits: &[T], width: usize, out: &mut [T]) {
    out.fill(T::ZERO);
    for (logits, out) in logits.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        out[largest(logits)] = T::ONE;
    }
}

/// ln Σ exp of a row.
fn log_sum_exp<T: Scalar>(row: &[T]) -> T {
    let top = row[largest(row)];
    let sum = row.iter().fold(T::ZERO, |sum, &x| sum + (x - top).exp());
    top + sum.ln()
}

struct LogLikelihood {
    width: usize,
}

impl<T: Scalar> Operation<T> for LogLikelihood {
    fn name(&self) -> &'static str {
        "categorical"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let rows = run.input(0).chunks_exact(self.width).zip(run.input(1).chunks_exact(self.width));
        for (out, (logits, action)) in run.output.iter_mut().zip(rows) {
            let total = log_sum_exp(logits);
            *out = T::ZERO;
            logits.iter().zip(action).for_each(|(&l, &a)| *out += a * (l - total));
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let rows = run.input(0).chunks_exact(self.width).zip(run.input(1).chunks_exact(self.width));
        if let Some(target) = run.input_gradient(0) {
            let targets = target.chunks_exact_mut(self.width).zip(&*gradient);
            for ((target, &g), (logits, action)) in targets.zip(rows) {
                let total = log_sum_exp(logits);
                let mass = action.iter().fold(T::ZERO, |sum, &a| sum + a);
                for ((target, &l), &a) in target.iter_mut().zip(logits).zip(action) {
                    *target += g * (a - mass * (l - total).exp());
                }
            }
        }
    }
}

struct MostLikely {
    width: usize,
}

impl<T: Scalar> Operation<T> for MostLikely {
    fn name(&self) -> &'static str {
        "most_likely"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        write_one_hot(run.input(0), self.width, run.output);
    }

    fn backward(&self, _run: Backward<'_, T>) {}
}

impl Kernels for LogLikelihood {
    fn source(&self) -> &'static str {
        include_str!("categorical.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::size(queue.rows()),
            Argument::size(self.width),
        ];
        queue.launch("categorical_forward", Grid::over(queue.rows()), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let target = queue.input_target(0);
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(queue.rows()),
            Argument::size(self.width),
        ];
        queue.launch("categorical_backward", Grid::over(queue.rows()), &arguments);
    }
}

impl Kernels for MostLikely {
    fn source(&self) -> &'static str {
        include_str!("categorical.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Write(queue.output()),
            Argument::size(queue.rows()),
            Argument::size(self.width),
        ];
        queue.launch("categorical_most_likely", Grid::over(queue.rows()), &arguments);
    }

    fn backward(&self, _queue: &mut Queue<'_>) {}
}

impl<T: Scalar> Program<T> {
    /// The log-likelihood of each row of one-hot `action` under `logits`.
    pub fn categorical(&mut self, logits: Value, action: Value) -> Value {
        let operation = LogLikelihood { width: logits.columns };
        self.add(operation, &[logits, action.stop()], &[], (logits.rows, 1))
    }

    /// The one-hot of the largest of each row of `logits`, held.
    pub fn most_likely(&mut self, logits: Value) -> Value {
        let operation = MostLikely { width: logits.columns };
        self.add(operation, &[logits.stop()], &[], (logits.rows, logits.columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn the_likelihood_has_the_gradient_of_its_formula_at_ties_too() {
        let tie = |at: usize, numbers: &mut [f64]| {
            if at == 0 {
                numbers[1] = numbers[0];
            }
        };
        Bench::new(&[(4, 3)])
            .holding(&[(4, 3)])
            .check_from(tie, |program, values| program.categorical(values[0], values[1]));
    }

    #[test]
    fn even_logits_give_each_action_its_share_and_large_ones_stay_finite() {
        assert!((log_sum_exp(&[0.0; 4]) - 4.0f64.ln()).abs() < 1e-15);
        assert!((log_sum_exp(&[3.0f64.ln(), 0.0]) - 4.0f64.ln()).abs() < 1e-15);
        assert_eq!(log_sum_exp(&[1e30f32, -1e30]), 1e30);
    }

    #[test]
    fn the_most_likely_action_is_one_hot_the_first_of_equals_and_held() {
        let mut out = [9.0; 6];
        write_one_hot(&[1.0, 3.0, 3.0, -2.0, -1.0, -5.0], 3, &mut out);
        assert_eq!(out, [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
        let gradients = Bench::new(&[(2, 3)]).gradients(|program, values| {
            let likely = program.most_likely(values[0]);
            program.categorical(values[0], likely)
        });
        // Only the likelihood's own gradient: it sums to 0 in each row, as a − softmax does.
        for row in gradients[0].chunks(3) {
            assert!(row.iter().sum::<f64>().abs() < 1e-12 && row[0] != 0.0);
        }
    }
}
