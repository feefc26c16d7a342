//! Whichever file operation fails, and wherever a command dies: every file is the old one or the new
//! one, the error names the file, and the same command then succeeds and leaves nothing behind.
//!
//! `layer.rs` stands between the command and the system's files. Every operation of a command that
//! changes a file is made to fail in turn, in four ways.
#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

/// How an operation fails: it alone; it and all later ones that need space; with the process; with
/// the process, when half its bytes are written.
const KINDS: [&str; 4] = ["refuse", "full", "die", "die midway"];
/// The exit code of a process that died of a fault.
const DEAD: i32 = 86;
const DISK: i32 = 4;

static PLACE: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().unwrap());

/// The layer as a library that the system's loader takes.
static LAYER: LazyLock<PathBuf> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/faults/layer.rs");
    let library = PLACE.path().join("layer.so");
    let compiler = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let mut command = Command::new(compiler);
    command.args(["--edition", "2024", "--crate-type", "cdylib", "-o"]).arg(&library).arg(source);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", words(&output.stderr));
    library
});

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../isochrone/tests/fixtures").join(name)
}

fn isochrone(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    command.args(arguments).args(["--threads", "1"]);
    command.env("XDG_CACHE_HOME", PLACE.path().join("cache")).env_remove("RUST_BACKTRACE");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the command and returns the operations that changed files in `folder`, up to its end.
fn run(mut command: Command, folder: &Path, fault: Option<(usize, &str)>) -> (Output, Vec<String>) {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let log = PLACE.path().join(format!("log-{}", RUNS.fetch_add(1, Ordering::Relaxed)));
    command.env("LD_PRELOAD", &*LAYER).env("FAULTS_UNDER", folder).env("FAULTS_LOG", &log);
    if let Some((operation, kind)) = fault {
        command.env("FAULTS_AT", operation.to_string()).env("FAULTS_KIND", kind);
    }
    let output = command.output().unwrap();
    let text = std::fs::read_to_string(&log).unwrap_or_default();
    std::fs::remove_file(log).ok();
    (output, text.lines().map(str::to_owned).collect())
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The files under a folder, by their path in it.
fn files(folder: &Path) -> Files {
    let mut found = Files::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(inner, bytes)| (name.join(inner), bytes)));
        } else {
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
    found
}

fn put(folder: &Path, files: &Files) {
    for (name, bytes) in files {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn is_temporary(name: &Path) -> bool {
    name.extension().is_some_and(|ending| ending == "tmp")
}

/// Makes temporary files look two hours old.
fn age(folder: &Path) {
    let long_ago = SystemTime::now() - Duration::from_secs(7200);
    for name in files(folder).keys().filter(|name| is_temporary(name)) {
        let file = std::fs::File::options().write(true).open(folder.join(name)).unwrap();
        file.set_modified(long_ago).unwrap();
    }
}

/// A command and the folder that it works in.
struct Scene {
    /// What is in the folder before.
    before: Files,
    /// The command, given the folder.
    command: fn(&Path) -> Command,
    /// Files that hold times or only grow; how they end is another test's matter.
    loose: fn(&Path) -> bool,
    /// Whether a file is written in place, row by row: it may then be anything that the same command
    /// mends.
    grows: fn(&Path) -> bool,
}

impl Scene {
    /// The operations of the command where nothing fails, and the files that it leaves.
    fn undisturbed(&self) -> (Vec<String>, Files) {
        let folder = TempDir::new().unwrap();
        put(folder.path(), &self.before);
        let (output, operations) = run((self.command)(folder.path()), folder.path(), None);
        assert_eq!(output.status.code(), Some(0), "{}", words(&output.stderr));
        let after = self.kept(folder.path());
        assert!(!after.keys().any(|name| is_temporary(name)), "{:?}", after.keys());
        let root = folder.path().to_str().unwrap();
        (operations.iter().map(|line| line.replace(root, "")).collect(), after)
    }

    /// The files of the scene, whose texts may name the folder.
    fn kept(&self, folder: &Path) -> Files {
        let mut kept = files(folder);
        kept.retain(|name, _| !(self.loose)(name));
        for bytes in kept.values_mut() {
            if let Ok(words) = std::str::from_utf8(bytes) {
                *bytes = words.replace(text(folder), "").into_bytes();
            }
        }
        kept
    }

    /// Makes every operation fail in every way; how many cases there were.
    fn survive(&self) -> usize {
        let (operations, new) = self.undisturbed();
        let is_write = |line: &String| line.starts_with("write");
        let cases: Vec<(usize, &str)> = (0..operations.len())
            .flat_map(|at| KINDS.map(|kind| (at, kind)))
            .filter(|&(at, kind)| kind != "die midway" || is_write(&operations[at]))
            .collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some(&(at, kind)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                        self.survive_one(at, kind, &operations[at], &new);
                    }
                });
            }
        });
        cases.len()
    }

    fn survive_one(&self, at: usize, kind: &str, operation: &str, new: &Files) {
        let place = TempDir::new().unwrap();
        let folder = place.path();
        put(folder, &self.before);
        let (output, _) = run((self.command)(folder), folder, Some((at, kind)));
        let said = words(&output.stderr);
        let case = format!("{kind} at operation {at}, `{operation}`: {said}");
        let left = self.kept(folder);
        let any_temporary = left.keys().any(|name| is_temporary(name));
        match output.status.code() {
            Some(0) => {
                // Only a removal may fail unsaid; a later command repeats it.
                assert!(kind != "die" && operation.starts_with("remove"), "{case}");
                let done = new.iter().all(|(name, bytes)| left.get(name) == Some(bytes));
                assert!(done, "{case}");
            }
            Some(DEAD) => assert!(kind.starts_with("die"), "{case}"),
            code => {
                assert_eq!(code, Some(DISK), "{case}");
                let error = said.lines().find(|line| line.starts_with("error: "));
                assert!(error.is_some_and(|error| error.contains(text(folder))), "{case}");
                assert!(!any_temporary, "{case}");
            }
        }
        for (name, bytes) in &left {
            let whole = [self.before.get(name), new.get(name)].contains(&Some(bytes));
            assert!(whole || is_temporary(name) || (self.grows)(name), "{name:?}, {case}");
        }
        for name in self.before.keys() {
            assert!(left.contains_key(name), "{name:?} is gone, {case}");
        }
        age(folder);
        let (output, _) = run((self.command)(folder), folder, None);
        assert_eq!(output.status.code(), Some(0), "after {case}: {}", words(&output.stderr));
        for (name, bytes) in self.kept(folder) {
            assert!(new.get(&name) == Some(&bytes), "{name:?} differs after {case}");
        }
        assert_eq!(self.kept(folder).len(), new.len(), "{case}");
    }
}

fn nothing(_: &Path) -> bool {
    false
}

/// A small run on the pinwheel; a learner of 8 units.
const SMALL: [&str; 10] = [
    "data.episodes=8",
    "train.batch_size=8",
    "train.steps=4",
    "train.save_every=2",
    "train.log_every=2",
    "train.evaluate_every=2",
    "evaluation.tasks=2",
    "algorithm.network.hidden=[8]",
    "algorithm.policy.network.hidden=[8]",
    "algorithm.head={kind='mrn',latent=8,components=1}",
];

fn with_settings(mut command: Command) -> Command {
    for setting in SMALL {
        command.args(["--set", setting]);
    }
    command
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A folder with the files of a finished run.
static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
    let run = PLACE.path().join("run");
    let output = with_settings(isochrone(&[
        "train",
        "pinwheel",
        "--algorithm",
        "cmd1",
        "--out",
        text(&run),
    ]))
    .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", words(&output.stderr));
    run
});

fn training() -> Scene {
    let command = |folder: &Path| {
        let out = folder.join("run");
        with_settings(isochrone(&["train", "pinwheel", "--algorithm", "cmd1", "--out", text(&out)]))
    };
    Scene {
        before: Files::new(),
        command,
        // Times, and the conditions that hold one.
        loose: |name| name.ends_with("timing.csv") || name.starts_with("run/tb"),
        grows: |name| {
            let name = text(name);
            name.ends_with(".csv") || name.ends_with(".jsonl")
        },
    }
}

fn converting() -> Scene {
    Scene {
        before: [("out.npz".into(), b"old".to_vec())].into(),
        command: |folder| {
            let (from, to) = (fixture("compressed.npz"), folder.join("out.npz"));
            isochrone(&["data", "convert", text(&from), text(&to), "--force"])
        },
        loose: nothing,
        grows: nothing,
    }
}

fn generating() -> Scene {
    Scene {
        before: [("out.npz".into(), b"old".to_vec())].into(),
        command: |folder| {
            let to = folder.join("out.npz");
            isochrone(&[
                "data",
                "generate",
                "pinwheel",
                "-o",
                text(&to),
                "--episodes",
                "3",
                "--force",
            ])
        },
        loose: nothing,
        grows: nothing,
    }
}

/// The questions that a run is asked.
const PAIRS: &str = "from_0,from_1,to_0,to_1\n0.5,0.5,0.6,0.6\n0.1,0.2,0.3,0.4\n";

fn asking(before: Files, command: fn(&Path) -> Command) -> Scene {
    let before = before.into_iter().chain([("pairs.csv".into(), PAIRS.into())]).collect();
    Scene { before, command, loose: nothing, grows: nothing }
}

fn answers(folder: &Path, name: &str) -> Command {
    let (pairs, out) = (folder.join("pairs.csv"), folder.join(name));
    isochrone(&["query", text(&RUN), text(&pairs), "--force", "--out", text(&out)])
}

fn reporting() -> Scene {
    static COMPARED: LazyLock<Files> = LazyLock::new(|| {
        let out = PLACE.path().join("compared");
        let names = ["compare", "--world", "pinwheel", "--algorithm", "cmd1", "--seeds", "2"];
        let mut command = with_settings(isochrone(&names));
        let output = command.arg("--out").arg(&out).output().unwrap();
        assert!(output.status.success(), "{}", words(&output.stderr));
        let mut found = files(&out);
        found
            .retain(|name, _| !text(name).ends_with(".safetensors") && !text(name).contains("tb/"));
        // Reports that are there already, of another content.
        for (name, bytes) in &mut found {
            if !name.starts_with("pinwheel") && text(name).starts_with("compare") {
                *bytes = b"old".to_vec();
            }
        }
        let page = b"# Old\n\nGenerated by `isochrone compare --results`".to_vec();
        found.insert("page.md".into(), page);
        found
    });
    Scene {
        before: COMPARED.clone(),
        command: |folder| {
            let page = folder.join("page.md");
            let out = folder.canonicalize().unwrap();
            let mut command = isochrone(&["compare", "--report-only", text(&out)]);
            command.args(["--results", text(&page)]);
            command
        },
        loose: nothing,
        grows: nothing,
    }
}

/// A whole run, from an empty folder.
#[test]
fn a_run_survives_every_failing_file_operation() {
    let cases = training().survive();
    println!("figures: {cases} faults in a run, 0 lost rows or files");
    assert!(cases > 200, "{cases}");
}

#[test]
fn a_folder_that_goes_away_while_a_checkpoint_is_saved_is_saved_to_again() {
    let scene = training();
    let (operations, new) = scene.undisturbed();
    let mut cases = 0;
    for (at, operation) in operations.iter().enumerate() {
        if !operation.starts_with("create") && !operation.starts_with("rename")
            || !operation.contains("/step-")
        {
            continue;
        }
        let folder = TempDir::new().unwrap();
        let command = (scene.command)(folder.path());
        let (output, _) = run(command, folder.path(), Some((at, "away")));
        assert_eq!(output.status.code(), Some(0), "{operation}: {}", words(&output.stderr));
        assert!(scene.kept(folder.path()) == new, "another run after `{operation}`");
        cases += 1;
    }
    assert_eq!(cases, 4);
}

#[test]
fn a_converted_or_generated_file_is_the_old_or_the_new_one_after_every_fault() {
    let cases = converting().survive() + generating().survive();
    println!("figures: {cases} faults while converting, 0 mixed files");
    assert!(cases > 40, "{cases}");
}

#[test]
fn a_table_of_answers_is_the_old_or_the_new_one_after_every_fault() {
    let old = |name: &str| Files::from([(name.into(), b"old".to_vec())]);
    let scenes = [
        asking(old("out.csv"), |folder| answers(folder, "out.csv")),
        asking(old("out.npz"), |folder| answers(folder, "out.npz")),
    ];
    let cases: usize = scenes.iter().map(Scene::survive).sum();
    println!("figures: {cases} faults while writing tables, 0 mixed files");
    assert!(cases > 40, "{cases}");
}

#[test]
fn a_report_is_of_old_or_new_files_after_every_fault() {
    let cases = reporting().survive();
    println!("figures: {cases} faults while reporting, 0 mixed files");
    assert!(cases > 60, "{cases}");
}

/// Checks that every file was on disk before it got its name, and its name afterwards.
fn assert_synced(operations: &[String]) {
    let mut unsynced = BTreeSet::new();
    let mut folders = BTreeSet::new();
    let mut renamed = 0;
    for line in operations {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["create" | "write" | "cut", path] => drop(unsynced.insert(path)),
            ["sync", path] => {
                unsynced.remove(path);
                folders.remove(path);
            }
            ["rename", from, to] => {
                assert!(!unsynced.contains(from), "`{to}` got its name before it was on disk");
                folders.insert(to.rsplit_once('/').unwrap().0);
                renamed += 1;
            }
            _ => {}
        }
        let begins = fields[0] == "create" && is_temporary(Path::new(fields[1]));
        assert!(!begins || folders.is_empty(), "the names in `{folders:?}` are not on disk");
    }
    assert!(renamed > 0, "{operations:?}");
    assert!(folders.is_empty(), "the names in `{folders:?}` are not on disk");
}

#[test]
fn files_are_on_disk_before_they_get_their_names_and_names_before_the_next_file() {
    let answered = asking(Files::new(), |folder| answers(folder, "out.csv"));
    let stored = asking(Files::new(), |folder| answers(folder, "out.npz"));
    for scene in [training(), converting(), generating(), reporting(), answered, stored] {
        assert_synced(&scene.undisturbed().0);
    }
}

#[test]
fn tables_are_on_disk_before_the_checkpoint_of_their_rows() {
    let (operations, _) = training().undisturbed();
    let tables = ["metrics.csv", "evaluation.csv", "timing.csv", "metrics.jsonl"];
    let mut unsynced = BTreeSet::new();
    let mut checkpoints = 0;
    for line in &operations {
        let (verb, path) = line.split_once('\t').unwrap();
        let table = tables.iter().find(|name| path.ends_with(*name));
        match (verb, table) {
            ("write", Some(table)) => drop(unsynced.insert(table)),
            ("sync", Some(table)) => drop(unsynced.remove(table)),
            ("rename", _) if path.contains("/step-") => {
                assert!(unsynced.is_empty(), "{unsynced:?} behind a checkpoint");
                checkpoints += 1;
            }
            _ => {}
        }
    }
    assert_eq!(checkpoints, 2);
}
