//! Pairs of one row, or some rows, side by side in lanes, and the transposes that put them there.

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

/// Rows that are read side by side: one per lane.
pub(crate) const BESIDE: usize = 16;

/// Writes the columns of 16 rows, or fewer, into `columns`: what each row has there, side by side.
/// Lanes beyond the rows get zeros. To be inlined into a kernel for the machine's vectors.
#[inline(always)]
pub(crate) fn beside<T: Scalar>(rows: &[T], columns: &mut [[T; BESIDE]]) {
    let width = columns.len();
    for (square, columns) in columns.chunks_mut(BESIDE).enumerate() {
        let first = square * BESIDE;
        let mut numbers = [T::ZERO; BESIDE * BESIDE];
        if columns.len() == BESIDE && rows.len() == BESIDE * width {
            for at in 0..BESIDE {
                let row = &rows[at * width + first..][..BESIDE];
                numbers[at * BESIDE..][..BESIDE].copy_from_slice(row);
            }
        } else {
            for (row, line) in rows.chunks_exact(width).zip(numbers.chunks_exact_mut(BESIDE)) {
                line.iter_mut().zip(&row[first..]).for_each(|(to, &from)| *to = from);
            }
        }
        // Each shuffle rotates the bits of an index by one; four exchange row and column.
        let numbers = shuffled(&shuffled(&shuffled(&shuffled(&numbers))));
        for (at, column) in columns.iter_mut().enumerate() {
            column.copy_from_slice(&numbers[at * BESIDE..][..BESIDE]);
        }
    }
}

/// Both halves interleaved.
#[inline(always)]
fn shuffled<T: Scalar>(numbers: &[T; BESIDE * BESIDE]) -> [T; BESIDE * BESIDE] {
    let mut out = [T::ZERO; BESIDE * BESIDE];
    for at in 0..BESIDE * BESIDE / 2 {
        out[2 * at] = numbers[at];
        out[2 * at + 1] = numbers[BESIDE * BESIDE / 2 + at];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_rows_side_by_side_are_the_transpose() {
        for (rows, width) in [(16, 16), (16, 40), (3, 5), (1, 17)] {
            let numbers: Vec<f32> = (0..rows * width).map(|at| 1.0 + at as f32).collect();
            let mut columns = vec![[-1.0; BESIDE]; width];
            beside(&numbers, &mut columns);
            for (at, column) in columns.iter().enumerate() {
                for (lane, &found) in column.iter().enumerate() {
                    let expected = if lane < rows { numbers[lane * width + at] } else { 0.0 };
                    assert_eq!(found, expected, "row {lane}, column {at} of {rows} x {width}");
                }
            }
        }
    }
}
