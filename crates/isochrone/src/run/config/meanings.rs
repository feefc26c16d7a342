//! A config with the meaning of every key: the doc comment of its field, read from the source.
//!
//! A key is a field of a struct, or of the variant of an enum that the section's `name` or `kind`
//! chooses; the type of a field leads to the struct or enum of the section below it.

use std::collections::BTreeMap;
use std::fmt::Write;

use toml::{Table, Value};

use crate::algorithms;

/// The sources of the sections that learners share.
const SHARED: [&str; 18] = [
    include_str!("../config.rs"),
    include_str!("../../train.rs"),
    include_str!("../../data/even.rs"),
    include_str!("../../data/features.rs"),
    include_str!("../../data/sampler/layout.rs"),
    include_str!("../../data/sampler/laws.rs"),
    include_str!("../../algorithms/choices.rs"),
    include_str!("../../engine/optimizer.rs"),
    include_str!("../../extraction/mod.rs"),
    include_str!("../../extraction/awr.rs"),
    include_str!("../../extraction/ddpg_bc.rs"),
    include_str!("../../nn/head.rs"),
    include_str!("../../nn/mlp.rs"),
    include_str!("../../nn/policy.rs"),
    include_str!("../../nn/measure/mod.rs"),
    include_str!("../../nn/measure/stepped.rs"),
    include_str!("../../teacher/mod.rs"),
    include_str!("../../teacher/kinds.rs"),
];

/// A field of a struct or of a variant.
#[derive(Debug, Clone, Default)]
struct Field {
    /// The variant of the enum; empty in a struct.
    variant: String,
    /// Empty where the variant holds a struct, whose fields these are.
    name: String,
    /// Its type, inside `Option` and `Vec`.
    kind: String,
    meaning: String,
}

/// Structs and enums by name.
type Types = BTreeMap<String, Vec<Field>>;

/// Adds the public structs and enums of a source.
fn read(source: &str, types: &mut Types) {
    let (mut inside, mut variant, mut meaning) = (None, String::new(), String::new());
    for line in source.lines() {
        let text = line.trim();
        let mut words = text.split([' ', '<', '(', '{', ';']);
        if let (Some("pub"), Some("struct" | "enum"), Some(name)) =
            (words.next(), words.next(), words.next())
        {
            (inside, variant) = (Some(name.to_owned()), String::new());
        }
        if line == "}" {
            inside = None;
        }
        if let Some(words) = text.strip_prefix("///") {
            meaning = format!("{meaning}{words}").trim().to_owned();
            continue;
        }
        if text.starts_with("#[") {
            continue;
        }
        let meaning = std::mem::take(&mut meaning);
        let Some(fields) = inside.as_ref().map(|name: &String| types.entry(name.clone())) else {
            continue;
        };
        let is_word =
            |word: &str| word.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        let bare = text.trim_start_matches("pub ").trim_end_matches([',', ')', ' ', '{']);
        if let Some((name, kind)) = bare.split_once(": ").filter(|(name, _)| is_word(name)) {
            let kind = kind.rsplit(['<', ':', ' ']).next().unwrap_or(kind).trim_matches('>');
            let (name, kind) = (name.to_owned(), kind.to_owned());
            fields.or_default().push(Field { variant: variant.clone(), name, kind, meaning });
        } else if let Some((name, held)) = bare.split_once('(').filter(|(name, _)| is_word(name)) {
            let kind = held.rsplit(':').next().unwrap_or(held).to_owned();
            let field = Field { variant: kebab(name), kind, ..Field::default() };
            fields.or_default().push(field);
        } else if is_word(bare) && bare.starts_with(char::is_uppercase) {
            variant = kebab(bare);
        }
    }
}

/// `DdpgBc` as configs write it: `ddpg-bc`.
fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// The fields of `kind` that a section with these values has.
fn fields(types: &Types, kind: &str, section: &Table) -> Vec<Field> {
    let tag = ["name", "kind"].into_iter().find_map(|tag| section.get(tag)?.as_str());
    let mut found = Vec::new();
    for field in types.get(kind).into_iter().flatten() {
        match (field.variant.is_empty(), &*field.name) {
            (false, _) if Some(&*field.variant) != tag => {}
            (false, "") => found.extend(fields(types, &field.kind, &Table::new())),
            _ => found.push(field.clone()),
        }
    }
    found
}

/// The widest line of a comment.
const WIDTH: usize = 96;

/// Adds a comment, broken into lines.
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        line = format!("{line} {word}");
    }
    let _ = writeln!(out, "{line}");
}

/// The values that a key takes, as a list, where they are few.
type Choices<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Adds the keys of a section, then the sections below it.
fn section(
    out: &mut String,
    types: &Types,
    choices: Choices<'_>,
    (path, kind): (&str, &str),
    values: &Table,
) {
    let fields = fields(types, kind, values);
    let path_of =
        |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let list_choices = |out: &mut String, key: &str| {
        let is_text = values.get(key).is_some_and(Value::is_str);
        if let Some(listed) = is_text.then(|| choices(&path_of(key))).flatten() {
            comment(out, &format!("One of {listed}."));
        }
    };
    let known = |key: &str| fields.iter().find(|field| field.name == key);
    let is_section = |key: &str| values.get(key).is_some_and(Value::is_table);
    // What chooses a kind is no field of it.
    for (key, value) in values.iter().filter(|(key, _)| known(key).is_none() && !is_section(key)) {
        list_choices(out, key);
        let _ = writeln!(out, "{key} = {value}");
    }
    for field in fields.iter().filter(|field| !is_section(&field.name)) {
        comment(out, &field.meaning);
        list_choices(out, &field.name);
        let _ = match values.get(&field.name) {
            Some(value) => writeln!(out, "{} = {value}", field.name),
            None => writeln!(out, "# {} = (not set)", field.name),
        };
    }
    for (key, value) in values {
        let Value::Table(inner) = value else { continue };
        let inner_path = path_of(key);
        out.push('\n');
        if let Some(field) = known(key) {
            comment(out, &field.meaning);
        }
        let _ = writeln!(out, "[{inner_path}]");
        let kind = known(key).map_or("", |field| &field.kind);
        section(out, types, choices, (&inner_path, kind), inner);
    }
}

/// The config as TOML, every key with its meaning and the values it takes, where they are few; one that
/// is not set stands in a comment.
pub(super) fn explained(config: &Table, learner: &str, choices: Choices<'_>) -> String {
    let mut types = Types::new();
    SHARED.iter().for_each(|source| read(source, &mut types));
    // Every learner calls its choices `Config`; those of this one are meant.
    types.remove("Config");
    let source = algorithms::Config::SOURCES.iter().find(|(name, _)| *name == learner);
    source.iter().for_each(|(_, source)| read(source, &mut types));
    let mut out = String::new();
    section(&mut out, &types, choices, ("", "RunConfig"), config);
    out
}

#[cfg(test)]
mod tests {
    use toml::Table;

    use super::super::RunConfig;
    use crate::algorithms;
    use crate::run::{known_learners, preset};

    /// The keys of an explained config that have no comment above them.
    fn unexplained(text: &str) -> Vec<&str> {
        let lines: Vec<&str> = text.lines().collect();
        let bare = |pair: &&[&str]| pair[1].contains(" = ") && !pair[0].starts_with('#');
        let tags = ["name = ", "kind = "];
        let keys = lines.windows(2).filter(bare).map(|pair| pair[1]);
        keys.filter(|key| !tags.iter().any(|tag| key.starts_with(tag))).collect()
    }

    /// The text of a config, which has all of its values, each with a meaning.
    fn complete(config: &RunConfig) -> String {
        let text = config.explained().unwrap();
        let back: Table = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(back, Table::try_from(config).unwrap());
        assert_eq!(
            unexplained(&text),
            [""; 0],
            "{}: keys without a meaning",
            config.algorithm.name()
        );
        text
    }

    #[test]
    fn every_key_of_every_learner_is_printed_with_its_meaning_and_reads_back() {
        for name in algorithms::Config::NAMES {
            for extraction in [None, Some("ddpg-bc"), Some("none")] {
                let algorithm = algorithms::Config::named(name).unwrap();
                let mut config = RunConfig { algorithm, ..RunConfig::default() };
                if extraction.is_some_and(|it| config.algorithm.set_extraction(it).is_err()) {
                    continue;
                }
                let text = complete(&config);
                for key in ["discount", "from", "recorded_in", "policy_goal", "waypoint", "nodes"] {
                    assert!(text.contains(&format!("# {key} = (not set)")), "{key}\n{text}");
                }
            }
        }
        let features = "data.features={kind='fourier', count=4, length=1.0, axes=[0]}".to_owned();
        complete(&RunConfig::parse("", &[features]).unwrap());
        let text = complete(&RunConfig::default());
        for line in ["# One of `none`, `standard`, `range`.", "# One of `auto`, `one-hot`."] {
            assert!(text.contains(line), "{text}");
        }
        assert_eq!(unexplained("a = 1\n# b\nb = 2\nc = 3"), ["c = 3"]);
    }

    #[test]
    fn every_preset_is_printed_whole() {
        let mut printed = 0;
        for world in ["pinwheel", "roads", "antmaze-medium-navigate"] {
            for learner in known_learners() {
                let text = preset(world.parse().unwrap(), learner, None);
                if !text.is_empty() {
                    complete(&RunConfig::parse(text, &[]).unwrap());
                    printed += 1;
                }
            }
        }
        assert!(printed > 20, "{printed}");
    }
}
