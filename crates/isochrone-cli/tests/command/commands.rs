//! The commands as a user runs them: train a little, then evaluate, plan and audit.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use isochrone::data::{Dataset, npz};
use isochrone::engine::Device;
use serde_json::Value;

use super::program::{isochrone, refused, said};

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// A run of 200 updates on the pinwheel that several tests ask.
static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = FOLDER.path().join("pinwheel");
    let few = few(&folder, "pinwheel", 200);
    said(&[&few[..], &["--set", "train.evaluate_every=100"].map(String::from)].concat());
    folder
});

/// A short training of `source` into `folder`.
fn few(folder: &Path, source: &str, updates: u64) -> Vec<String> {
    let mut words = ["train", source, "--algorithm", "cmd1"].map(String::from).to_vec();
    let settings = [
        format!("train.steps={updates}"),
        "train.log_every=20".into(),
        "evaluation.tasks=40".into(),
        "evaluation.triples=20000".into(),
    ];
    for setting in settings {
        words.extend(["--set".to_owned(), setting]);
    }
    words.extend(["--threads", "1", "--out"].map(String::from));
    words.push(folder.display().to_string());
    words
}

fn said_json(words: &[impl AsRef<str>]) -> Value {
    serde_json::from_str(&said(words)).unwrap()
}

fn path(folder: &Path) -> &str {
    folder.to_str().unwrap()
}

#[test]
fn an_evaluation_counts_success_by_class_and_asks_the_exact_solver() {
    let run = path(&RUN);
    let found = said_json(&["evaluate", run, "--json", "--control", "graph"]);
    let success = &found["success"];
    assert_eq!(success["overall"]["tasks"], 40);
    let classes = success["by_switches"].as_array().unwrap();
    let tasks = |class: &Value| class["tasks"].as_u64().unwrap();
    assert_eq!(classes.iter().map(tasks).sum::<u64>(), 40);
    let stitched = classes.iter().filter(|class| class["switches"] != 0).map(tasks).sum::<u64>();
    assert_eq!(success["stitched"]["tasks"], stitched);
    let accuracy = &found["accuracy"];
    for name in ["spearman", "near", "far", "per_goal", "unreachable_auc"] {
        assert!(accuracy[name].as_f64().unwrap().abs() <= 1.0, "{name}: {accuracy}");
    }
    assert!(accuracy["slope"].is_f64() && accuracy["intercept"].is_f64());
    assert!(accuracy["median_relative_error"].as_f64().unwrap() > 0.0);
    assert!(accuracy["pairs"].as_u64().unwrap() > 1_000);
    let exact = &found["against_exact"];
    for kind in ["seen", "stitched"] {
        assert!(exact[kind]["data"].as_f64().unwrap().abs() <= 1.0);
        assert!(exact[kind]["pairs"].as_u64().unwrap() > 100);
    }
    assert!(exact["line"]["slope"].is_f64() && exact["median_error"].as_f64().unwrap() > 0.0);
    assert!((0.5..=1.0).contains(&exact["coverage"].as_f64().unwrap()));
    assert_eq!(
        (&found["audit"]["triples"], &found["audit"]["violations"]),
        (&20_000.into(), &0.into())
    );
    let elapsed = &found["against_elapsed"];
    assert!((0.0..=1.0).contains(&elapsed["at_or_below"].as_f64().unwrap()), "{elapsed}");
    assert!(elapsed["drop_per_step"].is_f64() && elapsed["reading"].is_string(), "{elapsed}");
    assert_eq!(elapsed["bands"].as_array().unwrap().len(), 6, "48 rows: {elapsed}");
    assert_eq!(found["not_available"].as_array().unwrap().len(), 0);
    let pictures = found["pictures"].as_array().unwrap();
    assert_eq!(pictures.len(), 6);
    for picture in pictures {
        assert!(Path::new(picture.as_str().unwrap()).metadata().unwrap().len() > 1_000);
    }
    let curves = std::fs::read_to_string(RUN.join("curves.svg")).unwrap();
    assert!(curves.contains(">success (%)</text>") && curves.contains(">stitched pairs</text>"));
}

#[test]
fn a_plan_names_its_states_its_sources_and_how_far_its_ends_are_from_the_data() {
    let ends = ["plan", path(&RUN), "--start", "0.2,0.1", "--goal", "0.9,0.5"];
    let text = said(&ends);
    assert!(text.starts_with("start     (0.2, 0.1): within the data\n"), "{text}");
    assert!(text.contains("\ngoal      (0.9, 0.5): within the data\n"), "{text}");
    assert!(text.contains("bottom") && text.contains("right"), "{text}");
    assert!(text.contains("\nmeaning   recorded: ") && text.contains("read this one"), "{text}");
    assert!(text.contains("\nmeaning   steps left: "), "{text}");
    // Its numbers are no steps yet.
    let cautions: Vec<&str> = text.lines().filter(|line| line.starts_with("caution")).collect();
    let (check, of_plan): (Vec<&str>, Vec<&str>) =
        cautions.into_iter().partition(|line| line.contains("do not read the learned numbers"));
    assert_eq!(check.len(), 1, "{text}");
    assert!(of_plan.iter().all(|line| line.contains("disagreement: ")), "{text}");
    assert!(RUN.join("plan.svg").exists() && RUN.join("plan.png").exists());
    let found = said_json(&[&ends[..], &["--json", "--no-pictures"]].concat());
    let states = found["path"]["states"].as_array().unwrap();
    assert_eq!(found["left"].as_array().unwrap().len(), states.len());
    let last: Vec<f64> =
        states.last().unwrap().as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
    assert!((last[0] - 0.9).abs() < 1e-6 && (last[1] - 0.5).abs() < 1e-6);
    assert!(found["path"]["steps"].as_f64() >= found["path"]["direct"].as_f64());
    assert!(found["path"]["recorded"].as_u64().unwrap() > 20);
    assert_eq!(found["path"]["ending"]["kind"], "arrived");
}

#[test]
fn no_path_is_said_in_words_and_is_no_error() {
    let text =
        said(&["plan", path(&RUN), "--start", "0.2,0.1", "--goal", "-3,0.5", "--no-pictures"]);
    assert!(text.contains("spacings from the data, answers there are guesses"), "{text}");
    assert!(text.contains("\npath      none: the goal lies"), "{text}");
    // Nothing recorded leaves a spur.
    let text = said(&["plan", path(&RUN), "--start", "0.37,0.37", "--goal", "0.5,0.9"]);
    assert!(text.contains("path      none: no chain of recorded steps"), "{text}");
    assert!(RUN.join("plan.png").exists());
}

#[test]
fn wrong_coordinates_are_refused_with_an_example() {
    let plan = |start: &str| refused(&["plan", path(&RUN), "--start", start, "--goal", "0.5,0.1"]);
    let text = plan("0.2,0.1,0.3");
    assert!(text.contains("`--start` has `3` values, states of the run have `2`"), "{text}");
    assert!(text.contains("`--start x,y`"), "{text}");
    for wrong in ["here", "0.2,", "nan,0.1"] {
        assert!(plan(wrong).contains(&format!("`--start` is `{wrong}`")));
    }
}

#[test]
fn an_audit_counts_violations_of_a_run_and_of_a_model_with_other_data() {
    let found = said_json(&["audit", path(&RUN), "--json"]);
    assert_eq!((&found["violations"], &found["triples"]), (&0.into(), &1_000_000.into()));
    assert!(found["mean_steps"].as_f64().unwrap() > 0.0 && found["asymmetry"].is_f64());
    assert!(found["identity"].as_f64().unwrap() < 1e-6);
    let model = RUN.join("model.safetensors");
    let text = refused(&["audit", path(&model)]);
    assert!(text.contains("a model file contains no data") && text.contains("--data"), "{text}");
    let text = said(&["audit", path(&model), "--data", "pinwheel-shortcut", "--triples", "1000"]);
    assert!(text.contains("on 1,000 triples: 0 violations"), "{text}");
}

#[test]
fn an_audit_on_data_of_another_world_says_that_its_distances_are_guesses() {
    let audit = |data: &str| {
        let output = isochrone(&["audit", path(&RUN), "--data", data, "--triples", "1000"]);
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let told = audit("roads");
    assert!(told.contains("states of `roads` are far from those the model learned from"), "{told}");
    assert_eq!(audit("pinwheel-shortcut"), "");
}

#[test]
fn the_steps_from_a_state_to_itself_are_0() {
    let commute = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/commute.toml");
    let text = said(&["exact", commute, "--json"]);
    assert!(!text.contains("-0.0") && text.contains("0.0"), "{text}");
}

#[test]
fn every_command_takes_threads_and_refuses_none_alike() {
    let run = path(&RUN);
    let commute = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/commute.toml");
    let recorded = FOLDER.path().join("threads.npz");
    let generate = ["data", "generate", "pinwheel", "--episodes", "2", "-o", path(&recorded)];
    for words in [
        &generate[..],
        &["data", "inspect", path(&recorded)],
        &["evaluate", run, "--no-pictures"],
        &["audit", run, "--triples", "1000"],
        &["plan", run, "--start", "0.2,0.1", "--goal", "0.9,0.5", "--no-pictures"],
        &["exact", commute],
    ] {
        said(&[words, &["--threads", "1"]].concat());
        let text = refused(&[words, &["--threads", "0"]].concat());
        assert!(text.contains("`--threads` is `0`, expected 1 to 1024"), "{text}");
    }
}

#[test]
fn a_negative_seed_is_refused_with_what_is_expected() {
    let none = FOLDER.path().join("none");
    let out = path(&none);
    for words in [
        &["train", "pinwheel", "--out", out][..],
        &["demo", "--out", out],
        &["audit", path(&RUN)],
        &["data", "generate", "pinwheel", "-o", "never.npz"],
    ] {
        let output = isochrone(&[words, &["--seed", "-1"]].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        let expected = "invalid value '-1' for '--seed <SEED>': expected a whole number from 0 to";
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn nodes_limit_planners_alike_in_every_command() {
    let ends = ["plan", path(&RUN), "--start", "0.2,0.1", "--goal", "0.9,0.5", "--json"];
    let states = |more: &[&str]| {
        let found = said_json(&[&ends[..], &["--no-pictures"], more].concat());
        found["path"]["states"].as_array().unwrap().len()
    };
    let [usual, few] = [states(&[]), states(&["--nodes", "60"])];
    assert!(few < usual, "{few} and {usual} states");
    let reached = |nodes: &str| {
        let words = ["evaluate", path(&RUN), "--control", "graph", "--json", "--no-pictures"];
        said_json(&[&words[..], &["--nodes", nodes]].concat())["success"].clone()
    };
    assert_ne!(reached("4"), reached("1500"));
    let out = FOLDER.path().join("compared");
    let words = ["compare", "--world", "pinwheel", "--out", path(&out), "--control", "greedy"];
    let text = refused(&words);
    assert!(text.contains("`--control greedy` is not compared"), "{text}");
}

#[test]
fn seeds_are_evaluated_together_and_asked_one_by_one() {
    let folder = FOLDER.path().join("seeds");
    said(&[&few(&folder, "pinwheel", 60)[..], &["--seeds", "2"].map(String::from)].concat());
    let found = said_json(&["evaluate", path(&folder), "--json"]);
    assert_eq!(found["seeds"].as_array().unwrap().len(), 2);
    let means = found["means"].as_array().unwrap();
    let row = means.iter().find(|row| row["name"] == "asymmetry").unwrap();
    let seed = |index: usize| found["seeds"][index]["audit"]["asymmetry"].as_f64().unwrap();
    assert!((row["mean"].as_f64().unwrap() - 0.5 * (seed(0) + seed(1))).abs() < 1e-12);
    let error = 0.5 * (seed(0) - seed(1)).abs();
    assert!((row["standard_error"].as_f64().unwrap() - error).abs() < 1e-12);
    let curves = std::fs::read_to_string(folder.join("curves.svg")).unwrap();
    assert!(curves.contains("mean of 2 seeds; band: ± one standard error"));
    let text = refused(&["audit", path(&folder)]);
    assert!(text.contains("several seeds") && text.contains("seed-0"), "{text}");
}

#[test]
fn a_run_without_a_policy_is_still_judged_by_its_distance() {
    let folder = FOLDER.path().join("distance");
    let more = ["--extraction", "none", "--set", "evaluation.tasks=4"].map(String::from);
    said(&[&few(&folder, "roads", 20)[..], &more].concat());
    let text = said(&["evaluate", path(&folder)]);
    assert!(text.contains("missing   success: the run has no policy"), "{text}");
    assert!(text.contains("check     accuracy: Spearman "), "{text}");
    assert!(
        text.contains("exact: the best use of moves recorded within 0.5 of each state"),
        "{text}"
    );
    assert!(folder.join("isochrones.png").exists() && folder.join("calibration.png").exists());
    let text = refused(&["evaluate", path(&folder), "--control", "graph"]);
    assert!(text.contains("the model has no policy") && text.contains("hint"), "{text}");
}

#[test]
fn data_from_a_file_have_a_distance_and_no_world() {
    let file = FOLDER.path().join("helix.npz");
    let angle = |row: usize| (row % 40) as f32 * 0.2 + (row / 40) as f32;
    let states =
        (0..400).flat_map(|row| [angle(row).cos(), angle(row).sin(), angle(row)]).collect();
    npz::write(&file, &Dataset::new(states, 3, None, &[40; 10]).unwrap()).unwrap();
    let folder = FOLDER.path().join("helix");
    let words =
        [&few(&folder, path(&file), 20)[..], &["--set", "train.batch_size=32"].map(String::from)];
    said(&[&words.concat()[..], &["--extraction", "none"].map(String::from)].concat());
    let found = said_json(&["evaluate", path(&folder), "--json"]);
    assert_eq!(found["success"], Value::Null);
    assert_eq!(found["not_available"].as_array().unwrap().len(), 2);
    assert_eq!(found["audit"]["violations"], 0);
    assert_eq!(found["against_elapsed"]["held_out"], true);
    assert!(folder.join("calibration.png").exists());
    let told = said(&["evaluate", path(&folder), "--no-pictures"]);
    assert!(told.contains("check     elapsed steps on 1 held-out trajectory: "), "{told}");
    assert!(told.contains("check     elapsed → learned steps, in the median: 1 → "), "{told}");
    let text = said(&["plan", path(&folder), "--start", "1,0,0", "--goal", "0.54,0.84,1"]);
    assert!(!folder.join("plan.png").exists() && text.contains("trajector"), "{text}");
    let text = refused(&["audit", path(&folder), "--data", "pinwheel"]);
    let expected = "states of `pinwheel` have `2` values, those the model learned from `3`";
    assert!(text.contains(expected) && text.contains("`--data`"), "{text}");
    std::fs::write(&file, std::fs::read(&file).unwrap().split_last().unwrap().1).unwrap();
    refused(&["audit", path(&folder)]);
}

#[test]
fn data_that_stay_on_disk_are_judged_by_a_sample_and_it_is_said() {
    let file = FOLDER.path().join("circles.npz");
    let angle = |row: usize| (row % 40) as f32 * 0.2 + (row / 40) as f32;
    let states = (0..4_000).flat_map(|row| [angle(row).cos(), angle(row).sin()]).collect();
    let actions = (0..4_000).flat_map(|row| [-angle(row).sin(), angle(row).cos()]).collect();
    let data = Dataset::new(states, 2, Some((actions, 2)), &[40; 100]).unwrap();
    npz::write(&file, &data).unwrap();
    let folder = FOLDER.path().join("circles");
    let memory = ["--set", "data.memory=40 kB", "--set", "train.batch_size=32"].map(String::from);
    let output = isochrone(&[&few(&folder, path(&file), 20)[..], &memory].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && told.contains("they stay on disk"), "{told}");
    let folder = path(&folder);
    for words in [
        &["evaluate", folder][..],
        &["audit", folder],
        &["plan", folder, "--start", "1,0", "--goal", "0,1"],
    ] {
        let output = isochrone(words);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        assert!(told.contains("31 of 100 trajectories, drawn at random"), "{told}");
    }
}

#[test]
fn a_distance_that_runs_away_ends_with_exit_code_3_and_a_hint() {
    let folder = FOLDER.path().join("away");
    let mut words = few(&folder, "pinwheel", 20);
    words[3] = "mqe".into();
    words.extend(["--set", "algorithm.optimizer.learning_rate=1e4"].map(String::from));
    words.extend(["--set", "train.save_every=1"].map(String::from));
    let output = isochrone(&words);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{told}");
    assert!(
        told.contains("`distance/median_steps` became `") && told.contains("step 1;"),
        "{told}"
    );
    assert!(told.contains("smaller") && told.contains("another learner"), "{told}");
    assert!(!folder.join("model.safetensors").exists());
}

#[test]
fn networks_that_no_machine_holds_are_refused_by_the_memory_plan() {
    let folder = FOLDER.path().join("absurd");
    let absurd = ["--set", "algorithm.network.hidden=[50000000, 50000000]"].map(String::from);
    let output = isochrone(&[&few(&folder, "pinwheel", 10)[..], &absurd].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(told.contains("the machine has") && told.contains("hint"), "{told}");
}

#[test]
fn a_folder_without_a_run_is_refused_with_a_hint() {
    let nowhere = FOLDER.path().join("nowhere");
    for command in ["evaluate", "audit"] {
        let text = refused(&[command, path(&nowhere)]);
        assert!(text.contains("no run (`") && text.contains("`isochrone runs`"), "{text}");
    }
    let text = refused(&["plan", path(&nowhere), "--start", "0,0", "--goal", "1,1"]);
    assert!(text.contains("no run (`"), "{text}");
}

#[test]
fn a_missing_device_is_refused_with_a_hint() {
    let folder = FOLDER.path().join("nowhere");
    let on = |device: &str| {
        let device = ["--device", device].map(String::from);
        refused(&[&few(&folder, "pinwheel", 10)[..], &device].concat())
    };
    let text = on("gpu");
    assert!(text.contains("`gpu`, expected `auto`, `cpu` or `cuda:N`"), "{text}");
    let text = on("cuda:99");
    assert!(
        text.contains("--device cpu") || text.contains("`cuda:99`, this machine has"),
        "{text}"
    );
    if Device::available().is_err() {
        let text = on("cuda:0");
        assert!(text.contains("; hint: ") && text.contains("--device cpu"), "{text}");
    }
    assert!(!folder.exists());
}

#[test]
fn auto_trains_wherever_it_can_and_says_where() {
    let folder = FOLDER.path().join("auto");
    let device = ["--device", "auto"].map(String::from);
    let output = isochrone(&[&few(&folder, "pinwheel", 10)[..], &device].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let provenance = std::fs::read_to_string(folder.join("provenance.toml")).unwrap();
    if Device::available().is_err() {
        let reasons = text.lines().filter(|line| line.starts_with("the CPU is used: "));
        assert_eq!(reasons.count(), 1, "{text}");
        assert!(provenance.contains("device = \"cpu\""), "{provenance}");
    }
}
