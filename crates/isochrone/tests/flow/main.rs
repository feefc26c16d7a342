//! The one-way flow: a module names only modules at or before its own place in `lib.rs`.
//!
//! The order of the `mod` lines in `lib.rs` is the rule. Every path that begins with `crate`,
//! `self` or `super` is resolved, in tests too; comments and strings do not count. A name that
//! `lib.rs` re-exports belongs to the module it comes from.
#![allow(clippy::unwrap_used)]

mod circles;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 7] = ["utils", "util", "common", "helpers", "helper", "base", "misc"];

/// One word, mark or literal of a source file; comments leave no token.
struct Token {
    text: String,
    line: usize,
}

/// What `lib.rs` declares: modules in flow order, and where each re-exported name comes from.
struct Flow {
    modules: Vec<String>,
    reexports: BTreeMap<String, String>,
}

/// A path as written, resolved from the root of the crate.
struct Mention {
    line: usize,
    path: Vec<String>,
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Splits Rust source into words, marks and literals; `::` is one mark.
fn tokens(source: &str) -> Vec<Token> {
    let text: Vec<char> = source.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < text.len() {
        let end = token_end(&text, at);
        let piece: String = text[at..end].iter().collect();
        let is_code =
            !piece.starts_with("//") && !piece.starts_with("/*") && !piece.trim().is_empty();
        let lines = piece.matches('\n').count();
        if is_code {
            found.push(Token { text: piece, line });
        }
        line += lines;
        at = end;
    }
    found
}

/// Where the token that begins at `at` ends.
fn token_end(text: &[char], at: usize) -> usize {
    let next = |offset: usize| text.get(at + offset).copied().unwrap_or(' ');
    match (text[at], next(1)) {
        ('/', '/') => position(text, at, |rest| rest[0] == '\n'),
        ('/', '*') => comment_end(text, at),
        ('"', _) => string_end(text, at + 1),
        ('\'', '\\') => position(text, at + 3, |rest| rest[0] == '\'') + 1,
        ('\'', _) if next(2) == '\'' => at + 3,
        (':', ':') => at + 2,
        (first, _) if is_word(first) => {
            let end = position(text, at, |rest| !is_word(rest[0]));
            let prefix: String = text[at..end].iter().collect();
            match prefix.as_str() {
                "r" | "br" | "cr" => raw_string_end(text, end),
                _ => end,
            }
        }
        _ => at + 1,
    }
    .min(text.len())
}

fn position(text: &[char], from: usize, is_end: impl Fn(&[char]) -> bool) -> usize {
    (from..text.len()).find(|&at| is_end(&text[at..])).unwrap_or(text.len())
}

fn comment_end(text: &[char], from: usize) -> usize {
    let (mut depth, mut at) = (0, from);
    while at < text.len() {
        match (text[at], text.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string_end(text: &[char], mut at: usize) -> usize {
    while at < text.len() && text[at] != '"' {
        at += if text[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of a raw string whose prefix ends at `from`; `from` itself where none begins there.
fn raw_string_end(text: &[char], from: usize) -> usize {
    let quote = position(text, from, |rest| rest[0] != '#');
    if text.get(quote) != Some(&'"') {
        return from;
    }
    let closing: Vec<char> =
        std::iter::once('"').chain(std::iter::repeat_n('#', quote - from)).collect();
    position(text, quote + 1, |rest| rest.starts_with(&closing)) + closing.len()
}

/// Reads a path or a tree of paths; returns the leaves and the index after it.
fn path_tree(tokens: &[Token], mut at: usize, prefix: &[String]) -> (Vec<Vec<String>>, usize) {
    let mut path = prefix.to_vec();
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    loop {
        if word(at) == "{" {
            let mut leaves = Vec::new();
            at += 1;
            while at < tokens.len() && word(at) != "}" {
                let (inner, after) = path_tree(tokens, at, &path);
                leaves.extend(inner);
                at = after;
                while at < tokens.len() && !matches!(word(at), "," | "}") {
                    at += 1;
                }
                at += usize::from(word(at) == ",");
            }
            return (leaves, at + 1);
        }
        if !word(at).starts_with(|first| is_word(first) || first == '*') {
            return (vec![path], at);
        }
        path.push(word(at).to_owned());
        at += 1;
        if word(at) != "::" {
            return (vec![path], at);
        }
        at += 1;
    }
}

/// Follows `crate`, `self` and `super` from the module `here` to a path from the root.
fn resolve(here: &[String], written: &[String]) -> Vec<String> {
    let mut path = here.to_vec();
    for (index, segment) in written.iter().enumerate() {
        match segment.as_str() {
            "crate" => path.clear(),
            "self" => {}
            "super" => drop(path.pop()),
            _ => {
                path.extend_from_slice(&written[index..]);
                path.retain(|segment| segment != "self");
                break;
            }
        }
    }
    path
}

/// Every path in `source` that begins with `crate`, `self` or `super`; `file` is its module path.
fn mentions(source: &str, file: &[String]) -> Vec<Mention> {
    let tokens = tokens(source);
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let mut here = file.to_vec();
    let mut opened_by_module = Vec::new();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        match word(at) {
            "{" => {
                let is_module = at >= 2 && word(at - 2) == "mod";
                if is_module {
                    here.push(word(at - 1).to_owned());
                }
                opened_by_module.push(is_module);
            }
            "}" if opened_by_module.pop() == Some(true) => drop(here.pop()),
            "crate" | "self" | "super" if word(at + 1) == "::" || word(at + 1) == "as" => {
                let (leaves, after) = path_tree(&tokens, at, &[]);
                let line = tokens[at].line;
                let resolved = leaves.iter().map(|leaf| resolve(&here, leaf));
                found.extend(resolved.map(|path| Mention { line, path }));
                at = after;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Reads the modules and the re-exports of a crate root.
fn flow(root: &str) -> Flow {
    let tokens = tokens(root);
    let modules = tokens
        .windows(3)
        .filter(|window| window[0].text == "mod" && window[2].text == ";")
        .map(|window| window[1].text.clone())
        .collect();
    let mut reexports = BTreeMap::new();
    for at in (0..tokens.len()).filter(|&at| tokens[at].text == "use") {
        for leaf in path_tree(&tokens, at + 1, &[]).0 {
            let path = resolve(&[], &leaf);
            if let (Some(module), Some(name)) = (path.first(), path.last()) {
                reexports.insert(name.clone(), module.clone());
            }
        }
    }
    Flow { modules, reexports }
}

/// Complaints about one file of the library, each with file, line and path.
fn violations(flow: &Flow, name: &str, source: &str) -> Vec<String> {
    let file = module_path(name);
    let place = |module: &str| flow.modules.iter().position(|known| known == module);
    let Some(own) = file.first().and_then(|module| place(module)) else {
        return vec![format!("{name}: the module is not listed in lib.rs")];
    };
    let mut complaints = Vec::new();
    for Mention { line, path } in mentions(source, &file) {
        let first = path.first().map_or("", String::as_str);
        let module = flow.reexports.get(first).map_or(first, String::as_str);
        let reason = match place(module) {
            Some(other) if other <= own => continue,
            Some(_) => format!("`{module}` comes after `{}`", flow.modules[own]),
            None => "it names neither a module nor a re-export of lib.rs".to_owned(),
        };
        complaints.push(format!("{name}:{line}: `crate::{}`: {reason}", path.join("::")));
    }
    complaints
}

/// The module path of a file under `src`: `data/npz.rs` is `data::npz`, `data/mod.rs` is `data`.
fn module_path(name: &str) -> Vec<String> {
    let stem = name.trim_end_matches(".rs");
    stem.trim_end_matches("/mod").split('/').map(str::to_owned).collect()
}

/// Every file and folder below `folder`, sorted.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the entry can be read").path();
        if path.is_dir() {
            found.extend(entries(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

fn has_empty_name(path: &Path) -> bool {
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into());
    EMPTY_NAMES.contains(&stem.to_lowercase().as_str())
}

/// The modules in the fenced list under "The flow"; indented lines continue the one above.
fn described_modules(architecture: &str) -> Vec<String> {
    let section = architecture.split("## The flow").nth(1).expect("a section `The flow`");
    let list = section.split("```").nth(1).expect("a fenced list in `The flow`");
    list.lines()
        .filter(|line| line.starts_with(is_word))
        .filter_map(|line| line.split([' ', '/']).next())
        .map(str::to_owned)
        .collect()
}

fn library() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn planted(name: &str, source: &str) -> Vec<String> {
    let root = "pub mod error;\npub mod data;\npub mod model;\npub use error::{Error, Result};\n\
                pub use model::Distance;\n";
    violations(&flow(root), name, source)
}

#[test]
fn a_module_uses_only_modules_above_it() {
    let source = library();
    let flow = flow(&read(&source.join("lib.rs")));
    let mut complaints = String::new();
    for path in entries(&source) {
        let name = path.strip_prefix(&source).expect("a file below src").to_string_lossy();
        if name == "lib.rs" || !name.ends_with(".rs") {
            continue;
        }
        for complaint in violations(&flow, &name, &read(&path)) {
            writeln!(complaints, "{complaint}").expect("a string can be written");
        }
    }
    assert!(complaints.is_empty(), "\n{complaints}");
}

#[test]
fn a_planted_use_of_a_later_module_is_caught_with_file_line_and_path() {
    assert_eq!(
        planted("data/npz.rs", "use crate::error::Error;\nuse crate::model::Distance;\n"),
        ["data/npz.rs:2: `crate::model::Distance`: `model` comes after `data`"]
    );
}

#[test]
fn every_way_to_write_a_later_module_is_caught() {
    for source in [
        "use crate::{error::Error, model::{self, Policy}};",
        "pub use crate::model;",
        "fn f() -> f64 { crate::model::steps() }",
        "use crate::Distance;",
        "use super::super::model::Policy;",
        "use super::{Dataset, super::model};",
        "mod tests { use super::super::super::model::Policy; }",
        "#[cfg(test)] mod tests { fn f() {} #[test] fn g() { crate::model::steps(); } }",
        "macro_rules! m { () => { $crate::model::steps() } }",
        "use crate::*;",
        "use crate as root;",
        "const QUOTE: char = '\"'; use crate::model; const OTHER: char = '\"';",
        "const RAW: &str = r#\"\"#; use crate::model;",
    ] {
        assert!(!planted("data/npz.rs", source).is_empty(), "missed: {source}");
    }
}

#[test]
fn allowed_paths_comments_and_strings_pass() {
    for source in [
        "use crate::{Error, Result, data::Dataset, error};",
        "use super::*; use super::Dataset; use super::super::error::Error;",
        "mod tests { use super::*; use super::super::Dataset; }",
        "mod inner { pub fn f() {} } use self::inner::f; pub(crate) fn g() {}",
        "// use crate::model;\n/* crate::model /* nested */ crate::model */\n//! [`crate::model`]",
        "const A: &str = \"use crate::model\"; const B: &str = r#\"crate::\"model\"#;",
        "fn f<'a>(x: &'a str) -> &'a str { x }",
    ] {
        assert_eq!(planted("data/npz.rs", source), Vec::<String>::new(), "{source}");
    }
}

#[test]
fn a_file_missing_from_the_list_is_caught() {
    assert_eq!(planted("extra.rs", ""), ["extra.rs: the module is not listed in lib.rs"]);
}

#[test]
fn the_architecture_lists_the_modules_in_the_order_of_the_library() {
    let modules = flow(&read(&library().join("lib.rs"))).modules;
    let described = described_modules(&read(&repository().join("ARCHITECTURE.md")));
    assert_eq!(described, modules, "`The flow` in ARCHITECTURE.md against lib.rs");
}

#[test]
fn every_source_file_that_the_architecture_names_exists() {
    let mut files = entries(&library());
    files.extend(entries(&repository().join("crates/isochrone-cli/src")));
    files.extend(entries(&repository().join("crates/isochrone-python")));
    let text = read(&repository().join("ARCHITECTURE.md"));
    let named: Vec<&str> = text.split('`').filter(|word| word.ends_with(".rs")).collect();
    assert!(named.contains(&"run/session.rs"), "{named:?}");
    let is_missing = |name: &&str| !files.iter().any(|file| file.ends_with(name));
    let missing: Vec<&str> = named.into_iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no such file: {missing:?}");
}

#[test]
fn the_list_of_a_document_is_read_in_its_order() {
    let text = "# A\n## The flow\nwords\n```\nmodel  answers\n       in steps\ndata/  rows\n```\n";
    assert_eq!(described_modules(text), ["model", "data"]);
}

#[test]
fn no_file_or_folder_has_a_name_that_says_nothing() {
    assert!(has_empty_name(Path::new("src/utils.rs")) && has_empty_name(Path::new("tests/Common")));
    for folder in ["crates", "docs", "scripts", "configs"] {
        let folder = repository().join(folder);
        let below = if folder.is_dir() { entries(&folder) } else { Vec::new() };
        let bad: Vec<_> = below.iter().filter(|path| has_empty_name(path)).collect();
        assert!(bad.is_empty(), "names that say nothing: {bad:?}");
    }
}
