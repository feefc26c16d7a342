//! How far a state is from the data, measured against a sample of data states.

use super::shape::STORED_ACTIONS;
use crate::data::{Dataset, Normalization};
use crate::engine::wide_kernel;
use crate::error::Result;
use crate::random::{Purpose, Stream, below};

/// Data states kept to tell whether a state is far from the data.
const REFERENCE_ROWS: usize = 1024;
/// Data states that set the scale of "far".
const PROBES: usize = 256;

/// What a model keeps of the data that it learned from.
#[derive(Debug, Clone)]
pub struct DataSample {
    pub(super) state_size: usize,
    pub(super) action_size: usize,
    pub(super) actions: Vec<f32>,
    pub(super) reference: ReferenceStates,
}

impl DataSample {
    /// Samples `dataset`.
    ///
    /// # Errors
    /// Data that stay in a file can no longer be read.
    pub fn of(dataset: &Dataset, seed: u64) -> Result<Self> {
        let stream = Stream::new(seed, Purpose::ACTIONS);
        let row = |index| below(stream.block(0, index)[0], dataset.rows() as u32);
        let rows: Vec<u32> = (0..STORED_ACTIONS as u32).map(row).collect();
        Ok(Self {
            state_size: dataset.state_size(),
            action_size: dataset.action_size(),
            actions: dataset.gather_actions(&rows)?,
            reference: ReferenceStates::of(dataset, seed)?,
        })
    }
}

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
        let drawn = |step: u64, count: usize| -> Result<Vec<f32>> {
            let row = |index| below(stream.block(step, index)[0], dataset.rows() as u32);
            dataset.gather_states(&(0..count as u32).map(row).collect::<Vec<_>>())
        };
        let recorded = drawn(0, REFERENCE_ROWS.min(dataset.rows()))?;
        let mut states = vec![0.0; recorded.len()];
        for (state, target) in recorded.chunks_exact(size).zip(states.chunks_exact_mut(size)) {
            scaling.apply(state, target);
        }
        let mut reference = Self { scaling, states, spacing: 1.0 };
        let mut distances = reference.novelty(&drawn(1, PROBES)?);
        distances.sort_by(f32::total_cmp);
        // Where states repeat, as in a grid, all may be among those sampled: nothing within half a move
        // is far.
        let spacing =
            distances[PROBES * 99 / 100].max(0.5 * reference.typical_move(dataset, &stream)?);
        reference.spacing = spacing.max(1e-6);
        Ok(reference)
    }

    /// The median length of some recorded moves that move at all; 0 if there are none.
    fn typical_move(&self, dataset: &Dataset, stream: &Stream) -> Result<f32> {
        let size = dataset.state_size();
        let row = |index| below(stream.block(2, index)[0], dataset.rows() as u32);
        let goes_on = |row: &u32| dataset.last_row(*row as usize) != *row as usize;
        let rows: Vec<u32> = (0..PROBES as u32).map(row).filter(goes_on).collect();
        let next: Vec<u32> = rows.iter().map(|row| row + 1).collect();
        let (before, after) = (dataset.gather_states(&rows)?, dataset.gather_states(&next)?);
        let (mut from, mut to) = (vec![0.0; size], vec![0.0; size]);
        let mut lengths = Vec::new();
        for (before, after) in before.chunks_exact(size).zip(after.chunks_exact(size)) {
            self.scaling.apply(before, &mut from);
            self.scaling.apply(after, &mut to);
            let squares = from.iter().zip(&to).map(|(from, to)| (to - from) * (to - from));
            lengths.push(squares.sum::<f32>().sqrt());
        }
        lengths.retain(|&length| length > 0.0);
        lengths.sort_by(f32::total_cmp);
        Ok(lengths.get(lengths.len() / 2).copied().unwrap_or(0.0))
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

    /// Some of the sampled states, as they were recorded.
    pub(super) fn recorded(&self, rows: usize) -> Vec<f32> {
        let scaling = self.scaling.shift.iter().zip(&self.scaling.scale);
        let states = self.states.chunks_exact(self.scaling.shift.len()).take(rows);
        let recorded = |state: &[f32]| -> Vec<f32> {
            state.iter().zip(scaling.clone()).map(|(x, (shift, scale))| x / scale + shift).collect()
        };
        states.flat_map(recorded).collect()
    }

    /// The distance of each state to the nearest sampled one, in typical spacings.
    pub(super) fn novelty(&self, states: &[f32]) -> Vec<f32> {
        let size = self.scaling.shift.len();
        // Coordinate by coordinate, so that a coordinate of many samples is compared at once. The
        // last samples are padded with some that are never near.
        let mut columns =
            vec![[f32::INFINITY; LANES]; (self.states.len() / size).div_ceil(LANES) * size];
        for (row, state) in self.states.chunks_exact(size).enumerate() {
            let block = &mut columns[row / LANES * size..][..size];
            block.iter_mut().zip(state).for_each(|(column, &x)| column[row % LANES] = x);
        }
        let mut points = vec![0.0; states.len()];
        for (state, point) in states.chunks_exact(size).zip(points.chunks_exact_mut(size)) {
            self.scaling.apply(state, point);
        }
        let mut nearest = vec![0.0; states.len() / size];
        least_squares(&points, size, &columns, &mut nearest);
        nearest.iter_mut().for_each(|square| *square = square.sqrt() / self.spacing);
        nearest
    }
}

/// Samples that a state is compared with at once.
const LANES: usize = 64;

wide_kernel! {
    /// The least squared distance of each point to a sample; samples in blocks of columns.
    fn least_squares<T>(
        points: &'k [T],
        size: usize,
        samples: &'k [[T; LANES]],
        out: &'k mut [T],
    ) {
        for (point, out) in points.chunks_exact(size).zip(out) {
            let mut least = [T::of(f64::INFINITY); LANES];
            for block in samples.chunks_exact(size) {
                let mut squares = [T::ZERO; LANES];
                for (&x, column) in point.iter().zip(block) {
                    for (sum, &other) in squares.iter_mut().zip(column) {
                        *sum += (x - other) * (x - other);
                    }
                }
                least.iter_mut().zip(squares).for_each(|(least, x)| *least = least.at_most(x));
            }
            *out = least.into_iter().fold(T::of(f64::INFINITY), T::at_most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_that_repeat_are_near_each_other_within_half_a_move() {
        // Rows on whole numbers, all of which are among those sampled.
        let states: Vec<f32> = (0..2_000).map(|row| (row % 10) as f32).collect();
        let dataset = Dataset::new(states, 1, None, &[10; 200]).unwrap();
        let reference = ReferenceStates::of(&dataset, 0).unwrap();
        let found = reference.novelty(&[4.0, 4.5, 4.2, 12.0]);
        assert_eq!(found[0], 0.0);
        assert!((found[1] - 1.0).abs() < 1e-3 && found[2] < 0.5, "{found:?}");
        assert!((found[3] - 6.0).abs() < 1e-2, "{found:?}");
    }
}
