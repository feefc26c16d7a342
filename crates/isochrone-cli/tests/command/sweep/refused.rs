//! What cannot be submitted is refused with one line before anything is written.

use std::path::Path;

use super::{FOLDER, RUNS, compare, told};

/// The one line; the folder named `none` must not appear.
#[track_caller]
fn refused(path: Option<&Path>, more: &[&str]) -> String {
    let out = FOLDER.path().join("none");
    let mut command = compare(&out, more);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let [_, error] = told(command.output().unwrap(), 2);
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    assert!(error.starts_with("error: ") && error.contains("; hint: "), "{error}");
    assert!(!out.exists());
    error
}

#[test]
fn engines_that_are_not_there_and_wrong_names_are_refused_in_one_line() {
    let empty = tempfile::tempdir().unwrap();
    let nowhere = Some(empty.path());
    let engine = |name: &'static str| ["--engine", name];
    let line = refused(None, &engine("slrum"));
    assert!(line.contains("unknown engine `slrum`") && line.contains("slurm"), "{line}");
    assert!(refused(nowhere, &engine("ray")).contains("`python3` has no Ray"));
    assert!(refused(nowhere, &engine("slurm")).contains("no `sbatch`"));
    let image = ["--engine", "kubernetes", "--image", "iso:1", "--claim", "runs"];
    assert!(refused(nowhere, &image).contains("no `kubectl`"));
    assert!(refused(None, &engine("kubernetes")).contains("needs `--image`"));
    for (flag, name) in [
        ("--image", "two words"),
        ("--claim", "Upper"),
        ("--namespace", "a.b"),
        ("--job-name", "a_b"),
        ("--mount", "/nowhere"),
    ] {
        let mut words = image.to_vec();
        match words.iter().position(|word| *word == flag) {
            Some(at) => words[at + 1] = name,
            None => words.extend([flag, name]),
        }
        let line = refused(None, &words);
        assert!(line.contains(&format!("`{flag}`")), "{line}");
    }
}

#[test]
fn a_dry_run_prints_what_would_run_where_and_writes_nothing() {
    let out = FOLDER.path().join("dry");
    let [text, _] = told(compare(&out, &["--dry-run"]).output().unwrap(), 0);
    assert_eq!(text.lines().filter(|line| line.starts_with("run ")).count(), RUNS);
    assert!(text.contains("11  pinwheel/cmd2-") && text.contains("/seed-5  to do"), "{text}");
    let more = ["--engine", "slurm", "--partition", "p", "--gpus", "2", "--memory", "4 GiB"];
    let [text, _] = told(compare(&out, &[&more[..], &["--dry-run"]].concat()).output().unwrap(), 0);
    for wanted in ["--requeue", "--signal=B:TERM@60", "--partition=p", "gpu:2", "--mem=4096M"] {
        assert!(text.contains(&format!("#SBATCH {wanted}")) || text.contains(wanted), "{text}");
    }
    assert!(!out.exists());
}

#[test]
fn a_run_that_is_not_on_the_list_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let only = |index: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_isochrone"));
        command.args(["compare", "--only", index, "--out"]).arg(out.path());
        told(command.output().unwrap(), 2)[1].clone()
    };
    assert!(only("0").contains("cannot read the list of runs"));
    std::fs::create_dir(out.path().join("sweep")).unwrap();
    let list = out.path().join("sweep/list.json");
    std::fs::write(&list, r#"{"runs": [], "planner": false, "device": "cpu", "threads": 1}"#)
        .unwrap();
    assert!(only("3").contains("no run 3, there are 0"));
    std::fs::write(&list, "{").unwrap();
    assert!(only("0").contains("the list of runs is damaged"));
}
