//! `isochrone audit`: whether a learned distance is a quasimetric.

use std::path::PathBuf;

use isochrone::evaluate::{Audit as Found, audit};
use isochrone::model::Model;
use isochrone::run::{self, DataConfig, Source};
use isochrone::tabular::steps;
use isochrone::{Error, Result};
use serde::Serialize;

use crate::flags::seed;
use crate::opened::{data_of, open_run, sampled};
use crate::output::{say, say_json};
use crate::progress::{Spinner, waiting};
use crate::wording;

/// Check the triangle inequality of a learned distance on data states
///
/// Violations are counted and reported; they do not change the exit code.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone audit runs/demo/atlas
  isochrone audit model.safetensors --data my-logs.npz --triples 100000")]
pub struct Audit {
    /// A run's folder, or a model.safetensors
    #[arg(value_name = "RUN|MODEL")]
    subject: PathBuf,
    /// The states to check: a data file or the name of a world [default: the run's own data]
    #[arg(long, value_name = "FILE")]
    data: Option<String>,
    /// How many triples of states to check
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    triples: u64,
    /// The seed for drawing states and triples
    #[arg(long, default_value_t = 0, allow_hyphen_values = true, value_parser = seed)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What an audit prints.
#[derive(Serialize)]
struct Report {
    subject: PathBuf,
    data: String,
    discount: f64,
    #[serde(flatten)]
    found: Found,
}

/// Runs the command.
pub fn run(arguments: &Audit) -> Result<()> {
    let report = waiting("audit", |spinner| examine(arguments, spinner))?;
    if arguments.json { say_json(&report) } else { tell(&report) }
}

fn examine(arguments: &Audit, spinner: &Spinner) -> Result<Report> {
    let (model, data, source) = open(arguments, spinner)?;
    let (found, expected) = (source.dataset.state_size(), model.shape().state_size);
    if found != expected {
        return Err(Error::input(format!(
            "states of `{data}` have `{found}` values, those the model learned from `{expected}`"
        ))
        .hint("name data of the same kind as those it learned from with `--data`"));
    }
    if let Some(warning) = foreign(&model, &data, source.dataset.states())? {
        crate::output::warn(&warning);
    }
    let found = audit(&model, source.dataset.states(), arguments.triples, arguments.seed)?;
    let discount = model.shape().discount;
    Ok(Report { subject: arguments.subject.clone(), data, discount, found })
}

/// States asked whether they are like those the model learned from.
const PROBED: usize = 1_000;

/// What to say where most states are far from those the model learned from.
fn foreign(model: &Model, data: &str, states: &[f32]) -> Result<Option<String>> {
    let size = model.shape().state_size;
    let apart = (states.len() / size).div_ceil(PROBED);
    let probed: Vec<f32> =
        states.chunks_exact(size).step_by(apart).flat_map(<[f32]>::to_vec).collect();
    let spacings = model.novelty(&probed)?;
    let far = spacings.iter().filter(|spacings| **spacings > 1.0).count();
    Ok((2 * far > spacings.len()).then(|| {
        format!(
            "{:.0} % of the states of `{data}` are far from those the model learned from: its \
             distances there are guesses",
            100.0 * far as f64 / spacings.len() as f64
        )
    }))
}

/// The model, the name of the data, and the data.
fn open(arguments: &Audit, spinner: &Spinner) -> Result<(Model, String, Source)> {
    let subject = &arguments.subject;
    if let Some(name) = &arguments.data {
        let data = DataConfig { source: name.clone(), ..DataConfig::default() };
        let source = sampled(run::open_source(&data)?)?;
        let model =
            if subject.is_dir() { open_run(subject)?.model } else { run::open_model(subject)? };
        return Ok((model, name.clone(), source));
    }
    if subject.is_file() {
        run::open_model(subject)?;
        return Err(Error::input("a model file contains no data")
            .in_file(subject)
            .hint("name data with `--data FILE.npz`, or the run's folder instead of the model"));
    }
    let opened = open_run(subject)?;
    let source = sampled(data_of(&opened, &|note| spinner.note(note))?)?;
    Ok((opened.model, opened.config.data.source, source))
}

fn tell(report: &Report) -> Result<()> {
    let found = &report.found;
    say(&format!("check     {}", wording::triangle(found)))?;
    say(&format!(
        "          {} states of {}; largest d(x, x) {} nats; a metric has asymmetry 0",
        wording::grouped(found.states as u64),
        report.data,
        found.identity
    ))?;
    if let Some(worst) = &found.worst {
        let [from, via, to] = worst.triple;
        let in_steps = |nats: f64| steps(nats, report.discount);
        say(&format!(
            "worst     row {from} to {to}: {:.3} steps, but {:.3} by way of row {via}, {:.2} % less",
            in_steps(worst.direct),
            in_steps(worst.detour),
            100.0 * worst.relative
        ))?;
    }
    if found.not_finite > 0 {
        say(&format!(
            "broken    {} not finite and counted nowhere",
            wording::counted(found.not_finite, "distance is", "distances are")
        ))?;
    }
    Ok(())
}
