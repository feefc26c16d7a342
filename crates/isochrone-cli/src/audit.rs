//! `isochrone audit`: whether a learned distance is a quasimetric.

use std::path::PathBuf;

use isochrone::evaluate::{Audit as Found, audit};
use isochrone::model::Model;
use isochrone::run::{self, DataConfig, Source};
use isochrone::tabular::steps;
use isochrone::{Error, Result};
use serde::Serialize;

use crate::opened::{data_of, open_run, sampled};
use crate::output::{Bars, say, say_json};
use crate::wording;

/// Check the triangle inequality of a learned distance on data states
///
/// Violations are counted and reported; they do not change the exit code.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone audit runs/demo/cmd2
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
    #[arg(long, default_value_t = 0)]
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
    let spinner = Bars::new().spinner("audit");
    let report = examine(arguments);
    spinner.finish_and_clear();
    let report = report?;
    if arguments.json { say_json(&report) } else { tell(&report) }
}

fn examine(arguments: &Audit) -> Result<Report> {
    let (model, data, source) = open(arguments)?;
    let (found, expected) = (source.dataset.state_size(), model.shape().state_size);
    if found != expected {
        return Err(Error::input(format!(
            "the data `{data}` have states of `{found}` numbers, the model of `{expected}`"
        ))
        .hint("name the data the model was trained on with `--data`"));
    }
    let found = audit(&model, source.dataset.states(), arguments.triples, arguments.seed)?;
    let discount = model.shape().discount;
    Ok(Report { subject: arguments.subject.clone(), data, discount, found })
}

/// The model, the name of the data, and the data.
fn open(arguments: &Audit) -> Result<(Model, String, Source)> {
    let subject = &arguments.subject;
    if let Some(name) = &arguments.data {
        let data = DataConfig { source: name.clone(), ..DataConfig::default() };
        let source = sampled(run::open_source(&data)?)?;
        let model =
            if subject.is_dir() { open_run(subject)?.model } else { run::open_model(subject)? };
        return Ok((model, name.clone(), source));
    }
    if subject.is_file() {
        return Err(Error::input("a model file brings no data")
            .in_file(subject)
            .hint("name data with `--data FILE.npz`, or the run's folder instead of the model"));
    }
    let opened = open_run(subject)?;
    let source = data_of(&opened)?;
    Ok((opened.model, opened.config.data.source, source))
}

fn tell(report: &Report) -> Result<()> {
    let found = &report.found;
    say(&format!("check     {}", wording::triangle(found)))?;
    say(&format!(
        "          {} states of {}; largest d(x, x) {} nats; an asymmetry of 0 is a metric's",
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
