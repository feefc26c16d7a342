//! The operation of a program: the distances of all pairs, cut into tasks, or of corresponding rows.

use super::{
    DifferenceHead, HeadWeights, Lane, WeightGradients, differentiate, dot, evaluate,
    pair_differences, row, row_differences, whole,
};
use crate::engine::{
    Backward, Forward, Kernels, OfRows, Operation, Parameter, Program, Scalar, Value,
};
use crate::ops::{LANES, lanes, transpose};

/// Tasks that the rows of all pairs are cut into, whatever the number of threads.
const TASKS: usize = 16;

/// Distances of all pairs or of corresponding rows.
pub(super) struct Distances {
    pub head: DifferenceHead,
    pub rows: usize,
    pub columns: usize,
    /// Only corresponding rows are compared.
    pub by_row: bool,
}

/// The room of one task, cut into its parts.
struct Task<'a, T> {
    difference: &'a mut [Lane<T>],
    moved: &'a mut [Lane<T>],
    room: &'a mut [Lane<T>],
    /// Gradients of the task's starts, row after row.
    starts: &'a mut [T],
    /// Gradients of all ends, transposed, from the task's starts; of its own ends by row.
    ends: &'a mut [T],
    raw: &'a mut [T],
    free: &'a mut [T],
}

impl Distances {
    /// Starts of one task.
    fn share(&self) -> usize {
        if self.by_row { self.rows } else { self.rows.div_ceil(TASKS) }
    }

    fn tasks(&self) -> usize {
        self.rows.div_ceil(self.share())
    }

    /// The size of the transposed ends.
    fn across(&self) -> usize {
        if self.by_row { 0 } else { self.head.width() * lanes(self.columns) }
    }

    /// The sizes of the parts of a task's room, in the order of [`Task`].
    fn parts(&self) -> [usize; 7] {
        let (head, width) = (&self.head, self.head.width());
        let ends = if self.by_row { self.rows * width } else { self.across() };
        let lanes = [width * LANES, width * LANES, head.room() * LANES];
        [lanes[0], lanes[1], lanes[2], self.share() * width, ends, head.raw(), head.free()]
    }

    fn task<'a, T>(&self, mut room: &'a mut [T]) -> Task<'a, T> {
        let mut parts = self.parts().map(|length| {
            let (part, rest) = std::mem::take(&mut room).split_at_mut(length);
            room = rest;
            Some(part)
        });
        let mut part = |at: usize| parts[at].take().unwrap_or_default();
        Task {
            difference: whole(part(0)),
            moved: whole(part(1)),
            room: whole(part(2)),
            starts: part(3),
            ends: part(4),
            raw: part(5),
            free: part(6),
        }
    }

    /// The gradients of one task of all pairs.
    fn pairs_backward<T: Scalar>(
        &self,
        task: &mut Task<'_, T>,
        weights: HeadWeights<'_, T>,
        (from, across, gradient): (&[T], &[T], &[T]),
    ) {
        let (width, stride) = (self.head.width(), lanes(self.columns));
        let rows = from.chunks_exact(width).zip(gradient.chunks_exact(self.columns));
        for (at, (from, gradient)) in rows.enumerate() {
            let start = &mut task.starts[at * width..][..width];
            for (block, gradient) in gradient.chunks(LANES).enumerate() {
                let block = block * LANES;
                let mut upstream = [T::ZERO; LANES];
                upstream[..gradient.len()].copy_from_slice(gradient);
                pair_differences(from, across, (stride, block), task.difference);
                let gradients = WeightGradients { raw: task.raw, free: task.free };
                let (difference, moved) = (&*task.difference, &mut *task.moved);
                differentiate(
                    self.head, weights, difference, task.room, &upstream, moved, gradients,
                );
                for (at, (moved, start)) in moved.iter().zip(start.iter_mut()).enumerate() {
                    let ends = &mut task.ends[at * stride + block..][..LANES];
                    (0..LANES).for_each(|l| ends[l] -= moved[l]);
                    *start += dot(moved, &[T::ONE; LANES]);
                }
            }
        }
    }

    /// The gradients of corresponding rows.
    fn rows_backward<T: Scalar>(
        &self,
        task: &mut Task<'_, T>,
        weights: HeadWeights<'_, T>,
        (ends, gradient): ([&[T]; 2], &[T]),
    ) {
        let width = self.head.width();
        for (block, gradient) in gradient.chunks(LANES).enumerate() {
            let mut upstream = [T::ZERO; LANES];
            upstream[..gradient.len()].copy_from_slice(gradient);
            row_differences(ends, width, block * LANES, task.difference);
            let gradients = WeightGradients { raw: task.raw, free: task.free };
            let (difference, moved) = (&*task.difference, &mut *task.moved);
            differentiate(self.head, weights, difference, task.room, &upstream, moved, gradients);
            for l in 0..gradient.len() {
                let row = (block * LANES + l) * width;
                for (at, moved) in moved.iter().enumerate() {
                    task.starts[row + at] += moved[l];
                    task.ends[row + at] -= moved[l];
                }
            }
        }
    }

    /// Adds what a task found by ends to their gradient.
    fn add_ends<T: Scalar>(&self, ends: &[T], target: &mut [T]) {
        let (width, stride) = (self.head.width(), lanes(self.columns));
        for (place, target) in target.iter_mut().enumerate() {
            let from = if self.by_row { place } else { place % width * stride + place / width };
            *target += ends[from];
        }
    }
}

impl<T: Scalar> Operation<T> for Distances {
    fn name(&self) -> &'static str {
        self.head.name(self.by_row)
    }

    fn kernels(&self) -> Option<&dyn Kernels> {
        Some(self)
    }

    fn of_rows(&self, rows: usize) -> Option<OfRows<T>> {
        let Self { head, columns, by_row, .. } = *self;
        match by_row {
            true => OfRows::new(Self { head, rows, columns: rows, by_row }),
            false => OfRows::against_all(Self { head, rows, columns, by_row }),
        }
    }

    /// The ends, transposed, and the room of every task.
    fn saved(&self) -> usize {
        self.across() + self.tasks() * self.parts().iter().sum::<usize>()
    }

    fn forward(&self, run: Forward<'_, T>) {
        let free = if self.head.free() > 0 { run.parameter(1) } else { &[] };
        let weights = HeadWeights { raw: run.parameter(0), free };
        let (from, to, width) = (run.input(0), run.input(1), self.head.width());
        let (across, rooms) = run.saved.split_at_mut(self.across());
        if self.by_row {
            let Task { difference, room, .. } = self.task(rooms);
            for (block, out) in run.output.chunks_mut(LANES).enumerate() {
                row_differences([from, to], width, block * LANES, difference);
                let mut lane = [T::ZERO; LANES];
                evaluate(self.head, weights, difference, room, &mut lane);
                out.copy_from_slice(&lane[..out.len()]);
            }
            return;
        }
        transpose(run.threads, to, width, across, lanes(self.columns));
        let (across, share) = (&*across, self.share());
        let length = self.parts().iter().sum::<usize>();
        // The third slice is not used; an empty one would end the walk at once.
        run.threads.parts3(
            (run.output, share * self.columns),
            (rooms, length),
            (&mut [(); TASKS], 1),
            |part, distances, room, _| {
                let starts = from[part * share * width..].chunks_exact(width);
                for (from, distances) in starts.zip(distances.chunks_exact_mut(self.columns)) {
                    row(self.head, weights, from, across, room, distances);
                }
            },
        );
    }

    fn backward(&self, mut run: Backward<'_, T>) {
        let gradient = &*std::mem::take(&mut run.output_gradient);
        let (from, to, threads) = (run.input(0), run.input(1), run.threads);
        let (across, rooms) = std::mem::take(&mut run.saved).split_at_mut(self.across());
        let length = self.parts().iter().sum::<usize>();
        {
            let free = if self.head.free() > 0 { run.parameter(1) } else { &[] };
            let weights = HeadWeights { raw: run.parameter(0), free };
            let (share, width) = (self.share(), self.head.width());
            threads.parts(rooms, length, |part, room| {
                room.fill(T::ZERO);
                let mut task = self.task(room);
                if self.by_row {
                    return self.rows_backward(&mut task, weights, ([from, to], gradient));
                }
                let rows = part * share..((part + 1) * share).min(self.rows);
                let from = &from[rows.start * width..rows.end * width];
                let gradient = &gradient[rows.start * self.columns..rows.end * self.columns];
                self.pairs_backward(&mut task, weights, (from, across, gradient));
            });
        }
        for (part, room) in rooms.chunks_exact_mut(length).enumerate() {
            let task = self.task(room);
            if let Some(target) = run.input_gradient(0) {
                let target = &mut target[part * task.starts.len()..];
                target.iter_mut().zip(&*task.starts).for_each(|(t, &g)| *t += g);
            }
            if let Some(target) = run.input_gradient(1) {
                self.add_ends(task.ends, target);
            }
            for (at, found) in [&*task.raw, &*task.free].into_iter().enumerate() {
                if !found.is_empty()
                    && let Some(target) = run.parameter_gradient(at)
                {
                    target.iter_mut().zip(found).for_each(|(t, &g)| *t += g);
                }
            }
        }
    }
}

impl<T: Scalar> Program<T> {
    /// The distances of every pair of rows, or of corresponding rows; `parameters` are those of the
    /// head's raw weights and, where it has some, of its free ones.
    pub fn difference(
        &mut self,
        head: DifferenceHead,
        parameters: &[Parameter],
        (from, to): (Value, Value),
        by_row: bool,
    ) -> Value {
        assert_eq!((from.columns, to.columns), (head.width(), head.width()), "latent vectors");
        assert!(!by_row || from.rows == to.rows, "matrices of one shape");
        let (rows, columns) = (from.rows, to.rows);
        let shape = (rows, if by_row { 1 } else { columns });
        self.add(Distances { head, rows, columns, by_row }, &[from, to], parameters, shape)
    }
}
