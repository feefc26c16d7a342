//! f_ij = (c_j − d_ij) / τ: how likely goal j is after start i, up to a constant.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct Scores {
    columns: usize,
    inverse: f64,
    potential: bool,
}

impl<T: Scalar> Operation<T> for Scores {
    fn name(&self) -> &'static str {
        "scores"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let (distance, inverse) = (run.input(0), T::of(self.inverse));
        let potential = self.potential.then(|| run.input(1));
        let rows =
            run.output.chunks_exact_mut(self.columns).zip(distance.chunks_exact(self.columns));
        if let Some(potential) = potential {
            for (row, distance) in rows {
                for ((f, &d), &c) in row.iter_mut().zip(distance).zip(potential) {
                    *f = (c - d) * inverse;
                }
            }
        } else {
            for (row, distance) in rows {
                row.iter_mut().zip(distance).for_each(|(f, &d)| *f = -d * inverse);
            }
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let inverse = T::of(self.inverse);
        let gradient = std::mem::take(&mut run.output_gradient);
        if let Some(target) = run.input_gradient(0) {
            target.iter_mut().zip(&*gradient).for_each(|(t, &g)| *t -= g * inverse);
        }
        if self.potential
            && let Some(target) = run.input_gradient(1)
        {
            for row in gradient.chunks_exact(self.columns) {
                target.iter_mut().zip(row).for_each(|(t, &g)| *t += g * inverse);
            }
        }
    }
}

impl Kernels for Scores {
    fn source(&self) -> &'static str {
        include_str!("scores.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::maybe(self.potential.then(|| queue.input(1))),
            Argument::Write(queue.output()),
            Argument::size(self.columns),
            Argument::Float(self.inverse as f32),
        ];
        queue.launch("scores_forward", Grid::lines(queue.rows(), self.columns), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (gradient, inverse) = (queue.output_gradient(), Argument::Float(self.inverse as f32));
        if let Some(target) = queue.input_target(0) {
            let count = gradient.length();
            let arguments = [
                Argument::Read(gradient),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(count),
                inverse,
            ];
            queue.launch("scores_distance", Grid::fours(count), &arguments);
        }
        if let Some(target) = self.potential.then(|| queue.input_target(1)).flatten() {
            let arguments = [
                Argument::Read(gradient),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(queue.rows()),
                Argument::size(self.columns),
                inverse,
            ];
            let grid = Grid::blocks(self.columns.div_ceil(8), 1, 256);
            queue.launch("scores_potential", grid, &arguments);
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The scores of every pair: (potential of the goal − distance) / temperature.
    pub fn scores(&mut self, potential: Option<Value>, distance: Value, temperature: f64) -> Value {
        let inputs: Vec<Value> = std::iter::once(distance).chain(potential).collect();
        let operation = Scores {
            columns: distance.columns,
            inverse: 1.0 / temperature,
            potential: potential.is_some(),
        };
        self.add(operation, &inputs, &[], (distance.rows, distance.columns))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn scores_pass_gradients_to_distance_and_potential() {
        Bench::new(&[(3, 4), (4, 1)])
            .check(|program, values| program.scores(Some(values[1]), values[0], 0.7));
        Bench::new(&[(3, 4)]).check(|program, values| program.scores(None, values[0], 2.0));
    }
}
