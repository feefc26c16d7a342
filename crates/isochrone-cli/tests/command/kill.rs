//! The command under signals: whatever stops a run, the same command resumes it and ends with the bytes
//! of a run that nothing stopped.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use isochrone::random::{Purpose, Stream};
use tempfile::TempDir;

const SMALL: [&str; 9] = [
    "train.batch_size=32",
    "train.steps=2400",
    "train.save_every=24",
    "train.log_every=6",
    "train.evaluate_every=600",
    "evaluation.tasks=8",
    "algorithm.network.hidden=[16,16]",
    "algorithm.policy.network.hidden=[16,16]",
    "algorithm.head={kind='mrn',latent=8,components=1}",
];

/// One update takes a second or more.
const SLOW: [&str; 2] = ["train.batch_size=2048", "algorithm.network.hidden=[2048,2048]"];

const FILES: [&str; 5] = [
    "checkpoints/step-000000002400.safetensors",
    "model.safetensors",
    "metrics.csv",
    "metrics.jsonl",
    "evaluation.csv",
];

fn train(folder: &Path, threads: usize, settings: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    command
        .args([
            "train",
            "pinwheel",
            "--algorithm",
            "cmd1",
            "--threads",
            &threads.to_string(),
            "--out",
        ])
        .arg(folder);
    for setting in settings {
        command.args(["--set", setting]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}", words(&output.stderr));
}

fn bytes(folder: &Path) -> [Vec<u8>; 5] {
    FILES.map(|name| {
        let path = folder.join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    })
}

#[track_caller]
fn assert_undisturbed(folder: &Path) {
    for ((name, found), expected) in FILES.iter().zip(bytes(folder)).zip(undisturbed()) {
        assert!(found == *expected, "`{name}` differs");
    }
}

/// The files of a run that nothing stopped.
fn undisturbed() -> &'static [Vec<u8>; 5] {
    static FILES: OnceLock<[Vec<u8>; 5]> = OnceLock::new();
    FILES.get_or_init(|| {
        let folder = TempDir::new().unwrap();
        let output = train(folder.path(), 1, &SMALL).output().unwrap();
        assert_code(&output, 0);
        // On a busy machine it may tell of its progress.
        let told = words(&output.stderr);
        assert!(told.lines().all(|line| line.contains("  step ")), "{told}");
        bytes(folder.path())
    })
}

/// How long a test waits before it counts as hung, on the busiest machine.
const HUNG: Duration = Duration::from_secs(3600);

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < HUNG, "waited an hour for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The steps of the checkpoints in a folder, rising.
fn checkpoints(folder: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(folder.join("checkpoints")).into_iter().flatten();
    let mut steps: Vec<u64> = entries
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok()
        })
        .collect();
    steps.sort_unstable();
    steps
}

/// Sends a signal by its name.
fn send(signal: &str, child: &Child) {
    let line = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
}

/// Waits until the process has taken every signal sent to it.
fn wait_for_delivery(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    let is_pending = |line: &str| {
        let signals = line.strip_prefix("ShdPnd:").map(str::trim);
        signals.is_some_and(|signals| signals.chars().any(|digit| digit != '0'))
    };
    wait_until("a signal's delivery", || match std::fs::read_to_string(&status) {
        Ok(text) => !text.lines().any(is_pending),
        Err(_) => {
            // Where the system does not list pending signals, most take one within this time.
            std::thread::sleep(Duration::from_millis(500));
            true
        }
    });
}

fn place(folder: &TempDir, name: impl ToString) -> PathBuf {
    folder.path().join(name.to_string())
}

/// How many kills or signals are tried.
fn wanted() -> usize {
    if std::env::var_os("ISOCHRONE_FULL").is_some() { 200 } else { 20 }
}

#[test]
fn killed_at_random_times_the_same_command_ends_with_the_same_bytes() {
    let wanted = wanted();
    let folder = TempDir::new().unwrap();
    let mut draws = Stream::new(2024, Purpose(902)).draws(0, 0);
    let (mut kills, mut runs, mut with_checkpoint) = (0, 0, 0);
    while kills < wanted {
        let run = place(&folder, runs);
        let mut child = train(&run, 1, &SMALL).spawn().unwrap();
        // Every other kill comes after a checkpoint, however slow the machine is.
        if kills % 2 == 1 {
            let mut ended = || child.try_wait().unwrap().is_some();
            wait_until("a checkpoint", || !checkpoints(&run).is_empty() || ended());
        }
        std::thread::sleep(Duration::from_micros(u64::from(draws.below(300_000))));
        if child.try_wait().unwrap().is_some() {
            // It was complete before its time had come: what follows is killed in a new folder.
            assert_code(&child.wait_with_output().unwrap(), 0);
            assert_undisturbed(&run);
            runs += 1;
            continue;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        with_checkpoint += usize::from(!checkpoints(&run).is_empty());
    }
    for run in 0..=runs {
        let run = place(&folder, run);
        assert_code(&train(&run, 1, &SMALL).output().unwrap(), 0);
        assert_undisturbed(&run);
        let steps = checkpoints(&run);
        assert!(steps.len() <= 2 && steps.last() == Some(&2400), "{steps:?}");
        let leftovers = std::fs::read_dir(run.join("checkpoints")).unwrap().count();
        assert_eq!(leftovers, steps.len(), "a temporary file is left");
    }
    assert!(with_checkpoint > 5, "only {with_checkpoint} kills came after a checkpoint");
    println!("figures: {kills} kills of the command, 0 losses");
}

/// Starts a run and takes its folder away once there is a checkpoint, until the run says so.
fn without_folder(run: &Path, away: &Path) -> (Child, BufReader<ChildStderr>) {
    let mut child = train(run, 1, &SMALL).spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    wait_until("a checkpoint", || !checkpoints(run).is_empty());
    std::fs::rename(run, away).unwrap();
    let mut said = String::new();
    while !said.contains("is gone; waiting") {
        assert!(told.read_line(&mut said).unwrap() > 0, "no word of the folder: {said}");
    }
    (child, told)
}

#[test]
fn a_folder_that_is_away_for_a_moment_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let (run, away) = (place(&folder, "run"), place(&folder, "away"));
    let (mut child, _told) = without_folder(&run, &away);
    std::fs::rename(&away, &run).unwrap();
    assert!(child.wait().unwrap().success());
    assert_undisturbed(&run);
}

#[test]
fn a_folder_that_stays_away_is_told_and_the_run_resumes_once_it_is_back() {
    let folder = TempDir::new().unwrap();
    let (run, away) = (place(&folder, "run"), place(&folder, "away"));
    let (mut child, mut told) = without_folder(&run, &away);
    // A signal spares the rest of the time.
    send("TERM", &child);
    let mut said = String::new();
    told.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4), "{said}");
    assert!(said.contains("cannot find") && said.contains("checkpoints"), "{said}");
    std::fs::rename(&away, &run).unwrap();
    assert_code(&train(&run, 1, &SMALL).output().unwrap(), 0);
    assert_undisturbed(&run);
}

#[test]
fn a_signal_saves_says_how_to_go_on_and_the_same_command_does() {
    let folder = TempDir::new().unwrap();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let run = place(&folder, signal);
        let mut last = 0;
        for _ in 0..2 {
            let child = train(&run, 1, &SMALL).spawn().unwrap();
            wait_until("a checkpoint", || checkpoints(&run).last() > Some(&last));
            let before = *checkpoints(&run).last().unwrap();
            send(signal, &child);
            let output = child.wait_with_output().unwrap();
            assert_code(&output, code);
            assert_eq!(words(&output.stdout), "");
            let said = words(&output.stderr);
            assert!(said.contains("the same command resumes"), "{said}");
            assert!(said.contains(&run.display().to_string()), "{said}");
            assert_eq!(said.contains("resuming from step"), last > 0, "{said}");
            last = *checkpoints(&run).last().unwrap();
            assert!(last >= before, "the step in progress is saved: {last} after {before}");
            assert!(!run.join("model.safetensors").exists());
        }
        assert_code(&train(&run, 1, &SMALL).output().unwrap(), 0);
        assert_undisturbed(&run);
    }
}

#[test]
fn signalled_at_random_times_the_same_command_ends_with_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let mut draws = Stream::new(2025, Purpose(903)).draws(0, 0);
    let (mut signals, mut runs) = (0, 0);
    while signals < wanted() {
        let run = place(&folder, runs);
        let last = checkpoints(&run).last().copied();
        let mut child = train(&run, 1, &SMALL).spawn().unwrap();
        let mut ended = || child.try_wait().unwrap().is_some();
        wait_until("a checkpoint", || checkpoints(&run).last().copied() > last || ended());
        std::thread::sleep(Duration::from_micros(u64::from(draws.below(100_000))));
        let (signal, code) = [("INT", 130), ("TERM", 143)][draws.below(2) as usize];
        if !ended() {
            send(signal, &child);
        }
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            // It was complete before the signal came.
            assert_undisturbed(&run);
            runs += 1;
        } else {
            assert_code(&output, code);
            signals += 1;
        }
    }
    assert_code(&train(&place(&folder, runs), 1, &SMALL).output().unwrap(), 0);
    assert_undisturbed(&place(&folder, runs));
    println!("figures: {signals} signals, all resumed to the same bytes");
}

#[test]
fn a_second_signal_ends_the_command_at_once() {
    let folder = TempDir::new().unwrap();
    for (second, code) in [("INT", 130), ("TERM", 143)] {
        let run = place(&folder, second);
        let child = train(&run, 1, &SLOW).spawn().unwrap();
        wait_until("the first update", || run.join("timing.csv").exists());
        send("INT", &child);
        wait_for_delivery(&child);
        send(second, &child);
        let output = child.wait_with_output().unwrap();
        assert_code(&output, code);
        assert_eq!(words(&output.stderr), "");
        assert_eq!(checkpoints(&run), [0; 0], "it did not wait for the update");
    }
}

#[test]
fn of_processes_in_one_folder_exactly_one_works() {
    let folder = TempDir::new().unwrap();
    let run = place(&folder, "shared");
    let children: Vec<Child> = (0..4).map(|_| train(&run, 1, &SMALL).spawn().unwrap()).collect();
    let outputs: Vec<Output> =
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let (worked, refused): (Vec<Output>, Vec<Output>) =
        outputs.into_iter().partition(|output| output.status.success());
    assert_eq!((worked.len(), refused.len()), (1, 3));
    for output in refused {
        assert_code(&output, 7);
        let said = words(&output.stderr);
        assert!(
            said.starts_with("error: another process is working on this run")
                && said.contains("hint:")
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert_undisturbed(&run);
}

#[test]
fn two_and_three_threads_and_seeds_side_by_side_give_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    for threads in [2, 3] {
        let run = place(&folder, threads);
        assert_code(&train(&run, threads, &SMALL).output().unwrap(), 0);
        assert_undisturbed(&run);
    }
    let run = place(&folder, "seeds");
    assert_code(&train(&run, 4, &SMALL).args(["--seeds", "2"]).output().unwrap(), 0);
    assert_undisturbed(&run.join("seed-0"));
    assert_ne!(bytes(&run.join("seed-1"))[0], undisturbed()[0]);
}
