//! The list of `scripts/mutations` fits the tree: every text stands exactly once, every test exists.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

/// One mistake that a test must notice.
#[derive(Default)]
struct Mistake<'a> {
    name: &'a str,
    file: &'a str,
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    test: &'a str,
}

fn mistakes(text: &str) -> Vec<Mistake<'_>> {
    let blocks = text.split("\n\n").map(|block| {
        let mut lines = block.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut mistake = Mistake { name: lines.next().unwrap_or_default(), ..Mistake::default() };
        for line in lines {
            match line.split_once(' ').unwrap_or_default() {
                ("file", file) => mistake.file = file,
                ("-", old) => mistake.old.push(old),
                ("+", new) => mistake.new.push(new),
                ("test", test) => mistake.test = test,
                _ => panic!("`{line}` in `{}`", mistake.name),
            }
        }
        mistake
    });
    blocks.filter(|mistake| !mistake.name.is_empty()).collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The file that a test of `target` with the full name `test` stands in.
fn file_of(target: &str, test: &str) -> PathBuf {
    let packages =
        ["isochrone", "isochrone-cli"].map(|name| repository().join("crates").join(name));
    let places = if let Some(program) = target.strip_prefix("--test=") {
        let module = test.rsplit_once("::").map_or("main", |(module, _)| module);
        let module = format!("{program}/{}", module.replace("::", "/"));
        vec![
            format!("tests/{module}.rs"),
            format!("tests/{module}/mod.rs"),
            format!("tests/{program}.rs"),
        ]
    } else {
        assert!(["--lib", "--bins"].contains(&target), "the target of `{test}` is `{target}`");
        // A module of tests alone has no `tests` in it.
        let module = test.split_once("::tests::").or(test.rsplit_once("::")).unwrap().0;
        let module = module.replace("::", "/");
        ["/tests.rs", ".rs", "/mod.rs"].map(|end| format!("src/{module}{end}")).into()
    };
    let files = packages.iter().flat_map(|package| places.iter().map(|place| package.join(place)));
    let found = files.into_iter().find(|file| file.exists());
    found.unwrap_or_else(|| panic!("no file of `{test}`"))
}

#[test]
fn every_mutation_finds_its_text_once_and_names_a_test_that_exists() {
    let text = read(&repository().join("scripts/mutations.txt"));
    let mistakes = mistakes(&text);
    assert!(mistakes.len() >= 20, "only {} mutations", mistakes.len());
    for mistake in &mistakes {
        let name = mistake.name;
        let source = read(&repository().join(mistake.file));
        assert!(!mistake.old.is_empty() && mistake.old.len() == mistake.new.len(), "{name}");
        for (old, new) in mistake.old.iter().zip(&mistake.new) {
            assert_ne!(old, new, "{name}");
            assert_eq!(source.matches(old).count(), 1, "{name}: how often `{old}` stands there");
        }
        let (target, test) = mistake.test.split_once(' ').expect("a target and a test");
        let function = test.rsplit("::").next().unwrap();
        let file = file_of(target, test);
        let indented = test.contains("::tests::") && !file.ends_with("tests.rs");
        let line = format!("#[test]\n{}fn {function}()", if indented { "    " } else { "" });
        let found = read(&file).matches(&line).count();
        assert_eq!(found, 1, "{name}: how often the test `{function}` exists");
    }
    let mut names: Vec<&str> = mistakes.iter().map(|mistake| mistake.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), mistakes.len(), "two mutations have one name");
}
