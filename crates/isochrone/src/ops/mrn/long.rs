//! Long norms of many pairs on the GPU: their squares and gradients as products.

use super::{Mrn, Pairwise};
use crate::engine::{Argument, Buffer, Factor, Finish, Grid, Product, Queue, Target};

/// Coordinates from which on a norm is long: with fewer, differences are faster.
const LONG: usize = 128;
/// Threads that have a row of coordinates in halves, or an item's gradient by the norm.
const THREADS: usize = 128;
/// Rows of a warp that weighs pairs, one of them a bit in a word.
const WEIGHED_ROWS: usize = 32;

impl Pairwise {
    /// Whether norms come from products.
    pub(super) fn has_long_norms(&self, queue: &Queue<'_>) -> bool {
        self.shape.squares >= LONG && self.many(queue)
    }

    /// The lengths of the buffers that products need.
    pub(super) fn long_rooms(&self) -> Vec<usize> {
        let lengths = if self.shape.squares >= LONG { &Rooms::lengths(self)[..] } else { &[] };
        lengths.iter().map(|[starts, ends]| starts + ends).collect()
    }

    /// Queues the norm's half of the gradient by both sides from products.
    pub(super) fn long_norms(&self, queue: &mut Queue<'_>) {
        let Mrn { components, squares, .. } = self.shape;
        let targets = [0, 1].map(|at| queue.input_target(at));
        if targets.iter().all(Option::is_none) {
            return;
        }
        let (rows, columns, halves) = (self.rows, self.columns, 2 * squares + 4);
        let rooms = Rooms::new(self, queue);
        let (gradient, inverses) = (queue.output_gradient(), queue.kept(0));
        let arguments = [
            Argument::Read(gradient),
            Argument::Read(inverses),
            Argument::Read(rooms.lengths[0]),
            Argument::Read(rooms.lengths[1]),
            Argument::Write(rooms.pairs[0]),
            targets[1].map_or(Argument::Absent, |_| Argument::Write(rooms.pairs[1])),
            Argument::Write(rooms.near[0]),
            Argument::Write(rooms.near[1]),
            Argument::size(rows),
            Argument::size(columns),
            Argument::size(components),
        ];
        let strips = components * rows.div_ceil(WEIGHED_ROWS);
        let grid = Grid::blocks(columns.div_ceil(256), strips, 256);
        queue.launch("mrn_long_weights", grid, &arguments);
        for (at, target) in targets.into_iter().enumerate() {
            let Some(target) = target else { continue };
            let counts = [rows, columns];
            let (items, others) = (counts[at], counts[1 - at]);
            let shape = Product { m: items, k: others, n: halves };
            for component in 0..components {
                let weights = Factor::Plain(part(rooms.pairs[at], component, rows * columns));
                let others = Factor::Plain(part(rooms.halves[1 - at], component, others * halves));
                let buffer = part(rooms.sums[at], component, items * halves);
                let out = Target { buffer, keep: false };
                queue.multiply(shape, (weights, others), out, (1.0, Finish::None, false));
            }
            let steps = [columns, 1];
            let mut arguments = vec![
                Argument::Read(queue.input(at)),
                Argument::Read(queue.input(1 - at)),
                Argument::Read(queue.input(1)),
                Argument::Read(rooms.sums[at]),
                Argument::Read(rooms.near[at]),
                Argument::Read(gradient),
                Argument::Read(inverses),
                Argument::Part(target.buffer, 2),
                Argument::keep(Some(target)),
            ];
            arguments.extend([items, others, steps[at], steps[1 - at]].map(Argument::size));
            arguments.extend(self.shape.arguments());
            let grid = Grid::blocks(items, components, THREADS);
            queue.launch("mrn_long_norms", grid, &arguments);
        }
    }

    /// Queues the products that norms of many pairs come from, and gives their arguments.
    pub(super) fn long_products(&self, queue: &mut Queue<'_>) -> [Argument; 3] {
        let Mrn { components, squares, .. } = self.shape;
        let (rows, columns, rooms) = (self.rows, self.columns, Rooms::new(self, queue));
        let mut arguments = vec![
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(rooms.factors[0]),
            Argument::Write(rooms.factors[1]),
            queue.keeping(rooms.halves[0]),
            queue.keeping(rooms.halves[1]),
            Argument::Write(rooms.lengths[0]),
            Argument::Write(rooms.lengths[1]),
            Argument::size(rows),
            Argument::size(columns),
        ];
        arguments.extend(self.shape.arguments());
        let grid = Grid::blocks(rows + columns, components, THREADS);
        queue.launch("mrn_long_halves", grid, &arguments);
        let shape = Product { m: rows, k: 3 * squares, n: columns };
        for component in 0..components {
            let [starts, ends] = [(0, rows), (1, columns)]
                .map(|(at, count)| part(rooms.factors[at], component, 3 * squares * count));
            let buffer = part(rooms.pairs[0], component, rows * columns);
            let (sides, out) =
                ((Factor::Plain(starts), Factor::Across(ends)), Target { buffer, keep: false });
            queue.multiply(shape, sides, out, (1.0, Finish::None, false));
        }
        [rooms.lengths[0], rooms.lengths[1], rooms.pairs[0]].map(Argument::Read)
    }
}

/// Where norms from products stand: what lies in the buffers kept after inverses and indices, by sides.
struct Rooms {
    /// Products of pairs, later their weights, row after row and column after column.
    pairs: [Buffer; 2],
    factors: [Buffer; 2],
    halves: [Buffer; 2],
    lengths: [Buffer; 2],
    near: [Buffer; 2],
    sums: [Buffer; 2],
}

impl Rooms {
    /// How long they are, for starts and ends.
    fn lengths(pairs: &Pairwise) -> [[usize; 2]; 6] {
        let Pairwise { shape: Mrn { components, squares, .. }, rows, columns } = *pairs;
        let halves = 2 * squares + 4;
        let both = |start: usize, end: usize| [components * start, components * end];
        [
            both(rows * columns, rows * columns),
            both(rows * 3 * squares, columns * 3 * squares),
            both(rows * halves, columns * halves),
            both(rows, columns),
            both(rows * columns.div_ceil(32), columns * rows.div_ceil(WEIGHED_ROWS)),
            both(rows * halves, columns * halves),
        ]
    }

    fn new(pairs: &Pairwise, queue: &Queue<'_>) -> Self {
        let lengths = Self::lengths(pairs);
        let sides = |at: usize| {
            let [starts, ends] = lengths[at];
            let room = queue.kept(2 + at);
            [room.part(0, starts), room.part(starts, ends)]
        };
        let [pairs, factors, halves, lengths, near, sums] = std::array::from_fn(sides);
        Self { pairs, factors, halves, lengths, near, sums }
    }
}

/// The part of a buffer that belongs to a component, each of whose parts has so many numbers.
fn part(buffer: Buffer, component: usize, length: usize) -> Buffer {
    buffer.part(component * length, length)
}
