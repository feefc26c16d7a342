//! Ant mazes: the four-legged robot of D4RL and OGBench, simulated by MuJoCo where it is installed.
//!
//! A state is qpos(15) ++ qvel(14): x, y, z, the quaternion w x y z, eight joints, and their
//! velocities. An action of eight drives the joints for five steps of 0.02 s. Where there are portals
//! a state is followed by the place that is seen: a jump shows one step later than it happens.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use super::course::{Course, Protocol};
use super::drive::{Driver, Start, beyond, scattered};
use super::expert::Expert;
use super::maze::{Cell, Maze, ORIGIN, Place};
use super::mjcf;
use super::mujoco::{Mujoco, MujocoModel, Simulation};
use super::{Environment, Episodes, ExtraArray, Recording, Task};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::random::{Draws, Purpose, Stream};

/// Positions and velocities of the ant.
const POSITIONS: usize = 15;
const VELOCITIES: usize = 14;
const STATE: usize = POSITIONS + VELOCITIES;
const JOINTS: usize = 8;
/// Steps of the simulation in one of the world.
const SUBSTEPS: usize = 5;
/// How high the torso hangs before it falls onto its legs, in metres.
const HEIGHT: f64 = 0.75;
/// The noise of a reset: ± on positions, standard deviation on velocities.
const RESET_NOISE: f64 = 0.1;
/// Random actions after which an ant stands as goals show it.
const SETTLING: usize = 5;
/// The contact margin of the ant and of walls, in metres; the sum counts where margins are added.
const MARGIN: f64 = 0.01;

/// How far an ant may go along an axis in one step, in metres, without meeting a wall that is no neighbour
/// of its cell: such walls begin a cell's side, four metres, beyond it, and its legs reach 1.3.
const NEAR: f64 = 2.0;

/// An ant in a maze.
pub struct AntMaze {
    course: Course,
    maze: Maze,
    simulator: OnceLock<Simulator>,
}

/// The ant among all walls, and among those around each free cell: few walls take half of the time, and
/// give the same bits as long as the ant meets no other.
struct Simulator {
    all: Room,
    around: Vec<Option<Room>>,
}

/// A compiled model and simulations that wait for work.
struct Room {
    model: Arc<MujocoModel>,
    idle: Mutex<Vec<Simulation>>,
}

/// The rows of one recorded episode.
struct Episode {
    observations: Vec<f32>,
    actions: Vec<f32>,
    states: Vec<f32>,
}

impl Room {
    fn open(walls: &[Cell], mujoco: &Mujoco) -> Result<Self> {
        let margin = if mujoco.adds_margins() { 0.5 * MARGIN } else { MARGIN };
        // A few walls are compared sooner than sorted.
        let flags = if mujoco.has_midphase() { "<flag midphase=\"disable\"/>" } else { "" };
        let model = mujoco.model(&mjcf::ant(walls, margin, flags))?;
        let found = (model.positions(), model.velocities(), model.controls());
        if found != (POSITIONS, VELOCITIES, JOINTS) {
            return Err(Error::input(format!(
                "MuJoCo {} makes an ant of {found:?} positions, velocities and controls, expected \
                 {POSITIONS}, {VELOCITIES} and {JOINTS}",
                mujoco.version()
            )));
        }
        Ok(Self { model: Arc::new(model), idle: Mutex::default() })
    }

    fn advance(&self, state: &mut [f64], control: &[f64]) {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let mut simulation =
            waiting.unwrap_or_else(|| self.model.simulation().expect("memory for a simulation"));
        simulation.advance(state, control, SUBSTEPS);
        idle().push(simulation);
    }
}

impl Simulator {
    fn open(maze: &Maze, mujoco: &Mujoco) -> Result<Self> {
        let walls: Vec<Cell> = maze.walls().collect();
        let all = Room::open(&walls, mujoco)?;
        // The first one here, so that a lack of memory is told where an error can be.
        let first = all.model.simulation()?;
        all.idle.lock().unwrap_or_else(PoisonError::into_inner).push(first);
        let mut around: Vec<Option<Room>> =
            (0..maze.rows() * maze.columns()).map(|_| None).collect();
        for cell in maze.free() {
            let beside = |wall: &&Cell| {
                wall.row.abs_diff(cell.row) <= 1 && wall.column.abs_diff(cell.column) <= 1
            };
            let near: Vec<Cell> = walls.iter().filter(beside).copied().collect();
            around[maze.number(cell)] = Some(Room::open(&near, mujoco)?);
        }
        Ok(Self { all, around })
    }

    /// Moves the ant of `state` by one step of the world.
    fn advance(&self, maze: &Maze, state: &mut [f64], control: &[f64]) {
        let before = state.to_vec();
        if let Some(room) = &self.around[maze.number(maze.cell_at([state[0], state[1]]))] {
            room.advance(state, control);
            if (0..2).all(|axis| (state[axis] - before[axis]).abs() < NEAR) {
                return;
            }
            state.copy_from_slice(&before);
        }
        self.all.advance(state, control);
    }
}

impl AntMaze {
    /// The ant of `course`. MuJoCo is looked for when tasks or data are first asked for.
    pub fn new(course: Course) -> Self {
        Self { course, maze: Maze::new(course.map), simulator: OnceLock::new() }
    }

    /// The ant of `course` with a MuJoCo that is open already.
    ///
    /// # Errors
    /// MuJoCo refuses the model.
    pub fn with(course: Course, mujoco: &Mujoco) -> Result<Self> {
        let world = Self::new(course);
        let simulator = Simulator::open(&world.maze, mujoco)?;
        Ok(Self { simulator: OnceLock::from(simulator), ..world })
    }

    /// The maze.
    pub fn maze(&self) -> &Maze {
        &self.maze
    }

    fn simulator(&self) -> Result<&Simulator> {
        if let Some(simulator) = self.simulator.get() {
            return Ok(simulator);
        }
        let opened = Simulator::open(&self.maze, &Mujoco::open()?)?;
        Ok(self.simulator.get_or_init(|| opened))
    }

    /// An ant after a reset at the origin.
    fn reset(draws: &mut Draws) -> Vec<f64> {
        let mut state = vec![0.0; STATE];
        (state[2], state[3]) = (HEIGHT, 1.0);
        state[..POSITIONS].iter_mut().for_each(|x| *x += draws.between(-RESET_NOISE, RESET_NOISE));
        state[POSITIONS..].iter_mut().for_each(|v| *v = RESET_NOISE * draws.normal());
        state
    }

    /// What an ant that stands at `place` looks like: a goal.
    fn standing(&self, simulator: &Simulator, place: Place, draws: &mut Draws) -> Vec<f32> {
        let mut state = Self::reset(draws);
        for _ in 0..SETTLING {
            let action = [0; JOINTS].map(|_| draws.between(-1.0, 1.0));
            simulator.advance(&self.maze, &mut state, &action);
        }
        state[..2].copy_from_slice(&place);
        state.iter().map(|&value| value as f32).collect()
    }

    /// Moves the ant; returns the place it came to before portals.
    fn advance(
        &self,
        simulator: &Simulator,
        state: &mut [f64],
        action: &[f32],
        draws: &mut Draws,
    ) -> Place {
        let control: Vec<f64> =
            action.iter().map(|&value| f64::from(value.clamp(-1.0, 1.0))).collect();
        simulator.advance(&self.maze, &mut state[..STATE], &control);
        let seen = [state[0], state[1]];
        if let Some(out) = self.maze.portal(seen, draws) {
            state[..2].copy_from_slice(&out);
        }
        seen
    }

    /// One episode, or `None` if the ant came to lie on its back.
    fn attempt(
        &self,
        simulator: &Simulator,
        expert: &Expert,
        draws: &mut Draws,
    ) -> Option<Episode> {
        let rows = self.course.rows();
        let empty = |size: usize| Vec::with_capacity(size * rows);
        let mut episode =
            Episode { observations: empty(STATE), actions: empty(JOINTS), states: empty(STATE) };
        let (mut driver, start) = Driver::new(self.course, &self.maze, draws);
        let mut state = Self::reset(draws);
        if let Start::At(place) = start {
            state[..2].copy_from_slice(&place);
        }
        let mut seen = [state[0], state[1]];
        let narrow = |value: &f64| *value as f32;
        for step in 0..rows {
            let direction = driver.direction([state[0], state[1]], step, draws);
            let action = self.act(expert, &state, direction, draws);
            episode.observations.extend(seen.iter().chain(&state[2..]).map(narrow));
            episode.states.extend(state.iter().map(narrow));
            seen = self.advance(simulator, &mut state, &action, draws);
            episode.actions.extend(action);
            driver.moved([state[0], state[1]], draws);
            if overturned(&state) {
                return None;
            }
        }
        Some(episode)
    }

    /// OGBench takes the expert's preferred action, D4RL a drawn one; both add noise.
    fn act(&self, expert: &Expert, state: &[f64], direction: Place, draws: &mut Draws) -> Vec<f32> {
        let input: Vec<f32> =
            state[2..STATE].iter().chain(&direction).map(|&value| value as f32).collect();
        let mut action = match self.course.protocol() {
            Protocol::Ogbench => expert.prefer(&input),
            Protocol::D4rl => expert.draw(&input, draws),
        };
        let noise = self.course.noise();
        for value in &mut action {
            *value = (f64::from(*value) + noise * draws.normal()).clamp(-1.0, 1.0) as f32;
        }
        action
    }

    /// Start and goal of evaluation episode `index`, as places.
    fn ends(&self, index: usize, draws: &mut Draws) -> (Start, Place) {
        let errands = self.course.map.errands();
        match (self.course.protocol(), self.course.map.evaluated_goal()) {
            (Protocol::D4rl, goal) => (Start::Origin, beyond(goal.unwrap_or(ORIGIN), draws)),
            (Protocol::Ogbench, _) => {
                let (from, to) = errands[index % errands.len()];
                (Start::At(scattered(from, draws)), scattered(to, draws))
            }
        }
    }
}

/// Whether the ant's upward axis points down: 1 − 2 (x² + y²) of its unit quaternion is below 0.
fn overturned(state: &[f64]) -> bool {
    let [w, x, y, z] = [3, 4, 5, 6].map(|index| state[index] * state[index]);
    w + z < x + y
}

impl Environment for AntMaze {
    fn state_size(&self) -> usize {
        STATE
    }

    fn action_size(&self) -> usize {
        JOINTS
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
        match self.course.protocol() {
            Protocol::Ogbench => self.course.map.errands().len(),
            Protocol::D4rl => 1,
        }
    }

    fn step(&self, state: &mut [f64], action: &[f32], draws: &mut Draws) {
        let simulator = self.simulator().expect("tasks were drawn, so MuJoCo is open");
        let seen = self.advance(simulator, state, action, draws);
        if let Some(rest) = state.get_mut(STATE..) {
            rest.copy_from_slice(&seen[..rest.len()]);
        }
    }

    fn observe(&self, state: &[f64], _draws: &mut Draws) -> Vec<f32> {
        let place = if state.len() > STATE { &state[STATE..] } else { &state[..2] };
        place.iter().chain(&state[2..STATE]).map(|&value| value as f32).collect()
    }

    /// Only the place counts.
    fn reached(&self, state: &[f64], goal: &[f32]) -> bool {
        let place = [f64::from(goal[0]), f64::from(goal[1])];
        super::maze::distance([state[0], state[1]], place) <= self.radius()
    }

    /// A step of MuJoCo takes twenty times as long as an answer.
    fn together(&self) -> usize {
        1
    }

    fn episodes(&self) -> u32 {
        self.course.episodes()
    }

    fn rows(&self) -> usize {
        self.course.rows()
    }

    /// A million steps take minutes.
    fn records_slowly(&self) -> bool {
        true
    }

    /// Records episodes of the ant's expert as the benchmarks recorded theirs; see
    /// [`super::course::Kind`]. Beside what is seen a file holds `qpos` and `qvel`. An episode in
    /// which the ant comes to lie on its back, where it would stay, is drawn again.
    fn record(
        &self,
        seed: u64,
        episodes: Range<u32>,
        told: &(dyn Fn() + Sync),
    ) -> Result<Episodes> {
        let (simulator, expert) = (self.simulator()?, Expert::open()?);
        let stream = Stream::new(seed, Purpose::RECORDING);
        let lengths = vec![self.course.rows(); episodes.len()];
        let recorded: Vec<Episode> = episodes
            .into_par_iter()
            .with_max_len(1)
            .map(|index| {
                let mut draws = stream.draws(0, index);
                let attempts =
                    std::iter::repeat_with(|| self.attempt(simulator, &expert, &mut draws));
                let episode = attempts.flatten().next().expect("an endless supply");
                told();
                episode
            })
            .collect();
        let columns = |columns: Range<usize>| -> Vec<f32> {
            let rows = recorded.iter().flat_map(|episode| episode.states.chunks_exact(STATE));
            rows.flat_map(|row| row[columns.clone()].iter().copied()).collect()
        };
        let further = vec![
            ExtraArray { name: "qpos", width: POSITIONS, values: columns(0..POSITIONS) },
            ExtraArray { name: "qvel", width: VELOCITIES, values: columns(POSITIONS..STATE) },
        ];
        let actions = recorded.iter().flat_map(|episode| episode.actions.iter().copied()).collect();
        let seen = recorded.iter().flat_map(|episode| episode.observations.iter().copied());
        let dataset = Dataset::new(seen.collect(), STATE, Some((actions, JOINTS)), &lengths)?;
        Ok(Episodes { recording: Recording::of_one_kind(dataset, self.course.name()), further })
    }

    /// The benchmark's tasks. A goal is a whole state, of an ant that stands there; its place alone
    /// counts.
    fn tasks(&self, seed: u64, count: usize, _data: &Dataset) -> Result<Vec<Task>> {
        let simulator = self.simulator()?;
        let stream = Stream::new(seed, Purpose::TASKS);
        let draw = |index: usize| {
            let mut draws = stream.draws(0, index as u32);
            let (from, to) = self.ends(index, &mut draws);
            let mut start = Self::reset(&mut draws);
            if let Start::At(place) = from {
                start[..2].copy_from_slice(&place);
            }
            if self.maze.has_portals() {
                start.extend_from_within(..2);
            }
            let goal = self.standing(simulator, to, &mut draws);
            Task { start, goal, switches: None }
        };
        Ok((0..count).map(draw).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::super::maze::Map;
    use super::*;

    /// Random torques for two seconds from a place near the border of each free cell; whether any state
    /// differs between two ways to move.
    fn differ(
        maze: &Maze,
        one: impl Fn(&mut [f64], &[f64]),
        other: impl Fn(&mut [f64], &[f64]),
    ) -> bool {
        let cells = maze.free();
        cells.iter().enumerate().any(|(index, &cell)| {
            let mut draws = Stream::new(5, Purpose(900)).draws(0, index as u32);
            let mut state = AntMaze::reset(&mut draws);
            let centre = Maze::centre(cell);
            (0..2).for_each(|axis| state[axis] = centre[axis] + draws.between(-1.5, 1.5));
            (0..20).any(|_| {
                let control = [0; JOINTS].map(|_| draws.between(-1.0, 1.0));
                let mut twin = state.clone();
                one(&mut state, &control);
                other(&mut twin, &control);
                state != twin
            })
        })
    }

    #[test]
    fn walls_that_are_no_neighbours_make_no_difference_and_neighbours_do() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/library");
        let words = ["mujoco==3.3.7", "libmujoco"];
        let path = Command::new(script).args(words).output().map(|output| output.stdout);
        let path = String::from_utf8(path.unwrap_or_default()).unwrap();
        let Ok(mujoco) = Mujoco::open_file(Path::new(path.trim())) else {
            eprintln!("skipped: needs `scripts/library mujoco==3.3.7 libmujoco`");
            return;
        };
        let maze = Maze::new(Map::Medium);
        let simulator = Simulator::open(&maze, &mujoco).unwrap();
        let open = Room::open(&[], &mujoco).unwrap();
        let all = |state: &mut [f64], control: &[f64]| simulator.all.advance(state, control);
        let near = |state: &mut [f64], control: &[f64]| simulator.advance(&maze, state, control);
        assert!(!differ(&maze, all, near));
        assert!(differ(&maze, all, |state, control| open.advance(state, control)));
    }
}
