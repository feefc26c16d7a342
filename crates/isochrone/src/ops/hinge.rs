//! mean relu(d − b)²: what distances exceed a bound by.

use crate::engine::{Backward, Forward, Operation, Program, Scalar, Value};

struct Hinge {
    bound: f64,
}

impl<T: Scalar> Operation<T> for Hinge {
    fn name(&self) -> &'static str {
        "hinge"
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (numbers, bound) = (run.input(0), T::of(self.bound));
        let mut sum = T::ZERO;
        for &distance in numbers {
            let above = (distance - bound).at_least(T::ZERO);
            sum += above * above;
        }
        run.output[0] = sum / T::of(numbers.len() as f64);
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let (numbers, bound) = (run.input(0), T::of(self.bound));
        let share = run.output_gradient[0] * T::of(2.0 / numbers.len() as f64);
        if let Some(target) = run.input_gradient(0) {
            for (target, &distance) in target.iter_mut().zip(numbers) {
                *target += share * (distance - bound).at_least(T::ZERO);
            }
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The mean squared excess of `distance` over `bound`.
    pub fn hinge(&mut self, distance: Value, bound: f64) -> Value {
        self.add(Hinge { bound }, &[distance], &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn only_what_is_above_the_bound_is_moved() {
        Bench::new(&[(6, 1)]).check(|program, values| program.hinge(values[0], 0.2));
    }
}
