//! Σ_k w_k · sg(y_k)^p_k · x_k: a sum of single numbers, some weighted by another that is held.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

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

    /// λ (bound − sg(C)), whose descent lets λ grow while C is above its bound.
    pub fn dual(multiplier: Value, bound: f64, constraint: Value) -> [Self; 2] {
        let held = Self { constant: -1.0, factor: Some((constraint, 1.0)), of: multiplier };
        [Self::new(bound, multiplier), held]
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

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
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

/// Terms that one launch takes.
const TERMS: usize = 4;

impl Combine {
    /// The factor, constant and power of a term, as a kernel takes them.
    fn arguments(&self, at: usize, queue: &Queue<'_>) -> [Argument; 3] {
        let (constant, factor) = self.weights[at];
        let power = factor.map_or(0.0, |(_, power)| power);
        let factor = Argument::maybe(factor.map(|(place, _)| queue.input(place)));
        [factor, Argument::Wide(constant), Argument::Wide(power)]
    }
}

impl Kernels for Combine {
    fn source(&self) -> &'static str {
        include_str!("combine.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        for first in (0..self.weights.len()).step_by(TERMS) {
            let mut arguments = Vec::new();
            for at in first..first + TERMS {
                if at < self.weights.len() {
                    arguments.push(Argument::Read(queue.input(at)));
                    arguments.extend(self.arguments(at, queue));
                } else {
                    arguments.extend([Argument::Absent, Argument::Absent]);
                    arguments.extend([Argument::Wide(0.0), Argument::Wide(0.0)]);
                }
            }
            arguments.push(Argument::Write(queue.output()));
            arguments.push(Argument::Int((first > 0).into()));
            queue.launch("combine_forward", Grid::one(1), &arguments);
        }
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        for at in 0..self.weights.len() {
            if let Some(target) = queue.input_target(at) {
                let mut arguments = vec![Argument::Read(queue.output_gradient())];
                arguments.extend(self.arguments(at, queue));
                arguments.extend([Argument::Write(target.buffer), Argument::keep(Some(target))]);
                queue.launch("combine_backward", Grid::one(1), &arguments);
            }
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The sum of single numbers, each with its weight; a single one of weight 1 is itself.
    pub fn combine(&mut self, terms: &[Term]) -> Value {
        if let [Term { constant: 1.0, factor: None, of }] = *terms {
            return of;
        }
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
