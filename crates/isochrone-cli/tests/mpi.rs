//! One run over several processes that `mpirun` starts: the bytes of a run alone, whatever their number
//! and whichever of them is killed.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const SETTINGS: [&str; 10] = [
    "train.shards=4",
    "train.steps=240",
    "train.batch_size=32",
    "train.log_every=30",
    "train.save_every=60",
    "train.evaluate_every=120",
    "evaluation.tasks=8",
    "data.validation=0.1",
    "algorithm.network.hidden=[16,16]",
    "algorithm.policy.network.hidden=[16,16]",
];

const FILES: [&str; 6] = [
    "checkpoints/step-000000000240.safetensors",
    "checkpoints/step-000000000180.safetensors",
    "model.safetensors",
    "metrics.csv",
    "metrics.jsonl",
    "evaluation.csv",
];

/// Longer than any of these runs takes: one that hangs fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether there is an `mpirun`, after it was tried to install it; one line says why not.
fn has_mpirun() -> bool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/mpi");
    let output = Command::new(script).output().unwrap();
    if !output.status.success() {
        eprint!("skipped: {}", String::from_utf8_lossy(&output.stdout));
    }
    output.status.success()
}

/// The command `isochrone`, started as so many processes; 0 starts it without `mpirun`.
fn started(processes: usize) -> Command {
    let binary = env!("CARGO_BIN_EXE_isochrone");
    if processes == 0 {
        return Command::new(binary);
    }
    let mut command = Command::new("mpirun");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // A process that waits leaves its core to others: the machine may have fewer cores, and other work.
    command.args(["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
    command.args(["-n", &processes.to_string(), binary]);
    command
}

fn train(processes: usize, algorithm: &str, folder: &Path) -> Command {
    let mut command = started(processes);
    command.args(["train", "pinwheel", "--threads", "1", "-a", algorithm, "--out"]).arg(folder);
    for setting in SETTINGS {
        command.args(["--set", setting]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn bytes(folder: &Path) -> [Vec<u8>; 6] {
    FILES.map(|name| {
        let path = folder.join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    })
}

#[track_caller]
fn assert_same(found: &Path, expected: &Path) {
    for ((name, found), expected) in FILES.iter().zip(bytes(found)).zip(bytes(expected)) {
        assert!(found == expected, "`{name}` differs");
    }
}

#[track_caller]
fn assert_code(output: &Output, code: i32) -> String {
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words}");
    words
}

/// The process that is rank `rank` among the children of `mpirun`.
fn process_of(mpirun: &Child, rank: usize) -> Option<u32> {
    let is_child = |folder: &PathBuf| {
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        status.contains(&format!("PPid:\t{}\n", mpirun.id()))
    };
    let wanted = format!("OMPI_COMM_WORLD_RANK={rank}");
    let is_rank = |folder: &PathBuf| {
        let variables = std::fs::read(folder.join("environ")).unwrap_or_default();
        variables.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    let folders = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let mut found = folders.filter(|folder| is_child(folder) && is_rank(folder));
    found.next()?.file_name()?.to_str()?.parse().ok()
}

/// Waits until `is_so`.
#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "waited too long");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn one_two_and_four_processes_end_with_the_bytes_of_a_run_alone() {
    if !has_mpirun() {
        return;
    }
    let folder = TempDir::new().unwrap();
    for algorithm in ["cmd1", "cmd2"] {
        let place = |processes: usize| folder.path().join(format!("{algorithm}-{processes}"));
        for processes in [0, 1, 2, 4] {
            let output = train(processes, algorithm, &place(processes)).output().unwrap();
            assert_code(&output, 0);
            let told = String::from_utf8(output.stdout).unwrap();
            assert_eq!(told.matches("trained ").count(), 1, "one process speaks: {told}");
            assert_same(&place(processes), &place(0));
        }
    }
}

#[test]
fn a_killed_rank_ends_the_job_and_the_run_goes_on_with_another_number_of_processes() {
    if !has_mpirun() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let (whole, place) = (folder.path().join("whole"), folder.path().join("killed"));
    assert_code(&train(0, "cmd1", &whole).output().unwrap(), 0);
    let mut child = train(2, "cmd1", &place).spawn().unwrap();
    until(|| place.join("checkpoints/step-000000000060.safetensors").exists());
    let rank = process_of(&child, 1).expect("rank 1 runs");
    Command::new("kill").args(["-9", &rank.to_string()]).status().unwrap();
    until(|| child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    let told = assert_code(&output, 128 + 9);
    assert!(told.contains("rank 1") && told.contains("signal 9"), "{told}");
    assert!(!place.join("model.safetensors").exists(), "it was killed too late");
    let told = assert_code(&train(4, "cmd1", &place).output().unwrap(), 0);
    assert!(told.contains("resuming from step"), "{told}");
    assert_same(&place, &whole);
}

#[test]
fn processes_that_cannot_share_a_run_are_refused_in_one_line_before_anything_starts() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let many: [(&[&str], &str); 4] = [
        (&["train", "pinwheel", "--set", "train.shards=4"], "3 processes cannot share 4 shards"),
        (&["train", "pinwheel"], "3 processes cannot share 1 shards"),
        (&["train", "pinwheel", "--seeds", "2"], "3 processes carry one run, not 2"),
        (&["compare", "--world", "pinwheel"], "`train` alone can share its work"),
    ];
    for (words, expected) in many {
        let mut command = started(0);
        command.args(words).arg("--out").arg(&out);
        // What mpirun says to each process.
        command.env("OMPI_COMM_WORLD_SIZE", "3").env("OMPI_COMM_WORLD_RANK", "0");
        let told = assert_code(&command.output().unwrap(), 2);
        assert!(told.contains(expected) && told.lines().count() == 1, "{told}");
        assert!(!out.exists(), "{words:?}");
    }
}

#[test]
fn a_run_of_several_processes_that_fails_says_why_once() {
    if !has_mpirun() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut command = started(2);
    command.args(["train", "absent.npz", "--set", "train.shards=2", "--out"]);
    let output = command.arg(folder.path().join("run")).output().unwrap();
    let told = assert_code(&output, 2);
    assert_eq!(told.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{told}");
    assert!(told.contains("absent.npz"), "{told}");
}
