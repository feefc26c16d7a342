//! CMD-1 recovers the exact distance of small chains, and its known-bad twins do not.
//!
//! Five ergodic chains of six to ten states, states given one-hot, no actions, offsets from 0. Over
//! pairs with p(g|s)/p(g) ≥ e⁻⁴ the learned distance is compared with log p(g|g)/p(g|s).

use isochrone::algorithms::cmd1::{self, Variant};
use isochrone::algorithms::{Config, Critic};
use isochrone::data::sampler::{Column, Layout, Offsets, Rows, Sampler};
use isochrone::data::{Dataset, Normalization, Scaling};
use isochrone::engine::{Adam, Executor, Parameters, Program, Schedule, Threads, Window};
use isochrone::evaluate::spearman;
use isochrone::extraction::Extraction;
use isochrone::nn::{Encoded, EncodedShape, HeadShape, Mlp, Network};
use isochrone::ops::Directions;
use isochrone::random::{Purpose, Stream};
use isochrone::tabular::{Chain, FirstOffset};
use isochrone::train::{Prepared, TrainConfig, Trainer};

const DISCOUNT: f64 = 0.8;
const STEPS: u64 = 1_500;
const BATCH: usize = 256;

/// A chain in which every state can follow every other, some much rather than others.
fn chain(seed: u64) -> (Chain, Vec<Vec<f64>>) {
    let mut draws = Stream::new(seed, Purpose(100)).draws(0, 0);
    let states = 6 + (seed % 5) as usize;
    let mut rows: Vec<Vec<f64>> = Vec::new();
    for _ in 0..states {
        let weights: Vec<f64> = (0..states).map(|_| (2.0 * draws.normal()).exp()).collect();
        let sum: f64 = weights.iter().sum();
        rows.push(weights.iter().map(|w| 0.02 / states as f64 + 0.98 * w / sum).collect());
    }
    let dense: Vec<f64> = rows.concat();
    (Chain::from_dense(states, DISCOUNT, &dense).unwrap(), rows)
}

/// Trajectories of the chain, one-hot.
fn record(rows: &[Vec<f64>], seed: u64) -> Dataset {
    let (count, length, states) = (60, 400, rows.len());
    let mut numbers = Vec::new();
    for trajectory in 0..count {
        let mut draws = Stream::new(seed, Purpose(101)).draws(0, trajectory);
        let mut state = draws.below(states as u32) as usize;
        for _ in 0..length {
            numbers.extend((0..states).map(|at| if at == state { 1.0 } else { 0.0 }));
            let mut left = draws.uniform();
            state = rows[state]
                .iter()
                .position(|p| {
                    left -= p;
                    left < 0.0
                })
                .unwrap_or(states - 1);
        }
    }
    Dataset::new(numbers, states, None, &vec![length; count as usize]).unwrap()
}

fn network() -> Network {
    Network { hidden: vec![64], ..Network::default() }
}

const HEAD: HeadShape = HeadShape::Mrn { latent: 32, components: 1 };

fn adam() -> Adam {
    Adam { learning_rate: 1e-2, schedule: Schedule::Cosine, ..Adam::default() }
}

fn identity(states: usize) -> Vec<f32> {
    (0..states * states).map(|at| if at / states == at % states { 1.0 } else { 0.0 }).collect()
}

/// The matrix of distances that CMD-1 learns.
fn learn(dataset: &Dataset, variant: Variant, seed: u64) -> Vec<f64> {
    let config = Config::Cmd1(cmd1::Config {
        critic: Critic::State,
        variant,
        network: network(),
        head: HEAD,
        optimizer: adam(),
        extraction: Extraction::None,
        ..cmd1::Config::default()
    });
    let normalization = Normalization::fit(dataset, Scaling::None).unwrap();
    let data =
        Prepared { training: dataset.clone(), validation: None, normalization, radius: None };
    let settings = TrainConfig { steps: STEPS, batch_size: BATCH, ..TrainConfig::default() };
    let mut trainer =
        Trainer::new(&config, &settings, &data, DISCOUNT, seed, Threads::default()).unwrap();
    (0..STEPS).for_each(|_| trainer.update().unwrap());
    let model = trainer.model().unwrap();
    let states = model.embed(&identity(dataset.state_size())).unwrap();
    model.pairwise(&states, &states).iter().map(|&d| f64::from(d)).collect()
}

/// As [`learn`], with the sign of the distance flipped inside the score.
fn learn_flipped(dataset: &Dataset, seed: u64) -> Vec<f64> {
    let size = dataset.state_size();
    let mut parameters = Parameters::default();
    let shape =
        EncodedShape { network: network(), head: HEAD, with_action: false, temperature: 1.0 };
    let arena = parameters.arena("distance");
    let encoder = Encoded::new(&mut parameters, arena, &shape, (size, 0));
    let arena = parameters.arena("potential");
    let potential = Mlp::new(&mut parameters, arena, &network(), (size, 1), 1.0);
    let mut program: Program<f32> = Program::new(parameters, BATCH, size, 0);
    let goal = program.rows(Rows::Future(Offsets::default()));
    let goal = program.column(Column::State(goal));
    let start = program.column(Column::State(Layout::START));
    let (from, to) = (
        encoder.network.apply(&mut program, &[start]),
        encoder.network.apply(&mut program, &[goal]),
    );
    let distance = encoder.head.pairwise(&mut program, from, to);
    let potential = potential.apply(&mut program, &[goal]);
    // A temperature of −1 turns c − d into d − c.
    let logits = program.scores(Some(potential), distance, -1.0);
    let loss = program.info_nce(logits, Directions::Symmetric);
    let arenas = [(encoder.network.arena(), adam()), (arena, adam())];
    program.descend("critic", loss, &arenas, Window { from: 0, until: STEPS });
    let normalization = Normalization::fit(dataset, Scaling::None).unwrap();
    let sampler = Sampler::new(dataset, &normalization, program.layout().clone(), DISCOUNT);
    let mut batch = sampler.batch(BATCH);
    let distance = encoder.network.arena();
    let mut executor = Executor::new(program, Threads::default(), seed);
    for step in 0..STEPS {
        sampler.fill(&mut batch, seed, step).unwrap();
        executor.update(&batch, step);
    }
    let numbers = executor.arena(distance);
    let latent = encoder.network.infer(&Threads::default(), numbers, &identity(size));
    let mut matrix = vec![0.0; size * size];
    encoder.head.infer_pairs(numbers, &latent, &latent, &mut matrix);
    matrix.iter().map(|&d| f64::from(d)).collect()
}

/// Spearman's rank correlation and the median error as a share of the mean distance.
fn compare(chain: &Chain, learned: &[f64]) -> (f64, f64) {
    let states = chain.states();
    let (exact, occupancy) = (chain.distances(), chain.occupancy(FirstOffset::Zero));
    let marginal = |goal: usize| {
        (0..states).map(|from| occupancy.between(from, goal)).sum::<f64>() / states as f64
    };
    let (mut truth, mut found) = (Vec::new(), Vec::new());
    for (from, goal) in (0..states * states).map(|at| (at / states, at % states)) {
        let likely = occupancy.between(from, goal) / marginal(goal) >= (-4.0f64).exp();
        if from != goal && likely {
            truth.push(exact.between(from, goal));
            found.push(learned[from * states + goal]);
        }
    }
    let mut errors: Vec<f64> = truth.iter().zip(&found).map(|(a, b)| (a - b).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let mean = truth.iter().sum::<f64>() / truth.len() as f64;
    (spearman(&truth, &found).unwrap_or(0.0), errors[errors.len() / 2] / mean)
}

fn recovers((rank, error): (f64, f64)) -> bool {
    rank >= 0.97 && error <= 0.07
}

#[test]
fn cmd1_recovers_the_exact_distance_of_five_chains() {
    for seed in 0..5 {
        let (chain, rows) = chain(seed);
        let dataset = record(&rows, seed);
        let found = compare(&chain, &learn(&dataset, Variant::Symmetric, seed));
        println!("chain {seed}: Spearman {:.3}, median error {:.3}", found.0, found.1);
        assert!(recovers(found), "chain {seed}: {found:?}");
    }
}

#[test]
fn without_the_potential_or_the_penalty_or_with_a_flipped_sign_it_does_not() {
    for seed in 0..2 {
        let (chain, rows) = chain(seed);
        let dataset = record(&rows, seed);
        let twins = [
            ("no potential", learn(&dataset, Variant::NoPotential, seed)),
            ("forward without LSE²", learn(&dataset, Variant::ForwardFree, seed)),
            ("flipped sign", learn_flipped(&dataset, seed)),
        ];
        for (name, learned) in twins {
            let found = compare(&chain, &learned);
            println!("chain {seed}, {name}: Spearman {:.3}, median error {:.3}", found.0, found.1);
            assert!(!recovers(found), "chain {seed}, {name}: {found:?}");
        }
    }
}
