//! Saves a model, loads it again and asks it everything a model answers.
#![allow(clippy::print_stdout)]

use isochrone::algorithms::cmd1;
use isochrone::{Dataset, Model, Result, Run};

/// Walks round a circle, one way.
fn walks() -> Result<Dataset> {
    let angle = |row: usize| 0.7 * (row / 30) as f32 + 0.1 * (row % 30) as f32;
    let states = (0..1_200).flat_map(|row| [angle(row).cos(), angle(row).sin()]).collect();
    let actions = (0..1_200).flat_map(|row| [-angle(row).sin(), angle(row).cos()]).collect();
    Dataset::new(states, 2, Some((actions, 2)), &[30; 40])
}

/// Trains a little, then asks.
pub fn main() -> Result<()> {
    let run = Run::on(walks()?).learner(cmd1::Config::default()).discount(0.95);
    let fitted = run.batch_size(64).updates(30).threads(1).fit()?;
    let path =
        std::env::temp_dir().join(format!("isochrone-query-{}.safetensors", std::process::id()));
    fitted.model.save(&path)?;

    let model = Model::load(&path)?;
    let (here, there) = ([1.0, 0.0], [0.0, 1.0]);
    println!("{:.1} steps", model.steps(&here, &there)?[0]);
    // An embedding is made once and compared often.
    let goals = model.embed(&[there, [-1.0, 0.0]].concat())?;
    let nats = model.pairwise(&model.embed(&here)?, &goals);
    println!("{:.2} and {:.2} nats to two goals", nats[0], nats[1]);
    let after = model.after(&here, &[0.0, 1.0], &model.embed(&there)?)?;
    println!("{:.1} steps after moving up", model.in_steps(after[0]));
    println!("the policy goes {:?}", model.act(&here, &there)?);
    println!("{:.2} spacings from the data", model.novelty(&[3.0, 3.0])?[0]);
    std::fs::remove_file(path).ok();
    Ok(())
}
