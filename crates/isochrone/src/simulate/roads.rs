//! Roads: eight families of noisy directed curves in the plane, after the 2-D task of Myers, Zheng,
//! Dragan, Levine, Eysenbach: "Learning temporal distances: contrastive successor features can
//! provide a metric structure for decision-making" (2024), whose figure this world rebuilds.
//!
//! A step goes toward the successor s* nearest to s + a:
//! s′ = the neighbour of s nearest to s + 1.5 δ/‖δ‖, δ = s* + N(0, I) − s.
//!
//! The legs of a path follow one another: each begins where the last one ended. Curves are averaged
//! with their ends repeated, so that they begin and end at their waypoints, slowly. A path has a
//! thousand points at most, shared out evenly over its legs.
//!
//! Neighbours lie within about 0.5 of a state, so a step moves 0.4 however far it aims, and a quarter
//! of that is progress. Of 300 tasks (seed 1,000) a controller that knows the map and takes the way of
//! fewest successors reaches 98 %, in 700 steps on average, and 92 % from what is observed; uniform
//! actions reach 39 %, heading straight for the goal 29 %. Value iteration on sampled motion reached
//! 20 of 20. Along successors 64 % of the pairs are connected with four families and 99 % with eight
//! (the authors: 68 % and 100 %).

use std::ops::Range;

use super::buckets::Buckets;
use super::maze::Place;
use super::{Environment, Episodes, Recording, Task};
use crate::data::Dataset;
use crate::error::Result;
use crate::random::{Draws, Purpose, Stream};

/// The seed of the map that goes by the name `roads`.
pub const SEED: u64 = 0;
/// States of the world: a sample of all path points.
pub const STATES: usize = 20_000;
/// The length of a step before it is snapped to a state.
pub const STRIDE: f64 = 1.5;
/// Recorded rollouts.
pub const ROLLOUTS: usize = 2_000;
/// The mean length of a recorded rollout, in steps.
pub const MEAN_STEPS: f64 = 24.0;
/// The greatest length of a recorded rollout, in steps.
pub const MOST_STEPS: usize = 200;

/// Path points that make up the surroundings of a state, and how far away they may be.
const SURROUNDINGS: usize = 100;
const REACH: f64 = 3.0;
/// The greatest number of points of a path, shared out over its legs.
const MOST_POINTS: usize = 1_000;
/// Points along its path that a successor lies ahead.
const AHEAD: usize = 8;
/// The standard deviation of an observation.
const SENSOR_NOISE: f64 = 0.2;
/// Random states of which the farthest becomes the goal of a task.
const GOAL_CANDIDATES: usize = 10;
/// The width of a bucket of the searches; any width gives the same answers.
const BUCKET: f64 = 0.5;

struct Family {
    name: &'static str,
    waypoints: &'static [Place],
    /// Where the noise of its paths is greatest.
    source: Place,
    paths: usize,
    /// Points of the moving average; a straight family has none.
    window: usize,
}

const FAMILIES: [Family; 8] = [
    Family {
        name: "blue",
        waypoints: &[[-20.0, 0.0], [20.0, 0.0]],
        source: [0.0, 0.0],
        paths: 30,
        window: 0,
    },
    Family {
        name: "red",
        waypoints: &[[0.0, 20.0], [0.0, -20.0]],
        source: [0.0, 0.0],
        paths: 30,
        window: 0,
    },
    Family {
        name: "green",
        waypoints: &[
            [0.0, 20.0],
            [-5.0, 30.0],
            [15.0, 30.0],
            [30.0, 15.0],
            [30.0, -5.0],
            [20.0, 0.0],
        ],
        source: [21.0, 21.0],
        paths: 15,
        window: 20,
    },
    Family {
        name: "purple",
        waypoints: &[[0.0, -20.0], [-30.0, -20.0], [-30.0, 20.0], [0.0, 20.0]],
        source: [-10.0, 0.0],
        paths: 15,
        window: 40,
    },
    Family {
        name: "fifth",
        waypoints: &[[-24.0, 10.0], [-40.0, 20.0], [-30.0, 45.0]],
        source: [-24.0, 10.0],
        paths: 15,
        window: 30,
    },
    Family {
        name: "sixth",
        waypoints: &[[-30.0, 45.0], [-14.0, 38.0], [0.0, 20.0]],
        source: [-10.0, 10.0],
        paths: 15,
        window: 30,
    },
    Family {
        name: "seventh",
        waypoints: &[[21.5, 22.0], [30.0, 45.0], [-20.0, 50.0], [-15.0, 35.0]],
        source: [21.0, 21.0],
        paths: 15,
        window: 30,
    },
    Family {
        name: "eighth",
        waypoints: &[[20.0, 0.0], [12.0, -35.0], [-30.0, -35.0], [-20.0, 0.5]],
        source: [0.0, 0.0],
        paths: 15,
        window: 30,
    },
];

/// The roads world: its states and where one can go from each.
pub struct Roads {
    states: Buckets,
    families: Vec<u8>,
    successors: Surroundings,
    neighbours: Surroundings,
}

/// For every state a list of others.
#[derive(Default, PartialEq)]
struct Surroundings {
    ends: Vec<u32>,
    members: Vec<u32>,
}

impl Surroundings {
    /// Appends the list of the next state; what is in it twice is kept once.
    fn push(&mut self, states: impl Iterator<Item = u32>) {
        let first = self.members.len();
        for state in states {
            if !self.members[first..].contains(&state) {
                self.members.push(state);
            }
        }
        self.ends.push(self.members.len() as u32);
    }

    fn of(&self, state: usize) -> &[u32] {
        let first = if state == 0 { 0 } else { self.ends[state - 1] };
        &self.members[first as usize..self.ends[state] as usize]
    }
}

impl Roads {
    /// Draws the map of `seed`.
    pub fn new(seed: u64) -> Self {
        Self::of_families(&FAMILIES, seed)
    }

    fn of_families(families: &[Family], seed: u64) -> Self {
        let stream = Stream::new(seed, Purpose::MAP);
        let (mut points, mut ends, mut members) = (Vec::new(), Vec::new(), Vec::new());
        for (index, family) in families.iter().enumerate() {
            let curve = curve(family.waypoints, family.window);
            for path in 0..family.paths {
                let mut draws = stream.draws(1 + index as u64, path as u32);
                points.extend(path_along(&curve, family.source, &mut draws));
                ends.resize(points.len(), points.len() as u32 - 1);
                members.resize(points.len(), index as u8);
            }
        }
        let chosen = sample(points.len(), STATES, &mut stream.draws(0, 0));
        let states =
            Buckets::new(chosen.iter().map(|&index| points[index as usize]).collect(), BUCKET);
        let families = chosen.iter().map(|&index| members[index as usize]).collect();
        let home: Vec<u32> = points.iter().map(|&point| states.nearest(point)).collect();
        let paths = Buckets::new(points, BUCKET);
        let (mut successors, mut neighbours) = (Surroundings::default(), Surroundings::default());
        for &state in &chosen {
            let near = paths.nearest_within(paths.point(state), SURROUNDINGS, REACH);
            neighbours.push(near.iter().map(|&index| home[index as usize]));
            successors.push(near.iter().map(|&index| {
                let ahead = (index + AHEAD as u32).min(ends[index as usize]);
                home[ahead as usize]
            }));
        }
        Self { states, families, successors, neighbours }
    }

    /// How many states the world has.
    pub fn states(&self) -> usize {
        self.families.len()
    }

    /// State `index`.
    pub fn state(&self, index: usize) -> [f64; 2] {
        self.states.point(index as u32)
    }

    /// The states that motion along the paths leads to from state `index`.
    pub fn successors(&self, index: usize) -> &[u32] {
        self.successors.of(index)
    }

    /// The states that a step from state `index` can end in.
    pub fn neighbours(&self, index: usize) -> &[u32] {
        self.neighbours.of(index)
    }

    /// The states' own family: the one whose path they lie on.
    pub fn families(&self) -> &[u8] {
        &self.families
    }

    /// Where a step from state `index` aims: [`STRIDE`] away, toward the successor nearest to the
    /// state plus the action, displaced by noise.
    fn aim(&self, index: usize, action: [f64; 2], draws: &mut Draws) -> Place {
        let here = self.state(index);
        let wish = plus(here, unit(action), 1.0);
        let nearest = self.nearest_of(self.successors(index), wish);
        let there = plus(self.state(nearest), normal(draws), 1.0);
        plus(here, unit(minus(there, here)), STRIDE)
    }

    /// The state nearest to `place`.
    pub fn nearest(&self, place: [f64; 2]) -> usize {
        self.states.nearest(place) as usize
    }

    /// The first of `candidates` that is nearest to `place`; there must be one.
    pub(super) fn nearest_of(&self, candidates: &[u32], place: Place) -> usize {
        let mut best = (f64::INFINITY, 0);
        for &index in candidates {
            let [across, up] = minus(self.states.point(index), place);
            let gap = across * across + up * up;
            if gap < best.0 {
                best = (gap, index as usize);
            }
        }
        best.1
    }

    fn random_state(&self, draws: &mut Draws) -> usize {
        draws.below(self.states() as u32) as usize
    }

    fn record_one(&self, start: usize, draws: &mut Draws) -> (Vec<f32>, Vec<f32>) {
        let stopping = 1.0 / MEAN_STEPS;
        let steps = 1 + (draws.uniform().ln() / (1.0 - stopping).ln()) as usize;
        let bias = normal(draws);
        let mut state = self.state(start);
        let (mut states, mut actions) = (self.observe(&state, draws), Vec::new());
        for _ in 0..steps.min(MOST_STEPS) {
            let action = unit(plus(bias, normal(draws), 1.0)).map(|value| value as f32);
            actions.extend(action);
            self.step(&mut state, &action, draws);
            states.extend(self.observe(&state, draws));
        }
        actions.extend([0.0; 2]);
        (states, actions)
    }
}

impl Environment for Roads {
    fn state_size(&self) -> usize {
        2
    }

    fn action_size(&self) -> usize {
        2
    }

    fn discount(&self) -> f64 {
        0.8
    }

    fn horizon(&self) -> usize {
        2_000
    }

    fn radius(&self) -> f64 {
        2.0
    }

    fn step(&self, state: &mut [f64], action: &[f32], draws: &mut Draws) {
        let index = self.nearest([state[0], state[1]]);
        let aim = self.aim(index, [f64::from(action[0]), f64::from(action[1])], draws);
        let next = self.nearest_of(self.neighbours(index), aim);
        state.copy_from_slice(&self.state(next));
    }

    fn observe(&self, state: &[f64], draws: &mut Draws) -> Vec<f32> {
        state.iter().map(|&value| (value + SENSOR_NOISE * draws.normal()) as f32).collect()
    }

    fn episodes(&self) -> u32 {
        ROLLOUTS as u32
    }

    fn rows(&self) -> usize {
        MEAN_STEPS as usize
    }

    /// Records random walks from uniform states: actions of unit length around a
    /// direction of the walk's own, as many as a geometric law says. The states are as observed. A
    /// walk belongs to the family on whose path it starts.
    fn record(
        &self,
        seed: u64,
        episodes: Range<u32>,
        told: &(dyn Fn() + Sync),
    ) -> Result<Episodes> {
        let stream = Stream::new(seed, Purpose::RECORDING);
        let (mut states, mut actions) = (Vec::new(), Vec::new());
        let (mut lengths, mut families) = (Vec::new(), Vec::new());
        for index in episodes {
            let mut draws = stream.draws(0, index);
            let start = self.random_state(&mut draws);
            let (path, acts) = self.record_one(start, &mut draws);
            lengths.push(path.len() / 2);
            families.push(self.families[start]);
            states.extend(path);
            actions.extend(acts);
            told();
        }
        let dataset = Dataset::new(states, 2, Some((actions, 2)), &lengths)?;
        let family_names = FAMILIES.iter().map(|family| family.name.to_string()).collect();
        Ok(Recording { dataset, families, family_names }.into())
    }

    /// The start is a uniform state, the goal the farthest from it of ten uniform states. The data
    /// are not looked at.
    fn tasks(&self, seed: u64, count: usize, _data: &Dataset) -> Result<Vec<Task>> {
        let stream = Stream::new(seed, Purpose::TASKS);
        let draw = |index| {
            let mut draws = stream.draws(0, index);
            let start = self.state(self.random_state(&mut draws));
            let goal = (0..GOAL_CANDIDATES)
                .map(|_| self.state(self.random_state(&mut draws)))
                .max_by(|&one, &other| {
                    norm(minus(one, start)).total_cmp(&norm(minus(other, start)))
                })
                .expect("there are candidates");
            let goal = goal.map(|value| value as f32).to_vec();
            Task { start: start.to_vec(), goal, switches: None }
        };
        Ok((0..count as u32).map(draw).collect())
    }
}

/// Halves gaps until none is above 2, averages over `window` points with the ends repeated, keeps
/// every third point and the last. A straight family (no window) keeps its waypoints.
fn curve(waypoints: &[Place], window: usize) -> Vec<Place> {
    if window == 0 {
        return waypoints.to_vec();
    }
    let mut fine = vec![waypoints[0]];
    for ends in waypoints.windows(2) {
        let way = minus(ends[1], ends[0]);
        let mut parts = 1;
        while norm(way) / parts as f64 > 2.0 {
            parts *= 2;
        }
        fine.extend((1..=parts).map(|part| plus(ends[0], way, part as f64 / parts as f64)));
    }
    let last = fine.len() - 1;
    let smooth = |index: usize| {
        let inside = |at: usize| fine[at.saturating_sub(window - 1).min(last)];
        let sum = (index..index + window).map(inside).fold([0.0; 2], |sum, p| plus(sum, p, 1.0));
        sum.map(|value| value / window as f64)
    };
    let averages = last + window;
    (0..averages).step_by(3).chain([averages - 1]).map(smooth).collect()
}

/// One noisy path along a curve, leg after leg.
fn path_along(curve: &[Place], source: Place, draws: &mut Draws) -> Vec<Place> {
    let most = match curve.len() - 1 {
        1 => MOST_POINTS,
        legs => MOST_POINTS / legs + 1,
    };
    let mut path: Vec<Place> = Vec::new();
    for &to in &curve[1..] {
        let from = path.last().copied().unwrap_or(curve[0]);
        path.extend(walk(from, to, source, most, draws));
    }
    path
}

/// One noisy leg of at most `most` points: it heads for a place one beyond `to` and ends three points
/// after coming within 0.5 of it.
fn walk(from: Place, to: Place, source: Place, most: usize, draws: &mut Draws) -> Vec<Place> {
    let mut place = plus(from, normal(draws), 0.1);
    let ahead = unit(minus(to, place));
    let goal = plus(to, ahead, 1.0);
    let mut path = vec![place];
    while path.len() < most {
        let noise = 0.02 + 0.5 * (-0.25 * norm(minus(place, source)).powi(2)).exp();
        let to_goal = unit(minus(goal, place));
        let shared = to_goal[0] * ahead[0] + to_goal[1] * ahead[1];
        let heading = unit(plus(to_goal, ahead, -0.8 * shared));
        place = plus(plus(place, heading, 0.15), normal(draws), noise);
        path.push(place);
        if path.len() >= 4 && norm(minus(path[path.len() - 4], goal)) <= 0.5 {
            break;
        }
    }
    path
}

/// `count` of the numbers below `total`, each set of them equally likely, in rising order.
fn sample(total: usize, count: usize, draws: &mut Draws) -> Vec<u32> {
    let mut chosen: Vec<u32> = (0..total as u32).collect();
    for place in 0..count.min(total) {
        let other = place + draws.below((total - place) as u32) as usize;
        chosen.swap(place, other);
    }
    chosen.truncate(count);
    chosen.sort_unstable();
    chosen
}

fn plus(base: Place, further: Place, times: f64) -> Place {
    [base[0] + times * further[0], base[1] + times * further[1]]
}

fn minus(to: Place, from: Place) -> Place {
    plus(to, from, -1.0)
}

fn norm(vector: Place) -> f64 {
    (vector[0] * vector[0] + vector[1] * vector[1]).sqrt()
}

/// The vector at length 1; a vector without a direction stays as it is.
fn unit(vector: Place) -> Place {
    let length = norm(vector);
    if length > 0.0 { vector.map(|value| value / length) } else { vector }
}

fn normal(draws: &mut Draws) -> Place {
    [0; 2].map(|_| draws.normal())
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, VecDeque};
    use std::sync::LazyLock;

    use super::*;
    use crate::random::Purpose;
    use crate::simulate::{Controller, Outcome, Paths, rollout};

    static WORLD: LazyLock<Roads> = LazyLock::new(|| Roads::new(SEED));

    fn some_draws(index: u32) -> Draws {
        Stream::new(5, Purpose(0)).draws(0, index)
    }

    /// The share of states that the successors of successors lead to.
    fn reachable_share(world: &Roads, starts: impl Iterator<Item = usize>) -> f64 {
        let shares: Vec<f64> = starts
            .map(|start| {
                let mut met = vec![false; world.states()];
                let mut open = vec![start];
                met[start] = true;
                while let Some(state) = open.pop() {
                    for &next in world.successors(state) {
                        if !met[next as usize] {
                            met[next as usize] = true;
                            open.push(next as usize);
                        }
                    }
                }
                met.iter().filter(|&&met| met).count() as f64 / met.len() as f64
            })
            .collect();
        shares.iter().sum::<f64>() / shares.len() as f64
    }

    #[test]
    fn four_families_leave_a_third_of_the_pairs_unreachable_and_eight_almost_none() {
        let starts = || (0..STATES).step_by(800);
        let four = reachable_share(&Roads::of_families(&FAMILIES[..4], SEED), starts());
        assert!((0.58..0.74).contains(&four), "four families: {four}");
        let eight = reachable_share(&WORLD, starts());
        assert!(eight > 0.98, "eight families: {eight}");
    }

    /// For every state the fewest successors that lead to within the success radius of `goal`.
    fn hops(backward: &[Vec<u32>], goal: Place) -> Vec<u32> {
        let near = |&state: &usize| norm(minus(WORLD.state(state), goal)) <= WORLD.radius();
        let mut open: VecDeque<usize> = (0..WORLD.states()).filter(near).collect();
        let mut hops = vec![u32::MAX; WORLD.states()];
        open.iter().for_each(|&state| hops[state] = 0);
        while let Some(state) = open.pop_front() {
            for &before in &backward[state] {
                if hops[before as usize] == u32::MAX {
                    hops[before as usize] = hops[state] + 1;
                    open.push_back(before as usize);
                }
            }
        }
        hops
    }

    #[test]
    fn who_knows_the_map_reaches_nine_of_ten_goals_and_who_acts_at_random_two_of_five() {
        let data = WORLD.record(0, 0..1, &|| {}).unwrap().recording.dataset;
        let tasks = WORLD.tasks(1_000, 60, &data).unwrap();
        let place = |numbers: &[f32]| [f64::from(numbers[0]), f64::from(numbers[1])];
        let mut backward = vec![Vec::new(); STATES];
        for state in 0..STATES {
            WORLD
                .successors(state)
                .iter()
                .for_each(|&next| backward[next as usize].push(state as u32));
        }
        let fields: HashMap<[u32; 2], Vec<u32>> = tasks
            .iter()
            .map(|task| {
                ([0, 1].map(|axis| task.goal[axis].to_bits()), hops(&backward, place(&task.goal)))
            })
            .collect();
        let directions: Vec<Place> = (0..16)
            .map(|part| std::f64::consts::TAU * f64::from(part) / 16.0)
            .map(|angle| [angle.cos(), angle.sin()])
            .collect();
        let knowing = |observations: &[f32], goals: &[f32], actions: &mut [f32]| {
            let rows = observations.chunks_exact(2).zip(goals.chunks_exact(2));
            for (action, (seen, goal)) in actions.chunks_exact_mut(2).zip(rows) {
                let field = &fields[&[goal[0].to_bits(), goal[1].to_bits()]];
                let state = WORLD.states.nearest(place(seen)) as usize;
                let led = |direction: &Place| {
                    let wish = plus(WORLD.state(state), *direction, 1.0);
                    let next = WORLD.nearest_of(WORLD.successors(state), wish);
                    field[next]
                };
                let best = directions.iter().min_by_key(|&direction| led(direction)).unwrap();
                action.copy_from_slice(&best.map(|value| value as f32));
            }
        };
        let random = |states: &[f32], _: &[f32], actions: &mut [f32]| {
            for (state, action) in states.chunks_exact(2).zip(actions.chunks_exact_mut(2)) {
                let mut draws = some_draws(state[0].to_bits());
                action.fill_with(|| draws.normal() as f32);
            }
        };
        let share = |policy: &Controller<'_>| {
            let outcomes = rollout(&*WORLD, &tasks, 1_000, Paths::Forget, policy);
            outcomes.iter().filter(|outcome| outcome.reached).count() as f64 / 60.0
        };
        let (knowing, random) = (share(&knowing), share(&random));
        assert!(knowing >= 0.85, "knowing the map: {knowing}");
        assert!((0.25..0.55).contains(&random), "at random: {random}");
    }

    #[test]
    fn a_step_aims_one_and_a_half_away_and_ends_on_a_neighbour() {
        for index in (0..STATES).step_by(97) {
            let action = unit(normal(&mut some_draws(index as u32)));
            let mut draws = some_draws(1 + index as u32);
            let here = WORLD.state(index);
            let aim = WORLD.aim(index, action, &mut draws);
            assert!((norm(minus(aim, here)) - 1.5).abs() < 1e-12);
            let mut state = here;
            WORLD.step(&mut state, &action.map(|x| x as f32), &mut some_draws(1 + index as u32));
            let ends = WORLD.neighbours(index).iter().map(|&i| WORLD.state(i as usize));
            assert!(ends.into_iter().any(|end| end == state));
            assert!(norm(minus(state, here)) <= REACH + 1.0);
        }
    }

    #[test]
    fn recorded_lengths_follow_the_geometric_law_and_actions_have_unit_length() {
        let recording = WORLD.generate(3).unwrap();
        let data = &recording.dataset;
        assert_eq!(data.trajectories(), 2_000);
        assert_eq!(recording.families.len(), 2_000);
        let steps: Vec<usize> = (0..2_000).map(|i| data.trajectory(i).len() - 1).collect();
        let mean = steps.iter().sum::<usize>() as f64 / 2_000.0;
        // The mean of 2,000 draws has a deviation of 0.53.
        assert!((mean - 24.0).abs() < 1.6, "mean {mean}");
        assert!(steps.iter().all(|&count| (1..=200).contains(&count)));
        let long = steps.iter().filter(|&&count| count > 24).count() as f64 / 2_000.0;
        assert!((long - (23.0f64 / 24.0).powi(24)).abs() < 0.035, "share above the mean {long}");
        for row in (0..data.rows()).filter(|&row| data.last_row(row) != row) {
            let action = data.action(row);
            assert!((action[0].hypot(action[1]) - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_map_and_the_same_recording() {
        let again = Roads::new(SEED);
        assert!(again.successors == WORLD.successors && again.neighbours == WORLD.neighbours);
        assert_eq!(again.generate(1).unwrap(), WORLD.generate(1).unwrap());
        assert_ne!(again.generate(2).unwrap(), WORLD.generate(1).unwrap());
        assert_ne!(Roads::of_families(&FAMILIES[..1], 1).states.point(0), WORLD.states.point(0));
    }

    #[test]
    fn goals_are_the_farthest_of_ten_and_the_blue_road_leads_east() {
        let data = WORLD.generate(0).unwrap().dataset;
        let tasks = WORLD.tasks(0, 400, &data).unwrap();
        let gap = |task: &Task| {
            norm(minus(
                task.goal.iter().map(|&x| f64::from(x)).collect::<Vec<_>>()[..2]
                    .try_into()
                    .unwrap(),
                [task.start[0], task.start[1]],
            ))
        };
        let mean = tasks.iter().map(gap).sum::<f64>() / 400.0;
        assert!(mean > 40.0, "mean gap {mean}");
        let west = WORLD.states.nearest([-15.0, 0.0]) as usize;
        let task =
            Task { start: WORLD.state(west).to_vec(), goal: vec![15.0, 0.0], switches: None };
        let east = |_: &[f32], _: &[f32], actions: &mut [f32]| {
            actions.chunks_exact_mut(2).for_each(|action| action.copy_from_slice(&[1.0, 0.0]));
        };
        let outcomes: Vec<Outcome> = rollout(&*WORLD, &vec![task; 20], 0, Paths::Forget, &east);
        let reached = outcomes.iter().filter(|outcome| outcome.reached).count();
        assert!(reached >= 15, "{reached} of 20");
    }

    #[test]
    fn curves_begin_and_end_at_their_waypoints_and_smooth_the_corners() {
        for family in &FAMILIES {
            let curve = curve(family.waypoints, family.window);
            assert_eq!(curve[0], family.waypoints[0]);
            assert_eq!(curve.last(), family.waypoints.last());
        }
        let corner = [-30.0, 20.0];
        let purple = curve(FAMILIES[3].waypoints, FAMILIES[3].window);
        assert!(purple.iter().all(|&point| norm(minus(point, corner)) > 3.0));
    }
}
