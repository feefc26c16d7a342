//! Several processes carry one run: here they are threads.

mod turned;

use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::algorithms::cmd1;
use crate::collective::threads::ranks;
use crate::data::{self, Choices, Memory, Scaling, npz};
use crate::engine::Threads;
use crate::nn::HeadShape;

/// Shards of every batch here.
const SHARDS: usize = 4;

fn data() -> Prepared {
    let numbers =
        |count: usize, rate: f32| (0..count).map(|at| (at as f32 * rate).sin()).collect::<Vec<_>>();
    let dataset = |walks: usize| {
        let actions = Some((numbers(40 * walks * 2, 0.53), 2));
        Dataset::new(numbers(40 * walks * 3, 0.37), 3, actions, &vec![40; walks]).unwrap()
    };
    let training = dataset(10);
    let normalization = Normalization::fit(&training, Scaling::None).unwrap();
    Prepared { training, validation: Some(dataset(3)), normalization, radius: None }
}

fn settings(shards: usize) -> TrainConfig {
    TrainConfig { steps: 8, batch_size: 48, shards: Some(shards), ..TrainConfig::default() }
}

/// Updates of a run up to `until`, beginning with what another had reached; what it is then.
fn updated(
    algorithm: (&Config, usize),
    collective: &Collective,
    from: Option<&Snapshot>,
    until: u64,
) -> (Vec<f64>, Snapshot) {
    updated_on(&data(), algorithm, collective, from, until)
}

/// As [`updated`], on these data.
fn updated_on(
    data: &Prepared,
    (algorithm, shards): (&Config, usize),
    collective: &Collective,
    from: Option<&Snapshot>,
    until: u64,
) -> (Vec<f64>, Snapshot) {
    let collective = collective.clone();
    let hardware = Hardware { collective: collective.clone(), ..Threads::default().into() };
    let mut trainer = Trainer::new(algorithm, &settings(shards), data, 0.95, 3, hardware).unwrap();
    // Rank 0 alone has read the folder.
    if let Some(snapshot) = from.filter(|_| collective.rank() == 0) {
        trainer.restore(snapshot).unwrap();
    }
    trainer.share(&collective).unwrap();
    trainer.updates(until).unwrap();
    (trainer.row().unwrap(), trainer.snapshot().unwrap())
}

/// The bits of metrics and of everything a checkpoint keeps.
fn bits((row, snapshot): &(Vec<f64>, Snapshot)) -> Vec<u64> {
    let numbers = snapshot.tensors.iter().flat_map(|(_, _, numbers)| numbers);
    let numbers = numbers.map(|number| u64::from(number.to_bits()));
    row.iter().map(|number| number.to_bits()).chain(numbers).collect()
}

/// The learners, with the extractions that have passes of their own, and every head in CMD-1.
fn learners() -> Vec<(String, Config)> {
    let named = |name: &str| Config::named(name).unwrap();
    let mut all: Vec<_> =
        Config::NAMES.iter().map(|&name| (name.to_owned(), named(name))).collect();
    for name in ["cmd1", "cmd2"] {
        for extraction in ["ddpg-bc", "awr"] {
            let mut config = named(name);
            config.set_extraction(extraction).unwrap();
            all.push((format!("{name} with {extraction}"), config));
        }
    }
    let heads = [
        HeadShape::Mrn { latent: 24, components: 2 },
        HeadShape::Max { latent: 16 },
        HeadShape::Iqe { latent: 16, group: 8 },
        HeadShape::Pqe { latent: 16, group: 4 },
        HeadShape::WideNorm { latent: 16, components: 2, size: 4 },
        HeadShape::DeepNorm { latent: 16, layers: 2, units: 8 },
    ];
    for head in heads {
        let config = cmd1::Config { head, ..cmd1::Config::default() };
        all.push((format!("cmd1 with {head:?}"), config.into()));
    }
    all
}

#[test]
fn bytes_do_not_depend_on_the_number_of_processes() {
    for (name, learner) in learners() {
        let alone = bits(&updated((&learner, SHARDS), &Collective::default(), None, 3));
        for size in [1, 2, 4] {
            let found = ranks(size, |collective| updated((&learner, SHARDS), &collective, None, 3));
            for (rank, found) in found.iter().enumerate() {
                assert!(bits(found) == alone, "{name}: rank {rank} of {size}");
            }
        }
    }
}

#[test]
fn a_run_resumes_with_another_number_of_processes() {
    for name in ["cmd1", "cmd2"] {
        let learner = (&Config::named(name).unwrap(), SHARDS);
        let whole = bits(&updated(learner, &Collective::default(), None, 6));
        let (_, half) = ranks(4, |collective| updated(learner, &collective, None, 3)).remove(0);
        let found = ranks(2, |collective| updated(learner, &collective, Some(&half), 6));
        assert!(found.iter().all(|found| bits(found) == whole), "{name}");
    }
}

/// The data of a folder, of which every process holds a share.
fn divided(folder: &Path, collective: &Collective) -> Prepared {
    let loaded = data::load_among(folder, &Choices::default(), Memory(1 << 20), collective);
    let (training, validation) = loaded.unwrap().dataset.split(0.25, 1).unwrap();
    let normalization = Normalization::fit(&training, Scaling::Standard).unwrap();
    Prepared { training, validation, normalization, radius: Some(0.5) }
}

#[test]
fn bytes_do_not_depend_on_which_process_holds_a_row() {
    let folder = TempDir::new().unwrap();
    for (at, part) in [data().training, data().validation.unwrap()].iter().enumerate() {
        npz::write(&folder.path().join(format!("{at}.npz")), part).unwrap();
    }
    let learners = learners();
    // A teacher needs all rows.
    for (name, learner) in learners.iter().filter(|(_, learner)| learner.teacher().is_none()) {
        let run = |collective: Collective, from: Option<&Snapshot>, until: u64| {
            let data = divided(folder.path(), &collective);
            assert_eq!(data.training.is_divided(), collective.size() > 1);
            updated_on(&data, (learner, SHARDS), &collective, from, until)
        };
        let alone = bits(&run(Collective::default(), None, 4));
        let (_, half) = ranks(4, |collective| run(collective, None, 2)).remove(0);
        let found = ranks(2, |collective| run(collective, Some(&half), 4));
        for (rank, found) in found.iter().enumerate() {
            assert!(bits(found) == alone, "{name}: rank {rank}");
        }
    }
}

#[test]
fn shards_change_no_loss_and_gradients_by_rounding_alone() {
    // All rows of a batch are each other's negatives, whoever carries them: the losses of the first
    // update are those of an uncut batch to the bit, and what sums over rows differs by rounding.
    for (name, learner) in learners() {
        let whole = updated((&learner, 1), &Collective::default(), None, 1);
        let cut =
            ranks(4, |collective| updated((&learner, SHARDS), &collective, None, 1)).remove(0);
        let names = {
            let data = data();
            let (settings, threads) = (settings(1), Threads::default());
            Trainer::new(&learner, &settings, &data, 0.95, 3, threads).unwrap().metrics()
        };
        for ((metric, whole), cut) in names.iter().zip(&whole.0).zip(&cut.0) {
            if metric.starts_with("training/") && metric.ends_with("/loss") {
                assert_eq!(whole.to_bits(), cut.to_bits(), "{name}: {metric}");
            } else if metric.ends_with("/gradient_norm") && whole.is_finite() {
                assert!((whole - cut).abs() <= 1e-4 * whole, "{name}: {metric} {whole} {cut}");
            }
        }
    }
}

#[test]
fn gradients_are_gathered_for_an_operation_that_mixes_rows() {
    let alone = turned::updated(Collective::default());
    for size in [2, 4] {
        assert!(
            ranks(size, turned::updated).into_iter().all(|found| found == alone),
            "{size} processes"
        );
    }
}

#[test]
fn shards_and_processes_that_do_not_fit_are_refused() {
    let message = |shards: usize, processes: usize| {
        settings(shards).check_shards(processes).unwrap_err().to_string()
    };
    for shards in [0, 3, 32, 64] {
        let expected =
            format!("`train.shards` is `{shards}`, expected a power of two that divides");
        assert!(message(shards, 1).starts_with(&expected), "{}", message(shards, 1));
    }
    let text = message(2, 4);
    assert!(text.starts_with("4 processes cannot share 2 shards"), "{text}");
    assert!(text.contains("--set train.shards=4"), "{text}");
    assert!(message(8, 3).contains("3 processes cannot share 8 shards"));
    for processes in [1, 2, 4, 8, 16] {
        settings(16).check_shards(processes).unwrap();
    }
}
