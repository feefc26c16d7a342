//! Minari's `metadata.json`: how many episodes and steps there must be, and what observations are.
//!
//! Its `observation_space` is JSON as text, which may contain `Infinity`.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::plain;

/// The largest description that is read, in bytes.
const LARGEST_DESCRIPTION: u64 = 16 << 20;
/// How deeply names of observations may be nested.
pub(super) const DEEPEST: usize = 8;

/// The contents of `metadata.json`.
#[derive(Default)]
pub(super) struct Description {
    episodes: Option<u64>,
    steps: Option<u64>,
}

impl Description {
    /// Reads `metadata.json` next to `path`, if there is one.
    pub(super) fn beside(path: &Path) -> Result<Self> {
        let path = path.with_file_name("metadata.json");
        match std::fs::metadata(&path) {
            Ok(found) if found.len() <= LARGEST_DESCRIPTION => {}
            Ok(found) => {
                let size = found.len();
                return Err(Error::input(format!("the description has {size} bytes"))
                    .in_file(&path)
                    .hint(format!("at most {LARGEST_DESCRIPTION} are read")));
            }
            Err(_) => return Ok(Self::default()),
        }
        let text = plain::read_text(&path)
            .map_err(|error| Error::input(format!("cannot be read: {error}")).in_file(&path))?;
        Self::parse(&text).map_err(|error| error.in_file(&path))
    }

    fn parse(text: &str) -> Result<Self> {
        let damaged = |what: &str, error: &serde_json::Error| {
            Error::input(format!("{what} is not JSON: {}", error.to_string().to_lowercase()))
                .hint("download or save the dataset again")
        };
        let value: Value = serde_json::from_str(text).map_err(|e| damaged("the file", &e))?;
        if let Some(format) = value["data_format"].as_str().filter(|format| *format != "hdf5") {
            return Err(Error::input(format!("the data are in `{format}`, expected `hdf5`"))
                .hint("save the dataset with `data_format=\"hdf5\"`"));
        }
        if let Some(space) = value["observation_space"].as_str() {
            let space: Value = serde_json::from_str(&finite(space))
                .map_err(|error| damaged("`observation_space`", &error))?;
            check_space(&space, 0)?;
        }
        Ok(Self {
            episodes: value["total_episodes"].as_u64(),
            steps: value["total_steps"].as_u64(),
        })
    }

    /// Refuses another number of episodes.
    pub(super) fn check_episodes(&self, found: usize) -> Result<()> {
        match self.episodes {
            Some(expected) if expected != found as u64 => {
                Err(Error::input(format!("{found} episodes, `metadata.json` says {expected}"))
                    .hint("the dataset is incomplete; download or save it again"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses another number of steps.
    pub(super) fn check_steps(&self, found: u64) -> Result<()> {
        match self.steps {
            Some(expected) if expected != found => {
                Err(Error::input(format!("{found} steps, `metadata.json` says {expected}"))
                    .hint("the dataset is incomplete; download or save it again"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses observations that are not vectors of numbers.
fn check_space(space: &Value, depth: usize) -> Result<()> {
    let kind = space["type"].as_str().unwrap_or_default();
    let inner = |values: Vec<&Value>| {
        values.into_iter().try_for_each(|space| {
            if depth > DEEPEST { Ok(()) } else { check_space(space, depth + 1) }
        })
    };
    match kind {
        "Box" | "" => Ok(()),
        "Dict" => {
            inner(space["subspaces"].as_object().map_or(Vec::new(), |m| m.values().collect()))
        }
        "Tuple" => inner(space["subspaces"].as_array().map_or(Vec::new(), |l| l.iter().collect())),
        other => Err(Error::input(format!("an observation is a `{other}`, expected a `Box`"))
            .hint("choose or make observations that are vectors of numbers")),
    }
}

/// The text with `Infinity` and `NaN` outside of quotes replaced by `null`, which is valid JSON.
fn finite(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let (mut rest, mut quoted) = (text, false);
    while let Some(letter) = rest.chars().next() {
        let word = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word));
        if let Some(word) = word.filter(|_| !quoted) {
            result.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        let taken = match letter {
            '\\' if quoted => rest.chars().take(2).map(char::len_utf8).sum(),
            _ => letter.len_utf8(),
        };
        quoted ^= letter == '"';
        result.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinity_is_replaced_only_outside_of_quotes() {
        let text = r#"{"a": [-Infinity, Infinity, NaN], "NaN \" Infinity": 1}"#;
        assert_eq!(finite(text), r#"{"a": [null, null, null], "NaN \" Infinity": 1}"#);
    }
}
