//! Every frame of recorded trajectories is scored by the steps that remain.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use isochrone::Model;
use isochrone::data::arrays::Arrays;
use isochrone::data::{Dataset, npz};
use serde_json::Value;

use super::program::{self, said};

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// A run of a few updates on walks round a circle, of 1 to 40 frames.
static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
    npz::write(&at("walks.npz"), &walks()).unwrap();
    let folder = at("run");
    let (data, out) = (at("walks.npz"), folder.display().to_string());
    let few = ["--algorithm", "cmd1", "--set", "train.steps=20", "--out", &out];
    said(&[&["train", data.to_str().unwrap()], &few[..]].concat());
    folder
});

fn walks() -> Dataset {
    let lengths: Vec<usize> = (0..40).map(|walk| walk + 1).collect();
    let mut states = Vec::new();
    for &length in &lengths {
        for frame in 0..length {
            let angle = 0.7 * length as f32 + 0.1 * frame as f32;
            states.extend([angle.cos(), angle.sin()]);
        }
    }
    Dataset::new(states, 2, None, &lengths).unwrap()
}

fn at(name: &str) -> PathBuf {
    FOLDER.path().join(name)
}

/// Scores the walks, with further words.
fn score(out: &str, more: &[&str]) -> Vec<String> {
    let run = RUN.display().to_string();
    let mut words =
        ["score", at("walks.npz").to_str().unwrap(), "--model", &run].map(String::from).to_vec();
    words.extend(["-o".to_owned(), at(out).display().to_string()]);
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

fn scored(out: &str, more: &[&str]) -> String {
    said(&score(out, more))
}

fn refused(out: &str, more: &[&str]) -> String {
    program::refused(&score(out, more))
}

fn array(out: &str, key: &str) -> Vec<f64> {
    let bytes = std::fs::read(at(out)).unwrap();
    Arrays::open(&bytes).unwrap().get(key).unwrap().values
}

#[test]
fn frames_are_scored_to_the_last_frame_of_their_trajectory() {
    let told: Value = serde_json::from_str(&scored("last.npz", &["--json"])).unwrap();
    let walks = walks();
    assert_eq!((&told["frames"], &told["trajectories"]), (&Value::from(820), &Value::from(40)));
    let model = Model::load(RUN.join("model.safetensors")).unwrap();
    let (steps, remaining) = (array("last.npz", "steps"), array("last.npz", "remaining"));
    assert_eq!(steps.len(), 820);
    for row in [0, 1, 2, 400, 819] {
        let rows = walks.trajectory(walks.trajectory_of(row));
        let expected = model.steps(walks.state(row), walks.state(rows.end - 1)).unwrap()[0];
        assert_eq!(steps[row] as f32, expected, "row {row}");
        assert_eq!(remaining[row], (rows.end - 1 - row) as f64);
        assert_eq!(array("last.npz", "trajectory")[row], walks.trajectory_of(row) as f64);
        assert_eq!(array("last.npz", "frame")[row], (row - rows.start) as f64);
    }
    let expected: Vec<f64> =
        model.novelty(walks.states()).unwrap().into_iter().map(f64::from).collect();
    assert_eq!(array("last.npz", "spacings"), expected);
    // A tenth of the run's own trajectories is held out, and only those judge it.
    assert_eq!(told["against"], "remaining");
    assert_eq!(told["calibration"]["held_out"], true);
    assert_eq!(told["calibration"]["trajectories"], 4);
    assert!(at("last.png").exists() && at("last.svg").exists());
    let text = scored("last.csv", &["--no-pictures"]);
    assert!(text.contains("remaining    learned") && text.contains("held-out"), "{text}");
    let csv = std::fs::read_to_string(at("last.csv")).unwrap();
    assert!(csv.starts_with("trajectory,frame,steps,spacings,remaining\n0,0,"), "{csv}");
    assert_eq!(csv.lines().count(), 821);
}

#[test]
fn frames_are_scored_to_a_state_or_a_row() {
    let model = Model::load(RUN.join("model.safetensors")).unwrap();
    let walks = walks();
    let told = scored("row.npz", &["--goal", "7", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["against"], "elapsed");
    let expected = |goal: &[f32]| -> Vec<f64> {
        model.steps(walks.states(), goal).unwrap().into_iter().map(f64::from).collect()
    };
    assert_eq!(array("row.npz", "steps"), expected(walks.state(7)));
    scored("state.npz", &["--goal", "-0.5,0.5", "--no-pictures"]);
    assert_eq!(array("state.npz", "steps"), expected(&[-0.5, 0.5]));
    for (goal, what) in [
        ("820", "no row 820 among 820"),
        ("1,2,3", "`--goal` has 3 values, states have 2"),
        ("first", "expected `last`, a state or a row"),
    ] {
        let told = refused("none.npz", &["--goal", goal]);
        assert!(told.contains(what), "{told}");
    }
}

#[test]
fn nothing_is_overwritten_unasked() {
    std::fs::write(at("kept.png"), "mine").unwrap();
    let told = refused("kept.csv", &[]);
    assert!(told.contains("kept.png") && told.contains("--force"), "{told}");
    assert!(!at("kept.csv").exists());
    scored("kept.csv", &["--force"]);
    assert_ne!(std::fs::read(at("kept.png")).unwrap(), b"mine");
    assert!(refused("kept.csv", &["--no-pictures"]).contains("exists already"));
    let logs = std::fs::read(at("walks.npz")).unwrap();
    let told = refused("walks.npz", &["--force", "--no-pictures"]);
    assert!(told.contains("the output would replace a file that is read"), "{told}");
    assert_eq!(std::fs::read(at("walks.npz")).unwrap(), logs);
}

/// The most memory that scoring `rows` frames takes with the data on disk, and the size of their file.
#[cfg(target_os = "linux")]
fn peak_of(rows: usize) -> (u64, u64) {
    let data = at(&format!("{rows}.npz"));
    let states = (0..rows).flat_map(|row| [(row as f32 * 0.1).cos(), (row as f32 * 0.1).sin()]);
    npz::write(&data, &Dataset::new(states.collect(), 2, None, &vec![500; rows / 500]).unwrap())
        .unwrap();
    let out = at(&format!("scores-of-{rows}.npz"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_isochrone"))
        .arg("score")
        .arg(&data)
        .arg("--model")
        .arg(&*RUN)
        .args(["--memory", "1 MiB", "--no-pictures", "--threads", "2", "-o"])
        .arg(&out)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut peak = 0;
    let status = loop {
        let text = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
        peak = peak.max(kibibytes.unwrap_or(0) * 1024);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert!(status.success());
    let size = std::fs::metadata(&data).unwrap().len();
    std::fs::remove_file(&data).unwrap();
    (peak, size)
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_file() {
    let ((few, small), (many, large)) = (peak_of(400_000), peak_of(4_000_000));
    assert!(few > 0, "nothing was measured");
    let (grown, longer) = (many.saturating_sub(few), large - small);
    assert!(grown < longer / 4, "{grown} bytes more for a file {longer} bytes larger");
}
