//! A layer for rows that lie abreast, a column of [`ABREAST`] numbers per coordinate.

use super::{Activation, Linear, NORM_EPSILON, Weights, activate};
use crate::engine::{ABREAST, Abreast, Scalar, multiply_abreast, wide_kernel};
use crate::ops::BESIDE;

impl Linear {
    /// Applies the layer to 48 rows that lie abreast; every number has the bits [`Linear::apply`]
    /// gives it.
    pub(crate) fn apply_abreast(
        &self,
        weights: Weights<'_, f32>,
        input: &[Abreast<f32>],
        output: &mut [Abreast<f32>],
    ) {
        multiply_abreast(input, weights.weight, output);
        activate_columns(output, weights.bias, self.activation);
        if let Some((gain, shift)) = weights.gain {
            normalize_columns(output, gain, shift);
        }
    }
}

wide_kernel! {
    /// Adds its bias to every column and applies the activation.
    fn activate_columns<T>(columns: &'k mut [Abreast<T>], bias: &'k [T], activation: Activation) {
        for (column, &bias) in columns.iter_mut().zip(bias) {
            match activation {
                Activation::Relu => {
                    column.0.iter_mut().for_each(|z| *z = T::ZERO.at_least(*z + bias));
                }
                _ => {
                    column.0.iter_mut().for_each(|z| *z += bias);
                    activate(&mut column.0, activation);
                }
            }
        }
    }
}

wide_kernel! {
    /// Normalizes every row, with the sums of `sum_in_lanes`.
    fn normalize_columns<T>(columns: &'k mut [Abreast<T>], gain: &'k [T], shift: &'k [T]) {
        let count = T::of(columns.len() as f64);
        let mean = sum_columns(columns, |x, _| x).map(|sum| sum / count);
        let squares = sum_columns(columns, |x, row| (x - mean[row]) * (x - mean[row]));
        let inverse = squares.map(|sum| T::ONE / (sum / count + T::of(NORM_EPSILON)).sqrt());
        for ((column, &gain), &shift) in columns.iter_mut().zip(gain).zip(shift) {
            for (x, (mean, inverse)) in column.0.iter_mut().zip(mean.into_iter().zip(inverse)) {
                *x = (*x - mean) * inverse * gain + shift;
            }
        }
    }
}

/// The sum of what `of` makes of each row, in the order of `sum_in_lanes`.
#[inline(always)]
fn sum_columns<T: Scalar>(columns: &[Abreast<T>], of: impl Fn(T, usize) -> T) -> [T; ABREAST] {
    let mut sums = [T::ZERO; ABREAST];
    for lane in 0..BESIDE {
        let mut parts = [T::ZERO; ABREAST];
        for column in columns.iter().skip(lane).step_by(BESIDE) {
            for (row, (part, &x)) in parts.iter_mut().zip(&column.0).enumerate() {
                *part += of(x, row);
            }
        }
        sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
    }
    sums
}
