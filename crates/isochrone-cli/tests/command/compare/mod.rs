//! A whole comparison as a user runs it: killed, resumed, refused, diverging, reported again.

mod sheet;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use serde_json::Value;

/// Settings that make a run a matter of a second.
const SMALL: [&str; 8] = [
    "train.batch_size=32",
    "train.steps=400",
    "train.save_every=20",
    "train.log_every=50",
    "train.evaluate_every=200",
    "evaluation.tasks=24",
    "algorithm.network.hidden=[16]",
    "algorithm.policy.network.hidden=[16]",
];

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// Two learners and two seeds, never stopped.
static WHOLE: LazyLock<PathBuf> = LazyLock::new(|| {
    let out = FOLDER.path().join("whole");
    said(compare(&out, &["--control", "graph"]), 0);
    out
});

/// Held while reports of the runs above are written.
static REPORTING: Mutex<()> = Mutex::new(());

fn isochrone() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A comparison of both learners with two seeds each on the pinwheel.
fn compare(out: &Path, more: &[&str]) -> Command {
    let mut command = isochrone();
    command.args(["compare", "--world", "pinwheel", "--algorithm", "cmd1,cmd2", "--seeds", "2"]);
    command.args(["--threads", "2", "--out"]).arg(out);
    for setting in SMALL {
        command.args(["--set", setting]);
    }
    command.args(more);
    command
}

/// What a world needs is not missing in the folder of a run, so none is named.
#[test]
fn a_simulator_that_is_not_installed_is_said_without_naming_a_run() {
    let mut command = isochrone();
    command.args(["compare", "--world", "antmaze-umaze", "--algorithm", "gcbc", "--out"]);
    command.arg(FOLDER.path().join("ants")).env("MUJOCO_LIB", "no-such-library");
    let [_, told] = said(command, 2);
    assert!(told.starts_with("error: no MuJoCo library"), "{told}");
    assert!(told.contains("(`no-such-library`)") && !told.contains("gcbc"), "{told}");
}

/// Cloning learns no distance, so no planner can steer its policy: the row stays, the cells are empty.
#[test]
fn a_learner_without_a_distance_is_compared_without_the_planner() {
    let out = FOLDER.path().join("cloning");
    let mut command = isochrone();
    command.args(["compare", "--world", "pinwheel", "--algorithm", "gcbc", "--seeds", "1"]);
    command.args(["--control", "graph", "--json", "--out"]).arg(&out);
    for setting in SMALL.iter().filter(|setting| !setting.contains("algorithm.network")) {
        command.args(["--set", setting]);
    }
    let [text, _] = said(command, 0);
    let report: Value = serde_json::from_str(&text).unwrap();
    let row = &report["rows"][0];
    assert!(row["policy"]["overall"]["mean"].is_number(), "{row}");
    assert!(!row["planner"]["overall"]["mean"].is_number(), "{row}");
}

#[test]
fn accuracy_stands_beside_success_and_on_a_page_of_its_own() {
    let _guard = REPORTING.lock();
    let place = FOLDER.path().join("distance.md");
    let mut command = isochrone();
    command.args(["compare", "--report-only"]).arg(&*WHOLE).arg("--distance").arg(&place);
    command.arg("--json");
    let [text, _] = said(command, 0);
    let report: Value = serde_json::from_str(&text).unwrap();
    for row in report["rows"].as_array().unwrap() {
        let found = &row["accuracy"];
        assert_eq!(found["spearman"]["seeds"], 2, "{row}");
        assert!(found["pairs"]["mean"].as_f64().unwrap() > 500.0, "{row}");
        assert!(found["median_relative_error"]["mean"].as_f64().unwrap() > 0.0, "{row}");
    }
    let page = std::fs::read_to_string(&place).unwrap();
    let head = "| algorithm | extraction | seeds | success (%) | Spearman | near | far | per goal | \
                slope | intercept | relative error (%) | no way (AUC) |";
    holds(
        &page,
        &["# How accurate the learned steps are", "## pinwheel\n", head, "| cmd1 | ddpg-bc | 2 |"],
    );
    let first = csv(&read(&WHOLE, "compare.csv"))[0].clone();
    let spearman: f64 = first["accuracy_spearman"].parse().unwrap();
    assert!(spearman.abs() <= 1.0);
}

/// Copies what is reported of the whole comparison.
fn bring_tables(out: &Path) {
    for name in ["cmd1-ddpg-bc", "cmd2-awr"] {
        for seed in ["seed-0", "seed-1"] {
            let run = Path::new("pinwheel").join(name).join(seed);
            std::fs::create_dir_all(out.join(&run)).unwrap();
            let tables = ["evaluation.csv", "timing.csv", "planner.csv", "accuracy.csv"];
            for file in ["config.toml", "provenance.toml"].iter().chain(&tables) {
                std::fs::copy(WHOLE.join(&run).join(file), out.join(&run).join(file)).unwrap();
            }
        }
    }
}

#[test]
fn runs_of_several_machines_in_one_folder_are_told_apart() {
    let out = FOLDER.path().join("machines");
    bring_tables(&out);
    let other = "version = \"0.1.0\"\ncommit = \"abc\"\nthreads = 7\ndevice = \"NVIDIA H200\"\n";
    let later = "\n[[resumed]]\nstep = 1200\nversion = \"0.2.0\"\ndevice = \"cpu\"\n";
    let place = |seed: u64| out.join(format!("pinwheel/cmd2-awr/seed-{seed}/provenance.toml"));
    std::fs::write(place(0), other.to_owned() + later).unwrap();
    std::fs::write(place(1), other).unwrap();
    let text = page(&out, &out.join("page.md"), &[]);
    let wanted = [
        concat!("- 2 runs by isochrone ", env!("CARGO_PKG_VERSION")),
        "- 1 run by isochrone 0.1.0, commit abc, 7 at a time, updates on one NVIDIA H200.",
        "- 1 run by isochrone 0.1.0, commit abc, 7 at a time, updates on one NVIDIA H200; from update \
         1,200 on by isochrone 0.2.0 on the CPU.",
        "| pinwheel | cmd1 | ddpg-bc | 0, 1 | 400 | 32 | CPU |",
        "| pinwheel | cmd2 | awr | 0, 1 | 400 | 32 | CPU, NVIDIA H200 |",
    ];
    holds(&text, &wanted);
}

#[test]
fn learners_of_one_config_are_refused_and_runs_of_seeds_have_their_learners_name() {
    let mut command = isochrone();
    command.args(["compare", "--world", "pointmaze-medium-stitch", "--dry-run"]);
    command.args(["--algorithm", "cmd1,cmd1-paper", "--set", "data.episodes=3"]);
    let output = command.output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("the same config as `") && told.contains("cmd1-paper"), "{told}");
    let out = FOLDER.path().join("seeds");
    let mut command = isochrone();
    command.args(["train", "pinwheel", "--algorithm", "cmd1", "--seeds", "1", "--out"]).arg(&out);
    command.args(["--set", "train.steps=5", "--set", "data.episodes=20"]);
    command.args(["--set", "train.batch_size=8", "--set", "evaluation.tasks=2"]);
    said(command, 0);
    let mut command = isochrone();
    command.args(["compare", "--report-only"]).arg(&out);
    said(command, 0);
    assert_eq!(csv(&read(&out, "compare.csv"))[0]["algorithm"], "cmd1");
}

/// Tables travel, models are large: what is reported needs the tables alone.
#[test]
fn runs_brought_over_without_their_models_are_reported_alike_and_not_repeated() {
    let out = FOLDER.path().join("brought");
    bring_tables(&out);
    said(compare(&out, &["--control", "graph"]), 0);
    assert_eq!(read(&out, "compare.csv"), read(&WHOLE, "compare.csv"));
    assert!(!out.join("pinwheel/cmd1-ddpg-bc/seed-0/model.safetensors").exists());
    // Where the last evaluation is missing, the run is not complete.
    let table = out.join("pinwheel/cmd1-ddpg-bc/seed-0/evaluation.csv");
    let text = std::fs::read_to_string(&table).unwrap();
    let shorter: Vec<&str> = text.lines().take(2).collect();
    std::fs::write(&table, shorter.join("\n") + "\n").unwrap();
    let mut report = isochrone();
    report.args(["compare", "--report-only"]).arg(&out);
    said(report, 0);
    assert_eq!(csv(&read(&out, "compare.csv"))[0]["status"], "stopped");
}

#[test]
fn a_run_whose_model_is_damaged_or_gone_says_so_and_one_that_was_stopped_does_not() {
    let out = FOLDER.path().join("damaged");
    bring_tables(&out);
    let run = |name: &str| out.join("pinwheel").join(name);
    let checkpoints = |name: &str| run(name).join("checkpoints");
    let damaged = run("cmd1-ddpg-bc/seed-0").join("model.safetensors");
    std::fs::create_dir(checkpoints("cmd1-ddpg-bc/seed-0")).unwrap();
    std::fs::write(&damaged, "not a model").unwrap();
    std::fs::create_dir(checkpoints("cmd1-ddpg-bc/seed-1")).unwrap();
    std::fs::create_dir(checkpoints("cmd2-awr/seed-0")).unwrap();
    std::fs::write(checkpoints("cmd2-awr/seed-0").join("step-000000000400.safetensors"), "")
        .unwrap();
    let mut report = isochrone();
    report.args(["compare", "--report-only"]).arg(&out);
    let [text, _] = said(report, 0);
    let statuses: Vec<String> =
        csv(&read(&out, "compare.csv")).iter().map(|run| run["status"].clone()).collect();
    assert_eq!(statuses, ["damaged", "stopped", "damaged", "complete"]);
    let missing: Vec<&str> = text.lines().filter(|line| line.starts_with("missing ")).collect();
    let [one, stopped, gone] = missing[..] else { panic!("{text}") };
    holds(one, &["pinwheel, cmd1 ddpg-bc: seed 0 is damaged: ", &damaged.display().to_string()]);
    holds(one, &["hint: `isochrone train --out ", "restores it"]);
    assert!(stopped.ends_with("seed 1 is not complete; the same command resumes it"), "{stopped}");
    holds(gone, &["seed 0 is damaged: the run is at its last update but has no model"]);
}

/// The page of the runs in `out`, written to `place`.
fn page(out: &Path, place: &Path, more: &[&str]) -> String {
    let mut command = isochrone();
    command.args(["compare", "--report-only"]).arg(out).arg("--results").arg(place).args(more);
    said(command, 0);
    std::fs::read_to_string(place).unwrap()
}

/// Every one of the `wanted` words stands in `text`.
#[track_caller]
fn holds(text: &str, wanted: &[&str]) {
    wanted.iter().for_each(|words| assert!(text.contains(words), "`{words}` in\n{text}"));
}

/// What a command prints on both sides, given that it ends with `code`.
#[track_caller]
fn said(mut command: Command, code: i32) -> [String; 2] {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(status.code(), Some(code), "{}{}", said[0], said[1]);
    said
}

fn read(out: &Path, name: &str) -> String {
    std::fs::read_to_string(out.join(name)).unwrap()
}

/// The lines of a CSV as maps from column to field.
fn csv(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let head: Vec<String> = lines.next().unwrap().collect();
    lines
        .map(|fields| {
            let fields: Vec<String> = fields.collect();
            assert_eq!(fields.len(), head.len());
            head.iter().cloned().zip(fields).collect()
        })
        .collect()
}

#[test]
fn killed_midway_and_repeated_it_ends_with_the_same_bytes() {
    let out = FOLDER.path().join("killed");
    let mut kills = 0;
    let checkpoint = |run: &str| {
        let folder = out.join("pinwheel").join(run).join("checkpoints");
        std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
    };
    for run in ["cmd1-ddpg-bc/seed-0", "cmd2-awr/seed-1"] {
        let mut child = compare(&out, &["--control", "graph"]).spawn().unwrap();
        while !checkpoint(run) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        kills += usize::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!out.join("compare.csv").exists());
    }
    assert_eq!(kills, 2);
    said(compare(&out, &["--control", "graph"]), 0);
    let _alone = REPORTING.lock().unwrap();
    for name in ["compare.csv", "curves.csv"] {
        assert_eq!(read(&out, name), read(&WHOLE, name), "{name}");
    }
    for name in ["model.safetensors", "metrics.csv", "evaluation.csv", "planner.csv"] {
        let run = Path::new("pinwheel/cmd2-awr/seed-1").join(name);
        let bytes = |out: &Path| std::fs::read(out.join(&run)).unwrap();
        assert_eq!(bytes(&out), bytes(&WHOLE), "{name}");
    }
}

#[test]
fn a_run_of_a_comparison_has_the_bits_of_a_single_one() {
    let single = FOLDER.path().join("single");
    let mut command = isochrone();
    command.args(["train", "pinwheel", "--algorithm", "cmd2", "--seed", "1", "--threads", "2"]);
    // Data and tasks are of the run's own seed.
    for setting in SMALL.iter().chain(&["data.seed=1", "evaluation.seed=1001"]) {
        command.args(["--set", setting]);
    }
    command.arg("--out").arg(&single);
    said(command, 0);
    let compared = WHOLE.join("pinwheel/cmd2-awr/seed-1");
    for name in ["config.toml", "model.safetensors", "metrics.csv", "evaluation.csv"] {
        let bytes = |folder: &Path| std::fs::read(folder.join(name)).unwrap();
        assert_eq!(bytes(&single), bytes(&compared), "{name}");
    }
    let _alone = REPORTING.lock().unwrap();
    // The final measure is that of `isochrone evaluate`, and so is the planner's.
    let runs = csv(&read(&WHOLE, "compare.csv"));
    let run = runs.iter().find(|run| run["algorithm"] == "cmd2" && run["seed"] == "1").unwrap();
    for (control, column) in [("policy", "overall"), ("graph", "planner_overall")] {
        let mut command = isochrone();
        command.args(["evaluate", "--json", "--no-pictures", "--control", control]).arg(&single);
        let found: Value = serde_json::from_str(&said(command, 0)[0]).unwrap();
        let rate = found["success"]["overall"]["rate"].as_f64().unwrap();
        // JSON's reader may miss the last bit of a number.
        let told: f64 = run[column].parse().unwrap();
        assert!((told - rate).abs() < 1e-12, "{control}: {told} and {rate}");
    }
}

#[test]
fn the_table_is_recomputed_from_the_line_of_each_seed() {
    let _alone = REPORTING.lock().unwrap();
    let [text, _] = said(compare(&WHOLE, &["--control", "graph"]), 0);
    let report: Value = serde_json::from_str(&read(&WHOLE, "compare.json")).unwrap();
    let runs = csv(&read(&WHOLE, "compare.csv"));
    assert_eq!(runs.len(), 4);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let name = row["algorithm"].as_str().unwrap();
        let column = |column: &str| -> Vec<f64> {
            let seeds = runs.iter().filter(|run| run["algorithm"] == name);
            seeds.filter_map(|run| run[column].parse().ok()).collect()
        };
        for measure in ["overall", "stitched", "switches_0", "switches_1", "switches_2"] {
            let values = column(measure);
            assert_eq!(values.len(), 2, "{measure}");
            let mean = 0.5 * (values[0] + values[1]);
            let error = 0.5 * (values[0] - values[1]).abs();
            let told = |key: &str| row["policy"][measure][key].as_f64().unwrap();
            assert!((told("mean") - mean).abs() < 1e-12 && told("seeds") == 2.0);
            assert!((told("standard_error") - error).abs() < 1e-12);
            // Of two seeds none is cut.
            assert!((told("interquartile_mean") - mean).abs() < 1e-12);
            let cell = format!("{:.1} ± {:.1}", 100.0 * mean, 100.0 * error);
            let line = text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            assert!(line.contains(&cell), "`{cell}` in `{line}`");
        }
        let planned = column("planner_overall");
        let told = row["planner"]["overall"]["mean"].as_f64().unwrap();
        assert!((told - 0.5 * (planned[0] + planned[1])).abs() < 1e-12);
    }
    let curves = csv(&read(&WHOLE, "curves.csv"));
    let last = curves.iter().filter(|line| line["step"] == "400");
    assert_eq!((curves.len(), last.clone().count()), (4, 2));
    for line in last {
        let row = rows.iter().find(|row| row["algorithm"] == line["algorithm"].as_str()).unwrap();
        let mean: f64 = line["overall_mean"].parse().unwrap();
        let told = row["policy"]["overall"]["mean"].as_f64().unwrap();
        assert!((mean - told).abs() < 1e-12, "{mean} and {told}");
    }
    for name in ["curves.png", "curves.svg"] {
        assert!(WHOLE.join(name).metadata().unwrap().len() > 1_000);
    }
}

#[test]
fn the_page_is_a_function_of_the_folder() {
    let _alone = REPORTING.lock().unwrap();
    let grid = FOLDER.path().join("tuning.toml");
    std::fs::write(&grid, "learning_rate = [1e-4, 3e-4]\n").unwrap();
    let place = |name: &str| FOLDER.path().join(name);
    let first = page(&WHOLE, &place("first.md"), &["--grid", grid.to_str().unwrap()]);
    // The grid is kept beside the runs.
    let again = page(&WHOLE, &place("again.md"), &[]);
    assert_eq!(first.replace("first.png", "again.png"), again);
    assert!(FOLDER.path().join("first.png").exists() && FOLDER.path().join("first.svg").exists());
    let wanted = [
        "## pinwheel",
        "| algorithm | extraction | seeds | all | all, IQM | stitched | 0 switches | 1 switch |",
        "all, planner | stitched, planner |",
        "data and 24 pairs of start and goal are drawn anew for each seed",
        "within 0.05 of its goal in at most 150 steps",
        concat!("- 4 runs by isochrone ", env!("CARGO_PKG_VERSION")),
        "2 at a time, each on one thread.",
        "| pinwheel | cmd1 | ddpg-bc | 0, 1 | 400 | 32 | CPU |",
        "`algorithm.goal_action = \"taken\"`",
        "```toml\nlearning_rate = [1e-4, 3e-4]\n```",
        "![Success while training](first.png)",
    ];
    holds(&first, &wanted);
}

#[test]
fn a_run_that_diverges_is_told_in_its_row_and_the_others_are_not_stopped() {
    let out = FOLDER.path().join("diverged");
    let steep = FOLDER.path().join("steep.toml");
    let text = "[algorithm]\nname = \"cmd2\"\noptimizer = { learning_rate = 1e30 }\n";
    std::fs::write(&steep, text).unwrap();
    let algorithms = format!("cmd1,{}", steep.display());
    let command = |more: &[&str]| {
        let mut command = isochrone();
        command.args(["compare", "--world", "pinwheel", "--seeds", "2", "--threads", "2"]);
        command.args(["--algorithm", &algorithms, "--out"]).arg(&out);
        for setting in SMALL.iter().filter(|setting| !setting.starts_with("train.steps")) {
            command.args(["--set", setting]);
        }
        command.args(["--set", "train.steps=60"]).args(more);
        command
    };
    let [text, told] = said(command(&[]), 3);
    assert!(text.contains("missing   pinwheel, steep awr: seed 0 diverged: `training/"), "{text}");
    assert!(told.lines().last().unwrap().starts_with("error: `training/"), "{told}");
    let runs = csv(&read(&out, "compare.csv"));
    let status = |name: &str| -> Vec<&str> {
        runs.iter().filter(|run| run["algorithm"] == name).map(|run| &*run["status"]).collect()
    };
    assert_eq!((status("cmd1"), status("steep")), (vec!["complete"; 2], vec!["diverged"; 2]));
    assert!(runs.iter().all(|run| run["overall"].is_empty() == (run["status"] == "diverged")));
    assert!(text.contains("0 of 2"), "{text}");
    // The folder alone says so, too.
    let csv_before = read(&out, "compare.csv");
    let mut report = isochrone();
    report.args(["compare", "--report-only"]).arg(&out);
    let [again, _] = said(report, 0);
    assert_eq!((again, read(&out, "compare.csv")), (text, csv_before));
    let [json, _] = said(command(&["--json"]), 3);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"][1]["problems"].as_array().unwrap().len(), 2);
}

#[test]
fn what_cannot_be_compared_is_refused_before_any_training() {
    let out = FOLDER.path().join("refused");
    let place = out.to_str().unwrap();
    let refused = |words: &[&str], wanted: &[&str]| {
        let mut command = isochrone();
        command.arg("compare").args(words).args(["--out", place]);
        let [_, told] = said(command, 2);
        assert_eq!(told.lines().count(), 1, "{told}");
        holds(&told, wanted);
    };
    let world = ["--world", "pinwheel"];
    let with = |more: &[&'static str]| -> Vec<&'static str> { [&world[..], more].concat() };
    refused(&["--world", "pinwhel"], &["unknown world `pinwhel`", "`pinwheel`"]);
    refused(&with(&["--algorithm", "cmd2,cmd"]), &["unknown learner `cmd`", "`cmd1`"]);
    refused(&with(&["--extraction", "ddpg"]), &["unknown extraction `ddpg`", "`ddpg-bc`"]);
    refused(&with(&["--seeds", "0"]), &["`--seeds` is `0`"]);
    refused(&with(&["--set", "train.stepz=1"]), &["`stepz`", "`steps`", "pinwheel"]);
    refused(&with(&["--set", "train.batch_size=1"]), &["`train.batch_size` is `1`"]);
    refused(&with(&["--set", "data.source=roads"]), &["a setting changes what is compared"]);
    let state = ["--algorithm", "cmd1", "--set", "algorithm.critic=state", "--extraction"];
    refused(&with(&[&state[..], &["ddpg-bc"]].concat()), &["`ddpg-bc` needs", "cmd1-ddpg-bc"]);
    refused(&with(&["--grid", "none.toml"]), &["cannot read the grid", "none.toml"]);
    refused(&with(&["--results", "none/page.md"]), &["the folder does not exist", "none"]);
    let notes = FOLDER.path().join("notes.md");
    std::fs::write(&notes, "# Notes\n\nMine.\n").unwrap();
    for flag in ["--results", "--distance"] {
        let mut command = isochrone();
        command.args(["compare", "--report-only"]).arg(&*WHOLE).arg(flag).arg(&notes);
        let [_, told] = said(command, 2);
        holds(&told, &["this command did not write it", "notes.md"]);
    }
    let drawn = FOLDER.path().join("drawn.png");
    std::fs::write(&drawn, "mine").unwrap();
    let mut command = isochrone();
    command.args(["compare", "--report-only"]).arg(&*WHOLE).arg("--results");
    let [_, told] = said(
        {
            command.arg(drawn.with_extension("md"));
            command
        },
        2,
    );
    holds(&told, &["the file exists already", "drawn.png"]);
    let kept = [&notes, &drawn].map(|path| std::fs::read_to_string(path).unwrap());
    assert_eq!(kept, ["# Notes\n\nMine.\n", "mine"]);
    assert!(!out.exists(), "no folder is made for a command that is refused");
    let mut command = isochrone();
    command.args(["compare", "--report-only", place]);
    said(command, 2);
    // What holds runs of another config is refused by its keys, also for other learners.
    let [_, told] = said(compare(&WHOLE, &["--set", "train.log_every=51"]), 2);
    assert!(told.contains("differs in `train.log_every`") && told.contains("seed-0"), "{told}");
    let [_, told] =
        said(compare(&WHOLE, &["--extraction", "awr", "--set", "evaluation.tasks=25"]), 2);
    assert!(told.contains("differs in `evaluation.tasks`"), "{told}");
}

#[test]
fn a_report_of_a_run_that_lost_an_evaluation_is_refused_and_nothing_is_written() {
    let out = FOLDER.path().join("lost");
    bring_tables(&out);
    let table = out.join("pinwheel/cmd2-awr/seed-1/evaluation.csv");
    let text = std::fs::read_to_string(&table).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    let report = |code: i32| {
        let mut command = isochrone();
        command.args(["compare", "--report-only"]).arg(&out);
        said(command, code)
    };
    std::fs::write(&table, format!("{}\n{}\n", lines[0], lines[2])).unwrap();
    let [_, told] = report(2);
    holds(&told, &["the row of step 200 is missing", "evaluation.csv"]);
    for name in ["compare.csv", "curves.csv", "compare.json", "curves.png"] {
        assert!(!out.join(name).exists(), "{name}");
    }
    std::fs::write(&table, text).unwrap();
    report(0);
    assert!(out.join("compare.csv").exists());
}
