//! How long the graph planner takes to build over a million rows, or a tenth of them, and to answer.

use std::time::Instant;

use isochrone::data::Dataset;
use isochrone::engine::Threads;
use isochrone::plan::{Graph, GraphSettings};
use isochrone::random::{Purpose, Stream};
use isochrone::{Error, Result};
use serde::Serialize;

use super::untrained::untrained;

const TRAJECTORIES: usize = 1_000;
const FEWER_TRAJECTORIES: usize = 100;
const STEPS: usize = 1_000;
/// The length of a step of the walks, in a square of side 1.
const STRIDE: f64 = 0.01;
const QUESTIONS: usize = 101;

/// One measurement of the graph planner.
#[derive(Debug, Serialize)]
pub struct Planning {
    /// Rows of the data.
    pub rows: usize,
    /// Nodes of the graph.
    pub nodes: usize,
    /// The time to build it.
    pub build_seconds: f64,
    /// The time of a path between two states, in the median.
    pub query_median_ms: f64,
    /// The longest of these times.
    pub query_worst_ms: f64,
}

/// Builds a graph over random walks under a fresh model with the defaults, and asks it for paths.
///
/// # Errors
/// The model or the graph cannot be built, for want of memory.
pub fn measure(threads: &Threads, quick: bool) -> Result<Planning> {
    let walks = walks(if quick { FEWER_TRAJECTORIES } else { TRAJECTORIES })?;
    let settings = ["algorithm.name=cmd1", "algorithm.extraction.name=none"];
    let model = untrained(&settings, &walks, threads)?;
    let since = Instant::now();
    let graph = Graph::new(&model, &walks, GraphSettings::default())?;
    let build_seconds = since.elapsed().as_secs_f64();
    let rows = walks.rows();
    let mut draws = Stream::new(1, WALKS).draws(0, 0);
    let mut times = Vec::new();
    for _ in 0..QUESTIONS {
        let [start, goal] = [0, 1].map(|_| walks.state(draws.below(rows as u32) as usize));
        let since = Instant::now();
        graph.path(start, goal)?;
        times.push(since.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (query_median_ms, query_worst_ms) = (times[QUESTIONS / 2], times[QUESTIONS - 1]);
    Ok(Planning { rows, nodes: graph.nodes(), build_seconds, query_median_ms, query_worst_ms })
}

/// Keys the walks' chance.
const WALKS: Purpose = Purpose(940);

/// Random walks in a square; walls turn them back.
fn walks(count: usize) -> Result<Dataset> {
    let stream = Stream::new(0, WALKS);
    let mut states = Vec::with_capacity(2 * count * STEPS);
    for walk in 0..count {
        let mut draws = stream.draws(0, walk as u32);
        let mut place = [draws.uniform(), draws.uniform()];
        let mut heading = draws.between(0.0, std::f64::consts::TAU);
        for _ in 0..STEPS {
            states.extend(place.map(|value| value as f32));
            heading += 0.3 * draws.normal();
            let ahead = [place[0] + STRIDE * heading.cos(), place[1] + STRIDE * heading.sin()];
            place = ahead.map(|value| value.clamp(0.0, 1.0));
            if place != ahead {
                heading += std::f64::consts::PI;
            }
        }
    }
    Dataset::new(states, 2, None, &vec![STEPS; count])
        .map_err(|error| Error::input(format!("the walks of the bench: {error}")))
}
