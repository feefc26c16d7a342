//! f_ij = φ_i · ψ_j / τ for all pairs, and φ_i · ψ_i / τ row by row.

use crate::engine::{
    Argument, Backward, Factor, Finish, Forward, Grid, Kernels, OfRows, Operation, Product,
    Program, Queue, Scalar, Side, Stage, Target, Threads, Value, multiply,
};

struct Pairwise {
    rows: usize,
    columns: usize,
    width: usize,
    inverse: f64,
}

impl<T: Scalar> Operation<T> for Pairwise {
    fn name(&self) -> &'static str {
        "inner_products"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn of_rows(&self, rows: usize) -> Option<OfRows<T>> {
        OfRows::against_all(Self { rows, ..*self })
    }

    fn forward(&self, run: Forward<'_, T>) {
        let shape = Product { m: self.rows, k: self.width, n: self.columns };
        let (left, right) = (Side::Plain(run.input(0)), Side::Across(run.input(1)));
        let inverse = T::of(self.inverse);
        multiply(run.threads, shape, left, right, T::ZERO, run.output, &|_, rows| {
            rows.iter_mut().for_each(|f| *f *= inverse);
        });
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let inverse = T::of(self.inverse);
        gradient.iter_mut().for_each(|g| *g *= inverse);
        let (from, to, threads): (_, _, &Threads) = (run.input(0), run.input(1), run.threads);
        if let Some(target) = run.input_gradient(0) {
            let shape = Product { m: self.rows, k: self.columns, n: self.width };
            let (left, right) = (Side::Plain(&*gradient), Side::Plain(to));
            multiply(threads, shape, left, right, T::ONE, target, &|_, _| {});
        }
        if let Some(target) = run.input_gradient(1) {
            let shape = Product { m: self.columns, k: self.rows, n: self.width };
            let (left, right) = (Side::Across(&*gradient), Side::Plain(from));
            multiply(threads, shape, left, right, T::ONE, target, &|_, _| {});
        }
    }

    fn products(&self, stage: Stage<'_>) -> Vec<Product> {
        let (m, k, n) = (self.rows, self.width, self.columns);
        match stage {
            Stage::Forward => vec![Product { m, k, n }],
            Stage::Backward { wants, .. } => {
                let from = wants[0].then_some(Product { m, k: n, n: k });
                let to = wants[1].then_some(Product { m: n, k: m, n: k });
                from.into_iter().chain(to).collect()
            }
        }
    }
}

impl Kernels for Pairwise {
    fn source(&self) -> &'static str {
        ""
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let shape = Product { m: self.rows, k: self.width, n: self.columns };
        let sides = (Factor::Plain(queue.input(0)), Factor::Across(queue.input(1)));
        let out = Target { buffer: queue.output(), keep: false };
        queue.multiply(shape, sides, out, (self.inverse as f32, Finish::None, true));
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let gradient = queue.output_gradient();
        // As exact as the gradients of layers, which they become part of.
        let how = (self.inverse as f32, Finish::None, false);
        if let Some(target) = queue.input_target(0) {
            let shape = Product { m: self.rows, k: self.columns, n: self.width };
            let sides = (Factor::Plain(gradient), Factor::Plain(queue.input(1)));
            queue.multiply(shape, sides, target, how);
        }
        if let Some(target) = queue.input_target(1) {
            let shape = Product { m: self.columns, k: self.rows, n: self.width };
            let sides = (Factor::Across(gradient), Factor::Plain(queue.input(0)));
            queue.multiply(shape, sides, target, how);
        }
    }
}

struct ByRow {
    width: usize,
    inverse: f64,
}

impl<T: Scalar> Operation<T> for ByRow {
    fn name(&self) -> &'static str {
        "inner_products_by_row"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn of_rows(&self, _rows: usize) -> Option<OfRows<T>> {
        OfRows::new(Self { ..*self })
    }

    fn forward(&self, run: Forward<'_, T>) {
        let rows = run.input(0).chunks_exact(self.width).zip(run.input(1).chunks_exact(self.width));
        for (f, (from, to)) in run.output.iter_mut().zip(rows) {
            let mut sum = T::ZERO;
            from.iter().zip(to).for_each(|(&a, &b)| sum += a * b);
            *f = sum * T::of(self.inverse);
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let inputs = [run.input(0), run.input(1)];
        for at in 0..2 {
            let other = inputs[1 - at].chunks_exact(self.width);
            if let Some(target) = run.input_gradient(at) {
                let rows = target.chunks_exact_mut(self.width).zip(other).zip(&*gradient);
                for ((target, other), &g) in rows {
                    let g = g * T::of(self.inverse);
                    target.iter_mut().zip(other).for_each(|(t, &x)| *t += g * x);
                }
            }
        }
    }
}

impl Kernels for ByRow {
    fn source(&self) -> &'static str {
        include_str!("inner_product.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::size(queue.rows()),
            Argument::size(self.width),
            Argument::Float(self.inverse as f32),
        ];
        queue.launch("inner_by_row_forward", Grid::over(32 * queue.rows()), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        for at in 0..2 {
            if let Some(target) = queue.input_target(at) {
                let arguments = [
                    Argument::Read(queue.input(1 - at)),
                    Argument::Read(queue.output_gradient()),
                    Argument::Write(target.buffer),
                    Argument::keep(Some(target)),
                    Argument::size(queue.rows()),
                    Argument::size(self.width),
                    Argument::Float(self.inverse as f32),
                ];
                let grid = Grid::over(queue.rows() * self.width);
                queue.launch("inner_by_row_backward", grid, &arguments);
            }
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The inner products of every pair of rows, divided by the temperature.
    pub fn inner_products(&mut self, from: Value, to: Value, temperature: f64) -> Value {
        assert_eq!(from.columns, to.columns, "vectors of one length");
        let inverse = 1.0 / temperature;
        let (rows, columns, width) = (from.rows, to.rows, from.columns);
        let operation = Pairwise { rows, columns, width, inverse };
        self.add(operation, &[from, to], &[], (rows, columns))
    }

    /// The inner products of corresponding rows, divided by the temperature.
    pub fn inner_products_by_row(&mut self, from: Value, to: Value, temperature: f64) -> Value {
        assert_eq!((from.rows, from.columns), (to.rows, to.columns), "matrices of one shape");
        let operation = ByRow { width: from.columns, inverse: 1.0 / temperature };
        self.add(operation, &[from, to], &[], (from.rows, 1))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::differences::Bench;

    #[test]
    fn inner_products_have_the_gradient_of_their_formula() {
        Bench::new(&[(4, 3), (5, 3)])
            .check(|program, values| program.inner_products(values[0], values[1], 0.5));
        Bench::new(&[(4, 3), (4, 3)])
            .check(|program, values| program.inner_products_by_row(values[0], values[1], 0.5));
    }
}
