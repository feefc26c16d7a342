//! The teacher: distances solved exactly in the data's own decision process.
//!
//! Recorded states are covered by landmarks, recorded actions by kinds; what followed each kind at
//! each landmark is counted; and d(u, g) = −ln max over kinds of E γ^H is solved for many goals g, H
//! the first time in the goal's set of landmarks, with chance priced and luck kept from deciding by a
//! confidence bound. This is the distance under the best use of recorded kinds of moves. A learner
//! ([`crate::algorithms::atlas`]) draws it as one map: a quasimetric of states.

mod kinds;
mod landmarks;
mod process;
mod solve;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub use kinds::{Kinds, KindsBy};

use self::landmarks::{Fineness, Landmarks};
use self::process::Counted;
use self::solve::{Rule, distances};
use crate::collective::Collective;
use crate::data::{Dataset, Lessons, check_room};
use crate::error::{Error, Result, Tell};
use crate::random::{Purpose, Stream};

/// Ways are compared with the length that this share of all ways has at most.
const LONG: f64 = 0.99;
/// How far from a goal's landmark counts as reached, in moves, where no radius is known.
const REACH: f64 = 0.6;
/// A world's radius of success is taken for the goal's where it is at most so many moves: a wider goal
/// would hide the last of the way.
const WIDEST_GOAL: f64 = 2.0;
/// Landmarks that can be asked for at most.
const MOST_LANDMARKS: usize = 200_000;

/// How the data's own decision process is made and solved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The coordinates of a state that say where it is, such as `[0, 1]`; left out, those of
    /// `data.policy_goal`, or all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub place: Vec<usize>,
    /// The width of a landmark, in moves.
    pub spacing: f64,
    /// Rows that a move spans. Where the place leaves out much of a state, such as its velocities, moves
    /// of one row can be chained that no body could make one after the other; over several rows what the
    /// body did is one move. Ways shorter than that are not told apart.
    pub stride: usize,
    /// Landmarks at most; they are made wider where more were needed.
    pub landmarks: usize,
    /// Recorded rows per landmark at least, on average; landmarks are made wider where there are fewer.
    pub rows_per_landmark: f64,
    /// Kinds of action.
    pub kinds: Kinds,
    /// Standard errors taken off a mean before the best kind of action is chosen.
    pub confidence: f64,
    /// Goals solved at most; of more landmarks so many are drawn.
    pub goals: usize,
    /// A goal is out of reach where there is no way to it, or one so many times as long as 99 % of all
    /// ways are.
    pub out_of_reach: f64,
    /// How near to a goal counts as reached, in the data's units; left out, the world's radius or, where
    /// there is none or it is wider than two steps, about half a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub radius: Option<f64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            place: Vec::new(),
            spacing: 0.5,
            stride: 1,
            landmarks: 20_000,
            rows_per_landmark: 8.0,
            kinds: Kinds::default(),
            confidence: 1.0,
            goals: 2_000,
            out_of_reach: 2.0,
            radius: None,
        }
    }
}

impl Settings {
    /// Refuses settings that make no sense.
    ///
    /// # Errors
    /// Names the key, what was found and what is expected.
    pub fn check(&self) -> Result<()> {
        let refuse = |key: &str, found: String, expected: &str| {
            Err(Error::input(format!(
                "`algorithm.teacher.{key}` is `{found}`, expected {expected}"
            ))
            .hint("`isochrone config` prints every key with its default"))
        };
        for (key, value) in [
            ("spacing", self.spacing),
            ("rows_per_landmark", self.rows_per_landmark),
            ("out_of_reach", self.out_of_reach),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return refuse(key, value.to_string(), "a positive number");
            }
        }
        if !(self.confidence >= 0.0 && self.confidence.is_finite()) {
            return refuse("confidence", self.confidence.to_string(), "0 or more standard errors");
        }
        if self.radius.is_some_and(|radius| !(radius >= 0.0 && radius.is_finite())) {
            return refuse("radius", format!("{:?}", self.radius), "0 or more");
        }
        if self.landmarks < 2 || self.landmarks > MOST_LANDMARKS {
            let expected = format!("2 to {MOST_LANDMARKS}");
            return refuse("landmarks", self.landmarks.to_string(), &expected);
        }
        if self.goals == 0 {
            return refuse("goals", "0".into(), "at least 1");
        }
        if self.kinds.count == 0 || self.kinds.count > usize::from(u16::MAX) {
            return refuse("kinds.count", self.kinds.count.to_string(), "1 to 65535");
        }
        if self.stride == 0 {
            return refuse("stride", "0".into(), "at least 1 row");
        }
        if self.kinds.ahead == 0 {
            return refuse("kinds.ahead", "0".into(), "at least 1 row");
        }
        Ok(())
    }
}

/// What else decides the distances.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// γ.
    pub discount: f64,
    /// How near counts as reached, where a world says so.
    pub radius: Option<f64>,
    /// The coordinates that a policy sees of a goal; empty where it sees all.
    pub policy_goal: &'a [usize],
    /// The width that landmarks may have at most, in moves.
    pub widest: f64,
    /// Seeds the draws of goals and the clusters of actions.
    pub seed: u64,
}

/// Landmarks, and their distances to the goals that were solved.
pub struct Teacher {
    landmarks: Landmarks,
    owners: Vec<u32>,
    kinds: usize,
    chance: f64,
    columns: Arc<Vec<u32>>,
    nats: Arc<Vec<f32>>,
    farthest: f32,
}

impl Teacher {
    /// Solves the decision process of `dataset`.
    ///
    /// # Errors
    /// Settings that make no sense, data without places to tell apart, too little memory, or a signal.
    pub fn new(
        dataset: &Dataset,
        settings: &Settings,
        terms: Terms<'_>,
        tell: &Tell<'_>,
    ) -> Result<Self> {
        Self::among(dataset, settings, terms, tell, &Collective::default())
    }

    /// As [`Teacher::new`], as one of several processes, each of which solves its share of the goals.
    ///
    /// # Errors
    /// As [`Teacher::new`].
    pub fn among(
        dataset: &Dataset,
        settings: &Settings,
        terms: Terms<'_>,
        tell: &Tell<'_>,
        collective: &Collective,
    ) -> Result<Self> {
        settings.check()?;
        let axes = axes(&settings.place, terms.policy_goal, dataset.state_size())?;
        let fine = Fineness {
            spacing: settings.spacing,
            stride: settings.stride,
            most: settings.landmarks,
            rows_each: settings.rows_per_landmark,
            widest: terms.widest,
        };
        let (landmarks, owners) = Landmarks::new(dataset, &axes, fine)?;
        let goals = chosen(landmarks.count(), settings.goals, terms.seed);
        let tell = |solved: usize, of: usize| {
            tell(solved, of).map_or(Ok(()), |signal| Err(Error::Interrupted(signal)))
        };
        let go_on = || tell(0, goals.len());
        go_on()?;
        let kinds = settings.kinds.of(dataset, &landmarks, terms.seed)?;
        go_on()?;
        let process = Counted::new(dataset, &landmarks, &owners, &kinds)?;
        go_on()?;
        let bytes = 4 * goals.len() as u64 * landmarks.count() as u64;
        let what =
            format!("distances from {} landmarks to {} goals", landmarks.count(), goals.len());
        let hint = "lower `algorithm.teacher.goals` or `algorithm.teacher.landmarks`";
        check_room(&what, bytes, hint)?;
        let discount = terms.discount.powi(settings.stride as i32);
        let rule = Rule { discount, confidence: settings.confidence };
        let narrow = |radius: &f64| landmarks.in_moves(*radius) <= WIDEST_GOAL;
        let radius = settings.radius.or(terms.radius.filter(narrow));
        let reached = |goal: u32| {
            let mut set = match radius {
                Some(radius) => landmarks.within_radius(goal as usize, radius),
                None => landmarks.within(goal as usize, REACH),
            };
            set.sort_unstable_by_key(|&landmark| (landmark != goal, landmark));
            set
        };
        let share = goals.len().div_ceil(collective.size());
        let mut nats = vec![0.0f32; collective.size() * share * landmarks.count()];
        let own = goals.chunks(share).nth(collective.rank()).unwrap_or_default();
        let first = collective.rank() * share * landmarks.count();
        let done = AtomicUsize::new(0);
        nats[first..].par_chunks_exact_mut(landmarks.count()).zip(own).try_for_each(
            |(column, &goal)| {
                column.copy_from_slice(&distances(&process, rule, &reached(goal)));
                let done = 1 + done.fetch_add(1, Ordering::Relaxed);
                tell(done, own.len())
            },
        )?;
        collective.all_gather(&mut nats);
        nats.truncate(goals.len() * landmarks.count());
        let farthest = bound(&mut nats, settings.out_of_reach);
        let mut columns = vec![u32::MAX; landmarks.count()];
        goals.iter().enumerate().for_each(|(column, &goal)| columns[goal as usize] = column as u32);
        let kinds = kinds.iter().copied().max().map_or(0, |most| usize::from(most) + 1);
        let (columns, nats) = (Arc::new(columns), Arc::new(nats));
        let chance = process.chance;
        Ok(Self { landmarks, owners, kinds, chance, columns, nats, farthest })
    }

    /// The nats beyond which a goal is out of reach.
    pub fn farthest(&self) -> f64 {
        self.farthest.into()
    }

    /// How many steps wide a landmark's place is.
    pub fn place(&self) -> f64 {
        self.landmarks.spacing()
    }

    /// What was solved, in one line.
    pub fn summary(&self) -> String {
        let (landmarks, all) = (self.landmarks.count(), self.columns.len());
        let goals = self.nats.len() / all;
        let spacing = self.place();
        let solved =
            format!("{landmarks} landmarks {spacing:.2} steps apart, {goals} goals solved");
        // Within the only kind of action the moves spread as they do at the landmark.
        if self.kinds < 2 {
            return format!("{solved}; one kind of action");
        }
        format!(
            "{solved}; {} kinds of action, {:.0} % of the spread of moves at a landmark lies within one \
             kind",
            self.kinds,
            100.0 * self.chance.min(1.0)
        )
    }

    /// The lessons for the data that it was made of.
    pub fn lessons(&self) -> Lessons {
        Lessons::new(self.owners.clone(), self.columns.clone(), self.nats.clone())
    }

    /// The lessons for other data of the same world.
    ///
    /// # Errors
    /// Data that stay in a file can no longer be read.
    pub fn lessons_for(&self, dataset: &Dataset) -> Result<Lessons> {
        Ok(Lessons::new(self.landmarks.of(dataset)?, self.columns.clone(), self.nats.clone()))
    }
}

/// The coordinates that say where a state is.
fn axes(place: &[usize], policy_goal: &[usize], size: usize) -> Result<Vec<usize>> {
    if let Some(axis) = place.iter().find(|&&axis| axis >= size) {
        return Err(Error::input(format!(
            "`algorithm.teacher.place` names coordinate `{axis}`, states have {size}"
        ))
        .hint("coordinates are counted from 0"));
    }
    Ok(match (place, policy_goal) {
        ([], []) => (0..size).collect(),
        ([], goal) => goal.to_vec(),
        (place, _) => place.to_vec(),
    })
}

/// The landmarks that are solved as goals: all, or so many drawn without repetition.
fn chosen(count: usize, most: usize, seed: u64) -> Vec<u32> {
    let mut keyed: Vec<(u32, u32)> = {
        let stream = Stream::new(seed, Purpose::SOLVED);
        (0..count as u32).map(|landmark| (stream.block(0, landmark)[0], landmark)).collect()
    };
    keyed.sort_unstable();
    keyed.truncate(most);
    let mut goals: Vec<u32> = keyed.into_iter().map(|(_, landmark)| landmark).collect();
    goals.sort_unstable();
    goals
}

/// Marks pairs out of reach by minus the bound that they are beyond, and gives the bound.
fn bound(nats: &mut [f32], out_of_reach: f64) -> f32 {
    let mut ways: Vec<f32> = nats.iter().copied().filter(|nats| nats.is_finite()).collect();
    let place = ((ways.len() - 1) as f64 * LONG).ceil() as usize;
    let (_, long, _) = ways.select_nth_unstable_by(place, f32::total_cmp);
    let bound = (out_of_reach as f32 * *long).max(f32::MIN_POSITIVE);
    let beyond = nats.par_iter_mut().filter(|nats| **nats > bound);
    beyond.for_each(|nats| *nats = -bound);
    bound
}
