//! λ of a raw number: a dual multiplier that stays positive.
//!
//! Floored: min(0.01 + softplus(raw), 10⁴). Softplus: the same without floor. Exponential: e^raw, with
//! the same cap.

use serde::{Deserialize, Serialize};

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Parameter, Program, Queue, Scalar, Value,
};

/// The least value of a multiplier.
pub const MULTIPLIER_FLOOR: f64 = 0.01;
/// The largest value of a multiplier; no gradient flows there.
pub const MULTIPLIER_CAP: f64 = 1e4;

/// How a raw number becomes a multiplier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Multiplier {
    /// 0.01 + softplus(raw).
    Floored,
    /// softplus(raw).
    Softplus,
    /// e^raw.
    Exponential,
}

/// ln(eˣ − 1); above 40 that is x to the last bit, and eˣ would soon have no end.
fn inverse_softplus(x: f64) -> f64 {
    if x > 40.0 { x } else { x.exp_m1().ln() }
}

impl Multiplier {
    /// The raw number whose multiplier is `first`.
    pub fn raw(self, first: f64) -> f64 {
        match self {
            Self::Floored => inverse_softplus(first - MULTIPLIER_FLOOR),
            Self::Softplus => inverse_softplus(first),
            Self::Exponential => first.ln(),
        }
    }

    /// The multiplier and its slope.
    fn of<T: Scalar>(self, raw: T) -> (T, T) {
        match self {
            Self::Floored => (T::of(MULTIPLIER_FLOOR) + raw.softplus(), raw.sigmoid()),
            Self::Softplus => (raw.softplus(), raw.sigmoid()),
            Self::Exponential => (raw.exp(), raw.exp()),
        }
    }

    /// The gradient by the raw number. At the cap only one that leads back down may act (descent
    /// subtracts it).
    fn pull<T: Scalar>(self, raw: T, upstream: T) -> T {
        let (value, slope) = self.of(raw);
        let outward = value >= T::of(MULTIPLIER_CAP) && upstream <= T::ZERO;
        if outward { T::ZERO } else { upstream * slope }
    }
}

impl<T: Scalar> Operation<T> for Multiplier {
    fn name(&self) -> &'static str {
        "multiplier"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        run.output[0] = self.of(run.parameter(0)[0]).0.at_most(T::of(MULTIPLIER_CAP));
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let pull = self.pull(run.parameter(0)[0], run.output_gradient[0]);
        if let Some(target) = run.parameter_gradient(0) {
            target[0] += pull;
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
            Argument::Float(if *self == Self::Floored { MULTIPLIER_FLOOR as f32 } else { 0.0 }),
            Argument::Float(MULTIPLIER_CAP as f32),
            Argument::Int((*self == Self::Exponential).into()),
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
            Argument::Int((*self == Self::Exponential).into()),
        ];
        queue.launch("multiplier_backward", Grid::one(1), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The multiplier of a raw parameter.
    pub fn multiplier(&mut self, form: Multiplier, raw: Parameter) -> Value {
        self.add(form, &[], &[raw], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Initial;
    use crate::ops::differences::Bench;

    #[test]
    fn a_multiplier_has_the_gradient_of_its_form_and_begins_where_told() {
        for form in [Multiplier::Floored, Multiplier::Softplus, Multiplier::Exponential] {
            let mut bench = Bench::new(&[]);
            let arena = bench.parameters.arena("dual");
            let raw = bench.parameters.add(arena, "raw", (1, 1), Initial::Uniform(2.0));
            bench.check(|program, _| program.multiplier(form, raw));
            for first in [0.7, 39.9, 40.1, 5_000.0] {
                assert!((form.of(form.raw(first)).0 / first - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn at_the_cap_only_a_gradient_that_leads_back_down_acts() {
        for (form, raw) in [
            (Multiplier::Floored, 2e4),
            (Multiplier::Softplus, 2e4),
            (Multiplier::Exponential, 20.0),
        ] {
            assert!(form.of(raw).0 > MULTIPLIER_CAP);
            assert_eq!(form.pull(raw, -1.0), 0.0);
            assert!(form.pull(raw, 1.0) > 0.0);
            assert!(form.pull(0.0, -1.0) < 0.0 && form.pull(0.0, 1.0) > 0.0);
        }
    }
}
