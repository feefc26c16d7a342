//! Learns from arrays of one's own and keeps the run in a folder, where it could be resumed.
#![allow(clippy::print_stdout)]

use isochrone::algorithms::qrl;
use isochrone::{Dataset, Result, Run};

/// A walker on a line of 20 places that may only go right, from a random start.
fn walks() -> Result<Dataset> {
    let (length, count) = (20, 50);
    let mut states = Vec::new();
    let mut actions = Vec::new();
    for walk in 0..count {
        let pace = 0.2 + 0.1 * (walk % 5) as f32;
        for row in 0..length {
            states.push(pace * row as f32);
            actions.push(pace);
        }
    }
    Dataset::new(states, 1, Some((actions, 1)), &vec![length; count])
}

/// Trains a little and asks for two distances.
pub fn main() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("isochrone-own-arrays-{}", std::process::id()));
    let run = Run::on(walks()?).learner(qrl::Config::default()).discount(0.9);
    let fitted = run.batch_size(64).updates(50).seed(1).threads(1).folder(&folder).fit()?;

    // One goal for all states.
    let steps = fitted.model.steps(&[0.0, 1.0, 2.0], &[3.0])?;
    println!("steps to 3 from 0, 1 and 2: {steps:?}");
    println!("the run is in {}", folder.display());
    std::fs::remove_dir_all(folder).ok();
    Ok(())
}
