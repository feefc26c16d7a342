//! A GPU computes what the CPU computes: every operation, every batch, every learner, and several
//! seeds side by side. Where there is no GPU, each test says so and passes.

mod batches;
mod chain;
mod forms;
mod learners;
mod operations;

use std::sync::{Mutex, MutexGuard, PoisonError};

use isochrone::data::Dataset;
use isochrone::engine::{Chosen, Device, Gpu, Window};
use isochrone::random::{Purpose, Stream};

const ALWAYS: Window = Window { from: 0, until: 1 << 40 };
const STATE: usize = 5;
const ACTION: usize = 3;
/// Tests take turns at the GPU.
static TURN: Mutex<()> = Mutex::new(());

/// The first GPU and a turn at it; without one a line says that a test is skipped.
fn gpu() -> Option<(Gpu, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match Device::Cuda(0).choose() {
        Ok(Chosen::Cuda(gpu)) => Some((gpu, turn)),
        Ok(_) => None,
        Err(error) => {
            let line = format!("skipped: {error}\n");
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
            None
        }
    }
}

/// Walks of 50 steps.
fn walks(rows: usize, state: usize, action: usize) -> Dataset {
    let mut draws = Stream::new(1, Purpose(900)).draws(0, 0);
    let mut states = vec![0.0f32; rows * state];
    for at in 0..states.len() {
        let before = if (at / state).is_multiple_of(50) { 0.0 } else { states[at - state] };
        states[at] = before + 0.1 * draws.normal() as f32;
    }
    let actions = (0..rows * action).map(|_| draws.between(-1.0, 1.0) as f32).collect();
    Dataset::new(states, state, Some((actions, action)), &vec![50; rows / 50]).unwrap()
}

/// The largest distance of two lists over the largest number of the first.
fn apart(expected: &[f32], found: &[f32]) -> f64 {
    assert_eq!(expected.len(), found.len());
    let top = expected.iter().fold(1e-20, |top, x| f64::max(top, x.abs().into()));
    let gap = |(x, y): (&f32, &f32)| f64::from((x - y).abs());
    let gaps = expected.iter().zip(found).map(gap);
    gaps.map(|gap| if gap.is_nan() { f64::INFINITY } else { gap }).fold(0.0, f64::max) / top
}
