//! Episodes of a policy in a world.

use rayon::prelude::*;

use super::environment::{Environment, Task};
use crate::random::{Purpose, Stream};

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
