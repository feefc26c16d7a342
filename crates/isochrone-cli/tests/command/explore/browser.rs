//! The page in a real browser: Debian's chromium, driven by playwright-core.
//!
//! `tests/command/explore/browser/install` installs both where they are missing and can be had.

use std::path::Path;
use std::process::{Command, Stdio};

use super::served::{ANT, CIRCLE, RUN, STATES, Served, at};
use crate::program::said;

#[test]
fn the_page_works_in_a_browser() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/explore/browser");
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/browser");
    let installed = Command::new(scripts.join("install")).arg(&tools).output();
    match installed {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let reason = String::from_utf8_lossy(&output.stderr);
            return eprintln!("skipped: {}", reason.lines().last().unwrap_or("no browser"));
        }
        Err(error) => return eprintln!("skipped: the browser cannot be installed: {error}"),
    }
    let page = at("browser.html");
    let run: &Path = &RUN;
    said(&["explore", run.to_str().unwrap(), "--export", page.to_str().unwrap()]);
    let (one, two) = (Served::new(&[&RUN]), Served::new(&[&RUN, &RUN]));
    let apart = Served::new(&[&RUN, &CIRCLE]);
    // A run that trains while it is looked at.
    let live = at("live");
    let mut training = Command::new(env!("CARGO_BIN_EXE_isochrone"))
        .args(["train", "pinwheel", "--algorithm", "cmd1", "--threads", "1", "--out"])
        .arg(&live)
        .args(["--set", "train.steps=1000000", "--set", "train.save_every=100"])
        .args(["--set", "train.log_every=20", "--set", "data.episodes=40"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !live.join("config.toml").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let (live, states) = (Served::new(&[&live]), Served::new(&[&STATES]));
    let ant = Served::new(&[&ANT]);
    let script = tools.join("test.mjs");
    std::fs::copy(scripts.join("test.mjs"), &script).unwrap();
    let output = Command::new("node")
        .arg(script)
        .args([&one.host, &two.host, &apart.host, &live.host, &states.host, &ant.host])
        .args([page.as_path(), &tools.join("pictures")])
        .output();
    training.kill().unwrap();
    training.wait().unwrap();
    let output = output.unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
}
