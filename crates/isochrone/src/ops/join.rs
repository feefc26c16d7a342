//! [x y …]: matrices side by side, row by row.

use crate::engine::{Backward, Forward, Operation, Program, Scalar, Value};

struct Join {
    widths: Vec<usize>,
}

impl<T: Scalar> Operation<T> for Join {
    fn name(&self) -> &'static str {
        "join"
    }

    fn forward(&self, run: Forward<'_, T>) {
        let total: usize = self.widths.iter().sum();
        let mut first = 0;
        for (at, &width) in self.widths.iter().enumerate() {
            let input = run.input(at).chunks_exact(width);
            for (row, input) in run.output.chunks_exact_mut(total).zip(input) {
                row[first..first + width].copy_from_slice(input);
            }
            first += width;
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let total: usize = self.widths.iter().sum();
        let gradient = std::mem::take(&mut run.output_gradient);
        let mut first = 0;
        for (at, &width) in self.widths.iter().enumerate() {
            if let Some(target) = run.input_gradient(at) {
                for (target, row) in
                    target.chunks_exact_mut(width).zip(gradient.chunks_exact(total))
                {
                    let row = &row[first..first + width];
                    target.iter_mut().zip(row).for_each(|(target, &g)| *target += g);
                }
            }
            first += width;
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The matrices of `values` side by side; empty ones are left out.
    pub fn join(&mut self, values: &[Value]) -> Value {
        let values: Vec<Value> = values.iter().copied().filter(|v| v.columns > 0).collect();
        if let [one] = values[..] {
            return one;
        }
        let widths: Vec<usize> = values.iter().map(|value| value.columns).collect();
        let (rows, total) = (values[0].rows, widths.iter().sum());
        self.add_once(Join { widths }, &values, &[], (rows, total))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn joining_passes_gradients_to_both_sides() {
        Bench::new(&[(3, 2), (3, 4)])
            .check(|program, values| program.join(&[values[1], values[0], values[1]]));
    }
}
