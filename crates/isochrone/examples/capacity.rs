//! Whether the head and network of every preset can hold the exact distances of its world.
//!
//! Each is fitted to the supported distance by regression, mean |d − t| over recorded rows, so that what
//! is missing afterwards is missing for want of capacity. One row per distinct network and head:
//!
//! ```text
//! cargo run --release -p isochrone --example capacity
//! cargo run --release -p isochrone --example capacity -- 2000 pinwheel mqe tmd:algorithm.head.components=1
//! ```
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use isochrone::algorithms::Config;
use isochrone::data::sampler::{Column, Layout, Rows, Sampler};
use isochrone::data::{Lessons, Normalization};
use isochrone::engine::{Adam, ArenaId, Executor, Parameters, Program, Schedule, Threads, Window};
use isochrone::evaluate::{ASKED, Accuracy, ExactSteps, supported_steps};
use isochrone::nn::{Encoded, EncodedShape, HeadShape, Network};
use isochrone::ops::Fit;
use isochrone::random::{Purpose, Stream};
use isochrone::run::{prepare, preset, tuned};
use isochrone::simulate::{Referee, World};
use isochrone::{Dataset, Error, Result, RunConfig};
use rayon::prelude::*;

/// Updates of a fit, where no other number is asked for: more of them if the first do not hold the order.
const UPDATES: [u64; 2] = [6_000, 16_000];
/// Spearman's ρ from which on the order of distances counts as held.
const HELD: f64 = 0.92;
/// Pairs of an update.
const PAIRS: usize = 512;
/// Recorded rows whose exact distances are fitted as goals.
const GOALS: u32 = 300;
/// The worlds that have presets and a referee.
const WORLDS: [World; 3] = [World::Pinwheel, World::PinwheelShortcut, World::Roads];

/// A network and a head that were fitted to exact distances.
pub struct Fitted<'d> {
    normalization: &'d Normalization,
    encoder: Encoded,
    numbers: Vec<f32>,
}

impl<'d> Fitted<'d> {
    /// Fits `network` and `head` to `lessons`, which are of the rows of `dataset`.
    ///
    /// # Errors
    /// Data that stay in a file can no longer be read.
    pub fn new(
        (network, head): (&Network, HeadShape),
        (dataset, normalization): (&Dataset, &'d Normalization),
        lessons: Lessons,
        updates: u64,
    ) -> Result<Self> {
        let width = normalization.width();
        let mut parameters = Parameters::default();
        let arena = parameters.arena("distance");
        let network = network.clone();
        let shape = EncodedShape { network, head, with_action: false, temperature: 1.0 };
        let encoder = Encoded::new(&mut parameters, arena, &shape, (width, 0));
        let mut program: Program<f32> = Program::new(parameters, PAIRS, width, 0);
        declare(&mut program, &encoder, arena, updates);
        // Discounts are of no account: no row is drawn from a start's future.
        let sampler = Sampler::new(dataset, normalization, program.layout().clone(), 0.5);
        let sampler = sampler.taught(Some(lessons));
        let mut batch = sampler.batch(PAIRS);
        let mut executor = Executor::new(program, Threads::new(1)?, 0);
        for step in 0..updates {
            sampler.fill(&mut batch, 0, step)?;
            executor.update(&batch, step);
        }
        let numbers = executor.arena(arena).to_vec();
        Ok(Self { normalization, encoder, numbers })
    }

    /// The nats from every one of `states` to `goal`.
    pub fn nats(&self, states: &[f32], goal: &[f32]) -> Vec<f32> {
        let [from, to] = [states, goal].map(|states| {
            let mut seen = vec![0.0; states.len() / goal.len() * self.normalization.width()];
            let rows = seen.chunks_exact_mut(self.normalization.width());
            rows.zip(states.chunks_exact(goal.len()))
                .for_each(|(seen, state)| self.normalization.apply(state, seen));
            self.encoder.network.infer(&Threads::default(), &self.numbers, &seen)
        });
        let mut nats = vec![0.0; states.len() / goal.len()];
        self.encoder.head.infer_pairs(&self.numbers, &from, &to, &mut nats);
        nats
    }
}

/// One update: mean |d − t| between starts and goals.
fn declare(program: &mut Program<f32>, encoder: &Encoded, arena: ArenaId, updates: u64) {
    let goal = program.rows(Rows::Taught);
    let lesson = program.column(Column::Lesson(Layout::START, goal));
    let [from, to] = [Layout::START, goal].map(|rows| {
        let state = program.column(Column::State(rows));
        encoder.network.apply(program, &[state])
    });
    let distance = encoder.head.between(program, from, to);
    let error = program.fit(Fit { power: 0.0, unit: 1.0 }, distance, lesson);
    let adam = Adam { learning_rate: 1e-3, schedule: Schedule::Cosine, ..Adam::default() };
    program.descend("fit", error, &[(arena, adam)], Window { from: 0, until: updates });
}

/// The exact nats from every row to a few hundred of them; below 0 where no way leads.
fn exact_lessons(referee: &Referee, dataset: &Dataset, discount: f64, horizon: f64) -> Lessons {
    let nat = (1.0 / discount).ln();
    let rows = dataset.rows() as u32;
    let mut draws = Stream::new(0, Purpose::SOLVED).draws(0, 0);
    let goals: Vec<u32> = (0..GOALS.min(rows)).map(|_| draws.below(rows)).collect();
    let mut columns = vec![u32::MAX; rows as usize];
    goals.iter().zip(0..).for_each(|(&goal, column)| columns[goal as usize] = column);
    let column = |&goal: &u32| -> Vec<f32> {
        let steps_from = referee.steps_to(dataset.state(goal as usize));
        let nats = |row: usize| match steps_from(dataset.state(row)) {
            steps if steps.is_finite() => steps * nat,
            _ => -horizon * nat,
        };
        (0..dataset.rows()).map(|row| nats(row) as f32).collect()
    };
    let nats: Vec<Vec<f32>> = goals.par_iter().map(column).collect();
    Lessons::new((0..rows).collect(), Arc::new(columns), Arc::new(nats.concat()))
}

/// What a preset asks to be held: settings of networks as one line, and who has them.
struct Asked {
    config: RunConfig,
    network: Network,
    head: HeadShape,
    shown: String,
}

/// The network and head that a learner has on `world`; `None` if it has no head or no preset.
fn asked(world: World, learner: &str) -> Result<Option<Asked>> {
    let mut parts = learner.split(':');
    let name = parts.next().unwrap_or_default();
    if preset(world, name, None).is_empty() {
        return Ok(None);
    }
    let mut settings = vec![format!("data.source={world}"), format!("algorithm.name={name}")];
    settings.extend(parts.map(str::to_owned));
    let config = tuned(&settings)?;
    let broken = |error: toml::ser::Error| Error::input(error.to_string());
    let table = toml::Table::try_from(&config.algorithm).map_err(broken)?;
    let (Some(head), Some(network)) = (table.get("head"), table.get("network")) else {
        return Ok(None);
    };
    let shown = |value: &toml::Value| value.to_string();
    let features = toml::Value::try_from(&config.data.features).map_err(broken)?;
    let shown = [shown(network), shown(head), shown(&features)].join(" | ");
    let unread = |error: toml::de::Error| Error::input(error.to_string());
    let network = network.clone().try_into().map_err(unread)?;
    let head = head.clone().try_into().map_err(unread)?;
    Ok(Some(Asked { config, network, head, shown }))
}

/// A recording with its exact distances: some to be fitted, others to be asked about.
struct Truth {
    dataset: Dataset,
    lessons: Lessons,
    exact: Vec<ExactSteps>,
    discount: f64,
}

impl Truth {
    fn new(world: World, discount: f64) -> Result<Self> {
        let environment = world.open();
        let dataset = environment.generate(0)?.dataset;
        let referee = Referee::of(world, &dataset, discount)?
            .ok_or_else(|| Error::input(format!("`{world}` has no referee")))?;
        let lessons = exact_lessons(&referee, &dataset, discount, environment.horizon() as f64);
        let exact = supported_steps(&referee, &dataset, 1, ASKED);
        Ok(Self { dataset, lessons, exact, discount })
    }

    /// Fits a network and head; how right its steps are on pairs that were not fitted.
    fn measure(&self, asked: &Asked, updates: u64) -> Result<Accuracy> {
        let data = prepare(&asked.config, &self.dataset)?;
        let shape = (&asked.network, asked.head);
        let recorded = (&self.dataset, &data.normalization);
        let fitted = Fitted::new(shape, recorded, self.lessons.clone(), updates)?;
        let nat = (1.0 / self.discount).ln();
        let learned = |asked: &ExactSteps| {
            let nats = fitted.nats(&asked.starts, &asked.goal);
            nats.into_iter().map(|nats| f64::from(nats) / nat).collect()
        };
        let learned: Vec<Vec<f64>> = self.exact.iter().map(learned).collect();
        Accuracy::of(&self.exact, &learned)
    }

    /// The first fit that holds the order of distances, else that with the most updates.
    fn first_to_hold(&self, asked: &Asked, updates: &[u64]) -> Result<(u64, Accuracy)> {
        let (&most, fewer) = updates.split_last().expect("a number of updates");
        for &updates in fewer {
            let found = self.measure(asked, updates)?;
            if found.spearman >= Some(HELD) {
                return Ok((updates, found));
            }
        }
        Ok((most, self.measure(asked, most)?))
    }
}

/// The rows of the table for one world: one fit for all learners that share a network, a head, features
/// and a discount.
fn rows(world: World, learners: &[String], updates: &[u64]) -> Result<Vec<String>> {
    let mut fits: BTreeMap<(String, String), (Vec<&str>, Asked)> = BTreeMap::new();
    let mut truths = BTreeMap::new();
    for learner in learners {
        let Some(asked) = asked(world, learner)? else { continue };
        let discount = asked.config.discount.unwrap_or(world.open().discount());
        if let Entry::Vacant(place) = truths.entry(discount.to_string()) {
            place.insert(Truth::new(world, discount)?);
        }
        let key = (discount.to_string(), asked.shown.clone());
        fits.entry(key).or_insert_with(|| (Vec::new(), asked)).0.push(learner);
    }
    fits.par_iter()
        .map(|((discount, shown), (learners, asked))| {
            let (updates, found) = truths[discount].first_to_hold(asked, updates)?;
            let numbers = [found.spearman, found.far, found.median_relative_error]
                .map(|number| number.map_or("–".to_owned(), |number| format!("{number:.3}")));
            let (learners, numbers) = (learners.join(", "), numbers.join(" | "));
            Ok(format!("| {world} | {learners} | {shown} | {discount} | {updates} | {numbers} |"))
        })
        .collect()
}

/// Fits and prints.
pub fn main() -> Result<()> {
    let (mut updates, mut worlds, mut learners) = (UPDATES.to_vec(), Vec::new(), Vec::new());
    for argument in std::env::args().skip(1) {
        match (argument.parse::<u64>(), argument.parse::<World>()) {
            (Ok(number), _) => updates = vec![number],
            (_, Ok(world)) => worlds.push(world),
            _ => learners.push(argument),
        }
    }
    if worlds.is_empty() {
        worlds = WORLDS.to_vec();
    }
    if learners.is_empty() {
        learners = Config::NAMES.map(str::to_owned).to_vec();
    }
    println!(
        "# Capacity\n\nNetworks and heads of the presets, fitted to exact supported distances with updates \
         of {PAIRS} pairs, seed 0. Where Spearman's ρ is below {HELD} after the first number of updates, the next \
         is made. ρ is measured on other pairs; far: more than 30 steps.\n\n\
         | world | learners | network | head | features | discount | updates | all | far | median relative error \
         |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for world in worlds {
        rows(world, &learners, &updates)?.iter().for_each(|row| println!("{row}"));
    }
    Ok(())
}
