//! Ray's own simulation of a cluster with several nodes.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{FOLDER, RUNS, compare, ended, finished, same, told, until};

/// A Python with Ray: the usual one or that of an environment in the target folder, which is made
/// where `ISOCHRONE_FULL` asks for it; none where there is none.
fn python() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ray");
    let own = folder.join("bin/python");
    let does = |program: &Path, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    let usual = PathBuf::from("python3");
    let found = [&usual, &own].into_iter().find(|python| does(python, &["-c", "import ray"]));
    if found.is_some() || std::env::var_os("ISOCHRONE_FULL").is_none() {
        return found.cloned();
    }
    let made = does(&usual, &["-m", "venv", folder.to_str().unwrap()])
        && does(&own, &["-m", "pip", "install", "--quiet", "ray"]);
    made.then_some(own)
}

#[test]
fn ray_ends_all_runs_with_the_same_bytes_though_a_node_is_lost() {
    let Some(python) = python() else {
        eprintln!("skipped: no Python here has Ray; `ISOCHRONE_FULL=1` installs it");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/sweep/cluster.py");
    let mut cluster = Command::new(&python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(cluster.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.find(|line| line.contains(':')).expect("the cluster starts");
    let out = FOLDER.path().join("ray");
    let mut command = compare(&out, &["--engine", "ray", "--python"]);
    let child = command.arg(&python).env("RAY_ADDRESS", address).spawn().unwrap();
    until(|| ended(&out) > 2, || {});
    cluster.stdin.as_mut().unwrap().write_all(b"remove\n").unwrap();
    lines.find(|line| line == "removed").expect("a node is removed");
    assert!(ended(&out) < RUNS, "the node was removed too late");
    told(finished(child, || {}), 0);
    same(&out);
    drop(cluster.stdin.take());
    cluster.wait().unwrap();
}
