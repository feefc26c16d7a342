//! What may be asked: bodies and queries, read and checked.

use serde::Deserialize;

use super::http::Answer;
use crate::examiner::Steering;
use crate::plan::{self, Planner};
use crate::wording::{counted, unusable};

/// A question about states.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pairs {
    #[serde(default)]
    pub run: usize,
    pub from: Vec<Vec<f32>>,
    pub to: Vec<Vec<f32>>,
}

/// A question to the policy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acts {
    #[serde(default)]
    pub run: usize,
    pub observations: Vec<Vec<f32>>,
    pub goals: Vec<Vec<f32>>,
}

/// A question for a path.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    #[serde(default)]
    pub run: usize,
    pub start: Vec<f32>,
    pub goal: Vec<f32>,
    #[serde(default = "graph")]
    pub planner: Planner,
}

fn graph() -> Planner {
    Planner::Graph
}

/// A question for the exact steps of a map.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExactGoal {
    #[serde(default)]
    pub run: usize,
    pub goal: Vec<f32>,
    pub axes: [usize; 2],
}

/// A question for episodes of the policy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episodes {
    #[serde(default)]
    pub run: usize,
    pub start: Vec<f32>,
    pub goal: Vec<f32>,
    #[serde(default = "policy")]
    pub control: Steering,
    #[serde(default = "one")]
    pub episodes: usize,
    #[serde(default)]
    pub seed: u64,
}

fn policy() -> Steering {
    Steering::Policy
}

fn one() -> usize {
    1
}

/// A question about a run as a whole.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OfRun {
    #[serde(default)]
    pub run: usize,
}

/// Words of the JSON reader, and plainer ones.
const PLAIN: [(&str, &str); 9] = [
    ("expected usize", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected f32", "expected a number"),
    ("expected a sequence", "expected a list"),
    ("expected an array of length", "expected a list of length"),
    ("unknown field", "unknown key"),
    ("missing field", "missing key"),
    ("duplicate field", "repeated key"),
    ("EOF while parsing", "it ends within"),
];

/// The body of a question.
pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> std::result::Result<T, Answer> {
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(Answer::refusal(400, "the body is not a JSON object"));
    }
    serde_json::from_slice(body).map_err(|error| {
        let plainer = |text: String, &(theirs, ours): &(&str, &str)| text.replace(theirs, ours);
        let reason = PLAIN.iter().fold(error.to_string(), plainer);
        Answer::refusal(400, format!("the body: {reason}"))
    })
}

/// The keys of a query with their values.
fn pairs(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// Checks that a query has no keys but `known` ones, each at most once.
pub fn known_keys(query: &str, known: &[&str]) -> std::result::Result<(), Answer> {
    let mut seen = Vec::new();
    for (key, _) in pairs(query) {
        if !known.contains(&key) {
            let expected = if known.is_empty() {
                "none".to_owned()
            } else {
                format!("`{}`", known.join("`, `"))
            };
            let reason = format!("unknown key `{key}` in the address, expected {expected}");
            return Err(Answer::refusal(400, reason));
        }
        if seen.contains(&key) {
            return Err(Answer::refusal(400, format!("repeated key `{key}` in the address")));
        }
        seen.push(key);
    }
    Ok(())
}

/// The whole number `name` of a query.
pub fn number(query: &str, name: &str) -> std::result::Result<Option<usize>, Answer> {
    let Some((_, text)) = pairs(query).find(|(key, _)| *key == name) else { return Ok(None) };
    let wrong = || Answer::refusal(400, format!("`{name}` is `{text}`, expected a whole number"));
    text.parse().map(Some).map_err(|_| wrong())
}

/// States of a question, row after row.
pub fn rows(name: &str, states: &[Vec<f32>], size: usize) -> std::result::Result<Vec<f32>, Answer> {
    if states.is_empty() {
        return Err(Answer::refusal(400, format!("`{name}` is empty, expected states")));
    }
    for (at, state) in states.iter().enumerate() {
        whole(&format!("{name}[{at}]"), state, size)?;
    }
    Ok(states.concat())
}

/// Checks that two coordinates differ, where states of `size` values have two.
pub fn apart(axes: [usize; 2], size: usize) -> std::result::Result<[usize; 2], Answer> {
    let [x, y] = axes;
    if x == y && size > 1 {
        let reason = format!("both axes are coordinate `{x}`, expected two different ones");
        return Err(Answer::refusal(400, reason));
    }
    Ok(axes)
}

/// Checks that a state has as many values as states have, and bounded ones.
pub fn whole(name: &str, state: &[f32], size: usize) -> std::result::Result<(), Answer> {
    if state.len() != size {
        let expected = format!("{size} as in the model's states");
        return Err(misfit(name, state, &expected));
    }
    bounded(name, state)
}

/// Checks that a state has enough values to name a state, and bounded ones.
pub fn named(name: &str, state: &[f32], size: usize) -> std::result::Result<(), Answer> {
    if !plan::names_a_state(state.len(), size) {
        let first = if size > 2 { ", or the first two or more" } else { "" };
        let expected = format!("{size} as in the model's states{first}");
        return Err(misfit(name, state, &expected));
    }
    bounded(name, state)
}

fn misfit(name: &str, state: &[f32], expected: &str) -> Answer {
    let found = counted(state.len() as u64, "value", "values");
    Answer::refusal(400, format!("`{name}` has {found}, expected {expected}"))
}

fn bounded(name: &str, state: &[f32]) -> std::result::Result<(), Answer> {
    unusable(name, state).map_or(Ok(()), |wrong| Err(Answer::refusal(400, wrong)))
}
