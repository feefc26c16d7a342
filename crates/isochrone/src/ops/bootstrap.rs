//! y = (1 − reached)(γ v − 1): the value of a start from that of its successor where a step costs 1
//! until the goal is reached; a target, through which no gradient flows. It may be held to
//! [−1/(1−γ), 0], where every value lies.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// How a value follows from its successor's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// γ.
    pub discount: f64,
    /// Whether the target is held to where values lie.
    pub held: bool,
}

impl Bootstrap {
    fn value<T: Scalar>(&self, next: T, reached: T) -> T {
        let value = (T::ONE - reached) * (T::of(self.discount) * next - T::ONE);
        if !self.held {
            return value;
        }
        value.at_least(T::of(-1.0 / (1.0 - self.discount))).at_most(T::ZERO)
    }
}

impl<T: Scalar> Operation<T> for Bootstrap {
    fn name(&self) -> &'static str {
        "bootstrap"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let pairs = run.input(0).iter().zip(run.input(1));
        for (out, (&next, &reached)) in run.output.iter_mut().zip(pairs) {
            *out = self.value(next, reached);
        }
    }

    fn backward(&self, _run: Backward<'_, T>) {}
}

impl Kernels for Bootstrap {
    fn source(&self) -> &'static str {
        include_str!("bootstrap.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let output = queue.output();
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(output),
            Argument::size(output.length()),
            Argument::Float(self.discount as f32),
            Argument::Int(self.held.into()),
            Argument::Float((-1.0 / (1.0 - self.discount)) as f32),
        ];
        queue.launch("bootstrap_forward", Grid::over(output.length()), &arguments);
    }

    fn backward(&self, _queue: &mut Queue<'_>) {}
}

impl<T: Scalar> Program<T> {
    /// The value of each start, given its successor's and whether the goal is reached.
    pub fn bootstrap(&mut self, form: Bootstrap, next: Value, reached: Value) -> Value {
        self.add(form, &[next.stop(), reached], &[], (next.rows, next.columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn steps_to_go_are_a_fixed_point_held_to_what_a_value_can_be() {
        // v_n = −(1 − γⁿ)/(1 − γ) is the value of n steps to go; one step earlier is v_{n+1}.
        let target = Bootstrap { discount: 0.9, held: true };
        let value = |steps: i32| -(1.0 - 0.9f64.powi(steps)) / (1.0 - 0.9);
        assert!((target.value(value(6), 0.0) - value(7)).abs() < 1e-12);
        assert_eq!(target.value(value(6), 1.0), 0.0);
        assert!((target.value(-50.0, 0.0) + 10.0f64).abs() < 1e-12);
        assert_eq!(target.value(50.0f64, 0.0), 0.0);
        assert_eq!(Bootstrap { held: false, ..target }.value(50.0f64, 0.0), 44.0);
    }

    #[test]
    fn no_gradient_flows_through_a_target() {
        let gradients = Bench::new(&[(4, 1)]).holding(&[(4, 1)]).gradients(|program, values| {
            let form = Bootstrap { discount: 0.9, held: true };
            program.bootstrap(form, values[0], values[1])
        });
        assert_eq!(gradients[0], [0.0; 4]);
    }
}
