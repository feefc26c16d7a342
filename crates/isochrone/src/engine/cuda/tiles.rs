//! Products of few rows as kernels of our own, with the gate that follows fused into them.
//!
//! cuBLASLt splits work for whole GPUs; a product of 256 × 512 × 512 leaves most of one idle. Tiles of
//! 32 × 32 with k shared among the warps of a block take two thirds of its time. Gradients of many replicas
//! have tiles of 64 × 64. The rule by which a product becomes tiles is a function of shapes alone, so the
//! same run gives the same bits.

use std::ops::Range;

use crate::engine::Product;
use crate::engine::launches::{
    Argument, Buffer, DOWN, Factor, Finish, GATE, Grid, Launch, Multiply, Precision, Work,
};

pub(super) const SOURCE: &str = include_str!("tiles.cu");

/// How a product is cut: the kernel, the rows and columns of a tile, and the bytes of shared memory that a
/// block works in.
#[derive(Clone, Copy)]
struct Tiling {
    kernel: &'static str,
    side: usize,
    shared: usize,
}

impl Tiling {
    const fn small(kernel: &'static str) -> Self {
        Self { kernel, side: 32, shared: 5 * 4 * (32 * 72 + 64 * 36) }
    }

    const fn large(kernel: &'static str) -> Self {
        Self { kernel, side: 64, shared: 5 * 4 * 2 * 32 * 68 }
    }

    /// Tiles across and down.
    fn tiles(&self, shape: Product) -> (usize, usize) {
        (shape.n.div_ceil(self.side), shape.m.div_ceil(self.side))
    }

    fn blocks(&self, shape: Product) -> usize {
        let (x, y) = self.tiles(shape);
        x * y
    }
}

const PLAIN: Tiling = Tiling::small("tiles_plain");
const ACROSS: Tiling = Tiling::small("tiles_across");
const GRADIENT: Tiling = Tiling::small("tiles_gradient");
const LARGE_GRADIENT: Tiling = Tiling::large("tiles_gradient_large");

/// Threads of a block.
const THREADS: usize = 256;

/// With more blocks than these cuBLASLt is as fast; gradients of weights add over more rows, and with
/// more of one replica it is so.
const MOST_BLOCKS: usize = 256;
const MOST_GRADIENT_BLOCKS: usize = 64;
/// From so many blocks of large tiles on an update is faster with them, though alone they are slower:
/// more of the GPU is left to what runs beside them.
const LEAST_LARGE_BLOCKS: usize = 64;
/// Fewer columns leave most of a tile unused.
const LEAST_COLUMNS: usize = 8;

/// What decides how products run.
pub(super) struct Rules {
    pub precision: Precision,
    pub replicas: usize,
}

/// Replaces small products among `launches` by tiles, and fuses the gates that follow them; what adds rows
/// behind its gate goes on doing so without.
pub(super) fn replace(launches: &mut Vec<Launch>, rules: &Rules) {
    let mut fused = vec![false; launches.len()];
    for at in 0..launches.len() {
        let Work::Product(product) = launches[at].work.clone() else { continue };
        let Some(tiling) = tiling(&product, rules) else { continue };
        let gate = gate_after(launches, at, product.out.buffer);
        if let Some((gate, _)) = gate {
            match ungated(&launches[gate]) {
                Some(launch) => launches[gate] = launch,
                None => fused[gate] = true,
            }
        }
        let tiles = tiles(&product, tiling, gate.map(|(_, told)| told));
        launches[at] = Launch { of: launches[at].of, ..tiles };
    }
    let mut fused = fused.into_iter();
    launches.retain(|_| !fused.next().unwrap_or(false));
}

/// The tiles of a product; `None` if cuBLASLt is asked.
fn tiling(product: &Multiply, rules: &Rules) -> Option<Tiling> {
    let shape = product.shape;
    let few = |tiling: Tiling| tiling.blocks(shape) * rules.replicas <= MOST_BLOCKS;
    let (tiling, fits) = match (product.left, product.right) {
        (Factor::Plain(_), Factor::Plain(_)) => (PLAIN, few(PLAIN)),
        (Factor::Plain(_), Factor::Across(_)) => (ACROSS, few(ACROSS)),
        (Factor::Across(_), Factor::Plain(_)) => {
            let filled = LARGE_GRADIENT.blocks(shape) * rules.replicas >= LEAST_LARGE_BLOCKS;
            let large = filled && shape.m.min(shape.n) >= LARGE_GRADIENT.side;
            let fits = GRADIENT.blocks(shape) <= MOST_GRADIENT_BLOCKS;
            (if large { LARGE_GRADIENT } else { GRADIENT }, fits)
        }
        (Factor::Across(_), Factor::Across(_)) => return None,
    };
    let fits = fits && shape.n >= LEAST_COLUMNS;
    (fits && rules.precision == Precision::Tf32 && !product.exact).then_some(tiling)
}

/// The gate that is the next to touch `out` after launch `at`, and what it is told by.
fn gate_after(launches: &[Launch], at: usize, out: Buffer) -> Option<(usize, Buffer)> {
    let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
    let later = || launches.iter().enumerate().skip(at + 1);
    let (gate, launch) = later().find(|(_, launch)| launch.touches(&out.range()))?;
    let Work::Kernel { name: GATE | DOWN, arguments, .. } = &launch.work else { return None };
    let (Argument::Write(gated), Argument::Read(told)) = (arguments[0], arguments[1]) else {
        return None;
    };
    let mut between = later().take(gate - at - 1);
    let stands = between
        .all(|(_, launch)| !launch.writes.iter().any(|written| meet(written, &told.range())));
    (gated == out && stands).then_some((gate, told))
}

/// What is left of a launch whose gate is fused; `None` if that is all it does.
fn ungated(launch: &Launch) -> Option<Launch> {
    let Work::Kernel { name: DOWN, grid, arguments } = &launch.work else { return None };
    let mut arguments = arguments.clone();
    if let Argument::Write(gradient) = arguments[0] {
        arguments[0] = Argument::Read(gradient);
    }
    arguments[1] = Argument::Absent;
    Some(Launch { of: launch.of, ..Launch::kernel(DOWN, *grid, &arguments) })
}

/// The launch of a product in tiles.
fn tiles(product: &Multiply, tiling: Tiling, told: Option<Buffer>) -> Launch {
    let Multiply { shape, left, right, out, scale, finish, .. } = *product;
    let wide = |factor: Factor, plain: usize, across: usize| {
        let line = if matches!(factor, Factor::Plain(_)) { plain } else { across };
        Argument::Int((factor.buffer().is_aligned() && line.is_multiple_of(4)).into())
    };
    let arguments = [
        Argument::Read(left.buffer()),
        Argument::Read(right.buffer()),
        Argument::maybe(finish.bias()),
        Argument::maybe(told),
        Argument::Write(out.buffer),
        Argument::size(shape.m),
        Argument::size(shape.n),
        Argument::size(shape.k),
        Argument::Float(scale),
        Argument::Int(out.keep.into()),
        Argument::Int(matches!(finish, Finish::BiasRelu(_)).into()),
        wide(left, shape.k, shape.m),
        wide(right, shape.n, shape.k),
    ];
    let (x, y) = tiling.tiles(shape);
    let grid = Grid::blocks(x, y, THREADS).with_shared(tiling.shared);
    Launch::kernel(tiling.kernel, grid, &arguments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::launches::{Target, down, gate};

    fn product(rows: usize, out: Buffer) -> Launch {
        let shape = Product { m: rows, k: 16, n: 64 };
        let left = Factor::Plain(Buffer { offset: 0, length: 16 * rows });
        let right = Factor::Across(Buffer { offset: 1 << 20, length: 1024 });
        let (scale, finish, exact) = (1.0, Finish::None, false);
        let out = Target { buffer: out, keep: false };
        Launch::product(Multiply { shape, left, right, out, scale, finish, exact })
    }

    fn names(launches: &[Launch]) -> Vec<&'static str> {
        let name = |launch: &Launch| match launch.work {
            Work::Kernel { name, .. } => name,
            Work::Product(_) => "product",
        };
        launches.iter().map(name).collect()
    }

    fn rules(replicas: usize) -> Rules {
        Rules { precision: Precision::Tf32, replicas }
    }

    #[test]
    fn a_small_product_takes_the_gate_after_it_and_a_large_one_stays_as_it_is() {
        let out = Buffer { offset: 1 << 21, length: 64 * 96 };
        let told = Buffer { offset: 1 << 22, length: 64 * 96 };
        let list = || vec![product(96, out), gate(out, told)];
        let mut launches = list();
        replace(&mut launches, &rules(1));
        assert_eq!(names(&launches), ["tiles_across"]);
        assert!(launches[0].reads.contains(&told.range()));
        let mut launches = list();
        Launch::belong(&mut launches, ("linear", "backward"));
        replace(&mut launches, &rules(1));
        assert_eq!(launches[0].of, ("linear", "backward"));
        let mut launches = list();
        replace(&mut launches, &rules(64));
        assert_eq!(names(&launches), ["product", GATE]);
        let mut launches = list();
        replace(&mut launches, &Rules { precision: Precision::Single, replicas: 1 });
        assert_eq!(names(&launches), ["product", GATE]);
    }

    #[test]
    fn what_adds_rows_behind_a_fused_gate_goes_on_without_it() {
        let buffer = |at: usize, length: usize| Buffer { offset: at << 20, length };
        let (out, told) = (buffer(2, 64 * 96), buffer(4, 64 * 96));
        let bias = Target { buffer: buffer(5, 64), keep: true };
        let list = || {
            let down = down(out, Some(told), bias, [buffer(6, 64), buffer(7, 2)]);
            vec![product(96, out), Launch { of: ("linear", "backward"), ..down }]
        };
        let mut launches = list();
        replace(&mut launches, &rules(1));
        assert_eq!(names(&launches), ["tiles_across", DOWN]);
        assert!(launches[0].reads.contains(&told.range()));
        assert_eq!(launches[1].of, ("linear", "backward"));
        assert!(!launches[1].touches(&told.range()) && !launches[1].changes(&out.range()));
        assert!(launches[1].reads.contains(&out.range()));
        let mut launches = list();
        replace(&mut launches, &rules(64));
        assert_eq!(names(&launches), ["product", DOWN]);
        assert!(launches[1].touches(&told.range()) && launches[1].changes(&out.range()));
    }

    #[test]
    fn a_gate_is_not_fused_past_a_reader_of_the_gradient_or_a_writer_of_what_it_is_told_by() {
        let out = Buffer { offset: 1 << 21, length: 64 * 96 };
        let told = Buffer { offset: 1 << 22, length: 64 * 96 };
        for argument in [Argument::Read(out), Argument::Write(out), Argument::Write(told)] {
            let other = Launch::kernel("other", Grid::one(32), &[argument]);
            let mut launches = vec![product(96, out), other, gate(out, told)];
            replace(&mut launches, &rules(1));
            assert_eq!(names(&launches), ["tiles_across", "other", GATE], "{argument:?}");
        }
    }

    #[test]
    fn the_gradient_of_few_weights_is_tiles_however_many_replicas_and_that_of_many_never() {
        let gradient = |m: usize, replicas: usize| {
            let shape = Product { m, k: 96, n: 512 };
            let left = Factor::Across(Buffer { offset: 0, length: 96 * m });
            let right = Factor::Plain(Buffer { offset: 1 << 20, length: 96 * 512 });
            let out = Target { buffer: Buffer { offset: 1 << 21, length: m * 512 }, keep: false };
            let (scale, finish, exact) = (1.0, Finish::None, false);
            let product = Multiply { shape, left, right, out, scale, finish, exact };
            tiling(&product, &rules(replicas)).map(|tiling| tiling.kernel)
        };
        assert_eq!([gradient(37, 1), gradient(37, 8)], [Some("tiles_gradient"); 2]);
        assert_eq!([gradient(512, 1), gradient(512, 8)], [None; 2]);
        // Eight large tiles each: eight replicas are enough.
        assert_eq!(gradient(64, 7), Some("tiles_gradient"));
        assert_eq!(gradient(64, 8), Some("tiles_gradient_large"));
        assert_eq!(gradient(63, 16), Some("tiles_gradient"));
    }
}
