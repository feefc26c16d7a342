//! What every reader says about keys and shapes, in the same words.

use crate::error::{Error, Result};
use crate::spelling::changes;

/// The way out of a damaged file.
pub(super) const DAMAGED: &str = "the file is truncated or damaged; copy or save it again";

/// Names that others give to these keys; only ever used in a hint.
const SYNONYMS: [(&str, &[&str]); 5] = [
    ("states", &["obs", "observation", "state", "s", "x"]),
    ("observations", &["obs", "observation", "states", "state", "s", "x"]),
    ("actions", &["action", "act", "acts", "a", "u", "controls", "control"]),
    ("terminals", &["dones", "done", "timeouts", "terminal", "ends", "truncations"]),
    ("timeouts", &["dones", "done", "terminals", "timeout", "ends", "truncations"]),
];

/// The name among `found` that `key` is likely to be misspelled as, or called by others.
fn nearest<'a>(found: &[&'a str], key: &str) -> Option<&'a str> {
    let synonyms = SYNONYMS.iter().find(|(name, _)| *name == key).map_or(&[][..], |entry| entry.1);
    let rank = |name: &str| {
        let lower = name.to_ascii_lowercase();
        if synonyms.contains(&lower.as_str()) { 1 } else { changes(&lower, key) }
    };
    let short = found.iter().copied().filter(|name| name.len() <= 2 * key.len());
    short.min_by_key(|name| rank(name)).filter(|name| rank(name) <= key.len() / 3)
}

/// The complaint about a missing key: lists the keys present and suggests the nearest one.
pub(super) fn missing(key: &str, found: &[&str], otherwise: &str) -> Error {
    missing_among(key, found, found, otherwise)
}

/// As [`missing`], where only the keys `others` of those present can be meant.
pub(super) fn missing_among(key: &str, found: &[&str], others: &[&str], otherwise: &str) -> Error {
    let hint = match nearest(others, key) {
        Some(near) => format!("is `{}` meant? save it as `{key}`", shown(near)),
        None => otherwise.to_owned(),
    };
    Error::input(format!("no key `{key}`, found {}", listed(found))).hint(hint)
}

/// Refuses a file without `key` that has a key so much like it that a misspelling is likely; `used`
/// are the keys that have a meaning of their own.
pub(super) fn refuse_misspelling(key: &str, found: &[&str], used: &[&str]) -> Result<()> {
    let others: Vec<&str> = found.iter().copied().filter(|name| !used.contains(name)).collect();
    let alike =
        |name: &&str| name.chars().next().map(|c| c.to_ascii_lowercase()) == key.chars().next();
    match nearest(&others, key).filter(alike) {
        None => Ok(()),
        Some(near) => Err(Error::input(format!(
            "`{}` looks like a misspelling of `{key}`, found {}",
            shown(near),
            listed(found)
        ))
        .hint(format!("save it as `{key}`; to train on states alone, leave it out"))),
    }
}

/// The beginning of a name of a file's own choice, without line breaks or control characters.
fn shown(name: &str) -> String {
    name.escape_debug().take(40).collect()
}

fn listed(found: &[&str]) -> String {
    /// More keys than these are not listed.
    const LISTED: usize = 20;
    let quoted = |name: &&str| format!("`{}`", shown(name));
    let mut list = found.iter().take(LISTED).map(quoted).collect::<Vec<_>>().join(", ");
    if found.len() > LISTED {
        list += &format!(" and {} more", found.len() - LISTED);
    }
    if found.is_empty() {
        list = "no arrays".into();
    }
    list
}

/// What an array is called in a line of Python: by its key where that can be a name.
pub(super) fn variable(key: &str) -> &str {
    let is_plain = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    // The only key of ours that is a keyword.
    if key.bytes().all(is_plain) && key != "from" { key } else { "array" }
}

/// An array as it stands in the file.
#[derive(Clone, Copy)]
pub(super) struct Shape<'a> {
    pub(super) key: &'a str,
    pub(super) rows: usize,
    /// Values per row; none for flags.
    pub(super) size: Option<usize>,
}

/// Refuses an array with another number of rows than the states.
pub(super) fn same_rows(found: Shape<'_>, states: Shape<'_>) -> Result<()> {
    if found.rows == states.rows {
        return Ok(());
    }
    for (one, other) in [(found, states), (states, found)] {
        // More columns than rows, and as many columns as the other has rows.
        if let Some(size) = one.size.filter(|&size| size == other.rows && size > one.rows) {
            let (key, rows) = (one.key, one.rows);
            return Err(Error::input(format!(
                "`{key}` looks transposed: its shape is ({rows}, {size}), expected ({size}, {rows})"
            ))
            .hint(format!("save `numpy.ascontiguousarray({}.T)`", variable(key))));
        }
    }
    let (key, rows) = (found.key, found.rows);
    Err(Error::input(format!("`{key}` has {rows} rows, `{}` has {}", states.key, states.rows))
        .hint("every key has one row per state, including the last state of a trajectory"))
}

/// The complaint about an array that is not a matrix.
pub(super) fn not_a_matrix(key: &str, dimensions: usize) -> Error {
    let name = variable(key);
    let hint = match (dimensions, key) {
        (1, "actions") => format!(
            "save `{name}.reshape(-1, 1)`, or `{name}.astype('<i8')` if each names one of several \
             discrete actions"
        ),
        (0 | 1, _) => format!("save `{name}.reshape(-1, 1)` if each row has one value"),
        (2 | 3, _) => format!("save `{name}.reshape(-1, {name}.shape[-1])`"),
        _ => format!("flatten each row: save `{name}.reshape(len({name}), -1)`"),
    };
    let count =
        if dimensions == 1 { "1 dimension".into() } else { format!("{dimensions} dimensions") };
    Error::input(format!("`{key}` has {count}, expected 2: rows and values per row")).hint(hint)
}

/// Where discrete actions are read from.
#[cfg(feature = "hdf5")]
pub(super) const DISCRETE: &str = "discrete actions are read from npz alone: save `observations`, \
                                   `terminals` and `actions`, a whole number for each row of \
                                   these, with `numpy.savez`";

/// Whether an array of an HDF5 file holds actions.
#[cfg(feature = "hdf5")]
pub(super) fn is_actions(key: &str) -> bool {
    key.rsplit('/').next() == Some("actions")
}

/// The complaint about actions of an HDF5 file that are not rows.
#[cfg(feature = "hdf5")]
pub(super) fn flat_actions(key: &str) -> Error {
    Error::input(format!("`{key}` has 1 dimension, expected 2: rows and values per row")).hint(
        format!(
            "save `{}.reshape(-1, 1)` if each is a number in [-1, 1]; {DISCRETE}",
            variable(key)
        ),
    )
}

/// The complaint about flags that are not one per row.
pub(super) fn not_flags(key: &str, dimensions: usize) -> Error {
    Error::input(format!("`{key}` has {dimensions} dimensions, expected 1"))
        .hint(format!("save `{}.reshape(-1)`", variable(key)))
}

/// The note about 64-bit values.
pub(super) fn narrowed(key: &str) -> String {
    format!("`{key}` holds 64-bit values; they are rounded to 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_python_name_no_keyword_and_no_place_in_a_file() {
        assert_eq!(["states", "next_to"].map(variable), ["states", "next_to"]);
        for key in ["from", "episode_0/actions", "observation.state", "2d"] {
            assert_eq!(variable(key), "array", "{key}");
        }
        let said = not_a_matrix("episode_0/actions", 1).to_string();
        assert!(said.starts_with("`episode_0/actions` has 1 dimension"), "{said}");
        assert!(said.contains("save `array.reshape(-1, 1)`"), "{said}");
        let said = not_a_matrix("from", 3).to_string();
        assert!(said.ends_with("save `array.reshape(-1, array.shape[-1])`"), "{said}");
    }

    #[test]
    fn names_with_line_breaks_are_told_in_one_line() {
        let found = ["sta\ntes", "\u{1b}[2Jactions", &"x".repeat(1_000)];
        for error in [
            missing("states", &found, "save them"),
            refuse_misspelling("states", &found, &[]).unwrap_err(),
        ] {
            let said = error.to_string();
            assert!(said.contains("`sta\\ntes`") && said.len() < 300, "{said}");
            assert!(!said.contains(char::is_control), "{said}");
        }
    }
}
