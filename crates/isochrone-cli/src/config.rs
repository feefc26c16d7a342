//! `isochrone config`: prints every key of a config with its meaning, ready to be saved and changed.

use isochrone::{Result, run};

use crate::output::{say, say_json};
use crate::train::{Asked, learners};

/// Print every key of a config with its meaning
///
/// With a SOURCE, the values are those that `isochrone train SOURCE` begins from, including the preset
/// tuned for that world and learner, if there is one. Without a SOURCE they are the learner's defaults.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone config pinwheel --algorithm cmd2 > my.toml
  isochrone train my.toml
  isochrone config --algorithm qrl --json")]
pub struct Config {
    /// A file of trajectories, a folder or a pattern of them, the name of a world, or a config (.toml)
    source: Option<String>,
    /// The learner
    #[arg(long, short, help = learners())]
    algorithm: Option<String>,
    /// How to extract the policy from the distance: awr, ddpg-bc or none
    #[arg(long)]
    extraction: Option<String>,
    /// Change one key, e.g. --set train.steps=5000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Print JSON instead of TOML
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Config) -> Result<()> {
    let asked = Asked {
        source: arguments.source.as_deref(),
        algorithm: arguments.algorithm.as_deref(),
        extraction: arguments.extraction.as_deref(),
        seed: None,
        overrides: &arguments.overrides,
    };
    asked.data().map(run::check_source).transpose()?;
    let config = asked.config()?;
    if arguments.json { say_json(&config) } else { say(config.explained()?.trim_end()) }
}
