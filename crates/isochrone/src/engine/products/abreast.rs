//! C ← A B in single precision with the rows of A and C abreast, a row per lane of a register.
//!
//! Numbers of 48 rows that lie abreast need no packing, and what one product writes the next one
//! reads. Sums over k run as in [`tiles`](super::tiles), so every number has the bits it has there.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use super::tiles::{DEEP, LANES, first, square};
use crate::engine::Scalar;

/// Rows that lie abreast: three registers of them.
pub const ABREAST: usize = 48;
/// Columns of a tile: 24 registers of sums leave enough for the operands.
#[cfg(target_arch = "x86_64")]
const COLUMNS: usize = 8;

/// What 48 rows have in one column.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Abreast<T>(pub [T; ABREAST]);

impl<T: Scalar> Abreast<T> {
    /// Zero in every row.
    pub const ZERO: Self = Self([T::ZERO; ABREAST]);
}

/// Whether this machine multiplies rows that lie abreast; the functions below are for those that do.
pub fn can_abreast() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512f")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

fn check(fits: bool) {
    assert!(fits, "columns of another shape");
    assert!(can_abreast(), "a machine with AVX-512");
}

/// Lays up to 48 rows abreast; rows that are missing get zeros.
///
/// # Panics
/// Numbers that are not so many rows, and a machine that has no such products.
pub fn lay_abreast(rows: &[f32], columns: &mut [Abreast<f32>]) {
    let count = rows.len() / columns.len().max(1);
    check(rows.len() == count * columns.len() && count <= ABREAST);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the machine has the registers, and there are so many whole rows.
    unsafe {
        lay(rows, count, columns);
    }
}

/// # Safety
/// `rows` has `count` rows of a number per column, at most 48.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn lay(rows: &[f32], count: usize, columns: &mut [Abreast<f32>]) {
    let width = columns.len();
    for from in (0..ABREAST).step_by(LANES) {
        for (at, columns) in columns.chunks_mut(LANES).enumerate() {
            let high = count.saturating_sub(from).min(LANES);
            let start = rows.as_ptr().wrapping_add(from * width + at * LANES);
            // SAFETY: the square begins inside the rows, or has none, and a column has 48 numbers.
            unsafe {
                let registers = square(start, width, high, columns.len());
                for (column, register) in columns.iter_mut().zip(registers) {
                    _mm512_store_ps(column.0.as_mut_ptr().add(from), register);
                }
            }
        }
    }
}

/// Writes up to 48 rows that lie abreast one after the other.
///
/// # Panics
/// As [`lay_abreast`].
pub fn from_abreast(columns: &[Abreast<f32>], rows: &mut [f32]) {
    let count = rows.len() / columns.len().max(1);
    check(rows.len() == count * columns.len() && count <= ABREAST);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the machine has the registers, and there are so many whole rows.
    unsafe {
        unlay(columns, count, rows);
    }
}

/// # Safety
/// As of [`lay`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn unlay(columns: &[Abreast<f32>], count: usize, rows: &mut [f32]) {
    let width = columns.len();
    for from in (0..count).step_by(LANES) {
        for (at, columns) in columns.chunks(LANES).enumerate() {
            let (start, mask) = (from * width + at * LANES, first(columns.len()));
            // SAFETY: a column has 48 numbers, and the mask ends with the columns.
            unsafe {
                let numbers = columns.as_ptr().cast::<f32>().add(from);
                let registers = square(numbers, ABREAST, columns.len(), LANES);
                for (row, register) in registers.into_iter().enumerate().take(count - from) {
                    let place = rows.as_mut_ptr().add(start + row * width);
                    _mm512_mask_storeu_ps(place, mask, register);
                }
            }
        }
    }
}

/// Computes `out` ← `left` · `right` for 48 rows; `right` has a row per column of `left` and a column
/// per column of `out`.
///
/// # Panics
/// As [`lay_abreast`].
pub fn multiply_abreast(left: &[Abreast<f32>], right: &[f32], out: &mut [Abreast<f32>]) {
    check(right.len() == left.len() * out.len());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the machine has the registers, and the matrix on the right has the shape.
    unsafe {
        multiply(left, right, out);
    }
}

/// # Safety
/// `right` has a row per column of `left` and a column per column of `out`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn multiply(left: &[Abreast<f32>], right: &[f32], out: &mut [Abreast<f32>]) {
    let stride = out.len();
    if left.is_empty() {
        out.fill(Abreast::ZERO);
    }
    for (at, left) in left.chunks(DEEP).enumerate() {
        let add = at > 0;
        for (group, out) in out.chunks_mut(COLUMNS).enumerate() {
            // SAFETY: the tile's numbers begin in row `at * DEEP` and are as wide as `out`.
            unsafe {
                let right = right.as_ptr().add(at * DEEP * stride + group * COLUMNS);
                match out.len() {
                    1 => tile::<1>(left, right, stride, add, out),
                    2 => tile::<2>(left, right, stride, add, out),
                    3 => tile::<3>(left, right, stride, add, out),
                    4 => tile::<4>(left, right, stride, add, out),
                    5 => tile::<5>(left, right, stride, add, out),
                    6 => tile::<6>(left, right, stride, add, out),
                    7 => tile::<7>(left, right, stride, add, out),
                    _ => tile::<COLUMNS>(left, right, stride, add, out),
                }
            }
        }
    }
}

/// Some columns of the product; their sums stay in registers.
///
/// # Safety
/// `right` points to a row of at least `WIDE` numbers for every column of `left`, `stride` apart, and
/// `out` has `WIDE` columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn tile<const WIDE: usize>(
    left: &[Abreast<f32>],
    mut right: *const f32,
    stride: usize,
    add: bool,
    out: &mut [Abreast<f32>],
) {
    const REGISTERS: usize = ABREAST / LANES;
    let mut sums = [[_mm512_setzero_ps(); REGISTERS]; WIDE];
    // SAFETY: as the caller's; a column has three registers of numbers.
    unsafe {
        for column in left {
            let mut rows = [_mm512_setzero_ps(); REGISTERS];
            for (at, register) in rows.iter_mut().enumerate() {
                *register = _mm512_load_ps(column.0.as_ptr().add(at * LANES));
            }
            for (at, sums) in sums.iter_mut().enumerate() {
                let y = _mm512_set1_ps(*right.add(at));
                for (sum, &x) in sums.iter_mut().zip(&rows) {
                    *sum = _mm512_fmadd_ps(x, y, *sum);
                }
            }
            right = right.wrapping_add(stride);
        }
        for (column, sums) in out.iter_mut().zip(sums) {
            for (at, sum) in sums.into_iter().enumerate() {
                let place = column.0.as_mut_ptr().add(at * LANES);
                let sum = if add { _mm512_add_ps(sum, _mm512_load_ps(place)) } else { sum };
                _mm512_store_ps(place, sum);
            }
        }
    }
}
