//! Kinds of action: what could have been chosen at a place, told apart by clusters.
//!
//! Two recorded moves of one kind differ by chance, two of different kinds by choice. Discrete
//! actions are kinds already; continuous ones are clustered by k-means. Where there are no actions,
//! or where single ones mean little (torques of many joints), the change of the place over the next
//! rows stands for what was chosen; luck is then told apart from choice by the confidence bound alone.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::landmarks::Landmarks;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::random::{Purpose, Stream};

/// Vectors that centres are fitted to; of more, so many are drawn.
const FITTED: usize = 20_000;
/// Rounds of k-means.
const ROUNDS: usize = 25;

/// What a kind of action is told by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KindsBy {
    /// Actions where the data have them, else displacements.
    #[default]
    Auto,
    /// The recorded action.
    Action,
    /// How the place changes over the next `ahead` rows.
    Displacement,
    /// Nothing: all moves at a place are one kind, and what differs is chance.
    One,
}

/// Which kinds there are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Kinds {
    /// What kinds are told by.
    pub by: KindsBy,
    /// Clusters of continuous actions or displacements.
    pub count: usize,
    /// Rows over which a displacement is taken: a stride at least.
    pub ahead: usize,
}

impl Default for Kinds {
    /// Sixteen kinds: with eight, steps read 10 % long on the 2-D task.
    fn default() -> Self {
        Self { by: KindsBy::Auto, count: 16, ahead: 1 }
    }
}

impl Kinds {
    /// The kind of every row.
    pub(super) fn of(
        &self,
        dataset: &Dataset,
        landmarks: &Landmarks,
        seed: u64,
    ) -> Result<Vec<u16>> {
        let by = match self.by {
            KindsBy::Auto if dataset.action_size() > 0 => KindsBy::Action,
            KindsBy::Auto => KindsBy::Displacement,
            KindsBy::Action if dataset.action_size() == 0 => {
                return Err(Error::input(
                    "`algorithm.teacher.kinds.by` is `action`, the data have none",
                )
                .hint("`displacement` tells kinds of moves apart without actions"));
            }
            chosen => chosen,
        };
        let (vectors, size) = match by {
            KindsBy::Action if dataset.choices().is_some() => return choices(dataset),
            KindsBy::Action => actions(dataset)?,
            KindsBy::Displacement => self.displacements(dataset, landmarks)?,
            KindsBy::Auto | KindsBy::One => return Ok(vec![0; dataset.rows()]),
        };
        let centres = centres(&vectors, size, self.count, seed);
        let nearest = |vector: &[f64]| nearest(vector, &centres, size).0 as u16;
        Ok(vectors.par_chunks_exact(size).map(nearest).collect())
    }

    fn displacements(&self, dataset: &Dataset, landmarks: &Landmarks) -> Result<(Vec<f64>, usize)> {
        let size = landmarks.axes();
        let mut vectors = vec![0.0; dataset.rows() * size];
        for (row, vector) in vectors.chunks_exact_mut(size).enumerate() {
            let ahead = self.ahead.max(landmarks.stride);
            let later = (row + ahead).min(dataset.last_row(row));
            landmarks.change(&dataset.read_state(row)?, &dataset.read_state(later)?, vector);
        }
        Ok((vectors, size))
    }
}

/// Discrete actions, by the place of their 1.
fn choices(dataset: &Dataset) -> Result<Vec<u16>> {
    let mut kinds = Vec::with_capacity(dataset.rows());
    dataset.each_actions(|actions| {
        let chosen = |action: &[f32]| action.iter().position(|&value| value == 1.0).unwrap_or(0);
        kinds.extend(
            actions.chunks_exact(dataset.action_size()).map(|action| chosen(action) as u16),
        );
        Ok(())
    })?;
    Ok(kinds)
}

fn actions(dataset: &Dataset) -> Result<(Vec<f64>, usize)> {
    let mut vectors = Vec::with_capacity(dataset.rows() * dataset.action_size());
    dataset.each_actions(|actions| {
        vectors.extend(actions.iter().map(|&value| f64::from(value)));
        Ok(())
    })?;
    Ok((vectors, dataset.action_size()))
}

/// k-means, begun with vectors drawn in proportion to their squared distance from those before.
fn centres(vectors: &[f64], size: usize, count: usize, seed: u64) -> Vec<f64> {
    let rows = vectors.len() / size;
    let mut draws = Stream::new(seed, Purpose::KINDS).draws(0, 0);
    let fitted: Vec<&[f64]> = if rows <= FITTED {
        vectors.chunks_exact(size).collect()
    } else {
        let mut draw = |_| &vectors[draws.below(rows as u32) as usize * size..][..size];
        (0..FITTED).map(&mut draw).collect()
    };
    let mut centres = fitted[draws.below(fitted.len() as u32) as usize].to_vec();
    while centres.len() < count * size {
        let gaps: Vec<f64> = fitted.iter().map(|v| nearest(v, &centres, size).1).collect();
        let total: f64 = gaps.iter().sum();
        if total <= 0.0 {
            break;
        }
        let mut rest = draws.uniform() * total;
        let chosen = gaps.iter().position(|gap| {
            rest -= gap;
            rest <= 0.0
        });
        centres.extend_from_slice(fitted[chosen.unwrap_or(fitted.len() - 1)]);
    }
    for _ in 0..ROUNDS {
        let mut sums = vec![0.0; centres.len()];
        let mut members = vec![0.0; centres.len() / size];
        for vector in &fitted {
            let owner = nearest(vector, &centres, size).0;
            members[owner] += 1.0;
            let sum = &mut sums[owner * size..][..size];
            sum.iter_mut().zip(*vector).for_each(|(sum, value)| *sum += value);
        }
        for (at, members) in members.iter().enumerate().filter(|(_, members)| **members > 0.0) {
            for axis in at * size..(at + 1) * size {
                centres[axis] = sums[axis] / members;
            }
        }
    }
    centres
}

/// The centre nearest to `vector`, and the square of its distance.
fn nearest(vector: &[f64], centres: &[f64], size: usize) -> (usize, f64) {
    let gap = |centre: &[f64]| centre.iter().zip(vector).map(|(a, b)| (a - b) * (a - b)).sum();
    let gaps = centres.chunks_exact(size).map(gap).enumerate();
    gaps.fold((0, f64::INFINITY), |best, (at, gap)| if gap < best.1 { (at, gap) } else { best })
}
