//! What a world file calls its states and actions: names or numbers → their order.
//!
//! Names stand in the order they are given or met, numbers in numerical order. A name that is not
//! known is answered with the nearest one.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};
use crate::spelling::nearest;

/// One value of the file: a number, a name, or something that is neither.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Label {
    Integer(u64),
    Number(f64),
    Text(String),
    Other(IgnoredAny),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text}"),
            Self::Other(_) => write!(f, "neither a number nor a name"),
        }
    }
}

impl Label {
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(integer) => Some(*integer as f64),
            Self::Number(number) => Some(*number),
            Self::Text(_) | Self::Other(_) => None,
        }
    }
}

/// The names of states or actions and their numbers.
pub(super) struct Names {
    pub(super) names: Vec<String>,
    numbers: BTreeMap<String, usize>,
    /// Whether a number in the file counts the names instead of being one.
    counted: bool,
}

impl Names {
    /// The names that the file lists under `states`.
    pub(super) fn given(states: &[Label], most: usize) -> Result<Self> {
        check_count(states.len(), "state", most)?;
        let mut names = Self { names: Vec::new(), numbers: BTreeMap::new(), counted: true };
        for (place, state) in states.iter().enumerate() {
            let Label::Text(name) = state else {
                return Err(Error::input(format!(
                    "name {} of `states` is `{state}`, expected a text",
                    place + 1
                )));
            };
            if !names.add(name.clone()) {
                return Err(Error::input(format!("`states` names `{name}` twice")));
            }
        }
        Ok(names)
    }

    /// Names in the order they are met; numbers in numerical order.
    pub(super) fn found<'a>(
        labels: impl Iterator<Item = (usize, &'a Label)>,
        kind: &str,
        most: usize,
    ) -> Result<Self> {
        let mut names = Self { names: Vec::new(), numbers: BTreeMap::new(), counted: false };
        let mut integers = Vec::new();
        for (place, label) in labels {
            let mixed = match label {
                Label::Integer(integer) => {
                    if names.add(integer.to_string()) {
                        integers.push(*integer);
                    }
                    integers.len() < names.names.len()
                }
                Label::Text(name) => {
                    names.add(name.clone());
                    !integers.is_empty()
                }
                Label::Number(_) | Label::Other(_) => {
                    return Err(not_a_label(label, place, kind));
                }
            };
            if mixed {
                return Err(Error::input(format!(
                    "{} calls {kind} `{label}`, but names and numbers are mixed",
                    nth(place)
                ))
                .hint(format!("call every {kind} by a name, or every one by a number")));
            }
            check_count(names.names.len(), kind, most)?;
        }
        integers.sort_unstable();
        if !integers.is_empty() {
            names.names.clear();
            names.numbers.clear();
            integers.iter().for_each(|integer| {
                names.add(integer.to_string());
            });
        }
        Ok(names)
    }

    /// Adds a name; whether it is new.
    fn add(&mut self, name: String) -> bool {
        let number = self.names.len();
        let new = !self.numbers.contains_key(&name);
        if new {
            self.numbers.insert(name.clone(), number);
            self.names.push(name);
        }
        new
    }

    /// The number of the state or action that transition `place` calls `label`.
    pub(super) fn index(&self, label: &Label, place: usize, kind: &str) -> Result<usize> {
        let found = match label {
            Label::Integer(integer) if self.counted => {
                usize::try_from(*integer).ok().filter(|&number| number < self.names.len())
            }
            Label::Integer(_) | Label::Text(_) => self.numbers.get(&label.to_string()).copied(),
            Label::Number(_) | Label::Other(_) => return Err(not_a_label(label, place, kind)),
        };
        found.ok_or_else(|| {
            let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
            let unknown = Error::input(format!("{} knows no {kind} `{label}`", nth(place)));
            unknown.hint(match label {
                Label::Integer(_) => format!("`states` has {}, counted from 0", names.len()),
                _ => nearest(&label.to_string(), &names),
            })
        })
    }
}

fn not_a_label(label: &Label, place: usize, kind: &str) -> Error {
    Error::input(format!(
        "the {kind} of {} is `{label}`, expected a name or a whole number from 0",
        nth(place)
    ))
}

fn check_count(count: usize, kind: &str, most: usize) -> Result<()> {
    if count <= most {
        return Ok(());
    }
    Err(Error::input(format!("more than {most} {kind}s"))
        .hint("build large worlds with the library"))
}

/// A transition as the user counts it, from 1.
pub(super) fn nth(place: usize) -> String {
    format!("transition {}", place + 1)
}
