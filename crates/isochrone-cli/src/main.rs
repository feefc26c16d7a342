//! The command `isochrone`: arguments in; text, files and pictures out.

mod act;
mod audit;
mod bench;
mod compare;
mod config;
mod data;
mod demo;
mod evaluate;
mod evaluation;
mod exact;
mod examiner;
mod explore;
mod export;
mod flags;
mod generate;
mod opened;
mod output;
mod pictures;
mod plan;
mod query;
mod routes;
mod runs;
mod score;
mod seeds;
mod signals;
mod train;
mod training;
mod wording;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use isochrone::data::Memory;

/// Learns how many steps apart states are, from recorded trajectories.
#[derive(Parser)]
#[command(name = "isochrone", version, arg_required_else_help = true)]
struct Arguments {
    /// Threads to use [default: all cores]
    #[arg(long, short, global = true)]
    threads: Option<usize>,
    /// Memory to use, such as 4GiB [default: what the machine has available]
    #[arg(long, global = true, value_name = "SIZE")]
    max_memory: Option<Memory>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Demo),
    Train(train::Train),
    Evaluate(evaluate::Evaluate),
    Compare(Box<compare::Compare>),
    Plan(plan::Plan),
    Query(query::Query),
    Act(act::Act),
    Score(score::Score),
    Explore(explore::Explore),
    Export(export::Export),
    Audit(audit::Audit),
    Exact(exact::Exact),
    Data(data::Data),
    Runs(runs::Runs),
    Config(config::Config),
    Bench(bench::Bench),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(most) = arguments.max_memory {
        most.limit_process();
    }
    let result =
        flags::use_threads(arguments.threads).and_then(|threads| run(&arguments.command, threads));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::warn(&format!("error: {}", one_line(&error)));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(command: &Command, threads: usize) -> isochrone::Result<()> {
    match command {
        Command::Demo(arguments) => demo::run(arguments, threads),
        Command::Train(arguments) => train::run(arguments, threads),
        Command::Evaluate(arguments) => evaluate::run(arguments),
        Command::Compare(arguments) => compare::run(arguments, threads),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Query(arguments) => query::run(arguments),
        Command::Act(arguments) => act::run(arguments),
        Command::Score(arguments) => score::run(arguments),
        Command::Explore(arguments) => explore::run(arguments),
        Command::Export(arguments) => export::run(arguments),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Exact(arguments) => exact::run(arguments),
        Command::Data(arguments) => data::run(arguments),
        Command::Runs(arguments) => runs::run(arguments),
        Command::Config(arguments) => config::run(arguments),
        Command::Bench(arguments) => bench::run(arguments, threads),
    }
}

/// The text of an error as one line, whatever characters a file's name has.
fn one_line(error: &isochrone::Error) -> String {
    error.to_string().replace(['\n', '\r'], " ")
}
