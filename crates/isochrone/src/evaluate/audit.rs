//! Whether a distance keeps the laws of a quasimetric, on triples of data states.
//!
//! Triangle inequality: d(from, to) ≤ d(from, via) + d(via, to), up to rounding of f32. Identity:
//! d(x, x) = 0. Triples of three different states are drawn by Philox; where there are no more than
//! were asked for, all are tried.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::Model;
use crate::random::{Block, Purpose, Stream, below};
use crate::tabular::steps;

/// States that an audit embeds; from more a sample is drawn.
pub const AUDITED_STATES: usize = 1_000;
/// A violation exceeds the detour by more than this share of it: a few units in the last place.
pub const TOLERANCE: f64 = 16.0 * f32::EPSILON as f64;

/// What an audit found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Audit {
    /// Different states compared.
    pub states: usize,
    /// Triples tried.
    pub triples: u64,
    /// Triples whose direct distance exceeds the detour by more than [`TOLERANCE`].
    pub violations: u64,
    /// The violation that is largest for its direct distance; none without violations.
    pub worst: Option<Worst>,
    /// The mean distance between different states, in steps.
    pub mean_steps: f64,
    /// mean |d(x, y) − d(y, x)| / mean d: 0 for a metric.
    pub asymmetry: f64,
    /// The largest d(x, x), in nats.
    pub identity: f64,
    /// Pairs whose distance is not a finite number; no triple and no mean counts them.
    pub not_finite: u64,
}

/// A triple that breaks the triangle inequality.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Worst {
    /// Rows of the states (or of the matrix): from, via, to.
    pub triple: [usize; 3],
    /// d(from, to), in nats.
    pub direct: f64,
    /// d(from, via) + d(via, to), in nats.
    pub detour: f64,
    /// The excess as a share of the direct distance.
    pub relative: f64,
}

/// Audits the distance of `model` on `triples` triples of `states`, rows of data.
///
/// # Errors
/// States that are not whole rows, or fewer than three; a model without a distance.
pub fn audit(model: &Model, states: &[f32], triples: u64, seed: u64) -> Result<Audit> {
    model.need_distance()?;
    let size = model.shape().state_size;
    if !states.len().is_multiple_of(size) || states.len() < 3 * size {
        return Err(Error::input(format!(
            "the states have `{}` values, expected three or more rows of `{size}`",
            states.len()
        )));
    }
    let rows = sample(states.len() / size, AUDITED_STATES, seed);
    let chosen: Vec<f32> =
        rows.iter().flat_map(|&row| states[row * size..][..size].iter().copied()).collect();
    let embedded = model.embed(&chosen)?;
    let nats = model.pairwise(&embedded, &embedded);
    let mut audit = audit_matrix(&nats, model.shape().discount, triples, seed)?;
    if let Some(worst) = &mut audit.worst {
        worst.triple = worst.triple.map(|place| rows[place]);
    }
    Ok(audit)
}

/// Audits any square matrix of distances in nats; `discount` turns its mean into steps.
///
/// # Errors
/// A matrix that is not square, or of fewer than three states.
pub fn audit_matrix(nats: &[f32], discount: f64, triples: u64, seed: u64) -> Result<Audit> {
    let size = nats.len().isqrt();
    if size * size != nats.len() || size < 3 {
        return Err(Error::input(format!(
            "`{}` distances, expected those of a square of three states or more",
            nats.len()
        )));
    }
    let mut audit = pairs(nats, size, discount);
    let mut count = |triple: [usize; 3]| {
        let [from, via, to] = triple;
        let at = |from: usize, to: usize| f64::from(nats[from * size + to]);
        let (direct, detour) = (at(from, to), at(from, via) + at(via, to));
        if !(direct.is_finite() && detour.is_finite()) {
            return;
        }
        audit.triples += 1;
        if direct <= detour * (1.0 + TOLERANCE) {
            return;
        }
        audit.violations += 1;
        let relative = (direct - detour) / direct;
        if audit.worst.is_none_or(|worst| relative > worst.relative) {
            audit.worst = Some(Worst { triple, direct, detour, relative });
        }
    };
    let all = (size * (size - 1)) as u64 * (size - 2) as u64;
    if all <= triples {
        for place in 0..size.pow(3) {
            let triple = [place / (size * size), place / size % size, place % size];
            if triple[0] != triple[1] && triple[1] != triple[2] && triple[0] != triple[2] {
                count(triple);
            }
        }
    } else {
        let stream = Stream::new(seed, Purpose::TRIPLES);
        (0..triples).for_each(|step| count(different(stream.block(step, 0), size as u32)));
    }
    Ok(audit)
}

/// What single pairs tell.
fn pairs(nats: &[f32], size: usize, discount: f64) -> Audit {
    let (mut sum, mut gaps, mut count, mut identity) = (0.0, 0.0, 0.0, 0.0f64);
    for from in 0..size {
        identity = identity.max(f64::from(nats[from * (size + 1)]).abs());
        for to in 0..from {
            let there = f64::from(nats[from * size + to]);
            let back = f64::from(nats[to * size + from]);
            if there.is_finite() && back.is_finite() {
                sum += there + back;
                gaps += 2.0 * (there - back).abs();
                count += 2.0;
            }
        }
    }
    Audit {
        states: size,
        triples: 0,
        violations: 0,
        worst: None,
        mean_steps: if count > 0.0 { steps(sum / count, discount) } else { 0.0 },
        asymmetry: if sum > 0.0 { gaps / sum } else { 0.0 },
        identity,
        not_finite: nats.iter().filter(|distance| !distance.is_finite()).count() as u64,
    }
}

/// Three different numbers below `bound`, all triples equally likely.
fn different(words: Block, bound: u32) -> [usize; 3] {
    let from = below(words[0], bound);
    let mut via = below(words[1], bound - 1);
    via += u32::from(via >= from);
    let mut to = below(words[2], bound - 2);
    for taken in [from.min(via), from.max(via)] {
        to += u32::from(to >= taken);
    }
    [from, via, to].map(|index| index as usize)
}

/// At most `most` different numbers below `count`: all of them, or the head of a shuffle.
fn sample(count: usize, most: usize, seed: u64) -> Vec<usize> {
    let stream = Stream::new(seed, Purpose::AUDITED_STATES);
    let mut order: Vec<usize> = (0..count).collect();
    if count > most {
        for place in 0..most {
            let left = (count - place) as u32;
            order.swap(place, place + below(stream.block(0, place as u32)[0], left) as usize);
        }
        order.truncate(most);
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Distances on a line, one and a half times as long to the left; along it the triangle
    /// inequality is an equality.
    fn slope(size: usize) -> Vec<f32> {
        let position = |index: usize| (index as f64 * 0.37).sin() * 3.0 + index as f64 * 0.1;
        let way = |from: usize, to: usize| {
            let gap = position(to) - position(from);
            if gap < 0.0 { -1.5 * gap } else { gap }
        };
        (0..size * size).map(|pair| way(pair / size, pair % size) as f32).collect()
    }

    #[test]
    fn an_honest_quasimetric_has_no_violation_even_where_the_inequality_is_an_equality() {
        let audit = audit_matrix(&slope(100), 0.9, 1_000_000, 0).unwrap();
        assert_eq!((audit.states, audit.triples, audit.violations), (100, 970_200, 0));
        assert_eq!((audit.worst, audit.identity, audit.not_finite), (None, 0.0, 0));
        // There 1 and back 1.5: gap 0.5, mean 1.25.
        assert!((audit.asymmetry - 0.4).abs() < 1e-6);
        let drawn = audit_matrix(&slope(1_000), 0.9, 1_000_000, 7).unwrap();
        assert_eq!((drawn.triples, drawn.violations), (1_000_000, 0));
    }

    #[test]
    fn a_planted_violation_of_a_thousandth_is_found() {
        let mut nats = slope(100);
        let least = (0..100)
            .filter(|via| ![3, 71].contains(via))
            .map(|via| nats[300 + via] + nats[via * 100 + 71])
            .fold(f32::INFINITY, f32::min);
        nats[371] = least * 1.001;
        let audit = audit_matrix(&nats, 0.9, 1_000_000, 0).unwrap();
        let worst = audit.worst.unwrap();
        assert!(audit.violations >= 1);
        assert_eq!((worst.triple[0], worst.triple[2]), (3, 71));
        assert!((worst.relative - 1e-3).abs() < 2e-5, "{worst:?}");
        // One pair in a hundred of a thousand states, by draws.
        let mut many = slope(1_000);
        many.iter_mut().step_by(101).for_each(|distance| *distance *= 1.001);
        let audit = audit_matrix(&many, 0.9, 1_000_000, 0).unwrap();
        assert!(audit.violations > 1_000, "{audit:?}");
        assert!((audit.worst.unwrap().relative - 1e-3).abs() < 1e-5);
    }

    #[test]
    fn numbers_that_are_not_finite_and_distances_to_oneself_are_told() {
        let mut nats = slope(10);
        (nats[5], nats[17], nats[33]) = (f32::NAN, f32::INFINITY, 0.25);
        let audit = audit_matrix(&nats, 0.5, 1_000, 0).unwrap();
        assert_eq!((audit.not_finite, audit.identity), (2, 0.25));
        // Each of the two pairs is the direct way of 8 triples and a leg of 16; none has both.
        assert_eq!(audit.triples, 720 - 2 * 24);
        let square = [0.0, 2.0, 2.0, 2.0, 0.0, 2.0, 2.0, 2.0, 0.0];
        let audit = audit_matrix(&square, (-2.0f64).exp(), 10, 0).unwrap();
        assert_eq!((audit.mean_steps, audit.asymmetry, audit.triples), (1.0, 0.0, 6));
        assert!(audit_matrix(&square[..8], 0.5, 10, 0).is_err());
        assert!(audit_matrix(&square[..4], 0.5, 10, 0).is_err());
    }

    #[test]
    fn drawn_triples_are_different_and_even() {
        let stream = Stream::new(1, Purpose::TRIPLES);
        let mut counts = std::collections::BTreeMap::new();
        for step in 0..24_000 {
            *counts.entry(different(stream.block(step, 0), 4)).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 24);
        for (triple, count) in counts {
            assert_eq!(triple.iter().collect::<BTreeSet<_>>().len(), 3);
            assert!((850..1_150).contains(&count), "{triple:?}: {count}");
        }
        let drawn = sample(5_000, 1_000, 3);
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 1_000);
        assert_eq!(sample(7, 1_000, 3), (0..7).collect::<Vec<_>>());
    }
}
