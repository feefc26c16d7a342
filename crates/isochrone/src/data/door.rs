//! The door: a file or a folder → its [`Format`] → [`RawRows`] → a [`Dataset`].

use std::path::{Path, PathBuf};

use super::dataset::Dataset;
use super::format::{Container, Format};
use super::large;
use super::memory::Memory;
use super::npz::{NpzReader, refuse_pickle_by_name};
use super::raw::RawRows;
use super::reader::{Choices, Reader};
use crate::error::{Error, Result};

/// Trajectories opened for training.
#[derive(Debug)]
pub struct Loaded {
    /// The trajectories, in memory or on disk.
    pub dataset: Dataset,
    /// The format of the file.
    pub format: Format,
    /// What was converted, dropped, left out or left on disk on the way; one sentence each.
    pub notes: Vec<String>,
    /// The held-out data that belong to it, if they are next to it: `a-val.npz` for `a.npz`.
    pub held_out: Option<PathBuf>,
}

/// Reads and checks trajectories; rows that do not fit into `memory` stay on disk.
///
/// All rows and the parts that they are split into must fit. Otherwise an npz file that is not packed
/// is read in place; others are first unpacked to the user's cache folder, once.
///
/// # Errors
/// As [`open`] and [`OpenedFile::into_dataset`]; a format that is read only into memory.
pub fn load(path: &Path, choices: &Choices, memory: Memory) -> Result<Loaded> {
    let in_file = |error: Error| error.in_file(path);
    let mut reader = reader(path, choices).map_err(in_file)?;
    if large::is_large(&*reader, memory) {
        return load_large(path, &mut *reader, choices, memory);
    }
    let mut opened = read(path, &mut *reader)?;
    let (notes, held_out) = (std::mem::take(&mut opened.notes), opened.held_out.take());
    Ok(Loaded { format: opened.format, dataset: opened.into_dataset()?, notes, held_out })
}

fn load_large(
    path: &Path,
    reader: &mut dyn Reader,
    choices: &Choices,
    memory: Memory,
) -> Result<Loaded> {
    let opened = large::open(reader, choices, memory);
    let (dataset, notes) = opened.map_err(|error| error.in_file(path))?;
    Ok(Loaded { dataset, format: reader.format(), notes, held_out: held_out(path) })
}

/// A file that was read, its values not checked yet.
#[derive(Debug)]
pub struct OpenedFile {
    /// What it holds.
    pub rows: RawRows,
    /// Its format.
    pub format: Format,
    /// What was converted, dropped or left out on the way; one sentence each.
    pub notes: Vec<String>,
    /// The held-out data that belong to it, if they are next to it: `a-val.npz` for `a.npz`.
    pub held_out: Option<PathBuf>,
    path: PathBuf,
}

impl OpenedFile {
    /// Checks every value.
    ///
    /// # Errors
    /// What [`Dataset::new`] refuses, with the file.
    pub fn into_dataset(self) -> Result<Dataset> {
        self.rows.check().map_err(|error| error.in_file(&self.path))
    }
}

/// Reads trajectories from a file, or from the folder of a Minari or LeRobot dataset.
///
/// The format is told by the content. Whatever the file holds, reading ends with rows or with an
/// error, in memory bounded by the file's own size and what its packed bytes can hold.
///
/// # Errors
/// A path that cannot be opened, an unknown format, and everything that the readers refuse.
pub fn open(path: &Path, choices: &Choices) -> Result<OpenedFile> {
    let mut reader = reader(path, choices).map_err(|error| error.in_file(path))?;
    read(path, &mut *reader)
}

/// Like [`open`]; if the rows do not fit into `memory`, whole trajectories, drawn at random, that do.
///
/// # Errors
/// As [`open`]; if the rows do not fit, also values that training refuses.
pub fn open_sample(path: &Path, choices: &Choices, memory: Memory) -> Result<OpenedFile> {
    let mut reader = reader(path, choices).map_err(|error| error.in_file(path))?;
    if !large::is_large(&*reader, memory) {
        return read(path, &mut *reader);
    }
    let Loaded { dataset, format, mut notes, held_out } =
        load_large(path, &mut *reader, choices, memory)?;
    let sample = dataset.in_memory()?;
    notes.push(format!(
        "only {} of {} trajectories, drawn at random, are inspected: more do not fit into memory",
        sample.trajectories(),
        dataset.trajectories()
    ));
    Ok(OpenedFile { rows: RawRows::of(&sample), format, notes, held_out, path: path.to_path_buf() })
}

fn read(path: &Path, reader: &mut dyn Reader) -> Result<OpenedFile> {
    let mut notes = Vec::new();
    let rows = reader.read(&mut notes).map_err(|error| error.in_file(reader.path()))?;
    let format = reader.format();
    let held_out = (format == Format::Npz).then(|| held_out(path)).flatten();
    Ok(OpenedFile { rows, format, notes, held_out, path: path.to_path_buf() })
}

/// The reader of a path, after a look at its content.
pub(super) fn reader(path: &Path, choices: &Choices) -> Result<Box<dyn Reader>> {
    refuse_pickle_by_name(path)?;
    let reader = match Container::sniff(path)? {
        Container::Npz(path) => Box::new(NpzReader::open(&path)?),
        Container::Hdf5(path) => open_hdf5(&path, choices).map_err(|error| error.in_file(&path))?,
        Container::Parquet(path) => open_parquet(&path)?,
    };
    if choices.keys.is_empty() || reader.format() == Format::Minari {
        return Ok(reader);
    }
    Err(Error::input(format!("keys are chosen in Minari files, this is {}", reader.format()))
        .hint("leave `--keys` out"))
}

#[cfg(feature = "hdf5")]
fn open_hdf5(path: &Path, choices: &Choices) -> Result<Box<dyn Reader>> {
    use super::d4rl::D4rlReader;
    use super::hdf5::{Guarded, Hdf5, guarded};
    use super::minari::{self, MinariReader};
    guarded(|| {
        let file = Hdf5::open(path)?;
        Ok(if minari::is(&file)? {
            Box::new(Guarded(MinariReader::open(path, file, choices)?)) as Box<dyn Reader>
        } else {
            Box::new(Guarded(D4rlReader::open(path, file)?))
        })
    })
}

#[cfg(not(feature = "hdf5"))]
fn open_hdf5(_: &Path, _: &Choices) -> Result<Box<dyn Reader>> {
    Err(Error::input("this build does not read HDF5")
        .hint("build it with the feature: `cargo build --release --features hdf5`"))
}

#[cfg(feature = "parquet")]
fn open_parquet(path: &Path) -> Result<Box<dyn Reader>> {
    Ok(Box::new(super::lerobot::LeRobotReader::new(path)))
}

#[cfg(not(feature = "parquet"))]
fn open_parquet(_: &Path) -> Result<Box<dyn Reader>> {
    Err(Error::input("this build does not read parquet")
        .hint("build it with the feature: `cargo build --release --features parquet`"))
}

fn held_out(path: &Path) -> Option<PathBuf> {
    path.extension().filter(|ending| ending.eq_ignore_ascii_case("npz"))?;
    let stem = path.file_stem()?.to_str()?;
    let beside = path.with_file_name(format!("{stem}-val.npz"));
    beside.is_file().then_some(beside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
    }

    fn opened(path: &Path) -> OpenedFile {
        open(path, &Choices::default()).unwrap()
    }

    #[test]
    fn a_format_is_told_by_content_whatever_the_name() {
        let folder = TempDir::new().unwrap();
        for (name, format) in [
            ("plain.npz", Format::Npz),
            ("ogbench.npz", Format::Npz),
            #[cfg(feature = "hdf5")]
            ("d4rl-bool.hdf5", Format::D4rl),
            #[cfg(feature = "hdf5")]
            ("minari-plain/data/main_data.hdf5", Format::Minari),
        ] {
            let path = folder.path().join("data.bin");
            std::fs::copy(fixture(name), &path).unwrap();
            assert_eq!(opened(&path).format, format, "{name}");
        }
        #[cfg(feature = "hdf5")]
        for name in ["minari-plain", "minari-plain/data"] {
            assert_eq!(opened(&fixture(name)).format, Format::Minari, "{name}");
        }
        let complaint = |path: &Path| open(path, &Choices::default()).unwrap_err().to_string();
        let empty = complaint(folder.path());
        assert!(empty.contains("no known dataset") && empty.contains("main_data.hdf5"), "{empty}");
        let path = folder.path().join("frames");
        std::fs::write(&path, b"PAR1....PAR1").unwrap();
        assert!(complaint(&path).contains("parquet"));
        let none = complaint(&folder.path().join("none"));
        assert!(none.contains("cannot open the file") && none.contains("none"), "{none}");
    }

    #[cfg(not(feature = "hdf5"))]
    #[test]
    fn a_build_without_hdf5_names_the_feature() {
        let error = open(&fixture("d4rl-u8.hdf5"), &Choices::default()).unwrap_err().to_string();
        assert!(error.contains("does not read HDF5") && error.contains("--features hdf5"));
    }

    #[test]
    fn held_out_data_are_found_beside_the_file() {
        let folder = TempDir::new().unwrap();
        let (path, beside) = (folder.path().join("a.npz"), folder.path().join("a-val.npz"));
        std::fs::copy(fixture("plain.npz"), &path).unwrap();
        assert_eq!(opened(&path).held_out, None);
        std::fs::copy(fixture("plain.npz"), &beside).unwrap();
        assert_eq!(opened(&path).held_out, Some(beside.clone()));
        assert_eq!(opened(&beside).held_out, None);
    }

    #[cfg(feature = "hdf5")]
    #[test]
    fn numbers_of_64_bits_are_said_to_be_rounded() {
        for name in ["float64.npz", "d4rl-f64.hdf5", "minari-dict"] {
            let notes = opened(&fixture(name)).notes;
            assert!(notes.iter().any(|note| note.contains("rounded to 32 bits")), "{notes:?}");
        }
        assert_eq!(opened(&fixture("plain.npz")).notes, Vec::<String>::new());
    }

    #[cfg(feature = "hdf5")]
    #[test]
    fn keys_are_chosen_only_where_there_are_several() {
        let choices = Choices { keys: vec!["observation".into()] };
        for name in ["plain.npz", "d4rl-u8.hdf5", "minari-plain"] {
            let error = open(&fixture(name), &choices).unwrap_err().to_string();
            assert!(error.contains("leave `--keys` out"), "{error}");
        }
    }
}
