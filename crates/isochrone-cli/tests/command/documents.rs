//! Every command in a document works, and the demo keeps what the README promises.
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_isochrone");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// Every document of the repository, from its root.
fn documents() -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["", "docs"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = Path::new(folder).join(entry.unwrap().file_name());
            if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

/// The lines of the blocks marked `sh`, of every document.
fn commands() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in documents() {
        let text = read(&name);
        let blocks = text.split("```").skip(1).step_by(2);
        for block in blocks.filter_map(|block| block.strip_prefix("sh\n")) {
            found.extend(block.lines().map(|line| (name.clone(), line.trim().to_owned())));
        }
    }
    found
}

/// The name by which a link reaches a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// What is wrong with the links and the files named in a document's text.
fn dead(name: &str, text: &str) -> Vec<String> {
    let mut dead = Vec::new();
    let folder = root().join(name).parent().unwrap().to_owned();
    for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let path = if file.is_empty() { root().join(name) } else { folder.join(file) };
        let leads = link.starts_with("https://")
            || path.exists()
                && (heading.is_empty()
                    || std::fs::read_to_string(&path)
                        .unwrap()
                        .lines()
                        .any(|line| line.starts_with('#') && anchor(line) == heading));
        if !leads {
            dead.push(format!("{name}: the link `{link}`"));
        }
    }
    // Files are named from the root, or from the folders of the library.
    let from = ["", "crates/isochrone", "crates/isochrone/src"].map(|folder| root().join(folder));
    for named in text.split('`').skip(1).step_by(2) {
        let is_file = named.contains('/')
            && [".rs", ".cu", ".md", ".py", ".toml"].iter().any(|ending| named.ends_with(ending))
            && !named.contains([' ', '*', '…', '<']);
        if is_file && !from.iter().any(|folder| folder.join(named).exists()) {
            dead.push(format!("{name}: the file `{named}`"));
        }
    }
    dead
}

#[test]
fn links_and_named_files_exist() {
    let wrong = dead("README.md", "[a](docs/none.md) [b](docs/paper.md#none) `ops/none.rs`");
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    let dead: Vec<String> = documents().iter().flat_map(|name| dead(name, &read(name))).collect();
    assert!(dead.is_empty(), "{}", dead.join("\n"));
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
        // Run by the tests of the Python package.
        if line.starts_with("pip install ") || line.starts_with("maturin build ") {
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
    assert!(overall("cmd2-paper") >= 0.70, "{told}");
    assert!(overall("cmd1-paper") >= 0.50, "{told}");
    assert!(overall("atlas") >= 0.90, "{told}");
    for name in ["atlas", "cmd1-paper", "cmd2-paper"] {
        assert_eq!(learner(name)["policy"]["overall"]["tasks"], 400);
        assert_eq!(learner(name)["audit"]["violations"], 0);
        assert_eq!(learner(name)["audit"]["triples"], 1_000_000);
        assert!(out.join(name).join("model.safetensors").exists());
    }
    let accuracy = |name: &str, key: &str| learner(name)["accuracy"][key].as_f64().unwrap();
    assert!(accuracy("atlas", "spearman") >= 0.94, "{told}");
    assert!(accuracy("atlas", "far") >= 0.80, "{told}");
    assert!((0.85..=1.25).contains(&accuracy("atlas", "slope")), "{told}");
    assert!(accuracy("atlas", "intercept").abs() <= 10.0, "{told}");
    assert!(accuracy("atlas", "median_relative_error") <= 0.15, "{told}");
    for name in ["cmd1-paper", "cmd2-paper"] {
        assert!(accuracy(name, "median_relative_error") > 1.0, "{told}");
    }
    let sentence = "use       atlas where steps matter; the numbers of cmd2-paper and cmd1-paper are not steps";
    assert!(told.lines().any(|line| line == sentence), "{told}");
    assert!(out.join("isochrones.svg").exists());
    let picture = std::fs::read(out.join("isochrones.png")).unwrap();
    // A second run checks again and trains nothing.
    let model = |name: &str| {
        let file = out.join(name).join("model.safetensors");
        std::fs::metadata(file).unwrap().modified().unwrap()
    };
    let models = ["atlas", "cmd1-paper", "cmd2-paper"].map(model);
    let again = Command::new(PROGRAM).arg("demo").current_dir(folder.path()).output().unwrap();
    assert_eq!(told, String::from_utf8_lossy(&again.stdout), "a second run says the same");
    assert_eq!(models, ["atlas", "cmd1-paper", "cmd2-paper"].map(model));
    assert_eq!(picture, std::fs::read(out.join("isochrones.png")).unwrap());
    // The README shows the same lines with the figures of its own run.
    let shown = read("README.md");
    for line in told.lines() {
        let label = line.split_whitespace().next().unwrap();
        assert!(shown.contains(&format!("\n{label} ")), "README.md shows no line `{label}`");
    }
}
