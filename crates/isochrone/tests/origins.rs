//! Runs that build on other runs: a new policy on an old distance, a distance on a trained critic.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use isochrone::checkpoint::Snapshot;
use isochrone::engine::Threads;
use isochrone::run::{self, Conditions, RunConfig, Silent};

fn config(more: &[String]) -> RunConfig {
    let mut settings: Vec<String> = [
        "train.steps=12",
        "train.batch_size=32",
        "train.save_every=12",
        "evaluation.tasks=5",
        "algorithm.network.hidden=[16]",
        "algorithm.policy.network.hidden=[16]",
    ]
    .map(str::to_owned)
    .to_vec();
    settings.splice(0..0, more.iter().cloned());
    RunConfig::parse("", &settings).unwrap()
}

fn train(config: &RunConfig, folder: &Path) -> Snapshot {
    let source = run::open_source(&config.data).unwrap();
    run::execute(config, &source, folder, &Conditions::default(), Threads::default(), &mut Silent)
        .unwrap();
    run::newest_snapshot(folder).unwrap()
}

fn values<'s>(snapshot: &'s Snapshot, arena: &str) -> &'s [f32] {
    snapshot.tensor(&format!("{arena}.values")).unwrap().1
}

#[test]
fn a_new_extraction_learns_a_policy_and_leaves_the_old_distance_as_it_is() {
    for name in ["cmd1", "cmd2"] {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        let algorithm = format!("algorithm.name={name}");
        let first = train(&config(std::slice::from_ref(&algorithm)), &old);
        let held = [
            algorithm,
            format!("from='{}'", old.display()),
            "algorithm.phases.critic_until=0.0".into(),
            "algorithm.extraction.name=ddpg-bc".into(),
        ];
        let second = train(&config(&held), &new);
        assert_eq!(values(&first, "distance"), values(&second, "distance"), "{name}");
        assert_ne!(values(&first, "policy"), values(&second, "policy"), "{name}");
    }
}

#[test]
fn a_distance_is_distilled_from_a_trained_critic_that_stands_still() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let first = train(&config(&["algorithm.name=cmd2".into()]), &old);
    let trained = [
        "algorithm.name=cmd2".into(),
        format!("algorithm.trained_critic='{}'", old.display()),
        "seed=5".into(),
    ];
    let second = train(&config(&trained), &new);
    for arena in ["start_encoder", "goal_encoder"] {
        assert_eq!(values(&first, arena), values(&second, arena), "{arena}");
    }
    assert_ne!(values(&first, "distance"), values(&second, "distance"));
    let missing =
        config(&["algorithm.name=cmd2".into(), "algorithm.trained_critic=nowhere".into()]);
    let source = run::open_source(&missing.data).unwrap();
    let other = folder.path().join("other");
    let refused = run::execute(
        &missing,
        &source,
        &other,
        &Conditions::default(),
        Threads::default(),
        &mut Silent,
    );
    let told = refused.err().unwrap().to_string();
    assert!(told.contains("nowhere") && told.contains("hint"), "{told}");
}
