//! The command `isochrone`: words in; words, files and pictures out.

mod bench;
mod config;
mod exact;
mod output;
mod runs;
mod signals;
mod train;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Learns how many steps apart states are, from recorded trajectories.
#[derive(Parser)]
#[command(name = "isochrone", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Train(train::Train),
    Exact(exact::Exact),
    Runs(runs::Runs),
    Config(config::Config),
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let result = match &Arguments::parse().command {
        Command::Train(arguments) => train::run(arguments),
        Command::Exact(arguments) => exact::run(arguments),
        Command::Runs(arguments) => runs::run(arguments),
        Command::Config(arguments) => config::run(arguments),
        Command::Bench(arguments) => bench::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&format!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// One line on standard error; a closed one is no trouble.
fn warn(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
