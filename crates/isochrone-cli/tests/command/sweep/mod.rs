//! A comparison on engines: every run is a process, one that is killed or loses its node is tried
//! again, and all end with the bytes of runs in one process.

#![cfg(unix)]
mod kubernetes;
mod ray;
mod refused;
mod slurm;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Settings that make a run a matter of a second.
const SMALL: [&str; 9] = [
    "data.episodes=60",
    "train.batch_size=32",
    "train.steps=240",
    "train.save_every=40",
    "train.log_every=50",
    "train.evaluate_every=120",
    "evaluation.tasks=8",
    "algorithm.network.hidden=[16]",
    "algorithm.policy.network.hidden=[16]",
];

const RUNS: usize = 12;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// The same runs in threads of one process.
static WHOLE: LazyLock<PathBuf> = LazyLock::new(|| {
    let out = FOLDER.path().join("whole");
    told(compare(&out, &["--threads", "2"]).output().unwrap(), 0);
    out
});

/// Two learners with six seeds each on the pinwheel.
fn compare(out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    command.args(["compare", "--world", "pinwheel", "--algorithm", "cmd1,cmd2", "--seeds", "6"]);
    for setting in SMALL {
        command.args(["--set", setting]);
    }
    command.arg("--out").arg(out).args(more);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The standard output and error of a command that ended with `code`.
#[track_caller]
fn told(output: Output, code: i32) -> [String; 2] {
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert_eq!(output.status.code(), Some(code), "{out}{error}");
    [out, error]
}

/// How many runs of a sweep have ended.
fn ended(out: &Path) -> usize {
    (0..RUNS).filter(|index| out.join(format!("sweep/{index}.json")).exists()).count()
}

/// How long a test waits before it counts as hung, on the busiest machine.
const HUNG: Duration = Duration::from_secs(3600);

/// Waits until `enough` says so, doing `meanwhile` what must be done.
#[track_caller]
fn until(enough: impl Fn() -> bool, mut meanwhile: impl FnMut()) {
    let begun = Instant::now();
    while !enough() {
        assert!(begun.elapsed() < HUNG, "nothing more happens");
        meanwhile();
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Waits for a command to end, doing `meanwhile` what must be done.
#[track_caller]
fn finished(child: Child, mut meanwhile: impl FnMut()) -> Output {
    let waiting = std::thread::spawn(move || child.wait_with_output().unwrap());
    until(|| waiting.is_finished(), &mut meanwhile);
    waiting.join().unwrap()
}

/// Compares all runs in `out` with those of one process, byte for byte.
#[track_caller]
fn same(out: &Path) {
    let mut compared = 0;
    for learner in std::fs::read_dir(WHOLE.join("pinwheel")).unwrap() {
        let learner = Path::new("pinwheel").join(learner.unwrap().file_name());
        for seed in 0..RUNS / 2 {
            for name in ["model.safetensors", "metrics.csv", "evaluation.csv", "accuracy.csv"] {
                let file = learner.join(format!("seed-{seed}")).join(name);
                let [one, other] = [&*WHOLE, out].map(|out| std::fs::read(out.join(&file)));
                assert!(one.unwrap() == other.unwrap(), "{}", file.display());
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 4 * RUNS);
    let table = |out: &Path| std::fs::read_to_string(out.join("compare.csv")).unwrap();
    assert_eq!(table(&WHOLE), table(out));
}

/// The processes that a process started.
fn children(parent: u32) -> Vec<String> {
    let listed = Command::new("ps").args(["-o", "pid=", "--ppid", &parent.to_string()]).output();
    let text = String::from_utf8(listed.unwrap().stdout).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

fn signal(name: &str, process: &str) {
    Command::new("kill").args([name, process]).stderr(Stdio::null()).status().unwrap();
}

#[test]
fn a_process_that_is_killed_is_tried_again_and_a_stopped_sweep_resumes() {
    let out = FOLDER.path().join("local");
    let engine = ["--engine", "local", "--threads", "2"];
    let child = compare(&out, &engine).spawn().unwrap();
    until(|| out.join("sweep/2.log").exists(), || {});
    // Without a warning, as where memory runs out.
    signal("-KILL", &children(child.id()).into_iter().next_back().unwrap());
    until(|| ended(&out) > 3, || {});
    signal("-TERM", &child.id().to_string());
    let [_, error] = told(finished(child, || {}), 143);
    assert!(error.contains("saved; the same command resumes"), "{error}");
    assert!(ended(&out) < RUNS);
    told(compare(&out, &engine).output().unwrap(), 0);
    same(&out);
    // Nothing is left to do: the table alone is written again.
    std::fs::remove_file(out.join("compare.csv")).unwrap();
    told(compare(&out, &engine).output().unwrap(), 0);
    same(&out);
}

#[test]
fn a_run_that_diverges_is_not_tried_again_and_decides_the_exit_code() {
    let out = FOLDER.path().join("diverging");
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    command.args(["compare", "--world", "pinwheel", "--seeds", "1", "--engine", "local"]);
    command.args(["--algorithm", "cmd1,cmd1:algorithm.optimizer.learning_rate=1e30", "--out"]);
    command.arg(&out);
    for setting in SMALL {
        command.args(["--set", setting]);
    }
    let [table, error] = told(command.output().unwrap(), 3);
    assert!(error.contains("failed: ") && error.contains("at step"), "{error}");
    assert!(table.contains("diverged") && table.contains("compare.csv"), "{table}");
    let log = std::fs::read_to_string(out.join("sweep/1.log")).unwrap();
    assert_eq!(log.matches("error: ").count(), 1, "{log}");
}
