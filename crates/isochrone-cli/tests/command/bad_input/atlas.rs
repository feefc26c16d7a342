//! The default learner on data that have little to teach: a clear answer for each.

use isochrone::algorithms::Config;

use super::bench::{Bench, assert_names, said};
use super::rows::Rows;

/// Walks to the right of so many rows, each at the height of its trajectory.
fn walks(heights: &[f32], rows: usize) -> Rows {
    let walk = |&height: &f32| (0..rows).flat_map(move |row| [0.1 * row as f32, height]);
    let states: Vec<f32> = heights.iter().flat_map(walk).collect();
    let actions = Some([1.0, 0.0].repeat(states.len() / 2));
    Rows { states, actions, lengths: vec![rows; heights.len()] }
}

/// The words of a training with the default learner.
fn words<'w>(file: &'w str, more: &[&'w str]) -> Vec<&'w str> {
    let mut words = vec![file, "--algorithm", Config::DEFAULT, "--set", "algorithm.head.latent=8"];
    more.iter().for_each(|setting| words.extend(["--set", setting]));
    words
}

#[test]
fn too_little_to_learn_from_is_refused_in_words() {
    let bench = Bench::new();
    bench.rows("few.npz", &walks(&[0.0; 2], 3));
    let line = bench.refused(2, &words("few.npz", &["train.batch_size=2"]));
    assert_names(&line, &["rows are too few for landmarks", "record more"]);
    bench.rows("still.npz", &Rows { states: vec![1.0; 160], ..walks(&[0.0; 4], 20) });
    let line = bench.refused(2, &words("still.npz", &[]));
    assert_names(&line, &["no recorded state differs", "`algorithm.teacher.place`"]);
    bench.rows("many.npz", &walks(&[0.0; 8], 40));
    let line = bench.refused(2, &words("many.npz", &["algorithm.teacher.landmarks=1000000"]));
    assert_names(&line, &["`algorithm.teacher.landmarks` is `1000000`", "expected 2 to"]);
}

#[test]
fn one_trajectory_is_learned_from_once_nothing_is_held_out() {
    let bench = Bench::new();
    bench.rows("one.npz", &walks(&[0.0], 40));
    assert_names(&bench.refused(2, &words("one.npz", &[])), &["`data.validation = 0`"]);
    let output = bench.train(&words("one.npz", &["data.validation=0"])).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", said(&output));
    assert_names(&told, &["1 training trajectory, as none were held out"]);
}

#[test]
fn data_without_actions_teach_a_distance_without_a_policy() {
    let bench = Bench::new();
    bench.rows("plain.npz", &Rows { actions: None, ..walks(&[0.0; 8], 40) });
    let output = bench.train(&words("plain.npz", &[])).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert_names(&said(&output), &["the data have no actions", "without a policy"]);
}

#[test]
fn a_goal_that_no_recorded_step_leads_to_has_no_path() {
    let bench = Bench::new();
    bench.rows("apart.npz", &walks(&[0.0, 5.0, 0.0, 5.0, 0.0, 5.0, 0.0, 5.0], 40));
    bench.trained(&[&words("apart.npz", &[])[..], &["--out", "run"]].concat());
    let ends = ["plan", "run", "--start", "0,0", "--goal", "2,5", "--no-pictures"];
    let output = bench.command(&ends).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", said(&output));
    assert_names(&told, &["path      none: no chain of recorded steps leads from the start"]);
}
