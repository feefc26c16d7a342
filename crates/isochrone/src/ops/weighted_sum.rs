//! Σ_k c_k X_k, entry by entry over matrices of one shape, with fixed weights.

use crate::engine::{Backward, Forward, Operation, Program, Scalar, Value};

struct WeightedSum {
    weights: Vec<f64>,
}

impl<T: Scalar> Operation<T> for WeightedSum {
    fn name(&self) -> &'static str {
        "weighted_sum"
    }

    fn forward(&self, run: Forward<'_, T>) {
        for (at, &weight) in self.weights.iter().enumerate() {
            let (input, weight) = (run.input(at), T::of(weight));
            let pairs = run.output.iter_mut().zip(input);
            if at == 0 {
                pairs.for_each(|(out, &x)| *out = weight * x);
            } else {
                pairs.for_each(|(out, &x)| *out += weight * x);
            }
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        for (at, &weight) in self.weights.iter().enumerate() {
            let weight = T::of(weight);
            if let Some(target) = run.input_gradient(at) {
                target.iter_mut().zip(&*gradient).for_each(|(t, &g)| *t += weight * g);
            }
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The sum of matrices, each with its weight.
    pub fn weighted_sum(&mut self, terms: &[(f64, Value)]) -> Value {
        let inputs: Vec<Value> = terms.iter().map(|&(_, value)| value).collect();
        let weights = terms.iter().map(|&(weight, _)| weight).collect();
        let shape = (inputs[0].rows, inputs[0].columns);
        self.add(WeightedSum { weights }, &inputs, &[], shape)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn a_weighted_sum_has_the_gradient_of_its_terms() {
        Bench::new(&[(3, 2), (3, 2)]).check(|program, values| {
            program.weighted_sum(&[(0.7, values[0]), (-2.0, values[1]), (1.5, values[0])])
        });
    }
}
