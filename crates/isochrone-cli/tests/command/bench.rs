//! `isochrone bench` as a user and a script run it: its table, its JSON and what it refuses.

use std::path::Path;
use std::process::Command;

use isochrone::engine::Device;
use serde_json::Value;

use super::program::{refused, said};

const SMALL: [&str; 7] = ["bench", "--quick", "--shape", "2x128", "--batch", "64", "--algorithm"];

#[test]
fn the_json_names_the_machine_and_has_every_number_of_every_case() {
    let words = [&SMALL[..], &["cmd1,gcbc", "--threads", "2", "--json"]].concat();
    let found: Value = serde_json::from_str(&said(&words)).unwrap();
    assert_eq!((&found["device"], &found["threads"]), (&"cpu".into(), &2.into()));
    assert!(found["machine"]["cpu"].is_string() && found["machine"]["cores"].is_u64());
    assert!(found["machine"]["gpu"].is_null());
    assert!(found["peak_gflop_per_second"].as_f64().unwrap() > 0.0);
    let cases = found["cases"].as_array().unwrap();
    let names: Vec<&str> = cases.iter().map(|case| case["learner"].as_str().unwrap()).collect();
    assert_eq!(names, ["cmd1", "gcbc"]);
    for case in cases {
        let number = |path: &str| case.pointer(path).and_then(Value::as_f64).unwrap();
        assert_eq!((number("/batch"), number("/seeds"), number("/state")), (64.0, 1.0, 2.0));
        assert_eq!(case["hidden"], serde_json::json!([128, 128]));
        assert!(number("/update_best_ms") <= number("/update_median_ms"));
        let per_second = number("/updates_per_second_per_seed") * number("/update_median_ms");
        assert!((per_second - 1e3).abs() < 1e-6);
        let split = case["split"].as_array().unwrap();
        let sum: f64 = split.iter().map(|share| share["ms"].as_f64().unwrap()).sum();
        assert!((sum - number("/update_best_ms")).abs() < 1e-6);
        assert!(split.iter().any(|share| share["operation"] == "linear backward"));
        let shapes = case.pointer("/products/shapes").unwrap().as_array().unwrap();
        let work = |shape: &Value| {
            shape.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).product::<f64>()
        };
        let gflop = 2e-9 * shapes.iter().map(work).sum::<f64>();
        assert!((gflop - number("/products/gflop")).abs() < 1e-12);
        assert!(number("/products/gflop_per_second") > 0.0);
        let ratio = number("/update_best_ms") / number("/products/ms");
        assert!((ratio - number("/ratio")).abs() < 1e-9);
        assert!(number("/memory_bytes") > 1e5);
        assert_eq!(case["config"]["name"], case["learner"]);
    }
}

#[test]
fn without_learners_the_solver_the_planner_and_episodes_are_measured_too() {
    let words =
        [&SMALL[..SMALL.len() - 1], &["--seconds", "0", "--threads", "2", "--json"]].concat();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    let output = bench.args(words).env("MUJOCO_LIB", "no-such-library").output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["solver"]["best_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(found["planner"]["rows"], 100_000);
    let episodes = found["episodes"].as_array().unwrap();
    assert_eq!(episodes.len(), 1, "{found}");
    assert_eq!(episodes[0]["world"], "pointmaze-medium-navigate");
    assert_eq!(episodes[0]["episodes"], 64);
    assert!(episodes[0]["steps_per_second"].as_f64().unwrap() > 0.0);
    let told = String::from_utf8(output.stderr).unwrap();
    let expected = "episodes in antmaze-medium-navigate are left out: no MuJoCo library";
    assert!(told.contains(expected) && told.contains("no-such-library"), "{told}");
}

#[test]
fn seeds_are_measured_at_once_and_the_table_has_a_row_for_each_case() {
    let text = said(&[&SMALL[..], &["gcbc", "--threads", "2", "--seeds", "3"]].concat());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].contains("threads: 2") && lines[0].contains("1024³"), "{text}");
    let cells: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!(cells[..4], ["gcbc", "2x128", "64", "3"], "{text}");
}

#[test]
fn scaling_writes_tables_and_a_picture_for_each_axis() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("scaling");
    let words = ["bench", "--quick", "--shape", "2x128", "--algorithm", "gcbc", "--scaling"];
    let text = said(&[&words[..], &[out.to_str().unwrap()]].concat());
    let json = std::fs::read_to_string(out.join("scaling.json")).unwrap();
    let found: Value = serde_json::from_str(&json).unwrap();
    let (points, skipped) =
        (found["points"].as_array().unwrap(), found["skipped"].as_array().unwrap());
    assert_eq!(points.len() + skipped.len(), 12, "{text}");
    let csv = std::fs::read_to_string(out.join("scaling.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + points.len());
    for axis in ["batch", "width", "latent", "seeds", "rows", "disk"] {
        let values = points.iter().filter(|point| point["axis"] == axis);
        assert_eq!(values.count(), 2, "{text}");
        for ending in ["svg", "png"] {
            let picture = out.join(format!("scaling-{axis}.{ending}"));
            assert!(Path::new(&picture).metadata().unwrap().len() > 1_000);
        }
    }
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let text = refused(&["bench", "--algorithm", "cmd1,sarsa"]);
    assert!(text.contains("`sarsa`") && text.contains("`cmd1`") && text.contains("`c-learning`"));
    let text = refused(&["bench", "--shape", "9x9"]);
    assert!(text.contains("`9x9`") && text.contains("`4x512`"), "{text}");
    assert!(refused(&["bench", "--seeds", "0"]).contains("`--seeds` is `0`"));
    assert!(refused(&["bench", "--seconds=-1"]).contains("`--seconds` is `-1`"));
    assert!(refused(&[&SMALL[..5], &["1", "--algorithm", "gcbc"]].concat()).contains("`--batch`"));
    let text = refused(&["bench", "--device", "gpu"]);
    assert!(text.contains("`gpu`, expected `auto`, `cpu` or `cuda:N`"), "{text}");
    if Device::available().is_err() {
        let text = refused(&["bench", "--device", "cuda:0"]);
        assert!(text.contains("; hint: ") && text.contains("--device cpu"), "{text}");
    }
}
