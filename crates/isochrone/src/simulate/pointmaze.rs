//! Point mazes: OGBench's ball in the medium, large, giant and teleport maze.
//!
//! A state is the place of the ball. Where there are portals it is followed by the place that is
//! seen: a jump shows one step later than it happens, as in the benchmark.

use std::ops::Range;

use rayon::prelude::*;

use super::course::Course;
use super::drive::{Driver, Start, scattered};
use super::maze::{Maze, Place};
use super::{Environment, Episodes, ExtraArray, Recording, Task, point};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::random::{Draws, Purpose, Stream};

/// A ball in a maze.
pub struct PointMaze {
    course: Course,
    maze: Maze,
}

/// The rows of one recorded episode.
struct Episode {
    observations: Vec<f32>,
    actions: Vec<f32>,
    places: Vec<f32>,
    velocities: Vec<f32>,
}

impl PointMaze {
    /// The ball of `course`.
    pub fn new(course: Course) -> Self {
        Self { course, maze: Maze::new(course.map) }
    }

    /// The maze.
    pub fn maze(&self) -> &Maze {
        &self.maze
    }

    /// One step: the ball as the walls leave it, then where it is after portals.
    fn advance(&self, place: Place, action: &[f32], draws: &mut Draws) -> (point::Motion, Place) {
        let motion = point::advance(&self.maze, place, [action[0], action[1]]);
        (motion, self.maze.portal(motion.place, draws).unwrap_or(motion.place))
    }

    fn record_one(&self, draws: &mut Draws) -> Episode {
        let rows = self.course.rows();
        let empty = || Vec::with_capacity(2 * rows);
        let mut episode = Episode {
            observations: empty(),
            actions: empty(),
            places: empty(),
            velocities: empty(),
        };
        let (mut driver, start) = Driver::new(self.course, &self.maze, draws);
        let mut place = match start {
            Start::At(place) => place,
            Start::Origin => [0.0; 2],
        };
        let mut seen = place;
        // A benchmark's first row has a velocity that nothing ever feels.
        let mut velocity = [0; 2].map(|_| 0.1 * draws.normal());
        for step in 0..rows {
            let direction = driver.direction(place, step, draws);
            let action = direction.map(|value| {
                (value + self.course.noise() * draws.normal()).clamp(-1.0, 1.0) as f32
            });
            episode.observations.extend(seen.map(|value| value as f32));
            episode.actions.extend(action);
            episode.places.extend(place.map(|value| value as f32));
            episode.velocities.extend(velocity.map(|value| value as f32));
            let (motion, after) = self.advance(place, &action, draws);
            (seen, velocity, place) = (motion.place, motion.velocity, after);
            driver.moved(place, draws);
        }
        episode
    }
}

impl Environment for PointMaze {
    fn state_size(&self) -> usize {
        2
    }

    fn action_size(&self) -> usize {
        2
    }

    fn discount(&self) -> f64 {
        self.course.discount()
    }

    fn horizon(&self) -> usize {
        self.course.horizon()
    }

    fn radius(&self) -> f64 {
        self.course.radius()
    }

    fn groups(&self) -> usize {
        self.course.map.errands().len()
    }

    fn step(&self, state: &mut [f64], action: &[f32], draws: &mut Draws) {
        let (motion, after) = self.advance([state[0], state[1]], action, draws);
        state[..2].copy_from_slice(&after);
        if let Some(seen) = state.get_mut(2..) {
            seen.copy_from_slice(&motion.place[..seen.len()]);
        }
    }

    fn observe(&self, state: &[f64], _draws: &mut Draws) -> Vec<f32> {
        state[state.len() - 2..].iter().map(|&value| value as f32).collect()
    }

    fn episodes(&self) -> u32 {
        self.course.episodes()
    }

    fn rows(&self) -> usize {
        self.course.rows()
    }

    /// Records episodes as OGBench's generator does; see [`super::course::Kind`]. Beside what is
    /// seen a file holds place and velocity, `qpos` and `qvel`.
    fn record(
        &self,
        seed: u64,
        episodes: Range<u32>,
        told: &(dyn Fn() + Sync),
    ) -> Result<Episodes> {
        let stream = Stream::new(seed, Purpose::RECORDING);
        let count = episodes.len();
        let recorded: Vec<Episode> = episodes
            .into_par_iter()
            .map(|index| {
                let episode = self.record_one(&mut stream.draws(0, index));
                told();
                episode
            })
            .collect();
        let joined = |part: fn(&Episode) -> &[f32]| -> Vec<f32> {
            recorded.iter().flat_map(|episode| part(episode).iter().copied()).collect()
        };
        let lengths = vec![self.course.rows(); count];
        let actions = Some((joined(|episode| &episode.actions), 2));
        let dataset = Dataset::new(joined(|episode| &episode.observations), 2, actions, &lengths)?;
        let further = vec![
            ExtraArray { name: "qpos", width: 2, values: joined(|episode| &episode.places) },
            ExtraArray { name: "qvel", width: 2, values: joined(|episode| &episode.velocities) },
        ];
        Ok(Episodes { recording: Recording::of_one_kind(dataset, self.course.name()), further })
    }

    /// The benchmark's tasks in turn, every start and goal drawn anew around the middle of its cell.
    fn tasks(&self, seed: u64, count: usize, _data: &Dataset) -> Result<Vec<Task>> {
        let errands = self.course.map.errands();
        if errands.is_empty() {
            return Err(Error::input(format!("`{}` has no tasks", self.course.name())));
        }
        let stream = Stream::new(seed, Purpose::TASKS);
        let draw = |index: usize| {
            let mut draws = stream.draws(0, index as u32);
            let (from, to) = errands[index % errands.len()];
            let mut start = scattered(from, &mut draws).to_vec();
            if self.maze.has_portals() {
                start.extend_from_within(..);
            }
            let goal = scattered(to, &mut draws).map(|value| value as f32).to_vec();
            Task { start, goal, switches: None }
        };
        Ok((0..count).map(draw).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::course::{Body, Kind};
    use super::super::maze::{Map, distance};
    use super::super::{Paths, rollout};
    use super::*;

    fn world(map: Map, kind: Kind) -> PointMaze {
        PointMaze::new(Course { body: Body::Point, map, kind })
    }

    #[test]
    fn episodes_are_functions_of_seed_and_number_for_any_threads() {
        let world = world(Map::Large, Kind::Stitch);
        let all = world.record(5, 0..40, &|| {}).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        assert_eq!(pool.install(|| world.record(5, 0..40, &|| {})).unwrap(), all);
        let later = world.record(5, 30..40, &|| {}).unwrap().recording.dataset;
        let dataset = &all.recording.dataset;
        assert_eq!(later.states(), &dataset.states()[30 * 201 * 2..]);
        assert_ne!(world.record(6, 0..40, &|| {}).unwrap(), all);
        assert_eq!((dataset.trajectories(), dataset.rows()), (40, 40 * 201));
    }

    #[test]
    fn recorded_rows_follow_the_physics_and_every_episode_is_told_of() {
        let world = world(Map::Medium, Kind::Navigate);
        let told = std::sync::atomic::AtomicUsize::new(0);
        let count = || {
            told.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        let found = world.record(1, 0..5, &count).unwrap();
        assert_eq!(told.into_inner(), 5);
        let data = found.recording.dataset;
        for row in (0..data.rows()).filter(|&row| data.last_row(row) != row) {
            let (here, next) = (data.state(row), data.state(row + 1));
            let place = [f64::from(here[0]), f64::from(here[1])];
            let action = [data.action(row)[0], data.action(row)[1]];
            let moved = point::advance(&world.maze, place, action).place;
            assert!((0..2).all(|axis| (moved[axis] - f64::from(next[axis])).abs() < 1e-4));
        }
        assert_eq!(found.further[0].values, data.states(), "without portals what is seen is true");
    }

    #[test]
    fn tasks_are_the_benchmarks_five_in_turn() {
        let world = world(Map::Giant, Kind::Navigate);
        let data = world.record(0, 0..1, &|| {}).unwrap().recording.dataset;
        let tasks = world.tasks(3, 25, &data).unwrap();
        assert_eq!(tasks[..7], world.tasks(3, 7, &data).unwrap());
        assert_eq!(world.groups(), 5);
        for (index, task) in tasks.iter().enumerate() {
            let (from, to) = Map::Giant.errands()[index % 5];
            assert_eq!(world.maze.cell_at([task.start[0], task.start[1]]), from);
            let goal = [f64::from(task.goal[0]), f64::from(task.goal[1])];
            assert_eq!(world.maze.cell_at(goal), to);
            assert!(distance(goal, Maze::centre(to)) <= 2.0_f64.sqrt());
        }
        assert_ne!(tasks[0], tasks[5]);
    }

    #[test]
    fn who_follows_the_cells_reaches_every_goal_before_the_horizon() {
        for map in [Map::Medium, Map::Large, Map::Giant] {
            let world = world(map, Kind::Navigate);
            let data = world.record(0, 0..1, &|| {}).unwrap().recording.dataset;
            let tasks = world.tasks(0, 20, &data).unwrap();
            let outcomes = rollout(&world, &tasks, 0, Paths::Keep, &|states, goals, actions| {
                for (row, action) in actions.chunks_mut(2).enumerate() {
                    let at = |of: &[f32]| [0, 1].map(|axis| f64::from(of[2 * row + axis]));
                    let (here, goal) = (at(states), at(goals));
                    let cells = (world.maze.cell_at(here), world.maze.cell_at(goal));
                    let next = world.maze.next(cells.0, cells.1);
                    let aim = if cells.0 == cells.1 { goal } else { Maze::centre(next) };
                    for axis in [0, 1] {
                        action[axis] = (5.0 * (aim[axis] - here[axis])).clamp(-1.0, 1.0) as f32;
                    }
                }
            });
            for (index, (outcome, task)) in outcomes.iter().zip(&tasks).enumerate() {
                assert!(outcome.reached && outcome.steps < 1_000);
                let last = outcome.path.last().unwrap();
                let from = (last[0] - task.goal[0]).hypot(last[1] - task.goal[1]);
                assert!(from <= 1.0 && from > 0.7, "it ends at the first step within the radius");
                let (from, to) = map.errands()[index % 5];
                let cells = f64::from(world.maze.steps(from, to).unwrap());
                assert!(f64::from(outcome.steps) > (cells - 1.0) * 4.0 / 0.29);
            }
        }
    }

    #[test]
    fn a_jump_shows_one_step_later() {
        let world = world(Map::Teleport, Kind::Navigate);
        let found = world.record(0, 0..20, &|| {}).unwrap();
        let data = &found.recording.dataset;
        let places = found.further[0].values.chunks(2).collect::<Vec<_>>();
        let gap = |one: &[f32], other: &[f32]| (one[0] - other[0]).hypot(one[1] - other[1]);
        let mut jumps = 0;
        for row in (0..data.rows()).filter(|&row| data.last_row(row) > row + 1) {
            if data.state(row) != places[row] {
                jumps += 1;
                assert!(gap(data.state(row), places[row]) > 2.0);
                assert!(gap(data.state(row + 1), places[row]) < 0.5, "seen where it jumped to");
            }
        }
        assert!(jumps > 10, "{jumps}");
        let mut state = world.tasks(0, 1, data).unwrap().remove(0).start;
        assert_eq!(state.len(), 4);
        let [x, y] = Maze::centre(super::super::maze::Cell { row: 4, column: 6 });
        state.copy_from_slice(&[x, y - 1.6, x, y - 1.6]);
        let mut draws = Stream::new(0, Purpose::TASKS).draws(0, 0);
        world.step(&mut state, &[0.0, 1.0], &mut draws);
        assert_eq!(world.observe(&state, &mut draws), [x as f32, (y - 1.4) as f32]);
        assert!(distance([state[0], state[1]], [x, y]) > 3.0);
    }
}
