//! Records a world, learns a policy in it and lets the policy act.
#![allow(clippy::print_stdout)]

use isochrone::simulate::{Paths, rollout};
use isochrone::{Result, Run, World};

/// Trains a little on the pinwheel with the settings tuned to it, then acts in one task.
pub fn main() -> Result<()> {
    let run = Run::on(World::Pinwheel).algorithm("cmd1").updates(40).threads(1);
    // Two hundred recorded episodes and eight tasks are enough to look at.
    let fitted = run
        .configure(|config| {
            config.data.episodes = Some(200);
            config.evaluation.tasks = 8;
        })
        .fit()?;
    if let Some(success) = &fitted.success {
        println!(
            "reached {:.0} % of {} goals",
            100.0 * success.overall.rate,
            success.overall.tasks
        );
    }

    let world = World::Pinwheel.open();
    let tasks = world.tasks(0, 1, &fitted.source.dataset)?;
    let outcome = rollout(&*world, &tasks, 0, Paths::Keep, &|states, goals, actions| {
        let chosen = fitted.model.act(states, goals).expect("a policy and whole states");
        actions.copy_from_slice(&chosen);
    });
    println!("the task ended after {} steps, reached: {}", outcome[0].steps, outcome[0].reached);
    Ok(())
}
