//! λ = min(0.01 + softplus(raw), 10⁴): a dual multiplier that stays positive.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Parameter, Program, Queue, Scalar, Value,
};

/// The least value of a multiplier.
pub const MULTIPLIER_FLOOR: f64 = 0.01;
/// The largest value of a multiplier; no gradient flows there.
pub const MULTIPLIER_CAP: f64 = 1e4;

struct Multiplier;

impl<T: Scalar> Operation<T> for Multiplier {
    fn name(&self) -> &'static str {
        "multiplier"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let free = T::of(MULTIPLIER_FLOOR) + run.parameter(0)[0].softplus();
        run.output[0] = free.at_most(T::of(MULTIPLIER_CAP));
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let slope = run.parameter(0)[0].sigmoid();
        let capped = run.output[0] >= T::of(MULTIPLIER_CAP);
        let upstream = run.output_gradient[0];
        // Past the cap only a gradient that leads back down may act (descent subtracts it).
        if let Some(target) = run.parameter_gradient(0)
            && (!capped || upstream > T::ZERO)
        {
            target[0] += upstream * slope;
        }
    }
}

impl Kernels for Multiplier {
    fn source(&self) -> &'static str {
        include_str!("multiplier.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.parameter(0)),
            Argument::Write(queue.output()),
            Argument::Float(MULTIPLIER_FLOOR as f32),
            Argument::Float(MULTIPLIER_CAP as f32),
        ];
        queue.launch("multiplier_forward", Grid::one(1), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let Some(target) = queue.parameter_target(0) else { return };
        let arguments = [
            Argument::Read(queue.parameter(0)),
            Argument::Read(queue.output()),
            Argument::Read(queue.output_gradient()),
            Argument::Write(target.buffer),
            Argument::keep(Some(target)),
            Argument::Float(MULTIPLIER_CAP as f32),
        ];
        queue.launch("multiplier_backward", Grid::one(1), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The multiplier of a raw parameter.
    pub fn multiplier(&mut self, raw: Parameter) -> Value {
        self.add(Multiplier, &[], &[raw], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::Initial;
    use crate::ops::differences::Bench;

    #[test]
    fn a_multiplier_has_the_gradient_of_softplus() {
        let mut bench = Bench::new(&[]);
        let arena = bench.parameters.arena("dual");
        let raw = bench.parameters.add(arena, "raw", (1, 1), Initial::Uniform(2.0));
        bench.check(|program, _| program.multiplier(raw));
    }
}
