//! What may be asked: bodies and queries, read and checked.

use serde::Deserialize;

use super::http::Answer;
use crate::examiner::Steering;
use crate::plan::{self, Planner};

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

/// The body of a question.
pub fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> std::result::Result<T, Answer> {
    serde_json::from_slice(body).map_err(|error| Answer::refusal(400, format!("the body: {error}")))
}

/// The whole number `name` of a query.
pub fn number(query: &str, name: &str) -> std::result::Result<Option<usize>, Answer> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, text)) = pairs.rfind(|(key, _)| *key == name) else { return Ok(None) };
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

/// Checks that a state has as many finite values as states have.
pub fn whole(name: &str, state: &[f32], size: usize) -> std::result::Result<(), Answer> {
    if state.len() != size {
        let reason = format!("`{name}` has {} values, states have {size}", state.len());
        return Err(Answer::refusal(400, reason));
    }
    finite(name, state)
}

/// Checks that a state has enough finite values to name a state.
pub fn named(name: &str, state: &[f32], size: usize) -> std::result::Result<(), Answer> {
    if !plan::names_a_state(state.len(), size) {
        let reason = format!("`{name}` has {} values, states have {size}", state.len());
        return Err(Answer::refusal(400, reason));
    }
    finite(name, state)
}

fn finite(name: &str, state: &[f32]) -> std::result::Result<(), Answer> {
    match state.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let reason =
                format!("`{name}` value {at} is `{}`, expected a finite number", state[at]);
            Err(Answer::refusal(400, reason))
        }
    }
}
