//! `--max-memory`: whatever a command would hold beyond it is refused with exit code 5, or stays on disk.

#[cfg(target_os = "linux")]
use std::{process::Stdio, time::Duration};

use super::bench::{Bench, assert_names, said};

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
    let plan = ["plan", "run", "--start", "0.1,0.1", "--goal", "0.9,0.9", "--max-memory", "200MB"];
    let words = [&plan[..], &["--nodes", "30000"]].concat();
    let line = refused(&bench, &words);
    assert_names(&line, &["30000 nodes take", "`--max-memory` leaves", "`--nodes`"]);
    let words = ["train", "a.npz", "--max-memory", "lots"];
    let output = bench.command(&words).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("write it as `4 GiB`"), "{}", said(&output));
}

/// The exit code of a command, and the most bytes that it held in memory.
#[cfg(target_os = "linux")]
fn measured(bench: &Bench, words: &[&str]) -> (i32, u64) {
    let mut child =
        bench.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes =
            line.map(|line| line.trim().trim_end_matches(" kB").parse::<u64>().unwrap());
        most = most.max(1024 * kilobytes.unwrap_or(0));
        if let Some(ended) = child.try_wait().unwrap() {
            return (ended.code().unwrap(), most);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_takes_at_most_a_fifth_more_than_the_least_limit_that_admits_it() {
    /// What the allocator and the system's libraries may take beside.
    const BARE: u64 = 8 << 20;
    let bench = Bench::new();
    let train = ["train", "pinwheel", "--algorithm", "cmd1", "--set", "train.steps=1"];
    let train =
        [&train[..], &["--set", "evaluation.tasks=4", "--set", "data.episodes=400"]].concat();
    let small = ["--set", "algorithm.network.hidden=[8]"];
    let run = [&train[..], &small, &["--out", "run"]].concat();
    assert_eq!(measured(&bench, &run).0, 0);
    let wide = ["--set", "algorithm.network.hidden=[1024,1024]", "--out", "out"];
    let batch = ["--set", "train.batch_size=3000", "--out", "out"];
    let plan = ["plan", "run", "--start", "0.1,0.1", "--goal", "0.9,0.9", "--nodes", "5000"];
    let generate =
        ["data", "generate", "pinwheel", "-o", "out.npz", "--episodes", "20000", "--force"];
    for (name, words) in [
        ("networks", &[&train[..], &wide].concat()[..]),
        ("a batch", &[&train[..], &small, &batch].concat()),
        ("a graph", &plan),
        ("a kept graph", &plan),
        ("a recording", &generate),
    ] {
        let anew = |words: &[&str]| {
            std::fs::remove_dir_all(bench.path("out")).ok();
            if name != "a kept graph" {
                std::fs::remove_file(bench.path("run/plan.graph")).ok();
            }
            measured(&bench, words)
        };
        let free = anew(words);
        assert_eq!(free.0, 0, "{name}");
        // Below `least` the command is refused, with `enough` it works and takes `taken`.
        let (mut least, mut enough, mut taken) = (0, 4 * free.1, free.1);
        while enough - least > enough / 10 {
            let limit = least.midpoint(enough);
            let most = format!("{limit}B");
            let limited = [words, &["--max-memory", &most]].concat();
            match anew(&limited) {
                (0, held) => (enough, taken) = (limit, held),
                (5, _) => least = limit,
                (code, _) => panic!("{name} with {limit} bytes: exit code {code}"),
            }
        }
        let share = taken as f64 / enough as f64;
        let [taken_mb, enough_mb] = [taken, enough].map(|bytes| bytes as f64 / 1e6);
        println!("figures: {name}: {taken_mb:.0} MB of {enough_mb:.0} MB, {share:.2} times");
        assert!(taken < enough + enough / 5 + BARE, "{name}: {taken} bytes of {enough}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_kept_graph_of_a_wrong_length_is_replaced_before_it_is_read() {
    let bench = Bench::new();
    bench.square("a.npz");
    bench.trained(&["a.npz", "--out", "run"]);
    let plan = ["plan", "run", "--start", "0,0", "--goal", "1,1"];
    assert_eq!(measured(&bench, &plan).0, 0);
    let path = bench.path("run/plan.graph");
    let sound = std::fs::read(&path).unwrap();
    // Two gigabytes of zeros that take no room on the disk.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(2 << 30).unwrap();
    let (code, held) = measured(&bench, &plan);
    assert_eq!(code, 0);
    assert!(held < 500 << 20, "{held} bytes");
    assert!(std::fs::read(&path).unwrap() == sound);
}
