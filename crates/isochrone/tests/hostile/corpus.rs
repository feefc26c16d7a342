//! The files of `tests/corpus` and of `tests/fixtures`, as they are, cut at every byte and damaged in a
//! fixed sequence of ways: every format ends with values or a short error, in bounded memory and work.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use isochrone::checkpoint;
use isochrone::data::{Choices, Memory, RowStream, load, open};
use isochrone::error::Error;
use isochrone::ledger;
use isochrone::model::Model;
use isochrone::random::{Purpose, Stream};
use isochrone::run::RunConfig;
use isochrone::run::compare::Sheet;
use isochrone::tabular;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{ALONE, BOUND, CALLS, MOST_CALLS, damaged, fixture, full, most, place, say};

/// Damaged copies of each seed in the quick suite and in the long one.
const COPIES: [u32; 2] = [400, 20_000];
/// The longest error, in bytes.
const LONGEST_ERROR: usize = 2_000;

type Read = fn(&Path, &[u8]) -> Result<(), Error>;

/// What came of the damaged copies of a format.
#[derive(Default)]
struct Tally {
    cases: usize,
    refused: usize,
    /// The most bytes that one file took.
    most: usize,
    /// The longest time that one file took, in seconds: told, not judged.
    slowest: f64,
}

impl Tally {
    fn add(&mut self, label: &str, path: &Path, bytes: &[u8], read: Read) {
        let (before, begun) = (CALLS.load(Relaxed), Instant::now());
        let mut end = Ok(());
        let taken = most(|| end = read(path, bytes));
        let calls = CALLS.load(Relaxed) - before;
        self.slowest = self.slowest.max(begun.elapsed().as_secs_f64());
        self.most = self.most.max(taken);
        assert!(taken < BOUND, "{label}: {taken} bytes");
        assert!(calls < MOST_CALLS, "{label}: {calls} allocations");
        self.cases += 1;
        if let Err(error) = end {
            let said = error.to_string();
            assert!(matches!(error.exit_code(), 2 | 5), "{label}: {said}");
            assert!(!said.contains('\n') && said.len() < LONGEST_ERROR, "{label}: {said}");
            self.refused += 1;
        }
    }

    /// Reads the seed as it is, cut anywhere, and damaged.
    fn replay(&mut self, seed: &Path, ending: &str, read: Read) {
        let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let folder = place();
        let path = folder.path().join(format!("seed{ending}"));
        let sound = std::fs::read(seed).unwrap();
        let label = seed.display();
        self.add(&format!("{label}"), &path, &sound, read);
        // A large seed is cut at a few hundred places in the quick suite.
        let step = if full() { 1 } else { sound.len().div_ceil(512).max(1) };
        for length in (0..sound.len()).step_by(step) {
            self.add(&format!("{label} cut at {length}"), &path, &sound[..length], read);
        }
        let name = seed.file_name().unwrap().to_str().unwrap();
        let key = name.bytes().fold(0, |key: u64, byte| key.wrapping_mul(31) + u64::from(byte));
        let stream = Stream::new(key, Purpose(2));
        for index in 0..COPIES[usize::from(full())] {
            let bytes = damaged(&sound, &mut stream.draws(0, index));
            self.add(&format!("{label} {index}"), &path, &bytes, read);
        }
    }

    fn tell(&self, format: &str) {
        let Self { cases, most, slowest, .. } = self;
        let most = most.div_ceil(1_000_000);
        say(&format!(
            "{format}: {cases} damaged files, 0 panics, at most {most} MB and {slowest:.2} s each"
        ));
        assert!(self.refused > self.cases / 4, "{format}: {} of {}", self.refused, self.cases);
    }
}

/// The seeds of a format.
fn seeds(format: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(format);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut seeds: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{format}");
    seeds
}

fn replay(format: &str, ending: &str, readers: &[Read]) {
    let mut tally = Tally::default();
    for seed in seeds(format) {
        readers.iter().for_each(|&read| tally.replay(&seed, ending, read));
    }
    tally.tell(format);
}

fn rows(path: &Path) -> Result<(), Error> {
    open(path, &Choices::default())?.into_dataset().map(drop)
}

/// Trajectories with the bytes as their states; the archive's checksum is right.
fn npy(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    archive.start_file("observations.npy", options).unwrap();
    archive.write_all(bytes).unwrap();
    std::fs::write(path, archive.finish().unwrap().into_inner()).unwrap();
    RowStream::open(path, &["observations"], 4)?.all()?;
    rows(path)
}

#[test]
fn seeds_of_npy_end_with_rows_or_an_error() {
    replay("npy", ".npz", &[npy]);
}

fn npz(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).unwrap();
    rows(path)
}

#[test]
fn seeds_of_npz_end_with_rows_or_an_error() {
    let mut tally = Tally::default();
    for name in ["plain.npz", "compressed.npz", "float64.npz", "ogbench.npz", "object.npz"] {
        tally.replay(&fixture(name), ".npz", npz);
    }
    tally.tell("npz");
}

#[cfg(feature = "hdf5")]
#[test]
fn seeds_of_hdf5_end_with_rows_or_an_error() {
    let mut tally = Tally::default();
    let minari = "minari-plain/data/main_data.hdf5";
    for name in ["d4rl-u8.hdf5", "d4rl-f32.hdf5", "d4rl-bool.hdf5", minari, "claims-wide.hdf5"] {
        tally.replay(&fixture(name), ".hdf5", npz);
    }
    tally.tell("hdf5");
}

#[cfg(feature = "parquet")]
#[test]
fn seeds_of_parquet_end_with_rows_or_an_error() {
    let mut tally = Tally::default();
    for name in [
        "lerobot-v3.0/data/chunk-000/file-000.parquet",
        "lerobot-v2.1/data/chunk-000/episode_000000.parquet",
    ] {
        tally.replay(&fixture(name), ".parquet", npz);
    }
    tally.tell("parquet");
}

fn sealed(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).unwrap();
    checkpoint::load(path)?;
    Model::load(path).map(drop)
}

/// Fixes the checksum first, so that what it seals is looked at.
fn sealed_again(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    const OPENING: &[u8] = br#"{"__metadata__":{"blake3":""#;
    let (start, end) = (8 + OPENING.len(), 8 + OPENING.len() + 64);
    let mut bytes = bytes.to_vec();
    if bytes.len() >= end {
        bytes[8..start].copy_from_slice(OPENING);
        bytes[start..end].fill(b'0');
        let digits = blake3::hash(&bytes).to_hex();
        bytes[start..end].copy_from_slice(digits.as_bytes());
    }
    sealed(path, &bytes)
}

#[test]
fn seeds_of_safetensors_end_with_a_model_or_an_error() {
    let mut tally = Tally::default();
    for name in ["checkpoint-format-1.safetensors", "model-format-1.safetensors"] {
        tally.replay(&fixture(name), ".safetensors", sealed);
        tally.replay(&fixture(name), ".safetensors", sealed_again);
    }
    tally.tell("safetensors");
}

fn text(bytes: &[u8]) -> Result<&str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::input("no text"))
}

fn config(_: &Path, bytes: &[u8]) -> Result<(), Error> {
    RunConfig::parse(text(bytes)?, &[]).map(drop)
}

fn sheet(_: &Path, bytes: &[u8]) -> Result<(), Error> {
    Sheet::parse(text(bytes)?).map(drop)
}

fn world(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).unwrap();
    tabular::read(path, None).map(drop)
}

#[test]
fn seeds_of_toml_end_with_settings_or_an_error() {
    replay("toml", ".toml", &[config, sheet, world]);
}

/// The description of a Minari dataset.
#[cfg(feature = "hdf5")]
fn description(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path.with_file_name("metadata.json"), bytes).unwrap();
    let data = path.with_file_name("main_data.hdf5");
    std::fs::copy(fixture("minari-plain/data/main_data.hdf5"), &data).unwrap();
    rows(&data)
}

#[test]
fn seeds_of_json_end_with_a_world_or_an_error() {
    replay("json", ".json", &[world]);
    #[cfg(feature = "hdf5")]
    {
        let mut tally = Tally::default();
        tally.replay(&fixture("minari-plain/data/metadata.json"), ".json", description);
        tally.tell("metadata.json");
    }
}

fn table(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).unwrap();
    let keys = ["from", "states", "state", "step"];
    RowStream::open(path, &keys, 4).and_then(RowStream::all).map(drop)
}

fn metrics(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).unwrap();
    ledger::read(path).map(drop)
}

#[test]
fn seeds_of_csv_end_with_rows_or_an_error() {
    replay("csv", ".csv", &[table, metrics]);
}

/// Plain files that stay on disk are read by another way.
fn on_disk(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).unwrap();
    load(path, &Choices::default(), Memory(100)).map(drop)
}

#[test]
fn seeds_read_by_way_of_the_disk_end_with_rows_or_an_error() {
    let mut tally = Tally::default();
    tally.replay(&fixture("plain.npz"), ".npz", on_disk);
    tally.tell("npz on disk");
}
