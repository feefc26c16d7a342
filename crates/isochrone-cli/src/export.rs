//! `isochrone export`: a trained model as an ONNX file.

use std::path::PathBuf;

use isochrone::checkpoint::write_whole;
use isochrone::{Error, Result, onnx};

use crate::opened::open_asked;
use crate::output::{check_target, say};
use crate::wording;

/// Export a run's distance and policy as an ONNX file
///
/// Inputs are `observation` and `goal` (batch × state size, as recorded); outputs are `steps` (batch)
/// and `action` (batch × action size), if the model has them. Normalization and features are
/// part of the graph. Opset 18, IR version 8, weights inline; the metadata hold discount, unit and
/// normalization.
#[derive(clap::Args)]
#[command(after_help = "Example:
  isochrone export runs/demo/atlas -o model.onnx")]
pub struct Export {
    /// A run's folder, or a model file
    run: PathBuf,
    /// The file to write, ending in .onnx
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(arguments: &Export) -> Result<()> {
    let out = &arguments.out;
    if out.extension().is_none_or(|ending| !ending.eq_ignore_ascii_case("onnx")) {
        return Err(Error::input("the file to write does not end in `.onnx`")
            .in_file(out)
            .hint("for example `-o model.onnx`"));
    }
    check_target(out, arguments.force)?;
    let (model, judged) = open_asked(&arguments.run)?;
    let bytes = onnx::export(&model).map_err(|error| error.in_file(&arguments.run))?;
    write_whole(out, &bytes)?;
    let (states, actions) = (model.shape().state_size, model.shape().action_size);
    say(&format!("inputs    observation, goal: batch × {states}"))?;
    if model.has_distance() {
        say("output    steps: batch")?;
        wording::trust(judged.as_ref()).map_or(Ok(()), |line| say(&line))?;
    }
    if model.has_policy() {
        say(&format!("output    action: batch × {actions}"))?;
    }
    say(&format!("wrote     {}", out.display()))
}
