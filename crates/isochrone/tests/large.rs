//! Data that are larger than the memory they may take give the same bits as data in memory; held-out
//! data may have a file of their own.
#![allow(clippy::unwrap_used)]

#[cfg(unix)]
use std::os::unix::fs::FileExt;
use std::path::Path;

use isochrone::data::{Dataset, npz};
use isochrone::engine::Threads;
use isochrone::run::{self, Conditions, Finished, Observer, RunConfig, Silent};

/// A hundred walks in the plane, 76 kB of them.
fn walks() -> Dataset {
    let mut states = Vec::new();
    let mut actions = Vec::new();
    for walk in 0..100 {
        for step in 0..48 {
            let phase = walk as f32 * 0.7 + step as f32 * 0.1;
            states.extend([phase.sin(), (phase * 0.6).cos()]);
            actions.extend([phase.cos(), -(phase * 0.6).sin()]);
        }
    }
    Dataset::new(states, 2, Some((actions, 2)), &[48; 100]).unwrap()
}

fn config(source: &Path, settings: &[&str]) -> RunConfig {
    let common = [
        "train.steps=30",
        "train.batch_size=32",
        "train.log_every=5",
        "train.save_every=15",
        "data.scaling=standard",
    ];
    let mut settings: Vec<String> =
        common.iter().chain(settings).map(|&text| text.to_owned()).collect();
    settings.push(format!("data.source={:?}", source.display().to_string()));
    RunConfig::parse("", &settings).unwrap()
}

fn train(config: &RunConfig, folder: &Path) -> isochrone::Result<Finished> {
    let source = run::open_source(&config.data)?;
    assert_eq!(source.dataset.stays_in().is_some(), config.data.memory.is_some());
    run::execute(config, &source, folder, &Conditions::default(), Threads::default(), &mut Silent)
}

#[test]
fn a_run_on_disk_leaves_the_bytes_of_the_run_in_memory() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("walks.npz");
    npz::write(&path, &walks()).unwrap();
    for name in ["cmd1", "cmd2", "gciql", "hiql"] {
        let name_set = format!("algorithm.name={name}");
        let [memory, disk] = ["memory", "disk"].map(|side| folder.path().join(side).join(name));
        train(&config(&path, &[&name_set]), &memory).unwrap();
        train(&config(&path, &[&name_set, "data.memory=100 kB"]), &disk).unwrap();
        for file in [
            "checkpoints/step-000000000015.safetensors",
            "checkpoints/step-000000000030.safetensors",
            "metrics.csv",
            "metrics.jsonl",
            "model.safetensors",
            "provenance.toml",
        ] {
            let read = |side: &Path| std::fs::read(side.join(file)).unwrap();
            assert!(read(&memory) == read(&disk), "{name}: {file} differs");
        }
        // Memory is no part of what a run is: the same run goes on without a bound.
        train(&config(&path, &[&name_set]), &disk).unwrap();
    }
    println!("figures: 24 of 24 files of 4 learners equal, from disk and from memory");
}

#[test]
fn networks_beyond_the_memory_are_refused_before_they_are_made() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("walks.npz");
    npz::write(&path, &walks()).unwrap();
    for hidden in ["[4000000, 4000000]", "[4000000000, 4000000000]", "[9000000000000000000]"] {
        let hidden = format!("algorithm.network.hidden={hidden}");
        let error = train(&config(&path, &[&hidden]), &folder.path().join("run")).err().unwrap();
        assert_eq!(error.exit_code(), 5, "{error}");
        assert!(error.to_string().contains("the machine has"), "{error}");
    }
}

#[test]
fn data_that_are_cut_under_a_run_stop_it_and_its_checkpoint_goes_on() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("walks.npz");
    npz::write(&path, &walks()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let config = config(&path, &["data.memory=100 kB"]);
    let source = run::open_source(&config.data).unwrap();
    struct Cut(std::path::PathBuf);
    impl run::Observer for Cut {
        fn updated(&mut self, step: u64, _: u64) {
            if step == 20 {
                let file = std::fs::OpenOptions::new().write(true).open(&self.0).unwrap();
                file.set_len(1_000).unwrap();
            }
        }
    }
    let out = folder.path().join("run");
    let (conditions, threads) = (Conditions::default(), Threads::default());
    let mut cut = Cut(path.clone());
    let error = run::execute(&config, &source, &out, &conditions, threads, &mut cut).err().unwrap();
    assert_eq!(error.exit_code(), 6, "{error}");
    assert!(error.to_string().contains("at byte"), "{error}");
    std::fs::write(&path, whole).unwrap();
    train(&config, &out).unwrap();
    let other = folder.path().join("other");
    train(&config, &other).unwrap();
    let read = |side: &Path| std::fs::read(side.join("model.safetensors")).unwrap();
    assert!(read(&out) == read(&other), "the run that was stopped ends in other bytes");
}

/// Overwrites the data of a run while it trains.
#[cfg(unix)]
struct Overwrites<'a> {
    path: &'a Path,
    at: u64,
    byte: u64,
    bytes: &'a [u8],
    /// Whether the file then gets its old time back.
    in_secret: bool,
}

#[cfg(unix)]
impl Observer for Overwrites<'_> {
    fn updated(&mut self, step: u64, _: u64) {
        if step == self.at {
            let file = std::fs::OpenOptions::new().write(true).open(self.path).unwrap();
            let time = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(self.bytes, self.byte).unwrap();
            if self.in_secret {
                file.set_modified(time).unwrap();
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn data_overwritten_in_place_under_a_run_that_reads_them_stop_it_before_the_next_save() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("walks.npz");
    npz::write(&path, &walks()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let config = config(&path, &["algorithm.name=cmd1", "data.memory=100 kB"]);
    // Every float of these bits is NaN.
    let nothing = vec![0xff; 38_400];
    let half = 0.5f32.to_le_bytes().repeat(4_000);
    for (name, bytes, expected) in [
        ("half", &half, "was written to while"),
        ("secret", &half, "was written to while"),
        ("nothing", &nothing, "holds `NaN`"),
    ] {
        let out = folder.path().join(name);
        let source = run::open_source(&config.data).unwrap();
        let mut observer =
            Overwrites { path: &path, at: 17, byte: 4_000, bytes, in_secret: name == "secret" };
        let (conditions, threads) = (Conditions::default(), Threads::default());
        let stopped = run::execute(&config, &source, &out, &conditions, threads, &mut observer);
        let error = stopped.err().unwrap();
        assert_eq!(error.exit_code(), 6, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        let saved = |step: u64| out.join(format!("checkpoints/step-{step:012}.safetensors"));
        assert!(saved(15).exists() && !saved(30).exists(), "{name}");
        // With its data restored the run ends as one that was never disturbed.
        std::fs::write(&path, &whole).unwrap();
        train(&config, &out).unwrap();
        let undisturbed = folder.path().join(format!("{name}-undisturbed"));
        train(&config, &undisturbed).unwrap();
        let read = |side: &Path| std::fs::read(side.join("model.safetensors")).unwrap();
        assert!(read(&out) == read(&undisturbed), "{name}");
    }
    println!("figures: overwritten in 3 ways, 0 silent");
}

/// The losses on held-out data, row after row of `metrics.csv`.
fn validation(folder: &Path) -> Vec<f64> {
    let table = isochrone::ledger::read(&folder.join("metrics.csv")).unwrap();
    table.column("validation/critic/loss").unwrap()
}

#[test]
fn a_file_beside_the_data_is_validated_on_and_all_of_the_data_trained_on() {
    let folder = tempfile::TempDir::new().unwrap();
    let [path, beside, other] =
        ["a.npz", "a-val.npz", "b.npz"].map(|name| folder.path().join(name));
    npz::write(&path, &walks()).unwrap();
    let plain = config(&path, &[]);
    assert!(run::open_source(&plain.data).unwrap().held_out.is_none());
    let few = Dataset::new(vec![0.5; 200], 2, Some((vec![0.25; 200], 2)), &[50; 2]).unwrap();
    npz::write(&beside, &few).unwrap();
    npz::write(&other, &few).unwrap();
    let source = run::open_source(&plain.data).unwrap();
    assert!(source.notes.iter().any(|note| note.contains("a-val.npz")), "{:?}", source.notes);
    let data = source.prepared(&plain).unwrap();
    assert_eq!((data.training.rows(), data.validation.unwrap().rows()), (4_800, 100));
    let named = format!("data.held_out={:?}", other.display().to_string());
    let named = config(&path, &[&named, "data.validation=0"]);
    for (config, held_out) in [
        (&named, Some(100)),
        (&config(&path, &["data.held_out=none"]), None),
        (&config(&path, &["data.validation=0"]), None),
    ] {
        let found = run::open_source(&config.data).unwrap().held_out;
        assert_eq!(found.map(|data| data.rows()), held_out);
    }
    // The file is what the losses come from, and another file is other data.
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    train(&plain, &one).unwrap();
    train(&config(&path, &["data.held_out=none"]), &two).unwrap();
    assert_ne!(validation(&one), validation(&two));
    npz::write(&beside, &walks()).unwrap();
    assert_eq!(train(&plain, &one).err().unwrap().exit_code(), 6);
    std::fs::remove_file(&beside).unwrap();
    assert_eq!(train(&plain, &one).err().unwrap().exit_code(), 6);
}

#[test]
fn held_out_data_of_another_shape_are_refused_with_a_hint() {
    let folder = tempfile::TempDir::new().unwrap();
    let [path, beside] = ["a.npz", "a-val.npz"].map(|name| folder.path().join(name));
    npz::write(&path, &walks()).unwrap();
    npz::write(&beside, &Dataset::new(vec![0.5; 30], 3, None, &[10]).unwrap()).unwrap();
    let error = run::open_source(&config(&path, &[]).data).err().unwrap();
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    assert!(text.contains("a-val.npz") && text.contains("`data.held_out = \"none\"`"), "{text}");
}
