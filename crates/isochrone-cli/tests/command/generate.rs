//! `isochrone data generate`: files as asked for, or a sentence and no file.
use std::path::Path;
use std::process::{Command, Output};

use isochrone::data::arrays::Arrays;
use isochrone::data::npz;

fn generate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_isochrone"))
        .current_dir(folder)
        .args(["data", "generate"])
        .args(arguments)
        .output()
        .unwrap()
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = generate(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn every_world_without_a_simulator_is_written_with_a_validation_file_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    for (world, rows) in [
        ("pinwheel", 20 * 49),
        ("pinwheel-shortcut", 20 * 49),
        ("pointmaze-giant", 20 * 2_001),
        ("pointmaze-teleport-stitch", 20 * 201),
    ] {
        let output =
            generate(folder.path(), &[world, "--episodes", "20", "-o", "a.npz", "--force"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let data = npz::read(&folder.path().join("a.npz")).unwrap();
        assert_eq!((data.rows(), data.trajectories()), (rows, 20), "{world}");
        let validation = npz::read(&folder.path().join("a-val.npz")).unwrap();
        assert_eq!(validation.trajectories(), 2, "{world}");
        assert_ne!(validation.state(0), data.state(0), "validation episodes are others");
        let bytes = std::fs::read(folder.path().join("a.npz")).unwrap();
        let names: Vec<String> = Arrays::open(&bytes).unwrap().names().map(str::to_owned).collect();
        assert!(
            ["observations", "actions", "terminals"]
                .iter()
                .all(|key| names.iter().any(|n| n == key))
        );
        let maze = world.starts_with("pointmaze");
        assert_eq!(names.contains(&"qpos".to_owned()) && names.contains(&"qvel".to_owned()), maze);
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 2, "no temporary file is left");
}

#[test]
fn the_kind_may_be_said_apart_and_the_seed_decides_every_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let few = ["--episodes", "3", "-o"];
    generate(path, &[&["pointmaze-medium-stitch"], &few[..], &["a.npz"]].concat());
    generate(path, &[&["pointmaze-medium", "--kind", "stitch"], &few[..], &["b.npz"]].concat());
    generate(path, &[&["pointmaze-medium-stitch", "--seed", "1"], &few[..], &["c.npz"]].concat());
    let bytes = |name: &str| std::fs::read(path.join(name)).unwrap();
    assert_eq!(bytes("a.npz"), bytes("b.npz"));
    assert_ne!(bytes("a.npz"), bytes("c.npz"));
    assert!(!path.join("a-val.npz").exists(), "a tenth of three episodes is none");
}

#[test]
fn mistakes_are_told_before_the_work_and_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let text = refused(path, &["pointmaze-huge", "-o", "a.npz"]);
    for known in ["`pointmaze-medium-stitch`", "`antmaze-umaze-diverse`", "`roads`"] {
        assert!(text.contains(known), "{text}");
    }
    let text = refused(path, &["pointmaze-medium", "--kind", "sttch", "-o", "a.npz"]);
    assert!(text.contains("`pointmaze-medium` is not recorded as `sttch`"), "{text}");
    assert!(text.contains("choose `--kind` navigate, stitch"), "{text}");
    let text = refused(path, &["pinwheel", "--kind", "stitch", "-o", "a.npz"]);
    assert!(text.contains("`pinwheel` has no kinds; hint: leave out `--kind`"), "{text}");
    let text = refused(path, &["pointmaze-huge", "--kind", "stitch", "-o", "a.npz"]);
    assert!(text.contains("unknown world `pointmaze-huge-stitch`"), "{text}");
    assert!(refused(path, &["pinwheel", "-o", "a.csv"]).contains("`.npz`"));
    assert!(refused(path, &["pinwheel", "-o", "no/a.npz"]).contains("the folder does not exist"));
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
}

#[test]
fn without_mujoco_the_one_command_that_installs_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_isochrone"))
        .current_dir(folder.path())
        .args(["data", "generate", "antmaze-medium", "--episodes", "1", "-o", "a.npz"])
        .env("MUJOCO_LIB", "nowhere.so")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("pip install mujoco-core") && text.contains("nowhere.so"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn a_packaged_library_that_cannot_be_opened_is_named_with_the_cause() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (bin, package) = (folder.path().join("bin"), folder.path().join("mujoco"));
    std::fs::create_dir(&bin).unwrap();
    std::fs::create_dir(&package).unwrap();
    std::fs::write(package.join("libmujoco.so.3.3.7"), "cut short").unwrap();
    let python = bin.join("python");
    std::fs::write(&python, format!("#!/bin/sh\necho '{}'\n", folder.path().display())).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_isochrone"))
        .current_dir(folder.path())
        .args(["data", "generate", "antmaze-medium", "--episodes", "1", "-o", "a.npz"])
        .env_remove("MUJOCO_LIB")
        .env("VIRTUAL_ENV", folder.path())
        .env("PATH", "")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("libmujoco.so.3.3.7") && text.contains("too short"), "{text}");
    assert!(text.contains("pip install mujoco-core"), "{text}");
}

#[test]
fn files_that_exist_are_replaced_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let words = ["pinwheel", "--episodes", "20", "-o", "a.npz"];
    for existing in ["a.npz", "a-val.npz"] {
        std::fs::write(at(existing), "precious").unwrap();
        let output = generate(folder.path(), &words);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let line = String::from_utf8_lossy(&output.stderr);
        assert!(line.contains(existing) && line.contains("`--force`"), "{line}");
        assert_eq!(std::fs::read_to_string(at(existing)).unwrap(), "precious");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is written");
        std::fs::remove_file(at(existing)).unwrap();
    }
    for _ in 0..2 {
        let output = generate(folder.path(), &[&words[..], &["--force"]].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_file_is_neither_followed_nor_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("precious"), "kept").unwrap();
    std::os::unix::fs::symlink(at("precious"), at("a.npz")).unwrap();
    let words = ["pinwheel", "--episodes", "5", "-o", "a.npz", "--force"];
    let output = generate(folder.path(), &words);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(std::fs::read_to_string(at("precious")).unwrap(), "kept");
    assert!(at("a.npz").is_symlink());
}

#[test]
fn jumps_through_portals_are_no_unmarked_ends_of_a_world_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["pointmaze-teleport-stitch", "--episodes", "60", "-o", "a.npz"];
    assert!(generate(folder.path(), &words).status.success());
    let suspicious = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
        command.current_dir(folder.path()).args(["data", "inspect", "a.npz", "--json"]).args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        found["jumps"]["suspicious"].as_u64().unwrap()
    };
    assert!(suspicious(&[]) > 0);
    assert_eq!(suspicious(&["--recorded-in", "pointmaze-teleport-stitch"]), 0);
    assert!(suspicious(&["--recorded-in", "pointmaze-large-stitch"]) > 0);
}
