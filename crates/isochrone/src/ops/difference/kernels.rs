//! Heads of the difference on the GPU: the differences of all pairs are spread out, weights act on
//! them as products in single precision, and the gradients by differences are gathered.

use super::DifferenceHead;
use super::operation::Distances;
use crate::engine::{Argument, Buffer, Factor, Finish, Grid, Kernels, Product, Queue, Target};
use crate::ops::{DeepNorm, PqeLh, WideNorm};

/// Gradients of weights add over at most so many pairs in one product: a longer sum in single
/// precision loses digits.
const MOST_PAIRS: usize = 65_536;

/// How products run here: unscaled, exact.
const EXACT: (f32, Finish, bool) = (1.0, Finish::None, true);

/// A buffer that is written anew.
fn fresh(buffer: Buffer) -> Target {
    Target { buffer, keep: false }
}

impl Distances {
    fn pairs(&self) -> usize {
        if self.by_row { self.rows } else { self.rows * self.columns }
    }

    fn diagonal(&self) -> Argument {
        Argument::Int(self.by_row.into())
    }

    /// Values per pair that weights act on, if any.
    fn spread_width(&self) -> usize {
        match self.head {
            DifferenceHead::WideNorm(head) => 2 * head.latent,
            _ => self.head.width(),
        }
    }

    fn halves(&self) -> Argument {
        Argument::Int(matches!(self.head, DifferenceHead::WideNorm(_)).into())
    }

    /// Queues the squares of raw weights and the differences of all pairs: kept 0 and 1.
    fn spread(&self, queue: &mut Queue<'_>) {
        let count = self.head.raw();
        let arguments = [
            Argument::Read(queue.parameter(0)),
            Argument::Write(queue.kept(0)),
            Argument::size(count),
        ];
        queue.launch("difference_squares", Grid::over(count), &arguments);
        let arguments = [
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Write(queue.kept(1)),
            Argument::size(self.pairs()),
            Argument::size(self.columns),
            Argument::size(self.head.width()),
            self.halves(),
            self.diagonal(),
        ];
        queue.launch("difference_spread", Grid::over(self.pairs() * self.head.width()), &arguments);
    }

    /// Queues the gradients of starts and ends from those of the spread differences, kept 2.
    fn gather(&self, queue: &mut Queue<'_>) {
        for (at, count) in [self.rows, self.columns].into_iter().enumerate() {
            let Some(target) = queue.input_target(at) else { continue };
            let arguments = [
                Argument::Read(queue.input(0)),
                Argument::Read(queue.input(1)),
                Argument::Read(queue.kept(2)),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(1 - at),
                Argument::size(self.rows),
                Argument::size(self.columns),
                Argument::size(self.head.width()),
                self.halves(),
                self.diagonal(),
            ];
            let grid = Grid::over(count * self.head.width());
            queue.launch("difference_gather", grid, &arguments);
        }
    }

    /// Portions of the pairs that gradients of weights are added up in.
    fn portions(&self) -> usize {
        self.pairs().div_ceil(MOST_PAIRS)
    }

    /// The room for the sums of all portions, each of at most `most` numbers.
    fn portion_room(&self, most: usize) -> usize {
        if self.portions() > 1 { self.portions() * most } else { 0 }
    }

    /// Queues `out` ← Σ over pairs of the outer products of `left` and `right`, whose rows are pairs;
    /// `room` is for the sums of portions.
    fn over_pairs(
        &self,
        queue: &mut Queue<'_>,
        [left, right]: [Buffer; 2],
        out: Target,
        room: Buffer,
    ) {
        let [m, n] = [left, right].map(|side| side.length() / self.pairs());
        let mut sum = |first: usize, k: usize, out: Target| {
            let sides = (
                Factor::Across(left.part(first * m, k * m)),
                Factor::Plain(right.part(first * n, k * n)),
            );
            queue.multiply(Product { m, k, n }, sides, out, EXACT);
        };
        if self.portions() == 1 {
            sum(0, self.pairs(), out);
            return;
        }
        for portion in 0..self.portions() {
            let first = portion * MOST_PAIRS;
            let pairs = MOST_PAIRS.min(self.pairs() - first);
            sum(first, pairs, fresh(room.part(portion * m * n, m * n)));
        }
        let arguments = [
            Argument::Read(room.part(0, self.portions() * m * n)),
            Argument::Write(out.buffer),
            Argument::keep(Some(out)),
            Argument::size(m * n),
            Argument::size(self.portions()),
        ];
        queue.launch("difference_total_large", Grid::over(m * n), &arguments);
    }

    /// Queues the gradient of raw weights from that of the weights.
    fn weights(&self, queue: &mut Queue<'_>, found: Buffer, squared: bool) {
        let Some(target) = queue.parameter_target(0) else { return };
        let arguments = [
            Argument::Read(queue.parameter(0)),
            Argument::Read(found),
            Argument::Write(target.buffer),
            Argument::keep(Some(target)),
            Argument::size(self.head.raw()),
            Argument::Int(squared.into()),
        ];
        queue.launch("difference_weights", Grid::over(self.head.raw()), &arguments);
    }
}

/// The Poisson quasimetric embedding; kept are the shares of all groups and room for their gradient
/// and its sums.
impl Distances {
    fn pqe_arguments(&self, head: PqeLh) -> [Argument; 4] {
        let [columns, groups, size] = [self.columns, head.groups, head.size].map(Argument::size);
        [columns, groups, size, self.diagonal()]
    }

    fn pqe_forward(&self, queue: &mut Queue<'_>, head: PqeLh) {
        let mut arguments = vec![
            Argument::Read(queue.input(0)),
            Argument::Read(queue.input(1)),
            Argument::Read(queue.parameter(0)),
            Argument::Write(queue.output()),
            Argument::Write(queue.kept(0)),
            Argument::size(self.pairs()),
        ];
        arguments.extend(self.pqe_arguments(head));
        queue.launch("pqe_forward", Grid::over(self.pairs()), &arguments);
    }

    fn pqe_backward(&self, queue: &mut Queue<'_>, head: PqeLh) {
        let (gradient, kept) = (queue.output_gradient(), queue.kept(0));
        if queue.parameter_target(0).is_some() {
            let (found, room) = (fresh(queue.kept(1)), queue.kept(2));
            self.over_pairs(queue, [kept, gradient], found, room);
            self.weights(queue, queue.kept(1), false);
        }
        for (at, count) in [self.rows, self.columns].into_iter().enumerate() {
            let Some(target) = queue.input_target(at) else { continue };
            let mut arguments = vec![
                Argument::Read(queue.input(0)),
                Argument::Read(queue.input(1)),
                Argument::Read(queue.parameter(0)),
                Argument::Read(gradient),
                Argument::Read(kept),
                Argument::Write(target.buffer),
                Argument::keep(Some(target)),
                Argument::size(1 - at),
                Argument::size(self.rows),
            ];
            arguments.extend(self.pqe_arguments(head));
            queue.launch("pqe_backward", Grid::over(count * self.head.width()), &arguments);
        }
    }
}

/// The wide norm; kept from 3 on are the gradient of weights, images, norms, their slopes and
/// room for sums.
impl Distances {
    fn wide_forward(&self, queue: &mut Queue<'_>, head: WideNorm) {
        self.spread(queue);
        let (weights, spread, images) = (queue.kept(0), queue.kept(1), queue.kept(4));
        let (k, n) = (self.spread_width(), head.components * head.size);
        let sides = (Factor::Plain(spread), Factor::Across(weights));
        queue.multiply(Product { m: self.pairs(), k, n }, sides, fresh(images), EXACT);
        let arguments = [
            Argument::Read(images),
            Argument::Write(queue.kept(5)),
            Argument::Write(queue.output()),
            Argument::size(self.pairs()),
            Argument::size(head.components),
            Argument::size(head.size),
        ];
        queue.launch("wide_norms", Grid::over(self.pairs()), &arguments);
    }

    fn wide_backward(&self, queue: &mut Queue<'_>, head: WideNorm) {
        let (images, slopes) = (head.components * head.size, queue.kept(6));
        let arguments = [
            Argument::Read(queue.kept(4)),
            Argument::Read(queue.kept(5)),
            Argument::Read(queue.output_gradient()),
            Argument::Write(slopes),
            Argument::size(self.pairs() * images),
            Argument::size(head.components),
            Argument::size(head.size),
        ];
        queue.launch("wide_slopes", Grid::over(self.pairs() * images), &arguments);
        let (width, weights, spread) = (self.spread_width(), queue.kept(0), queue.kept(1));
        let (found, room) = (fresh(queue.kept(3)), queue.kept(7));
        self.over_pairs(queue, [slopes, spread], found, room);
        self.weights(queue, queue.kept(3), true);
        let shape = Product { m: self.pairs(), k: images, n: width };
        let sides = (Factor::Plain(slopes), Factor::Plain(weights));
        queue.multiply(shape, sides, fresh(queue.kept(2)), EXACT);
        self.gather(queue);
    }
}

/// The deep norm; kept from 3 on are the gradient of weights, slopes of two layers, all units and
/// room for sums.
impl Distances {
    /// The weights into a layer from the one before it, in a buffer like that of the raw ones.
    fn inner(head: DeepNorm, all: Buffer, layer: usize) -> Buffer {
        all.part((layer - 1) * head.units * head.units, head.units * head.units)
    }

    /// The free weights into a layer, in a buffer like theirs.
    fn outer(head: DeepNorm, all: Buffer, layer: usize) -> Buffer {
        all.part(layer * head.units * head.latent, head.units * head.latent)
    }

    fn deep_forward(&self, queue: &mut Queue<'_>, head: DeepNorm) {
        self.spread(queue);
        let (m, n, spread) = (self.pairs(), head.units, queue.kept(1));
        for layer in 0..head.layers {
            let (units, free) = (queue.kept(6 + layer), queue.parameter(1));
            let sides = (Factor::Plain(spread), Factor::Across(Self::outer(head, free, layer)));
            queue.multiply(Product { m, k: head.latent, n }, sides, fresh(units), EXACT);
            if layer > 0 {
                let weights = Self::inner(head, queue.kept(0), layer);
                let sides = (Factor::Plain(queue.kept(5 + layer)), Factor::Across(weights));
                let target = Target { buffer: units, keep: true };
                queue.multiply(Product { m, k: n, n }, sides, target, EXACT);
            }
            let arguments = [Argument::Write(units), Argument::size(m * n)];
            queue.launch("deep_relu", Grid::over(m * n), &arguments);
        }
        let arguments = [
            Argument::Read(queue.kept(5 + head.layers)),
            Argument::Write(queue.output()),
            Argument::size(m),
            Argument::size(n),
        ];
        queue.launch("deep_mean", Grid::over(m), &arguments);
    }

    fn deep_backward(&self, queue: &mut Queue<'_>, head: DeepNorm) {
        let (pairs, units, moved) = (self.pairs(), head.units, queue.kept(2));
        let (mut slopes, mut below) = (queue.kept(4), queue.kept(5));
        let room = queue.kept(6 + head.layers);
        let arguments = [
            Argument::Read(queue.output_gradient()),
            Argument::Write(slopes),
            Argument::size(pairs),
            Argument::size(units),
        ];
        queue.launch("deep_slopes", Grid::over(pairs * units), &arguments);
        for layer in (0..head.layers).rev() {
            queue.gate(slopes, queue.kept(6 + layer));
            if let Some(target) = queue.parameter_target(1) {
                let buffer = Self::outer(head, target.buffer, layer);
                let sides = [slopes, queue.kept(1)];
                self.over_pairs(queue, sides, Target { buffer, ..target }, room);
            }
            let free = Self::outer(head, queue.parameter(1), layer);
            let shape = Product { m: pairs, k: units, n: head.latent };
            let keep = layer + 1 < head.layers;
            let sides = (Factor::Plain(slopes), Factor::Plain(free));
            queue.multiply(shape, sides, Target { buffer: moved, keep }, EXACT);
            if layer > 0 {
                let found = Self::inner(head, queue.kept(3), layer);
                let sides = [slopes, queue.kept(5 + layer)];
                self.over_pairs(queue, sides, fresh(found), room);
                let weights = Self::inner(head, queue.kept(0), layer);
                let sides = (Factor::Plain(slopes), Factor::Plain(weights));
                queue.multiply(
                    Product { m: pairs, k: units, n: units },
                    sides,
                    fresh(below),
                    EXACT,
                );
                std::mem::swap(&mut slopes, &mut below);
            }
        }
        self.weights(queue, queue.kept(3), true);
        self.gather(queue);
    }
}

impl Kernels for Distances {
    fn source(&self) -> &'static str {
        include_str!("../difference.cu")
    }

    fn kept(&self) -> Vec<usize> {
        let (pairs, raw) = (self.pairs(), self.head.raw());
        let spread = pairs * self.spread_width();
        match self.head {
            DifferenceHead::PqeLh(head) => {
                vec![pairs * head.groups, raw, self.portion_room(head.groups)]
            }
            DifferenceHead::WideNorm(head) => {
                let images = pairs * head.components * head.size;
                let room = self.portion_room(raw);
                vec![raw, spread, spread, raw, images, pairs * head.components, images, room]
            }
            DifferenceHead::DeepNorm(head) => {
                let units = vec![pairs * head.units; 2 + head.layers];
                let room = self.portion_room(head.units * head.units.max(head.latent));
                [vec![raw, spread, spread, raw], units, vec![room]].concat()
            }
        }
    }

    fn forward(&self, queue: &mut Queue<'_>) {
        match self.head {
            DifferenceHead::PqeLh(head) => self.pqe_forward(queue, head),
            DifferenceHead::WideNorm(head) => self.wide_forward(queue, head),
            DifferenceHead::DeepNorm(head) => self.deep_forward(queue, head),
        }
    }

    fn backward(&self, queue: &mut Queue<'_>) {
        match self.head {
            DifferenceHead::PqeLh(head) => self.pqe_backward(queue, head),
            DifferenceHead::WideNorm(head) => self.wide_backward(queue, head),
            DifferenceHead::DeepNorm(head) => self.deep_backward(queue, head),
        }
    }
}
