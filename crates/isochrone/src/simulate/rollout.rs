//! Episodes of a policy in a world.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::environment::{Environment, Task};
use crate::error::{Error, Result, Tell};
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

/// Observations n × s and goals n × s in, actions n × a out; asked by several threads at once.
pub type Controller<'a> = dyn Fn(&[f32], &[f32], &mut [f32]) + Sync + 'a;

/// Lets `policy` act in all `tasks` and says how each ended.
///
/// Threads take groups of [`Environment::together`] episodes, which go on step by step and leave the
/// group where they end; no group waits for another. Success is looked for after every step. Chance
/// is keyed by (seed, episode, step): an outcome depends on its task and place in the list, not on
/// the others.
///
/// # Shapes
/// With n episodes of a group still running the policy gets observations and goals of
/// n × `state_size` and fills actions of n × `action_size`.
pub fn rollout(
    environment: &dyn Environment,
    tasks: &[Task],
    seed: u64,
    paths: Paths,
    policy: &Controller<'_>,
) -> Vec<Outcome> {
    let told = rollout_told(environment, tasks, seed, paths, policy, &|_, _| None);
    told.expect("nobody asks to stop")
}

/// As [`rollout`]; `tell` hears how many episodes have ended whenever a group has.
///
/// # Errors
/// A signal that `tell` gives: groups under way are finished, no other begins.
pub fn rollout_told(
    environment: &dyn Environment,
    tasks: &[Task],
    seed: u64,
    paths: Paths,
    policy: &Controller<'_>,
    tell: &Tell<'_>,
) -> Result<Vec<Outcome>> {
    let size = environment.together().max(1);
    let ended = AtomicUsize::new(0);
    let act = |(at, own): (usize, &[Task])| {
        let outcomes = group(environment, own, at * size, seed, paths, policy);
        let ended = own.len() + ended.fetch_add(own.len(), Ordering::Relaxed);
        tell(ended, tasks.len()).map_or(Ok(outcomes), |signal| Err(Error::Interrupted(signal)))
    };
    let groups = tasks.par_chunks(size).enumerate().with_max_len(1);
    let outcomes = groups.map(act).collect::<Result<Vec<_>>>()?;
    Ok(outcomes.into_iter().flatten().collect())
}

/// The episodes of `tasks`, the first of which is number `first`.
fn group(
    environment: &dyn Environment,
    tasks: &[Task],
    first: usize,
    seed: u64,
    paths: Paths,
    policy: &Controller<'_>,
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
        let draws =
            |stream: &Stream, episode: usize| stream.draws(step as u64, (first + episode) as u32);
        observations.clear();
        goals.clear();
        for &episode in &running {
            let mut draws = draws(&sensing, episode);
            observations.extend(environment.observe(&states[episode], &mut draws));
            goals.extend_from_slice(&tasks[episode].goal);
        }
        actions.clear();
        actions.resize(running.len() * action_size, 0.0);
        policy(&observations, &goals, &mut actions);
        for (&episode, action) in running.iter().zip(actions.chunks_exact(action_size)) {
            environment.step(&mut states[episode], action, &mut draws(&motion, episode));
        }
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
