//! Pinwheel: a square ring of corridors with a dead-end spur inside each corner.
//!
//! p′ = p + 0.04 a + 0.008 N(0, I), the norm of a clipped to 1; a move that leaves the corridors is
//! tried whole, then along x only, then along y only, else the point stays.
//!
//! Corner k is followed by side k, which ends in corner k + 1; spur k leads from corner k toward the
//! centre. Recorded family k runs along side k and then into spur k + 1, so no trajectory passes a
//! corner along the ring, and whoever wants to must join two families there.

use std::ops::Range;

use super::maze::Place;
use super::{Environment, Episodes, Recording, Task};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::random::{Draws, Purpose, Stream};

/// Half the width of a corridor.
pub const HALF_WIDTH: f64 = 0.05;
/// The way of one step at full speed.
pub const STRIDE: f64 = 0.04;
/// The standard deviation of the noise of one step, on each axis.
pub const NOISE: f64 = 0.008;
/// The distance from the goal within which an episode has succeeded.
pub const RADIUS: f64 = 0.05;
/// The chance of a jump in a step from a spur's tip, where the world has shortcuts.
pub const JUMP_CHANCE: f64 = 0.02;
/// Trajectories recorded of each family.
pub const TRAJECTORIES_PER_FAMILY: usize = 100;
/// Steps of a recorded trajectory; it has one row more.
pub const RECORDED_STEPS: usize = 48;

/// Corners in the direction of travel, spurs' tips beside them: 0.27 inward on each axis.
const CORNERS: [Place; 4] = [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]];
const TIPS: [Place; 4] = [[0.37, 0.37], [0.63, 0.37], [0.63, 0.63], [0.37, 0.63]];

/// How far sides and tips are from the middle of the square, on each axis.
const SIDE_FROM_CENTRE: f64 = 0.4;
const TIP_FROM_CENTRE: f64 = 0.13;

/// The four sides, then the four spurs.
const CENTRE_LINES: [Line; 8] = [
    [CORNERS[0], CORNERS[1]],
    [CORNERS[1], CORNERS[2]],
    [CORNERS[2], CORNERS[3]],
    [CORNERS[3], CORNERS[0]],
    [CORNERS[0], TIPS[0]],
    [CORNERS[1], TIPS[1]],
    [CORNERS[2], TIPS[2]],
    [CORNERS[3], TIPS[3]],
];

/// Recorded starts lie this far from a corner, on each axis.
const START_JITTER: f64 = 0.03;
/// A recorded trajectory turns into the spur within this distance of its aim at the corner.
const ARRIVAL: f64 = 0.035;
/// Aims are shifted this far on each axis, once for a trajectory; half as far in the spur.
const AIM_JITTER: f64 = 0.02;
/// Farther than this from its side and its spur a trajectory has passed a corner.
const STRAY: f64 = 0.1;
/// The greatest speed of a recorded trajectory, and the noise of its actions.
const CRUISE: f64 = 0.8;
const ACTION_NOISE: f64 = 0.3;
/// Goals lie this near to a centre line, and this far at least from the start.
const GOAL_OFFSET: f64 = 0.03;
const LEAST_GAP: f64 = 0.1;

/// A straight line from one point to another.
type Line = [Place; 2];

/// What happens at the tip of a spur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tips {
    /// Nothing: a dead end.
    Closed,
    /// A step from within a half-width of the tip is, with [`JUMP_CHANCE`], a jump to a point drawn
    /// uniformly from the centre lines of the ring.
    Shortcut,
}

/// The pinwheel world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pinwheel {
    tips: Tips,
}

impl Pinwheel {
    /// The world with `tips`.
    pub const fn new(tips: Tips) -> Self {
        Self { tips }
    }

    /// What happens at the tip of a spur.
    pub fn tips(&self) -> Tips {
        self.tips
    }

    /// Whether a step from `point` may be a jump.
    pub fn may_jump(&self, point: Place) -> bool {
        self.tips == Tips::Shortcut && TIPS.iter().any(|&tip| distance(point, tip) <= HALF_WIDTH)
    }

    fn advance(&self, here: Place, action: &[f32], draws: &mut Draws) -> (Place, Motion) {
        if self.may_jump(here) && draws.uniform() < JUMP_CHANCE {
            return (on_ring(draws.uniform()).map(held), Motion::Jump);
        }
        let noise = [0; 2].map(|_| NOISE * draws.normal());
        (moved(here, add(noise, clipped(point(action)), STRIDE)), Motion::Walk)
    }

    /// One trajectory of `family`, or `None` if it strayed from the family's corridors.
    fn record_one(&self, family: usize, draws: &mut Draws) -> Option<(Vec<f32>, Vec<f32>)> {
        let shift = [0; 2].map(|_| draws.between(-AIM_JITTER, AIM_JITTER));
        let mut driver = Driver { side: family, in_spur: false, shift };
        let jitter = [0; 2].map(|_| draws.between(-START_JITTER, START_JITTER));
        let mut state = add(CORNERS[family], jitter, 1.0).map(held);
        let (mut states, mut actions) = (Vec::new(), Vec::new());
        for _ in 0..RECORDED_STEPS {
            let action = driver.act(state, draws);
            states.extend(state.map(|value| value as f32));
            actions.extend(action);
            let (next, how) = self.advance(state, &action, draws);
            state = next;
            if how == Motion::Jump {
                driver.land(state);
            }
            if driver.strays(state) {
                return None;
            }
        }
        states.extend(state.map(|value| value as f32));
        actions.extend([0.0; 2]);
        Some((states, actions))
    }
}

impl Environment for Pinwheel {
    fn state_size(&self) -> usize {
        2
    }

    fn action_size(&self) -> usize {
        2
    }

    fn discount(&self) -> f64 {
        0.95
    }

    fn horizon(&self) -> usize {
        150
    }

    fn radius(&self) -> f64 {
        RADIUS
    }

    fn step(&self, state: &mut [f64], action: &[f32], draws: &mut Draws) {
        let (next, _) = self.advance([state[0], state[1]], action, draws);
        state.copy_from_slice(&next);
    }

    fn observe(&self, state: &[f64], _draws: &mut Draws) -> Vec<f32> {
        state.iter().map(|&value| value as f32).collect()
    }

    fn episodes(&self) -> u32 {
        4 * TRAJECTORIES_PER_FAMILY as u32
    }

    fn rows(&self) -> usize {
        RECORDED_STEPS + 1
    }

    /// Records trajectories of the families in turn.
    ///
    /// A trajectory aims at the corner after its side, shifted, and having arrived at the tip behind
    /// that corner, shifted half as far, where it dwells. One that jumps continues as the family of
    /// the side it landed on; it is still listed under the family it began with. One that misses
    /// the spur and slides along the next side, about one in forty, is drawn again.
    fn record(
        &self,
        seed: u64,
        episodes: Range<u32>,
        told: &(dyn Fn() + Sync),
    ) -> Result<Episodes> {
        let stream = Stream::new(seed, Purpose::RECORDING);
        let (mut states, mut actions) = (Vec::new(), Vec::new());
        let families: Vec<u8> = episodes.clone().map(|index| (index % 4) as u8).collect();
        for (index, &family) in episodes.zip(&families) {
            let mut draws = stream.draws(0, index);
            let (path, acts) =
                std::iter::repeat_with(|| self.record_one(family.into(), &mut draws))
                    .find_map(|drawn| drawn)
                    .expect("an endless supply");
            states.extend(path);
            actions.extend(acts);
            told();
        }
        let lengths = vec![RECORDED_STEPS + 1; families.len()];
        let family_names = ["bottom", "right", "top", "left"].map(String::from).to_vec();
        let dataset = Dataset::new(states, 2, Some((actions, 2)), &lengths)?;
        Ok(Recording { dataset, families, family_names }.into())
    }

    /// Starts are drawn from the recorded states on the ring, goals uniformly from the points within
    /// 0.03 of a centre line, start and goal more than 0.1 apart. From the ring every goal can be
    /// reached along recorded motion; from inside a spur none can, so no task starts there.
    fn tasks(&self, seed: u64, count: usize, data: &Dataset) -> Result<Vec<Task>> {
        let mut on_ring = 0;
        each_on_ring(data, |_| on_ring += 1)?;
        if on_ring == 0 {
            return Err(Error::input("no recorded state lies on the ring of the pinwheel")
                .hint("evaluate with data recorded in this world"));
        }
        let stream = Stream::new(seed, Purpose::TASKS);
        // Which of the states on the ring each task starts from; of all states only these are kept.
        let place = |index: u32| stream.draws(0, index).below(on_ring);
        let mut starts: Vec<(u32, Place)> =
            (0..count as u32).map(|index| (place(index), [0.0; 2])).collect();
        starts.sort_unstable_by_key(|&(place, _)| place);
        let (mut passed, mut next) = (0, 0);
        each_on_ring(data, |state| {
            while starts.get(next).is_some_and(|&(place, _)| place == passed) {
                starts[next].1 = state;
                next += 1;
            }
            passed += 1;
        })?;
        let draw = |index| {
            let mut draws = stream.draws(0, index);
            let place = draws.below(on_ring);
            let start = starts[starts.partition_point(|&(other, _)| other < place)].1;
            let goal = loop {
                let goal = [draws.uniform(), draws.uniform()].map(held);
                if offset(goal) <= GOAL_OFFSET && distance(start, goal) > LEAST_GAP {
                    break goal;
                }
            };
            Task {
                start: start.to_vec(),
                goal: goal.map(|value| value as f32).to_vec(),
                switches: switches(start, goal),
            }
        };
        Ok((0..count as u32).map(draw).collect())
    }
}

/// Gives every recorded state that lies on the ring to `take`.
fn each_on_ring(data: &Dataset, mut take: impl FnMut(Place)) -> Result<()> {
    data.each_states(|states| {
        let states = states.chunks_exact(2).map(point);
        states.filter(|&state| sides(state).next().is_some()).for_each(&mut take);
        Ok(())
    })
}

/// How a step came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Motion {
    Walk,
    Jump,
}

/// The hand that steers a recorded trajectory.
struct Driver {
    side: usize,
    in_spur: bool,
    shift: Place,
}

impl Driver {
    fn act(&mut self, state: Place, draws: &mut Draws) -> [f32; 2] {
        let corner = (self.side + 1) % 4;
        let arrival = add(CORNERS[corner], self.shift, 1.0);
        self.in_spur |= distance(state, arrival) <= ARRIVAL;
        let aim = if self.in_spur { add(TIPS[corner], self.shift, 0.5) } else { arrival };
        let way = distance(state, aim);
        let speed = CRUISE.min(way / STRIDE) / way.max(f64::MIN_POSITIVE);
        let wish =
            [0, 1].map(|axis| (aim[axis] - state[axis]) * speed + ACTION_NOISE * draws.normal());
        clipped(wish).map(|value| value as f32)
    }

    /// Whether `state` is further from the family's side and spur than the turn of a corner is.
    fn strays(&self, state: Place) -> bool {
        let own = [self.side, 4 + (self.side + 1) % 4];
        own.iter().all(|&line| from_line(state, CENTRE_LINES[line]) > STRAY)
    }

    fn land(&mut self, state: Place) {
        self.side = (0..4)
            .min_by(|&one, &other| {
                let to = |side: usize| from_line(state, CENTRE_LINES[side]);
                to(one).total_cmp(&to(other))
            })
            .expect("a ring has sides");
        self.in_spur = false;
    }
}

/// The middle lines of the corridors: the four sides, then the four spurs.
pub fn centre_lines() -> &'static [Line] {
    &CENTRE_LINES
}

/// How far `point` is from the nearest centre line.
pub fn offset(point: Place) -> f64 {
    let [to_side, to_spur] = squared_offsets(point);
    to_side.min(to_spur).sqrt()
}

/// Whether `point` lies in a corridor.
pub fn inside(point: Place) -> bool {
    let [to_side, to_spur] = squared_offsets(point);
    to_side <= HALF_WIDTH * HALF_WIDTH || to_spur <= HALF_WIDTH * HALF_WIDTH
}

/// The squared distances of `point` from the nearest side's centre line and the nearest spur's.
///
/// The map is its own mirror image in both middle lines and both diagonals, so the point is first
/// folded into one eighth of the square, where half a side and one spur are left.
fn squared_offsets(point: Place) -> [f64; 2] {
    let [across, up] = point.map(|value| (value - 0.5).abs());
    let folded = if across >= up { [across, up] } else { [up, across] };
    let on_side = [SIDE_FROM_CENTRE, folded[1].min(SIDE_FROM_CENTRE)];
    let on_spur = [(0.5 * (across + up)).clamp(TIP_FROM_CENTRE, SIDE_FROM_CENTRE); 2];
    [on_side, on_spur].map(|foot| squared(add(folded, foot, -1.0)))
}

/// Where a displacement leads: whole if it stays in the corridors, else its x part alone, else its
/// y part alone, else nowhere.
pub fn moved(from: Place, displacement: Place) -> Place {
    let to = add(from, displacement, 1.0).map(held);
    let tries = [to, [to[0], from[1]], [from[0], to[1]]];
    tries.into_iter().find(|&next| inside(next)).unwrap_or(from)
}

/// The point at `share` of the way round the ring, from corner 0 along side 0.
pub fn on_ring(share: f64) -> Place {
    let way = share * 4.0;
    let side = (way as usize).min(3);
    let [from, to] = CENTRE_LINES[side];
    [0, 1].map(|axis| from[axis] + (to[axis] - from[axis]) * (way - side as f64))
}

/// How many times a route along recorded motion changes families between `start` and `goal`.
///
/// A point belongs to every corridor that contains it, so a point at a corner belongs to both sides
/// and the spur. Along recorded motion side k leads to side k + 1 by one switch (at corner k + 1)
/// and to spur k + 1 by none. Hence from side k
/// - to a point of side k + m, m = 1, 2, 3: m switches; to a point of side k ahead: none; behind:
///   once round the ring, 4;
/// - to a point of spur k + 1 + m, m = 0, 1, 2, 3: m switches.
///
/// The least number over the corridors of both points is taken. There is none where the start is
/// not on the ring (nothing recorded leaves a spur) or the goal is in no corridor.
pub fn switches(start: Place, goal: Place) -> Option<u8> {
    let to_goal = |side: usize| {
        let to_sides = sides(goal).map(move |other| match (other + 4 - side) % 4 {
            0 if along(goal, side) < along(start, side) => 4,
            passed => passed,
        });
        let to_spurs = spurs(goal).map(move |spur| (spur + 3 - side) % 4);
        to_sides.chain(to_spurs)
    };
    sides(start).flat_map(to_goal).min().map(|count| count as u8)
}

/// The sides that contain `point`.
pub fn sides(point: Place) -> impl Iterator<Item = usize> {
    (0..4).filter(move |&side| from_line(point, CENTRE_LINES[side]) <= HALF_WIDTH)
}

/// The spurs that contain `point`.
pub fn spurs(point: Place) -> impl Iterator<Item = usize> {
    (0..4).filter(move |&spur| from_line(point, CENTRE_LINES[4 + spur]) <= HALF_WIDTH)
}

/// How far along side `side` the point is, in the direction of travel.
fn along(point: Place, side: usize) -> f64 {
    let [from, to] = CENTRE_LINES[side];
    (0..2).map(|axis| (point[axis] - from[axis]) * (to[axis] - from[axis])).sum()
}

fn from_line(point: Place, [from, to]: Line) -> f64 {
    let way = add(to, from, -1.0);
    let gap = add(point, from, -1.0);
    let share = (gap[0] * way[0] + gap[1] * way[1]) / (way[0] * way[0] + way[1] * way[1]);
    distance(point, add(from, way, share.clamp(0.0, 1.0)))
}

pub(super) fn distance(from: Place, to: Place) -> f64 {
    squared(add(from, to, -1.0)).sqrt()
}

fn squared(way: Place) -> f64 {
    way[0].powi(2) + way[1].powi(2)
}

fn add(base: Place, further: Place, times: f64) -> Place {
    [base[0] + times * further[0], base[1] + times * further[1]]
}

fn clipped(action: Place) -> Place {
    let norm = distance(action, [0.0; 2]);
    if norm > 1.0 { action.map(|value| value / norm) } else { action }
}

/// The nearest coordinate that f32 holds, so that a recorded state is the state itself.
pub(super) fn held(value: f64) -> f64 {
    f64::from(value as f32)
}

/// A recorded state or action as a point.
pub(super) fn point(row: &[f32]) -> Place {
    [f64::from(row[0]), f64::from(row[1])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;
    use crate::simulate::{Paths, rollout};

    const CLOSED: Pinwheel = Pinwheel { tips: Tips::Closed };
    const SHORTCUT: Pinwheel = Pinwheel { tips: Tips::Shortcut };

    fn some_draws(index: u32) -> Draws {
        Stream::new(9, Purpose(0)).draws(0, index)
    }

    #[test]
    fn the_map_has_the_stated_sizes() {
        assert_eq!(centre_lines().len(), 8);
        for (line, length) in
            centre_lines().iter().zip([0.8, 0.8, 0.8, 0.8, 0.27, 0.27, 0.27, 0.27])
        {
            let spread = (0..2).map(|axis| (line[0][axis] - line[1][axis]).abs());
            assert!((spread.fold(0.0, f64::max) - length).abs() < 1e-12);
        }
        assert!(inside([0.5, 0.149]) && !inside([0.5, 0.151]));
        assert!(inside([0.37, 0.37]) && inside([0.4, 0.4]) && !inside([0.41, 0.41]));
        assert!(!inside([0.5, 0.5]) && !inside([0.3, 0.2]));
        assert!(inside([0.95, 0.1]) && !inside([0.951, 0.1]) && !inside([0.94, 0.06]));
        assert_eq!(on_ring(0.125), [0.5, 0.1]);
        let quarter = on_ring(0.875);
        assert!((quarter[0] - 0.1).abs() < 1e-12 && (quarter[1] - 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_folded_distance_is_the_least_over_all_centre_lines() {
        for index in 0..5_000 {
            let mut draws = some_draws(index);
            let point = [draws.uniform(), draws.uniform()];
            let least = centre_lines().iter().map(|&line| from_line(point, line));
            assert!((offset(point) - least.fold(f64::INFINITY, f64::min)).abs() < 1e-12);
        }
        assert!(!inside([f64::NAN, 0.1]) && !inside([0.1, f64::NAN]));
    }

    #[test]
    fn a_blocked_move_slides_along_x_then_along_y_then_stays() {
        assert_eq!(moved([0.5, 0.125], [0.125, 0.0]), [0.625, 0.125]);
        assert_eq!(moved([0.5, 0.125], [0.03125, 0.0625]), [0.53125, 0.125]);
        assert_eq!(moved([0.125, 0.5], [0.0625, 0.03125]), [0.125, 0.53125]);
        assert_eq!(moved([0.5, 0.125], [f64::NAN, 0.0625]), [0.5, 0.125]);
        // Beyond the tip of spur 1 both axes are closed.
        assert_eq!(moved([0.625, 0.40625], [-0.0625, 0.0625]), [0.625, 0.40625]);
    }

    #[test]
    fn a_free_step_has_the_stated_mean_and_noise() {
        let sample: Vec<Place> = (0..20_000)
            .map(|index| {
                let mut state = [0.5, 0.1];
                CLOSED.step(&mut state, &[3.0, 0.0], &mut some_draws(index));
                state
            })
            .collect();
        for (axis, expected) in [0.54, 0.1].into_iter().enumerate() {
            let mean = sample.iter().map(|state| state[axis]).sum::<f64>() / 20_000.0;
            let variance =
                sample.iter().map(|state| (state[axis] - mean).powi(2)).sum::<f64>() / 20_000.0;
            assert!((mean - expected).abs() < 3e-4, "axis {axis} mean {mean}");
            assert!((variance.sqrt() - NOISE).abs() < 2e-4, "axis {axis} deviation");
        }
    }

    #[test]
    fn a_recording_has_the_stated_size_and_never_leaves_the_corridors() {
        for world in [CLOSED, SHORTCUT] {
            let recording = world.generate(0).unwrap();
            let data = &recording.dataset;
            assert_eq!(data.trajectories(), 400);
            assert_eq!(data.rows() - data.trajectories(), 19_200);
            for family in 0..4 {
                assert_eq!(recording.families.iter().filter(|&&f| f == family).count(), 100);
            }
            assert!((0..data.rows()).all(|row| inside(point(data.state(row)))));
            for row in 0..data.rows() {
                let norm = distance(point(data.action(row)), [0.0; 2]);
                assert!(norm <= 1.0 + 1e-6);
                assert_eq!(data.last_row(row) == row, norm == 0.0);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_recording_and_tasks_and_another_does_not() {
        let recording = CLOSED.generate(4).unwrap();
        assert_eq!(recording, CLOSED.generate(4).unwrap());
        assert_ne!(recording, CLOSED.generate(5).unwrap());
        let tasks = CLOSED.tasks(1, 400, &recording.dataset).unwrap();
        assert_eq!(tasks[..30], CLOSED.tasks(1, 30, &recording.dataset).unwrap());
        assert_ne!(tasks[..30], CLOSED.tasks(2, 30, &recording.dataset).unwrap());
    }

    #[test]
    fn no_trajectory_passes_a_corner_and_nearly_all_dwell_in_the_next_spur() {
        let recording = CLOSED.generate(0).unwrap();
        let data = &recording.dataset;
        let mut dwelling = 0;
        for (index, &family) in recording.families.iter().enumerate() {
            let (side, corner) = (usize::from(family), (usize::from(family) + 1) % 4);
            for row in data.trajectory(index) {
                let state = point(data.state(row));
                let own = from_line(state, CENTRE_LINES[side])
                    .min(from_line(state, CENTRE_LINES[4 + corner]));
                assert!(own <= STRAY, "trajectory {index} strays to {state:?}");
            }
            let end = point(data.state(data.trajectory(index).end - 1));
            dwelling += usize::from(distance(end, TIPS[corner]) < 0.1);
        }
        assert!(dwelling >= 380, "{dwelling} of 400 dwell at the tip");
    }

    #[test]
    fn jumps_happen_at_the_stated_rate_only_at_tips_and_land_all_round_the_ring() {
        let jumps = |from: Place| -> Vec<Place> {
            (0..20_000)
                .map(|index| {
                    let mut state = from;
                    SHORTCUT.step(&mut state, &[0.0, 0.0], &mut some_draws(index));
                    state
                })
                .filter(|&state| distance(state, from) > 0.15)
                .collect()
        };
        let landed = jumps(TIPS[2]);
        // 400 expected, deviation 20.
        assert!((320..480).contains(&landed.len()), "{} jumps", landed.len());
        assert!(
            landed
                .iter()
                .all(|&state| { (0..4).any(|side| from_line(state, CENTRE_LINES[side]) < 1e-6) })
        );
        for &side in &CENTRE_LINES[..4] {
            let here = landed.iter().filter(|&&state| from_line(state, side) < 1e-6);
            assert!(here.count() > 60);
        }
        assert!(jumps([0.5, 0.1]).is_empty() && jumps([0.3, 0.3]).is_empty());
        let recorded = SHORTCUT.generate(0).unwrap().dataset;
        let rows = (0..recorded.rows() - 1).filter(|&row| recorded.last_row(row) != row);
        let leaps = rows.filter(|&row| {
            distance(point(recorded.state(row)), point(recorded.state(row + 1))) > 0.15
        });
        assert!(leaps.count() > 20);
    }

    #[test]
    fn switches_count_the_corners_passed_along_recorded_motion() {
        let middle = [0.5, 0.1];
        let cases = [
            (middle, [0.7, 0.1], 0),
            (middle, [0.9, 0.1], 0),
            (middle, [0.9, 0.5], 1),
            (middle, [0.5, 0.9], 2),
            (middle, [0.1, 0.5], 3),
            (middle, [0.3, 0.1], 4),
            (middle, TIPS[1], 0),
            (middle, TIPS[2], 1),
            (middle, TIPS[3], 2),
            (middle, TIPS[0], 3),
            // The corner behind is the end of side 3.
            (middle, CORNERS[0], 3),
            // A corner belongs to both sides: the better one counts.
            (CORNERS[1], [0.9, 0.5], 0),
            (CORNERS[1], TIPS[1], 0),
            (CORNERS[1], TIPS[2], 0),
            (CORNERS[1], [0.5, 0.1], 3),
            // Just past the corner its spur lies behind.
            ([0.9, 0.2], TIPS[1], 3),
            ([0.1, 0.8], [0.3, 0.1], 1),
        ];
        for (start, goal, expected) in cases {
            assert_eq!(switches(start, goal), Some(expected), "{start:?} to {goal:?}");
        }
        assert_eq!(switches(TIPS[1], middle), None);
        assert_eq!(switches(middle, [0.5, 0.5]), None);
    }

    #[test]
    fn tasks_follow_the_protocol_and_cover_all_classes() {
        let data = CLOSED.generate(0).unwrap().dataset;
        let tasks = CLOSED.tasks(0, 400, &data).unwrap();
        let mut classes = [0; 5];
        for task in &tasks {
            let (start, goal) = ([task.start[0], task.start[1]], point(&task.goal));
            assert!(distance(start, goal) > 0.1 && offset(goal) <= 0.03);
            assert!(sides(start).next().is_some());
            classes[usize::from(task.switches.unwrap())] += 1;
        }
        assert!(classes.iter().all(|&count| count > 15), "{classes:?}");
        let elsewhere = Dataset::new(vec![0.5; 4], 2, None, &[2]).unwrap();
        assert!(CLOSED.tasks(0, 1, &elsewhere).is_err());
    }

    /// Goes along recorded motion only: sides forward, into a spur from its corner, always back to
    /// the middle of the corridor.
    fn expert(state: Place, goal: Place) -> [f32; 2] {
        let nearest_line = |point: Place| {
            let near = |&one: &usize, &other: &usize| {
                from_line(point, CENTRE_LINES[one])
                    .total_cmp(&from_line(point, CENTRE_LINES[other]))
            };
            (0..8).min_by(near).unwrap()
        };
        let last = nearest_line(goal);
        let corner = (0..4).find(|&corner| distance(state, CORNERS[corner]) <= 0.03);
        let lane = match corner {
            Some(corner) if last == 4 + corner => last,
            Some(corner) => corner,
            None => nearest_line(state),
        };
        let [from, to] = CENTRE_LINES[lane];
        let way = add(to, from, -1.0);
        let length = distance(from, to);
        let share = |point: Place| {
            let gap = add(point, from, -1.0);
            (gap[0] * way[0] + gap[1] * way[1]) / (length * length)
        };
        let arriving = lane == last && (lane >= 4 || share(goal) > share(state));
        let far = if arriving { share(goal) } else { f64::from(u8::from(lane < 4)) };
        let ahead = far.clamp(share(state) - 0.06 / length, share(state) + 0.06 / length);
        let aim =
            if distance(state, goal) < 0.07 { goal } else { add(from, way, ahead.clamp(0.0, 1.0)) };
        let gap = distance(state, aim).max(1e-9);
        let speed = (gap / STRIDE).min(1.0) / gap;
        [0, 1].map(|axis| ((aim[axis] - state[axis]) * speed) as f32)
    }

    #[test]
    fn an_expert_that_knows_the_map_solves_the_tasks_within_the_horizon() {
        for world in [CLOSED, SHORTCUT] {
            let data = world.generate(0).unwrap().dataset;
            let tasks = world.tasks(0, 400, &data).unwrap();
            let policy = |states: &[f32], goals: &[f32], actions: &mut [f32]| {
                let rows = states.chunks_exact(2).zip(goals.chunks_exact(2));
                for ((state, goal), action) in rows.zip(actions.chunks_exact_mut(2)) {
                    action.copy_from_slice(&expert(point(state), point(goal)));
                }
            };
            let outcomes = rollout(&world, &tasks, 0, Paths::Forget, &policy);
            let reached = outcomes.iter().filter(|outcome| outcome.reached).count();
            assert!(reached >= 380, "{reached} of 400");
        }
    }
}
