//! The list of `scripts/promises` fits the tree: every promise has tests, and every test exists.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

/// Whether a Rust file under `folder` has a test called `function`.
fn has_test(folder: &Path, function: &str) -> bool {
    let line = format!("fn {function}()");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| {
        let is_rust = path.extension().is_some_and(|ending| ending == "rs");
        (path.is_dir() && has_test(&path, function))
            || (is_rust && fs::read_to_string(&path).unwrap().contains(&line))
    })
}

#[test]
fn every_promise_names_tests_that_exist() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = fs::read_to_string(repository.join("scripts/promises.txt")).unwrap();
    let mut promises = 0;
    for block in list.split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let Some(promise) = lines.next() else { continue };
        let tests: Vec<&str> = lines.collect();
        assert!(!tests.is_empty(), "no test shows `{promise}`");
        for test in tests {
            let test = test.strip_prefix("full ").unwrap_or(test);
            if test.starts_with("scripts/") {
                let script = test.split(' ').next().unwrap();
                let found = repository.join(script).is_file();
                assert!(found, "`{promise}` names `{script}`, which is not there");
                continue;
            }
            let words: Vec<&str> = test.split(' ').collect();
            let ([package, target, name] | [package, target, name, _]) = words[..] else {
                panic!("`{test}` is not a package, a target, a test and perhaps a feature");
            };
            let package = repository.join("crates").join(package);
            let folder = match target.strip_prefix("--test=") {
                None => package.join("src"),
                Some(program) if package.join("tests").join(program).join("main.rs").is_file() => {
                    package.join("tests").join(program)
                }
                Some(_) => package.join("tests"),
            };
            let function = name.rsplit("::").next().unwrap();
            assert!(has_test(&folder, function), "`{promise}` names `{name}`, which is no test");
        }
        promises += 1;
    }
    assert!(promises >= 20, "only {promises} promises");
}
