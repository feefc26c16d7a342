//! The data's own decision process: what followed each kind of action at each landmark.
//!
//! Moves are counted by (landmark, kind, next landmark). A *leap*, a move many steps long, is counted
//! apart where it is rare: too few of them stand at one landmark to tell where luck leads, and the
//! largest of several guesses would believe the luckiest. Rare leaps are pooled over all kinds and
//! all landmarks around: how often one happens there, and where they land. Where leaps are the rule
//! (a portal), they are moves like all others.

use super::landmarks::Landmarks;
use crate::data::Dataset;
use crate::error::Result;

/// A move of more steps than this is a leap.
const LEAP: f64 = 4.0;
/// Leaps are pooled over landmarks at most this many steps away.
const POOL: f64 = 2.0;
/// Leaps are the rule where there are so many of them at a landmark, and this share of its rows.
const RULE_COUNT: u32 = 5;
const RULE_SHARE: f64 = 0.2;

/// What was counted at and between landmarks.
pub(super) struct Counted {
    pub walked: Walked,
    pub leaps: Leaps,
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
        let (moves, leaps) = split(dataset, landmarks, owners, kinds)?;
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
        let mut counted = Self { walked, leaps, stand_ins, reverse, sources };
        counted.turn_round();
        Ok(counted)
    }

    /// The number of landmarks.
    pub fn count(&self) -> usize {
        self.stand_ins.len()
    }

    /// The landmarks that lead to `landmark` in one step.
    pub fn leading_to(&self, landmark: usize) -> &[u32] {
        &self.sources[self.reverse[landmark] as usize..self.reverse[landmark + 1] as usize]
    }

    /// The landmarks that `landmark` leads to in one step.
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

/// Moves, and rare leaps by the landmarks they begin and end at.
fn split(
    dataset: &Dataset,
    landmarks: &Landmarks,
    owners: &[u32],
    kinds: &[u16],
) -> Result<(Vec<Move>, Vec<Leap>)> {
    let reach = (LEAP * landmarks.step).powi(2);
    let mut change = vec![0.0; landmarks.axes()];
    let (mut moves, mut leaps) = (Vec::new(), Vec::new());
    let (mut rows, mut leaping) = (vec![0u32; landmarks.count()], vec![0u32; landmarks.count()]);
    for row in (0..dataset.rows()).filter(|&row| dataset.last_row(row) != row) {
        landmarks.change(&dataset.read_state(row)?, &dataset.read_state(row + 1)?, &mut change);
        let found = (owners[row], kinds[row], owners[row + 1]);
        rows[found.0 as usize] += 1;
        if change.iter().map(|value| value * value).sum::<f64>() > reach {
            leaping[found.0 as usize] += 1;
            leaps.push(found);
        } else {
            moves.push(found);
        }
    }
    let rule = |from: u32| {
        let (leaps, rows) = (leaping[from as usize], rows[from as usize]);
        leaps >= RULE_COUNT && f64::from(leaps) >= RULE_SHARE * f64::from(rows)
    };
    let (usual, rare): (Vec<Move>, Vec<Move>) = leaps.into_iter().partition(|leap| rule(leap.0));
    moves.extend(usual);
    Ok((moves, rare.into_iter().map(|(from, _, to)| (from, to)).collect()))
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
