//! How far a state is from the data, measured against a sample of data states.

use crate::data::{Dataset, Normalization};
use crate::error::Result;
use crate::random::{Purpose, Stream, below};

/// Data states kept to tell whether a state is far from the data.
const REFERENCE_ROWS: usize = 1024;
/// Data states that set the scale of "far".
const PROBES: usize = 256;

/// Data states, standardized, and how far apart they typically are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ReferenceStates {
    pub(super) scaling: Normalization,
    pub(super) states: Vec<f32>,
    pub(super) spacing: f32,
}

impl ReferenceStates {
    /// Samples `dataset`.
    pub(super) fn of(dataset: &Dataset, seed: u64) -> Result<Self> {
        let scaling = dataset.standard()?;
        let stream = Stream::new(seed, Purpose::REFERENCE);
        let size = dataset.state_size();
        let row = |step: u64, index: usize| {
            below(stream.block(step, index as u32)[0], dataset.rows() as u32) as usize
        };
        let mut states = vec![0.0; size * REFERENCE_ROWS.min(dataset.rows())];
        for (index, target) in states.chunks_exact_mut(size).enumerate() {
            scaling.apply(&dataset.read_state(row(0, index))?, target);
        }
        let mut reference = Self { scaling, states, spacing: 1.0 };
        let mut probes = Vec::with_capacity(PROBES * size);
        for index in 0..PROBES {
            probes.extend_from_slice(&dataset.read_state(row(1, index))?);
        }
        let mut distances = reference.novelty(&probes);
        distances.sort_by(f32::total_cmp);
        reference.spacing = distances[PROBES * 99 / 100].max(1e-6);
        Ok(reference)
    }

    /// The distance of each state to the nearest sampled one, in typical spacings.
    pub(super) fn novelty(&self, states: &[f32]) -> Vec<f32> {
        let size = self.scaling.shift.len();
        let mut point = vec![0.0; size];
        states
            .chunks_exact(size)
            .map(|state| {
                self.scaling.apply(state, &mut point);
                let squares = self.states.chunks_exact(size).map(|other| {
                    point.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
                });
                squares.fold(f32::INFINITY, f32::min).sqrt() / self.spacing
            })
            .collect()
    }
}
