//! The share of matching pairs whose target is negative, f(g_i, a'_i, g_i) < f_ii: a measure, not a loss.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct NegativeShare {
    size: usize,
}

impl<T: Scalar> Operation<T> for NegativeShare {
    fn name(&self) -> &'static str {
        "negative_share"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (at_goal, logits) = (run.input(0), run.input(1));
        let negative =
            (0..self.size).filter(|&at| at_goal[at] < logits[at * (self.size + 1)]).count();
        run.output[0] = T::of(negative as f64 / self.size as f64);
    }

    fn backward(&self, _run: Backward<'_, T>) {}
}

const SOURCE: &str = include_str!("negative_share.cu");

impl Kernels for NegativeShare {
    fn source(&self) -> &'static str {
        SOURCE
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::size(self.size),
        ];
        queue.launch("negative_share_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, _queue: &mut Queue<'_>) {}
}

impl<T: Scalar> Program<T> {
    /// The share of matching pairs whose target is negative: a measure, not a loss.
    pub fn negative_share(&mut self, at_goal: Value, logits: Value) -> Value {
        let operation = NegativeShare { size: logits.rows };
        self.add(operation, &[at_goal.stop(), logits.stop()], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn no_gradient_flows_through_a_measure() {
        let gradients = Bench::new(&[(5, 1), (5, 5)])
            .gradients(|program, values| program.negative_share(values[0], values[1]));
        assert!(gradients.iter().flatten().all(|&g| g == 0.0));
    }
}
