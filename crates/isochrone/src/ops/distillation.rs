//! The hinges of the two-step learner: targets from a critic, excess and shortfall of a distance.
//!
//! t_ij = f(g_j, a'_j, g_j) − f_ij; excess C = mean_i relu(d_ii − t_ii)²; shortfall
//! L = mean over i ≠ j of relu(t_ij − d_ij)². Means, not sums: the bound on C must not depend on B.

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

const SOURCE: &str = include_str!("distillation.cu");

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
            Argument::size(queue.rows()),
            Argument::size(self.columns),
            Argument::Int(clamped.into()),
        ];
        queue.launch("targets_forward", Grid::over(queue.output().length()), &arguments);
    }

    fn backward(&self, _queue: &mut Queue<'_>) {}
}

/// The part of the square of `excess` a hinge keeps: relu(x)² and its slope.
#[inline(always)]
fn hinge<T: Scalar>(x: T) -> (T, T) {
    let held = T::ZERO.at_least(x);
    (held * held, held + held)
}

struct Excess {
    size: usize,
}

impl<T: Scalar> Operation<T> for Excess {
    fn name(&self) -> &'static str {
        "excess"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (distance, target) = (run.input(0), run.input(1));
        let mut sum = T::ZERO;
        for at in 0..self.size {
            let place = at * (self.size + 1);
            sum += hinge(distance[place] - target[place]).0;
        }
        run.output[0] = sum / T::of(self.size as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let share = run.output_gradient[0] / T::of(self.size as f64);
        let (distance, target) = (run.input(0), run.input(1));
        if let Some(gradient) = run.input_gradient(0) {
            for at in 0..self.size {
                let place = at * (self.size + 1);
                gradient[place] += share * hinge(distance[place] - target[place]).1;
            }
        }
    }
}

impl Kernels for Excess {
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
        queue.launch("excess_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let target = queue.input_target(0);
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(self.size),
        ];
        queue.launch("excess_backward", Grid::over(self.size * self.size), &arguments);
    }
}

struct Shortfall {
    size: usize,
}

impl Shortfall {
    fn pairs(&self) -> f64 {
        (self.size * (self.size - 1)).max(1) as f64
    }
}

impl<T: Scalar> Operation<T> for Shortfall {
    fn name(&self) -> &'static str {
        "shortfall"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let rows = run.input(0).chunks_exact(self.size).zip(run.input(1).chunks_exact(self.size));
        let mut total = T::ZERO;
        for (at, (distance, target)) in rows.enumerate() {
            let mut sum = -hinge(target[at] - distance[at]).0;
            distance.iter().zip(target).for_each(|(&d, &t)| sum += hinge(t - d).0);
            total += sum;
        }
        run.output[0] = total / T::of(self.pairs());
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let share = run.output_gradient[0] / T::of(self.pairs());
        let (distance, target) = (run.input(0), run.input(1));
        if let Some(gradient) = run.input_gradient(0) {
            for ((g, &d), &t) in gradient.iter_mut().zip(distance).zip(target) {
                *g -= share * hinge(t - d).1;
            }
            for place in (0..self.size).map(|at| at * (self.size + 1)) {
                gradient[place] += share * hinge(target[place] - distance[place]).1;
            }
        }
    }
}

impl Kernels for Shortfall {
    fn source(&self) -> &'static str {
        SOURCE
    }

    /// The sums of rows, and a counter of blocks.
    fn kept(&self) -> Vec<usize> {
        vec![self.size, 1]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::Write(queue.kept(0)),
            Argument::Write(queue.kept(1)),
            Argument::size(self.size),
            Argument::Float(self.pairs() as f32),
        ];
        queue.launch("shortfall_forward", Grid::blocks(self.size, 1, 256), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let target = queue.input_target(0);
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(self.size),
            Argument::Float(self.pairs() as f32),
        ];
        queue.launch("shortfall_backward", Grid::over(self.size * self.size), &arguments);
    }
}

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
    /// The critic's distance of every pair: its score at the goal minus its score from the start.
    /// No gradient flows into the critic.
    pub fn targets(&mut self, at_goal: Value, logits: Value, targets: Targets) -> Value {
        let operation = Target { columns: logits.columns, targets };
        self.add(operation, &[at_goal.stop(), logits.stop()], &[], (logits.rows, logits.columns))
    }

    /// The share of matching pairs whose target is negative: a measure, not a loss.
    pub fn negative_share(&mut self, at_goal: Value, logits: Value) -> Value {
        let operation = NegativeShare { size: logits.rows };
        self.add(operation, &[at_goal.stop(), logits.stop()], &[], (1, 1))
    }

    /// How far the distance of matching pairs exceeds its target: mean squared.
    pub fn excess(&mut self, distance: Value, target: Value) -> Value {
        self.add(Excess { size: distance.rows }, &[distance, target.stop()], &[], (1, 1))
    }

    /// How far the distance of other pairs falls short of its target: mean squared.
    pub fn shortfall(&mut self, distance: Value, target: Value) -> Value {
        self.add(Shortfall { size: distance.rows }, &[distance, target.stop()], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn hinges_have_the_gradient_of_their_formulas() {
        let bench = || Bench::new(&[(5, 5)]).holding(&[(5, 5)]);
        bench().check(|program, values| program.excess(values[0], values[1]));
        bench().check(|program, values| program.shortfall(values[0], values[1]));
        // Distances below nearly all targets, the matching ones among them, which do not count.
        bench().check_from(
            |_, numbers| numbers.iter_mut().for_each(|x| *x -= 1.0),
            |program, values| program.shortfall(values[0], values[1]),
        );
    }

    #[test]
    fn hinges_are_one_sided_means_over_their_own_pairs() {
        assert_eq!(hinge(-2.0), (0.0, 0.0));
        assert_eq!(hinge(3.0), (9.0, 6.0));
        assert_eq!(Shortfall { size: 4 }.pairs(), 12.0);
    }

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

    #[test]
    fn no_gradient_flows_into_a_target() {
        for excess in [true, false] {
            let gradients = Bench::new(&[(5, 5); 2]).gradients(|program, values| {
                if excess {
                    program.excess(values[0], values[1])
                } else {
                    program.shortfall(values[0], values[1])
                }
            });
            assert!(gradients[0].iter().any(|&g| g != 0.0));
            assert!(gradients[1].iter().all(|&g| g == 0.0));
        }
    }
}
