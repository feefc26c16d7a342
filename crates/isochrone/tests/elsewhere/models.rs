//! Small models of every form, after a few updates.

use isochrone::algorithms::Config;
use isochrone::data::Dataset;
use isochrone::engine::Threads;
use isochrone::model::Model;
use isochrone::random::{Purpose, Stream};
use isochrone::run::{RunConfig, prepare};
use isochrone::train::Trainer;

/// Values per state.
pub const STATE: usize = 3;
/// Trajectories and their rows.
const LENGTHS: [usize; 12] = [15; 12];

/// What differs from a learner's defaults; `discrete` alone asks for discrete actions.
const VARIANTS: [(&str, &str); 31] = [
    ("cmd1", "algorithm.head={kind='mrn',latent=16,components=4}"),
    ("cmd1", "algorithm.head={kind='max',latent=16}"),
    ("cmd1", "algorithm.head={kind='iqe',latent=16,group=4}"),
    ("cmd1", "algorithm.head={kind='pqe',latent=16,group=4}"),
    ("cmd1", "algorithm.head={kind='wide-norm',latent=16,components=2,size=3}"),
    ("cmd1", "algorithm.head={kind='deep-norm',latent=16,layers=3,units=5}"),
    ("cmd1", "algorithm.critic=state algorithm.network.activation=gelu"),
    ("cmd1", "algorithm.network.norm=layer algorithm.network.activation=swish"),
    ("cmd1", "algorithm.policy.law.kind=tanh algorithm.policy.network.norm=layer"),
    ("cmd1", "data.scaling=standard data.policy_goal=[1]"),
    (
        "cmd1",
        "data.features={kind='ramps',count=4,from=-1.0,to=1.0,width=0.5} data.policy_goal=[1]",
    ),
    ("cmd1", "data.features={kind='fourier',axes=[0,2],count=5,length=2.0}"),
    ("cmd1", "data.features={kind='fourier',axes=[0,2],count=5,length=2.0} data.policy_goal=[0,2]"),
    ("cmd1", "data.features={kind='fourier',axes=[0,2],count=5,length=2.0} data.policy_goal=[0]"),
    ("cmd1", "discrete"),
    ("cmd1", "algorithm.extraction.name=none"),
    ("mqe", "algorithm.critics=2 algorithm.network.activation=gelu"),
    ("tmd", "algorithm.critic=state"),
    ("qrl", "algorithm.head={kind='iqe',latent=16,group=4}"),
    (
        "qrl",
        "algorithm.critics=2 algorithm.projector={latent=11,network={hidden=[7]}} \
         algorithm.head={kind='wide-norm',latent=16,components=2,size=3}",
    ),
    ("cmd1", "algorithm.critics=2"),
    ("crl", "algorithm.critics=3"),
    ("crl", "algorithm.critic=state"),
    ("gciql", "algorithm.policy.law.kind=tanh"),
    ("gciql", "discrete"),
    ("hiql", "algorithm.waypoint_steps=3"),
    ("gcbc", "discrete"),
    ("crl", "data.policy_goal=[2] data.critic_goal=policy"),
    (
        "hiql",
        "data.features={kind='fourier',axes=[0,2],count=5,length=2.0} data.policy_goal=[0,2] \
         data.critic_goal=policy",
    ),
    ("gciql", "data.policy_goal=[0,2] data.critic_goal=policy"),
    ("c-learning", "data.policy_goal=[1] data.critic_goal=policy"),
];

/// Every learner with its defaults, and variants that reach every branch of the format.
pub fn models() -> Vec<(String, Model)> {
    let plain = Config::NAMES.iter().map(|name| (*name, ""));
    let all = plain.chain(VARIANTS).enumerate();
    all.map(|(at, (algorithm, variant))| {
        (format!("{at:02}-{algorithm} {variant}"), model(algorithm, variant))
    })
    .collect()
}

fn model(algorithm: &str, variant: &str) -> Model {
    let mut settings = vec![format!("algorithm.name={algorithm}")];
    settings.extend(
        ["train.batch_size=16", "train.steps=40", "data.validation=0", "data.scaling=range"]
            .map(str::to_owned),
    );
    let usual = toml::Table::try_from(Config::named(algorithm).unwrap()).unwrap();
    for (key, setting) in [
        ("network", "algorithm.network.hidden=[12,10]"),
        ("policy", "algorithm.policy.network.hidden=[9]"),
        ("head", "algorithm.head={kind='mrn',latent=16}"),
        ("latent", "algorithm.latent=16"),
    ] {
        if usual.contains_key(key) {
            settings.push(setting.to_owned());
        }
    }
    let discrete = variant == "discrete";
    settings.extend(variant.split_whitespace().filter(|_| !discrete).map(str::to_owned));
    if discrete && usual.contains_key("extraction") {
        settings.push("algorithm.extraction.name=awr".to_owned());
    }
    let config = RunConfig::parse("", &settings).unwrap();
    let data = prepare(&config, &dataset(discrete)).unwrap();
    let threads = Threads::default();
    let mut trainer =
        Trainer::new(&config.algorithm, &config.train, &data, 0.9, 1, threads).unwrap();
    (0..config.train.steps).for_each(|_| trainer.update().unwrap());
    trainer.model().unwrap()
}

fn dataset(discrete: bool) -> Dataset {
    let rows = LENGTHS.iter().sum::<usize>();
    let states = points(rows, 1);
    if discrete {
        let choices: Vec<u32> = (0..rows as u32).map(|row| row * 7 % 4).collect();
        return Dataset::with_choices(states, STATE, (&choices, 4), &LENGTHS).unwrap();
    }
    let actions = points(rows, 2).into_iter().take(2 * rows).collect();
    Dataset::new(states, STATE, Some((actions, 2)), &LENGTHS).unwrap()
}

/// States within [−1, 1].
pub fn points(count: usize, seed: u64) -> Vec<f32> {
    let mut draws = Stream::new(seed, Purpose(930)).draws(0, 0);
    (0..count * STATE).map(|_| draws.between(-1.0, 1.0) as f32).collect()
}

/// Asserts that two lists of answers agree to 1e-5, relative beyond 1.
pub fn assert_near(what: &str, found: &[f64], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let expected = f64::from(expected);
        let error = (found - expected).abs();
        assert!(error <= 1e-5 * expected.abs().max(1.0), "{what} {at}: {found}, ours {expected}");
    }
}
