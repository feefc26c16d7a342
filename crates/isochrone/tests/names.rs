//! One name, one type: no two types of the library share a name, and none hides one of the prelude.
//!
//! Counted are `struct`, `enum`, `trait`, `type` and `union` with any `pub`, and names given by
//! `pub use … as`. Private types may be called what they like.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that several files may define: every algorithm has its own `Config`, always written with
/// its module (`cmd1::Config`), and a build without the feature `cuda` has stand-ins.
const SHARED: [(&str, &str); 3] = [
    ("Config", "algorithms/"),
    ("CudaExecutor", "engine/without_cuda.rs"),
    ("Dissection", "engine/without_cuda.rs"),
];

/// Names of the prelude. The crate's own `Result` fills in its own error and stands in `error.rs`.
const PRELUDE: &str = "\
    AsMut AsRef AsyncFn AsyncFnMut AsyncFnOnce Box Clone Copy Debug Default \
    DoubleEndedIterator Drop Eq Err ExactSizeIterator Extend Fn FnMut FnOnce From \
    FromIterator Hash Into IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd \
    Result Send Sized Some String Sync ToOwned ToString TryFrom TryInto Unpin Vec";

/// The names that a file defines for others to use.
fn names(source: &str) -> Vec<String> {
    source.lines().filter_map(|line| defined(line.trim_start())).collect()
}

/// The name that a line defines with some `pub`.
fn defined(line: &str) -> Option<String> {
    let rest = line.strip_prefix("pub")?;
    let rest = match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')')?.1,
        None => rest,
    };
    let mut words = rest.strip_prefix(' ')?.split_whitespace();
    let kind = words.find(|word| *word != "unsafe")?;
    let word = match kind {
        "struct" | "enum" | "trait" | "type" | "union" => words.next()?,
        "use" => words.skip_while(|word| *word != "as").nth(1)?,
        _ => return None,
    };
    let name: String = word.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    name.starts_with(char::is_uppercase).then_some(name)
}

/// Complaints about names in `files`, each a path below `src` and its text.
fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut homes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, source) in files {
        for name in names(source) {
            homes.entry(name).or_default().push(path);
        }
    }
    let shared = |name: &str, path: &str| {
        SHARED.iter().any(|(shared, folder)| *shared == name && path.starts_with(folder))
    };
    let mut found = Vec::new();
    for (name, mut paths) in homes {
        let hides = PRELUDE.split(' ').any(|known| known == name);
        if hides && paths != ["error.rs"] {
            found.push(format!("`{name}` hides the prelude's: {}", paths.join(", ")));
        }
        paths.retain(|path| !shared(&name, path));
        if paths.len() > 1 {
            found.push(format!("`{name}` is defined {} times: {}", paths.len(), paths.join(", ")));
        }
    }
    found
}

fn sources(folder: &Path, root: &Path, found: &mut Vec<(String, String)>) {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            sources(&path, root, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
}

#[test]
fn every_type_has_a_name_of_its_own() {
    for root in ["src", "../isochrone-cli/src"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
        let mut files = Vec::new();
        sources(&root, &root, &mut files);
        assert!(files.len() > 10, "{}", root.display());
        let found = complaints(&files);
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }
}

#[test]
fn raw_kernels_cannot_be_named_outside_the_crate() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine/mod.rs");
    let source = fs::read_to_string(source).unwrap();
    let public: Vec<&str> =
        source.split(';').map(str::trim_start).filter(|item| item.starts_with("pub use")).collect();
    assert!(public.len() > 5, "{public:?}");
    for name in ["Argument", "Kernels", "Queue"] {
        let words = |item: &&str| item.split(|c: char| !c.is_alphanumeric()).any(|w| w == name);
        assert!(!public.iter().any(words), "`{name}` is public");
    }
    assert!(!source.contains("pub mod launches"), "the kernels' module is public");
}

#[test]
fn planted_names_are_caught() {
    let planted = |files: &[(&str, &str)]| {
        let files: Vec<(String, String)> =
            files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        complaints(&files)
    };
    let twice = planted(&[("a.rs", "pub struct Plan {"), ("b/c.rs", "    pub(super) enum Plan {")]);
    assert_eq!(twice, ["`Plan` is defined 2 times: a.rs, b/c.rs"]);
    let hidden = planted(&[("nn/measure.rs", "pub struct Copy {")]);
    assert_eq!(hidden, ["`Copy` hides the prelude's: nn/measure.rs"]);
    let renamed = planted(&[("a.rs", "pub use b::Thing as Vec;"), ("b.rs", "pub struct Thing;")]);
    assert_eq!(renamed, ["`Vec` hides the prelude's: a.rs"]);
    assert_eq!(
        planted(&[("run.rs", "pub struct Config;"), ("train.rs", "pub struct Config;")]).len(),
        1
    );
}

#[test]
fn names_that_cannot_be_mixed_up_pass() {
    for (path, text) in [
        ("algorithms/cmd1.rs", "pub struct Config {\npub struct Cmd1<T> {"),
        ("error.rs", "pub type Result<T> = std::result::Result<T, Error>;"),
        ("plan.rs", "struct Config;\nenum Copy {}\npub fn Config() {}\npub use a::Copy;"),
    ] {
        let other = ("algorithms/cmd2.rs".to_owned(), "pub struct Config {".to_owned());
        let found = complaints(&[(path.to_owned(), text.to_owned()), other]);
        assert_eq!(found, Vec::<String>::new(), "{path}");
    }
}
