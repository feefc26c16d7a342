//! Training on a large file keeps to the memory it may take. A test of its own, so that no other
//! takes memory beside it.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

use isochrone::data::{Dataset, npz};
use isochrone::engine::Threads;
use isochrone::run::{self, RunConfig};
use isochrone::train::Trainer;

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    4096 * text.split(' ').nth(1).unwrap().parse::<usize>().unwrap()
}

#[test]
fn a_file_many_times_larger_than_its_memory_trains_within_it() {
    /// What the networks, a batch and blocks that are read take, with room.
    const BESIDE: usize = 24 << 20;
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("large.npz");
    let (rows, state, action) = (600_000, 29, 8);
    {
        let numbers = |count: usize| (0..count).map(|at| (at as f32 * 0.37).sin()).collect();
        let actions = Some((numbers(rows * action), action));
        let data = Dataset::new(numbers(rows * state), state, actions, &[500; 1200]).unwrap();
        npz::write(&path, &data).unwrap();
    }
    let size = std::fs::metadata(&path).unwrap().len() as usize;
    let memory = 8 << 20;
    assert!(size > 10 * memory);
    let settings = [
        format!("data.source={:?}", path.display().to_string()),
        "data.memory=8 MiB".to_owned(),
        "algorithm.name=cmd1".to_owned(),
        "train.batch_size=64".to_owned(),
        "train.steps=10".to_owned(),
    ];
    let config = RunConfig::parse("", &settings).unwrap();
    let before = resident();
    let mut most = 0;
    let mut look = || most = most.max(resident().saturating_sub(before));
    let source = run::open_source(&config.data).unwrap();
    look();
    source.fingerprint().unwrap();
    let data = source.prepared(&config).unwrap();
    look();
    let threads = Threads::default();
    let mut trainer =
        Trainer::new(&config.algorithm, &config.train, &data, 0.99, 0, threads).unwrap();
    for _ in 0..10 {
        trainer.update().unwrap();
        look();
    }
    trainer.model().unwrap();
    look();
    source.dataset.in_memory().unwrap();
    look();
    assert!(most < memory + BESIDE, "{most} bytes beside a file of {size}");
    let megabytes = |bytes: usize| bytes as f64 / 1e6;
    let [size, memory, most] = [size, memory, most].map(megabytes);
    println!("figures: a file of {size:.1} MB with {memory:.1} MB for data: {most:.1} MB taken");
}
