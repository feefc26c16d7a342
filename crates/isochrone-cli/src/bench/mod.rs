//! `isochrone bench`: how long one update takes on this machine, and what its time goes to.

mod case;
mod episodes;
mod machine;
mod measure;
mod meter;
mod planner;
mod scaling;
mod solver;
mod table;
mod untrained;

use std::path::PathBuf;

use isochrone::engine::{Hardware, Threads};
use isochrone::{Error, Result};

use self::case::{BenchData, Case, SHAPE_NAMES, Shape, learners};
use self::measure::{Found, Limits};
use self::meter::Meter;
use crate::output::{say, say_json};
use crate::progress::Counter;

/// Measure how long an update takes on this machine, and how long its matrix products alone take
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  isochrone bench --algorithm cmd1,cmd2 --shape 4x512
  isochrone bench --device cuda:0 --seeds 8 --json
  isochrone bench --scaling runs/scaling --device auto")]
pub struct Bench {
    /// Where updates run: auto, cpu or cuda:N; auto uses a GPU if there is one
    #[arg(long, default_value = "cpu")]
    device: String,
    /// The learners, separated by commas [default: all; cmd1 with --scaling]
    #[arg(long = "algorithm", short, value_name = "NAME", value_delimiter = ',')]
    algorithms: Vec<String>,
    /// Any of 4x512, 3x512 (GELU and layer norm), 3x256 and 2x128 (hidden layers × width), separated by
    /// commas; with --scaling, the size to start from [default: all; 4x512 with --scaling]
    #[arg(long = "shape", value_name = "SHAPE", value_delimiter = ',')]
    shapes: Vec<String>,
    /// Batch sizes, separated by commas [default: 256; without --quick 256 and 1024 for 4x512, 1024 for 3x512]
    #[arg(long = "batch", value_name = "ROWS", value_delimiter = ',')]
    batches: Vec<usize>,
    /// Seeds trained at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    seeds: usize,
    /// Measure instead how an update grows with batch, width, latent size, seeds and rows; write
    /// tables and pictures to this folder
    #[arg(long, value_name = "OUT", conflicts_with_all = ["batches", "seeds"])]
    scaling: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Seconds to measure each case [default: 1; 0.1 with --quick]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Measure fewer updates (in batches of 256 unless --batch is given), fewer episodes, and the
    /// planner over fewer rows; with --scaling, only the first two values of each axis
    #[arg(long)]
    quick: bool,
}

/// Rows of a batch with `--quick`.
const QUICK_BATCH: usize = 256;
/// More seeds than these are a mistake.
const MOST_SEEDS: usize = 1024;

/// Measures and prints.
///
/// # Errors
/// Names, sizes or devices that are not there, or an output that cannot be written.
pub fn run(arguments: &Bench, threads: usize) -> Result<()> {
    if let Some(seconds) = arguments.seconds
        && !(seconds >= 0.0 && seconds.is_finite())
    {
        return Err(Error::input(format!("`--seconds` is `{seconds}`, expected 0 or more"))
            .hint("leave it out to measure each case for a second"));
    }
    if !(1..=MOST_SEEDS).contains(&arguments.seeds) {
        return Err(Error::input(format!(
            "`--seeds` is `{}`, expected 1 to {MOST_SEEDS}",
            arguments.seeds
        ))
        .hint("leave it out to measure one seed"));
    }
    let learners = learners(&arguments.algorithms)?;
    let shapes = &arguments.shapes;
    let shapes: Vec<Shape> = match shapes.is_empty() {
        true => SHAPE_NAMES.into_iter().map(Shape::named).collect::<Result<_>>()?,
        false => shapes.iter().map(|name| Shape::named(name)).collect::<Result<_>>()?,
    };
    let mut bench = meter(arguments, threads)?;
    if let Some(out) = &arguments.scaling {
        let learners = if arguments.algorithms.is_empty() { &learners[..1] } else { &learners };
        return scaling::run(
            &mut bench,
            learners,
            shapes[0],
            out,
            (arguments.quick, arguments.json),
        );
    }
    let asked = arguments.batches.as_slice();
    let batches = if arguments.quick && asked.is_empty() { &[QUICK_BATCH] } else { asked };
    let of = |shape: &Shape| {
        let one = |learner: &&str| shape.cases(learner, batches, arguments.seeds);
        learners.iter().flat_map(one).collect::<Vec<_>>()
    };
    let cases: Vec<Case> = shapes.iter().flat_map(of).collect();
    let counter = Counter::new("bench", cases.len() as u64, "cases");
    let found: Result<Vec<Found>> =
        cases.iter().map(|case| bench.measure(case, &BenchData::new(case)?, &counter)).collect();
    drop(counter);
    let found = found?;
    let mut report = bench.report(found);
    if arguments.algorithms.is_empty() {
        let threads = Threads::new(threads)?;
        report.solver = Some(solver::measure()?);
        report.planner = Some(planner::measure(&threads, arguments.quick)?);
        report.episodes = episodes::measure(&threads, arguments.quick)?;
    }
    if arguments.json { say_json(&report) } else { say(&table::of(&report)) }
}

/// The device that `arguments` name.
fn meter(arguments: &Bench, threads: usize) -> Result<Meter> {
    let threads = Threads::new(threads)?;
    let (hardware, reason) = Hardware::choose(arguments.device.parse()?, threads)?;
    if let Some(reason) = reason {
        crate::output::warn(&reason);
    }
    let usual = if arguments.quick { 0.1 } else { 1.0 };
    let limits = Limits { most: 300, seconds: arguments.seconds.unwrap_or(usual) };
    Ok(Meter::new(hardware, limits))
}
