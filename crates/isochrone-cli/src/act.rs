//! `isochrone act`: what a run's policy does, for one observation or line by line in a loop.

use std::io::{BufRead, ErrorKind, Read};
use std::path::PathBuf;

use isochrone::model::Model;
use isochrone::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::opened::open_asked;
use crate::output::{is_heard, say};
use crate::wording::{counted, unusable};

/// Ask a run's policy for an action, as JSON
///
/// Reads one object such as {"observation": [0.2, 0.1], "goal": [0.3, 0.7]} from standard input,
/// unless --observation and --goal are given. Prints one object with `action`, `choice` (the index of
/// a discrete action), `steps` to the goal if the model has a distance, and `spacings`, how far
/// observation and goal are from the data (above 1, answers are guesses). An `id` is copied to the answer.
///
/// With --serve stdin every line is one such object and is answered by one line at once; a bad
/// line is answered by {"id": …, "error": …}, and the loop goes on until the input ends. Blank
/// lines are skipped.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone act runs/demo/atlas --observation 0.2,0.1 --goal 0.31,0.69
  echo '{\"observation\": [0.2, 0.1], \"goal\": [0.31, 0.69]}' | isochrone act runs/demo/atlas
  isochrone act runs/demo/atlas --serve stdin < questions.jsonl > answers.jsonl")]
pub struct Act {
    /// A run's folder, or a model file
    run: PathBuf,
    /// The observation: values separated by commas
    #[arg(long, value_name = "X,Y,…", allow_hyphen_values = true, value_delimiter = ',')]
    #[arg(requires = "goal")]
    observation: Vec<f32>,
    /// The goal, likewise
    #[arg(long, value_name = "X,Y,…", allow_hyphen_values = true, value_delimiter = ',')]
    #[arg(requires = "observation")]
    goal: Vec<f32>,
    /// Answer one request per line until the input ends
    #[arg(long, value_enum, value_name = "WHERE", conflicts_with = "observation")]
    serve: Option<Serve>,
}

/// Where questions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Serve {
    /// Standard input; answers go to standard output
    Stdin,
}

/// One question.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    observation: Vec<f32>,
    goal: Vec<f32>,
    id: Option<Value>,
}

/// Its answer.
#[derive(Debug, Serialize)]
struct Reply {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    action: Vec<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    choice: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<f32>,
    spacings: Spacings,
}

/// How far both ends are from the data.
#[derive(Debug, Serialize)]
struct Spacings {
    observation: f32,
    goal: f32,
}

/// What is wrong with a question.
#[derive(Debug, Serialize)]
struct Complaint {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    error: String,
}

/// Runs the command.
pub fn run(arguments: &Act) -> Result<()> {
    let (model, judged) = open_asked(&arguments.run)?;
    model.need_policy().map_err(|error| error.in_file(&arguments.run))?;
    let doubt = judged.and_then(|judged| judged.doubt);
    let warn = || doubt.iter().for_each(|doubt| crate::output::warn(doubt));
    if arguments.serve.is_some() {
        warn();
        return serve(&model);
    }
    let question = if arguments.observation.is_empty() {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| match error.kind() {
            ErrorKind::InvalidData => Error::input("standard input is not text"),
            _ => Error::disk("read", "standard input", error),
        })?;
        parsed(&text)?
    } else {
        let (observation, goal) = (arguments.observation.clone(), arguments.goal.clone());
        Question { observation, goal, id: None }
    };
    let reply = answer(&model, question)?;
    warn();
    say_line(&reply)
}

fn serve(model: &Model) -> Result<()> {
    for line in std::io::stdin().lock().split(b'\n') {
        let line = line.map_err(|error| Error::disk("read", "standard input", error))?;
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        match parsed(&text).and_then(|question| answer(model, question)) {
            Ok(reply) => say_line(&reply)?,
            Err(error) => say_line(&Complaint { id: named(&text), error: error.to_string() })?,
        }
        if !is_heard() {
            break;
        }
    }
    Ok(())
}

/// The `id` of a question, whatever else is wrong with it.
fn named(text: &str) -> Option<Value> {
    serde_json::from_str::<Value>(text).ok()?.get_mut("id").map(Value::take)
}

fn parsed(text: &str) -> Result<Question> {
    serde_json::from_str(text).map_err(|error| {
        Error::input(format!("not a question: {error}"))
            .hint("pass an object such as {\"observation\": [0.2, 0.1], \"goal\": [0.3, 0.7]}")
    })
}

fn say_line(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::input(format!("the answer cannot be written as JSON: {error}")))?;
    say(&text)
}

fn answer(model: &Model, question: Question) -> Result<Reply> {
    let Question { observation, goal, id } = question;
    let size = model.shape().state_size;
    for (name, values) in [("observation", &observation), ("goal", &goal)] {
        if values.len() != size {
            return Err(Error::input(format!(
                "`{name}` has {}, expected {size} as in the model's states",
                counted(values.len() as u64, "value", "values")
            ))
            .hint("pass whole states, as the model was trained on"));
        }
        if let Some(wrong) = unusable(name, values) {
            return Err(Error::input(wrong));
        }
    }
    let action = model.act(&observation, &goal)?;
    let steps = if model.has_distance() { model.steps(&observation, &goal)?.pop() } else { None };
    let far = model.novelty(&[&observation[..], &goal[..]].concat())?;
    let choice =
        if model.acts_by_choice() { model.choose(&observation, &goal)?.pop() } else { None };
    let spacings = Spacings { observation: far[0], goal: far[1] };
    Ok(Reply { id, action, choice, steps, spacings })
}
