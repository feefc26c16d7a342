//! Both crates are ready to publish: they package, their documentation builds, their facts agree.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const RUST_VERSION: &str = env!("CARGO_PKG_RUST_VERSION");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// Runs cargo in the workspace, without the network; what it says where it fails.
#[track_caller]
fn cargo(words: &[&str], target: &Path) -> String {
    let output: Output = Command::new(env!("CARGO"))
        .args(words)
        .args(["--offline", "--target-dir"])
        .arg(target)
        .current_dir(root())
        .env("RUSTDOCFLAGS", "-D warnings")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "cargo {words:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn both_crates_package_with_readme_and_licences() {
    let target = tempfile::tempdir().unwrap();
    let package = ["package", "--workspace", "--no-verify", "--allow-dirty"];
    cargo(&package, target.path());
    for name in ["isochrone", "isochrone-cli"] {
        let file = target.path().join(format!("package/{name}-{VERSION}.crate"));
        assert!(file.is_file(), "{}", file.display());
        let list = cargo(&["package", "--list", "--allow-dirty", "-p", name], target.path());
        for file in ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(list.lines().any(|line| line == file), "{name} lacks {file}:\n{list}");
        }
    }
}

#[test]
fn the_documentation_builds_without_warnings() {
    // Beside the tests' own builds, so that a second run finds what the first one built.
    let target = root().join("target/documentation");
    cargo(&["doc", "--no-deps", "-p", "isochrone", "--lib"], &target);
    assert!(target.join("doc/isochrone/index.html").is_file());
}

#[test]
fn version_and_rust_version_are_the_same_everywhere() {
    let changelog = read("CHANGELOG.md");
    let entry = changelog.lines().find(|line| line.starts_with(&format!("## [{VERSION}] - ")));
    let date = entry.unwrap().rsplit(' ').next().unwrap();
    assert!(date.len() == 10 && date.split('-').count() == 3, "`{date}` is no date");
    assert!(read("CITATION.cff").contains(&format!("\nversion: {VERSION}\n")));
    for name in ["README.md", "CONTRIBUTING.md"] {
        assert!(read(name).contains(&format!("Rust {RUST_VERSION} or newer")), "{name}");
    }
}
