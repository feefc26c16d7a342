//! Worlds to act in: a recording to learn from, tasks to be judged by, rollouts of a policy.
//!
//! Everything drawn is keyed by (seed, purpose, step, index), so a recording, a set of tasks and the
//! outcome of an episode are the same on every machine and for every size of a batch.

pub mod antmaze;
mod buckets;
pub mod course;
mod drive;
mod expert;
pub mod maze;
mod mjcf;
pub mod mujoco;
pub mod pinwheel;
pub mod point;
pub mod pointmaze;
pub mod referee;
pub mod roads;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::random::{Draws, Purpose, Stream};
use crate::spelling::changes;

pub use antmaze::AntMaze;
pub use course::{Body, Course};
pub use pinwheel::Pinwheel;
pub use pointmaze::PointMaze;
pub use referee::Referee;
pub use roads::Roads;

/// A world: how states move under actions, what is recorded in it and what is asked of a policy.
pub trait Environment: Send + Sync {
    /// Numbers in an observation. A state begins with as many and may hold more, which a policy does
    /// not see.
    fn state_size(&self) -> usize;

    /// Numbers in an action, each in [−1, 1].
    fn action_size(&self) -> usize;

    /// The discount that this world's distances are learned with unless a config says otherwise.
    fn discount(&self) -> f64;

    /// Steps after which an episode counts as failed.
    fn horizon(&self) -> usize;

    /// The distance from the goal within which an episode has succeeded.
    fn radius(&self) -> f64;

    /// Moves `state` by one step of `action`.
    fn step(&self, state: &mut [f64], action: &[f32], draws: &mut Draws);

    /// What a policy sees of `state`.
    fn observe(&self, state: &[f64], draws: &mut Draws) -> Vec<f32>;

    /// Whether `state` lies within [`radius`](Self::radius) of `goal`.
    fn reached(&self, state: &[f64], goal: &[f32]) -> bool {
        let squared =
            state.iter().zip(goal).map(|(here, &there)| (here - f64::from(there)).powi(2));
        squared.sum::<f64>() <= self.radius() * self.radius()
    }

    /// Kinds of tasks: task i of a list is of kind i mod `groups`.
    fn groups(&self) -> usize {
        1
    }

    /// Episodes in the world's own dataset.
    fn episodes(&self) -> u32 {
        0
    }

    /// Records `episodes`, each a function of the seed and its number; calls `told` after each.
    ///
    /// # Errors
    /// Those of [`Dataset::new`]; a simulator that is not installed.
    fn record(&self, _: u64, _: Range<u32>, _told: &(dyn Fn() + Sync)) -> Result<Episodes> {
        Err(Error::input("nothing is recorded in this world"))
    }

    /// Records the world's own dataset; the same seed gives the same bytes.
    ///
    /// # Errors
    /// As [`record`](Self::record).
    fn generate(&self, seed: u64) -> Result<Recording> {
        self.record(seed, 0..self.episodes(), &|| {}).map(|episodes| episodes.recording)
    }

    /// Draws `count` evaluation tasks; the first tasks of a longer list are those of a shorter one.
    ///
    /// # Errors
    /// Says so where `data` hold no state from which a task can start.
    fn tasks(&self, seed: u64, count: usize, data: &Dataset) -> Result<Vec<Task>>;
}

/// A dataset and which family of behaviour each of its trajectories belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// The recorded rows.
    pub dataset: Dataset,
    /// For each trajectory the index of its family.
    pub families: Vec<u8>,
    /// The names of the families.
    pub family_names: Vec<String>,
}

impl Recording {
    /// A recording whose trajectories are all of one family.
    fn of_one_kind(dataset: Dataset, name: &str) -> Self {
        let families = vec![0; dataset.trajectories()];
        Self { dataset, families, family_names: vec![name.to_owned()] }
    }
}

/// Recorded episodes, and what a file of them holds beside what is seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Episodes {
    /// What is seen and done.
    pub recording: Recording,
    /// The rest.
    pub further: Vec<ExtraArray>,
}

impl From<Recording> for Episodes {
    fn from(recording: Recording) -> Self {
        Self { recording, further: Vec::new() }
    }
}

/// An array with one row for each row of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtraArray {
    /// Its name in a file.
    pub name: &'static str,
    /// Numbers in a row.
    pub width: usize,
    /// Row after row.
    pub values: Vec<f32>,
}

/// One question to a policy: get from `start` to `goal`.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// The state an episode begins in.
    pub start: Vec<f64>,
    /// The state to come near to.
    pub goal: Vec<f32>,
    /// How often a route along recorded trajectories changes from one family to another, where the
    /// world knows. A task with one switch or more is "stitched".
    pub switches: Option<u8>,
}

/// How one episode ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Whether the goal was reached within the horizon.
    pub reached: bool,
    /// Steps taken: until the goal, or all of the horizon.
    pub steps: u32,
    /// The true states passed, the start included, without what is hidden; empty unless asked for.
    pub path: Vec<Vec<f32>>,
}

/// Whether a rollout keeps the states it passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    /// Only success and steps.
    Forget,
    /// Every state of every episode.
    Keep,
}

/// Observations n × s and goals n × s in, actions n × a out.
pub type Controller<'a> = dyn FnMut(&[f32], &[f32], &mut [f32]) + 'a;

/// Lets `policy` act in all `tasks` at once and says how each ended.
///
/// Episodes that ended leave the batch. Success is looked for after every step. Chance is keyed by
/// (seed, episode, step): an outcome depends on its task and place in the list, not on the others.
///
/// # Shapes
/// With n episodes still running the policy gets observations and goals of n × `state_size` and
/// fills actions of n × `action_size`.
pub fn rollout(
    environment: &dyn Environment,
    tasks: &[Task],
    seed: u64,
    paths: Paths,
    policy: &mut Controller<'_>,
) -> Vec<Outcome> {
    let (motion, sensing) =
        (Stream::new(seed, Purpose::MOTION), Stream::new(seed, Purpose::SENSING));
    let (size, action_size) = (environment.state_size(), environment.action_size());
    let mut states: Vec<Vec<f64>> = tasks.iter().map(|task| task.start.clone()).collect();
    let mut outcomes: Vec<Outcome> =
        states.iter().map(|state| Outcome::before(&state[..size], paths)).collect();
    let mut running: Vec<usize> = (0..tasks.len()).collect();
    let (mut observations, mut goals, mut actions) = (Vec::new(), Vec::new(), Vec::new());
    for step in 0..environment.horizon() {
        if running.is_empty() {
            break;
        }
        observations.clear();
        goals.clear();
        for &episode in &running {
            let mut draws = sensing.draws(step as u64, episode as u32);
            observations.extend(environment.observe(&states[episode], &mut draws));
            goals.extend_from_slice(&tasks[episode].goal);
        }
        actions.clear();
        actions.resize(running.len() * action_size, 0.0);
        policy(&observations, &goals, &mut actions);
        let mut moving: Vec<(usize, Vec<f64>)> = running
            .iter()
            .map(|&episode| (episode, std::mem::take(&mut states[episode])))
            .collect();
        moving.par_iter_mut().zip(actions.par_chunks_exact(action_size)).for_each(
            |((episode, state), action)| {
                let mut draws = motion.draws(step as u64, *episode as u32);
                environment.step(state, action, &mut draws);
            },
        );
        moving.into_iter().for_each(|(episode, state)| states[episode] = state);
        running.retain(|&episode| {
            let state = &states[episode];
            let reached = environment.reached(state, &tasks[episode].goal);
            outcomes[episode].advance(&state[..size], reached, paths);
            !reached
        });
    }
    outcomes
}

impl Outcome {
    fn before(state: &[f64], paths: Paths) -> Self {
        let mut outcome = Self { reached: false, steps: 0, path: Vec::new() };
        outcome.keep(state, paths);
        outcome
    }

    fn advance(&mut self, state: &[f64], reached: bool, paths: Paths) {
        self.steps += 1;
        self.reached = reached;
        self.keep(state, paths);
    }

    fn keep(&mut self, state: &[f64], paths: Paths) {
        if paths == Paths::Keep {
            self.path.push(state.iter().map(|&value| value as f32).collect());
        }
    }
}

/// The worlds that can be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum World {
    /// A ring of four corridors with four dead-end spurs; see [`pinwheel`].
    Pinwheel,
    /// The same with rare jumps out of the dead ends.
    PinwheelShortcut,
    /// Eight noisy directed curves; see [`roads`].
    Roads,
    /// A body in a maze; see [`course`].
    Maze(Course),
}

impl World {
    /// All worlds.
    pub const ALL: [Self; 3 + Course::COUNT] = {
        let mut all = [Self::Pinwheel; 3 + Course::COUNT];
        all[1] = Self::PinwheelShortcut;
        all[2] = Self::Roads;
        let mut index = 0;
        while index < Course::COUNT {
            all[3 + index] = Self::Maze(Course::ALL[index].1);
            index += 1;
        }
        all
    };

    /// The name a config or a command uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pinwheel => "pinwheel",
            Self::PinwheelShortcut => "pinwheel-shortcut",
            Self::Roads => "roads",
            Self::Maze(course) => course.name(),
        }
    }

    /// Builds the world.
    pub fn open(self) -> Box<dyn Environment> {
        match self {
            Self::Pinwheel => Box::new(Pinwheel::new(pinwheel::Tips::Closed)),
            Self::PinwheelShortcut => Box::new(Pinwheel::new(pinwheel::Tips::Shortcut)),
            Self::Roads => Box::new(Roads::new(roads::SEED)),
            Self::Maze(course) => match course.body {
                Body::Point => Box::new(PointMaze::new(course)),
                Body::Ant => Box::new(AntMaze::new(course)),
            },
        }
    }

    /// The world as a pinwheel, which has an exact referee; none where it is another.
    pub fn pinwheel(self) -> Option<Pinwheel> {
        match self {
            Self::Pinwheel => Some(Pinwheel::new(pinwheel::Tips::Closed)),
            Self::PinwheelShortcut => Some(Pinwheel::new(pinwheel::Tips::Shortcut)),
            Self::Roads | Self::Maze(_) => None,
        }
    }
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<World> for String {
    fn from(world: World) -> Self {
        world.name().to_owned()
    }
}

impl TryFrom<String> for World {
    type Error = Error;

    fn try_from(name: String) -> Result<Self> {
        name.parse()
    }
}

impl FromStr for World {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if let Some(world) = Self::ALL.into_iter().find(|world| world.name() == name) {
            return Ok(world);
        }
        let mut known = Self::ALL.map(Self::name);
        known.sort_by_key(|candidate| changes(name, candidate));
        let nearest: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        Err(Error::input(format!("unknown world `{name}`"))
            .hint(format!("known worlds, nearest first: {}", nearest.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toward(states: &[f32], goals: &[f32], actions: &mut [f32]) {
        for (action, (goal, state)) in actions.iter_mut().zip(goals.iter().zip(states)) {
            *action = ((goal - state) / 0.04).clamp(-1.0, 1.0);
        }
    }

    #[test]
    fn every_world_is_found_by_its_name_in_text_and_in_configs() {
        for world in World::ALL {
            assert_eq!(world.name().parse::<World>().unwrap(), world);
            assert_eq!(serde_json::to_string(&world).unwrap(), format!("\"{world}\""));
        }
    }

    #[test]
    fn an_unknown_world_is_answered_with_the_known_ones_nearest_first() {
        let error = "pinwheel-shortct".parse::<World>().unwrap_err();
        let text = error.to_string();
        let expected = "unknown world `pinwheel-shortct`; hint: known worlds, nearest first: \
             `pinwheel-shortcut`, `pinwheel`, ";
        assert!(text.starts_with(expected), "{text}");
        assert!(World::ALL.iter().all(|world| text.contains(&format!("`{world}`"))));
        assert_eq!(changes("roads", "road"), 1);
        assert_eq!(changes("", "roads"), 5);
    }

    #[test]
    fn an_outcome_depends_on_its_place_and_not_on_the_rest_of_the_batch() {
        let world = World::Pinwheel.open();
        let data = world.generate(0).unwrap().dataset;
        let tasks = world.tasks(0, 40, &data).unwrap();
        let all = rollout(&*world, &tasks, 3, Paths::Keep, &mut toward);
        let few = rollout(&*world, &tasks[..7], 3, Paths::Keep, &mut toward);
        assert_eq!(all[..7], few);
        assert!(all.iter().any(|outcome| outcome.reached));
        assert!(all.iter().any(|outcome| !outcome.reached && outcome.steps == 150));
        for (outcome, task) in all.iter().zip(&tasks) {
            assert_eq!(outcome.path.len(), outcome.steps as usize + 1);
            let last: Vec<f64> =
                outcome.path.last().unwrap().iter().map(|&x| f64::from(x)).collect();
            assert_eq!(world.reached(&last, &task.goal), outcome.reached);
        }
        let forgotten = rollout(&*world, &tasks, 3, Paths::Forget, &mut toward);
        assert!(forgotten.iter().all(|outcome| outcome.path.is_empty()));
        assert_ne!(all, rollout(&*world, &tasks, 4, Paths::Keep, &mut toward));
    }

    #[test]
    fn ended_episodes_leave_the_batch() {
        let world = World::Pinwheel.open();
        let data = world.generate(0).unwrap().dataset;
        let tasks = world.tasks(0, 40, &data).unwrap();
        let mut sizes = Vec::new();
        let outcomes = rollout(&*world, &tasks, 0, Paths::Forget, &mut |states, goals, actions| {
            sizes.push(states.len() / 2);
            toward(states, goals, actions);
        });
        for (step, &size) in sizes.iter().enumerate() {
            let running = outcomes.iter().filter(|outcome| outcome.steps as usize > step).count();
            assert_eq!(size, running);
        }
        assert!(sizes[sizes.len() - 1] < sizes[0]);
    }
}
