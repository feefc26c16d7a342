//! z = √n · x / ‖x‖: rows brought to length √n, n their number of coordinates.
//!
//! A row at 0 stays there and moves nothing.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

struct Sphere {
    rows: usize,
}

/// Brings one row to length √n; what it was multiplied by.
pub(crate) fn to_sphere<T: Scalar>(row: &[T], out: &mut [T]) -> T {
    let mut squares = T::ZERO;
    row.iter().for_each(|&x| squares += x * x);
    let length = squares.sqrt();
    let scale = if length > T::ZERO { T::of((row.len() as f64).sqrt()) / length } else { T::ZERO };
    out.iter_mut().zip(row).for_each(|(out, &x)| *out = scale * x);
    scale
}

impl<T: Scalar> Operation<T> for Sphere {
    fn name(&self) -> &'static str {
        "sphere"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn saved(&self) -> usize {
        self.rows
    }

    fn forward(&self, run: Forward<'_, T>) {
        let width = run.output.len() / self.rows;
        let input = run.input(0).chunks_exact(width);
        let rows = run.output.chunks_exact_mut(width).zip(input);
        for ((out, row), scale) in rows.zip(run.saved) {
            *scale = to_sphere(row, out);
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let (output, scales) = (run.output, std::mem::take(&mut run.saved));
        let width = output.len() / self.rows;
        let Some(target) = run.input_gradient(0) else { return };
        let rows = gradient.chunks_exact(width).zip(output.chunks_exact(width));
        for ((target, (g, z)), &scale) in target.chunks_exact_mut(width).zip(rows).zip(&*scales) {
            let mut along = T::ZERO;
            g.iter().zip(z).for_each(|(&g, &z)| along += g * z);
            let along = along / T::of(width as f64);
            for ((target, &g), &z) in target.iter_mut().zip(g).zip(z) {
                *target += scale * (g - along * z);
            }
        }
    }
}

impl Kernels for Sphere {
    fn source(&self) -> &'static str {
        include_str!("sphere.cu")
    }

    /// What rows are multiplied by.
    fn kept(&self) -> Vec<usize> {
        vec![self.rows]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let output = queue.output();
        let width = output.length() / self.rows;
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Write(output),
            Argument::Write(queue.kept(0)),
            Argument::size(self.rows),
            Argument::size(width),
            Argument::Float((width as f64).sqrt() as f32),
        ];
        queue.launch("sphere_forward", Grid::over(32 * self.rows), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (output, target) = (queue.output(), queue.input_target(0));
        let arguments = [
            Argument::Read(output),
            Argument::Read(queue.kept(0)),
            Argument::Read(queue.output_gradient()),
            Argument::target(target),
            Argument::keep(target),
            Argument::size(self.rows),
            Argument::size(output.length() / self.rows),
        ];
        queue.launch("sphere_backward", Grid::over(32 * self.rows), &arguments);
    }
}

impl<T: Scalar> Program<T> {
    /// Every row of `value` brought to length √n.
    pub fn sphere(&mut self, value: Value) -> Value {
        self.add_once(Sphere { rows: value.rows }, &[value], &[], (value.rows, value.columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn rows_have_their_length_and_the_gradient_of_the_formula() {
        Bench::new(&[(4, 3)]).check(|program, values| program.sphere(values[0]));
        let mut out = [0.0f64; 3];
        to_sphere(&[3.0, 0.0, 4.0], &mut out);
        assert!((out.iter().map(|x| x * x).sum::<f64>() - 3.0).abs() < 1e-12);
        assert!((out[0] / out[2] - 0.75).abs() < 1e-12);
        assert_eq!(to_sphere(&[0.0, 0.0, 0.0], &mut out), 0.0);
        assert_eq!(out, [0.0; 3]);
    }
}
