//! Features of states: what networks see in addition to, or instead of, normalized coordinates.
//!
//! Ramps replace every coordinate x by tanh((x − c) / width) for centres c spread over a range.
//! Fourier features append cos and sin of random directions of a few coordinates, so that nearby
//! places in a large world can be told apart.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2, TAU};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::random::{Purpose, Stream};

/// Which features networks see.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Features {
    /// The normalized coordinates alone.
    #[default]
    None,
    /// tanh((x − c) / width) for every coordinate as it was recorded, in its place.
    Ramps {
        /// Centres of each coordinate.
        count: usize,
        /// The first centre.
        from: f64,
        /// The last centre.
        to: f64,
        /// How wide a ramp is.
        width: f64,
    },
    /// cos and sin of ω · x beside the normalized coordinates, ω normal with deviation 2π / `length`.
    Fourier {
        /// The coordinates, as they were recorded.
        axes: Vec<usize>,
        /// Directions.
        count: usize,
        /// A typical wave's length, in the units of the coordinates.
        length: f64,
    },
}

impl Features {
    /// Values that a network sees of a state.
    pub fn width(&self, state_size: usize) -> usize {
        match self {
            Self::None => state_size,
            Self::Ramps { count, .. } => state_size * count,
            Self::Fourier { count, .. } => state_size + 2 * count,
        }
    }

    /// The indices, within what a network sees of a state, that depend only on these coordinates.
    pub(super) fn places(&self, axes: &[usize], state_size: usize) -> Vec<usize> {
        let known = |axis: &usize| axes.contains(axis);
        match self {
            Self::None => (0..state_size).filter(known).collect(),
            Self::Ramps { count, .. } => (0..state_size)
                .filter(known)
                .flat_map(|axis| axis * count..(axis + 1) * count)
                .collect(),
            Self::Fourier { axes: waved, count, .. } => {
                let waves = if waved.iter().all(known) { 2 * count } else { 0 };
                (0..state_size).filter(known).chain(state_size..state_size + waves).collect()
            }
        }
    }

    /// Checks the settings against the data.
    ///
    /// # Errors
    /// Names the key that does not fit.
    pub fn check(&self, state_size: usize) -> Result<()> {
        let wrong = |key: &str, found: String, expected: &str| {
            Err(Error::input(format!("`data.features.{key}` is `{found}`, expected {expected}"))
                .hint(
                    "for example `{ kind = \"fourier\", axes = [0, 1], count = 64, length = 4.0 }`",
                ))
        };
        match self {
            Self::None => Ok(()),
            Self::Ramps { count, .. } if *count < 2 => {
                wrong("count", count.to_string(), "2 or more")
            }
            Self::Ramps { from, to, .. }
                if from.partial_cmp(to) != Some(std::cmp::Ordering::Less) =>
            {
                wrong("to", to.to_string(), "a number above `from`")
            }
            Self::Ramps { width, .. } if !(*width > 0.0 && width.is_finite()) => {
                wrong("width", width.to_string(), "a positive number")
            }
            Self::Fourier { length, .. } if !(*length > 0.0 && length.is_finite()) => {
                wrong("length", length.to_string(), "a positive number")
            }
            Self::Fourier { axes, .. }
                if axes.is_empty() || axes.iter().any(|&axis| axis >= state_size) =>
            {
                let expected = format!("coordinates below {state_size}");
                wrong("axes", format!("{axes:?}"), &expected)
            }
            Self::Ramps { .. } | Self::Fourier { .. } => Ok(()),
        }
    }

    /// The directions ω, one per row; empty if there are none.
    pub(super) fn directions(&self) -> Vec<f32> {
        let Self::Fourier { axes, count, length } = self else { return Vec::new() };
        // The directions are the same in every run.
        let stream = Stream::new(0, Purpose::DIRECTIONS);
        let deviation = 2.0 * std::f64::consts::PI / length;
        (0..*count)
            .flat_map(|row| {
                let mut draws = stream.draws(0, row as u32);
                (0..axes.len()).map(move |_| (deviation * draws.normal()) as f32)
            })
            .collect()
    }

    /// Writes the features of `state` into `target`, whose first numbers are the normalized state.
    #[inline(always)]
    pub(super) fn write(&self, directions: &[f32], state: &[f32], target: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Ramps { count, from, to, width } => {
                let step = (to - from) / (count - 1) as f64;
                for (x, ramps) in state.iter().zip(target.chunks_exact_mut(*count)) {
                    for (at, ramp) in ramps.iter_mut().enumerate() {
                        let centre = from + step * at as f64;
                        *ramp = ((f64::from(*x) - centre) / width).tanh() as f32;
                    }
                }
            }
            Self::Fourier { axes, .. } => {
                let waves = target[state.len()..].chunks_mut(2 * WAVES);
                for (waves, directions) in waves.zip(directions.chunks(WAVES * axes.len())) {
                    let mut phases = [-0.0; WAVES];
                    for (place, &axis) in axes.iter().enumerate() {
                        let x = f64::from(state[axis]);
                        for (phase, direction) in
                            phases.iter_mut().zip(directions.chunks_exact(axes.len()))
                        {
                            *phase += x * f64::from(direction[place]);
                        }
                    }
                    for (pair, &phase) in waves.as_chunks_mut().0.iter_mut().zip(&phases) {
                        *pair = cosine_and_sine(within_half_a_turn(phase));
                    }
                }
            }
        }
    }
}

/// Waves that are computed in one loop.
const WAVES: usize = 16;
/// Adding 1.5 · 2⁵² and taking it away rounds to a whole number.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The same angle within half a turn of 0, where 32 bits tell angles apart to 2 · 10⁻⁷.
#[inline(always)]
fn within_half_a_turn(phase: f64) -> f32 {
    let turns = (phase / TAU + ROUND) - ROUND;
    (phase - turns * TAU) as f32
}

/// Cosine and sine of an angle within half a turn of 0, each within 0.6 units in the last place.
///
/// No branches and no library: loops over it are vectorized and give the same bits everywhere. The
/// polynomials, in double precision, are those of Arm's Optimized Routines, which common C libraries
/// use as well.
#[inline(always)]
fn cosine_and_sine(angle: f32) -> [f32; 2] {
    const SINE: [f64; 3] =
        [-0.166_666_549_437_010_84, 0.008_332_178_146_138_854, -0.000_195_172_989_813_857_25];
    const COSINE: [f64; 4] = [
        -0.499_999_997_251_082_24,
        0.041_666_623_324_344_516,
        -0.001_388_676_379_437_604,
        0.000_024_390_450_703_564_542,
    ];
    let x = f64::from(angle);
    let quarters = x * FRAC_2_PI + ROUND;
    let rest = x - (quarters - ROUND) * FRAC_PI_2;
    let (square, cube) = (rest * rest, rest * rest * rest);
    let fourth = square * square;
    let sine = rest + cube * SINE[0] + cube * square * (SINE[1] + square * SINE[2]);
    let cosine = 1.0 + square * COSINE[0] + fourth * COSINE[1];
    let cosine = cosine + fourth * square * (COSINE[2] + square * COSINE[3]);
    // The last bits are those of the number of quarter turns.
    let turned = quarters.to_bits();
    let (cosine, sine) = if turned & 1 == 0 { (cosine, sine) } else { (sine, cosine) };
    let signed = |value: f64, negative: u64| f64::from_bits(value.to_bits() ^ (negative << 62));
    [signed(cosine, turned.wrapping_add(1) & 2) as f32, signed(sine, turned & 2) as f32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_keep_their_sine_within_half_a_turn() {
        for phase in [0.0, 0.1, 3.0, -3.2, 54.5, -54.5, 1e4, 123_456.789] {
            let turned = within_half_a_turn(phase);
            assert!(f64::from(turned.abs()) <= TAU / 2.0 + 1e-6, "{phase}: {turned}");
            assert!((f64::from(turned).sin() - phase.sin()).abs() < 2e-7, "{phase}: {turned}");
            assert!((f64::from(turned).cos() - phase.cos()).abs() < 2e-7, "{phase}: {turned}");
        }
    }

    #[test]
    fn waves_are_within_six_tenths_of_a_unit_in_the_last_place() {
        let unit = |exact: f64| {
            let near = (exact.abs() as f32).max(f32::MIN_POSITIVE);
            f64::from(near.next_up()) - f64::from(near)
        };
        let mut worst = 0.0f64;
        let half = std::f32::consts::PI;
        for index in -1_000_000..=1_000_000 {
            // Evenly over the half turns, and ever closer to a multiple of a quarter.
            let even = half * (index as f32 / 1e6);
            let close = (index % 3) as f32 * (half / 2.0) + even * even * even * 1e-6;
            for angle in [even, close.clamp(-half, half)] {
                let [cosine, sine] = cosine_and_sine(angle);
                let exact = f64::from(angle);
                for (found, exact) in [(cosine, exact.cos()), (sine, exact.sin())] {
                    worst = worst.max((f64::from(found) - exact).abs() / unit(exact));
                }
            }
        }
        assert!(worst <= 0.6, "{worst} units");
        assert_eq!(cosine_and_sine(0.0), [1.0, 0.0]);
        assert!(cosine_and_sine(f32::NAN)[0].is_nan());
    }
}
