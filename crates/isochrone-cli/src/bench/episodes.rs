//! How many steps per second a policy takes in worlds, and how busy the threads are meanwhile.

use std::time::Instant;

use isochrone::Result;
use isochrone::engine::Threads;
use isochrone::evaluate::{Control, outcomes};
use isochrone::simulate::{Paths, World};
use serde::Serialize;

use super::machine::cpu_seconds;
use super::untrained::untrained;

/// A world in which the policy's answer takes longest, and one in which MuJoCo's step does.
const WORLDS: [&str; 2] = ["pointmaze-medium-navigate", "antmaze-medium-navigate"];
/// A policy of three layers of 256.
const POLICY: [&str; 2] =
    ["algorithm.name=gcbc", "algorithm.policy.network.hidden=[256, 256, 256]"];
/// How many groups of episodes each thread gets.
const GROUPS: usize = 4;

/// How fast a policy acts in one world.
#[derive(Debug, Serialize)]
pub struct Acting {
    /// The world.
    pub world: &'static str,
    /// Episodes, each for as many steps as the world allows or until the goal.
    pub episodes: usize,
    /// Steps of all of them per second.
    pub steps_per_second: f64,
    /// The share of the threads' time in which they worked; none where the system does not tell.
    pub busy: Option<f64>,
}

/// Lets a fresh policy act in each world; leaves out, with a warning, what cannot be simulated here.
///
/// # Errors
/// The policy cannot be built.
pub fn measure(threads: &Threads, quick: bool) -> Result<Vec<Acting>> {
    let mut found = Vec::new();
    for name in WORLDS {
        let world = name.parse::<World>()?.open();
        let recorded = match world.record(0, 0..1, &|| {}) {
            Ok(recorded) => recorded.recording.dataset,
            Err(error) => {
                crate::output::warn(&format!("episodes in {name} are left out: {error}"));
                continue;
            }
        };
        let groups = threads.count() * if quick { 1 } else { GROUPS };
        let count = groups * world.together();
        let tasks = world.tasks(0, count, &recorded)?;
        let model = untrained(&POLICY, &recorded, &Threads::default())?;
        let (control, unheard) = (Control::Policy, &|_, _| None);
        let act = || outcomes(&*world, &tasks, &model, control, 0, Paths::Forget, unheard);
        let (worked, since) = (cpu_seconds(), Instant::now());
        let outcomes = threads.enter(act)?;
        let (seconds, until) = (since.elapsed().as_secs_f64(), cpu_seconds());
        let steps: f64 = outcomes.iter().map(|outcome| f64::from(outcome.steps)).sum();
        let spent = worked.zip(until).map(|(worked, until)| until - worked);
        found.push(Acting {
            world: name,
            episodes: count,
            steps_per_second: steps / seconds,
            busy: spent.map(|spent| spent / (seconds * threads.count() as f64)),
        });
    }
    Ok(found)
}
