//! The same seed gives the same bits, however often a run is stopped and on however many threads.

use std::path::Path;

use isochrone::Error;
use isochrone::algorithms::Config;
use isochrone::engine::Threads;
use isochrone::evaluate::Success;
use isochrone::random::{Purpose, Stream};
use isochrone::run::{self, Conditions, Observer, RunConfig, Source, execute};
use tempfile::TempDir;

use super::cases::{Case, cases};
use super::{finish, one_thread, trainer};

const STEPS: u64 = 23;
const FILES: [&str; 5] = [
    "checkpoints/step-000000000023.safetensors",
    "model.safetensors",
    "metrics.csv",
    "metrics.jsonl",
    "evaluation.csv",
];

/// Whether the long form was asked for.
fn full() -> bool {
    std::env::var_os("ISOCHRONE_FULL").is_some()
}

/// Stops at chosen steps: by a signal, or as if killed.
struct Stops {
    signals: Vec<u64>,
    kills: Vec<u64>,
    step: u64,
    evaluations: usize,
}

impl Stops {
    /// Up to three of each, drawn from `seed`.
    fn drawn(seed: u64) -> Self {
        let mut draws = Stream::new(seed, Purpose(901)).draws(0, 0);
        let mut steps = || {
            let count = draws.below(4);
            (0..count).map(|_| 1 + u64::from(draws.below(STEPS as u32))).collect()
        };
        Self { signals: steps(), kills: steps(), step: 0, evaluations: 0 }
    }
}

impl Observer for Stops {
    // A run that was begun again has received no signal yet.
    fn solved(&mut self, _: usize, _: usize) {
        self.step = u64::MAX;
    }
    fn resumed(&mut self, _: u64) {
        self.step = u64::MAX;
    }
    fn updated(&mut self, step: u64, steps: u64) {
        assert_eq!(steps, STEPS);
        self.step = step;
        if let Some(at) = self.kills.iter().position(|&kill| kill == step) {
            // A killed run does not get here again at once: it resumes from its checkpoint.
            self.kills.remove(at);
            std::panic::resume_unwind(Box::new("killed"));
        }
    }
    fn evaluated(&mut self, _: u64, _: &Success) {
        self.evaluations += 1;
    }
    fn signal(&self) -> Option<i32> {
        self.signals.contains(&self.step).then_some(15)
    }
}

/// Runs to the end through all stops; how many times it was begun.
fn finish_through(stops: &mut Stops, config: &RunConfig, source: &Source, folder: &Path) -> usize {
    for begun in 1..100 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            execute(config, source, folder, &Conditions::default(), one_thread(), stops)
        }));
        match result {
            Err(killed) => assert_eq!(killed.downcast_ref(), Some(&"killed")),
            Ok(Err(Error::Interrupted(15))) => {}
            Ok(Err(error)) => panic!("{error}"),
            Ok(Ok(_)) => return begun,
        }
    }
    panic!("a run that is stopped at a step resumes from there")
}

/// The final files of a run; one that is not there is empty.
fn bytes(folder: &Path) -> [Vec<u8>; 5] {
    FILES.map(|name| std::fs::read(folder.join(name)).unwrap_or_default())
}

#[track_caller]
fn assert_same(found: &Path, expected: &[Vec<u8>; 5], what: &str) {
    for ((name, found), expected) in FILES.iter().zip(bytes(found)).zip(expected) {
        assert!(found == *expected, "{what}: `{name}` differs");
    }
}

fn reference(case: &Case, config: &RunConfig, folder: &Path) -> [Vec<u8>; 5] {
    finish(config, &case.source(), folder, &one_thread());
    let files = bytes(folder);
    let (last, filled) = files.split_last().unwrap();
    assert!(filled.iter().all(|file| !file.is_empty()), "{}: a file is missing", case.name);
    assert_eq!(last.is_empty(), !case.actions, "{}: evaluated in the world", case.name);
    files
}

#[test]
fn a_run_stopped_or_killed_anywhere_ends_with_the_bytes_of_one_never_stopped() {
    let folder = TempDir::new().unwrap();
    let splits = if full() { 40 } else { 4 };
    let (mut begun, mut equal) = (0, 0);
    for (index, case) in cases().iter().enumerate() {
        let (config, source) = (case.config(&[]), case.source());
        let expected = reference(case, &config, &folder.path().join(format!("{index}")));
        for split in 0..splits {
            let place = folder.path().join(format!("{index}-{split}"));
            let mut stops = Stops::drawn(100 * index as u64 + split);
            begun += finish_through(&mut stops, &config, &source, &place);
            assert_same(&place, &expected, &case.name);
            assert!(stops.kills.is_empty());
            equal += 1;
        }
    }
    assert!(begun > 200, "only {begun} starts were looked at");
    println!("figures: {equal} of {equal} runs equal after {begun} starts");
}

#[test]
fn another_seed_gives_other_bytes_and_the_resolved_config_the_same() {
    let folder = TempDir::new().unwrap();
    for (index, case) in cases().iter().enumerate() {
        let place = |name: &str| folder.path().join(format!("{index}-{name}"));
        let expected = reference(case, &case.config(&[]), &place("first"));
        finish(&case.config(&["seed=1"]), &case.source(), &place("other"), &one_thread());
        for (name, (other, one)) in FILES.iter().zip(bytes(&place("other")).iter().zip(&expected)) {
            assert!(other != one || *name == "evaluation.csv", "{}: `{name}`", case.name);
        }
        let resolved = RunConfig::read(&place("first").join("config.toml"), &[]).unwrap();
        assert_eq!(resolved, case.config(&[]));
        finish(&resolved, &case.source(), &place("again"), &one_thread());
        assert_same(&place("again"), &expected, &case.name);
        let written = |name| std::fs::read(place(name).join("config.toml")).unwrap();
        assert_eq!(written("again"), written("first"));
    }
}

#[test]
fn every_number_of_threads_gives_the_same_bytes() {
    let folder = TempDir::new().unwrap();
    let mut runs = 0;
    for (index, case) in cases().iter().enumerate() {
        let config = case.config(&[]);
        let expected = reference(case, &config, &folder.path().join(format!("{index}")));
        // All counts for the plain learner, two for its variants; all for all in the long form.
        let all = full() || index < Config::NAMES.len();
        let counts = if all { &[2, 3, 4, 8][..] } else { &[2, 3] };
        for &count in counts {
            let place = folder.path().join(format!("{index}-{count}"));
            finish(&config, &case.source(), &place, &Threads::new(count).unwrap());
            assert_same(&place, &expected, &format!("{}, {count} threads", case.name));
            runs += 1;
        }
    }
    println!("figures: {runs} runs on 2, 3, 4 or 8 threads, each with the bytes of 1 thread");
}

#[test]
fn networks_cut_into_many_parts_give_the_same_bits_on_every_number_of_threads() {
    // Arenas of more than one part of the optimizer, batches of more than one block of rows.
    let wide = [
        "algorithm.network.hidden=[192,192]",
        "algorithm.policy.network.hidden=[192,192]",
        "train.batch_size=97",
        "data.validation=0",
    ];
    for name in Config::NAMES {
        let config = Case::new(name, "").config(&wide);
        let source = Case::new(name, "").source();
        let data = run::prepare(&config, &source.dataset).unwrap();
        let after = |count: usize| {
            let threads = Threads::new(count).unwrap();
            let mut trainer = trainer(&config, &data, threads.clone());
            threads.enter(|| (0..4).for_each(|_| trainer.update().unwrap()));
            trainer.snapshot().unwrap()
        };
        let expected = after(1);
        assert!(expected.tensors.iter().any(|tensor| tensor.2.len() > 2 * 16_384));
        for count in [2, 3, 4, 8] {
            assert!(after(count) == expected, "{name}, {count} threads");
        }
    }
}

#[test]
fn replicas_side_by_side_equal_single_runs() {
    let folder = TempDir::new().unwrap();
    for name in Config::NAMES {
        let case = Case::new(name, "");
        let (source, threads) = (case.source(), Threads::new(2).unwrap());
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let place = folder.path().join(format!("{name}/seed-{seed}"));
                let config = case.config(&[&format!("seed={seed}")]);
                let (source, threads) = (&source, &threads);
                scope.spawn(move || finish(&config, source, &place, threads));
            }
        });
        for seed in 0..3 {
            let config = case.config(&[&format!("seed={seed}")]);
            let expected = reference(&case, &config, &folder.path().join(format!("{name}-{seed}")));
            let place = folder.path().join(format!("{name}/seed-{seed}"));
            assert_same(&place, &expected, &format!("{name} seed {seed}"));
        }
    }
}
