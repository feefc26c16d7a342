//! Runs as a user makes, stops, continues and asks them.
use std::path::Path;

use tempfile::TempDir;

use super::program::isochrone;

const SMALL: [&str; 7] = [
    "train.batch_size=32",
    "train.log_every=5",
    "data.episodes=200",
    "evaluation.tasks=4",
    "evaluation.triples=1000",
    "algorithm.network.hidden=[16]",
    "algorithm.policy.network.hidden=[16]",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a command that succeeds prints, and what it says beside that.
#[track_caller]
fn said(words: &[&str]) -> (String, String) {
    let output = isochrone(words);
    let (out, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{told}");
    (out, told)
}

#[track_caller]
fn refused(words: &[&str]) -> String {
    let output = isochrone(words);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    text(&output.stderr)
}

/// The words of a short training on the pinwheel.
fn train<'a>(steps: &'a str, out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut words = vec!["train", "pinwheel", "--threads", "1", "--out", out, "--set", steps];
    if !more.iter().any(|word| word.contains("algorithm")) {
        words.extend(["--algorithm", "cmd1"]);
    }
    words.extend(SMALL.iter().flat_map(|&setting| ["--set", setting]));
    words.extend(more);
    words
}

fn path(folder: &Path) -> &str {
    folder.to_str().unwrap()
}

#[test]
fn a_complete_run_continues_with_more_and_its_folder_is_enough() {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    let out = path(&run);
    said(&train("train.steps=10", out, &[]));
    let (_, told) = said(&["train", "--out", out, "--more", "5", "--threads", "1"]);
    assert!(told.contains("resuming from step 10"), "{told}");
    assert!(told.contains("continuing from 10 to 15 updates; schedules and phases"), "{told}");
    // Half of all updates train the critic there.
    assert!(told.contains("train the policy alone") && told.contains("`--more 11`"), "{told}");
    let (listed, _) = said(&["runs", path(folder.path())]);
    assert!(listed.contains("complete  step 15/15"), "{listed}");
    // The same key does it too, and a complete run has nothing left to do.
    said(&train("train.steps=20", out, &[]));
    said(&["train", "--out", out]);
    assert!(said(&["runs", out]).0.contains("step 20/20"));
    let told = refused(&train("train.steps=5", out, &[]));
    assert!(told.contains("has 20 updates, 5 were asked for"), "{told}");
    let told = refused(&["train", "--out", out, "--seed", "3"]);
    assert!(told.contains("`--seed` would change the run"), "{told}");
    let nowhere = folder.path().join("nowhere");
    assert!(
        refused(&["train", "--out", path(&nowhere)])
            .contains("no data named, and no run to resume")
    );
}

#[test]
fn a_run_from_another_is_named_in_its_config_and_an_unfinished_parent_is_refused() {
    let folder = TempDir::new().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    said(&train("train.steps=10", path(&old), &[]));
    let from = ["train", "--from", path(&old), "--extraction", "awr", "--out", path(&new)];
    let config = old.join("config.toml");
    let whole = std::fs::read_to_string(&config).unwrap();
    // As a run that was stopped: more updates ahead of it, and no model.
    std::fs::write(&config, whole.replace("steps = 10", "steps = 30")).unwrap();
    std::fs::remove_file(old.join("model.safetensors")).unwrap();
    let told = refused(&from);
    assert!(told.contains("the run is at step 10 of 30"), "{told}");
    assert!(told.contains(&format!("`isochrone train --out {}`", old.display())), "{told}");
    assert!(!new.join("config.toml").exists());
    said(&["train", "--out", path(&old), "--threads", "1"]);
    said(&from);
    let written = std::fs::read_to_string(new.join("config.toml")).unwrap();
    assert!(written.contains(&format!("from = \"{}\"", old.display())), "{written}");
    let again = folder.path().join("again");
    said(&["train", path(&new.join("config.toml")), "--out", path(&again)]);
    let model = |run: &Path| std::fs::read(run.join("model.safetensors")).unwrap();
    assert!(model(&new) == model(&again), "the config of a run gives the same run");
}

#[test]
fn a_stopped_run_is_asked_at_its_newest_checkpoint() {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    said(&train("train.steps=10", path(&run), &[]));
    let config = std::fs::read_to_string(run.join("config.toml")).unwrap();
    std::fs::write(run.join("config.toml"), config.replace("steps = 10", "steps = 30")).unwrap();
    std::fs::remove_file(run.join("model.safetensors")).unwrap();
    let ends = ["--start", "0.2,0.1", "--goal", "0.9,0.5"];
    for words in [
        &[&["plan", path(&run), "--no-pictures"], &ends[..]].concat()[..],
        &["evaluate", path(&run), "--no-pictures"],
        &["audit", path(&run), "--triples", "1000"],
    ] {
        let (_, told) = said(words);
        let expected = "the run is not complete: answers are those of step 10 of 30";
        assert!(told.contains(expected), "{words:?}: {told}");
    }
    let (out, _) = said(&["evaluate", path(&run), "--no-pictures"]);
    assert!(out.contains(" 10 updates"), "{out}");
}

#[test]
fn without_a_terminal_progress_is_told_line_by_line() {
    let folder = TempDir::new().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let (_, told) = said(&train("train.steps=10", path(&one), &["--report-every", "0"]));
    let lines: Vec<&str> = told.lines().filter(|line| line.starts_with("one  step ")).collect();
    assert_eq!(lines.len(), 2, "{told}");
    for (line, step) in lines.iter().zip(["5/10", "10/10"]) {
        assert!(line.contains(step) && line.contains("/loss "), "{line}");
        assert!(!line.contains("NaN"), "{line}");
        assert!(line.contains(" updates/s  ") && line.ends_with(" left"), "{line}");
    }
    let (_, told) = said(&train("train.steps=10", path(&other), &["--report-every", "1e6"]));
    assert_eq!(told, "");
}

#[test]
fn a_setting_of_the_learner_finds_its_preset_like_the_flag() {
    let folder = TempDir::new().unwrap();
    let config = |name: &str, more: &[&str]| {
        let run = folder.path().join(name);
        said(&train("train.steps=2", path(&run), more));
        std::fs::read_to_string(run.join("config.toml")).unwrap()
    };
    let by_flag = config("flag", &["--algorithm", "qrl"]);
    assert_eq!(config("set", &["--set", "algorithm.name=\"qrl\""]), by_flag);
    assert_ne!(config("usual", &[]), by_flag);
}

#[test]
fn a_config_has_every_key_with_its_meaning() {
    let (text, _) = said(&["config"]);
    let usual = isochrone::algorithms::Config::DEFAULT;
    let learner = format!("`c-learning`.\nname = \"{usual}\"\n");
    for line in [
        &*learner,
        "# γ: how far ahead the distance looks; left out, the world's own, or 0.99 for files.\n\
         # discount = (not set)\n",
        "# Updates of the whole run.\nsteps = 20000\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn the_config_of_a_world_is_the_one_that_train_begins_from() {
    let folder = TempDir::new().unwrap();
    let mut words = vec!["config", "pinwheel", "--algorithm", "cmd2", "--set", "train.steps=2"];
    words.extend(SMALL.iter().flat_map(|setting| ["--set", setting]));
    let file = folder.path().join("my.toml");
    std::fs::write(&file, said(&words).0).unwrap();
    let used = |source: &str, more: &[&str]| {
        let out = folder.path().join(source.rsplit('/').next().unwrap()).with_extension("run");
        said(
            &[&["train", source, "--out", out.to_str().unwrap(), "--threads", "1"], more].concat(),
        );
        std::fs::read_to_string(out.join("config.toml")).unwrap()
    };
    let tuned = used("pinwheel", &words[2..]);
    assert_eq!(used(file.to_str().unwrap(), &[]), tuned);
    // Another extraction has settings of its own there; without a world there are the defaults.
    let text = |words: &[&str]| said(words).0;
    let awr = text(&["config", "pinwheel", "--algorithm", "crl", "--extraction", "awr"]);
    let usual = text(&["config", "pinwheel", "--algorithm", "crl"]);
    assert!(awr.contains("name = \"awr\"") && !usual.contains("name = \"awr\""));
    let default = text(&["config", "--algorithm", "crl"]);
    assert_ne!(default, usual);
    // Forms of learners have names without a world, and over a file, too.
    let nce = text(&["config", "--algorithm", "crl-nce"]);
    assert!(nce.contains("contrast = \"nce\"") && !default.contains("contrast = \"nce\""));
    let paper = text(&["config", "--algorithm", "cmd1-paper"]);
    assert_eq!(paper, text(&["config", "--algorithm", "cmd1"]));
    let over = text(&["config", file.to_str().unwrap(), "--algorithm", "crl-nce"]);
    assert!(over.contains("contrast = \"nce\""), "{over}");
    let told = refused(&["config", "pinwheel", "--algorithm", "gcbc", "--extraction", "awr"]);
    assert!(told.contains("in its own way"), "{told}");
}

#[test]
fn a_seed_that_is_no_whole_number_is_answered_with_what_was_expected() {
    for wrong in ["-1", "1.5", "many"] {
        let told = refused(&["train", "pinwheel", "--seed", wrong]);
        assert!(told.contains(&format!("'{wrong}' for '--seed <SEED>'")), "{told}");
        assert!(told.contains("expected a whole number from 0"), "{told}");
    }
}

#[test]
fn the_help_of_train_names_files_that_exist() {
    let (help, _) = said(&["train", "--help"]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = help.split_whitespace().filter(|word| word.ends_with(".toml"));
    for file in files {
        // What is below `runs` the examples themselves have made.
        assert!(file.starts_with("runs/") || root.join(file).exists(), "`{file}` does not exist");
    }
}

#[test]
fn a_kept_graph_gives_the_same_plan_and_that_of_another_model_is_not_used() {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    let graph = run.join("plan.graph");
    let plan = || {
        let ends = ["--start", "0.2,0.1", "--goal", "0.9,0.5", "--no-pictures", "--json"];
        said(&[&["plan", path(&run)], &ends[..]].concat()).0
    };
    said(&train("train.steps=20", path(&run), &[]));
    let first = plan();
    let kept = std::fs::read(&graph).unwrap();
    assert_eq!(plan(), first);
    said(&["train", "--out", path(&run), "--more", "60"]);
    let later = plan();
    assert_ne!(later, first);
    assert_ne!(std::fs::read(&graph).unwrap(), kept);
    std::fs::remove_file(&graph).unwrap();
    assert_eq!(plan(), later);
    // What stands there is replaced only if it can be: the answer does not depend on it.
    std::fs::remove_file(&graph).unwrap();
    std::fs::create_dir(&graph).unwrap();
    assert_eq!(plan(), later);
}

#[test]
fn what_would_train_on_other_data_or_mix_runs_is_refused() {
    let folder = TempDir::new().unwrap();
    let place = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let config = place("mine.toml");
    std::fs::write(&config, "[train]\nsteps = 5\n").unwrap();
    let told = refused(&["train", &config]);
    assert!(told.contains("no `data.source`") && told.contains("mine.toml"), "{told}");
    let named = ["train", &config, "--set", "data.source=pinwheel", "--out", &config];
    assert!(refused(&named).contains("the folder of the run is a file"));
    // One run and several seeds do not share a folder.
    let (one, many) = (place("one"), place("many"));
    said(&train("train.steps=5", &one, &[]));
    said(&train("train.steps=5", &many, &["--seeds", "1"]));
    let told = refused(&train("train.steps=5", &one, &["--seeds", "1"]));
    assert!(told.contains("holds a run, not seeds of one"), "{told}");
    let told = refused(&train("train.steps=5", &many, &[]));
    assert!(told.contains("holds several seeds"), "{told}");
    let told = refused(&["train", "--from", &one, "--extraction", "awr", "--algorithm", "qrl"]);
    assert!(told.contains("keeps a distance of `cmd1`, not of `qrl`"), "{told}");
    // Data that are no longer where a run found them.
    let (logs, run) = (place("logs.npz"), place("of-logs"));
    said(&["data", "generate", "pinwheel", "--episodes", "20", "-o", &logs]);
    let small = ["--algorithm", "qrl", "--set", "train.steps=2", "--set", "train.batch_size=8"];
    said(&[&["train", &logs, "--out", &run], &small[..]].concat());
    std::fs::remove_file(&logs).unwrap();
    for words in [&["evaluate", &run][..], &["train", "--out", &run, "--more", "2"]] {
        let told = refused(words);
        assert!(told.contains("the data of the run are not there"), "{told}");
        assert!(told.contains("of-logs") && told.contains("restore the file"), "{told}");
    }
}

#[test]
fn what_is_said_twice_or_cannot_be_trained_is_refused_before_the_work() {
    let folder = TempDir::new().unwrap();
    let out = path(folder.path());
    for (flag, value, setting) in [
        ("--algorithm", "cmd1", "algorithm.name=cmd2"),
        ("--extraction", "awr", "algorithm.extraction.name=ddpg-bc"),
        ("--seed", "3", "seed=5"),
    ] {
        let told = refused(&["train", "pinwheel", flag, value, "--set", setting, "--out", out]);
        assert!(told.contains("are both given") && told.contains(flag), "{told}");
    }
    for (learner, setting, key) in [
        ("tmd", "algorithm.invariance_weight=-1", "invariance_weight"),
        ("tmd", "algorithm.backup_weight=nan", "backup_weight"),
        ("mqe", "algorithm.invariance_weight=-1", "invariance_weight"),
        ("qrl", "algorithm.first_multiplier=0.001", "first_multiplier"),
    ] {
        let floored = ["--set", "algorithm.multiplier=floored"];
        let words = ["train", "pinwheel", "--algorithm", learner, "--set", setting, "--out", out];
        let told = refused(&[&words[..], if learner == "qrl" { &floored } else { &[] }].concat());
        assert!(told.contains(&format!("`algorithm.{key}` is ")), "{told}");
    }
    let run = folder.path().join("atlas");
    said(&train("train.steps=2", path(&run), &["--algorithm", "atlas"]));
    let told = refused(&["train", "--from", path(&run), "--extraction", "ddpg-bc"]);
    assert!(told.contains("the dynamics that `ddpg-bc` needs"), "{told}");
}

#[test]
fn more_updates_of_a_stopped_run_are_said_to_come_later() {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    said(&train("train.steps=5", path(&run), &[]));
    std::fs::remove_file(run.join("model.safetensors")).unwrap();
    let (_, told) = said(&["train", "--out", path(&run), "--more", "3", "--threads", "1"]);
    assert!(told.contains("completing it first; give `--more 3` again afterwards"), "{told}");
    let (listed, _) = said(&["runs", path(folder.path())]);
    assert!(listed.contains("complete  step 5/5"), "{listed}");
}

#[test]
fn an_answer_is_not_lost_with_its_pictures() {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    said(&train("train.steps=5", path(&run), &[]));
    // Nothing can be written there.
    std::fs::create_dir_all(run.join("plan.svg/taken")).unwrap();
    let plan = ["plan", path(&run), "--start", "0.2,0.1", "--goal", "0.31,0.69"];
    let (answer, told) = said(&plan);
    assert!(answer.contains("\ngoal      (0.31, 0.69)"), "{answer}");
    assert!(
        told.contains("warning: pictures could not be written (`--no-pictures` skips them)"),
        "{told}"
    );
}

#[test]
fn a_plan_goes_by_the_places_of_the_teacher() {
    use isochrone::plan::Distance;
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    let placed = ["--algorithm", "atlas", "--set", "algorithm.teacher.place=[1,0]"];
    said(&train("train.steps=4", path(&run), &placed));
    let places = || isochrone::run::OpenRun::new(&run).unwrap().model.places();
    assert_eq!(places(), [1, 0]);
    // A checkpoint knows as much.
    std::fs::remove_file(run.join("model.safetensors")).unwrap();
    assert_eq!(places(), [1, 0]);
}

#[test]
fn steps_are_judged_by_the_fewest_along_recorded_moves() {
    let folder = TempDir::new().unwrap();
    let out = |name: &str| path(&folder.path().join(name)).to_owned();
    for name in ["atlas", "cmd1"] {
        let (text, _) = said(&train("train.steps=5", &out(name), &["--algorithm", name]));
        assert!(
            text.contains(
                "\ncheck     against the fewest steps along recorded moves, joined across "
            ),
            "{text}"
        );
        let (text, _) = said(&["evaluate", &out(name), "--no-pictures"]);
        assert!(text.contains("\ncheck     do not read the learned numbers as steps: "), "{text}");
        let (json, _) = said(&["evaluate", &out(name), "--no-pictures", "--json"]);
        let found: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(text.contains(found["doubt"].as_str().unwrap()), "{text}");
    }
}

#[test]
fn commands_that_ask_a_run_repeat_what_its_check_said() {
    const NOT_STEPS: &str = "do not read the learned numbers as steps: ";
    const UNCHECKED: &str = "can be read as steps, `isochrone evaluate` says";
    let folder = TempDir::new().unwrap();
    let at = |name: &str| path(&folder.path().join(name)).to_owned();
    let (run, pairs, table, onnx) = (at("run"), at("pairs.csv"), at("table.csv"), at("run.onnx"));
    said(&train("train.steps=5", &run, &["--algorithm", "cmd1"]));
    std::fs::write(&pairs, "from_0,from_1,to_0,to_1\n0.2,0.1,0.3,0.7\n").unwrap();
    let query = |run: &str, more: &[&str]| {
        said(&[&["query", run, &pairs, "-o", &table, "--force"], more].concat()).0
    };
    let caution = format!("\ncaution   {NOT_STEPS}");
    assert!(query(&run, &[]).contains(&caution));
    assert!(query(&at("run/model.safetensors"), &[]).contains(&caution));
    assert!(!query(&run, &["--answers", "actions"]).contains(NOT_STEPS));
    let (json, _) = said(&["query", &run, &pairs, "-o", &table, "--force", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(found["judged"]["doubt"].as_str().unwrap().starts_with(NOT_STEPS), "{json}");
    let ends = ["--start", "0.2,0.1", "--goal", "0.3,0.7"];
    assert!(said(&[&["plan", &run, "--no-pictures"], &ends[..]].concat()).0.contains(&caution));
    assert!(said(&["export", &run, "-o", &onnx]).0.contains(&caution));
    let (reply, warned) = said(&["act", &run, "--observation", "0.2,0.1", "--goal", "0.3,0.7"]);
    assert!(reply.starts_with('{') && warned.contains(NOT_STEPS), "{reply} {warned}");
    // Of a check that found nothing, of another model, or damaged.
    let file = folder.path().join("run/judged.toml");
    let kept = std::fs::read_to_string(&file).unwrap();
    let (distance, _) = kept.split_once('\n').unwrap();
    let other = kept.replacen("distance = \"", "distance = \"0", 1);
    for (text, unchecked) in [(distance, false), (&other, true), ("distance = 1", true)] {
        std::fs::write(&file, text).unwrap();
        let told = query(&run, &[]);
        assert_eq!(told.contains(UNCHECKED), unchecked, "{text}: {told}");
        assert!(!told.contains(NOT_STEPS), "{text}: {told}");
    }
    // A check at the end of training keeps what `evaluate` found, which may rest on more.
    std::fs::write(&file, distance).unwrap();
    said(&["train", "--out", &run]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), distance);
    said(&["evaluate", &run, "--no-pictures"]);
    assert!(query(&run, &[]).contains(&caution));
    // Whoever may only read the run can evaluate it all the same.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    let (told, warned) = said(&["evaluate", &run, "--no-pictures"]);
    assert!(told.contains(NOT_STEPS) && warned.contains("is not kept"), "{told} {warned}");
    assert!(query(&run, &[]).contains(UNCHECKED));
}

#[test]
fn a_run_that_lost_a_row_of_its_tables_is_refused() {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    said(&train("train.steps=20", path(&run), &["--set", "train.evaluate_every=5"]));
    for (name, lost) in [("metrics.csv", 10), ("evaluation.csv", 15), ("evaluation.csv", 20)] {
        let table = run.join(name);
        let whole = std::fs::read_to_string(&table).unwrap();
        let kept = |line: &&str| !line.starts_with(&format!("{lost},"));
        let cut: Vec<&str> = whole.lines().filter(kept).collect();
        std::fs::write(&table, cut.join("\n") + "\n").unwrap();
        let told = refused(&["train", "--out", path(&run)]);
        assert!(told.contains(&format!("the row of step {lost} is missing")), "{told}");
        assert!(told.contains(name) && told.contains("restore the file"), "{told}");
        std::fs::write(&table, whole).unwrap();
        said(&["train", "--out", path(&run)]);
    }
}
