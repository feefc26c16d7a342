//! The data's own decision process: what followed each kind of action at each landmark.
//!
//! Moves are counted by (landmark, kind, next landmark). A *leap*, a move much longer than others, is counted
//! apart where it is rare: too few of them stand at one landmark to tell where luck leads, and the
//! largest of several guesses would believe the luckiest. Rare leaps are pooled over all kinds and
//! all landmarks around: how often one happens there, and where they land. Where leaps are the rule
//! (a portal), they are moves like all others.
//!
//! How much a kind decides is read from the data too: χ is the share of the variance of changes at a
//! landmark that remains among moves of one kind. Where chance outweighs choice, few moves of a kind
//! say little, and the best of sixteen such means would be the luckiest. Each kind then borrows
//! b = ½ (χ / (1 − χ) − 1) moves worth the mean of the whole landmark, none where χ ≤ ½; in empirical
//! Bayes (Efron and Morris, "Stein's estimation rule and its competitors", 1973) it would be
//! χ / (1 − χ), but kinds have a width of their own, which is choice and counts as chance here.

use std::collections::BTreeMap;

use super::landmarks::{Landmarks, moves as moves_of};
use crate::data::Dataset;
use crate::error::Result;

/// A move so many times as long as others is a leap.
const LEAP: f64 = 4.0;
/// Leaps are pooled over landmarks at most this many moves away.
const POOL: f64 = 2.0;
/// Leaps are the rule where there are so many of them at a landmark, and this share of its rows.
const RULE_COUNT: u32 = 5;
const RULE_SHARE: f64 = 0.2;
/// χ is held below 1, where kinds decide nothing.
const MOST_CHANCE: f64 = 0.99;

/// What was counted at and between landmarks.
pub(super) struct Counted {
    pub walked: Walked,
    pub leaps: Leaps,
    /// χ: how much of where moves lead is chance.
    pub chance: f64,
    /// Moves worth the mean of their landmark that each kind borrows there.
    pub borrowed: f64,
    /// The landmark that stands in for one where no move begins; itself for all others.
    pub stand_ins: Vec<u32>,
    /// For each landmark, where the landmarks that lead there begin, and which they are.
    reverse: Vec<u32>,
    sources: Vec<u32>,
}

/// Moves, by the landmark they begin at and their kind.
pub(super) struct Walked {
    /// For each landmark, where its groups begin; one more at the end.
    pub groups: Vec<u32>,
    /// For each group (landmark, kind), where its moves begin; one more at the end.
    pub moves: Vec<u32>,
    /// The landmark that a move leads to, and how often.
    pub targets: Vec<u32>,
    pub counts: Vec<f64>,
}

/// Rare leaps, pooled around each landmark.
#[derive(Default)]
pub(super) struct Leaps {
    /// For each landmark the chance of a leap.
    pub chances: Vec<f64>,
    /// For each landmark, where its landings begin; one more at the end.
    pub landings: Vec<u32>,
    /// The landmarks that leaps lead to, and their shares.
    pub landed: Vec<u32>,
    pub shares: Vec<f64>,
}

impl Counted {
    /// Counts the moves of `dataset`, whose rows are at `owners` and of `kinds`.
    pub fn new(
        dataset: &Dataset,
        landmarks: &Landmarks,
        owners: &[u32],
        kinds: &[u16],
    ) -> Result<Self> {
        let count = landmarks.count();
        let Sorted { moves, leaps, chance } = sorted(dataset, landmarks, owners, kinds)?;
        let mut rows = vec![0u32; count];
        moves.iter().for_each(|&(from, ..)| rows[from as usize] += 1);
        let walked = grouped(moves, count);
        let leaps = pool(landmarks, &rows, &leaps);
        let silent = |landmark: usize| walked.groups[landmark] == walked.groups[landmark + 1];
        let stand_ins: Vec<u32> = (0..count)
            .map(|landmark| match silent(landmark) {
                true => landmarks.nearest(landmarks.centre(landmark), |other| !silent(other)),
                false => landmark as u32,
            })
            .collect();
        let (reverse, sources) = (Vec::new(), Vec::new());
        let mut counted =
            Self { walked, leaps, chance, borrowed: borrowed(chance), stand_ins, reverse, sources };
        counted.turn_round();
        Ok(counted)
    }

    /// The number of landmarks.
    pub fn count(&self) -> usize {
        self.stand_ins.len()
    }

    /// The landmarks that lead to `landmark` in one move.
    pub fn leading_to(&self, landmark: usize) -> &[u32] {
        &self.sources[self.reverse[landmark] as usize..self.reverse[landmark + 1] as usize]
    }

    /// The landmarks that `landmark` leads to in one move.
    fn next(&self, landmark: usize) -> impl Iterator<Item = u32> + '_ {
        let (walked, leaps) = (&self.walked, &self.leaps);
        let groups = walked.groups[landmark] as usize..=walked.groups[landmark + 1] as usize;
        let moves = walked.moves[*groups.start()] as usize..walked.moves[*groups.end()] as usize;
        let landings = leaps.landings[landmark] as usize..leaps.landings[landmark + 1] as usize;
        let stand_in =
            (self.stand_ins[landmark] as usize != landmark).then(|| self.stand_ins[landmark]);
        let walked = walked.targets[moves].iter().copied();
        walked.chain(leaps.landed[landings].iter().copied()).chain(stand_in)
    }

    /// Lists for every landmark those that lead there.
    fn turn_round(&mut self) {
        let count = self.count();
        let mut pairs: Vec<(u32, u32)> =
            (0..count).flat_map(|from| self.next(from).map(move |to| (to, from as u32))).collect();
        pairs.sort_unstable();
        pairs.dedup();
        self.reverse = starts(pairs.iter().map(|&(to, _)| to), count);
        self.sources = pairs.into_iter().map(|(_, from)| from).collect();
    }
}

/// A move: the landmark it begins at, its kind, the landmark it leads to.
type Move = (u32, u16, u32);
/// A leap: the landmarks it begins and ends at.
type Leap = (u32, u32);

/// Recorded moves, sorted out.
struct Sorted {
    moves: Vec<Move>,
    /// Rare leaps.
    leaps: Vec<Leap>,
    /// χ; 0 where no kind was recorded twice at a landmark.
    chance: f64,
}

fn sorted(
    dataset: &Dataset,
    landmarks: &Landmarks,
    owners: &[u32],
    kinds: &[u16],
) -> Result<Sorted> {
    let reach = (LEAP * landmarks.step).powi(2);
    let mut change = vec![0.0; landmarks.axes()];
    let (mut moves, mut leaps) = (Vec::new(), Vec::new());
    let (mut rows, mut leaping) = (vec![0u32; landmarks.count()], vec![0u32; landmarks.count()]);
    let mut spreads: BTreeMap<(u32, u16), Spread> = BTreeMap::new();
    for row in moves_of(dataset, landmarks.stride) {
        let next = row + landmarks.stride;
        landmarks.change(&dataset.read_state(row)?, &dataset.read_state(next)?, &mut change);
        let found = (owners[row], kinds[row], owners[next]);
        rows[found.0 as usize] += 1;
        if change.iter().map(|value| value * value).sum::<f64>() > reach {
            leaping[found.0 as usize] += 1;
            leaps.push(found);
        } else {
            spreads.entry((found.0, found.1)).or_default().add(&change);
            moves.push(found);
        }
    }
    let rule = |from: u32| {
        let (leaps, rows) = (leaping[from as usize], rows[from as usize]);
        leaps >= RULE_COUNT && f64::from(leaps) >= RULE_SHARE * f64::from(rows)
    };
    let (usual, rare): (Vec<Move>, Vec<Move>) = leaps.into_iter().partition(|leap| rule(leap.0));
    moves.extend(usual);
    let leaps = rare.into_iter().map(|(from, _, to)| (from, to)).collect();
    Ok(Sorted { moves, leaps, chance: chance(&spreads) })
}

/// Number, sum and sum of squares of some changes.
#[derive(Default)]
struct Spread {
    number: f64,
    sum: Vec<f64>,
    squares: f64,
}

impl Spread {
    fn add(&mut self, change: &[f64]) {
        self.join(1.0, change, change.iter().map(|value| value * value).sum());
    }

    fn join(&mut self, number: f64, sum: &[f64], squares: f64) {
        self.sum.resize(sum.len(), 0.0);
        self.sum.iter_mut().zip(sum).for_each(|(all, value)| *all += value);
        self.number += number;
        self.squares += squares;
    }

    /// The squared deviations from the mean and their degrees of freedom.
    fn deviations(&self) -> [f64; 2] {
        if self.number == 0.0 {
            return [0.0; 2];
        }
        let mean = self.sum.iter().map(|value| value * value).sum::<f64>() / self.number;
        [(self.squares - mean).max(0.0), self.number - 1.0]
    }
}

/// χ: the variance of changes within kinds over that within landmarks, both without bias.
fn chance(spreads: &BTreeMap<(u32, u16), Spread>) -> f64 {
    let (mut within, mut around) = ([0.0; 2], [0.0; 2]);
    let add = |sum: &mut [f64; 2], spread: &Spread| {
        spread.deviations().iter().zip(sum).for_each(|(value, sum)| *sum += value);
    };
    let mut place = (u32::MAX, Spread::default());
    for (&(landmark, _), spread) in spreads {
        add(&mut within, spread);
        if landmark != place.0 {
            let left = std::mem::replace(&mut place, (landmark, Spread::default()));
            add(&mut around, &left.1);
        }
        place.1.join(spread.number, &spread.sum, spread.squares);
    }
    add(&mut around, &place.1);
    let chance = (within[0] / within[1]) / (around[0] / around[1]);
    if chance.is_finite() { chance } else { 0.0 }
}

/// b, as the header says.
fn borrowed(chance: f64) -> f64 {
    let chance = chance.min(MOST_CHANCE);
    0.5 * (chance / (1.0 - chance) - 1.0).max(0.0)
}

/// Moves sorted into groups and counted.
fn grouped(mut moves: Vec<Move>, count: usize) -> Walked {
    moves.sort_unstable();
    let (mut owners, mut move_starts) = (Vec::new(), Vec::new());
    let (mut targets, mut counts): (Vec<u32>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut last: Option<Move> = None;
    for found in moves {
        match last {
            Some(before) if before == found => {
                *counts.last_mut().expect("a move before this one") += 1.0;
                continue;
            }
            Some((from, kind, _)) if (from, kind) == (found.0, found.1) => {}
            _ => {
                owners.push(found.0);
                move_starts.push(targets.len() as u32);
            }
        }
        targets.push(found.2);
        counts.push(1.0);
        last = Some(found);
    }
    move_starts.push(targets.len() as u32);
    let groups = starts(owners.into_iter(), count);
    Walked { groups, moves: move_starts, targets, counts }
}

/// Where the entries of each of `count` owners begin, in a list sorted by owner.
fn starts(owners: impl Iterator<Item = u32>, count: usize) -> Vec<u32> {
    let mut starts = vec![0u32; count + 1];
    owners.for_each(|owner| starts[owner as usize + 1] += 1);
    for at in 0..count {
        starts[at + 1] += starts[at];
    }
    starts
}

/// For each landmark the chance of a rare leap and where leaps around it land.
fn pool(landmarks: &Landmarks, rows: &[u32], leaps: &[Leap]) -> Leaps {
    let count = landmarks.count();
    let mut by_origin: Vec<Vec<u32>> = vec![Vec::new(); count];
    leaps.iter().for_each(|&(from, to)| by_origin[from as usize].push(to));
    let mut origins: Vec<u32> = leaps.iter().map(|&(from, _)| from).collect();
    origins.sort_unstable();
    origins.dedup();
    // Every landmark around an origin learns of its leaps.
    let mut around: Vec<Vec<u32>> = vec![Vec::new(); count];
    for &origin in &origins {
        for near in landmarks.within(origin as usize, POOL) {
            around[near as usize].push(origin);
        }
    }
    let mut pooled = Leaps { chances: vec![0.0; count], landings: vec![0], ..Leaps::default() };
    for (landmark, origins) in around.iter().enumerate() {
        let mut here: Vec<u32> =
            origins.iter().flat_map(|&origin| by_origin[origin as usize].iter().copied()).collect();
        if !here.is_empty() {
            let near = landmarks.within(landmark, POOL);
            let walked: u32 = near.iter().map(|&near| rows[near as usize]).sum();
            pooled.chances[landmark] = here.len() as f64 / (here.len() as f64 + f64::from(walked));
            here.sort_unstable();
            for group in here.chunk_by(|one, other| one == other) {
                pooled.landed.push(group[0]);
                pooled.shares.push(group.len() as f64 / here.len() as f64);
            }
        }
        pooled.landings.push(pooled.landed.len() as u32);
    }
    pooled
}
