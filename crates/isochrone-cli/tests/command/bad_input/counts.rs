//! Counts that no machine can serve are refused before memory is taken for them.

use super::bench::{Bench, assert_names, one_line, said};

#[test]
fn counts_beyond_any_machine_are_refused_at_once() {
    let bench = Bench::new();
    bench.square("a.npz");
    let cases: [(i32, &[&str], &[&str]); 8] = [
        (
            2,
            &["a.npz", "--seeds", "18446744073709551615"],
            &["`--seeds` is `18446744073709551615`"],
        ),
        (2, &["a.npz", "--seeds", "10000000"], &["`--seeds` is `10000000`", "1 to 1000"]),
        (2, &["a.npz", "--seed", "9223372036854775807", "--seeds", "2"], &["9223372036854775808"]),
        (2, &["a.npz", "--seed", "18446744073709551615"], &["18446744073709551615"]),
        (2, &["a.npz", "--set", "evaluation.tasks=300000000"], &["`300000000`", "100000"]),
        (5, &["pinwheel", "--set", "data.episodes=4294967295"], &["4294967295 episodes"]),
        (5, &["roads", "--set", "data.episodes=4294967295"], &["4294967295 episodes"]),
        (5, &["pointmaze-large-stitch", "--set", "data.episodes=4294967295"], &["`data.episodes`"]),
    ];
    for (code, arguments, words) in cases {
        assert_names(&bench.refused(code, arguments), words);
    }
    let compare = ["compare", "--world", "pinwheel", "--algorithm", "cmd1", "--seeds"];
    for (count, code) in [("1000000000", 2), ("0", 2)] {
        let words = [&compare[..], &[count]].concat();
        let line = one_line(&bench.command(&words).output().unwrap(), code, &words);
        assert_names(&line, &["`--seeds`", count, "1 to 1000"]);
    }
    let words = ["data", "generate", "pinwheel", "--episodes", "4294967295", "-o", "generated.npz"];
    let line = one_line(&bench.command(&words).output().unwrap(), 5, &words);
    assert_names(&line, &["4294967295 episodes", "`--episodes`"]);
}

#[test]
fn critics_that_a_model_cannot_hold_are_refused_with_the_config_and_all_others_are_read() {
    let bench = Bench::new();
    bench.square("a.npz");
    let small = "train.steps=1 train.batch_size=8 algorithm.network.hidden=[4]";
    for learner in "cmd1 cmd2 crl qrl c-learning tmd mqe gcivl gciql hiql ddpg".split(' ') {
        let train = |critics| {
            let mut words = vec!["train", "a.npz", "--algorithm", learner, "--out", learner];
            words.extend(small.split(' ').chain([critics]).flat_map(|setting| ["--set", setting]));
            bench.command(&words).output().unwrap()
        };
        let line = one_line(&train("algorithm.critics=17"), 2, &[learner]);
        assert_names(&line, &["`algorithm.critics` is `17`", "1 to 16"]);
        let trained = train("algorithm.critics=16");
        assert_eq!(trained.status.code(), Some(0), "{learner}: {}", said(&trained));
        let read = bench.command(&["evaluate", learner, "--no-pictures"]).output().unwrap();
        assert_eq!(read.status.code(), Some(0), "{learner}: {}", said(&read));
    }
}
