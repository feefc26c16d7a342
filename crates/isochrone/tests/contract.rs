//! What every learner promises: the same seed gives the same bits, however often a run is stopped
//! and on however many threads; a pass moves its own arenas alone; nothing that is not a finite
//! number reaches the disk.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use isochrone::algorithms::Config;
use isochrone::checkpoint::{Disk, load};
use isochrone::data::Dataset;
use isochrone::data::sampler::{Column, Layout};
use isochrone::engine::{Adam, Executor, Parameters, Program, Threads, Window};
use isochrone::evaluate::Success;
use isochrone::ledger;
use isochrone::nn::{Mlp, Network};
use isochrone::ops::Scale;
use isochrone::random::{Draws, Purpose, Stream};
use isochrone::run::{self, Observer, Opened, Origin, RunConfig, Silent, Source, execute};
use isochrone::simulate::{Environment, Recording, Task, World};
use isochrone::train::{Prepared, Trainer};
use isochrone::{Error, Result};
use tempfile::TempDir;

const STEPS: u64 = 23;
const FILES: [&str; 4] = [
    "checkpoints/step-000000000023.safetensors",
    "model.safetensors",
    "metrics.csv",
    "evaluation.csv",
];

/// A square in which a step moves by a tenth of the action.
struct Square;

impl Square {
    fn record(lengths: &[usize], scale: f32) -> Dataset {
        let (mut states, mut actions) = (Vec::new(), Vec::new());
        for (index, &length) in lengths.iter().enumerate() {
            let mut draws = Stream::new(7, Purpose(900)).draws(0, index as u32);
            let mut state = [draws.between(-1.0, 1.0), draws.between(-1.0, 1.0)];
            for _ in 0..length {
                let action = [draws.between(-1.0, 1.0) as f32, draws.between(-1.0, 1.0) as f32];
                states.extend(state.map(|x| scale * x as f32));
                actions.extend(action);
                Self.step(&mut state, &action, &mut draws);
            }
        }
        Dataset::new(states, 2, Some((actions, 2)), lengths).unwrap()
    }
}

impl Environment for Square {
    fn state_size(&self) -> usize {
        2
    }
    fn action_size(&self) -> usize {
        2
    }
    fn discount(&self) -> f64 {
        0.9
    }
    fn horizon(&self) -> usize {
        6
    }
    fn radius(&self) -> f64 {
        0.3
    }
    fn step(&self, state: &mut [f64], action: &[f32], _: &mut Draws) {
        for (x, a) in state.iter_mut().zip(action) {
            *x = (*x + 0.1 * f64::from(*a)).clamp(-1.0, 1.0);
        }
    }
    fn observe(&self, state: &[f64], _: &mut Draws) -> Vec<f32> {
        state.iter().map(|&x| x as f32).collect()
    }
    fn generate(&self, _: u64) -> Result<Recording> {
        let dataset = Self::record(&[12; 24], 1.0);
        Ok(Recording { dataset, families: vec![0; 24], family_names: vec!["all".into()] })
    }
    fn tasks(&self, _: u64, count: usize, data: &Dataset) -> Result<Vec<Task>> {
        let task = |at: usize| Task {
            start: data.state(at).iter().map(|&x| f64::from(x)).collect(),
            goal: data.state(at + 5).to_vec(),
            switches: Some(0),
        };
        Ok((0..count).map(task).collect())
    }
}

/// A learner with choices, and whether its data have actions.
struct Case {
    name: String,
    settings: Vec<String>,
    actions: bool,
}

impl Case {
    fn new(algorithm: &str, variant: &str) -> Self {
        let mut settings: Vec<String> = [
            "discount=0.9",
            "data.source=square",
            "train.steps=23",
            "train.batch_size=32",
            "train.log_every=4",
            "train.save_every=7",
            "train.evaluate_every=10",
            "evaluation.tasks=8",
            "algorithm.network.hidden=[16,16]",
            "algorithm.policy.network.hidden=[16,16]",
            "algorithm.head={kind='mrn',latent=8,components=2}",
        ]
        .map(str::to_owned)
        .into();
        settings.retain(|setting| has(algorithm, setting));
        settings.insert(0, format!("algorithm.name={algorithm}"));
        settings.extend(variant.split_whitespace().map(str::to_owned));
        Self {
            name: format!("{algorithm} {variant}"),
            settings,
            actions: variant != WITHOUT_ACTIONS,
        }
    }

    fn config(&self, more: &[&str]) -> RunConfig {
        let algorithm = self.name.split(' ').next().unwrap();
        let more = more.iter().filter(|setting| has(algorithm, setting));
        let more = more.map(|&setting| setting.to_owned());
        let settings: Vec<String> = self.settings.iter().cloned().chain(more).collect();
        RunConfig::parse("", &settings).unwrap()
    }

    fn source(&self) -> Source {
        let Recording { dataset, families, family_names } = Square.generate(0).unwrap();
        let world = World::Pinwheel;
        let opened = Opened { world, environment: Box::new(Square), families, family_names };
        if self.actions {
            return Source { world: Some(opened), ..Source::new(dataset) };
        }
        let dataset = Dataset::new(dataset.states().to_vec(), 2, None, &[12; 24]).unwrap();
        Source::new(dataset)
    }
}

/// Whether the learner has the section or key that a setting names.
fn has(algorithm: &str, setting: &str) -> bool {
    let Some(inner) = setting.strip_prefix("algorithm.") else { return true };
    let path = inner.split('=').next().unwrap();
    let mut table = toml::Table::try_from(Config::named(algorithm).unwrap()).unwrap();
    for key in path.split('.') {
        match table.remove(key) {
            // What a tagged section holds depends on its kind, which another setting may change.
            Some(toml::Value::Table(deeper)) if !["extraction", "head"].contains(&key) => {
                table = deeper;
            }
            found => return found.is_some(),
        }
    }
    true
}

const WITHOUT_ACTIONS: &str = "algorithm.extraction.name=none";

/// Choices of the code that learners share, tried with CMD-1 and CMD-2.
const SHARED: [&str; 8] = [
    "algorithm.critic=state",
    "algorithm.extraction.name=ddpg-bc",
    "algorithm.policy.law.kind=tanh",
    "algorithm.extraction.name=ddpg-bc algorithm.policy.law.kind=tanh",
    WITHOUT_ACTIONS,
    "algorithm.head={kind='iqe',latent=16,group=4}",
    "algorithm.head={kind='max',latent=8} algorithm.network.norm=layer \
     algorithm.optimizer.clip=0.5 algorithm.optimizer.schedule=cosine",
    "algorithm.phases.critic_until=0.4 algorithm.phases.policy_from=0.2",
];

/// Choices of one learner.
const OWN: [(&str, &str); 26] = [
    ("cmd1", "data.policy_goal=[1]"),
    ("cmd1", "algorithm.variant=forward"),
    ("cmd1", "algorithm.variant=backward algorithm.goal_action=rolled"),
    ("cmd1", "algorithm.variant=binary algorithm.offsets={from=1,end='clip'}"),
    ("cmd2", "algorithm.target_action=dummy algorithm.weights=root"),
    ("cmd2", "algorithm.target_action=source algorithm.targets=raw"),
    ("cmd2", "algorithm.extraction.name=ddpg-bc algorithm.extraction.cloning_goals=future"),
    ("mqe", "algorithm.extraction.name=ddpg-bc algorithm.critics=1"),
    ("mqe", WITHOUT_ACTIONS),
    ("tmd", "algorithm.extraction.name=ddpg-bc"),
    ("tmd", "algorithm.critic=state"),
    ("tmd", WITHOUT_ACTIONS),
    ("qrl", "algorithm.extraction.name=ddpg-bc algorithm.multiplier=exponential"),
    ("qrl", "algorithm.dynamics_error=square algorithm.head={kind='iqe',latent=16,group=4}"),
    ("qrl", WITHOUT_ACTIONS),
    ("crl", "algorithm.contrast=nce algorithm.extraction.name=ddpg-bc"),
    ("crl", "algorithm.critic=state"),
    ("crl", WITHOUT_ACTIONS),
    ("gcbc", "algorithm.policy.law.kind=tanh"),
    ("gcivl", WITHOUT_ACTIONS),
    ("gciql", "algorithm.extraction.name=awr"),
    ("gciql", "algorithm.policy.law.kind=tanh"),
    ("hiql", "algorithm.waypoint_steps=3 algorithm.policy.law.kind=tanh"),
    ("ddpg", "algorithm.extraction.name=awr algorithm.radius=0.2"),
    ("ddpg", "algorithm.policy.law.kind=tanh"),
    ("c-learning", "algorithm.extraction.name=awr"),
];

fn cases() -> Vec<Case> {
    let plain = Config::NAMES.iter().map(|name| Case::new(name, ""));
    let shared = ["cmd1", "cmd2"].iter().flat_map(|name| SHARED.map(|own| Case::new(name, own)));
    plain.chain(shared).chain(OWN.map(|(name, variant)| Case::new(name, variant))).collect()
}

/// Whether a tensor or an arena belongs to networks that only follow.
fn follows(name: &str) -> bool {
    name == "target" || name.starts_with("target.")
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
    fn updated(&mut self, step: u64, steps: u64) {
        assert_eq!(steps, STEPS);
        self.step = step;
        if let Some(at) = self.kills.iter().position(|&kill| kill == step) {
            // A killed run does not get here again at once: it goes on from its checkpoint.
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

fn one_thread() -> Threads {
    Threads::default()
}

fn finish(config: &RunConfig, source: &Source, folder: &Path, threads: &Threads) {
    execute(config, source, folder, &Origin::default(), threads, &mut Silent).unwrap();
}

/// Runs to the end through all stops; how many times it was begun.
fn finish_through(stops: &mut Stops, config: &RunConfig, source: &Source, folder: &Path) -> usize {
    for begun in 1..100 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            execute(config, source, folder, &Origin::default(), one_thread(), stops)
        }));
        match result {
            Err(killed) => assert_eq!(killed.downcast_ref(), Some(&"killed")),
            Ok(Err(Error::Interrupted(15))) => {}
            Ok(Err(error)) => panic!("{error}"),
            Ok(Ok(_)) => return begun,
        }
    }
    panic!("a run that is stopped at a step goes on from there")
}

/// The final files of a run; one that is not there is empty.
fn bytes(folder: &Path) -> [Vec<u8>; 4] {
    FILES.map(|name| std::fs::read(folder.join(name)).unwrap_or_default())
}

#[track_caller]
fn assert_same(found: &Path, expected: &[Vec<u8>; 4], what: &str) {
    for ((name, found), expected) in FILES.iter().zip(bytes(found)).zip(expected) {
        assert!(found == *expected, "{what}: `{name}` differs");
    }
}

fn reference(case: &Case, config: &RunConfig, folder: &Path) -> [Vec<u8>; 4] {
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
    let mut begun = 0;
    for (index, case) in cases().iter().enumerate() {
        let (config, source) = (case.config(&[]), case.source());
        let expected = reference(case, &config, &folder.path().join(format!("{index}")));
        for split in 0..4 {
            let place = folder.path().join(format!("{index}-{split}"));
            let mut stops = Stops::drawn(100 * index as u64 + split);
            begun += finish_through(&mut stops, &config, &source, &place);
            assert_same(&place, &expected, &case.name);
            assert!(stops.kills.is_empty());
        }
    }
    assert!(begun > 200, "only {begun} starts were looked at");
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
    for (index, case) in cases().iter().enumerate() {
        let config = case.config(&[]);
        let expected = reference(case, &config, &folder.path().join(format!("{index}")));
        // All counts for the plain learner, two for its variants.
        let counts = if index < Config::NAMES.len() { &[2, 3, 4, 8][..] } else { &[2, 3] };
        for &count in counts {
            let place = folder.path().join(format!("{index}-{count}"));
            finish(&config, &case.source(), &place, &Threads::new(count).unwrap());
            assert_same(&place, &expected, &format!("{}, {count} threads", case.name));
        }
    }
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

fn trainer<'d>(config: &RunConfig, data: &'d Prepared, threads: Threads) -> Trainer<'d> {
    let (settings, discount) = (&config.train, config.discount());
    Trainer::new(&config.algorithm, settings, data, discount, config.seed, threads).unwrap()
}

/// Values and moments by name, before and after some updates, as bits.
fn moved(config: &RunConfig, data: &Prepared) -> Vec<(String, Vec<u32>, Vec<u32>)> {
    let mut trainer = trainer(config, data, one_thread());
    let before = trainer.snapshot().unwrap();
    (0..5).for_each(|_| trainer.update().unwrap());
    let bits = |numbers: &[f32]| numbers.iter().map(|x| x.to_bits()).collect();
    let after = trainer.snapshot().unwrap().tensors;
    let pairs = before.tensors.into_iter().zip(after);
    pairs.map(|(one, other)| (one.0, bits(&one.2), bits(&other.2))).collect()
}

#[test]
fn a_policy_step_leaves_the_critic_as_it_is_and_a_critic_step_the_policy() {
    for case in cases().iter().filter(|case| case.actions && !case.name.starts_with("gcbc")) {
        let source = case.source();
        let config = |more: &[&str]| case.config(more);
        let data = run::prepare(&config(&[]), &source.dataset).unwrap();
        let policy_only =
            config(&["algorithm.phases.critic_until=0.0", "algorithm.phases.policy_from=0.0"]);
        for (name, before, after) in moved(&policy_only, &data) {
            let is_policy = name.starts_with("policy.");
            assert_eq!(before != after, is_policy, "{}: `{name}` by the policy", case.name);
        }
        let late = "algorithm.phases.policy_from=1.0";
        let critic_only = moved(&config(&["algorithm.phases.critic_until=1.0", late]), &data);
        for (name, before, after) in &critic_only {
            // The head's own bias of a distance cancels; what is asked is that something moves.
            let still = name.starts_with("policy.") || (follows(name) && name.ends_with("_moment"));
            assert_eq!(before == after, still, "{}: `{name}` by the critic", case.name);
        }
        // Beside a policy that learns, the critic learns the same to the last bit, unless it asks
        // that policy what comes next.
        if ["ddpg", "c-learning"].iter().any(|name| case.name.starts_with(name)) {
            continue;
        }
        let both =
            config(&["algorithm.phases.critic_until=1.0", "algorithm.phases.policy_from=0.0"]);
        let both = moved(&both, &data);
        for (alone, beside) in critic_only.iter().zip(&both) {
            let is_policy = alone.0.starts_with("policy.");
            assert!(is_policy || alone == beside, "{}: `{}` beside a policy", case.name, alone.0);
        }
    }
}

/// The largest gradient of every arena after one update.
fn gradients(config: &RunConfig, data: &Prepared) -> Vec<(String, f32)> {
    let mut trainer = trainer(config, data, one_thread());
    trainer.update().unwrap();
    let executor = trainer.executor().unwrap();
    let parameters = executor.program().parameters();
    let largest = |numbers: &[f32]| numbers.iter().fold(0.0, |top: f32, g| top.max(g.abs()));
    let arenas = parameters.arenas();
    arenas
        .map(|arena| (parameters.name(arena).to_owned(), largest(executor.gradient(arena))))
        .collect()
}

#[test]
fn a_pass_writes_no_gradient_into_the_arenas_of_others() {
    for case in cases().iter().filter(|case| case.actions && !case.name.starts_with("gcbc")) {
        let source = case.source();
        let data = run::prepare(&case.config(&[]), &source.dataset).unwrap();
        let policy_only = ["algorithm.phases.critic_until=0.0", "algorithm.phases.policy_from=0.0"];
        for (name, largest) in gradients(&case.config(&policy_only), &data) {
            assert_eq!(largest > 0.0, name == "policy", "{}: `{name}` {largest}", case.name);
        }
        let critic_only = ["algorithm.phases.policy_from=1.0"];
        for (name, largest) in gradients(&case.config(&critic_only), &data) {
            let still = name == "policy" || follows(&name);
            assert_eq!(largest > 0.0, !still, "{}: `{name}` {largest}", case.name);
        }
    }
    // The distance and the multiplier of the two-step learner, beside a critic that stands still.
    let case = Case::new("cmd2", "algorithm.trained_critic=elsewhere");
    let source = case.source();
    let data = run::prepare(&case.config(&[]), &source.dataset).unwrap();
    for (name, largest) in gradients(&case.config(&[]), &data) {
        assert_eq!(largest > 0.0, !name.ends_with("_encoder"), "`{name}` {largest}");
    }
}

#[test]
fn the_multiplier_rises_where_the_excess_is_above_its_bound_and_falls_below() {
    let case = Case::new("cmd2", "");
    let source = case.source();
    let data = run::prepare(&case.config(&[]), &source.dataset).unwrap();
    for (tolerance, rises) in [(1e-9, true), (1e3, false)] {
        let config = case.config(&[&format!("algorithm.tolerance={tolerance}")]);
        let mut trainer = trainer(&config, &data, one_thread());
        trainer.update().unwrap();
        let row = trainer.row().unwrap();
        let metric =
            |name: &str| row[trainer.metrics().iter().position(|known| known == name).unwrap()];
        let excess = metric("training/distance/excess");
        assert!(excess > 1e-9 && excess < 1e3, "{excess}");
        // d/draw (tolerance − excess) λ(raw) at raw = 0, where softplus has slope ½.
        let expected = 0.5 * (tolerance - excess);
        let norm = metric("training/multiplier/gradient_norm");
        assert!((norm - expected.abs()).abs() < 1e-5 * expected.abs(), "{norm} {expected}");
        let raw = trainer.snapshot().unwrap().tensor("multiplier.values").unwrap().1[0];
        assert_eq!(raw > 0.0, rises, "raw {raw}, excess {excess}, tolerance {tolerance}");
    }
}

#[test]
fn each_part_of_tmds_loss_has_its_own_weight() {
    let case = Case::new("tmd", "");
    let source = case.source();
    let data = run::prepare(&case.config(&[]), &source.dataset).unwrap();
    for (backup, invariance) in [(0.5, 3.0), (2.0, 0.25)] {
        let config = case.config(&[
            "algorithm.critics=1",
            &format!("algorithm.backup_weight={backup}"),
            &format!("algorithm.invariance_weight={invariance}"),
        ]);
        let mut trainer = trainer(&config, &data, one_thread());
        trainer.update().unwrap();
        let row = trainer.row().unwrap();
        let metric = |name: &str| {
            let name = format!("training/critic/{name}");
            row[trainer.metrics().iter().position(|known| *known == name).unwrap()]
        };
        let parts = metric("contrast") + backup * metric("backup");
        let expected = parts + invariance * metric("invariance");
        let loss = metric("loss");
        assert!((loss - expected).abs() < 1e-5 * expected.abs(), "{loss}, expected {expected}");
    }
}

#[test]
fn cloning_makes_the_recorded_actions_likelier() {
    // The value of states alone cannot be descended, and two levels clone in their own way.
    for name in Config::NAMES.into_iter().filter(|name| !["gcivl", "hiql"].contains(name)) {
        let extraction = "algorithm.extraction.name=ddpg-bc";
        let case = Case::new(name, if name == "gcbc" { "" } else { extraction });
        let states = Square::record(&[12; 24], 1.0).states().to_vec();
        let always = vec![0.7; states.len()];
        let dataset = Dataset::new(states, 2, Some((always, 2)), &[12; 24]).unwrap();
        let settings = [
            "algorithm.extraction.cloning_weight=100.0",
            "algorithm.policy_optimizer.learning_rate=0.01",
        ];
        let config = case.config(&settings);
        let data = run::prepare(&config, &dataset).unwrap();
        let mut trainer = trainer(&config, &data, one_thread());
        let names = trainer.metrics();
        let likelihood =
            names.iter().position(|name| name == "training/policy/log_likelihood").unwrap();
        let mut after = |updates: usize| {
            (0..updates).for_each(|_| trainer.update().unwrap());
            trainer.row().unwrap()[likelihood]
        };
        // A normal law of deviation 1 around the one recorded action: −ln 2π = −1.838 at best.
        let (first, last) = (after(1), after(22));
        assert!(last > first + 0.2 && last < -1.83, "{name}: {first} to {last}");
    }
}

#[test]
fn only_the_losses_that_name_a_potential_have_one() {
    for (variant, expected) in [
        ("symmetric", true),
        ("forward", true),
        ("forward-free", true),
        ("backward", false),
        ("binary", false),
        ("no-potential", false),
    ] {
        let case = Case::new("cmd1", &format!("algorithm.variant={variant}"));
        let source = case.source();
        let data = run::prepare(&case.config(&[]), &source.dataset).unwrap();
        let snapshot = trainer(&case.config(&[]), &data, one_thread()).snapshot().unwrap();
        assert_eq!(snapshot.tensor("potential.values").is_some(), expected, "{variant}");
    }
}

#[test]
fn a_model_takes_states_as_they_were_recorded() {
    for name in Config::NAMES {
        let recorded = Square::record(&[12; 24], 300.0);
        let case = Case::new(name, "data.validation=0");
        let range = case.config(&["data.scaling=range"]);
        let data = run::prepare(&range, &recorded).unwrap();
        // The same data, brought to scale by hand.
        let mut scaled = vec![0.0; 2 * recorded.rows()];
        for (row, target) in scaled.chunks_exact_mut(2).enumerate() {
            data.normalization.apply(recorded.state(row), target);
        }
        let actions = (recorded.actions().to_vec(), 2);
        let by_hand = Dataset::new(scaled, 2, Some(actions), &[12; 24]).unwrap();
        let plain = case.config(&["data.scaling=none"]);
        let by_hand = run::prepare(&plain, &by_hand).unwrap();
        let model = |config: &RunConfig, data: &Prepared| {
            let mut trainer = trainer(config, data, one_thread());
            (0..5).for_each(|_| trainer.update().unwrap());
            trainer.model().unwrap()
        };
        let (one, other) = (model(&range, &data), model(&plain, &by_hand));
        let (from, to) = (&recorded.states()[..100], &recorded.states()[100..200]);
        let (near, far) = by_hand.training.states()[..200].split_at(100);
        if one.has_distance() {
            let steps = one.steps(from, to);
            assert!(steps.iter().any(|&steps| steps > 0.0));
            assert_eq!(steps, other.steps(near, far), "{name}");
        }
        let mut actions = [[0.0; 100]; 2];
        one.act(from, to, &mut actions[0]).unwrap();
        other.act(near, far, &mut actions[1]).unwrap();
        assert_eq!(actions[0], actions[1], "{name}");
    }
}

#[test]
fn every_declared_metric_is_a_column_and_is_filled_while_its_pass_is_active() {
    let folder = TempDir::new().unwrap();
    for (index, case) in cases().iter().enumerate() {
        let (config, source) = (case.config(&[]), case.source());
        let place = folder.path().join(format!("{index}"));
        finish(&config, &source, &place, &one_thread());
        let data = run::prepare(&config, &source.dataset).unwrap();
        let mut trainer = trainer(&config, &data, one_thread());
        let declared = trainer.executor().unwrap().program().metrics();
        let table = ledger::read(&place.join("metrics.csv")).unwrap();
        assert_eq!(table.columns[1..], trainer.metrics(), "{}", case.name);
        assert!(declared.iter().all(|name| table.columns.contains(name)), "{}", case.name);
        assert!(table.columns.iter().any(|name| name.starts_with("validation/")), "{}", case.name);
        assert_eq!(table.column("step").unwrap(), [4.0, 8.0, 12.0, 16.0, 20.0, 23.0]);
        for name in &table.columns {
            let filled = table.column(name).unwrap().iter().any(|value| value.is_finite());
            assert!(filled, "{}: `{name}` is always empty", case.name);
        }
    }
}

#[test]
fn a_follower_only_follows() {
    let mut parameters = Parameters::default();
    let network = Network { hidden: vec![8], ..Network::default() };
    let (followed, follower) = (parameters.arena("followed"), parameters.arena("follower"));
    let net = Mlp::new(&mut parameters, followed, &network, (2, 3), 1.0);
    let twin = Mlp::new(&mut parameters, follower, &network, (2, 3), 1.0);
    let mut program: Program<f32> = Program::new(parameters, 16, 2, 0);
    let state = program.column(Column::State(Layout::START));
    let own = net.apply(&mut program, &[state]);
    let other = twin.apply(&mut program, &[state]);
    let difference = program.mrn_by_row(
        isochrone::ops::Mrn { components: 1, maxima: 1, squares: 2 },
        own,
        other,
    );
    // The loss reads the follower; were it moved by anything but following, it would show.
    let own = program.mean(own, Scale::Unit);
    let difference = program.mean(difference, Scale::Unit);
    let loss = program.combine(&[
        isochrone::ops::Term::new(1.0, own),
        isochrone::ops::Term::new(1.0, difference),
    ]);
    let always = Window { from: 0, until: 100 };
    program.descend(
        "critic",
        loss,
        &[(followed, Adam { learning_rate: 0.1, ..Adam::default() })],
        always,
    );
    let rate = 0.25f32;
    program.follow(follower, followed, f64::from(rate));
    let dataset = Square::record(&[12; 4], 1.0);
    let plain =
        isochrone::data::Normalization::fit(&dataset, isochrone::data::Scaling::None).unwrap();
    let layout = program.layout().clone();
    let sampler = isochrone::data::sampler::Sampler::new(&dataset, &plain, layout, 0.9);
    let mut batch = sampler.batch(16);
    let mut executor = Executor::new(program, one_thread(), 3);
    assert_eq!(executor.arena(follower), executor.arena(followed), "both begin in one place");
    for step in 0..10 {
        let before = executor.arena(follower).to_vec();
        let began = executor.arena(followed).to_vec();
        sampler.fill(&mut batch, 3, step).unwrap();
        executor.update(&batch, step);
        assert_ne!(executor.arena(followed), began);
        let expected: Vec<f32> = before
            .iter()
            .zip(executor.arena(followed))
            .map(|(&own, &target)| own + rate * (target - own))
            .collect();
        assert_eq!(executor.arena(follower), expected);
        let [_, first, second] = executor.state(follower);
        assert!(first.iter().chain(second).all(|&moment| moment == 0.0));
        assert!(executor.gradient(follower).iter().all(|&g| g == 0.0));
    }
}

#[test]
fn no_gradient_flows_through_a_stopped_value() {
    for stopped in [false, true] {
        let mut parameters = Parameters::default();
        let network = Network { hidden: vec![], ..Network::default() };
        let (below, above) = (parameters.arena("below"), parameters.arena("above"));
        let first = Mlp::new(&mut parameters, below, &network, (2, 3), 1.0);
        let second = Mlp::new(&mut parameters, above, &network, (3, 1), 1.0);
        let mut program: Program<f32> = Program::new(parameters, 16, 2, 0);
        let state = program.column(Column::State(Layout::START));
        let middle = first.apply(&mut program, &[state]);
        let output = second.apply(&mut program, &[if stopped { middle.stop() } else { middle }]);
        let loss = program.mean(output, Scale::Unit);
        let adam = Adam::default();
        let always = Window { from: 0, until: 1 };
        program.descend("all", loss, &[(below, adam), (above, adam)], always);
        let dataset = Square::record(&[12; 4], 1.0);
        let plain =
            isochrone::data::Normalization::fit(&dataset, isochrone::data::Scaling::None).unwrap();
        let layout = program.layout().clone();
        let sampler = isochrone::data::sampler::Sampler::new(&dataset, &plain, layout, 0.9);
        let mut batch = sampler.batch(16);
        sampler.fill(&mut batch, 3, 0).unwrap();
        let mut executor = Executor::new(program, one_thread(), 3);
        executor.differentiate(&batch, 0);
        assert_eq!(executor.gradient(below).iter().all(|&g| g == 0.0), stopped);
        assert!(executor.gradient(above).iter().any(|&g| g != 0.0));
    }
}

/// Everything a run left on the disk is finite; whether a model is there.
fn assert_finite(folder: &Path, what: &str) -> bool {
    let entries = |folder: &Path| -> Vec<_> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let mut model = false;
    for path in entries(folder).into_iter().chain(entries(&folder.join("checkpoints"))) {
        let shown = path.display();
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("safetensors") => {
                let snapshot = load(&Disk, &path).unwrap_or_else(|error| panic!("{what}: {error}"));
                let finite = |tensor: &(_, _, Vec<f32>)| tensor.2.iter().all(|x| x.is_finite());
                assert!(snapshot.tensors.iter().all(finite), "{what}: {shown}");
                model |= path.ends_with("model.safetensors");
            }
            Some("csv") => {
                let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
                let body = text.split_once('\n').map_or("", |(_, rows)| rows);
                assert!(!body.contains("inf") && !body.contains("nan"), "{what}: {shown}\n{text}");
            }
            Some("tmp") => panic!("{what}: {shown} is left over"),
            _ => {}
        }
    }
    model
}

#[test]
fn a_run_that_diverges_stops_with_its_step_and_leaves_only_finite_numbers() {
    let folder = TempDir::new().unwrap();
    let mut diverged = 0;
    for (index, case) in cases().iter().enumerate() {
        for (at, rate) in ["1e30", "3e38", "1e10"].into_iter().enumerate() {
            let place = folder.path().join(format!("{index}-{at}"));
            let mut settings = vec![
                format!("algorithm.optimizer.learning_rate={rate}"),
                format!("algorithm.policy_optimizer.learning_rate={rate}"),
                // Every step is written, evaluated and saved.
                "train.log_every=1".into(),
                "train.evaluate_every=1".into(),
                "train.save_every=1".into(),
            ];
            settings.push(format!("algorithm.distance_optimizer.learning_rate={rate}"));
            settings.push(format!("algorithm.dual_optimizer.learning_rate={rate}"));
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            let config = case.config(&settings);
            let result = execute(
                &config,
                &case.source(),
                &place,
                &Origin::default(),
                one_thread(),
                &mut Silent,
            );
            let what = format!("{} at rate {rate}", case.name);
            let model = assert_finite(&place, &what);
            match result {
                Ok(_) => assert!(model, "{what}"),
                Err(Error::Diverged { .. }) => {
                    diverged += 1;
                    assert!(!model, "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
    assert!(diverged > cases().len(), "only {diverged} runs diverged");
}

#[test]
fn a_loss_that_is_not_finite_stops_the_update_it_appears_in() {
    for name in Config::NAMES {
        let case = Case::new(name, "");
        let (config, source) = (case.config(&[]), case.source());
        let data = run::prepare(&config, &source.dataset).unwrap();
        let mut trainer = trainer(&config, &data, one_thread());
        (0..3).for_each(|_| trainer.update().unwrap());
        let executor = trainer.executor().unwrap();
        let first = executor.program().parameters().arenas().next().unwrap();
        executor.arena_mut(first).fill(f32::NAN);
        match trainer.update() {
            Err(Error::Diverged { step: 3, metric, value }) => {
                assert!(metric.ends_with("/loss") && value.is_nan(), "{metric} {value}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn data_of_any_size_train_or_end_cleanly_and_leave_only_finite_numbers() {
    let folder = TempDir::new().unwrap();
    for (index, name) in Config::NAMES.iter().enumerate() {
        for scale in [0.0, 1e-38, 1e-20, 1e15, 1e30, 1e38, 3e38] {
            for scaling in ["none", "standard", "range"] {
                let case = Case::new(name, &format!("data.scaling={scaling}"));
                let source = Source::new(Square::record(&[12; 24], scale));
                let place = folder.path().join(format!("{index}-{scale:e}-{scaling}"));
                let (origin, threads) = (Origin::default(), one_thread());
                let config = case.config(&["train.save_every=1", "train.log_every=1"]);
                let result = execute(&config, &source, &place, &origin, &threads, &mut Silent);
                let what = format!("{name} at {scale:e}, {scaling}");
                let model = assert_finite(&place, &what);
                match result {
                    Ok(_) => assert!(model, "{what}"),
                    Err(error @ (Error::Diverged { .. } | Error::Input(_))) => {
                        assert!(scale > 1e10, "{what}: {error}");
                        assert!(!model, "{what}: {error}");
                    }
                    Err(error) => panic!("{what}: {error}"),
                }
            }
        }
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut states = Square::record(&[12; 2], 1.0).states().to_vec();
            states[17] = wrong;
            assert_eq!(Dataset::new(states, 2, None, &[12; 2]).unwrap_err().exit_code(), 2);
        }
    }
}

#[test]
fn a_poisoned_number_is_found_by_the_next_update_or_refused_by_the_save() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("poisoned.safetensors");
    for case in cases() {
        let (config, source) = (case.config(&[]), case.source());
        let data = run::prepare(&config, &source.dataset).unwrap();
        let arenas = trainer(&config, &data, one_thread()).snapshot().unwrap().tensors.len() / 3;
        for (arena, part, poison) in (0..arenas)
            .flat_map(|arena| (0..3).map(move |part| (arena, part)))
            .flat_map(|(arena, part)| {
                [f32::NAN, f32::INFINITY, -1e38].map(|poison| (arena, part, poison))
            })
        {
            let mut trainer = trainer(&config, &data, one_thread());
            // Past the first windows, so that every pass is active.
            (0..6).for_each(|_| trainer.update().unwrap());
            let executor = trainer.executor().unwrap();
            let target = executor.program().parameters().arenas().nth(arena).unwrap();
            executor.state_mut(target)[part][0] = poison;
            let broken = (0..3).find_map(|_| {
                let step = trainer.update().err();
                step.or_else(|| trainer.row().err())
            });
            let result = broken.map_or_else(
                || isochrone::checkpoint::save(&Disk, &path, &trainer.snapshot().unwrap()),
                Err,
            );
            match result {
                Ok(()) => drop(load(&Disk, &path).expect("finite")),
                Err(error) => assert_eq!(error.exit_code(), 3, "{}: {error}", case.name),
            }
        }
    }
}
