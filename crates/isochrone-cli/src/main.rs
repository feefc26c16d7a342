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
mod progress;
mod query;
mod routes;
mod runs;
mod score;
mod seeds;
mod signals;
mod train;
mod trained;
mod training;
mod wording;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use isochrone::collective::JobPlace;
use isochrone::data::Memory;

/// Where the help lists what every command takes.
const GLOBAL: &str = "Options of every command";

/// Learns how many steps apart states are, from recorded trajectories.
#[derive(Parser)]
#[command(name = "isochrone", version, arg_required_else_help = true)]
struct Arguments {
    /// Threads to use [default: all cores; under mpirun this process's share of them]
    #[arg(long, short, global = true, help_heading = GLOBAL)]
    threads: Option<usize>,
    /// Most memory to use, such as 4GiB [default: what the machine has available]
    #[arg(long, global = true, help_heading = GLOBAL, value_name = "SIZE")]
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
    let launch = JobPlace::read();
    if launch.is_some_and(|launch| launch.rank > 0) {
        output::mute();
    }
    let result = carried(&arguments.command, launch)
        .and_then(|()| flags::use_threads(arguments.threads, launch))
        .and_then(|threads| run(&arguments.command, threads));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&error, launch);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Refuses to do the same several times, at once and in the same files.
fn carried(command: &Command, launch: Option<JobPlace>) -> isochrone::Result<()> {
    match (command, launch) {
        (Command::Train(_), _) | (_, None | Some(JobPlace { size: 1, .. })) => Ok(()),
        (_, Some(JobPlace { size, .. })) => Err(isochrone::Error::input(format!(
            "mpirun started {size} processes, and only `train` can share its work among processes"
        ))
        .hint("start it without mpirun")),
    }
}

/// Prints why the command failed. What stops one process of several stops all, and most of what stops
/// one happens to each: mpirun ends the others within about a second after rank 0 has told it.
fn tell(error: &isochrone::Error, launch: Option<JobPlace>) {
    const LONGER_THAN_MPIRUN_TAKES: Duration = Duration::from_secs(3);
    match launch {
        Some(JobPlace { rank, .. }) if rank > 0 => {
            std::thread::sleep(LONGER_THAN_MPIRUN_TAKES);
            output::complain(&format!("error: rank {rank}: {}", one_line(error)));
        }
        _ => output::complain(&format!("error: {}", one_line(error))),
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
