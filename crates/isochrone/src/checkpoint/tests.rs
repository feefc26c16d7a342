mod twin;

use self::twin::{Fault, Twin};
use super::snapshot::{DIGITS_END, DIGITS_START, METADATA, checksum, decode, encode};
use super::steps::{latest, load, name_of, save, save_step, step_of, tidy};
use super::{Disk, Files, Lock, Snapshot};
use crate::error::Error;
use safetensors::{Dtype, SafeTensors};
use std::io;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use tempfile::TempDir;

const GOLDEN: &[u8] = include_bytes!("../../tests/fixtures/checkpoint-format-1.safetensors");

fn snapshot(step: u64) -> Snapshot {
    let wave = |index: u64| ((step + index) as f32 * 0.7).sin();
    Snapshot {
        step,
        tensors: vec![
            ("bias".into(), vec![3], (0..3).map(wave).collect()),
            ("empty".into(), vec![0, 4], vec![]),
            ("encoder/weight \"q\"".into(), vec![2, 2], (3..7).map(wave).collect()),
            ("scalar".into(), vec![], vec![-0.0]),
        ],
        facts: [("config", "c0ffee"), ("kind", "cmd1"), ("note", "a \"quoted\" γ\n")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into(),
    }
}

const STEPS: [u64; 4] = [10, 20, 30, 40];

/// Saves until the end or the first error; the last step that was acknowledged.
fn run(files: &dyn Files, keep: usize) -> Option<u64> {
    let mut acknowledged = None;
    for step in STEPS {
        if save_step(files, Path::new("run"), &snapshot(step), keep).is_err() {
            break;
        }
        acknowledged = Some(step);
    }
    acknowledged
}

fn found(files: &dyn Files) -> Option<u64> {
    let latest = latest(files, Path::new("run")).unwrap();
    assert!(latest.skipped.is_empty(), "unreadable: {:?}", latest.skipped);
    latest.snapshot.map(|found| {
        assert_eq!(found, snapshot(found.step));
        found.step
    })
}

fn operations() -> usize {
    let twin = Twin::default();
    assert_eq!(run(&twin, 2), Some(40));
    twin.lock().operations
}

#[test]
fn killed_or_unplugged_at_any_operation_the_newest_or_previous_checkpoint_loads() {
    let (mut worlds, faults) = (0, [Fault::DieBefore, Fault::DieMidway, Fault::DieAfter]);
    for keep in [1, 2] {
        for (operation, fault) in (0..operations()).flat_map(|n| faults.map(|f| (n, f))) {
            let twin = Twin::with_fault(Some((operation, fault)));
            let acknowledged = run(&twin, keep);
            for after in twin.afterwards() {
                let found = found(&after);
                assert!(found >= acknowledged, "{operation} {fault:?}: {found:?}");
                save_step(&after, Path::new("run"), &snapshot(90), keep).unwrap();
                let names = after.list(Path::new("run")).unwrap();
                assert!(names.iter().all(|name| step_of(name).is_some()), "{names:?}");
                assert_eq!(self::found(&after), Some(90));
                worlds += 1;
            }
        }
    }
    assert!(worlds > 200, "only {worlds} ends were looked at");
    println!("figures: {worlds} kills and power cuts at a file operation, 0 unreadable");
}

#[test]
fn a_folder_that_is_not_synced_is_caught_by_the_twin() {
    let lost = (0..operations()).any(|operation| {
        let fault = Some((operation, Fault::DieAfter));
        let twin = Twin { fault, forgets_folders: true, ..Twin::default() };
        let acknowledged = run(&twin, 1);
        twin.afterwards().iter().any(|after| {
            latest(after, Path::new("run")).unwrap().snapshot.map(|found| found.step) < acknowledged
        })
    });
    assert!(lost);
}

#[test]
fn an_operation_that_is_refused_leaves_the_last_checkpoint_and_the_next_save_works() {
    for operation in 0..operations() {
        let twin = Twin::with_fault(Some((operation, Fault::Refuse)));
        let acknowledged = run(&twin, 2);
        assert!(found(&twin) >= acknowledged, "operation {operation}");
        save_step(&twin, Path::new("run"), &snapshot(90), 2).unwrap();
        assert_eq!(found(&twin), Some(90));
        assert!(twin.list(Path::new("run")).unwrap().len() <= 3);
    }
}

#[test]
fn a_snapshot_comes_back_as_it_was_and_as_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.safetensors");
    save(&Disk, &path, &snapshot(7)).unwrap();
    assert_eq!(load(&Disk, &path).unwrap(), snapshot(7));
    let bytes = std::fs::read(&path).unwrap();
    let mut shuffled = snapshot(7);
    shuffled.tensors.reverse();
    assert_eq!(encode(&shuffled).unwrap(), bytes);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a leftover");
    assert_eq!(snapshot(7).tensor("bias").unwrap().0, [3]);
    assert_eq!(snapshot(7).tensor("none"), None);
    // Any reader of safetensors finds the tensors where they should be.
    let foreign = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(
        foreign.tensor("bias").unwrap().data()[..4],
        7f32.mul_add(0.7, 0.0).sin().to_le_bytes()
    );
    assert_eq!(foreign.tensor("scalar").unwrap().data(), (-0f32).to_le_bytes());
}

#[test]
fn a_file_of_format_1_stays_readable() {
    let mut expected = Snapshot { step: 12, ..Snapshot::default() };
    expected.tensors.push(("weight".into(), vec![2, 2], vec![0.5, -1.0, 2.0, 0.25]));
    expected.facts.insert("kind".into(), "golden".into());
    assert_eq!(decode(GOLDEN).unwrap(), expected);
    assert_eq!(encode(&expected).unwrap(), GOLDEN);
}

#[test]
fn every_flipped_bit_and_every_truncation_is_detected() {
    let mut bytes = encode(&snapshot(3)).unwrap();
    for length in 0..bytes.len() {
        assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(decode(&bytes).unwrap(), snapshot(3));
    bytes.push(0);
    assert!(decode(&bytes).is_err());
    println!("figures: checkpoint: {} cuts and flips, all detected", 9 * bytes.len() - 9);
}

/// The bytes with a piece of their header replaced by one of the same length, and the
/// checksum fixed.
fn forged(from: &str, to: &str) -> Vec<u8> {
    let mut bytes = encode(&snapshot(3)).unwrap();
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    let digits = checksum(&bytes);
    bytes[DIGITS_START..DIGITS_END].copy_from_slice(digits.as_bytes());
    bytes
}

#[test]
fn files_that_are_not_checkpoints_are_refused() {
    let says = |bytes: &[u8], expected: &str| {
        let error = decode(bytes).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains(expected), "{error}");
    };
    let view = safetensors::tensor::TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap();
    let other = safetensors::serialize([("weight", view)], None).unwrap();
    says(&other, "the safetensors file is no model and no checkpoint of isochrone");
    says(b"", "does not begin as a model or a checkpoint does");
    says(&[0xff; 200], "does not begin as a model or a checkpoint does");
    says(&forged(r#""format":"1""#, r#""format":"2""#), "format `2`, expected `1`");
    says(&forged(r#""step":"3""#, r#""step":"x""#), "it names no step");
    says(&forged(r#""dtype":"F32","shape":[3]"#, r#""dtype":"I32","shape":[3]"#), "`I32`");
    says(&forged(r#""shape":[3]"#, r#""shape":[9]"#), "damaged");
    let mut holed = encode(&snapshot(3)).unwrap();
    let last = holed.len() - 4;
    holed[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    let digits = checksum(&holed);
    holed[DIGITS_START..DIGITS_END].copy_from_slice(digits.as_bytes());
    says(&holed, "tensor `scalar` holds `NaN`");
}

#[test]
fn a_snapshot_that_must_not_be_saved_is_refused_and_the_old_one_stays() {
    let twin = Twin::default();
    let path = Path::new("run/a.safetensors");
    save(&twin, path, &snapshot(1)).unwrap();
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut bad = snapshot(2);
        bad.tensors[2].2[1] = value;
        match save(&twin, path, &bad).unwrap_err() {
            Error::Diverged { step: 2, metric, .. } => assert_eq!(metric, bad.tensors[2].0),
            other => panic!("{other}"),
        }
    }
    let mut twice = snapshot(2);
    twice.tensors.push(twice.tensors[0].clone());
    assert!(save(&twin, path, &twice).unwrap_err().to_string().contains("appears twice"));
    let mut wrong = snapshot(2);
    wrong.tensors[0].1 = vec![4];
    assert!(save(&twin, path, &wrong).unwrap_err().to_string().contains("3 values"));
    let mut named = snapshot(2);
    named.tensors[0].0 = METADATA.into();
    assert!(save(&twin, path, &named).is_err());
    let mut facts = snapshot(2);
    facts.facts.insert("step".into(), "9".into());
    assert!(save(&twin, path, &facts).is_err());
    assert_eq!(load(&twin, path).unwrap(), snapshot(1));
}

#[test]
fn the_newest_that_verifies_is_found_and_the_damaged_are_told() {
    let folder = TempDir::new().unwrap();
    let none = latest(&Disk, &folder.path().join("none")).unwrap();
    assert!(none.snapshot.is_none() && none.skipped.is_empty());
    for step in [100, 200, 300] {
        save_step(&Disk, folder.path(), &snapshot(step), 9).unwrap();
    }
    let path = |step| folder.path().join(name_of(step));
    std::fs::write(path(300), &std::fs::read(path(300)).unwrap()[..300]).unwrap();
    std::fs::copy(path(100), path(400)).unwrap();
    std::fs::create_dir(path(500)).unwrap();
    let found = latest(&Disk, folder.path()).unwrap();
    assert_eq!(found.snapshot, Some(snapshot(200)));
    let told = found.skipped.iter().map(Error::to_string).collect::<Vec<_>>();
    assert!(told[0].contains("step-000000000500"), "{told:?}");
    assert!(told[1].contains("is of step 100, not 400"), "{told:?}");
    assert!(told[2].contains("damaged") && told[2].contains("step-000000000300"), "{told:?}");
}

#[test]
fn a_checkpoint_that_a_killed_save_left_too_many_goes_with_the_next_run() {
    let folder = TempDir::new().unwrap();
    for step in [100, 200, 300, 400] {
        save_step(&Disk, folder.path(), &snapshot(step), 9).unwrap();
    }
    // The run resumes from step 300, as if 400 were damaged.
    tidy(&Disk, folder.path(), 300, 2).unwrap();
    let mut names = Disk.list(folder.path()).unwrap();
    names.sort_unstable();
    assert_eq!(names, [200, 300, 400].map(name_of));
}

#[test]
fn older_checkpoints_and_leftovers_go_but_nothing_else() {
    let folder = TempDir::new().unwrap();
    let others = ["metrics.csv", "step-7.safetensors", "model.safetensors.tmp"];
    for name in others.iter().chain(&["step-000000000005.safetensors.0123456789abcdef.tmp"]) {
        std::fs::write(folder.path().join(name), b"x").unwrap();
    }
    for step in [1, 2, 12_000, 3, 4] {
        save_step(&Disk, folder.path(), &snapshot(step), 2).unwrap();
    }
    let mut names = Disk.list(folder.path()).unwrap();
    names.retain(|name| !others.contains(&name.as_str()));
    names.sort();
    let kept = [3, 4, 12_000].map(|step| format!("step-{step:012}.safetensors"));
    assert_eq!(names, kept, "the run went back to step 3; what is ahead of it stays");
    assert_eq!(Disk.list(folder.path()).unwrap().len(), kept.len() + others.len());
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_or_a_device_is_not_replaced_and_what_it_names_stays() {
    let folder = TempDir::new().unwrap();
    let (path, link) = (folder.path().join("a.safetensors"), folder.path().join("link"));
    save(&Disk, &path, &snapshot(1)).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for target in [&link, Path::new("/dev/full"), folder.path()] {
        let error = crate::checkpoint::save(target, &snapshot(2)).unwrap_err();
        assert!(matches!(error, Error::Disk { action: "write", .. }), "{error}");
        let error = crate::checkpoint::write_whole(target, b"x").unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
    assert_eq!(load(&Disk, &path).unwrap(), snapshot(1));
    save(&Disk, &path, &snapshot(2)).unwrap();
    assert_eq!(load(&Disk, &path).unwrap(), snapshot(2));
    assert!(matches!(load(&Disk, Path::new("/dev/full")), Err(Error::Disk { .. })));
}

#[test]
fn of_sixteen_threads_exactly_one_takes_a_folder_and_the_next_gets_it_after() {
    let folder = TempDir::new().unwrap();
    for round in 0..100 {
        let folder = folder.path().join("runs").join(round.to_string());
        let barrier = Barrier::new(16);
        let winners = std::thread::scope(|scope| {
            let try_once = || {
                barrier.wait();
                let taken = Lock::take(&folder);
                barrier.wait();
                match taken {
                    Ok(_) => 1,
                    Err(error) => {
                        assert_eq!(error.exit_code(), 7, "{error}");
                        0
                    }
                }
            };
            let threads = (0..16).map(|_| scope.spawn(try_once)).collect::<Vec<_>>();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(winners, 1, "round {round}");
        Lock::take(&folder).unwrap();
    }
    println!("figures: one winner of 16 threads 100 of 100 times");
}

#[test]
fn looking_at_a_folder_creates_nothing_and_locks_nobody_out() {
    let folder = TempDir::new().unwrap();
    assert!(!Lock::is_taken(folder.path()) && !Lock::is_taken(&folder.path().join("none")));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let taken = Lock::take(folder.path()).unwrap();
    assert!(Lock::is_taken(folder.path()));
    drop(taken);
    let looking = std::fs::File::open(folder.path().join(".lock")).unwrap();
    looking.lock_shared().unwrap();
    assert!(!Lock::is_taken(folder.path()), "another who looks is not at work");
    std::thread::scope(|scope| {
        let taken = scope.spawn(|| Lock::take(folder.path()));
        std::thread::sleep(std::time::Duration::from_millis(10));
        looking.unlock().unwrap();
        taken.join().unwrap().expect("taking outlasts a look");
    });
}

/// Starts this test program again, to run one test as another process.
fn another_process(test: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("checkpoint::tests::{test}"), "--nocapture", "--ignored"])
        .env("ISOCHRONE_TEST_FOLDER", folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn told(child: &mut Child, words: [&str; 2]) -> usize {
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    lines
        .find_map(|line| words.iter().position(|word| line.as_ref().unwrap().contains(word)))
        .expect("the process tells")
}

fn folder_of_parent() -> Option<PathBuf> {
    std::env::var_os("ISOCHRONE_TEST_FOLDER").map(PathBuf::from)
}

#[test]
#[ignore = "the other process of `of_sixteen_processes_exactly_one_takes_a_folder`"]
fn a_process_takes_the_lock_and_waits() {
    let Some(folder) = folder_of_parent() else { return };
    let taken = Lock::take(&folder);
    println!("{}", if taken.is_ok() { "has won" } else { "has lost" });
    io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
fn of_sixteen_processes_exactly_one_takes_a_folder() {
    let rounds = if std::env::var_os("ISOCHRONE_FULL").is_some() { 100 } else { 4 };
    for _ in 0..rounds {
        let folder = TempDir::new().unwrap();
        let start = |_| another_process("a_process_takes_the_lock_and_waits", folder.path());
        let mut children = (0..16).map(start).collect::<Vec<_>>();
        let told = children.iter_mut().map(|child| told(child, ["has won", "has lost"]));
        assert_eq!(told.filter(|&word| word == 0).count(), 1);
        assert_eq!(Lock::take(folder.path()).unwrap_err().exit_code(), 7);
        for mut child in children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        Lock::take(folder.path()).expect("a dead process holds nothing");
    }
    println!("figures: one winner of 16 processes {rounds} of {rounds} times");
}

#[test]
#[ignore = "the other process of `killed_at_random_times_the_newest_checkpoint_loads`"]
fn a_process_saves_until_it_is_killed() {
    let Some(folder) = folder_of_parent() else { return };
    let first = latest(&Disk, &folder).unwrap().snapshot.map_or(0, |found| found.step);
    println!("has begun");
    for step in first + 1.. {
        save_step(&Disk, &folder, &snapshot(step), 2).unwrap();
    }
}

#[test]
fn killed_at_random_times_the_newest_checkpoint_loads() {
    let folder = TempDir::new().unwrap();
    let mut before = 0;
    let rounds = if std::env::var_os("ISOCHRONE_FULL").is_some() { 800 } else { 80 };
    for round in 0..rounds as u64 {
        let mut child = another_process("a_process_saves_until_it_is_killed", folder.path());
        told(&mut child, ["has begun", "has begun"]);
        std::thread::sleep(std::time::Duration::from_micros(20_000 + round * 2_377 % 20_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = latest(&Disk, folder.path()).unwrap();
        assert!(found.skipped.is_empty(), "{:?}", found.skipped);
        let step = found.snapshot.map_or(0, |found| {
            assert_eq!(found, snapshot(found.step));
            found.step
        });
        assert!(step >= before, "went back from {before} to {step}");
        before = step;
    }
    assert!(before > 0, "nothing was saved");
    println!("figures: {rounds} kills while saving, 0 losses");
}
