//! The door: a file, a folder or a pattern → its [`Format`] → [`RawRows`] → a [`Dataset`].

use std::path::{Path, PathBuf};

use super::dataset::Dataset;
use super::format::{Container, Format};
use super::large;
use super::memory::Memory;
use super::npz::{NpzReader, refuse_pickle_by_name};
use super::raw::RawRows;
use super::reader::{Choices, Reader, Widths};
use super::shards;
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
    /// The held-out data that belong to it, if they are next to it: `a-val.npz` for `a.npz`; for many
    /// files a pattern.
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
    let mut readers = readers(path, choices).map_err(|error| error.in_file(path))?;
    if large::is_large(&readers, memory) {
        return load_large(path, &mut readers, choices, memory);
    }
    let mut opened = read(path, &mut readers)?;
    let (notes, held_out) = (std::mem::take(&mut opened.notes), opened.held_out.take());
    Ok(Loaded { format: opened.format, dataset: opened.into_dataset()?, notes, held_out })
}

fn load_large(
    path: &Path,
    readers: &mut [Box<dyn Reader>],
    choices: &Choices,
    memory: Memory,
) -> Result<Loaded> {
    let opened = large::open(path, readers, choices, memory);
    let (dataset, notes) = opened.map_err(|error| error.in_file(path))?;
    let format = readers[0].format();
    Ok(Loaded { dataset, format, notes, held_out: held_out(path, format) })
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
    /// The held-out data that belong to it, if they are next to it: `a-val.npz` for `a.npz`; for many
    /// files a pattern.
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

/// The files that the data at `path` are read from: those of a folder or a pattern, else one.
///
/// # Errors
/// A path that cannot be opened, a folder that holds no data, a pattern that names none.
pub fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    let container = Container::sniff(path).map_err(|error| error.in_file(path))?;
    Ok(match container {
        Container::Npz(file) | Container::Hdf5(file) | Container::Parquet(file) => vec![file],
        Container::Shards(files) => files,
    })
}

/// Reads trajectories from a file, the folder of a Minari or LeRobot dataset, or many files: a folder
/// or a pattern (`logs/part-*.npz`), in the order of their names.
///
/// The format is told by the content. Whatever a file holds, reading ends with rows or with an
/// error, in memory bounded by the file's own size and what its packed bytes can hold.
///
/// # Errors
/// A path that cannot be opened, an unknown format, files that do not belong together, and everything
/// that the readers refuse.
pub fn open(path: &Path, choices: &Choices) -> Result<OpenedFile> {
    let mut readers = readers(path, choices).map_err(|error| error.in_file(path))?;
    read(path, &mut readers)
}

/// Like [`open`]; if the rows do not fit into `memory`, whole trajectories, drawn at random, that do.
///
/// # Errors
/// As [`open`]; if the rows do not fit, also values that training refuses.
pub fn open_sample(path: &Path, choices: &Choices, memory: Memory) -> Result<OpenedFile> {
    let mut readers = readers(path, choices).map_err(|error| error.in_file(path))?;
    if !large::is_large(&readers, memory) {
        return read(path, &mut readers);
    }
    let Loaded { dataset, format, mut notes, held_out } =
        load_large(path, &mut readers, choices, memory)?;
    let sample = dataset.in_memory()?;
    notes.push(format!(
        "only {} of {} trajectories, drawn at random, are inspected: more do not fit into memory",
        sample.trajectories(),
        dataset.trajectories()
    ));
    Ok(OpenedFile { rows: RawRows::of(&sample), format, notes, held_out, path: path.to_path_buf() })
}

fn read(path: &Path, readers: &mut [Box<dyn Reader>]) -> Result<OpenedFile> {
    let (mut parts, mut of_files) = (Vec::new(), Vec::new());
    for reader in readers.iter_mut() {
        let (file, mut notes) = (reader.path().to_path_buf(), Vec::new());
        let rows = reader.read(&mut notes).map_err(|error| error.in_file(&file))?;
        parts.push((file.clone(), rows));
        of_files.push((file, notes));
    }
    let format = readers[0].format();
    let rows = if parts.len() == 1 { parts.remove(0).1 } else { RawRows::joined(parts) };
    let (notes, held_out) = (shards::joined_notes(&of_files), held_out(path, format));
    Ok(OpenedFile { rows, format, notes, held_out, path: path.to_path_buf() })
}

pub(super) fn held_out(path: &Path, format: Format) -> Option<PathBuf> {
    (format == Format::Npz).then(|| shards::held_out(path)).flatten()
}

/// The readers of a path, after a look at its content: one, or one for each of many files.
pub(super) fn readers(path: &Path, choices: &Choices) -> Result<Vec<Box<dyn Reader>>> {
    refuse_pickle_by_name(path)?;
    match Container::sniff(path)? {
        Container::Shards(files) => of_shards(path, files, choices),
        container => Ok(vec![reader(container, choices)?]),
    }
}

/// The readers of many files, which must be of one format and have rows of the same sizes.
fn of_shards(path: &Path, files: Vec<PathBuf>, choices: &Choices) -> Result<Vec<Box<dyn Reader>>> {
    let mut readers: Vec<Box<dyn Reader>> = Vec::new();
    for file in &files {
        let opened = refuse_pickle_by_name(file)
            .and_then(|()| Container::sniff(file))
            .and_then(|container| reader(container, choices))
            .map_err(|error| error.in_file(file))?;
        if let Some(first) = readers.first() {
            let (one, other) = (first.format(), opened.format());
            if one != other {
                let (first, file) = (first.path().display(), file.display());
                return Err(Error::input(format!("`{first}` is {one}, but `{file}` is {other}"))
                    .hint("name files of one format by a pattern, such as `logs/*.npz`"));
            }
            if let (Some(one), Some(other)) = (first.widths(), opened.widths()) {
                Widths::agree((first.path(), one), (file, other))?;
            }
        }
        readers.push(opened);
    }
    if readers[0].format() == Format::LeRobot {
        return parquet_shards(path, files).map(|reader| vec![reader]);
    }
    Ok(readers)
}

/// The reader of a single dataset.
fn reader(container: Container, choices: &Choices) -> Result<Box<dyn Reader>> {
    let reader = match container {
        Container::Npz(path) => Box::new(NpzReader::open(&path)?),
        Container::Hdf5(path) => open_hdf5(&path, choices).map_err(|error| error.in_file(&path))?,
        Container::Parquet(path) => open_parquet(&path)?,
        Container::Shards(_) => return Err(Error::input("expected a file of trajectories")),
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
    use super::guarded::guarded;
    use super::hdf5::{Guarded, Hdf5};
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

#[cfg(feature = "parquet")]
fn parquet_shards(path: &Path, files: Vec<PathBuf>) -> Result<Box<dyn Reader>> {
    Ok(Box::new(super::lerobot::LeRobotReader::of_shards(path, files)))
}

#[cfg(not(feature = "parquet"))]
fn parquet_shards(path: &Path, _: Vec<PathBuf>) -> Result<Box<dyn Reader>> {
    open_parquet(path)
}

#[cfg(not(feature = "parquet"))]
fn open_parquet(_: &Path) -> Result<Box<dyn Reader>> {
    Err(Error::input("this build does not read parquet")
        .hint("build it with the feature: `cargo build --release --features parquet`"))
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
