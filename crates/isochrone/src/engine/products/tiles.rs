//! C ← A B + C in single precision, in tiles of up to 14 × 32 numbers that stay in AVX-512 registers.
//!
//! Sums over k run as in `matrixmultiply`: fused from zero over each block of 256, the blocks added
//! one after the other. So every number has the bits it has there, for any cut of the rows. Every
//! thread takes some rows through all columns, 32 at a time: its first tile copies the block of the
//! right matrix that the others then find in the first cache. A right matrix that is read across is
//! packed before, once for all threads.

use std::arch::x86_64::*;
use std::cell::{Cell, RefCell};

use super::shape::{Product, Strided};
use crate::engine::Threads;

/// Values per register.
pub(super) const LANES: usize = 16;
/// Columns of a tile.
const WIDE: usize = 2 * LANES;
/// Rows of a tile at most: two registers each, and three for the operands, are all 32.
const HIGH: usize = 14;
/// What is summed up before it is added to earlier sums.
pub(super) const DEEP: usize = 256;
/// Rows of the right matrix that are asked for before a tile copies them, to be there in time.
const AHEAD: usize = 12;
/// Squares of 16 × 16 numbers that are asked for before they are transposed.
const SQUARES: usize = 4;
/// Steps of a tile after which it asks for the next of its rows, and for some of the next block.
const SPREAD: usize = 16;
/// Fewer rows are not worth packing a right matrix for that is read across.
const LEAST_ROWS: usize = 32;
/// Rows of a part at most: with their depth they stay in the second cache.
const MOST_ROWS: usize = 12 * HIGH;
/// Registers that are packed by one task at least.
const LEAST_PACKED: usize = 1024;

/// A register in memory.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([f32; LANES]);

thread_local! {
    /// Room for a packed right matrix, while no product uses it.
    static RIGHT: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// Room for a block of 32 columns, then the rows of a part.
    static LEFT: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// Whether this machine and a product of this shape are served, with a right matrix that is read as it
/// stands or across.
pub(super) fn serves(shape: Product, is_across: bool) -> bool {
    (!is_across || shape.m >= LEAST_ROWS) && is_x86_feature_detected!("avx512f")
}

/// Computes `out` ← `left` · `right`, plus `out` where `keep`; then `finish(first row, rows)` for
/// parts of the rows.
///
/// # Safety
/// The shape is served, all its sizes are positive, and both operands lie in memory that is read by
/// nobody but readers meanwhile.
pub(super) unsafe fn multiply(
    threads: &Threads,
    shape: Product,
    (left, right): (Strided<f32>, Strided<f32>),
    keep: bool,
    out: &mut [f32],
    finish: &(dyn Fn(usize, &mut [f32]) + Sync),
) {
    let Product { m, k, n } = shape;
    assert_eq!(out.len(), m * n, "product of {shape:?}");
    let mut packed = Vec::new();
    let panels = if right.column == 1 {
        Strided { column: WIDE, ..right }
    } else {
        packed = RIGHT.take();
        // SAFETY: as the caller's.
        unsafe { pack_all(threads, shape, right, &mut packed) };
        Strided { start: packed.as_ptr().cast(), row: WIDE, column: k * WIDE }
    };
    let parts = threads.count() * m.div_ceil(threads.count() * MOST_ROWS);
    let share = m.div_ceil(parts).max(HIGH.min(m));
    threads.parts(out, share * n, |part, rows| {
        let first = part * share;
        let part = Product { m: rows.len() / n, k, n };
        // SAFETY: the rows are rows of the left matrix; the right one has the panels.
        unsafe { some_rows(part, left.at(first, 0), panels, keep, rows) };
        finish(first, rows);
    });
    if right.column != 1 {
        RIGHT.set(packed);
    }
}

/// Packs all panels of the right matrix.
///
/// # Safety
/// As of [`multiply`].
unsafe fn pack_all(
    threads: &Threads,
    Product { k, n, .. }: Product,
    right: Strided<f32>,
    packed: &mut Vec<Line>,
) {
    let panel = k * WIDE / LANES;
    let length = n.div_ceil(WIDE) * panel;
    if packed.len() < length {
        packed.resize(length, Line([0.0; LANES]));
    }
    let several = LEAST_PACKED.div_ceil(panel);
    threads.parts(&mut packed[..length], several * panel, |part, lines| {
        for (at, room) in lines.chunks_exact_mut(panel).enumerate() {
            let column = (part * several + at) * WIDE;
            // SAFETY: the columns are columns of the right matrix, the room has k times 32 numbers.
            unsafe { pack_right(right.at(0, column), WIDE.min(n - column), k, room) };
        }
    });
}

/// Where strip `at` of `m` rows begins and how high it is: as even as can be.
fn strip(m: usize, at: usize) -> (usize, usize) {
    let strips = m.div_ceil(HIGH);
    let (from, to) = (at * m / strips, (at + 1) * m / strips);
    (from, to - from)
}

/// Some rows of the product. Panels of the right matrix lie a column apart, their rows a row.
#[target_feature(enable = "avx512f")]
unsafe fn some_rows(
    Product { m, k, n }: Product,
    left: Strided<f32>,
    panels: Strided<f32>,
    keep: bool,
    out: &mut [f32],
) {
    LEFT.with_borrow_mut(|room| {
        let length = DEEP * WIDE / LANES + (m * k).div_ceil(LANES);
        if room.len() < length {
            room.resize(length, Line([0.0; LANES]));
        }
        let (panel, rows) = room.split_at_mut(DEEP * WIDE / LANES);
        let (panel, rows) = (panel.as_mut_ptr().cast(), rows.as_mut_ptr().cast::<f32>());
        let strips = m.div_ceil(HIGH);
        // SAFETY: blocks of the depth follow each other, in each the strips, so that a strip of a block
        // begins at `deep * m + from * depth` and all together are `m * k` numbers; tiles begin inside
        // `out` and are cut to its columns; the panel has room for a block.
        unsafe {
            for (deep, depth) in blocks(k) {
                for at in 0..strips {
                    if deep == 0 {
                        // Some of the block that is used first.
                        for row in depth * at / strips..depth * (at + 1) / strips {
                            ask::<_MM_HINT_T1, 2>(panels.start.wrapping_add(row * panels.row));
                        }
                    }
                    let (from, high) = strip(m, at);
                    pack_left(left.at(from, deep), high, depth, rows.add(deep * m + from * depth));
                }
            }
            for column in (0..n).step_by(WIDE) {
                for (deep, depth) in blocks(k) {
                    let right = panels.at(deep, column / WIDE);
                    let next = if deep + depth < k {
                        right.start.wrapping_add(depth * right.row)
                    } else {
                        panels.start.wrapping_add((column / WIDE + 1) * panels.column)
                    };
                    let some = SPREAD.div_ceil(strips);
                    for at in 0..strips {
                        let (from, high) = strip(m, at);
                        let left = rows.add(deep * m + from * depth).cast_const();
                        let next = next.wrapping_add(at * (depth / SPREAD) * some * right.row);
                        let factors = Factors { left, right, panel, depth, next, some };
                        let out = out.as_mut_ptr().add(from * n + column);
                        let place = Place { out, stride: n, wide: WIDE.min(n - column) };
                        if at == 0 {
                            tile_of::<true>(high, factors, place, keep || deep > 0);
                        } else {
                            tile_of::<false>(high, factors, place, keep || deep > 0);
                        }
                    }
                }
            }
        }
    });
}

/// Begins and lengths of the blocks of a depth.
fn blocks(k: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..k).step_by(DEEP).map(move |deep| (deep, DEEP.min(k - deep)))
}

/// What a tile is the product of: packed columns of its height, and rows of up to 32 numbers, which a
/// tile that copies reads from `right` and leaves in `panel`, and any other finds there. Meanwhile a
/// tile asks for rows of the next block, `some` at a time from `next` on.
#[derive(Clone, Copy)]
struct Factors {
    left: *const f32,
    right: Strided<f32>,
    panel: *mut f32,
    depth: usize,
    next: *const f32,
    some: usize,
}

/// Where a tile lies: its first number, how far its rows lie apart, and its columns.
#[derive(Clone, Copy)]
struct Place {
    out: *mut f32,
    stride: usize,
    wide: usize,
}

#[target_feature(enable = "avx512f")]
unsafe fn tile_of<const COPIES: bool>(high: usize, factors: Factors, place: Place, add: bool) {
    macro_rules! heights {
        ($($high:literal)*) => {
            // SAFETY: as the caller's.
            match (high, place.wide > LANES) {
                $(($high, true) => unsafe { tile::<$high, 2, COPIES>(factors, place, add) },
                  ($high, false) => unsafe { tile::<$high, 1, COPIES>(factors, place, add) },)*
                _ => unreachable!("a tile of {high} rows"),
            }
        };
    }
    heights!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
}

/// One tile; its sums stay in registers.
#[target_feature(enable = "avx512f")]
unsafe fn tile<const ROWS: usize, const REGISTERS: usize, const COPIES: bool>(
    Factors { mut left, right, mut panel, depth, mut next, some }: Factors,
    Place { out, stride, wide }: Place,
    add: bool,
) {
    let mut sums = [[_mm512_setzero_ps(); REGISTERS]; ROWS];
    let mut source = right.start;
    // SAFETY: the factors have `depth` columns and rows, and the masks end at the tile's columns. What
    // is asked for may lie anywhere.
    unsafe {
        for from in (0..depth).step_by(SPREAD) {
            if from / SPREAD < ROWS {
                ask::<_MM_HINT_ET0, REGISTERS>(out.wrapping_add(from / SPREAD * stride));
            }
            for _ in 0..some {
                ask::<_MM_HINT_T1, REGISTERS>(next);
                next = next.wrapping_add(right.row);
            }
            for _ in from..depth.min(from + SPREAD) {
                let mut row = [_mm512_setzero_ps(); REGISTERS];
                for (at, register) in row.iter_mut().enumerate() {
                    let copy = panel.add(at * LANES);
                    if COPIES {
                        let mask = first(wide - at * LANES);
                        *register = _mm512_maskz_loadu_ps(mask, source.wrapping_add(at * LANES));
                        _mm512_store_ps(copy, *register);
                    } else {
                        *register = _mm512_load_ps(copy);
                    }
                }
                if COPIES {
                    ask::<_MM_HINT_T0, REGISTERS>(source.wrapping_add(AHEAD * right.row));
                    source = source.wrapping_add(right.row);
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let x = _mm512_set1_ps(*left.add(i));
                    for (sum, &y) in sums.iter_mut().zip(&row) {
                        *sum = _mm512_fmadd_ps(x, y, *sum);
                    }
                }
                (left, panel) = (left.add(ROWS), panel.add(WIDE));
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            for (at, &sum) in sums.iter().enumerate() {
                let place = out.add(i * stride + at * LANES);
                let mask = first(wide - at * LANES);
                let before = _mm512_maskz_loadu_ps(if add { mask } else { 0 }, place);
                let sum = if add { _mm512_add_ps(sum, before) } else { sum };
                _mm512_mask_storeu_ps(place, mask, sum);
            }
        }
    }
}

/// Asks for a row of a tile, which is used later: for one line more than its numbers fill, as they
/// seldom begin with a line.
#[inline(always)]
fn ask<const HINT: i32, const REGISTERS: usize>(row: *const f32) {
    for at in 0..=REGISTERS {
        let number = row.wrapping_add((at * LANES).min((REGISTERS * LANES).saturating_sub(1)));
        // SAFETY: no address is wrong to ask for.
        unsafe { _mm_prefetch::<HINT>(number.cast()) };
    }
}

/// A mask of the first lanes.
pub(super) fn first(count: usize) -> u16 {
    if count >= LANES { u16::MAX } else { (1 << count) - 1 }
}

/// Packs `high` rows, column after column.
#[target_feature(enable = "avx512f")]
unsafe fn pack_left(left: Strided<f32>, high: usize, depth: usize, mut room: *mut f32) {
    let mask = first(high);
    // SAFETY: the rows and columns are those of the matrix, and the room has `high * depth` numbers.
    unsafe {
        if left.row == 1 {
            for column in 0..depth {
                let numbers = left.at(0, column).start;
                ask::<_MM_HINT_T0, 1>(numbers.wrapping_add(AHEAD * left.column));
                _mm512_mask_storeu_ps(room, mask, _mm512_maskz_loadu_ps(mask, numbers));
                room = room.add(high);
            }
            return;
        }
        for from in (0..depth).step_by(LANES) {
            let count = LANES.min(depth - from);
            let columns = square(left.at(0, from).start, left.row, high, count);
            for &column in &columns[..count] {
                _mm512_mask_storeu_ps(room, mask, column);
                room = room.add(high);
            }
        }
    }
}

/// Packs up to 32 columns that are read across, row after row.
#[target_feature(enable = "avx512f")]
unsafe fn pack_right(right: Strided<f32>, wide: usize, depth: usize, room: &mut [Line]) {
    for (from, room) in (0..depth).step_by(LANES).zip(room.chunks_mut(2 * LANES)) {
        for half in 0..wide.div_ceil(LANES) {
            let (width, count) = ((wide - half * LANES).min(LANES), LANES.min(depth - from));
            // SAFETY: the rows and columns are those of the matrix, a line is a register.
            unsafe {
                let start = right.at(from, half * LANES).start;
                let rows = square(start, right.column, width, count);
                for (row, lines) in rows[..count].iter().zip(room.chunks_exact_mut(2)) {
                    _mm512_store_ps(lines[half].0.as_mut_ptr(), *row);
                }
            }
        }
    }
}

/// The columns of up to 16 × 16 numbers whose rows lie `stride` apart; zeros beyond.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn square(
    start: *const f32,
    stride: usize,
    rows: usize,
    columns: usize,
) -> [__m512; LANES] {
    let zeros = [_mm512_setzero_ps(); LANES];
    let (mut a, mut b, mut out) = (zeros, zeros, zeros);
    for (i, row) in a.iter_mut().enumerate().take(rows) {
        ask::<_MM_HINT_T0, 0>(start.wrapping_add(i * stride + SQUARES * LANES));
        // SAFETY: the caller's rows and columns.
        *row = unsafe { _mm512_maskz_loadu_ps(first(columns), start.add(i * stride)) };
    }
    for i in 0..LANES / 2 {
        b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
    }
    for i in 0..4 {
        for half in 0..2 {
            let low = _mm512_castps_pd(b[4 * i + half]);
            let high = _mm512_castps_pd(b[4 * i + 2 + half]);
            a[4 * i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            a[4 * i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    // a[4 i + j] has column 4 q + j of rows 4 i to 4 i + 3 in its quarter q.
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    for j in 0..4 {
        let even = _mm512_shuffle_f32x4::<EVEN>(a[j], a[4 + j]);
        let odd = _mm512_shuffle_f32x4::<ODD>(a[j], a[4 + j]);
        let even_below = _mm512_shuffle_f32x4::<EVEN>(a[8 + j], a[12 + j]);
        let odd_below = _mm512_shuffle_f32x4::<ODD>(a[8 + j], a[12 + j]);
        out[j] = _mm512_shuffle_f32x4::<EVEN>(even, even_below);
        out[8 + j] = _mm512_shuffle_f32x4::<ODD>(even, even_below);
        out[4 + j] = _mm512_shuffle_f32x4::<EVEN>(odd, odd_below);
        out[12 + j] = _mm512_shuffle_f32x4::<ODD>(odd, odd_below);
    }
    out
}
