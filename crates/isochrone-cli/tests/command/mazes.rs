//! A maze as a user meets it: success by task, two protocols beside each other, routes from above, and
//! a goal of which only the place is given.
use std::path::Path;
use std::process::Command;

use isochrone::data::{Dataset, npz};
use isochrone::ledger;
use serde_json::Value;

#[track_caller]
fn said(folder: &Path, words: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    let output = command.current_dir(folder).args(words.split_whitespace()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

const SMALL: &str = "--set train.steps=40 --set train.batch_size=32 --set train.evaluate_every=10 \
     --set algorithm.network.hidden=[16] --set algorithm.policy.network.hidden=[16] --set evaluation.tasks=10 --set evaluation.triples=1000";

#[test]
fn a_run_in_a_maze_tells_every_task_and_both_protocols() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    said(place, "data generate pointmaze-medium --episodes 30 -o maze.npz");
    let train = "train maze.npz --algorithm qrl --set data.recorded_in=pointmaze-medium-navigate";
    let told = said(place, &format!("{train} {SMALL} --out run"));
    assert!(told.contains("in the mean of the last 3 evaluations") && told.contains("best of 4"));
    let table = ledger::read(&place.join("run/evaluation.csv")).unwrap();
    for task in 1..=5 {
        let rates = table.column(&format!("evaluation/task_{task}_success")).unwrap();
        assert!(rates.iter().all(|rate| (0.0..=1.0).contains(rate)));
        assert!(table.column(&format!("evaluation/task_{task}_steps")).is_some());
    }
    let overall = table.column("evaluation/overall_success").unwrap();
    assert_eq!(overall.len(), 4);
    let told = said(place, "evaluate run --json");
    let found: Value = serde_json::from_str(&told).unwrap();
    let over = &found["over_training"];
    let last: f64 = overall[1..].iter().sum::<f64>() / 3.0;
    assert!((over["last_three"].as_f64().unwrap() - last).abs() < 1e-9);
    assert_eq!(over["best"].as_f64().unwrap(), overall.iter().copied().fold(0.0, f64::max));
    assert_eq!(found["success"]["by_task"].as_array().unwrap().len(), 5);
    for name in ["routes.png", "routes.svg"] {
        assert!(place.join("run").join(name).metadata().unwrap().len() > 10_000, "{name}");
    }
    let lines = said(place, "evaluate run --no-pictures --control graph");
    assert!(
        lines.contains("task 5") && lines.contains("by the policy while it trained"),
        "{lines}"
    );
}

#[test]
fn a_file_is_evaluated_in_its_world_once_the_world_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path();
    said(place, "data generate pointmaze-medium --episodes 5 -o maze.npz");
    said(place, &format!("train maze.npz --algorithm qrl {SMALL} --out unknown"));
    let told = said(place, "evaluate unknown --no-pictures");
    let hint = "`maze.npz` is no world to act in; if it was recorded in a built-in world, train in \
         another folder with `--set data.recorded_in=WORLD`";
    assert!(told.contains(hint), "{told}");
    let known = "--set data.recorded_in=pointmaze-medium-navigate --out known";
    said(place, &format!("train maze.npz --algorithm qrl {SMALL} {known}"));
    let told = said(place, "evaluate known --no-pictures");
    assert!(told.contains("task 5") && !told.contains("recorded_in"), "{told}");
}

#[test]
fn a_goal_of_which_only_the_place_is_given_is_completed_from_the_data() {
    let folder = tempfile::tempdir().unwrap();
    // A walk to the right whose third number is its height and whose fourth says which walk it is.
    let walk =
        |index: usize| (0..20).flat_map(move |x| [x as f32, 0.0, 0.5 * x as f32, index as f32]);
    let states: Vec<f32> = (0..30).flat_map(walk).collect();
    let actions = vec![0.5; 600];
    let data = Dataset::new(states, 4, Some((actions, 1)), &[20; 30]).unwrap();
    npz::write(&folder.path().join("walks.npz"), &data).unwrap();
    let train = "train walks.npz --algorithm cmd1 --set data.policy_goal=[0,1]";
    said(folder.path(), &format!("{train} {SMALL} --out run"));
    let plan = "plan run --start 2,0 --goal 12,0.1 --no-pictures";
    let told = said(folder.path(), plan);
    let goal = told.lines().find(|line| line.starts_with("goal")).unwrap();
    assert!(goal.contains("(12, 0.1, 6, 0)"), "{goal}");
    assert!(goal.contains("2 values were not given and are those of the nearest data state"));
    let found: Value =
        serde_json::from_str(&said(folder.path(), &format!("{plan} --json"))).unwrap();
    assert_eq!(found["goal"]["given"], 2);
    let whole = said(folder.path(), "plan run --start 2,0,1,3 --goal 12,0,6,3 --no-pictures");
    assert!(!whole.contains("not given"), "{whole}");
}
