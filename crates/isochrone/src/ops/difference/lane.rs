//! What every head of the difference works with: lanes of pairs, and its weights.

use crate::engine::Scalar;
use crate::ops::LANES;

/// One number for each of a block of pairs.
pub(crate) type Lane<T> = [T; LANES];

/// What a head learned: raw numbers of weights that must not be negative, and free weights.
#[derive(Debug, Clone, Copy)]
pub struct HeadWeights<'a, T> {
    /// Turned into nonnegative weights by the head.
    pub raw: &'a [T],
    /// Used as they are; only [`DeepNorm`](crate::ops::DeepNorm) has some.
    pub free: &'a [T],
}

/// As [`HeadWeights`], gradients to add to.
pub(crate) struct WeightGradients<'a, T> {
    pub raw: &'a mut [T],
    pub free: &'a mut [T],
}

/// Σ_l a_l b_l, in a fixed order.
#[inline(always)]
pub(crate) fn dot<T: Scalar>(a: &Lane<T>, b: &Lane<T>) -> T {
    const SUMS: usize = 16;
    let mut sums = [T::ZERO; SUMS];
    for (a, b) in a.as_chunks::<SUMS>().0.iter().zip(b.as_chunks::<SUMS>().0) {
        (0..SUMS).for_each(|l| sums[l] += a[l] * b[l]);
    }
    sums.into_iter().fold(T::ZERO, |sum, x| sum + x)
}

/// Adds `weight` · `values` to `sums`, lane by lane.
#[inline(always)]
pub(crate) fn add_scaled<T: Scalar>(sums: &mut Lane<T>, weight: T, values: &Lane<T>) {
    (0..LANES).for_each(|l| sums[l] += weight * values[l]);
}
