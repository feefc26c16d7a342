//! mean w(t) |d − t|, w(t) = (1 + t / u)^−p: distances fitted to what a teacher says.
//!
//! A target below 0 says that no way leads: the distance is pushed beyond −t, mean w(−t) relu(−t − d).
//! p = 0 is the absolute error, p = 1 about the relative one; u is the distance of one step.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// How errors far away count beside those nearby.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// p.
    pub power: f64,
    /// u.
    pub unit: f64,
}

impl Fit {
    /// The weight of a pair, and which way its distance is off: −1, 0 or 1.
    fn slope<T: Scalar>(&self, distance: T, target: T) -> (T, T) {
        let no_way = target < T::ZERO;
        let target = if no_way { T::ZERO - target } else { target };
        let weight = (T::ONE + target / T::of(self.unit)).ln() * T::of(-self.power);
        let side = if distance < target {
            T::of(-1.0)
        } else if distance > target && !no_way {
            T::ONE
        } else {
            T::ZERO
        };
        (weight.exp(), side)
    }
}

impl<T: Scalar> Operation<T> for Fit {
    fn name(&self) -> &'static str {
        "fit"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (distances, targets) = (run.input(0), run.input(1));
        let mut sum = T::ZERO;
        for (&distance, &target) in distances.iter().zip(targets) {
            let (weight, side) = self.slope(distance, target);
            let size = if target < T::ZERO { T::ZERO - target } else { target };
            sum += weight * side * (distance - size);
        }
        run.output[0] = sum / T::of(distances.len() as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let (distances, targets) = (run.input(0), run.input(1));
        let share = run.output_gradient[0] / T::of(distances.len() as f64);
        if let Some(gradient) = run.input_gradient(0) {
            let pairs = distances.iter().zip(targets);
            for (gradient, (&distance, &target)) in gradient.iter_mut().zip(pairs) {
                let (weight, side) = self.slope(distance, target);
                *gradient += share * weight * side;
            }
        }
    }
}

impl Kernels for Fit {
    fn source(&self) -> &'static str {
        include_str!("fit.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (distance, target) = (queue.input(0), queue.input(1));
        let arguments = [
            Argument::Read(distance),
            Argument::Read(target),
            Argument::Write(queue.output()),
            Argument::size(distance.length()),
            Argument::Float(self.power as f32),
            Argument::Float(self.unit as f32),
        ];
        queue.launch("fit_forward", Grid::one(512), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (distance, target) = (queue.input(0), queue.input(1));
        let gradient = queue.input_target(0);
        let arguments = [
            Argument::Read(distance),
            Argument::Read(target),
            Argument::Read(queue.output_gradient()),
            Argument::target(gradient),
            Argument::keep(gradient),
            Argument::size(distance.length()),
            Argument::Float(self.power as f32),
            Argument::Float(self.unit as f32),
        ];
        queue.launch("fit_backward", Grid::over(distance.length()), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// The mean error of `distance` against `target`; the target is held.
    pub fn fit(&mut self, fit: Fit, distance: Value, target: Value) -> Value {
        self.add(fit, &[distance, target.stop()], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_without_a_way_is_only_pushed_apart() {
        let fit = Fit { power: 0.0, unit: 1.0 };
        assert_eq!(fit.slope(3.0f64, 5.0), (1.0, -1.0));
        assert_eq!(fit.slope(7.0f64, 5.0), (1.0, 1.0));
        assert_eq!(fit.slope(3.0f64, -5.0), (1.0, -1.0));
        assert_eq!(fit.slope(7.0f64, -5.0), (1.0, 0.0));
        let relative = Fit { power: 1.0, unit: 1.0 };
        assert!((relative.slope(9.0f64, 3.0).0 - 0.25).abs() < 1e-12);
    }
}
