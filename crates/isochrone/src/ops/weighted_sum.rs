//! Σ_k c_k X_k, entry by entry over matrices of one shape, with fixed weights.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct WeightedSum {
    weights: Vec<f64>,
}

impl<T: Scalar> Operation<T> for WeightedSum {
    fn name(&self) -> &'static str {
        "weighted_sum"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
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

/// Matrices that one launch takes.
const MATRICES: usize = 4;

impl Kernels for WeightedSum {
    fn source(&self) -> &'static str {
        include_str!("weighted_sum.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (output, count) = (queue.output(), queue.output().length());
        for (launch, weights) in self.weights.chunks(MATRICES).enumerate() {
            let first = launch * MATRICES;
            let input =
                |at: usize| Argument::maybe((at < weights.len()).then(|| queue.input(first + at)));
            let mut arguments: Vec<Argument> = (0..MATRICES).map(input).collect();
            let weight = |at: usize| weights.get(at).map_or(0.0, |&weight| weight as f32);
            arguments.extend((0..MATRICES).map(|at| Argument::Float(weight(at))));
            arguments.push(Argument::Write(output));
            arguments.extend([usize::from(launch > 0), count].map(Argument::size));
            queue.launch("weighted_sum_forward", Grid::fours(count), &arguments);
        }
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let gradient = queue.output_gradient();
        for (at, &weight) in self.weights.iter().enumerate() {
            let Some(target) = queue.input_target(at) else { continue };
            let arguments = [
                Argument::Read(gradient),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::Float(weight as f32),
                Argument::size(gradient.length()),
            ];
            queue.launch("weighted_sum_backward", Grid::fours(gradient.length()), &arguments);
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
