//! What the project is built from: dependencies under known licences, from one registry, each once;
//! `unsafe` code in listed files alone, every block with its reason.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use toml::Table;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap()
}

fn rules(section: &str) -> Table {
    let rules: Table = toml::from_str(&read("deny.toml")).unwrap();
    rules[section].as_table().unwrap().clone()
}

/// The texts of a list, or those that its tables have under `crate`.
fn listed(rules: &Table, key: &str) -> Vec<String> {
    let text = |value: &toml::Value| value.get("crate").unwrap_or(value).as_str().unwrap().into();
    rules[key].as_array().unwrap().iter().map(text).collect()
}

/// The packages of the lock file: name, version and source.
fn locked() -> Vec<[String; 3]> {
    let lock: Table = toml::from_str(&read("Cargo.lock")).unwrap();
    let text = |package: &toml::Value, key: &str| {
        package.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
    };
    let packages = lock["package"].as_array().unwrap().iter();
    packages.map(|package| ["name", "version", "source"].map(|key| text(package, key))).collect()
}

#[test]
fn dependencies_come_from_one_registry_each_in_one_version() {
    let registries = listed(&rules("sources"), "allow-registry");
    let bans = rules("bans");
    let (banned, skipped) = (listed(&bans, "deny"), listed(&bans, "skip"));
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let packages = locked();
    assert!(packages.len() > 100, "{}", packages.len());
    for [name, version, source] in packages {
        let known = registries.iter().any(|registry| source == format!("registry+{registry}"));
        assert!(known || name.starts_with("isochrone"), "`{name}` comes from `{source}`");
        assert!(!banned.contains(&name), "`{name}` is banned");
        let skips = |skip: &String| {
            let (other, old) = skip.split_once('@').unwrap();
            other == name && version.starts_with(&format!("{old}."))
        };
        if !skipped.iter().any(skips) {
            versions.entry(name).or_default().insert(version);
        }
    }
    versions.retain(|_, versions| versions.len() > 1);
    assert!(versions.is_empty(), "in several versions: {versions:?}");
}

/// Whether an expression of licences can be met with those that are allowed.
fn met(expression: &str, allowed: &[String]) -> bool {
    let bare = |part: &str| part.trim_matches(['(', ')', ' ']).to_owned();
    let expression = expression.replace('/', " OR ");
    let all: Vec<&str> = expression.split(" AND ").collect();
    all.iter().all(|part| bare(part).split(" OR ").any(|one| allowed.contains(&bare(one))))
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let allowed = listed(&rules("licenses"), "allow");
    assert!(met("(MIT OR Apache-2.0) AND Unicode-3.0", &allowed) && met("MIT/GPL-3.0", &allowed));
    assert!(!met("GPL-3.0", &allowed) && !met("MIT AND GPL-3.0", &allowed));
    let said = |program: String, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(repository()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let about = said(std::env::var("RUSTC").unwrap_or("rustc".into()), &["-vV"]);
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
    let arguments = ["metadata", "--offline", "--locked", "--format-version", "1"];
    let text = said(cargo, &[&arguments[..], &["--filter-platform", host]].concat());
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 80, "{}", packages.len());
    for package in packages {
        let licence = package["license"].as_str().unwrap_or_default();
        assert!(met(licence, &allowed), "`{}` is under `{licence}`", package["name"]);
    }
}

/// The files with `unsafe` code, and why they have it.
const UNSAFE: [(&str, &str); 9] = [
    ("crates/isochrone/src/engine/products", "matrix products in vector registers"),
    ("crates/isochrone/src/engine/threads", "threads that share what outlives them"),
    ("crates/isochrone/src/engine/cuda", "NVIDIA's libraries are written in C"),
    ("crates/isochrone/src/pages.rs", "large pages are asked of the system"),
    ("crates/isochrone/src/simulate/mujoco.rs", "MuJoCo is written in C"),
    ("crates/isochrone/src/collective/mpi.rs", "Open MPI is written in C"),
    ("crates/isochrone/tests/hostile/main.rs", "an allocator that counts"),
    ("crates/isochrone/tests/allocation.rs", "an allocator that counts"),
    ("crates/isochrone-cli/tests/command/faults/layer.rs", "stands for functions of the C library"),
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// Lines above an `unsafe` block within which its reason stands.
const ABOVE: usize = 12;

#[test]
fn unsafe_code_is_in_listed_files_and_every_block_says_why_it_is_sound() {
    let mut files = Vec::new();
    rust_files(&repository().join("crates"), &mut files);
    let begins = ["unsafe {", "unsafe impl"];
    let mut used = BTreeSet::new();
    for path in files.iter().filter(|path| !path.ends_with("supply.rs")) {
        let text = fs::read_to_string(path).unwrap();
        let name = path.strip_prefix(repository()).unwrap().to_str().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap();
            if !begins.iter().any(|begin| code.contains(begin)) {
                continue;
            }
            let listed = UNSAFE.iter().find(|(file, _)| name.starts_with(file));
            used.insert(listed.unwrap_or_else(|| panic!("{name}:{} is unsafe", at + 1)).0);
            let above = &lines[at.saturating_sub(ABOVE)..=at];
            // An allocator says it once, for its whole trait.
            let said =
                above.iter().any(|line| line.contains("SAFETY") || line.contains("# Safety"));
            let allocator = name.contains("/tests/") && text.contains("unsafe impl GlobalAlloc");
            assert!(said || allocator, "{name}:{} does not say why it is sound", at + 1);
        }
    }
    let expected: BTreeSet<&str> = UNSAFE.iter().map(|(file, _)| *file).collect();
    assert_eq!(used, expected, "files that are listed and have no unsafe code");
}
