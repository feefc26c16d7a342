//! Every learner, and its choices: what the promises are tried with.

use isochrone::algorithms::Config;
use isochrone::data::Dataset;
use isochrone::run::{RecordedWorld, RunConfig, Source};
use isochrone::simulate::{Environment, Recording, World};

use super::square::Square;

/// A learner with choices, and whether its data have actions.
pub struct Case {
    pub name: String,
    settings: Vec<String>,
    pub actions: bool,
}

impl Case {
    pub fn new(algorithm: &str, variant: &str) -> Self {
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

    pub fn config(&self, more: &[&str]) -> RunConfig {
        let algorithm = self.name.split(' ').next().unwrap();
        let more = more.iter().filter(|setting| has(algorithm, setting));
        let more = more.map(|&setting| setting.to_owned());
        let settings: Vec<String> = self.settings.iter().cloned().chain(more).collect();
        RunConfig::parse("", &settings).unwrap()
    }

    pub fn source(&self) -> Source {
        let Recording { dataset, families, family_names } = Square.generate(0).unwrap();
        let world = World::Pinwheel;
        let opened = RecordedWorld { world, environment: Box::new(Square), families, family_names };
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
const OWN: [(&str, &str); 33] = [
    ("atlas", "algorithm.extraction.name=ddpg-bc"),
    ("atlas", "algorithm.teacher.kinds.by=displacement algorithm.teacher.goals=30"),
    ("atlas", "algorithm.teacher={place=[1],confidence=0}"),
    ("atlas", WITHOUT_ACTIONS),
    ("cmd1", "data.policy_goal=[1]"),
    ("cmd1", "algorithm.variant=forward"),
    ("cmd1", "algorithm.variant=backward algorithm.goal_action=rolled"),
    ("cmd1", "algorithm.variant=binary algorithm.offsets={from=1,end='clip'}"),
    ("cmd1", "algorithm.goal_noise=0.05 algorithm.bound_weight=0.3"),
    ("cmd2", "algorithm.goal_noise=0.05 algorithm.bound_weight=0.3"),
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
    ("gcivl", "data.policy_goal=[1] data.critic_goal=policy"),
    ("gciql", "algorithm.extraction.name=awr"),
    ("gciql", "algorithm.policy.law.kind=tanh"),
    ("hiql", "algorithm.waypoint_steps=3 algorithm.policy.law.kind=tanh"),
    ("ddpg", "algorithm.extraction.name=awr algorithm.radius=0.2"),
    ("ddpg", "algorithm.policy.law.kind=tanh"),
    ("c-learning", "algorithm.extraction.name=awr"),
];

pub fn cases() -> Vec<Case> {
    let plain = Config::NAMES.iter().map(|name| Case::new(name, ""));
    let shared = ["cmd1", "cmd2"].iter().flat_map(|name| SHARED.map(|own| Case::new(name, own)));
    plain.chain(shared).chain(OWN.map(|(name, variant)| Case::new(name, variant))).collect()
}
