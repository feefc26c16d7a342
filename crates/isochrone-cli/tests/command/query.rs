//! Questions to a trained run from files and line by line.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use isochrone::Model;
use isochrone::data::arrays::Arrays;
use isochrone::data::{Dataset, Field, TableWriter, Values, npz};
use serde_json::Value;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// A run of a few updates that all tests ask.
static RUN: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = at("run");
    let words = ["train", "pinwheel", "--algorithm", "cmd1", "--set", "train.steps=20"];
    said(&[&words[..], &["--set", "data.episodes=40", "--out", folder.to_str().unwrap()]].concat());
    folder
});

fn at(name: &str) -> PathBuf {
    FOLDER.path().join(name)
}

fn isochrone(words: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_isochrone"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses its arguments does not read.
    child.stdin.take().unwrap().write_all(input.as_bytes()).ok();
    child.wait_with_output().unwrap()
}

fn said(words: &[&str]) -> String {
    let output = isochrone(words, "");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// What a command that refuses its input complains about: one line, exit code 2.
fn refused(words: &[&str]) -> String {
    let output = isochrone(words, "");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text
}

fn words<'a>(start: &[&'a str], paths: &'a [&'a Path]) -> Vec<&'a str> {
    let mut words = start.to_vec();
    words.extend(paths.iter().map(|path| path.to_str().unwrap()));
    words
}

/// States within the unit square.
fn states(count: usize, seed: u32) -> Vec<f32> {
    let fraction = |at: u32| (at.wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32;
    (0..2 * count as u32).map(|at| fraction(at + 7919 * seed)).collect()
}

fn write_pairs(path: &Path, from: &[f32], to: &[f32], size: usize) {
    let fields = vec![Field::rows("from", "from", &[size]), Field::rows("to", "to", &[size])];
    let mut writer = TableWriter::create(path, fields).unwrap();
    writer.rows(from.len() / size, &[Values::Numbers(from), Values::Numbers(to)]).unwrap();
    writer.finish().unwrap();
}

fn array(path: &Path, key: &str) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap();
    let array = Arrays::open(&bytes).unwrap().get(key).unwrap();
    (array.shape, array.values.iter().map(|&x| x as f32).collect())
}

/// The columns of a csv file by name.
fn column(path: &Path, name: &str) -> Vec<f32> {
    let text = std::fs::read_to_string(path).unwrap();
    let place = text.lines().next().unwrap().split(',').position(|found| found == name).unwrap();
    let number = |line: &str| line.split(',').nth(place).unwrap().parse().unwrap();
    text.lines().skip(1).map(number).collect()
}

#[test]
fn pairs_of_both_formats_get_the_answers_of_the_library() {
    // More pairs than a portion has.
    let count = 70_000;
    let (from, to) = (states(count, 1), states(count, 2));
    let model = Model::load(RUN.join("model.safetensors")).unwrap();
    let steps = model.steps(&from, &to).unwrap();
    let actions = model.act(&from, &to).unwrap();
    let far = model.novelty(&to).unwrap();
    for ending in ["npz", "csv"] {
        let (pairs, out) = (at(&format!("pairs.{ending}")), at(&format!("answers.{ending}")));
        write_pairs(&pairs, &from, &to, 2);
        let told = said(&words(&["query", "--json"], &[&RUN, &pairs, Path::new("-o"), &out]));
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told["pairs"], count);
        let expected = model.novelty(&from).unwrap();
        let many = expected.iter().zip(&far).filter(|(a, b)| a.max(**b) > 1.0).count();
        assert_eq!(told["far"], many);
        if ending == "npz" {
            assert_eq!(array(&out, "steps"), (vec![count], steps.clone()));
            assert_eq!(array(&out, "actions"), (vec![count, 2], actions.clone()));
            assert_eq!(array(&out, "to_spacings"), (vec![count], far.clone()));
        } else {
            assert_eq!(column(&out, "steps"), steps);
            assert_eq!(column(&out, "to_spacings"), far);
            let second: Vec<f32> = actions.iter().skip(1).step_by(2).copied().collect();
            assert_eq!(column(&out, "action_1"), second);
        }
    }
}

#[test]
fn every_start_is_asked_with_every_goal() {
    let (starts, goals) = (states(5, 3), states(3, 4));
    let [from, to] = [("starts.npz", &starts), ("goals.npz", &goals)].map(|(name, states)| {
        let rows = states.len() / 2;
        let path = at(name);
        npz::write(&path, &Dataset::new(states.clone(), 2, None, &[rows]).unwrap()).unwrap();
        path
    });
    let model = Model::load(RUN.join("model.safetensors")).unwrap();
    let each: Vec<f32> = starts.chunks(2).flat_map(|start| start.repeat(3)).collect();
    let steps = model.pairwise_steps(&starts, &goals).unwrap();
    let ask = |out: &Path, more: &[&str]| {
        let (run, flags) = (RUN.to_str().unwrap(), ["--from", "--to", "-o"]);
        let mut words = vec!["query", run];
        let paths = [&from, &to, out].map(|path| path.to_str().unwrap());
        flags.iter().zip(paths).for_each(|(flag, path)| words.extend([*flag, path]));
        said(&[&words[..], more].concat())
    };
    let out = at("table.npz");
    ask(&out, &["--pairwise"]);
    assert_eq!(array(&out, "steps"), (vec![5, 3], steps.clone()));
    assert_eq!(array(&out, "from_spacings").1, model.novelty(&starts).unwrap());
    assert_eq!(array(&out, "to_spacings").1, model.novelty(&goals).unwrap());
    let out = at("table.csv");
    ask(&out, &["--pairwise", "--answers", "steps,actions"]);
    assert_eq!(column(&out, "steps"), steps);
    assert_eq!(column(&out, "from_row")[12..], [4.0, 4.0, 4.0]);
    assert_eq!(column(&out, "to_row")[..4], [0.0, 1.0, 2.0, 0.0]);
    let actions = model.act(&each, &goals.repeat(5)).unwrap();
    let first: Vec<f32> = actions.iter().step_by(2).copied().collect();
    assert_eq!(column(&out, "action_0"), first);
}

#[test]
fn nothing_is_overwritten_unasked() {
    let (pairs, out) = (at("few.csv"), at("kept.csv"));
    write_pairs(&pairs, &states(3, 1), &states(3, 2), 2);
    std::fs::write(&out, "mine").unwrap();
    let paths: [&Path; 4] = [RUN.as_path(), &pairs, Path::new("-o"), &out];
    let ask = words(&["query"], &paths);
    let told = refused(&ask);
    assert!(told.contains("exists already") && told.contains("--force"), "{told}");
    assert_eq!(std::fs::read(&out).unwrap(), b"mine");
    said(&[&ask[..], &["--force"]].concat());
    assert_eq!(column(&out, "steps").len(), 3);
}

#[test]
fn what_is_wrong_with_a_file_of_pairs_is_named() {
    let ask = |name: &str, text: &str| {
        let (pairs, out) = (at(name), at("never.npz"));
        std::fs::write(&pairs, text).unwrap();
        let told = refused(&words(&["query"], &[&RUN, &pairs, Path::new("-o"), &out]));
        assert!(!out.exists());
        assert!(told.contains(name), "{told}");
        told
    };
    let told = ask("wide.csv", "from_0,from_1,from_2,to_0,to_1\n1,2,3,4,5\n");
    assert!(told.contains("rows of `from` have 3 values, states of the model have 2"), "{told}");
    let told = ask("nan.csv", "from_0,from_1,to_0,to_1\n0,0,0,0\n0,0,0,nan\n");
    assert!(told.contains("`to` row 1 column 1 is `NaN`"), "{told}");
    let told = ask("key.csv", "from_0,from_1,goal_0,goal_1\n0,0,0,0\n");
    assert!(told.contains("no key `to`"), "{told}");
    let told = ask("empty.csv", "from_0,from_1,to_0,to_1\n");
    assert!(told.contains("`from` has no rows"), "{told}");
    let (pairs, run) = (at("ending.csv"), RUN.to_str().unwrap());
    std::fs::write(&pairs, "from_0,from_1,to_0,to_1\n0,0,0,0\n").unwrap();
    let told = refused(&["query", run, pairs.to_str().unwrap(), "-o", "out.txt"]);
    assert!(told.contains("`.npz`"), "{told}");
}

#[test]
fn one_question_is_answered_as_json() {
    let run = RUN.to_str().unwrap();
    let model = Model::load(RUN.join("model.safetensors")).unwrap();
    let question = "{\"observation\": [0.2, 0.1],\n \"goal\": [0.3, 0.7], \"id\": \"a\"}";
    let output = isochrone(&["act", run], question);
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    let action: Vec<f32> = serde_json::from_value(reply["action"].clone()).unwrap();
    assert_eq!(action, model.act(&[0.2, 0.1], &[0.3, 0.7]).unwrap());
    let steps: f32 = serde_json::from_value(reply["steps"].clone()).unwrap();
    assert_eq!(steps, model.steps(&[0.2, 0.1], &[0.3, 0.7]).unwrap()[0]);
    assert_eq!(reply["id"], "a");
    let told = said(&["act", run, "--observation", "0.2,0.1", "--goal", "0.3,0.7"]);
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap()["action"], reply["action"]);
    let told = refused(&["act", run, "--observation", "0.2", "--goal", "0.3,0.7"]);
    assert!(
        told.contains("`observation` has 1 value, expected 2 as in the model's states"),
        "{told}"
    );
}

#[test]
fn what_is_read_is_never_replaced_and_a_header_of_savetxt_is_read() {
    let pairs = at("savetxt.csv");
    std::fs::write(&pairs, "# from_0,from_1,to_0,to_1\n0.2,0.1,0.3,0.7\n").unwrap();
    let (run, file) = (RUN.to_str().unwrap(), pairs.to_str().unwrap());
    let told = refused(&["query", run, file, "-o", file, "--force"]);
    assert!(told.contains("the output would replace a file that is read"), "{told}");
    let out = at("savetxt.npz");
    said(&["query", run, file, "-o", out.to_str().unwrap()]);
    assert!(std::fs::read_to_string(&pairs).unwrap().starts_with("# from_0"));
}

#[test]
fn a_loop_answers_line_by_line_and_survives_mistakes() {
    let good = "{\"observation\": [0.2, 0.1], \"goal\": [0.3, 0.7], \"id\": 1}";
    let input = format!(
        "{good}\nnonsense\n\n{{\"observation\": [0.2], \"goal\": [0.3, 0.7], \"id\": [2]}}\n\
         {{\"observation\": [0.2, 1e39], \"goal\": [0.3, 0.7]}}\n\
         {{\"obs\": [0.2, 0.1], \"goal\": [0.3, 0.7]}}\n{good}\n\
         {{\"observation\": [0.2, 1e30], \"goal\": [0.3, 0.7]}}"
    );
    let output = isochrone(&["act", RUN.to_str().unwrap(), "--serve", "stdin"], &input);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    assert_eq!((&lines[0], &lines[0]["id"]), (&lines[5], &Value::from(1)));
    for (line, what) in [
        (1, "not a question"),
        (2, "has 1 value, expected 2"),
        (3, "finite"),
        (4, "unknown field `obs`"),
        (6, "expected at most 1e18 in size"),
    ] {
        let error = lines[line]["error"].as_str().unwrap();
        assert!(error.contains(what), "{error}");
    }
    assert_eq!(lines[2]["id"], serde_json::json!([2]));
    assert!(lines[1].get("id").is_none());
}

#[test]
fn a_loop_ends_once_nobody_reads_its_answers() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_isochrone"))
        .args(["act", RUN.to_str().unwrap(), "--serve", "stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut ask = || input.write_all(b"{\"observation\": [0.2, 0.1], \"goal\": [0.3, 0.7]}\n");
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    ask().unwrap();
    let mut answer = String::new();
    answers.read_line(&mut answer).unwrap();
    assert!(answer.starts_with('{'), "{answer}");
    drop(answers);
    // What is still asked fills its input, and it ends all the same.
    let refused = (0..1_000_000).any(|_| ask().is_err());
    assert!(refused, "it reads on though its reader has gone");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_model_is_exported_once_and_only_as_onnx() {
    let (run, out) = (RUN.to_str().unwrap(), at("model.onnx"));
    let out = out.to_str().unwrap();
    let told = said(&["export", run, "-o", out]);
    assert!(
        told.contains("observation, goal: batch × 2") && told.contains("steps: batch"),
        "{told}"
    );
    let model = Model::load(RUN.join("model.safetensors")).unwrap();
    assert_eq!(std::fs::read(out).unwrap(), isochrone::onnx::export(&model).unwrap());
    assert!(refused(&["export", run, "-o", out]).contains("--force"));
    said(&["export", run, "-o", out, "--force"]);
    assert!(refused(&["export", run, "-o", "model.pb"]).contains("`.onnx`"));
}
