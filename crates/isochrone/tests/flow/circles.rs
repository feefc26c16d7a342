//! No circle of files: what a file names, in any number of steps, never names that file.
//!
//! A name belongs to the file that defines it: `super::X` that `mod.rs` re-exports is followed to its
//! definition, and `mod.rs` itself is a file like any other. Declaring `mod x;` is no use of it. Code
//! that only tests see does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Token, entries, library, module_path, path_tree, read, resolve, tokens};

/// Words before the name of an item.
const DEFINING: [&str; 9] =
    ["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules"];
/// Most re-exports followed for one name.
const MOST_STEPS: usize = 16;

/// A module as its file shows it.
#[derive(Default)]
struct Module {
    file: String,
    /// Where imported names come from: absolute paths.
    imports: BTreeMap<String, Vec<String>>,
    /// Modules all of whose names are imported.
    globs: Vec<Vec<String>>,
    /// Names that the file defines.
    defined: BTreeSet<String>,
    /// Every path that the file names, absolute.
    named: Vec<Vec<String>>,
}

type Modules = BTreeMap<Vec<String>, Module>;

/// The tokens that are no part of tests, and the names of modules that are.
fn without_tests(tokens: Vec<Token>) -> (Vec<Token>, Vec<String>) {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut modules, mut at) = (Vec::new(), Vec::new(), 0);
    let texts: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    let mut keep = vec![true; texts.len()];
    while at < texts.len() {
        if !texts[at..].starts_with(&MARK) {
            at += 1;
            continue;
        }
        let (from, mut depth) = (at, 0);
        at += MARK.len();
        while at < texts.len() {
            match texts[at] {
                "mod" if depth == 0 => modules.push(texts[at + 1].to_owned()),
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 && matches!(texts[at - 1], ";" | "}") {
                break;
            }
        }
        keep[from..at].fill(false);
    }
    kept.extend(tokens.into_iter().zip(keep).filter_map(|(token, keep)| keep.then_some(token)));
    (kept, modules)
}

/// The paths that a `use` tree brings in, each with the name it gets.
fn imported(tokens: &[Token], mut at: usize) -> Vec<(String, Vec<String>)> {
    let (leaves, _) = path_tree(tokens, at, &[]);
    let mut renamed = Vec::new();
    while at < tokens.len() && tokens[at].text != ";" {
        if tokens[at].text == "as" {
            renamed.push((tokens[at - 1].text.clone(), tokens[at + 1].text.clone()));
        }
        at += 1;
    }
    let name = |leaf: &Vec<String>| {
        let mut words = leaf.iter().rev().filter(|word| *word != "self");
        let last = words.next().cloned().unwrap_or_default();
        let new = renamed.iter().find(|(old, _)| *old == last);
        new.map_or(last, |(_, new)| new.clone())
    };
    leaves.into_iter().map(|leaf| (name(&leaf), leaf)).collect()
}

/// Reads one file; `known` are the paths of all modules that have a file.
fn module(file: &str, path: &[String], tokens: &[Token], known: &[Vec<String>]) -> Module {
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    let word = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let is_child = |name: &str| known.contains(&[path, &[name.to_owned()]].concat());
    let absolute = |written: &[String]| match written.first().map_or("", String::as_str) {
        "crate" | "self" | "super" => Some(resolve(path, written)),
        first if is_child(first) => Some([path, written].concat()),
        _ => None,
    };
    for at in 0..tokens.len() {
        let before = if at == 0 { "" } else { word(at - 1) };
        if word(at) == "use" {
            for (name, leaf) in imported(tokens, at + 1) {
                match absolute(&leaf) {
                    Some(from) if name == "*" => {
                        module.globs.push(from[..from.len() - 1].to_vec());
                    }
                    Some(from) => drop(module.imports.insert(name, from)),
                    None => {}
                }
            }
        }
        if DEFINING.contains(&before) || (before == "!" && word(at - 2) == "macro_rules") {
            module.defined.insert(word(at).to_owned());
        }
        let is_path = word(at + 1) == "::" && !matches!(before, "::" | "in");
        if before == "use" || (is_path && !inside_use(tokens, at)) {
            module.named.extend(path_tree(tokens, at, &[]).0.iter().filter_map(|p| absolute(p)));
        }
    }
    module
}

/// Whether a token stands in the braces of a `use`.
fn inside_use(tokens: &[Token], at: usize) -> bool {
    let before = tokens[..at].iter().rev().map(|token| token.text.as_str());
    let mut before = before.skip_while(|text| {
        matches!(*text, "{" | "}" | "," | "::" | "*" | "as")
            || text.starts_with(super::is_word) && *text != "use"
    });
    before.next() == Some("use")
}

/// The file that defines what an absolute path names.
fn file_of(modules: &Modules, path: &[String], steps: usize) -> Option<String> {
    let deepest = (0..=path.len()).rev().find(|&end| modules.contains_key(&path[..end]))?;
    let module = &modules[&path[..deepest]];
    let Some(name) = path.get(deepest) else { return Some(module.file.clone()) };
    if steps == 0 || module.defined.contains(name) {
        return Some(module.file.clone());
    }
    if let Some(from) = module.imports.get(name) {
        return file_of(modules, &[from, &path[deepest + 1..]].concat(), steps - 1);
    }
    let holds = |from: &&Vec<String>| {
        modules.get(*from).is_some_and(|m| m.defined.contains(name) || m.imports.contains_key(name))
    };
    match module.globs.iter().find(holds) {
        Some(from) => file_of(modules, &[from, &path[deepest..]].concat(), steps - 1),
        None => Some(module.file.clone()),
    }
}

/// Which files each file names. `sources` are files below `src` and their text.
fn uses(sources: &[(String, String)]) -> BTreeMap<String, BTreeSet<String>> {
    let place = |file: &str| match file {
        "lib.rs" | "main.rs" => Vec::new(),
        _ => module_path(file),
    };
    let (mut files, mut tests) = (Vec::new(), Vec::new());
    for (file, source) in sources {
        let (tokens, hidden) = without_tests(tokens(source));
        let path = place(file);
        tests.extend(hidden.into_iter().map(|name| [&path[..], &[name]].concat()));
        files.push((file, path, tokens));
    }
    files.retain(|(_, path, _)| !tests.iter().any(|test| path.starts_with(test)));
    let known: Vec<Vec<String>> = files.iter().map(|(_, path, _)| path.clone()).collect();
    let read = |(file, path, tokens): &(&String, Vec<String>, Vec<Token>)| {
        (path.clone(), module(file, path, tokens, &known))
    };
    let modules: Modules = files.iter().map(read).collect();
    let named = |module: &Module| {
        let found = module.named.iter().filter_map(|path| file_of(&modules, path, MOST_STEPS));
        let globs = module.globs.iter().filter_map(|path| file_of(&modules, path, MOST_STEPS));
        found.chain(globs).filter(|file| *file != module.file).collect()
    };
    modules.values().map(|module| (module.file.clone(), named(module))).collect()
}

/// All files that `from` names in one step or more.
fn reached<'a>(uses: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut left = vec![from];
    while let Some(file) = left.pop() {
        for next in uses.get(file).into_iter().flatten() {
            if found.insert(next.as_str()) {
                left.push(next);
            }
        }
    }
    found
}

/// The deepest folder that holds all of these files.
fn shared_folder(files: &[&str]) -> String {
    let mut folder = Path::new(files[0]).parent().unwrap();
    while !files.iter().all(|file| Path::new(file).starts_with(folder)) {
        folder = folder.parent().unwrap();
    }
    folder.to_string_lossy().into_owned()
}

/// Groups of files that name each other in a circle: their folder, and the uses between them.
fn circles(sources: &[(String, String)]) -> Vec<(String, String)> {
    let uses = uses(sources);
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|file| (file.as_str(), reached(&uses, file))).collect();
    let mut found: Vec<(String, String)> = Vec::new();
    let mut seen = BTreeSet::new();
    for (&file, ahead) in reach.iter().filter(|(file, ahead)| ahead.contains(**file)) {
        let circle: Vec<&str> =
            ahead.iter().copied().filter(|other| reach[other].contains(file)).collect();
        if !seen.insert(circle.clone()) {
            continue;
        }
        let inside = |from: &&str| {
            let to: Vec<&str> =
                uses[*from].iter().map(String::as_str).filter(|to| circle.contains(to)).collect();
            format!("{from} names {}", to.join(", "))
        };
        let text = circle.iter().map(inside).collect::<Vec<_>>().join("\n  ");
        found.push((shared_folder(&circle), text));
    }
    found
}

fn sources(folder: &Path) -> Vec<(String, String)> {
    let files = entries(folder).into_iter().filter(|path| path.extension() == Some("rs".as_ref()));
    let named = |path: &Path| path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
    files.map(|path| (named(&path), read(&path))).collect()
}

#[track_caller]
fn no_circles(source: &Path) {
    let found = circles(&sources(source));
    let found: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
    assert!(found.is_empty(), "files in a circle:\n  {}", found.join("\n\n  "));
}

#[test]
fn no_files_of_the_library_name_each_other_in_a_circle() {
    no_circles(&library());
}

#[test]
fn no_files_of_the_command_name_each_other_in_a_circle() {
    no_circles(&library().join("../../isochrone-cli/src"));
}

fn planted(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned: Vec<_> = files.iter().map(|(f, s)| ((*f).to_owned(), (*s).to_owned())).collect();
    circles(&owned)
}

#[test]
fn planted_circles_are_found_whichever_way_they_are_written() {
    let mod_rs = ("data/mod.rs", "mod a;\nmod b;\npub use a::One;\npub use b::Two;");
    for (a, b) in [
        ("use super::b::Two; struct One;", "use super::a::One; struct Two;"),
        ("use super::Two; struct One;", "use crate::data::One; struct Two;"),
        ("use super::{b, b::Two}; struct One;", "struct Two; fn f() { super::One; }"),
        ("struct One; fn f(x: crate::data::b::Two) {}", "use super::{One}; struct Two;"),
        ("struct One; fn f() { g(1, super::Two) }", "use super::*; struct Two;"),
    ] {
        let found = planted(&[mod_rs, ("data/a.rs", a), ("data/b.rs", b)]);
        assert_eq!(found.len(), 1, "{a} | {b}");
        assert_eq!(found[0].0, "data");
    }
    let parent = ("data/mod.rs", "mod a;\npub use a::One;\nstruct Shared;");
    let found = planted(&[parent, ("data/a.rs", "use super::Shared; struct One;")]);
    assert_eq!(found[0].1, "data/a.rs names data/mod.rs\n  data/mod.rs names data/a.rs");
}

#[test]
fn uses_in_one_direction_in_tests_and_in_comments_are_no_circle() {
    let mod_rs = ("data/mod.rs", "mod a;\nmod b;\npub use a::One;\npub use b::Two;");
    for (a, b) in [
        ("struct One;", "use super::One; struct Two;"),
        (
            "struct One; #[cfg(test)] mod tests { use super::super::Two; }",
            "use super::One; struct Two;",
        ),
        (
            "//! [`super::Two`]\nstruct One; const B: &str = \"super::Two\";",
            "use super::One; struct Two;",
        ),
        ("struct One; #[cfg(test)]\nuse super::Two;", "use super::a::One; struct Two;"),
    ] {
        assert_eq!(planted(&[mod_rs, ("data/a.rs", a), ("data/b.rs", b)]), [], "{a} | {b}");
    }
    let parent = ("data/npz.rs", "mod write;\n#[cfg(test)]\nmod tests;\nfn f() { write::g() }");
    let child = ("data/npz/write.rs", "use crate::data::other::X; fn g() {}");
    let tests = ("data/npz/tests.rs", "use super::*; use super::write::g;");
    assert_eq!(planted(&[parent, child, tests, ("data/other.rs", "struct X;")]), []);
}
