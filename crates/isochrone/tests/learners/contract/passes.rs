//! A pass moves its own arenas alone, and each the way its loss says.

use isochrone::algorithms::Config;
use isochrone::data::Dataset;
use isochrone::data::sampler::{Column, Layout};
use isochrone::engine::{Adam, Executor, Parameters, Program, Window};
use isochrone::nn::{Mlp, Network};
use isochrone::ops::Scale;
use isochrone::run::{self, RunConfig};
use isochrone::train::Prepared;

use super::cases::{Case, cases};
use super::square::Square;
use super::{one_thread, trainer};

/// Whether a tensor or an arena belongs to networks that only follow.
fn follows(name: &str) -> bool {
    name == "target" || name.starts_with("target.")
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
            "algorithm.policy_optimizer.schedule=constant",
            "algorithm.phases.policy_from=0.0",
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
