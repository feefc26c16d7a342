//! `--max-memory`: whatever a command would hold beyond it is refused with exit code 5, or stays on disk.

use crate::bench::{Bench, assert_names, said};

/// The error with which a command is refused, after what it notes about its data.
#[track_caller]
fn refused(bench: &Bench, words: &[&str]) -> String {
    let output = bench.command(words).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{words:?}: {}", said(&output));
    said(&output).lines().last().filter(|line| line.starts_with("error: ")).unwrap().to_owned()
}

#[test]
fn commands_that_would_take_more_than_max_memory_are_refused() {
    let bench = Bench::new();
    bench.square("a.npz");
    bench.trained(&["a.npz", "--out", "run"]);
    let cases: [(&str, &[&str]); 12] = [
        ("1MB", &["train", "a.npz", "--out", "other", "--set", "train.batch_size=8"]),
        ("1MB", &["train", "pinwheel", "--out", "other"]),
        ("1MB", &["compare", "--world", "pinwheel", "--algorithm", "cmd1", "--out", "other"]),
        ("1MB", &["evaluate", "run", "--no-pictures"]),
        ("1MB", &["plan", "run", "--start", "0,0", "--goal", "1,1"]),
        ("1MB", &["query", "run", "pairs.csv", "-o", "out.csv"]),
        ("1MB", &["act", "run", "--observation", "0,0", "--goal", "1,1"]),
        ("1MB", &["score", "a.npz", "--model", "run", "-o", "out.csv"]),
        ("1MB", &["audit", "run"]),
        ("1MB", &["export", "run", "-o", "out.onnx"]),
        ("1MB", &["data", "generate", "pinwheel", "-o", "out.npz", "--episodes", "10"]),
        ("1GiB", &["data", "generate", "pinwheel", "-o", "out.npz", "--episodes", "9000000"]),
    ];
    std::fs::write(bench.path("pairs.csv"), "from_0,from_1,to_0,to_1\n0,0,1,1\n").unwrap();
    for (most, words) in cases {
        let words = [words, &["--max-memory", most]].concat();
        let line = refused(&bench, &words);
        assert!(line.contains("memory"), "{words:?}: {line}");
    }
    for name in ["other/config.toml", "out.csv", "out.onnx", "out.npz"] {
        assert!(!bench.path(name).exists(), "{name}");
    }
}

#[test]
fn data_beyond_max_memory_are_converted_and_inspected_a_portion_at_a_time() {
    let bench = Bench::new();
    bench.square("a.npz");
    for words in [&["data", "inspect", "a.npz"][..], &["data", "convert", "a.npz", "b.npz"]] {
        let words = [words, &["--max-memory", "1MB"]].concat();
        let output = bench.command(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", said(&output));
    }
}

#[test]
fn a_graph_of_too_many_nodes_is_refused_and_a_limit_that_suffices_changes_nothing() {
    let bench = Bench::new();
    let settings = ["--set", "data.episodes=800", "--set", "train.batch_size=8"];
    let small = ["--set", "algorithm.network.hidden=[8]", "--algorithm", "cmd1"];
    let train = ["train", "pinwheel", "--set", "train.steps=2", "--max-memory", "1GiB"];
    for out in ["run", "again"] {
        let limit = if out == "run" { &train[..] } else { &train[..4] };
        let words = [limit, &settings, &small, &["--out", out]].concat();
        let output = bench.command(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    }
    let model = |run: &str| std::fs::read(bench.path(&format!("{run}/model.safetensors"))).unwrap();
    assert!(model("run") == model("again"));
    let plan = ["plan", "run", "--start", "0.1,0.1", "--goal", "0.9,0.9", "--max-memory", "1GiB"];
    let words = [&plan[..], &["--nodes", "30000"]].concat();
    let line = refused(&bench, &words);
    assert_names(&line, &["30000 nodes take 3.60 GB", "`--max-memory` leaves", "`--nodes`"]);
    let words = ["train", "a.npz", "--max-memory", "lots"];
    let output = bench.command(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("write it as `4 GiB`"), "{}", said(&output));
}
