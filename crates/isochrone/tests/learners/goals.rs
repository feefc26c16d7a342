//! A policy may see a part of its goal, and so may a critic: then nothing else of the goal changes what
//! it does, for every learner, while it is trained and after its model was written and read.

use isochrone::algorithms::{Algorithm, Config, Problem};
use isochrone::data::Dataset;
use isochrone::data::sampler::Sampler;
use isochrone::engine::{Executor, Parameters, Program, Threads};
use isochrone::model::Model;
use isochrone::random::{Purpose, Stream};
use isochrone::run::{RunConfig, prepare};
use isochrone::train::Trainer;

/// Walks in a room of three coordinates.
fn walks() -> Dataset {
    let (mut states, mut actions) = (Vec::new(), Vec::new());
    for index in 0..12 {
        let mut draws = Stream::new(3, Purpose(900)).draws(0, index);
        let mut state = [0; 3].map(|_| draws.between(-1.0, 1.0) as f32);
        for _ in 0..12 {
            let action = [0; 2].map(|_| draws.between(-1.0, 1.0) as f32);
            states.extend(state);
            actions.extend(action);
            state[0] += 0.1 * action[0];
            state[1] += 0.1 * action[1];
            state[2] = draws.between(-1.0, 1.0) as f32;
        }
    }
    Dataset::new(states, 3, Some((actions, 2)), &[12; 12]).unwrap()
}

fn config(name: &str, more: &[&str]) -> RunConfig {
    let small = [
        "discount=0.9",
        "train.steps=30",
        "train.batch_size=32",
        "algorithm.policy.network.hidden=[16]",
        "algorithm.policy_optimizer.learning_rate=0.01",
        "data.features={kind='fourier',axes=[0,1],count=3,length=2.0}",
    ];
    let own = format!("algorithm.name={name}");
    let settings: Vec<String> =
        [own.as_str()].iter().chain(&small).chain(more).map(ToString::to_string).collect();
    RunConfig::parse("", &settings).unwrap()
}

fn trained(config: &RunConfig) -> Model {
    let data = prepare(config, &walks()).unwrap();
    let (seed, discount) = (config.seed, config.discount.unwrap());
    let threads = Threads::default();
    let mut trainer =
        Trainer::new(&config.algorithm, &config.train, &data, discount, seed, threads).unwrap();
    (0..config.train.steps).for_each(|_| trainer.update().unwrap());
    trainer.model().unwrap()
}

fn act(model: &Model, goal: [f32; 3]) -> [f32; 2] {
    model.act(&[0.3, -0.2, 0.5], &goal).unwrap().try_into().unwrap()
}

#[test]
fn what_a_policy_does_not_see_of_a_goal_changes_nothing_it_does() {
    let folder = tempfile::tempdir().unwrap();
    for name in Config::NAMES {
        let part = trained(&config(name, &["data.policy_goal=[0,1]"]));
        let path = folder.path().join(name);
        part.save(&path).unwrap();
        let read = Model::load(&path).unwrap();
        assert_eq!(read.shape().normalization, part.shape().normalization);
        let here = act(&part, [0.1, 0.4, -0.9]);
        for model in [&part, &read] {
            assert_eq!(act(model, [0.1, 0.4, 0.9]), here, "{name}");
            assert_ne!(act(model, [0.1, 0.5, -0.9]), here, "{name}");
        }
        // The distance goes on to see all of a state.
        if part.is_quasimetric() {
            let steps = |goal: [f32; 3]| part.steps(&[0.3, -0.2, 0.5], &goal).unwrap();
            assert_ne!(steps([0.1, 0.4, -0.9]), steps([0.1, 0.4, 0.9]), "{name}");
        }
        let whole = trained(&config(name, &[]));
        assert_ne!(act(&whole, [0.1, 0.4, -0.9]), act(&whole, [0.1, 0.4, 0.9]), "{name}");
    }
}

/// Learners whose critics have an input for the goal.
const ASKED: [&str; 6] = ["crl", "gcivl", "gciql", "hiql", "ddpg", "c-learning"];
const SHARED: [&str; 2] = ["data.policy_goal=[0,1]", "data.critic_goal=policy"];

/// Trains until no value is still held at 0.
fn trained_long(name: &str, shown: &[&str]) -> Model {
    let mut settings = vec!["train.steps=200", "algorithm.optimizer.learning_rate=0.01"];
    settings.extend((name != "crl").then_some("algorithm.follow_rate=0.3"));
    settings.extend(shown);
    trained(&config(name, &settings))
}

fn steps(model: &Model, goal: [f32; 3]) -> f32 {
    model.steps(&[0.3, -0.2, 0.5], &goal).unwrap()[0]
}

#[test]
fn what_a_critic_does_not_see_of_a_goal_changes_nothing_it_says() {
    let folder = tempfile::tempdir().unwrap();
    for name in ASKED {
        let part = trained_long(name, &SHARED);
        let path = folder.path().join(name);
        part.save(&path).unwrap();
        let read = Model::load(&path).unwrap();
        for model in [&part, &read] {
            let [here, same, other] = [[0.1, 0.4, -0.9], [0.1, 0.4, 0.9], [0.1, 0.5, -0.9]]
                .map(|goal| steps(model, goal));
            // A contrastive score is read against that of the goal as a start, which is seen whole.
            let whole_start = ["crl", "c-learning"].contains(&name);
            assert_eq!(here == same, !whole_start, "{name}");
            assert_ne!(here, other, "{name}");
        }
        let between = |goal: [f32; 3]| {
            let apart = |from: [f32; 3]| read.steps(&from, &goal).unwrap()[0];
            apart([0.3, -0.2, 0.5]) - apart([-0.4, 0.2, 0.1])
        };
        // The own score of a goal falls out of differences between starts.
        let gap = between([0.1, 0.4, -0.9]) - between([0.1, 0.4, 0.9]);
        assert!(gap.abs() < 1e-4, "{name}: {gap}");
        let whole = trained_long(name, &SHARED[..1]);
        assert_ne!(steps(&whole, [0.1, 0.4, -0.9]), steps(&whole, [0.1, 0.4, 0.9]), "{name}");
    }
}

#[test]
fn distances_between_whole_states_refuse_critics_of_a_part() {
    for name in Config::NAMES.iter().filter(|name| **name != "gcbc" && !ASKED.contains(name)) {
        let config = config(name, &SHARED);
        let data = prepare(&config, &walks()).unwrap();
        let trainer =
            Trainer::new(&config.algorithm, &config.train, &data, 0.9, 0, Threads::default());
        let text = trainer.err().unwrap().to_string();
        let expected = format!("`data.critic_goal` is `policy`, but the distance of `{name}`");
        assert!(text.starts_with(&expected), "{text}");
    }
}

#[test]
fn all_coordinates_by_name_are_the_same_as_none_named() {
    for name in ["cmd1", "hiql"] {
        let named = trained(&config(name, &["data.policy_goal=[2,0,1]"]));
        let whole = trained(&config(name, &[]));
        assert_eq!(act(&named, [0.1, 0.4, -0.9]), act(&whole, [0.1, 0.4, -0.9]), "{name}");
    }
}

#[test]
fn coordinates_that_states_do_not_have_are_refused_by_their_key() {
    let refused = prepare(&config("cmd1", &["data.policy_goal=[0,3]"]), &walks());
    let text = refused.err().unwrap().to_string();
    assert!(text.starts_with("`data.policy_goal` is `[0, 3]`, expected"), "{text}");
}

#[test]
fn the_policys_gradient_is_that_of_its_loss() {
    // Weights and scales that a policy's loss holds still are none of these.
    for (name, own) in [
        ("gcbc", ""),
        ("hiql", ""),
        ("gcivl", ""),
        ("cmd1", "algorithm.extraction={name='awr',baseline='data'}"),
        ("qrl", "algorithm.extraction={name='ddpg-bc',scale='unit'}"),
    ] {
        let mut settings = vec!["data.policy_goal=[1]"];
        settings.extend([own].iter().filter(|own| !own.is_empty()));
        let config = config(name, &settings);
        let data = prepare(&config, &walks()).unwrap();
        let (width, actions) = (data.normalization.width(), 2);
        let problem = Problem {
            state_size: width,
            goal_size: data.normalization.goal_width(),
            critic_goal: data.normalization.critic_goal_places().map(<[usize]>::len),
            action_size: actions,
            steps: 30,
            discount: 0.9,
            radius: Some(0.1),
            farthest: None,
        };
        assert_eq!((width, problem.goal_size), (9, 1));
        let mut parameters = Parameters::default();
        let learner = config.algorithm.build(problem, &mut parameters).unwrap();
        let mut program: Program<f64> = Program::new(parameters, 16, width, actions);
        learner.declare(&mut program);
        let sampler =
            Sampler::new(&data.training, &data.normalization, program.layout().clone(), 0.9);
        let mut batch = sampler.batch(16);
        sampler.fill(&mut batch, 0, 0).unwrap();
        let policy = program.parameters().arenas();
        let policy = policy.into_iter().find(|&arena| program.parameters().name(arena) == "policy");
        let metrics = program.metrics();
        let loss = metrics.iter().position(|name| name == "training/policy/loss").unwrap();
        let mut executor = Executor::new(program, Threads::default(), 5);
        executor.differentiate(&batch, 29);
        let policy = policy.unwrap();
        let gradient = executor.gradient(policy).to_vec();
        // The weight of the goal's one number, which stands after the state's nine, by unit.
        let mut moved = 0;
        for place in (9 * 16..10 * 16).step_by(3) {
            let mut at = |change: f64| {
                executor.arena_mut(policy)[place] += change;
                executor.evaluate(&batch, 29);
                let mut row = Vec::new();
                executor.metrics(29, &mut row);
                executor.arena_mut(policy)[place] -= change;
                row[loss]
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            let gap = (slope - gradient[place]).abs();
            assert!(gap < 1e-5 * slope.abs().max(1.0), "{name}: {slope} {}", gradient[place]);
            moved += usize::from(slope != 0.0);
        }
        assert!(moved > 0, "{name}: the loss does not depend on the goal");
    }
}
