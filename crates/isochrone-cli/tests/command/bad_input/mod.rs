//! Whatever is wrong with a command, a file or a folder: one line that says what is wrong and what to
//! do about it, the right exit code, and nothing that was there is lost.
#![cfg(unix)]

mod atlas;
mod bench;
mod counts;
mod memory;
mod models;
mod rows;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use isochrone::checkpoint::{Lock, load};
use isochrone::run::open_model;

use self::bench::{Bench, assert_names, one_line, said};
use self::rows::Rows;

fn checkpoint(run: &Path, step: u64) -> PathBuf {
    run.join(format!("checkpoints/step-{step:012}.safetensors"))
}

#[test]
fn mistakes_in_a_config_name_the_key_and_what_to_do() {
    let bench = Bench::new();
    bench.square("a.npz");
    std::fs::write(bench.path("key.toml"), "discout = 0.9").unwrap();
    assert_names(&bench.refused(2, &["key.toml"]), &["`discout`", "`discount`?", "key.toml"]);
    std::fs::write(bench.path("text.toml"), "train = [\nmore = 1").unwrap();
    assert_names(&bench.refused(2, &["text.toml"]), &["not TOML", "text.toml"]);
    let cases: [(&str, &[&str]); 27] = [
        ("train.stepz=5", &["`stepz` of `train`", "`steps`?"]),
        (
            "algorithm.optimizer.learning_rat=1",
            &["`learning_rat` of `algorithm.optimizer`", "`learning_rate`?"],
        ),
        (
            "algorithm.policy.network.hidden=[4,'a']",
            &["`algorithm.policy.network.hidden`", "\"a\""],
        ),
        ("train.steps=many", &["`train.steps`", "many", "a whole number"]),
        ("train.steps=-5", &["`train.steps`", "-5", "a whole number"]),
        ("train.steps=0", &["`train.steps` is `0`"]),
        ("train=5", &["`train`", "a section"]),
        ("algorithm=5", &["`algorithm`", "a section"]),
        ("seed=1.5", &["`seed`", "1.5"]),
        ("discount=text", &["`discount`", "a number"]),
        ("discount=0", &["`discount` is `0`", "above 0 and below 1"]),
        ("discount=1.0", &["`discount` is `1`", "above 0 and below 1"]),
        ("discount=1.5", &["`discount` is `1.5`"]),
        ("discount=-0.5", &["`discount` is `-0.5`"]),
        ("discount=nan", &["`discount` is `NaN`"]),
        ("data.validation=1", &["`data.validation`"]),
        ("data.scaling=rang", &["`rang`", "`range`?"]),
        ("algorithm.name=cmd3", &["`cmd3`", "`cmd1`"]),
        ("algorithm.extraction.name=awrr", &["`awrr`", "`awr`?"]),
        ("algorithm.extraction.inverse_temperature=nan", &["`NaN`", "inverse_temperature"]),
        ("algorithm.head.latent=3", &["`algorithm.head.latent` is `3`"]),
        ("algorithm.network.hidden=[0]", &["`algorithm.network.hidden`", "positive"]),
        ("algorithm.policy.network.hidden=[4,0]", &["`algorithm.policy.network.hidden`"]),
        ("algorithm.policy.law={kind='constant',deviation=0.0}", &["`algorithm.policy.law."]),
        ("algorithm.optimizer.learning_rate=-1", &["`algorithm.optimizer.learning_rate` is `-1`"]),
        ("algorithm.optimizer.first_decay=1.0", &["`algorithm.optimizer.first_decay` is `1`"]),
        ("algorithm.temperature=0.0", &["`algorithm.temperature` is `0`"]),
    ];
    for (setting, words) in cases {
        assert_names(&bench.refused(2, &["a.npz", "--set", setting]), words);
    }
    assert_names(&bench.refused(2, &["a.npz", "--set", "train.steps"]), &["has no `=`"]);
    // What was refused left no run behind: the corrected command works in the same place.
    bench.trained(&["a.npz"]);
}

#[test]
fn mistakes_in_a_command_are_explained() {
    let bench = Bench::new();
    bench.square("a.npz");
    let cases: [(&[&str], &[&str]); 12] = [
        (&["none.npz"], &["`none.npz`"]),
        (&["none.toml"], &["cannot read the config", "none.toml"]),
        (&["pinweel"], &["`pinweel`", "`pinwheel`"]),
        (&[], &["no data"]),
        (&["a.npz", "--algorithm", "cmd"], &["`cmd`", "`cmd1`"]),
        (&["a.npz", "--algorithm", "it's"], &["`it's`"]),
        (&["a.npz", "--extraction", "bc"], &["`bc`", "`ddpg-bc`"]),
        (&["a.npz", "--seeds", "0"], &["`--seeds` is `0`"]),
        (&["a.npz", "--threads", "0"], &["`--threads` is `0`"]),
        (&["a.npz", "--threads", "100000"], &["`--threads` is `100000`"]),
        (&["a.npz", "--from", "a.npz"], &["`--from`"]),
        (&["--from", "runs/none"], &["`--extraction`"]),
    ];
    for (arguments, words) in cases {
        assert_names(&bench.refused(2, arguments), words);
    }
    std::fs::create_dir(bench.path("folder")).unwrap();
    for folder in ["folder", "none", "a.npz"] {
        let line = bench.refused(2, &["--from", folder, "--extraction", "awr"]);
        assert_names(&line, &["no run", folder, "isochrone runs"]);
    }
    assert!(!bench.path("runs").exists(), "no folder is made for a command that is refused");
    for usage in [&["train", "--nonsense"][..], &["train", "a", "b"], &["nonsense"], &[]] {
        assert_eq!(bench.command(usage).output().unwrap().status.code(), Some(2), "{usage:?}");
    }
}

#[test]
fn mistakes_in_data_name_the_file_and_the_row() {
    let bench = Bench::new();
    let mut rows = Rows::square(5);
    rows.states[2 * 31 + 1] = f32::NAN;
    bench.rows("nan.npz", &rows);
    let line = bench.refused(2, &["nan.npz"]);
    assert_names(&line, &["`states` row 31 column 1 is `NaN`", "nan.npz"]);
    let mut rows = Rows::square(5);
    rows.actions.as_mut().unwrap()[2 * 7] = 1.5;
    bench.rows("large.npz", &rows);
    let line = bench.refused(2, &["large.npz"]);
    assert_names(&line, &["`actions` row 7 column 0 is `1.5`", "[-1, 1]", "large.npz"]);

    bench.rows("one.npz", &Rows::square(1));
    let one = ["one.npz", "--set", "train.batch_size=4"];
    assert_names(&bench.refused(2, &one), &["1 trajectory", "data.validation = 0"]);
    bench.trained(&[&one[..], &["--set", "data.validation=0"]].concat());

    let mut rows = Rows::square(2);
    rows.lengths = vec![1; 20];
    bench.rows("short.npz", &rows);
    assert_names(&bench.refused(2, &["short.npz"]), &["two rows", "`terminals`", "short.npz"]);

    bench.square("few.npz");
    let line = bench.refused(2, &["few.npz", "--set", "train.batch_size=4096"]);
    assert_names(&line, &["`train.batch_size` is `4096`", "2 to 36"]);
    bench.trained(&["few.npz"]);

    let mut rows = Rows::square(5);
    rows.actions = None;
    bench.rows("states.npz", &rows);
    bench.trained(&["states.npz"]);
    let line = bench.refused(2, &["states.npz", "--out", "new", "--extraction", "ddpg-bc"]);
    assert_names(&line, &["a policy needs actions", "algorithm.extraction.name = \"none\""]);
    let line =
        bench.refused(2, &["states.npz", "--out", "new", "--set", "algorithm.critic=state-action"]);
    assert_names(&line, &["actions", "algorithm.critic = \"state\""]);
    bench.trained(&["states.npz", "--out", "alone", "--extraction", "none"]);

    let state =
        ["few.npz", "--out", "new", "--set", "algorithm.critic=state", "--extraction", "ddpg-bc"];
    assert_names(&bench.refused(2, &state), &["`ddpg-bc`", "`awr`"]);
    std::fs::write(bench.path("text.npz"), "not a zip").unwrap();
    assert_names(&bench.refused(2, &["text.npz"]), &["text.npz"]);
    std::fs::write(bench.path("old.pkl"), "x").unwrap();
    assert_names(&bench.refused(2, &["old.pkl"]), &["pickle", "old.pkl"]);
}

#[test]
fn an_odd_name_is_no_mistake() {
    let bench = Bench::new();
    bench.square("it's \"a\" # file\\.npz");
    bench.trained(&["it's \"a\" # file\\.npz", "--out", "a 'run'"]);
    assert!(bench.path("a 'run'/model.safetensors").exists());
    let line = bench.refused(2, &["two\nlines.npz"]);
    assert_names(&line, &["two lines.npz"]);
}

#[test]
fn a_folder_that_cannot_be_used_is_told_and_stays_as_it_is() {
    let bench = Bench::new();
    bench.square("a.npz");
    bench.square("b.npz");
    std::fs::write(bench.path("file"), "x").unwrap();
    let line = bench.refused(2, &["a.npz", "--out", "file"]);
    assert_names(&line, &["the folder of the run is a file", "`--out`"]);
    for place in ["file/below", "/proc/none", "/dev/null/run"] {
        assert_names(&bench.refused(4, &["a.npz", "--out", place]), &["cannot", place, "`--out`"]);
    }
    bench.trained(&["a.npz", "--out", "run"]);
    let line = bench.refused(2, &["a.npz", "--out", "run", "--seed", "1", "--set", "discount=0.8"]);
    assert_names(&line, &["another config", "`seed`", "`discount`", "`--out`"]);
    let line = bench.refused(2, &["b.npz", "--out", "run"]);
    assert_names(&line, &["another config", "`data.source`"]);
    let lock = Lock::take(&bench.path("run")).unwrap();
    assert_names(
        &bench.refused(7, &["a.npz", "--out", "run"]),
        &["another process", "run", "`--out`"],
    );
    drop(lock);
    bench.rows("a.npz", &Rows::square(6));
    assert_names(&bench.refused(6, &["a.npz", "--out", "run"]), &["not those", "`--out`"]);
    std::fs::write(bench.path("run/config.toml"), "train = 5").unwrap();
    assert_names(&bench.refused(2, &["a.npz", "--out", "run"]), &["`train`", "config.toml"]);
}

#[test]
fn a_run_that_diverges_says_at_which_step_and_keeps_what_was_finite() {
    let bench = Bench::new();
    bench.square("a.npz");
    let huge = ["a.npz", "--out", "run", "--set", "algorithm.optimizer.learning_rate=1e30"];
    let line = bench.refused(3, &huge);
    assert_names(&line, &["became", "at step", "`algorithm.optimizer.learning_rate`"]);
    assert!(!bench.path("run/model.safetensors").exists());
    let text = std::fs::read_to_string(bench.path("run/metrics.csv")).unwrap();
    assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
}

#[test]
fn damaged_and_foreign_checkpoints_are_told_and_an_older_one_is_used() {
    let bench = Bench::new();
    bench.square("a.npz");
    bench.trained(&["a.npz", "--out", "run"]);
    let (run, arguments) = (bench.path("run"), ["a.npz", "--out", "run"]);
    let expected = std::fs::read(checkpoint(&run, 12)).unwrap();
    let mut flipped = expected.clone();
    flipped[expected.len() / 2] ^= 1;
    let foreign = [&2u64.to_le_bytes()[..], b"{}"].concat();
    for damage in [&flipped[..], &foreign, b"", &expected[..expected.len() / 2]] {
        std::fs::write(checkpoint(&run, 12), damage).unwrap();
        let output = bench.train(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert_names(&said(&output), &["step-000000000012", "using the checkpoint before it"]);
        assert_names(&said(&output), &["resuming from step 10"]);
        assert!(std::fs::read(checkpoint(&run, 12)).unwrap() == expected);
    }
    for (damage, words) in [(&flipped[..], "checksum"), (&foreign, "no checkpoint of isochrone")] {
        for step in [10, 12] {
            std::fs::write(checkpoint(&run, step), damage).unwrap();
        }
        let line = bench.refused(2, &arguments);
        assert_names(&line, &["damaged", "remove the folder `checkpoints`"]);
        let line = bench.refused(2, &["--from", "run", "--extraction", "awr", "--out", "new"]);
        assert_names(&line, &[words, "step-000000000010"]);
        let error = load(&checkpoint(&run, 12)).unwrap_err();
        assert_names(&error.to_string(), &[words]);
    }
    for model in [&flipped[..], &foreign, &expected] {
        std::fs::write(bench.path("a.safetensors"), model).unwrap();
        let error = open_model(&bench.path("a.safetensors")).err().unwrap();
        assert_eq!(error.exit_code(), 2);
        assert_names(&error.to_string(), &["a.safetensors", "hint"]);
    }
}

#[test]
fn commands_that_ask_a_run_refuse_what_is_none() {
    let bench = Bench::new();
    bench.square("a.npz");
    bench.trained(&["a.npz", "--out", "run"]);
    bench.trained(&["a.npz", "--out", "broken"]);
    let foreign = [&2u64.to_le_bytes()[..], b"{}"].concat();
    std::fs::write(bench.path("foreign"), &foreign).unwrap();
    std::fs::write(bench.path("broken/model.safetensors"), &foreign).unwrap();
    std::fs::copy(checkpoint(&bench.path("run"), 12), bench.path("checkpoint")).unwrap();
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = bench.command(arguments).output().unwrap();
        assert_names(&one_line(&output, 2, arguments), words);
    };
    for (model, words) in [
        ("none", "neither a model nor a run"),
        ("/dev/null", "neither a model nor a run"),
        ("foreign", "no checkpoint of isochrone"),
        ("checkpoint", "not a model"),
        ("a.npz", "damaged"),
        ("broken", "no checkpoint of isochrone"),
    ] {
        refused(&["audit", model, "--data", "a.npz"], &[words, model]);
    }
    let ends = ["--start", "0,0", "--goal", "1,1"];
    for (run, words) in [("none", "no run"), ("foreign", "no run"), ("broken", "no checkpoint")] {
        refused(&["evaluate", run], &[words, run]);
        refused(&[&["plan", run], &ends[..]].concat(), &[words, run]);
    }
    refused(&["runs", "none"], &["cannot list runs", "none"]);
    refused(&["config", "--algorithm", "cmd"], &["`cmd`", "`cmd1`"]);
    for command in ["config", "train"] {
        refused(&[command, "pinwhel"], &["`pinwhel`", "did you mean `pinwheel`?"]);
        refused(&[command, "nothing.npz"], &["no file called `nothing.npz`", "check the path"]);
        refused(&[command, "nothing"], &["no file and no world", "`roads`", "`antmaze-umaze`"]);
    }
    refused(&["exact", "none.toml"], &["cannot read", "none.toml"]);
}

#[test]
fn a_policy_of_another_network_is_refused_and_the_mended_command_works() {
    let bench = Bench::new();
    bench.square("a.npz");
    bench.trained(&["a.npz", "--out", "run"]);
    let again = ["--from", "run", "--extraction", "awr", "--out", "new"];
    let wide = [&again[..], &["--set", "algorithm.network.hidden=[9]"]].concat();
    assert_names(&bench.refused(2, &wide), &["`distance.values`", "another network"]);
    bench.trained(&again);
    assert!(bench.path("new/model.safetensors").exists());
}

#[test]
fn a_reader_that_has_gone_away_does_not_stop_the_training() {
    let bench = Bench::new();
    bench.square("a.npz");
    for json in [&[][..], &["--json"]] {
        let arguments = [&["a.npz", "--seeds", "2"], json].concat();
        let mut child =
            bench.train(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), said(&output).as_str()), (Some(0), ""));
        for seed in ["seed-0", "seed-1"] {
            let model = bench.path("runs/a-cmd1").join(seed).join("model.safetensors");
            assert!(open_model(&model).is_ok());
        }
        std::fs::remove_dir_all(bench.path("runs")).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_disk_error_after_training() {
    let bench = Bench::new();
    bench.square("a.npz");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = bench.train(&["a.npz"]).stdout(full).output().unwrap();
    assert_names(&one_line(&output, 4, &["/dev/full"]), &["standard output"]);
    assert!(bench.path("runs/a-cmd1/model.safetensors").exists());
}

#[test]
fn a_pipe_is_refused_at_once_wherever_a_file_is_read() {
    let bench = Bench::new();
    let made = std::process::Command::new("mkfifo").arg(bench.path("pipe.toml")).status();
    assert!(made.unwrap().success());
    for words in [
        &["exact", "pipe.toml"][..],
        &["train", "pipe.toml", "--out", "run"],
        &["compare", "pipe.toml", "--out", "run"],
        &["compare", "--world", "pinwheel", "--grid", "pipe.toml", "--out", "run"],
        &["data", "inspect", "pipe.toml"],
    ] {
        let mut command = bench.command(words);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let since = std::time::Instant::now();
        // Nobody writes to the pipe: a command that opens it waits forever.
        while child.try_wait().unwrap().is_none() && since.elapsed().as_secs() < 60 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        child.kill().ok();
        let line = one_line(&child.wait_with_output().unwrap(), 2, words);
        assert_names(&line, &["plain file", "pipe.toml"]);
    }
}
