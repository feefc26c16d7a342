//! Pairs of one row side by side in lanes, and the transpose that puts them there.

use crate::engine::{Scalar, Threads};

/// Lanes that head kernels work on at once: pairs of one row side by side.
pub(crate) const LANES: usize = 64;

/// Rounds up to a whole number of lanes.
pub(crate) fn lanes(columns: usize) -> usize {
    columns.div_ceil(LANES) * LANES
}

/// Rows and columns that are transposed together, while they are in the first cache.
const SQUARE: usize = 16;

/// Writes the transpose of rows × columns `numbers` into `across`, whose rows are `stride` long.
pub(crate) fn transpose<T: Scalar>(
    threads: &Threads,
    numbers: &[T],
    columns: usize,
    across: &mut [T],
    stride: usize,
) {
    threads.parts(across, SQUARE * stride, |part, lines| {
        for (square, rows) in numbers.chunks(SQUARE * columns).enumerate() {
            for (at, line) in lines.chunks_mut(stride).enumerate() {
                let column = rows.iter().skip(part * SQUARE + at).step_by(columns);
                line[square * SQUARE..].iter_mut().zip(column).for_each(|(to, &from)| *to = from);
            }
        }
    });
}
