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

    /// Checks what was read from a file against the state size.
    pub(super) fn check(&self, state_size: usize) -> std::result::Result<(), String> {
        let (shift, scale) = (self.scaling.shift.len(), self.scaling.scale.len());
        for (name, found) in [("reference.shift", shift), ("reference.scale", scale)] {
            if found != state_size {
                return Err(format!("`{name}` has {found} values, expected {state_size}"));
            }
        }
        let found = self.states.len();
        if found == 0 || !found.is_multiple_of(state_size) {
            return Err(format!(
                "`reference.states` has {found} values, expected rows of {state_size}"
            ));
        }
        if !(self.spacing > 0.0 && self.spacing.is_normal()) {
            let found = self.spacing;
            return Err(format!("`reference.spacing` is `{found}`, expected a positive number"));
        }
        Ok(())
    }

    /// The distance of each state to the nearest sampled one, in typical spacings.
    pub(super) fn novelty(&self, states: &[f32]) -> Vec<f32> {
        let size = self.scaling.shift.len();
        let count = self.states.len() / size;
        // Coordinate by coordinate, so that a coordinate of many samples is compared at once.
        let mut columns = vec![0.0; self.states.len()];
        for (row, state) in self.states.chunks_exact(size).enumerate() {
            state.iter().enumerate().for_each(|(at, &x)| columns[at * count + row] = x);
        }
        let (mut point, mut squares) = (vec![0.0; size], vec![0.0; count]);
        let mut nearest = |state: &[f32]| {
            self.scaling.apply(state, &mut point);
            squares.fill(0.0);
            for (&x, column) in point.iter().zip(columns.chunks_exact(count)) {
                let both = squares.iter_mut().zip(column);
                both.for_each(|(sum, &other)| *sum += (x - other) * (x - other));
            }
            least(&squares).sqrt() / self.spacing
        };
        states.chunks_exact(size).map(&mut nearest).collect()
    }
}

/// The least of many numbers, several at a time.
fn least(numbers: &[f32]) -> f32 {
    let (blocks, rest) = numbers.as_chunks::<16>();
    let mut lanes = [f32::INFINITY; 16];
    for block in blocks {
        lanes
            .iter_mut()
            .zip(block)
            .for_each(|(lane, &x)| *lane = if x < *lane { x } else { *lane });
    }
    lanes.iter().chain(rest).copied().fold(f32::INFINITY, f32::min)
}
