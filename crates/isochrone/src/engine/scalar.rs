//! The two number types of the engine: f32 to train, f64 for finite differences.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Sub, SubAssign};

/// A number the engine computes with.
pub trait Scalar:
    Copy
    + Debug
    + Default
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
{
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// The nearest number of this type.
    fn of(value: f64) -> Self;
    /// The same value in double precision.
    fn wide(self) -> f64;
    /// Square root.
    fn sqrt(self) -> Self;
    /// Exponential.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// These numbers where they are in single precision.
    fn single(numbers: &mut [Self]) -> Option<&mut [f32]>;

    /// The larger of two; `self` where they do not compare.
    #[inline(always)]
    fn at_least(self, other: Self) -> Self {
        if other > self { other } else { self }
    }

    /// The smaller of two; `self` where they do not compare.
    #[inline(always)]
    fn at_most(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    /// Hyperbolic tangent.
    #[inline(always)]
    fn tanh(self) -> Self {
        let two = Self::ONE + Self::ONE;
        Self::ONE - two / ((self + self).exp() + Self::ONE)
    }

    /// ln(1 + eˣ) without overflow.
    #[inline(always)]
    fn softplus(self) -> Self {
        self.at_least(Self::ZERO) + (Self::ONE + (-self.abs()).exp()).ln()
    }

    /// 1 / (1 + e⁻ˣ).
    #[inline(always)]
    fn sigmoid(self) -> Self {
        Self::ONE / (Self::ONE + (-self).exp())
    }
}

impl Scalar for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn single(_numbers: &mut [Self]) -> Option<&mut [f32]> {
        None
    }
    #[inline(always)]
    fn of(value: f64) -> Self {
        value
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        f64::exp(self)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        f64::ln(self)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        f64::abs(self)
    }
}

impl Scalar for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    fn single(numbers: &mut [Self]) -> Option<&mut [f32]> {
        Some(numbers)
    }
    #[inline(always)]
    fn of(value: f64) -> Self {
        value as f32
    }
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }
    #[inline(always)]
    fn exp(self) -> Self {
        exponential(self)
    }
    #[inline(always)]
    fn ln(self) -> Self {
        f32::ln(self)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        f32::abs(self)
    }
}

/// eˣ by plain arithmetic, so that loops over it are vectorized and give the same bits everywhere.
///
/// x = n ln 2 + r with |r| ≤ ln 2 / 2, then a Taylor polynomial of degree 7 and an exponent shift.
/// Arguments beyond ±87 are held there; NaN stays NaN. Within 2 units in the last place.
#[inline(always)]
fn exponential(x: f32) -> f32 {
    const LIMIT: f32 = 87.0;
    /// Adding and subtracting 1.5 · 2²³ rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if x < -LIMIT { -LIMIT } else { x };
    let x = if x > LIMIT { LIMIT } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut sum = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0f32] {
        sum = sum * r + coefficient;
    }
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127);
    sum * f32::from_bits(exponent << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_within_two_units_in_the_last_place() {
        let mut worst = 0.0f64;
        for index in -870_000..=870_000 {
            let x = index as f32 * 1e-4;
            let exact = f64::from(x).exp();
            let unit = f64::from((exact as f32).next_up()) - f64::from(exact as f32);
            worst = worst.max((f64::from(exponential(x)) - exact).abs() / unit);
        }
        assert!(worst <= 2.0, "{worst} units");
        assert!(exponential(f32::NAN).is_nan());
        assert_eq!(exponential(0.0), 1.0);
        assert!(exponential(1e30).is_finite() && exponential(-1e30) >= 0.0);
    }

    #[test]
    fn softplus_and_tanh_hold_at_the_ends() {
        assert_eq!(Scalar::softplus(1000.0f64), 1000.0);
        assert!(Scalar::softplus(-1000.0f64) >= 0.0);
        assert!((Scalar::tanh(0.3f32) - 0.3f32.tanh()).abs() < 1e-7);
        assert_eq!(Scalar::tanh(100.0f32), 1.0);
        assert_eq!(Scalar::tanh(-100.0f32), -1.0);
    }
}
