//! A user's own file: `isochrone train FILE` learns steps that are steps, in two worlds that the
//! library does not know and whose exact steps are known here.
//!
//! With `ISOCHRONE_FULL` everything has its default. Else, to save time, there are fewer updates and no
//! policy, which has no part in the distance.
mod corridor;
mod file;
mod grid;
mod map;

use std::path::Path;
use std::process::Command;

use isochrone::evaluate::{ExactSteps, accuracy};
use isochrone::model::Model;
use isochrone::run::open_model;
use tempfile::TempDir;

use self::file::Recorded;

/// What saves time: 6,000 updates in place of 20,000, of which the default learner spends half on the
/// distance.
const SHORTER: [&str; 4] = ["--extraction", "none", "--set", "train.steps=6000"];

/// The model that the command learns from `recorded`.
fn learned(recorded: &Recorded) -> Model {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (file, run) = (at("recorded.npz"), at("run"));
    std::fs::write(&file, recorded.npz()).unwrap();
    trained(&file, &run);
    open_model(&run).unwrap()
}

fn trained(file: &Path, run: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    command.arg("train").arg(file).arg("--out").arg(run);
    if std::env::var_os("ISOCHRONE_FULL").is_none() {
        command.args(SHORTER);
    }
    command.env_remove("RUST_BACKTRACE");
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
}

/// Learned steps agree with exact ones over all pairs, and a door's way back is a long one.
#[track_caller]
fn assert_right(model: &Model, exact: &[ExactSteps], doors: &[[ExactSteps; 2]]) {
    let found = accuracy(model, exact).unwrap();
    assert!(found.pairs >= 500, "{found:?}");
    assert!(found.spearman.unwrap() >= 0.95, "{found:?}");
    assert!(found.median_relative_error.unwrap() <= 0.15, "{found:?}");
    assert!(!doors.is_empty());
    for door in doors {
        let learned = door.each_ref().map(|way| model.steps(&way.starts, &way.goal).unwrap()[0]);
        let [there, back] = learned.map(f64::from);
        assert!((back / door[1].steps[0] - 1.0).abs() <= 0.25, "{back} back: {door:?}");
        assert!(back > 3.0 * there, "{there} there, {back} back: {door:?}");
    }
}

#[test]
fn steps_are_right_in_corridors_with_one_way_doors() {
    let model = learned(&corridor::recorded());
    assert_right(&model, &corridor::asked(), &corridor::doors());
}

#[test]
fn steps_are_right_in_a_grid_with_discrete_actions() {
    let world = grid::World::new();
    let model = learned(&world.recorded());
    assert_right(&model, &world.asked(), &world.doors());
}
