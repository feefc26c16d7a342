//! Where an update on a GPU goes: every launch timed alone, and the chain that none can shorten.

use std::time::{Duration, Instant};

use super::executor::CudaExecutor;
use super::graph::{longest, waits};
use crate::engine::Clock;
use crate::engine::launches::Launch;
use crate::error::Result;

/// How long the chain of one launch is that times it, and how often it runs.
const REPEATS: usize = 64;
const TRIES: usize = 5;

/// An update taken apart.
#[derive(Debug, Clone)]
pub struct Dissection {
    /// Every launch alone, by operation; in an update they run side by side where they can.
    pub clock: Clock,
    /// How many launches.
    pub launches: usize,
    /// The longest chain of launches that wait for each other, each as fast as alone: about the floor
    /// of an update, though the batch of the next one is drawn beside it.
    pub chain: Duration,
}

impl CudaExecutor {
    /// Takes the update of `step` apart: every launch is timed in a chain of itself, so that nothing
    /// runs beside it. Numbers are overwritten as they come; the executor is used up.
    ///
    /// # Errors
    /// The GPU does not work.
    pub fn dissect(mut self, step: u64) -> Result<Dissection> {
        self.machine.bind()?;
        let (plan, _) = self.plan(step, 1);
        let launches = self.launches(plan, 1)?;
        let alone = |launch: &Launch| {
            let graph = self.graph(&vec![launch.clone(); REPEATS])?;
            let mut best = Duration::MAX;
            for _ in 0..TRIES {
                let since = Instant::now();
                graph.launch(&self.machine)?;
                self.machine.wait()?;
                best = best.min(since.elapsed() / REPEATS as u32);
            }
            Ok(best)
        };
        let times: Vec<Duration> = launches.iter().map(alone).collect::<Result<_>>()?;
        let mut clock = Clock::default();
        for (launch, &time) in launches.iter().zip(&times) {
            clock.add(launch.of, time);
        }
        let chain = longest(&waits(&launches), &times);
        Ok(Dissection { clock, launches: launches.len(), chain })
    }
}
