//! One run over several processes that `mpirun` starts: the bytes of a run alone, whatever their number
//! and whichever of them is killed.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use isochrone::data::{Dataset, npz};
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

/// Longer than any of these runs takes, however busy the machine is: one that hangs fails.
const HUNG: Duration = Duration::from_secs(3600);

/// Whether this build can use an `mpirun` and there is one, installed now if need be; one line says why
/// not.
fn has_mpirun() -> bool {
    if cfg!(not(feature = "mpi")) {
        eprintln!("skipped: built without the feature `mpi`");
        return false;
    }
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
    train_on("pinwheel".as_ref(), processes, algorithm, folder)
}

fn train_on(source: &Path, processes: usize, algorithm: &str, folder: &Path) -> Command {
    let mut command = started(processes);
    command.arg("train").arg(source);
    command.args(["--threads", "1", "-a", algorithm, "--out"]).arg(folder);
    for setting in SETTINGS {
        command.args(["--set", setting]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn bytes(folder: &Path, name: &str) -> Vec<u8> {
    let path = folder.join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[track_caller]
fn assert_same(found: &Path, expected: &Path) {
    // Without a world there is no evaluation.
    let is_there = |name: &&&str| expected.join(name).exists() || **name != "evaluation.csv";
    for name in FILES.iter().filter(is_there) {
        assert!(bytes(found, name) == bytes(expected, name), "`{name}` differs");
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
        assert!(since.elapsed() < HUNG, "waited an hour");
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
fn a_killed_rank_ends_the_job_and_the_run_resumes_with_another_number_of_processes() {
    if !has_mpirun() {
        return;
    }
    killed_and_resumed("pinwheel".as_ref(), 2);
}

/// A run of `source` by so many processes, of which one is killed, ends with the bytes of a run alone.
fn killed_and_resumed(source: &Path, processes: usize) {
    let folder = TempDir::new().unwrap();
    let (whole, place) = (folder.path().join("whole"), folder.path().join("killed"));
    assert_code(&train_on(source, 0, "cmd1", &whole).output().unwrap(), 0);
    // On a busy machine a run may be complete before it is killed.
    while !killed(source, processes, &place) {
        std::fs::remove_dir_all(&place).unwrap();
    }
    let told = assert_code(&train_on(source, 6 - processes, "cmd1", &place).output().unwrap(), 0);
    assert!(told.contains("resuming from step"), "{told}");
    assert_same(&place, &whole);
}

/// Starts a run and kills its rank 1 after the first checkpoint; whether it was in time.
fn killed(source: &Path, processes: usize, place: &Path) -> bool {
    let mut child = train_on(source, processes, "cmd1", place).spawn().unwrap();
    until(|| place.join("checkpoints/step-000000000060.safetensors").exists());
    let Some(rank) = process_of(&child, 1) else { return child.wait().is_err() };
    Command::new("kill").args(["-9", &rank.to_string()]).status().unwrap();
    until(|| child.try_wait().unwrap().is_some());
    if place.join("model.safetensors").exists() {
        return false;
    }
    let told = assert_code(&child.wait_with_output().unwrap(), 128 + 9);
    assert!(told.contains("rank 1") && told.contains("signal 9"), "{told}");
    true
}

/// Five files of walks, and one that is held out.
fn shards() -> TempDir {
    let folder = TempDir::new().unwrap();
    for (at, name) in ["a", "b", "c", "d", "e", "e-val"].into_iter().enumerate() {
        let number = |count: usize, rate: f32| -> Vec<f32> {
            (0..count).map(|place| ((place + 977 * at) as f32 * rate).sin()).collect()
        };
        let lengths: Vec<usize> = (0..4 + at).map(|walk| 20 + 3 * walk).collect();
        let rows: usize = lengths.iter().sum();
        let actions = Some((number(2 * rows, 0.53), 2));
        let data = Dataset::new(number(3 * rows, 0.037), 3, actions, &lengths).unwrap();
        npz::write(&folder.path().join(format!("{name}.npz")), &data).unwrap();
    }
    folder
}

#[test]
fn processes_that_divide_many_files_end_with_the_bytes_of_one_that_has_all() {
    if !has_mpirun() {
        return;
    }
    let (data, folder) = (shards(), TempDir::new().unwrap());
    let alone = folder.path().join("alone");
    let told = train_on(data.path(), 0, "cmd2", &alone).output().unwrap();
    assert_code(&told, 0);
    for (processes, on_disk) in [(2, false), (4, false), (4, true)] {
        let place = folder.path().join(format!("{processes} {on_disk}"));
        let mut command = train_on(data.path(), processes, "cmd2", &place);
        if on_disk {
            command.args(["--set", "data.memory=\"1 kB\""]);
        }
        let output = command.output().unwrap();
        let words = assert_code(&output, 0);
        let expected = format!("{processes} processes divide the rows among themselves");
        assert_eq!(words.matches(&expected).count(), 1, "{words}");
        assert_eq!(words.contains("stay on disk"), on_disk, "{words}");
        // What is solved over all recorded moves needs all of them.
        let checks = |told: &[u8], all: bool| -> Vec<String> {
            let text = String::from_utf8(told.to_vec()).unwrap();
            let checks = text.lines().filter(|line| line.starts_with("check "));
            let kept =
                checks.filter(|line| all || !line.contains("against the fewest steps along"));
            kept.map(str::to_owned).collect()
        };
        assert_eq!(checks(&output.stdout, true), checks(&told.stdout, false));
        assert_same(&place, &alone);
    }
}

#[test]
fn a_killed_rank_of_a_divided_run_is_replaced() {
    if has_mpirun() {
        killed_and_resumed(shards().path(), 4);
    }
}

#[test]
fn a_damaged_file_that_one_process_reads_is_named_and_ends_all() {
    if !has_mpirun() {
        return;
    }
    let (data, folder) = (shards(), TempDir::new().unwrap());
    // The second of four equal shares lies around it.
    let (path, out) = (data.path().join("c.npz"), folder.path().join("run"));
    let mut bytes = std::fs::read(&path).unwrap();
    // A value, past the headers that every process reads.
    bytes[1000] ^= 64;
    std::fs::write(&path, bytes).unwrap();
    let told = assert_code(&train_on(data.path(), 4, "cmd1", &out).output().unwrap(), 2);
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(lines.len(), 1, "{told}");
    assert!(lines[0].starts_with("error: rank 1: ") && lines[0].contains("c.npz"), "{told}");
    assert!(!out.exists(), "nothing was started");
}

#[test]
fn without_mpi_several_processes_are_refused_in_one_line_before_anything_starts() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    // What stands where the library should be is none.
    std::fs::write(folder.path().join("libmpi.so.40"), "").unwrap();
    let mut command = started(0);
    command.env("LD_LIBRARY_PATH", folder.path());
    command.env("OMPI_COMM_WORLD_SIZE", "2").env("OMPI_COMM_WORLD_RANK", "0");
    command.args(["train", "pinwheel", "--set", "train.shards=2", "--out"]).arg(&out);
    let told = assert_code(&command.output().unwrap(), 2);
    let expected = if cfg!(feature = "mpi") {
        ["error: cannot use MPI: ", "libmpi.so.40", "install Open MPI on every machine"]
    } else {
        ["error: started as 2 processes", "this build has no MPI", "the feature `mpi`"]
    };
    assert!(expected.iter().all(|words| told.contains(words)), "{told}");
    assert!(told.lines().count() == 1 && !out.exists(), "{told}");
}

#[test]
fn processes_that_cannot_share_a_run_are_refused_in_one_line_before_anything_starts() {
    let folder = TempDir::new().unwrap();
    let out = folder.path().join("run");
    let many: [(&[&str], &str); 4] = [
        (&["train", "pinwheel", "--set", "train.shards=4"], "3 processes cannot share 4 shards"),
        (&["train", "pinwheel"], "3 processes cannot share 1 shards"),
        (&["train", "pinwheel", "--seeds", "2"], "3 processes carry one run, not 2"),
        (&["compare", "--world", "pinwheel"], "only `train` can share its work"),
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
