//! What speaks against a plan: ends far from the data, moves that jump, joints that bridge a gap.
//!
//! A node of the graph stands for all recorded states nearest to it. Where nodes lie far apart, as in
//! many dimensions, a trajectory may pass from near one to near another in a single step although the
//! two lie many steps apart. Lengths are counted in typical steps, the median length of recorded
//! steps that move, in the coordinates that the nodes cover, each scaled to deviation 1. Where some
//! coordinates change much from row to row, such as velocities, they would hide a leap of the others:
//! each is measured by its own long changes too, and the longest measure counts.

use serde::Serialize;

use super::cover::counted;
use super::{Path, squared_gap};
use crate::data::{Dataset, Normalization, Scaling};
use crate::error::Result;

/// Typical steps per recorded step above which two states are too far apart.
const APART: f32 = 4.0;
/// A change of one coordinate is long if at most this share of the recorded ones is longer.
const LONG_SHARE: f32 = 0.1;
/// A move that was itself recorded over this share of its length does not jump.
const RECORDED_SHARE: f32 = 0.5;
/// The typical steps that a path may leave out, per recorded step.
const MOST_LEFT_OUT: f32 = 0.5;
/// The typical steps around itself for which a data state may stand.
const COARSE: f32 = 1.0;
/// Typical spacings from the data beyond which an end of a path is far off them.
const FAR: f32 = 1.0;

/// A stretch of a path that no recorded move covers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Gap {
    /// The place in the path's states of the state where it lies or begins.
    pub at: usize,
    /// Its length in typical steps.
    pub typical_steps: f32,
    /// The recorded steps of the move there.
    pub recorded: usize,
}

/// What speaks against a plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Doubts {
    /// Ends far from the data: `start`, `goal`, and by how many typical spacings.
    pub far: Vec<(&'static str, f32)>,
    /// Moves that jump: their two states lie much farther apart than the trajectory moved.
    pub jumps: Vec<Gap>,
    /// Joints where one trajectory is left far from where the next is taken, and ends of the path far
    /// from the data state they are tied to.
    pub bridges: Vec<Gap>,
    /// The typical steps that no recorded move covers, at all joints and both ends together.
    pub uncovered: f32,
    /// How many typical steps around itself a data state of the path stands for others, if more than
    /// one: the way between them is not seen.
    pub coarse: Option<f32>,
}

impl Doubts {
    /// Whether what no recorded move covers is much beside the `recorded` steps.
    pub fn leave_out_much(&self, recorded: f32) -> bool {
        self.uncovered > MOST_LEFT_OUT * recorded.max(1.0)
    }

    /// What speaks against `path`, planned over `dataset` by a graph whose nodes cover the
    /// coordinates `places`.
    ///
    /// # Errors
    /// Data that stay in a file can no longer be read.
    pub fn of(path: &Path, dataset: &Dataset, places: &[usize]) -> Result<Self> {
        let ends = [("start", path.novelty.start), ("goal", path.novelty.goal)];
        let far = ends.into_iter().filter(|(_, spacings)| *spacings > FAR).collect();
        let mut doubts = Self { far, ..Self::default() };
        let Some(_) = path.recorded else { return Ok(doubts) };
        let dataset = &*dataset.in_memory()?;
        let scaling = Normalization::fit(dataset, Scaling::Standard)?;
        let place = |state: &[f32]| counted(&scaling, places, state).collect::<Vec<f32>>();
        let Some(ruler) = Ruler::new(dataset, place) else { return Ok(doubts) };
        doubts.coarse = Some(path.radius / ruler.typical).filter(|steps| *steps > COARSE);
        let apart = |one: &[f32], other: &[f32]| ruler.apart(&place(one), &place(other));
        let too_far = |at: usize, typical_steps: f32, recorded: usize| {
            let far = typical_steps > APART * recorded.max(1) as f32;
            far.then_some(Gap { at, typical_steps, recorded })
        };
        let states = &path.states;
        let last = states.len() - 1;
        if path.hops.is_empty() {
            let gap = apart(&states[0], &states[last]);
            doubts.uncovered += gap;
            doubts.jumps.extend(too_far(0, gap, 0));
        }
        for (at, hop) in (1..).zip(&path.hops) {
            let moved = apart(dataset.state(hop.leaves), dataset.state(hop.arrives));
            let found = too_far(at, apart(&states[at], &states[at + 1]), hop.recorded);
            let jumps = |gap: &Gap| moved < RECORDED_SHARE * gap.typical_steps;
            doubts.jumps.extend(found.filter(jumps));
        }
        if let ([first, ..], [.., end]) = (&path.hops[..], &path.hops[..]) {
            doubts.uncovered += apart(&states[0], dataset.state(first.leaves));
            doubts.bridges.extend(too_far(0, apart(&states[0], &states[1]), first.recorded));
            for (at, pair) in (2..).zip(path.hops.windows(2)) {
                if pair[0].trajectory != pair[1].trajectory {
                    let gap = apart(dataset.state(pair[0].arrives), dataset.state(pair[1].leaves));
                    let recorded = pair[0].recorded.max(pair[1].recorded);
                    doubts.uncovered += gap;
                    doubts.bridges.extend(too_far(at, gap, recorded));
                }
            }
            doubts.uncovered += apart(dataset.state(end.arrives), &states[last]);
            let gap = apart(&states[last - 1], &states[last]);
            doubts.bridges.extend(too_far(last - 1, gap, end.recorded));
        }
        Ok(doubts)
    }
}

/// Measures how many typical steps apart two places are.
struct Ruler {
    /// The median length of recorded steps that move.
    typical: f32,
    /// A long recorded change of each coordinate; 0 if it hardly ever changes.
    long: Vec<f32>,
}

impl Ruler {
    /// The ruler of a recording; `None` if nothing moves.
    fn new(dataset: &Dataset, place: impl Fn(&[f32]) -> Vec<f32>) -> Option<Self> {
        let (mut lengths, mut changes) = (Vec::new(), Vec::new());
        let mut other = Vec::new();
        for row in 0..dataset.rows() {
            let one = std::mem::replace(&mut other, place(dataset.state(row)));
            // Before the first row of a trajectory there is none to have come from.
            let length = squared_gap(&one, &other).sqrt();
            if row > 0 && dataset.last_row(row - 1) != row - 1 && length > 0.0 {
                lengths.push(length);
                changes.resize_with(one.len(), Vec::new);
                let each = changes.iter_mut().zip(one.iter().zip(&other));
                each.for_each(|(changes, (one, other))| changes.push((one - other).abs()));
            }
        }
        let count = lengths.len();
        let at = |values: &mut Vec<f32>, place: usize| {
            *values.select_nth_unstable_by(place.min(count - 1), f32::total_cmp).1
        };
        let long = ((1.0 - LONG_SHARE) * count as f32) as usize;
        (count > 0).then(|| Self {
            typical: at(&mut lengths, count / 2),
            long: changes.iter_mut().map(|changes| at(changes, long)).collect(),
        })
    }

    /// The typical steps between two places.
    fn apart(&self, one: &[f32], other: &[f32]) -> f32 {
        let each = one.iter().zip(other).zip(&self.long).filter(|(_, long)| **long > 0.0);
        let each = each.map(|((one, other), long)| (one - other).abs() / long);
        each.fold(squared_gap(one, other).sqrt() / self.typical, f32::max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::toy::{Toy, euclid};
    use super::super::{Graph, GraphSettings, Longest};
    use super::*;

    fn dataset(trajectories: &[Vec<[f32; 2]>]) -> Dataset {
        let lengths: Vec<usize> = trajectories.iter().map(Vec::len).collect();
        let states = trajectories.iter().flatten().flatten().copied().collect();
        Dataset::new(states, 2, None, &lengths).unwrap()
    }

    /// The doubts about a plan over `nodes` of `data`, all of whose recorded moves are edges.
    fn doubts(data: &Dataset, nodes: usize, start: [f32; 2], goal: [f32; 2]) -> (Path, Doubts) {
        let straight = Toy { size: 2, steps: euclid };
        let longest = Longest::Share(1.0);
        let settings = GraphSettings { nodes, ahead: 1, longest, ..GraphSettings::default() };
        let path = Graph::new(&straight, data, settings).unwrap().path(&start, &goal).unwrap();
        let doubts = Doubts::of(&path, data, &[0, 1]).unwrap();
        (path, doubts)
    }

    /// Walks to the right in steps of a tenth, each a little above the one before.
    fn walks(count: usize) -> Dataset {
        let walk = |at: usize| (0..81).map(|x| [0.1 * x as f32, 0.01 * at as f32]).collect();
        dataset(&(0..count).map(walk).collect::<Vec<_>>())
    }

    #[test]
    fn a_leap_is_measured_in_its_own_coordinate() {
        // The second coordinate swings widely in every row, the first moves slowly.
        let walk = (0..81).map(|row| [0.1 * row as f32, [-5.0, 5.0][row % 2]]).collect();
        let ruler = Ruler::new(&dataset(&[walk]), <[f32]>::to_vec).unwrap();
        assert!((ruler.apart(&[0.0, 5.0], &[0.1, -5.0]) - 1.0).abs() < 0.01);
        assert!((ruler.apart(&[0.0, 5.0], &[4.0, 5.0]) - 40.0).abs() < 0.1);
    }

    #[test]
    fn a_plan_along_recorded_steps_raises_no_doubt() {
        let (path, found) = doubts(&walks(3), 1_000, [0.0, 0.0], [8.0, 0.0]);
        assert_eq!(path.recorded, Some(80));
        assert_eq!(found, Doubts::default());
    }

    #[test]
    fn a_move_between_nodes_much_farther_apart_than_one_recorded_step_jumps() {
        // One trajectory only crosses the border between two nodes that lie far apart.
        // The first node is drawn at random: most rows lie at the two ends.
        let rest = |x: f32| vec![[x, 0.0]; 200];
        let data = dataset(&[rest(0.0), rest(8.0), vec![[3.95, 0.0], [4.05, 0.0]]]);
        let (path, found) = doubts(&data, 2, [0.0, 0.0], [8.0, 0.0]);
        assert_eq!((path.states.len(), path.recorded), (4, Some(1)));
        let [jump] = found.jumps[..] else { panic!("{found:?}") };
        assert_eq!((jump.at, jump.recorded), (1, 1));
        assert!(jump.typical_steps > 70.0, "{jump:?}");
        assert!(found.far.is_empty() && found.bridges.is_empty(), "{found:?}");
        // Both ends at one node: no recorded step at all.
        let (path, found) = doubts(&data, 2, [0.0, 0.0], [3.9, 0.0]);
        assert_eq!((path.recorded, found.jumps[0].recorded), (Some(0), 0));
    }

    #[test]
    fn a_jump_that_was_recorded_is_none() {
        let mut trajectories: Vec<Vec<[f32; 2]>> =
            (0..5).map(|_| (0..20).map(|x| [0.1 * x as f32, 0.0]).collect()).collect();
        trajectories.push(vec![[1.9, 0.0], [8.0, 0.0]]);
        let (path, found) = doubts(&dataset(&trajectories), 1_000, [0.0, 0.0], [8.0, 0.0]);
        assert_eq!(path.recorded, Some(20));
        assert_eq!(found, Doubts::default(), "a teleporter of the world");
    }

    #[test]
    fn a_joint_of_trajectories_that_never_meet_is_bridged() {
        // The middle node stands for both ends, at x = 4 and x = 5.
        let left = (0..41).map(|x| [0.1 * x as f32, 0.0]).collect();
        let right = (50..91).map(|x| [0.1 * x as f32, 0.0]).collect();
        let mut data = vec![left, right];
        data.push(vec![[0.0, 0.0]; 2]);
        let (_, fine) = doubts(&dataset(&data), 1_000, [0.0, 0.0], [4.0, 0.0]);
        assert_eq!(fine, Doubts::default());
        let path = Path {
            states: [0.0, 0.0, 4.5, 9.0, 9.0].map(|x| vec![x, 0.0]).to_vec(),
            steps: 9.0,
            direct: 9.0,
            recorded: Some(2),
            hops: vec![
                super::super::Hop { trajectory: 0, recorded: 2, leaves: 35, arrives: 37 },
                super::super::Hop { trajectory: 1, recorded: 2, leaves: 45, arrives: 47 },
            ],
            doubted: 0,
            radius: 0.0,
            trajectories: vec![0, 1],
            ending: super::super::PathEnding::Arrived,
            novelty: super::super::Novelty { start: 0.0, goal: 1.5 },
        };
        let found = Doubts::of(&path, &dataset(&data), &[0, 1]).unwrap();
        assert_eq!(found.far, [("goal", 1.5)]);
        let [bridge] = found.bridges[..] else { panic!("{found:?}") };
        assert_eq!((bridge.at, bridge.recorded), (2, 2));
        assert!((bridge.typical_steps - 17.0).abs() < 0.01, "{bridge:?}");
        // From 0.0 to 3.5, from 3.7 to 5.4 and from 5.6 to 9.0.
        assert!((found.uncovered - (35.0 + 17.0 + 34.0)).abs() < 0.01, "{found:?}");
    }
}
