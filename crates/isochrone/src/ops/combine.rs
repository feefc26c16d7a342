//! Σ_k w_k · sg(y_k)^p_k · x_k: a sum of single numbers, some weighted by another that is held.

use crate::engine::{Backward, Forward, Operation, Program, Scalar, Value};

/// One summand: constant · sg(factor)^power · value.
#[derive(Debug, Clone, Copy)]
pub struct Term {
    /// A fixed weight.
    pub constant: f64,
    /// A number that weighs the term without being moved by it, and the power it is raised to.
    pub factor: Option<(Value, f64)>,
    /// The number itself.
    pub of: Value,
}

impl Term {
    /// A value with a fixed weight.
    pub fn new(constant: f64, of: Value) -> Self {
        Self { constant, factor: None, of }
    }
}

struct Combine {
    /// Constant and, where there is one, the place of the factor among the inputs and its power.
    weights: Vec<(f64, Option<(usize, f64)>)>,
}

impl Combine {
    fn weight<T: Scalar>(&self, at: usize, input: impl Fn(usize) -> T) -> T {
        let (constant, factor) = self.weights[at];
        T::of(constant * factor.map_or(1.0, |(place, power)| input(place).wide().powf(power)))
    }
}

impl<T: Scalar> Operation<T> for Combine {
    fn name(&self) -> &'static str {
        "combine"
    }

    fn forward(&self, run: Forward<'_, T>) {
        let mut sum = T::ZERO;
        for at in 0..self.weights.len() {
            sum += self.weight(at, |place| run.input(place)[0]) * run.input(at)[0];
        }
        run.output[0] = sum;
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let upstream = run.output_gradient[0];
        for at in 0..self.weights.len() {
            let weight = self.weight(at, |place| run.input(place)[0]);
            if let Some(target) = run.input_gradient(at) {
                target[0] += upstream * weight;
            }
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The sum of single numbers, each with its weight.
    pub fn combine(&mut self, terms: &[Term]) -> Value {
        let mut inputs: Vec<Value> = terms.iter().map(|term| term.of).collect();
        let mut weights = Vec::new();
        for term in terms {
            let factor = term.factor.map(|(value, power)| {
                inputs.push(value.stop());
                (inputs.len() - 1, power)
            });
            weights.push((term.constant, factor));
        }
        self.add(Combine { weights }, &inputs, &[], (1, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn a_sum_has_the_gradient_of_its_terms() {
        Bench::new(&[(1, 1), (1, 1)]).check(|program, values| {
            program.combine(&[Term::new(2.0, values[0]), Term::new(-0.5, values[1])])
        });
    }
}
