//! Discrete actions from the file to the policy: a grid with four moves, walked at random.

use isochrone::data::{Dataset, npz};
use isochrone::engine::Threads;
use isochrone::model::Model;
use isochrone::random::{Draws, Purpose, Stream};
use isochrone::run::{RunConfig, open_source, prepare};
use isochrone::train::Trainer;
use tempfile::TempDir;

/// Cells along a side.
const SIDE: i32 = 6;
const MOVES: [(i32, i32); 4] = [(1, 0), (-1, 0), (0, 1), (0, -1)];
/// Moves allowed to reach a goal; the farthest is 10 away.
const HORIZON: usize = 12;

type Cell = (i32, i32);

fn step((x, y): Cell, choice: usize) -> Cell {
    let (dx, dy) = MOVES[choice];
    ((x + dx).clamp(0, SIDE - 1), (y + dy).clamp(0, SIDE - 1))
}

fn observe((x, y): Cell) -> [f32; 2] {
    [x as f32 / SIDE as f32, y as f32 / SIDE as f32]
}

fn cell(draws: &mut Draws) -> Cell {
    (draws.below(SIDE as u32) as i32, draws.below(SIDE as u32) as i32)
}

/// Random walks, each move held for a few steps so that walks get somewhere.
fn walks() -> Dataset {
    let (mut states, mut choices) = (Vec::new(), Vec::new());
    let lengths = [25; 200];
    for (index, length) in lengths.into_iter().enumerate() {
        let mut draws = Stream::new(3, Purpose(910)).draws(0, index as u32);
        let (mut at, mut choice) = (cell(&mut draws), draws.below(4));
        for _ in 0..length {
            if draws.below(3) == 0 {
                choice = draws.below(4);
            }
            states.extend(observe(at));
            choices.push(choice);
            at = step(at, choice as usize);
        }
    }
    Dataset::with_choices(states, 2, (&choices, 4), &lengths).unwrap()
}

/// The share of 300 pairs of cells that `act` connects within the horizon.
fn success(mut act: impl FnMut(Cell, Cell) -> usize) -> f64 {
    let mut draws = Stream::new(4, Purpose(911)).draws(0, 0);
    let mut reached = 0;
    for _ in 0..300 {
        let (mut at, goal) = (cell(&mut draws), cell(&mut draws));
        for _ in 0..HORIZON {
            if at != goal {
                at = step(at, act(at, goal));
            }
        }
        reached += usize::from(at == goal);
    }
    reached as f64 / 300.0
}

fn config(settings: &[&str]) -> RunConfig {
    let usual = [
        "discount=0.9",
        "data.validation=0",
        "train.steps=1500",
        "train.batch_size=128",
        "algorithm.network.hidden=[64,64]",
        "algorithm.policy.network.hidden=[64,64]",
        "algorithm.optimizer.learning_rate=3e-3",
        "algorithm.policy_optimizer.learning_rate=3e-3",
    ];
    let settings = usual.iter().chain(settings).map(|&setting| setting.to_owned());
    RunConfig::parse("", &settings.collect::<Vec<_>>()).unwrap()
}

fn refused(settings: &[&str], dataset: &Dataset) -> String {
    let config = config(settings);
    let data = prepare(&config, dataset).unwrap();
    let threads = Threads::default();
    let built = Trainer::new(&config.algorithm, &config.train, &data, 0.9, 1, threads);
    built.err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn a_policy_of_discrete_actions_reaches_goals_far_above_chance() {
    let dataset = walks();
    let config = config(&["algorithm.extraction.inverse_temperature=3.3"]);
    let data = prepare(&config, &dataset).unwrap();
    let threads = Threads::default();
    let mut trainer =
        Trainer::new(&config.algorithm, &config.train, &data, 0.9, 1, threads).unwrap();
    (0..config.train.steps).for_each(|_| trainer.update().unwrap());
    let model: Model = trainer.model().unwrap();
    let mut draws = Stream::new(5, Purpose(912)).draws(0, 0);
    let chance = success(|_, _| draws.below(4) as usize);
    let learned = success(|at, goal| {
        let choice = model.choose(&observe(at), &observe(goal)).unwrap()[0];
        let action = model.act(&observe(at), &observe(goal)).unwrap();
        assert!((0..4).all(|other| action[other] == f32::from(u8::from(other == choice))));
        choice
    });
    assert!(chance < 0.45, "{chance} by chance");
    assert!(learned > 0.9, "{learned} learned, {chance} by chance");
}

#[test]
fn laws_and_extractions_that_do_not_fit_the_actions_are_refused() {
    let discrete = walks();
    let continuous =
        Dataset::new(discrete.states().to_vec(), 2, Some((vec![0.5; 5000], 1)), &[25; 200])
            .unwrap();
    for (settings, dataset, words) in [
        (["algorithm.extraction.name=ddpg-bc"], &discrete, "`ddpg-bc`"),
        (["algorithm.policy.law.kind=tanh"], &discrete, "`tanh`, the data's actions are discrete"),
        (["algorithm.policy.law={kind='constant',deviation=1.0}"], &discrete, "`constant`"),
        (["algorithm.policy.law.kind=categorical"], &continuous, "actions are continuous"),
        (["algorithm.policy.law.kind=categorical"], &discrete, ""),
        (["algorithm.policy.law.kind=tanh"], &continuous, ""),
        (["algorithm.extraction.name=none"], &discrete, ""),
    ] {
        let found = refused(&settings, dataset);
        assert!(found.contains(words) && found.is_empty() == words.is_empty(), "{found}");
    }
}

#[test]
fn whole_numbers_in_a_file_are_discrete_actions_and_one_hot_rows_where_declared() {
    let folder = TempDir::new().unwrap();
    let (whole, rows) = (folder.path().join("whole.npz"), folder.path().join("rows.npz"));
    let dataset = walks();
    npz::write(&whole, &dataset).unwrap();
    assert_eq!(npz::read(&whole).unwrap(), dataset);
    let (states, actions) = (dataset.states().to_vec(), dataset.actions().to_vec());
    let plain = Dataset::new(states, 2, Some((actions, 4)), &[25; 200]).unwrap();
    npz::write(&rows, &plain).unwrap();
    assert_eq!(npz::read(&rows).unwrap().choices(), None);
    let source = |kind: &str| {
        let settings =
            [format!("data.source='{}'", rows.display()), format!("data.actions={kind}")];
        open_source(&config(&settings.each_ref().map(String::as_str)).data).unwrap().dataset
    };
    assert_eq!(source("auto").choices(), None);
    assert_eq!(source("one-hot"), dataset);
}
