//! The MRN distance on the GPU: pairs in tiles forward, a gather for each side backward.

use super::{ByRow, Mrn, Pairwise};
use crate::engine::{Argument, Grid, Kernels, Queue, Target};

const SOURCE: &str = concat!(
    include_str!("../mrn.cu"),
    "\n",
    include_str!("../mrn_backward.cu"),
    "\n",
    include_str!("../mrn_long.cu"),
    "\n",
    include_str!("../mrn_narrow.cu")
);

/// With more pairs than these the tiles of one block are larger, and long norms come from products.
const MANY_PAIRS: usize = 400_000;
/// Threads of a block of corresponding rows.
const THREADS: usize = 128;
/// The most coordinates of a short half of a component: kernels hold them in registers.
const HALF: usize = 16;
/// Starts of a block that finds short norms' gradients by both sides, and its bytes of shared memory.
const SHORT_STARTS: usize = 128;
const SHORT_ROOM: usize = 4 * (2 * SHORT_STARTS * (HALF + 4) + 4096 + 4096 + 8 * 32 * (HALF + 8));
/// Coordinates of the maximum that one block adds to, and items of either side.
const MOST_MAXIMA: usize = 256;
const MAXIMA_ITEMS: [usize; 2] = [1, 8];

impl Mrn {
    pub(super) fn arguments(&self) -> [Argument; 3] {
        [self.components, self.maxima, self.squares].map(Argument::size)
    }
}

impl Pairwise {
    pub(super) fn many(&self, queue: &Queue<'_>) -> bool {
        self.rows * self.columns * queue.replicas() > MANY_PAIRS
    }

    fn has_short_halves(&self) -> bool {
        self.shape.maxima.max(self.shape.squares) <= HALF
    }

    /// Whether rows of all halves begin at multiples of four numbers.
    fn wide(&self, queue: &Queue<'_>) -> bool {
        let Mrn { maxima, squares, .. } = self.shape;
        let aligned = (0..2).all(|at| queue.input(at).is_aligned());
        aligned && maxima.is_multiple_of(4) && squares.is_multiple_of(4)
    }

    /// Queues the norm's half of the gradient by both sides, where halves are short.
    fn short_norms(&self, queue: &mut Queue<'_>) {
        let (starts, ends) = (queue.input_target(0), queue.input_target(1));
        if starts.is_none() && ends.is_none() {
            return;
        }
        let gradient = queue.output_gradient();
        let (parts, components) = (queue.kept(1), self.shape.components);
        let part = |target: Target| Argument::Part(target.buffer, 2);
        let mut arguments = vec![
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(gradient),
            starts.map_or(Argument::Absent, part),
            Argument::keep(starts),
            ends.map_or(Argument::Absent, |_| Argument::Write(parts)),
            Argument::size(self.rows),
            Argument::size(self.columns),
        ];
        arguments.extend(self.shape.arguments());
        let wide_gradient = self.columns.is_multiple_of(4) && gradient.is_aligned();
        arguments.extend([self.wide(queue), wide_gradient].map(|wide| Argument::Int(wide.into())));
        let blocks = self.rows.div_ceil(SHORT_STARTS);
        let grid = Grid::blocks(blocks, components, 256).with_shared(SHORT_ROOM);
        queue.launch("mrn_narrow_norms", grid, &arguments);
        if let Some(target) = ends {
            let mut arguments = vec![
                Argument::Read(queue.input(0)),
                Argument::Read(queue.input(1)),
                Argument::Read(gradient),
                Argument::Read(parts),
                part(target),
                Argument::keep(Some(target)),
                Argument::size(self.rows),
                Argument::size(self.columns),
            ];
            arguments.extend(self.shape.arguments());
            let grid = Grid::over(self.columns * components * HALF);
            queue.launch("mrn_narrow_ends", grid, &arguments);
        }
    }

    /// Queues the norm's half of the gradient by the starts (0) or the ends (1).
    fn norms(&self, queue: &mut Queue<'_>, at: usize, target: Target) {
        let mut arguments = vec![
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.output_gradient()),
            Argument::Read(queue.kept(0)),
            Argument::Part(target.buffer, 2),
            Argument::keep(Some(target)),
            Argument::size(self.rows),
            Argument::size(self.columns),
        ];
        arguments.extend(self.shape.arguments());
        let (names, (items, coordinates, threads)) = if self.many(queue) {
            (["mrn_start_norms_large", "mrn_end_norms_large"], (64, 64, 256))
        } else {
            (["mrn_start_norms_small", "mrn_end_norms_small"], (16, 32, 512))
        };
        let tiles = self.shape.components * self.shape.squares.div_ceil(coordinates);
        let count = [self.rows, self.columns][at];
        queue.launch(names[at], Grid::blocks(count.div_ceil(items), tiles, threads), &arguments);
    }

    /// Queues the maximum's half of the gradient by the starts (0) or the ends (1).
    fn maxima(&self, queue: &mut Queue<'_>, at: usize, target: Target) {
        let mut arguments = vec![
            Argument::Read(queue.output_gradient()),
            Argument::Read(queue.kept(usize::from(!self.has_short_halves()))),
            Argument::Part(target.buffer, 1),
            Argument::keep(Some(target)),
            Argument::size(self.rows),
            Argument::size(self.columns),
        ];
        arguments.extend(self.shape.arguments());
        let Mrn { components, maxima, .. } = self.shape;
        if self.has_short_halves() {
            let warps = components.min(8);
            let (name, grid) = [
                (
                    "mrn_narrow_start_maxima",
                    Grid::blocks(self.rows, components.div_ceil(warps), 32 * warps),
                ),
                ("mrn_narrow_end_maxima", Grid::blocks(self.columns.div_ceil(64), components, 128)),
            ][at];
            return queue.launch(name, grid, &arguments);
        }
        let name = ["mrn_start_maxima", "mrn_end_maxima"][at];
        let tiles = components * maxima.div_ceil(MOST_MAXIMA);
        let items = [self.rows, self.columns][at].div_ceil(MAXIMA_ITEMS[at]);
        queue.launch(name, Grid::blocks(items, tiles, 256), &arguments);
    }
}

impl Kernels for Pairwise {
    fn source(&self) -> &'static str {
        SOURCE
    }

    /// The inverse of a norm and an index for every pair and component, and the room of products; or a
    /// byte, four columns in a word, and what blocks find for the ends.
    fn kept(&self) -> Vec<usize> {
        let components = self.shape.components;
        if self.has_short_halves() {
            let blocks = self.rows.div_ceil(SHORT_STARTS);
            return vec![
                self.rows * self.columns.div_ceil(64) * 16 * components,
                blocks * self.columns * components * HALF,
            ];
        }
        let mut kept = vec![self.rows * self.columns * components; 2];
        kept.extend(self.long_rooms());
        kept
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let (short, long) = (self.has_short_halves(), self.has_long_norms(queue));
        let mut arguments = vec![Argument::Read(queue.input(0)), Argument::Read(queue.input(1))];
        if long {
            arguments.extend(self.long_products(queue));
        }
        arguments.push(Argument::Write(queue.output()));
        arguments.extend((0..if short { 1 } else { 2 }).map(|at| queue.keeps(at)));
        arguments.extend([Argument::size(self.rows), Argument::size(self.columns)]);
        arguments.extend(self.shape.arguments());
        arguments.push(Argument::Int(self.wide(queue).into()));
        let (name, (rows, columns, threads)) = match (short, self.many(queue)) {
            (true, true) => ("mrn_narrow_large", (32, 64, 128)),
            (true, false) => ("mrn_narrow_small", (8, 64, 128)),
            (false, true) if long => ("mrn_long_forward", (64, 64, 256)),
            (false, true) => ("mrn_forward_large", (32, 64, 256)),
            (false, false) => ("mrn_forward_small", (16, 16, 128)),
        };
        let (x, y) = (self.columns.div_ceil(columns), self.rows.div_ceil(rows));
        queue.launch(name, Grid::blocks(x, y, threads), &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (short, long) = (self.has_short_halves(), self.has_long_norms(queue));
        for at in 0..2 {
            if let Some(target) = queue.input_target(at) {
                if self.shape.maxima > 0 {
                    self.maxima(queue, at, target);
                }
                if self.shape.squares > 0 && !short && !long {
                    self.norms(queue, at, target);
                }
            }
        }
        if self.shape.squares > 0 && short {
            self.short_norms(queue);
        }
        if long {
            self.long_norms(queue);
        }
    }
}

impl Kernels for ByRow {
    fn source(&self) -> &'static str {
        SOURCE
    }

    /// A norm and an index for every row and component.
    fn kept(&self) -> Vec<usize> {
        vec![self.rows * self.shape.components; 2]
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        let mut arguments = vec![
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.output()),
            Argument::Write(queue.kept(0)),
            Argument::Write(queue.kept(1)),
            Argument::size(self.rows),
        ];
        arguments.extend(self.shape.arguments());
        let grid = Grid::blocks((32 * self.rows).div_ceil(THREADS), 1, THREADS);
        queue.launch("mrn_by_row_forward", grid, &arguments);
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        let (starts, ends) = (queue.input_target(0), queue.input_target(1));
        let mut arguments = vec![
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.output_gradient()),
            Argument::Read(queue.kept(0)),
            Argument::Read(queue.kept(1)),
            Argument::target(starts),
            Argument::keep(starts),
            Argument::target(ends),
            Argument::keep(ends),
            Argument::size(self.rows),
        ];
        arguments.extend(self.shape.arguments());
        let grid = Grid::over(self.rows * self.shape.width());
        queue.launch("mrn_by_row_backward", grid, &arguments);
    }
}
