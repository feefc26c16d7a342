//! `isochrone runs`: lists runs and how far along they are.

use std::path::PathBuf;

use isochrone::Result;
use isochrone::run::{Status, list};

use crate::output::{say, say_json};

/// List runs and how far along they are.
#[derive(clap::Args)]
pub struct Runs {
    /// The folder to look in
    #[arg(default_value = "runs")]
    folder: PathBuf,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Runs) -> Result<()> {
    let found = list(&arguments.folder)?;
    if arguments.json {
        return say_json(&found);
    }
    if found.is_empty() {
        return say(&format!("no runs in `{}`", arguments.folder.display()));
    }
    let widest = found.iter().map(|run| run.folder.display().to_string().len()).max().unwrap_or(0);
    for run in found {
        let status = match run.status {
            Status::Complete => "complete",
            Status::Running => "running",
            Status::Stopped => "stopped",
            Status::Damaged => "damaged",
        };
        let success =
            run.success.map_or(String::new(), |rate| format!("  reached {:.1} %", 100.0 * rate));
        say(&format!(
            "{:<widest$}  {status:<8}  step {}/{}  {} on {}, seed {}{success}",
            run.folder.display().to_string(),
            run.step,
            run.steps,
            run.algorithm,
            run.source,
            run.seed,
        ))?;
    }
    Ok(())
}
