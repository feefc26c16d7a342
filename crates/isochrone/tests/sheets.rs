//! The sheets in `configs/` name worlds and learners that exist, and every run of theirs is a config.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use isochrone::run::compare::Sheet;
use isochrone::run::{RunConfig, open_source};
use isochrone::simulate::World;

fn sheets() -> Vec<(PathBuf, Sheet)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), Sheet::read(&path).unwrap())).collect()
}

#[test]
fn every_run_of_every_sheet_is_a_config() {
    for (path, sheet) in sheets() {
        for world in &sheet.worlds {
            let world: World = world.parse().unwrap();
            for learner in &sheet.algorithms {
                let text = sheet.config(world, learner).unwrap();
                let name = format!("algorithm.name={learner}");
                let config = RunConfig::parse(&text, &[name])
                    .unwrap_or_else(|error| panic!("{}: {learner}: {error}", path.display()));
                assert_eq!(config.algorithm.name(), learner);
                // Three evaluations at least, each task asked equally often.
                let train = &config.train;
                assert!(train.steps / train.evaluate_every >= 3, "{}", path.display());
                assert_eq!(config.evaluation.tasks % world.open().groups(), 0);
                let places = world.open().state_size() > 2;
                assert_eq!(config.data.policy_goal, if places { vec![0, 1] } else { vec![] });
            }
        }
    }
}

#[test]
fn the_sheets_hold_the_worlds_and_learners_of_the_benchmarks() {
    let found: Vec<(String, usize, usize)> = sheets()
        .into_iter()
        .map(|(path, sheet)| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, sheet.worlds.len(), sheet.algorithms.len())
        })
        .collect();
    let expected = [
        ("antmaze-d4rl", 6, 9),
        ("antmaze-ogbench", 1, 9),
        ("antmaze-paper", 6, 5),
        ("antmaze-published", 8, 10),
        ("atlas", 8, 1),
        ("distance", 4, 12),
        ("pointmaze-giant", 1, 1),
        ("pointmaze-longer", 2, 3),
        ("pointmaze-published", 8, 11),
        ("pointmaze", 8, 9),
    ];
    assert_eq!(found, expected.map(|(name, worlds, learners)| (name.to_owned(), worlds, learners)));
    for (_, sheet) in sheets() {
        for column in &sheet.published {
            for (world, cells) in &column.success {
                assert!(sheet.worlds.contains(world));
                assert!(cells.keys().all(|learner| sheet.algorithms.contains(learner)));
            }
        }
    }
}

#[test]
fn a_world_records_as_many_episodes_as_the_config_says() {
    let recorded = |episodes: u32| {
        let settings = ["data.source=pointmaze-medium-stitch".to_owned()];
        let config = RunConfig::parse(&format!("data.episodes = {episodes}"), &settings).unwrap();
        open_source(&config.data).unwrap().dataset
    };
    let [few, more] = [3, 5].map(recorded);
    assert_eq!([few.trajectories(), more.trajectories()], [3, 5]);
    assert_eq!(few.states(), &more.states()[..few.states().len()]);
}
