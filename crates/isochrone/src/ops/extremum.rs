//! min(x, y) or max(x, y), entry by entry; the gradient goes to the one chosen, to x where equal.

use crate::engine::{
    Argument, Backward, Forward, Grid, Kernels, Operation, Program, Queue, Scalar, Value,
};

/// Which of two numbers is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extremum {
    /// The smaller.
    Least,
    /// The larger.
    Largest,
}

impl Extremum {
    fn takes_second<T: Scalar>(self, first: T, second: T) -> bool {
        match self {
            Self::Least => second < first,
            Self::Largest => second > first,
        }
    }
}

impl<T: Scalar> Operation<T> for Extremum {
    fn name(&self) -> &'static str {
        "extremum"
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn forward(&self, run: Forward<'_, T>) {
        let pairs = run.input(0).iter().zip(run.input(1));
        for (out, (&first, &second)) in run.output.iter_mut().zip(pairs) {
            // What is not a number stays one, from whichever side it comes.
            let second_is_broken = second.partial_cmp(&second).is_none();
            let takes_second = second_is_broken || self.takes_second(first, second);
            *out = if takes_second { second } else { first };
        }
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = std::mem::take(&mut run.output_gradient);
        let (first, second) = (run.input(0), run.input(1));
        for side in 0..2 {
            if let Some(target) = run.input_gradient(side) {
                for (at, target) in target.iter_mut().enumerate() {
                    if self.takes_second(first[at], second[at]) == (side == 1) {
                        *target += gradient[at];
                    }
                }
            }
        }
    }
}

impl Kernels for Extremum {
    fn source(&self) -> &'static str {
        include_str!("extremum.cu")
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let output = queue.output();
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(output),
            Argument::size(output.length()),
            Argument::Int((*self == Self::Largest).into()),
        ];
        queue.launch("extremum_forward", Grid::over(output.length()), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let gradient = queue.output_gradient();
        for side in 0..2 {
            let Some(target) = queue.input_target(side) else { continue };
            let arguments = [
                Argument::Read(queue.input(0)),
                Argument::Read(queue.input(1)),
                Argument::Read(gradient),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(side),
                Argument::size(gradient.length()),
                Argument::Int((*self == Self::Largest).into()),
            ];
            queue.launch("extremum_backward", Grid::over(gradient.length()), &arguments);
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The least or largest of two matrices, entry by entry.
    pub fn extremum(&mut self, which: Extremum, first: Value, second: Value) -> Value {
        self.add(which, &[first, second], &[], (first.rows, first.columns))
    }

    /// As [`Program::extremum`] over several matrices.
    pub fn extremum_of(&mut self, which: Extremum, values: &[Value]) -> Value {
        let (&first, rest) = values.split_first().expect("an extremum of at least one matrix");
        rest.iter().fold(first, |so_far, &value| self.extremum(which, so_far, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::differences::Bench;

    #[test]
    fn the_least_is_the_smaller_and_the_largest_the_larger() {
        assert!(Extremum::Least.takes_second(2.0, 1.0) && !Extremum::Least.takes_second(1.0, 2.0));
        assert!(Extremum::Largest.takes_second(1.0, 2.0));
        assert!(!Extremum::Largest.takes_second(2.0, 1.0));
    }

    #[test]
    fn the_gradient_goes_to_the_number_taken() {
        for which in [Extremum::Least, Extremum::Largest] {
            Bench::new(&[(4, 3), (4, 3)])
                .check(|program, values| program.extremum(which, values[0], values[1]));
        }
    }

    #[test]
    fn of_two_equal_numbers_only_the_first_is_moved() {
        let gradients = Bench::new(&[(2, 2)]).gradients(|program, values| {
            let held = program.weighted_sum(&[(1.0, values[0].stop())]);
            program.extremum(Extremum::Least, values[0], held)
        });
        assert!(gradients[0].iter().all(|&g| g != 0.0));
        let gradients = Bench::new(&[(2, 2)]).gradients(|program, values| {
            let held = program.weighted_sum(&[(1.0, values[0].stop())]);
            program.extremum(Extremum::Largest, held, values[0])
        });
        assert_eq!(gradients[0], [0.0; 4]);
    }
}
