//! [x y …]: matrices side by side, row by row.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, OfRows, Operation, Program, Queue, Scalar, Value,
};

struct Join {
    widths: Vec<usize>,
}

impl<T: Scalar> Operation<T> for Join {
    fn name(&self) -> &'static str {
        "join"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn of_rows(&self, _rows: usize) -> Option<OfRows<T>> {
        OfRows::new(Self { widths: self.widths.clone() })
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

/// Matrices that one launch takes.
const JOINED: usize = 4;

impl Join {
    /// Cuts the inputs into launches of distinct ones: the places and widths of each launch's
    /// matrices, and its first column.
    fn launches(&self, queue: &Queue<'_>) -> Vec<(Vec<usize>, [usize; JOINED], usize)> {
        let mut result: Vec<(Vec<usize>, [usize; JOINED], usize)> = Vec::new();
        let mut column = 0;
        for (at, &width) in self.widths.iter().enumerate() {
            let fits = |places: &Vec<usize>| {
                let known = places.iter().any(|&other| queue.input(other) == queue.input(at));
                places.len() < JOINED && !known
            };
            match result.last_mut().filter(|(places, _, _)| fits(places)) {
                Some((places, widths, _)) => {
                    widths[places.len()] = width;
                    places.push(at);
                }
                None => result.push((vec![at], [width, 0, 0, 0], column)),
            }
            column += width;
        }
        result
    }
}

/// The logarithm to base two of how many threads have a row of so many columns: one column each where there
/// are few, four where there are many.
fn lanes(columns: usize) -> usize {
    let quarter = columns.div_ceil(4).next_power_of_two().clamp(32, 256);
    columns.next_power_of_two().min(quarter).ilog2() as usize
}

impl Kernels for Join {
    fn source(&self) -> &'static str {
        include_str!("join.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (rows, total) = (queue.rows(), self.widths.iter().sum());
        for (places, widths, first) in self.launches(queue) {
            let input =
                |at: usize| Argument::maybe(places.get(at).map(|&place| queue.input(place)));
            let mut arguments: Vec<Argument> = (0..JOINED).map(input).collect();
            arguments.extend(widths.map(Argument::size));
            arguments.push(Argument::Write(queue.output()));
            let lanes = lanes(widths.iter().sum());
            arguments.extend([rows, total, first, lanes].map(Argument::size));
            queue.launch("join_forward", Grid::over(rows << lanes), &arguments);
        }
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (rows, total) = (queue.rows(), self.widths.iter().sum());
        for (places, widths, first) in self.launches(queue) {
            let targets: [_; JOINED] = std::array::from_fn(|at| {
                places.get(at).and_then(|&place| queue.input_target(place))
            });
            let mut arguments: Vec<Argument> = targets.map(Argument::target).to_vec();
            arguments.extend(widths.map(Argument::size));
            arguments.extend(targets.map(Argument::keep));
            arguments.push(Argument::Read(queue.output_gradient()));
            let lanes = lanes(widths.iter().sum());
            arguments.extend([rows, total, first, lanes].map(Argument::size));
            queue.launch("join_backward", Grid::over(rows << lanes), &arguments);
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
    use super::lanes;
    use crate::ops::differences::Bench;

    #[test]
    fn few_columns_have_a_thread_each_and_many_share_one() {
        assert_eq!([1, 2, 3, 4, 32, 33].map(lanes), [0, 1, 2, 2, 5, 5]);
        assert_eq!([128, 129, 258, 513, 10_000].map(lanes), [5, 6, 7, 8, 8]);
    }

    #[test]
    fn joining_passes_gradients_to_both_sides() {
        Bench::new(&[(3, 2), (3, 4)])
            .check(|program, values| program.join(&[values[1], values[0], values[1]]));
    }
}
