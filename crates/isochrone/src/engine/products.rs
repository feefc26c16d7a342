//! Matrix products and wide vectors, behind a safe face.
//!
//! C ← A B + β C: in single precision with AVX-512 through [`tiles`], otherwise through
//! `matrixmultiply`. Sums over k run in the same order in both and for any cut of the rows, which are
//! spread over our own threads; rows that only answer questions are multiplied abreast, by the same
//! sums ([`abreast`]). [`wide`] compiles a loop for the vector width of the machine it runs
//! on.
#![allow(unsafe_code)]

mod abreast;
mod shape;
#[cfg(target_arch = "x86_64")]
mod tiles;

use std::time::Instant;

pub use abreast::{ABREAST, Abreast, can_abreast, from_abreast, lay_abreast, multiply_abreast};
pub use shape::Product;
use shape::Strided;

use super::{Scalar, Threads};

/// A matrix to be multiplied: its numbers, row after row, read as they stand or transposed.
#[derive(Debug, Clone, Copy)]
pub enum Side<'a, T> {
    /// Row i, column j is number i · columns + j.
    Plain(&'a [T]),
    /// Row i, column j is number j · rows + i: the stored matrix is read across.
    Across(&'a [T]),
}

/// A cut never leaves a thread fewer rows than this.
const LEAST_ROWS: usize = 16;

impl<T> Side<'_, T> {
    /// The matrix of so many rows and columns.
    fn strided(&self, rows: usize, columns: usize) -> Strided<T> {
        let (numbers, row, column) = match self {
            Self::Plain(numbers) => (numbers, columns, 1),
            Self::Across(numbers) => (numbers, 1, rows),
        };
        assert!(rows > 0 && columns > 0 && numbers.len() >= rows * columns, "a side is too short");
        Strided { start: numbers.as_ptr(), row, column }
    }
}

impl Product {
    /// The best of `repeats` times in seconds that a product of this shape takes alone, warm.
    pub fn best_seconds(&self, threads: &Threads, repeats: usize) -> f64 {
        let Self { m, k, n } = *self;
        let (left, right, mut out) = (vec![0.5f32; m * k], vec![0.5f32; k * n], vec![0.0; m * n]);
        let once = |_| {
            let since = Instant::now();
            let (left, right) = (Side::Plain(&left[..]), Side::Plain(&right[..]));
            multiply(threads, *self, left, right, 0.0, &mut out, &|_, _| {});
            since.elapsed().as_secs_f64()
        };
        (0..repeats).map(once).fold(f64::INFINITY, f64::min)
    }
}

/// Computes `out` ← `left` · `right` + `keep` · `out`, then calls `finish(first row, rows)` on the
/// rows of each thread while they are warm.
///
/// # Panics
/// Where a slice is shorter than its shape.
pub fn multiply<T: Scalar>(
    threads: &Threads,
    shape: Product,
    left: Side<'_, T>,
    right: Side<'_, T>,
    keep: T,
    out: &mut [T],
    finish: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    let Product { m, k, n } = shape;
    assert_eq!(out.len(), m * n, "product of {shape:?}");
    let (left, right) = (left.strided(m, k), right.strided(k, n));
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == size_of::<f32>()
        && (keep == T::ZERO || keep == T::ONE)
        && tiles::serves(shape, right.column != 1)
    {
        let single = |side: Strided<T>| Strided {
            start: side.start.cast::<f32>(),
            row: side.row,
            column: side.column,
        };
        // SAFETY: `Scalar` is implemented for f32 and f64 alone, and the size tells them apart.
        let numbers = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), m * n) };
        let whole = |first: usize, rows: &mut [f32]| {
            let (start, length) = (rows.as_mut_ptr().cast(), rows.len());
            // SAFETY: as above.
            finish(first, unsafe { std::slice::from_raw_parts_mut(start, length) });
        };
        // SAFETY: the shape is served, and both sides are as long as they must be.
        return unsafe {
            let sides = (single(left), single(right));
            tiles::multiply(threads, shape, sides, keep == T::ONE, numbers, &whole);
        };
    }
    let share = m.div_ceil(threads.count()).div_ceil(LEAST_ROWS) * LEAST_ROWS;
    threads.parts(out, share * n, |part, rows| {
        let (first, height) = (part * share, rows.len() / n);
        // SAFETY: these are rows of the product, and both sides are as long as they must be; `rows` is
        // borrowed mutably, so it overlaps neither.
        unsafe { block(Product { m: height, k, n }, left.at(first, 0), right, keep, rows) };
        finish(first, rows);
    });
}

/// One thread's share of a product.
///
/// # Safety
/// Both sides have the shape that is told, and `out` is as long as it tells.
unsafe fn block<T: Scalar>(
    Product { m, k, n }: Product,
    left: Strided<T>,
    right: Strided<T>,
    keep: T,
    out: &mut [T],
) {
    let strides = |side: Strided<T>| (side.row as isize, side.column as isize);
    let ((lr, lc), (rr, rc)) = (strides(left), strides(right));
    let (a, b, c) = (left.start, right.start, out.as_mut_ptr());
    if size_of::<T>() == size_of::<f32>() {
        // SAFETY: `Scalar` is implemented for f32 and f64 alone, and the size tells them apart; the
        // caller's sides and `out` have the shape.
        unsafe {
            matrixmultiply::sgemm(
                m,
                k,
                n,
                1.0,
                a.cast(),
                lr,
                lc,
                b.cast(),
                rr,
                rc,
                keep.wide() as f32,
                c.cast(),
                n as isize,
                1,
            );
        }
    } else {
        // SAFETY: as above, for f64.
        unsafe {
            matrixmultiply::dgemm(
                m,
                k,
                n,
                1.0,
                a.cast(),
                lr,
                lc,
                b.cast(),
                rr,
                rc,
                keep.wide(),
                c.cast(),
                n as isize,
                1,
            );
        }
    }
}

/// A loop to be compiled for the widest vectors of the machine; see [`wide`].
pub trait Wide {
    /// The loop itself; must be `#[inline(always)]`.
    fn run(self);
}

/// Runs `kernel` compiled for the vector width this machine has.
///
/// The arithmetic and its order are the same at every width: no fused multiply-add is introduced.
#[inline]
pub fn wide(kernel: impl Wide) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
        {
            // SAFETY: the features of the function were detected on this machine.
            return unsafe { with_avx512(kernel) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature of the function was detected on this machine.
            return unsafe { with_avx2(kernel) };
        }
    }
    kernel.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
fn with_avx512(kernel: impl Wide) {
    kernel.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(kernel: impl Wide) {
    kernel.run();
}

/// Defines a function whose body is compiled for every vector width; its references live for `'k`.
macro_rules! wide_kernel {
    ($(#[$note:meta])* $visible:vis fn $name:ident<T>($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$note])*
        #[allow(clippy::too_many_arguments)]
        $visible fn $name<'k, T: $crate::engine::Scalar>($($argument: $type),*) {
            struct Call<'k, T: $crate::engine::Scalar> {
                $($argument: $type,)*
                lifetime: std::marker::PhantomData<&'k T>,
            }
            impl<'k, T: $crate::engine::Scalar> $crate::engine::Wide for Call<'k, T> {
                #[inline(always)]
                fn run(self) {
                    let Call { $($argument,)* .. } = self;
                    $body
                }
            }
            $crate::engine::wide(Call { $($argument,)* lifetime: std::marker::PhantomData });
        }
    };
}
pub(crate) use wide_kernel;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Stream};

    fn numbers(count: usize, seed: u64) -> Vec<f64> {
        let mut draws = Stream::new(seed, Purpose(0)).draws(0, 0);
        (0..count).map(|_| draws.normal()).collect()
    }

    fn plain(Product { m, k, n }: Product, a: &[f64], b: &[f64]) -> Vec<f64> {
        let at = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
        (0..m * n).map(|index| at(index / n, index % n)).collect()
    }

    fn transpose(rows: usize, columns: usize, a: &[f64]) -> Vec<f64> {
        (0..rows * columns).map(|at| a[(at % rows) * columns + at / rows]).collect()
    }

    #[test]
    fn products_agree_with_the_plain_sum_for_every_side() {
        let shape = Product { m: 37, k: 19, n: 23 };
        let (a, b) = (numbers(shape.m * shape.k, 1), numbers(shape.k * shape.n, 2));
        let expected = plain(shape, &a, &b);
        let (across_a, across_b) =
            (transpose(shape.m, shape.k, &a), transpose(shape.k, shape.n, &b));
        for left in [Side::Plain(&a[..]), Side::Across(&across_a[..])] {
            for right in [Side::Plain(&b[..]), Side::Across(&across_b[..])] {
                let mut out = vec![1.0; shape.m * shape.n];
                multiply(&Threads::default(), shape, left, right, 1.0, &mut out, &|_, _| {});
                for (found, expected) in out.iter().zip(&expected) {
                    assert!((found - 1.0 - expected).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn products_of_tiles_have_the_bits_of_matrixmultiply() {
        let single = |count, seed| numbers(count, seed).iter().map(|&x| x as f32).collect();
        for (m, k, n) in [
            (1, 300, 33),
            (5, 17, 65),
            (32, 1, 1),
            (37, 300, 33),
            (45, 17, 16),
            (100, 700, 65),
            (57, 256, 8),
        ] {
            let (a, b): (Vec<f32>, Vec<f32>) = (single(m * k, 1), single(k * n, 2));
            let (shape, before): (_, Vec<f32>) = (Product { m, k, n }, single(m * n, 3));
            for left in [Side::Plain(&a[..]), Side::Across(&a[..])] {
                for right in [Side::Plain(&b[..]), Side::Across(&b[..])] {
                    for keep in [0.0, 1.0] {
                        let (mut found, mut expected) = (before.clone(), before.clone());
                        multiply(
                            &Threads::default(),
                            shape,
                            left,
                            right,
                            keep,
                            &mut found,
                            &|_, _| {},
                        );
                        let (left, right) = (left.strided(m, k), right.strided(k, n));
                        // SAFETY: the sides were measured.
                        unsafe { block(shape, left, right, keep, &mut expected) };
                        let bits =
                            |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                        assert_eq!(bits(&found), bits(&expected), "{shape:?} {left:?} {right:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn products_of_rows_abreast_have_the_bits_of_matrixmultiply() {
        if !can_abreast() {
            return;
        }
        let single =
            |count, seed| -> Vec<f32> { numbers(count, seed).iter().map(|&x| x as f32).collect() };
        for (m, k, n) in [(48, 300, 33), (1, 17, 65), (47, 1, 1), (16, 4, 128), (33, 700, 15)] {
            let (a, b) = (single(m * k, 1), single(k * n, 2));
            let (mut left, mut out) = (vec![Abreast::ZERO; k], vec![Abreast([7.0; ABREAST]); n]);
            lay_abreast(&a, &mut left);
            multiply_abreast(&left, &b, &mut out);
            let (mut found, mut expected) = (vec![1.0; m * n], vec![0.0; m * n]);
            from_abreast(&out, &mut found);
            let shape = Product { m, k, n };
            let (left, right) = (Side::Plain(&a[..]), Side::Plain(&b[..]));
            // SAFETY: the sides were measured.
            unsafe { block(shape, left.strided(m, k), right.strided(k, n), 0.0, &mut expected) };
            let bits = |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&expected), "{shape:?}");
        }
    }

    #[test]
    fn products_have_the_same_bits_for_any_thread_count() {
        let shape = Product { m: 157, k: 700, n: 65 };
        let a: Vec<f32> = numbers(shape.m * shape.k, 1).iter().map(|&x| x as f32).collect();
        let b: Vec<f32> = numbers(shape.k * shape.n, 2).iter().map(|&x| x as f32).collect();
        let run = |count: usize| {
            let threads = Threads::new(count).unwrap();
            let mut out = vec![0.5f32; shape.m * shape.n];
            threads.enter(|| {
                let (left, right) = (Side::Plain(&a[..]), Side::Plain(&b[..]));
                multiply(&threads, shape, left, right, 1.0, &mut out, &|_, _| {});
            });
            out.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let one = run(1);
        for count in [2, 3, 4, 8] {
            assert_eq!(one, run(count), "{count} threads");
        }
    }
}
