//! Landmarks: boxes that recorded states share, about half a step wide.
//!
//! A coordinate is measured in its own mean change per move, so that one move is about as long in
//! each of them, whatever their units. A box is the set of states that round to the same whole
//! numbers; its centre is the mean of the states recorded in it.

use std::collections::HashMap;

use crate::data::{Dataset, check_room};
use crate::error::{Error, Result};

/// The quantile of the lengths of recorded moves that counts as one move.
const STEP_QUANTILE: f64 = 0.75;
/// A coordinate that hardly changes is measured in this share of its deviation.
const LEAST_CHANGE: f64 = 0.01;
/// Boxes that are too many are widened by this factor until they are few enough.
const WIDENING: f64 = 1.25;
/// Landmarks that the boxes must leave.
const FEWEST: usize = 2;

/// How fine landmarks are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fineness {
    /// The width of a box, in moves.
    pub spacing: f64,
    /// Rows that a move spans.
    pub stride: usize,
    /// Landmarks at most.
    pub most: usize,
    /// Recorded rows per landmark at least, on average.
    pub rows_each: f64,
    /// The width that a box may have at most, in moves.
    pub widest: f64,
}

/// The landmark of each box, by its place in boxes from the origin.
type Boxes = HashMap<Vec<i32>, u32>;

/// Where each recorded row is.
pub(super) struct Landmarks {
    axes: Vec<usize>,
    /// The inverse of each axis' unit; 0 where an axis never changes.
    scales: Vec<f64>,
    /// The width of a box, in units.
    width: f64,
    /// One move, in units.
    pub step: f64,
    /// Rows that a move spans.
    pub stride: usize,
    boxes: Boxes,
    /// The centres, in units, landmark after landmark.
    centres: Vec<f64>,
}

impl Landmarks {
    /// The landmarks of `dataset` in the coordinates `axes`, and the one that each row is at.
    pub fn new(dataset: &Dataset, axes: &[usize], fine: Fineness) -> Result<(Self, Vec<u32>)> {
        let size = axes.len();
        // Places, what tells kinds apart, and the lengths, ends and kinds of moves.
        let each = 8 * (size + size.max(dataset.action_size())) + 32;
        let what = format!("places and moves of {} rows", dataset.rows());
        let hint = "name fewer coordinates with `algorithm.teacher.place`";
        check_room(&what, (each * dataset.rows()) as u64, hint)?;
        let mut places = Vec::with_capacity(size * dataset.rows());
        let state_size = dataset.state_size();
        dataset.each_states(|states| {
            for state in states.chunks_exact(state_size) {
                places.extend(axes.iter().map(|&axis| f64::from(state[axis])));
            }
            Ok(())
        })?;
        let stride = fine.stride;
        let scales = scales(dataset, &places, size, stride);
        places.chunks_exact_mut(size).for_each(|place| scaled(place, &scales));
        let step = step(dataset, &places, size, stride).ok_or_else(|| {
            Error::input("no recorded state differs from the one before it")
                .hint("name coordinates that change with `algorithm.teacher.place`")
        })?;
        let mut width = fine.spacing * step;
        let fewest_rows = fine.rows_each * FEWEST as f64;
        if (dataset.rows() as f64) < fewest_rows {
            return Err(Error::input(format!(
                "{} rows are too few for landmarks, expected at least {fewest_rows}",
                dataset.rows()
            ))
            .hint("record more, or choose another learner with `--algorithm`"));
        }
        let most = fine.most.min((dataset.rows() as f64 / fine.rows_each) as usize);
        loop {
            if let Some((boxes, owners)) = boxes(&places, size, width, most) {
                if boxes.len() < FEWEST {
                    return Err(Error::input("all recorded states are at one place")
                        .hint("name coordinates that change with `algorithm.teacher.place`"));
                }
                let centres = centres(&places, size, &owners, boxes.len());
                let axes = axes.to_vec();
                return Ok((Self { axes, scales, width, step, stride, boxes, centres }, owners));
            }
            width *= WIDENING;
            if width > fine.widest * step {
                return Err(Error::input("hardly any recorded state lies near another").hint(
                    "name the coordinates that say where a state is: `algorithm.teacher.place`",
                ));
            }
        }
    }

    /// The number of landmarks.
    pub fn count(&self) -> usize {
        self.boxes.len()
    }

    /// The width of a box, in steps.
    pub fn spacing(&self) -> f64 {
        self.width / self.step * self.stride as f64
    }

    /// The landmark of each row of other data: its box's, or the nearest.
    pub fn of(&self, dataset: &Dataset) -> Result<Vec<u32>> {
        let mut owners = Vec::with_capacity(dataset.rows());
        let mut place = vec![0.0; self.axes.len()];
        let state_size = dataset.state_size();
        dataset.each_states(|states| {
            for state in states.chunks_exact(state_size) {
                for (target, &axis) in place.iter_mut().zip(&self.axes) {
                    *target = f64::from(state[axis]);
                }
                scaled(&mut place, &self.scales);
                let own = self.boxes.get(&rounded(&place, self.width)).copied();
                owners.push(own.unwrap_or_else(|| self.nearest(&place, |_| true)));
            }
            Ok(())
        })?;
        Ok(owners)
    }

    /// The landmark nearest to `place` among those that `fits`; the first landmark where none does.
    pub fn nearest(&self, place: &[f64], fits: impl Fn(usize) -> bool) -> u32 {
        let mut best = (f64::INFINITY, 0);
        for (at, centre) in self.centres.chunks_exact(self.axes.len()).enumerate() {
            let gap = squared(place, centre);
            if gap < best.0 && fits(at) {
                best = (gap, at as u32);
            }
        }
        best.1
    }

    /// The centre of a landmark, in units.
    pub fn centre(&self, landmark: usize) -> &[f64] {
        &self.centres[landmark * self.axes.len()..][..self.axes.len()]
    }

    /// The landmarks whose centres are at most `moves` from that of `landmark`.
    pub fn within(&self, landmark: usize, moves: f64) -> Vec<u32> {
        let (centre, reach) = (self.centre(landmark), (moves * self.step).powi(2));
        self.all(|other| squared(centre, other) <= reach)
    }

    /// The length of `radius`, given in the data's units, in moves.
    pub fn in_moves(&self, radius: f64) -> f64 {
        radius * self.scales.iter().sum::<f64>() / self.scales.len() as f64 / self.step
    }

    /// The landmarks whose centres are at most `radius` from that of `landmark`, in the data's units.
    pub fn within_radius(&self, landmark: usize, radius: f64) -> Vec<u32> {
        let centre = self.centre(landmark);
        let real = |gap: f64, scale: f64| if scale > 0.0 { gap / scale } else { 0.0 };
        self.all(|other| {
            let gaps = centre.iter().zip(other).zip(&self.scales);
            let squares = gaps.map(|((a, b), &scale)| real(a - b, scale).powi(2));
            squares.sum::<f64>() <= radius * radius
        })
    }

    fn all(&self, fits: impl Fn(&[f64]) -> bool) -> Vec<u32> {
        let centres = self.centres.chunks_exact(self.axes.len()).enumerate();
        centres.filter(|(_, centre)| fits(centre)).map(|(at, _)| at as u32).collect()
    }

    /// How a state changes from one row to another, in units.
    pub fn change(&self, from: &[f32], to: &[f32], change: &mut [f64]) {
        for (target, &axis) in change.iter_mut().zip(&self.axes) {
            *target = f64::from(to[axis]) - f64::from(from[axis]);
        }
        scaled(change, &self.scales);
    }

    /// The number of coordinates that say where a state is.
    pub fn axes(&self) -> usize {
        self.axes.len()
    }
}

fn scaled(place: &mut [f64], scales: &[f64]) {
    place.iter_mut().zip(scales).for_each(|(value, scale)| *value *= scale);
}

fn squared(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum()
}

fn rounded(place: &[f64], width: f64) -> Vec<i32> {
    place.iter().map(|value| (value / width).round() as i32).collect()
}

/// The rows that moves over `stride` rows begin at.
pub(super) fn moves(dataset: &Dataset, stride: usize) -> impl Iterator<Item = usize> {
    (0..dataset.rows()).filter(move |&row| row + stride <= dataset.last_row(row))
}

/// One over each coordinate's mean change per move.
fn scales(dataset: &Dataset, places: &[f64], size: usize, stride: usize) -> Vec<f64> {
    let rows = dataset.rows() as f64;
    (0..size)
        .map(|axis| {
            let at = |row: usize| places[row * size + axis];
            let mean = (0..dataset.rows()).map(at).sum::<f64>() / rows;
            let deviation = (0..dataset.rows()).map(|row| (at(row) - mean).powi(2)).sum::<f64>();
            let (mut change, mut count) = (0.0, 0.0);
            for row in moves(dataset, stride) {
                change += (at(row + stride) - at(row)).abs();
                count += 1.0;
            }
            let unit = (change / count).max(LEAST_CHANGE * (deviation / rows).sqrt());
            if unit > 0.0 && unit.is_finite() { 1.0 / unit } else { 0.0 }
        })
        .collect()
}

/// The length of a move in units; `None` if nothing ever moves.
fn step(dataset: &Dataset, places: &[f64], size: usize, stride: usize) -> Option<f64> {
    let place = |row: usize| &places[row * size..][..size];
    let lengths = moves(dataset, stride);
    let lengths = lengths.map(|row| squared(place(row), place(row + stride)).sqrt());
    let mut lengths: Vec<f64> = lengths.filter(|&length| length > 0.0).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.get((STEP_QUANTILE * lengths.len() as f64) as usize).copied()
}

/// Boxes of `width` that hold all places, and the one of each; `None` if it takes more than `most`.
fn boxes(places: &[f64], size: usize, width: f64, most: usize) -> Option<(Boxes, Vec<u32>)> {
    let mut boxes = Boxes::new();
    let mut owners = Vec::with_capacity(places.len() / size);
    for place in places.chunks_exact(size) {
        let next = boxes.len() as u32;
        owners.push(*boxes.entry(rounded(place, width)).or_insert(next));
        if boxes.len() > most {
            return None;
        }
    }
    Some((boxes, owners))
}

fn centres(places: &[f64], size: usize, owners: &[u32], count: usize) -> Vec<f64> {
    let mut centres = vec![0.0; count * size];
    let mut rows = vec![0.0; count];
    for (place, &owner) in places.chunks_exact(size).zip(owners) {
        let owner = owner as usize;
        rows[owner] += 1.0;
        let centre = &mut centres[owner * size..][..size];
        centre.iter_mut().zip(place).for_each(|(sum, value)| *sum += value);
    }
    for (centre, rows) in centres.chunks_exact_mut(size).zip(rows) {
        centre.iter_mut().for_each(|sum| *sum /= rows);
    }
    centres
}
