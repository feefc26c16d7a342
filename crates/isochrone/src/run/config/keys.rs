//! Keys of a config: read by their section, written over defaults, set by dotted path, compared; a
//! mistake names its key and the nearest known one.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::algorithms;
use crate::error::{Error, Result};
use crate::spelling::nearest;

/// The way out of most mistakes in a config.
pub(super) const SEE_CONFIG: &str = "`isochrone config` prints every key with its default";

/// Reads the section of the learner, over the defaults of the one it names.
pub(super) fn read_algorithm(mut table: Table) -> Result<algorithms::Config> {
    let name = match table.remove("name") {
        None => algorithms::Config::DEFAULT.to_owned(),
        Some(Value::String(name)) => name,
        Some(other) => return Err(wrong_type("algorithm.name", "a name", &other)),
    };
    let Some(defaults) = algorithms::Config::named(&name) else {
        return Err(Error::input(format!("unknown learner `{name}`"))
            .hint(nearest(&name, &algorithms::Config::NAMES)));
    };
    let mut whole = Table::try_from(defaults).map_err(|error| Error::input(error.to_string()))?;
    whole.remove("name");
    overlay(&mut whole, table);
    let section = Value::Table(whole);
    let read = algorithms::Config::read(&name, section.clone());
    let read = read.expect("a learner that has defaults");
    read.map_err(|error| unreadable("algorithm", &section, &error))
}

/// Writes what was `given` over the defaults, key by key; a thing of another kind replaces them.
pub(in crate::run) fn overlay(defaults: &mut Table, given: Table) {
    let differs = |tag: &str| {
        given.get(tag).is_some_and(|kind| defaults.get(tag).is_some_and(|usual| usual != kind))
    };
    if ["name", "kind"].into_iter().any(differs) {
        defaults.clear();
    }
    for (key, value) in given {
        match (defaults.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => overlay(inner, value),
            (_, value) => drop(defaults.insert(key, value)),
        }
    }
}

/// Reads one part of the config, where it is given.
pub(super) fn read_part<T: DeserializeOwned>(key: &str, value: Option<Value>) -> Result<Option<T>> {
    value.map(|value| read_value(key, value)).transpose()
}

/// Reads one part of the config; an error names the dotted key.
fn read_value<T: DeserializeOwned>(key: &str, value: Value) -> Result<T> {
    let section = value.clone();
    T::deserialize(value).map_err(|error| unreadable(key, &section, &error))
}

/// The error of a part of the config, `section`. The last line of TOML's own words names the place inside
/// it; where a section has several kinds that is as far as they go, and the wrong choice is looked for.
fn unreadable(key: &str, section: &Value, error: &toml::de::Error) -> Error {
    let (words, message) = (error.to_string(), one_line(error.message()));
    let inner = words.lines().last().and_then(|line| line.strip_prefix("in `")?.strip_suffix('`'));
    let inside = inner.iter().flat_map(|inner| inner.split('.'));
    let place = inside.clone().try_fold(section, |value, key| value.get(key));
    let wrong = message.strip_prefix("unknown variant `").and_then(|rest| rest.split('`').next());
    let of_choice = |(key, value): (&String, &Value)| {
        (value.as_str().is_some() && value.as_str() == wrong).then(|| key.clone())
    };
    let choice = place.and_then(Value::as_table).and_then(|place| place.iter().find_map(of_choice));
    let keys: Vec<&str> = std::iter::once(key).chain(inside).chain(choice.as_deref()).collect();
    explain(&keys.join("."), &message)
}

/// Turns serde's words into ours: the key, expected and found, and the nearest known name.
fn explain(key: &str, message: &str) -> Error {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    for (prefix, kind) in [("unknown field", "key"), ("unknown variant", "choice")] {
        if let (true, Some((wrong, known))) = (message.starts_with(prefix), quoted.split_first()) {
            let hint = if known.is_empty() {
                "there are no keys here".into()
            } else {
                nearest(wrong, known)
            };
            return Error::input(format!("unknown {kind} `{wrong}` of `{key}`")).hint(hint);
        }
    }
    let expected = [
        ("expected u64", "expected a whole number, 0 or more"),
        ("expected usize", "expected a whole number, 0 or more"),
        ("expected f64", "expected a number"),
    ];
    // What we say of a value ourselves ends with a hint of its own.
    let (message, hint) = message.split_once("; hint: ").unwrap_or((message, SEE_CONFIG));
    let mut message = message.to_owned();
    for (theirs, ours) in expected {
        message = message.replace(theirs, ours);
    }
    if let Some((before, _)) = message.split_once("expected struct") {
        message = format!("{before}expected a section");
    }
    Error::input(format!("`{key}`: {message}")).hint(hint)
}

/// The error of a key with a value of another type.
pub(super) fn wrong_type(key: &str, expected: &str, found: &Value) -> Error {
    Error::input(format!("`{key}` is `{found}`, expected {expected}")).hint(SEE_CONFIG)
}

/// The words of a message, which may stand on several lines.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Applies one `dotted.key=value`; the value is TOML, or else plain text.
pub(super) fn set(table: &mut Table, setting: &str) -> Result<()> {
    let (path, text) = setting.split_once('=').ok_or_else(|| {
        Error::input(format!("`--set {setting}` has no `=`")).hint("write `--set train.steps=5000`")
    })?;
    let (path, text) = (path.trim(), text.trim());
    let value = format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    let mut keys: Vec<&str> = path.split('.').collect();
    let last = keys.pop().unwrap_or_default();
    let mut inside = table;
    for key in keys {
        let entry = inside.entry(key).or_insert_with(|| Value::Table(Table::new()));
        inside = entry
            .as_table_mut()
            .ok_or_else(|| Error::input(format!("`{path}`: `{key}` is a value, not a section")))
            .map_err(|error| error.hint(SEE_CONFIG))?;
    }
    // Another kind of thing begins with its own defaults.
    if ["name", "kind"].contains(&last) && inside.get(last).is_some_and(|old| *old != value) {
        inside.clear();
    }
    inside.insert(last.to_owned(), value);
    Ok(())
}

/// Adds the dotted keys in which two values differ.
pub(super) fn differ(prefix: &str, one: &Value, other: &Value, keys: &mut Vec<String>) {
    match (one, other) {
        (Value::Table(one), Value::Table(other)) => {
            let missing = Value::String(String::new());
            let names = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            for key in names {
                let inner = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                let side = |table: &Table| table.get(key).unwrap_or(&missing).clone();
                differ(&inner, &side(one), &side(other), keys);
            }
        }
        _ if one != other => keys.push(prefix.to_owned()),
        _ => {}
    }
}
