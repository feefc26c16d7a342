//! t_ij = f(g_j, a'_j, g_j) − f_ij: the distance of every pair as a critic says.

use serde::{Deserialize, Serialize};

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// What happens to targets that are negative, which no distance can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Targets {
    /// They stay as the critic says.
    Raw,
    /// They become 0.
    Clamped,
}

struct Target {
    columns: usize,
    targets: Targets,
}

impl<T: Scalar> Operation<T> for Target {
    fn name(&self) -> &'static str {
        "targets"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (at_goal, logits) = (run.input(0), run.input(1));
        let rows = run.output.chunks_exact_mut(self.columns).zip(logits.chunks_exact(self.columns));
        for (row, logits) in rows {
            for ((t, &at_goal), &f) in row.iter_mut().zip(at_goal).zip(logits) {
                *t = at_goal - f;
                if self.targets == Targets::Clamped {
                    *t = T::ZERO.at_least(*t);
                }
            }
        }
    }

    fn backward(&self, _run: Backward<'_, T>) {}
}

const SOURCE: &str = include_str!("targets.cu");

impl Kernels for Target {
    fn source(&self) -> &'static str {
        SOURCE
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let clamped = self.targets == Targets::Clamped;
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::size(self.columns),
            Argument::Int(clamped.into()),
        ];
        queue.launch("targets_forward", Grid::lines(queue.rows(), self.columns), &arguments);
    }

    fn backward(&self, _queue: &mut Queue<'_>) {}
}

impl<T: Scalar> Program<T> {
    /// The critic's distance of every pair: its score at the goal minus its score from the start.
    /// No gradient flows into the critic.
    pub fn targets(&mut self, at_goal: Value, logits: Value, targets: Targets) -> Value {
        let operation = Target { columns: logits.columns, targets };
        self.add(operation, &[at_goal.stop(), logits.stop()], &[], (logits.rows, logits.columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn no_gradient_flows_into_the_critic_through_a_target() {
        for targets in [Targets::Raw, Targets::Clamped] {
            let gradients = Bench::new(&[(5, 5), (5, 1), (5, 5)]).gradients(|program, values| {
                let target = program.targets(values[1], values[2], targets);
                program.shortfall(values[0], target)
            });
            assert!(gradients[0].iter().any(|&g| g != 0.0));
            assert!(gradients[1..].iter().flatten().all(|&g| g == 0.0));
        }
    }
}
