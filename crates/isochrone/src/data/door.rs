//! The door: a file or a folder → its format, told by its content → [`Rows`] → a [`Dataset`].
//!
//! | first bytes, or what a folder holds | format |
//! |---|---|
//! | a zip's directory | npz, as OGBench writes it |
//! | `\x89HDF`, `observations` at its root | D4RL |
//! | `\x89HDF`, `episode_0`, … at its root; or `data/main_data.hdf5` in the folder | Minari |
//! | `PAR1`; or `meta/info.json` in the folder | LeRobot |

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::large::Large;
use super::{Dataset, Memory, d4rl, hdf5::Hdf5, minari, npz};
use crate::error::{Error, Result};

/// What a file of trajectories can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A NumPy archive, as OGBench lays it out.
    Npz,
    /// One flat HDF5 file.
    D4rl,
    /// One HDF5 file with a group for each episode.
    Minari,
    /// Parquet files with a row for each frame.
    LeRobot,
}

impl Format {
    /// Every format that is written.
    pub const WRITTEN: [Self; 1] = [Self::Npz];

    /// The format of a file that is to be written, by its ending.
    pub fn by_ending(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "npz" => Some(Self::Npz),
            "hdf5" | "h5" => Some(Self::D4rl),
            "parquet" => Some(Self::LeRobot),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Npz => "OGBench npz",
            Self::D4rl => "D4RL hdf5",
            Self::Minari => "Minari hdf5",
            Self::LeRobot => "LeRobot parquet",
        })
    }
}

/// What to take from a file that offers a choice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices {
    /// The observations that make a state, in this order, where a file holds several by name.
    /// None takes all but `desired_goal`, which is the task and no part of the state, by name.
    pub keys: Vec<String>,
}

/// Trajectories as a file holds them: shapes agree, values are not looked at yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// Rows × `state_size`.
    pub states: Vec<f32>,
    /// Numbers in a state.
    pub state_size: usize,
    /// What the file calls its states.
    pub states_key: String,
    /// Rows × `action_size`; empty without actions.
    pub actions: Vec<f32>,
    /// Numbers in an action; 0 without actions.
    pub action_size: usize,
    /// Whether an action is one whole number that says which was taken, from 0.
    pub discrete: bool,
    /// Rows of each trajectory, in order.
    pub lengths: Vec<usize>,
}

impl Rows {
    /// How many rows.
    pub fn count(&self) -> usize {
        self.states.len() / self.state_size.max(1)
    }

    /// The rows of data in memory.
    fn of(dataset: &Dataset) -> Self {
        let (mut actions, mut action_size) = (dataset.actions().to_vec(), dataset.action_size());
        let discrete = dataset.choices().is_some();
        if discrete {
            let taken = |row: &[f32]| row.iter().position(|&x| x == 1.0).unwrap_or_default() as f32;
            actions = actions.chunks_exact(action_size).map(taken).collect();
            action_size = 1;
        }
        Self {
            states: dataset.states().to_vec(),
            state_size: dataset.state_size(),
            states_key: "observations".into(),
            actions,
            action_size,
            discrete,
            lengths: dataset.lengths().collect(),
        }
    }

    /// Which action each row took.
    fn choices(&self) -> Result<Vec<u32>> {
        let each = self.actions.iter().enumerate();
        each.map(|(row, &value)| choice(row, f64::from(value))).collect()
    }

    /// Looks at every value.
    ///
    /// # Errors
    /// What [`Dataset::new`] refuses, by the file's own keys.
    pub fn check(self) -> Result<Dataset> {
        if self.discrete {
            let choices = self.choices()?;
            let count = choices.iter().max().map_or(0, |&choice| choice as usize + 1);
            let choices = (&choices[..], count);
            return Dataset::with_choices(self.states, self.state_size, choices, &self.lengths);
        }
        let actions = (self.action_size > 0).then_some((self.actions, self.action_size));
        Dataset::named(&self.states_key, self.states, self.state_size, actions, &self.lengths)
    }
}

/// The action that row `row` says was taken.
pub(super) fn choice(row: usize, value: f64) -> Result<u32> {
    if value >= 0.0 && value.fract() == 0.0 {
        return Ok(value as u32);
    }
    Err(Error::input(format!("`actions` row {row} is `{value}`, expected 0 or more"))
        .hint("number the actions from 0; the last row of a trajectory may repeat any of them"))
}

/// Trajectories that were opened to be learned from.
#[derive(Debug)]
pub struct Loaded {
    /// The trajectories, in memory or in a file.
    pub dataset: Dataset,
    /// What the file is.
    pub format: Format,
    /// What was converted, dropped, left out or left on disk on the way; one sentence each.
    pub notes: Vec<String>,
    /// The held-out data that belong to it, where they lie beside it: `a-val.npz` of `a.npz`.
    pub held_out: Option<PathBuf>,
}

/// As [`open`] and a look at every value; rows that do not fit into `memory` stay on disk.
///
/// All rows and the parts that they are split into must fit. Otherwise an npz file that is not packed
/// is read where it lies; others are first written so into the user's cache folder, once.
///
/// # Errors
/// As [`open`] and [`Opened::into_dataset`]; a format that is read only into memory.
pub fn load(path: &Path, choices: &Choices, memory: Memory) -> Result<Loaded> {
    if let Some(large) = Large::of(path, choices, memory).map_err(|error| error.in_file(path))? {
        let (dataset, notes) = large.open().map_err(|error| error.in_file(path))?;
        return Ok(Loaded { dataset, format: large.format, notes, held_out: held_out(path) });
    }
    let mut opened = open(path, choices)?;
    let (notes, held_out) = (std::mem::take(&mut opened.notes), opened.held_out.take());
    Ok(Loaded { format: opened.format, dataset: opened.into_dataset()?, notes, held_out })
}

/// As [`open`]; of rows that do not fit into `memory` whole trajectories, drawn at random, that do.
///
/// # Errors
/// As [`open`]; of rows that do not fit, also values that training refuses.
pub fn open_sample(path: &Path, choices: &Choices, memory: Memory) -> Result<Opened> {
    if Large::of(path, choices, memory).map_err(|error| error.in_file(path))?.is_none() {
        return open(path, choices);
    }
    let Loaded { dataset, format, mut notes, held_out } = load(path, choices, memory)?;
    let sample = dataset.in_memory()?;
    notes.push(format!(
        "{} of {} trajectories, drawn at random, are looked at: more do not fit into memory",
        sample.trajectories(),
        dataset.trajectories()
    ));
    Ok(Opened { rows: Rows::of(&sample), format, notes, held_out, path: path.to_path_buf() })
}

/// A file that was read.
#[derive(Debug)]
pub struct Opened {
    /// What it holds.
    pub rows: Rows,
    /// What it is.
    pub format: Format,
    /// What was converted, dropped or left out on the way; one sentence each.
    pub notes: Vec<String>,
    /// The held-out data that belong to it, where they lie beside it: `a-val.npz` of `a.npz`.
    pub held_out: Option<PathBuf>,
    path: PathBuf,
}

impl Opened {
    /// Looks at every value.
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
/// A path that cannot be opened, a format that is not known, and all that the readers refuse.
pub fn open(path: &Path, choices: &Choices) -> Result<Opened> {
    let mut notes = Vec::new();
    let (rows, format) = read(path, choices, &mut notes).map_err(|error| error.in_file(path))?;
    let held_out = (format == Format::Npz).then(|| held_out(path)).flatten();
    Ok(Opened { rows, format, notes, held_out, path: path.to_path_buf() })
}

fn read(path: &Path, choices: &Choices, notes: &mut Vec<String>) -> Result<(Rows, Format)> {
    npz::refuse_pickle_by_name(path)?;
    if path.is_dir() {
        return read_folder(path, choices, notes);
    }
    let (rows, format) = match first_bytes(path)? {
        [b'P', b'A', b'R', b'1', ..] => (read_lerobot(path, notes)?, Format::LeRobot),
        [0x89, b'H', b'D', b'F', b'\r', b'\n', 0x1a, b'\n'] => {
            let file = Hdf5::open(path)?;
            if minari::is(&file)? {
                return Ok((minari::read(&file, path, choices, notes)?, Format::Minari));
            }
            (d4rl::read(&file, notes)?, Format::D4rl)
        }
        _ => (npz::read_rows(path, notes)?, Format::Npz),
    };
    if choices.keys.is_empty() {
        return Ok((rows, format));
    }
    Err(Error::input(format!("keys are chosen in Minari files, this is {format}"))
        .hint("leave `--keys` out"))
}

fn read_folder(path: &Path, choices: &Choices, notes: &mut Vec<String>) -> Result<(Rows, Format)> {
    if let Some(file) = minari::file_of(path) {
        let opened = Hdf5::open(&file).map_err(|error| error.in_file(&file))?;
        let rows = minari::read(&opened, &file, choices, notes);
        return Ok((rows.map_err(|error| error.in_file(&file))?, Format::Minari));
    }
    if path.join("meta/info.json").is_file() {
        return Ok((read_lerobot(path, notes)?, Format::LeRobot));
    }
    Err(Error::input("the folder is no dataset that is known").hint(
        "name a file; a folder of Minari holds `data/main_data.hdf5`, one of LeRobot \
         `meta/info.json`",
    ))
}

/// The first eight bytes; fewer where the file is shorter.
pub(super) fn first_bytes(path: &Path) -> Result<[u8; 8]> {
    let mut first = [0; 8];
    let mut file = open_file(path)?;
    let mut filled = 0;
    while filled < first.len() {
        match file.read(&mut first[filled..]) {
            Ok(0) | Err(_) => break,
            Ok(count) => filled += count,
        }
    }
    Ok(first)
}

/// Opens a plain file: a pipe or a device could be read for ever.
pub(super) fn open_file(path: &Path) -> Result<File> {
    let refused = |error: std::io::Error| {
        Error::input(format!("cannot open the file: {}", error.to_string().to_lowercase()))
            .hint("check the name and that it may be read")
    };
    if !std::fs::metadata(path).map_err(refused)?.is_file() {
        return Err(Error::input("expected a plain file")
            .hint("a pipe or a device is not read; save to a file first"));
    }
    File::open(path).map_err(refused)
}

fn held_out(path: &Path) -> Option<PathBuf> {
    path.extension().filter(|ending| ending.eq_ignore_ascii_case("npz"))?;
    let stem = path.file_stem()?.to_str()?;
    let beside = path.with_file_name(format!("{stem}-val.npz"));
    beside.is_file().then_some(beside)
}

#[cfg(feature = "parquet")]
fn read_lerobot(path: &Path, notes: &mut Vec<String>) -> Result<Rows> {
    super::lerobot::read(path, notes)
}

#[cfg(not(feature = "parquet"))]
fn read_lerobot(_: &Path, _: &mut Vec<String>) -> Result<Rows> {
    Err(Error::input("this build reads no parquet")
        .hint("build it with the feature: `cargo build --release --features parquet`"))
}

/// The complaint about a key that is not there, with the keys that are and the nearest of them.
pub(super) fn missing(key: &str, found: &[&str], nearest: Option<&str>, otherwise: &str) -> Error {
    /// Most keys listed.
    const LISTED: usize = 20;
    let shown = |name: &&str| format!("`{}`", name.chars().take(40).collect::<String>());
    let mut list = found.iter().take(LISTED).map(shown).collect::<Vec<_>>().join(", ");
    if found.len() > LISTED {
        list += &format!(" and {} more", found.len() - LISTED);
    }
    if found.is_empty() {
        list = "no arrays".into();
    }
    let hint = match nearest {
        Some(near) => format!("is `{near}` meant? save it as `{key}`"),
        None => otherwise.to_owned(),
    };
    Error::input(format!("no key `{key}`, found {list}")).hint(hint)
}

/// Refuses a key that has another number of rows than the states.
pub(super) fn same_rows(key: &str, found: usize, states: &str, rows: usize) -> Result<()> {
    if found == rows {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` has {found} rows, `{states}` has {rows}"))
        .hint("every key has one row for each state, the last of a trajectory included"))
}

/// The sentence about numbers of 64 bits.
pub(super) fn narrowed(key: &str) -> String {
    format!("`{key}` holds 64-bit numbers; they are rounded to 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
    }

    fn opened(path: &Path) -> Opened {
        open(path, &Choices::default()).unwrap()
    }

    #[test]
    fn a_format_is_told_by_content_whatever_the_name() {
        let folder = TempDir::new().unwrap();
        for (name, format) in [
            ("plain.npz", Format::Npz),
            ("ogbench.npz", Format::Npz),
            ("d4rl-bool.hdf5", Format::D4rl),
            ("minari-plain/data/main_data.hdf5", Format::Minari),
        ] {
            let path = folder.path().join("data.bin");
            std::fs::copy(fixture(name), &path).unwrap();
            assert_eq!(opened(&path).format, format, "{name}");
        }
        for name in ["minari-plain", "minari-plain/data"] {
            assert_eq!(opened(&fixture(name)).format, Format::Minari, "{name}");
        }
        let complaint = |path: &Path| open(path, &Choices::default()).unwrap_err().to_string();
        let empty = complaint(folder.path());
        assert!(empty.contains("no dataset") && empty.contains("main_data.hdf5"), "{empty}");
        let path = folder.path().join("frames");
        std::fs::write(&path, b"PAR1....PAR1").unwrap();
        assert!(complaint(&path).contains("parquet"));
        let none = complaint(&folder.path().join("none"));
        assert!(none.contains("cannot open the file") && none.contains("none"), "{none}");
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

    #[test]
    fn numbers_of_64_bits_are_said_to_be_rounded() {
        for name in ["float64.npz", "d4rl-f64.hdf5", "minari-dict"] {
            let notes = opened(&fixture(name)).notes;
            assert!(notes.iter().any(|note| note.contains("rounded to 32 bits")), "{notes:?}");
        }
        assert_eq!(opened(&fixture("plain.npz")).notes, Vec::<String>::new());
    }

    #[test]
    fn keys_are_chosen_only_where_there_are_several() {
        let choices = Choices { keys: vec!["observation".into()] };
        for name in ["plain.npz", "d4rl-u8.hdf5", "minari-plain"] {
            let error = open(&fixture(name), &choices).unwrap_err().to_string();
            assert!(error.contains("leave `--keys` out"), "{error}");
        }
    }
}
