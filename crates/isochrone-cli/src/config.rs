//! `isochrone config`: prints every key with its meaning and default, ready to be saved and changed.

use isochrone::run::RunConfig;
use isochrone::{Result, algorithms};

use crate::output::{say, say_json};
use crate::train::text;

/// Print every key with its meaning and its default.
#[derive(clap::Args)]
#[command(after_help = "Example:
  isochrone config --algorithm cmd2 > my.toml
  isochrone train my.toml")]
pub struct Config {
    /// The learner whose keys are printed
    #[arg(long, short, default_value = algorithms::Config::DEFAULT)]
    algorithm: String,
    /// Change one key, e.g. --set train.steps=5000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Print JSON instead of TOML
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Config) -> Result<()> {
    let mut overrides = vec![text("algorithm.name", &arguments.algorithm)?];
    overrides.extend(arguments.overrides.iter().cloned());
    let config = RunConfig::parse("", &overrides)?;
    if arguments.json { say_json(&config) } else { say(config.explained()?.trim_end()) }
}
