//! Features of states: what networks see in addition to, or instead of, normalized coordinates.
//!
//! Ramps replace every coordinate x by tanh((x − c) / width) for centres c spread over a range.
//! Fourier features append cos and sin of random directions of a few coordinates, so that nearby
//! places in a large world can be told apart.

use std::f64::consts::TAU;

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
                let (_, waves) = target.split_at_mut(state.len());
                let rows = directions.chunks_exact(axes.len());
                for (pair, direction) in waves.chunks_exact_mut(2).zip(rows) {
                    let places = axes.iter().map(|&axis| f64::from(state[axis]));
                    let phase: f64 = places.zip(direction).map(|(x, &w)| x * f64::from(w)).sum();
                    let phase = within_half_a_turn(phase);
                    pair[0] = phase.cos();
                    pair[1] = phase.sin();
                }
            }
        }
    }
}

/// The same angle within half a turn of 0, where 32 bits tell angles apart to 2 · 10⁻⁷.
fn within_half_a_turn(phase: f64) -> f32 {
    // Adding 1.5 · 2⁵² and taking it away rounds to a whole number.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let turns = (phase / TAU + ROUND) - ROUND;
    (phase - turns * TAU) as f32
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
}
