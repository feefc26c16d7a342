//! Every command in a document works, and the demo keeps what the README promises.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_isochrone");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The lines of the blocks marked `sh`, of every document.
fn commands() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in [
        "README.md",
        "docs/formats.md",
        "docs/paper.md",
        "docs/choosing.md",
        "docs/performance.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
    ] {
        let text = read(name);
        let blocks = text.split("```").skip(1).step_by(2);
        for block in blocks.filter_map(|block| block.strip_prefix("sh\n")) {
            found.extend(block.lines().map(|line| (name.to_owned(), line.trim().to_owned())));
        }
    }
    found
}

/// A small file of the form the README describes: a walk round a circle, one way.
fn write_logs(folder: &Path) {
    let (trajectories, length) = (40, 30);
    let mut states = Vec::new();
    let mut actions = Vec::new();
    for trajectory in 0..trajectories {
        for place in 0..length {
            let angle = 0.7 * trajectory as f32 + 0.1 * place as f32;
            states.extend([angle.cos(), angle.sin()]);
            actions.extend([-angle.sin(), angle.cos()]);
        }
    }
    let data =
        isochrone::data::Dataset::new(states, 2, Some((actions, 2)), &vec![length; trajectories])
            .unwrap();
    isochrone::data::npz::write(&folder.join("logs.npz"), &data).unwrap();
}

#[test]
fn every_command_of_the_documents_works() {
    let folder = tempfile::tempdir().unwrap();
    write_logs(folder.path());
    std::fs::create_dir(folder.path().join("docs")).unwrap();
    std::fs::create_dir(folder.path().join("docs/examples")).unwrap();
    let example = "docs/examples/commute.toml";
    std::fs::copy(root().join(example), folder.path().join(example)).unwrap();
    let test_command = read(".ci/run").lines().last().unwrap().to_owned();
    let mut run = 0;
    for (document, line) in commands() {
        if line == test_command || line.ends_with("-- demo") || line.starts_with("cargo build") {
            continue;
        }
        let words = line
            .strip_prefix("isochrone ")
            .unwrap_or_else(|| panic!("{document}: `{line}` is not run by any test"));
        let output = Command::new(PROGRAM)
            .args(words.split_whitespace())
            .current_dir(folder.path())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{document}: `{line}` failed: {told}");
        run += 1;
    }
    assert!(run >= 10, "only {run} commands were found");
}

#[test]
fn the_page_of_speeds_is_what_its_files_give() {
    let checked = Command::new("python3").arg(root().join("benches/page")).arg("--check").output();
    match checked {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr))
        }
        Err(_) => eprintln!("skipped: no python3 to make the page again"),
    }
}

#[test]
fn the_readme_and_the_ci_run_the_same_tests() {
    let test_command = read(".ci/run").lines().last().unwrap().to_owned();
    assert!(commands().iter().any(|(name, line)| name == "README.md" && *line == test_command));
}

#[test]
fn the_demo_keeps_what_the_readme_promises() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(PROGRAM).arg("demo").current_dir(folder.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let out = folder.path().join("runs/demo");
    let summary = std::fs::read_to_string(out.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let learner = |name: &str| {
        let learners = summary["learners"].as_array().unwrap();
        learners.iter().find(|learner| learner["name"] == name).unwrap().clone()
    };
    let overall = |name: &str| learner(name)["policy"]["overall"]["rate"].as_f64().unwrap();
    assert!(overall("cmd2") >= 0.70, "{told}");
    assert!(overall("cmd1") >= 0.50, "{told}");
    for name in ["cmd1", "cmd2"] {
        assert_eq!(learner(name)["policy"]["overall"]["tasks"], 400);
        assert_eq!(learner(name)["audit"]["violations"], 0);
        assert_eq!(learner(name)["audit"]["triples"], 1_000_000);
        assert!(out.join(name).join("model.safetensors").exists());
    }
    let seen = learner("cmd1")["against_exact"]["seen"]["data"].as_f64();
    assert!(seen.unwrap() >= 0.75, "{told}");
    assert!(out.join("isochrones.png").exists() && out.join("isochrones.svg").exists());
    // The README shows the same lines with the figures of its own run.
    let shown = read("README.md");
    for line in told.lines() {
        let label = line.split_whitespace().next().unwrap();
        assert!(shown.contains(&format!("\n{label} ")), "README.md shows no line `{label}`");
    }
}
