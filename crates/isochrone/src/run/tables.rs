//! The tables that a run keeps of its evaluations and its time, and what is read back from them.

use std::path::Path;

use super::config::RunConfig;
use super::files::{CHECKPOINTS, EVALUATION, MODEL, TIMING};
use super::folder::newest_step;
use super::journal::due;
use crate::error::Result;
use crate::evaluate::{OverTraining, Success};
use crate::extraction::Extraction;
use crate::ledger;

/// The evaluations of the run of `config` in `folder`, summarized; `None` if there were none.
///
/// # Errors
/// A table that cannot be read or that lost a row.
pub fn over_training(config: &RunConfig, folder: &Path) -> Result<Option<OverTraining>> {
    let path = folder.join(EVALUATION);
    if !path.exists() {
        return Ok(None);
    }
    let table = ledger::read(&path)?;
    check_evaluations(config, folder, &table.column("step").unwrap_or_default())?;
    let rates = table.column("evaluation/overall_success").unwrap_or_default();
    Ok(OverTraining::of(&rates))
}

/// Refuses the table of evaluations with rows at `steps` if it lost one: every row that was due before
/// the newest checkpoint, up to the last row and, with a model, up to the end must be there. That of
/// the checkpoint itself may have been under way when the run was stopped.
pub(super) fn check_evaluations(config: &RunConfig, folder: &Path, steps: &[f64]) -> Result<()> {
    let mut algorithm = config.algorithm.clone();
    if algorithm.extraction_mut().is_some_and(|extraction| *extraction == Extraction::None) {
        // Without a policy there is nothing to evaluate.
        return Ok(());
    }
    let [_, due] = due(&config.train);
    let complete = if folder.join(MODEL).exists() { config.train.steps } else { 0 };
    let reached = newest_step(&folder.join(CHECKPOINTS)).saturating_sub(1).max(complete);
    let until = steps.last().map_or(reached, |&last| reached.max(last as u64));
    match due.first_missing(until, steps.iter().map(|&step| step as u64)) {
        Some(step) => Err(ledger::lost_row(step).in_file(&folder.join(EVALUATION))),
        None => Ok(()),
    }
}

/// The seconds that the updates of the run in `folder` took, by its own clock; 0 where it kept
/// none.
///
/// # Errors
/// A table that cannot be read.
pub fn update_seconds(folder: &Path) -> Result<f64> {
    let path = folder.join(TIMING);
    if !path.exists() {
        return Ok(0.0);
    }
    let timing = ledger::read(&path)?;
    let steps = timing.column("step").unwrap_or_default();
    let rates = timing.column("time/updates_per_second").unwrap_or_default();
    let mut before = 0.0;
    let mut seconds = 0.0;
    for (step, rate) in steps.into_iter().zip(rates) {
        seconds += (step - before) / rate;
        before = step;
    }
    Ok(seconds)
}

/// Switches that have a column of their own.
const MOST_SWITCHES: u8 = 4;
/// The most kinds of tasks that a world asks in turn.
pub(super) const MOST_TASKS: usize = 5;

/// The columns of an evaluation: by kind of task where a world asks several in turn, else by switches.
pub(super) fn evaluation_columns(groups: usize) -> Vec<String> {
    let all =
        ["evaluation/overall_success", "evaluation/stitched_success", "evaluation/mean_steps"];
    let classes: Vec<String> = if groups > 1 {
        let task =
            |task: usize| ["success", "steps"].map(|what| format!("evaluation/task_{task}_{what}"));
        (1..=groups).flat_map(task).collect()
    } else {
        (0..=MOST_SWITCHES)
            .map(|switches| format!("evaluation/switches_{switches}_success"))
            .collect()
    };
    all.map(str::to_owned).into_iter().chain(classes).collect()
}

pub(super) fn evaluation_row(success: &Success, groups: usize) -> Vec<f64> {
    let known = |number: Option<f64>| number.unwrap_or(f64::NAN);
    let classes: Vec<f64> = if groups > 1 {
        let task = |task: usize| {
            let found = success.by_task.iter().find(|found| found.task == task);
            let rate = known(found.map(|found| found.rate.rate));
            [rate, known(found.and_then(|found| found.mean_steps))]
        };
        (1..=groups).flat_map(task).collect()
    } else {
        let class =
            |switches| success.by_switches.iter().find(move |class| class.switches == switches);
        (0..=MOST_SWITCHES)
            .map(|switches| known(class(switches).map(|class| class.rate.rate)))
            .collect()
    };
    let stitched = known(success.stitched.map(|stitched| stitched.rate));
    let all = [success.overall.rate, stitched, known(success.mean_steps)];
    all.into_iter().chain(classes).collect()
}
