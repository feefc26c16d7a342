//! Data that are larger than the memory they may take: their rows stay on disk.
//!
//! A plain npz file (not packed, 32-bit floats) is read where it lies, after one pass over it that
//! compares its checksums and looks at every value. Other files are first written as such a file into
//! the user's cache folder, a piece at a time. It is named after the source's path, length, time of
//! change, first and last bytes, and used again as long as these are the same.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::archive::Archive;
use super::door::{choice, first_bytes, narrowed, open_file, same_rows};
use super::hdf5::Hdf5;
use super::npz::{self, ACTIONS, Writer};
use super::store::{self, Disk, Store, Table};
use super::{
    Choices, Dataset, Format, Memory, check_choices, check_numbers, d4rl, minari, npy, rounded,
};
use crate::cache;
use crate::error::{Error, Result};

/// A file whose rows do not fit into the memory they may take.
pub(super) struct Large<'a> {
    path: &'a Path,
    choices: &'a Choices,
    memory: Memory,
    pub(super) format: Format,
    /// Bytes that its rows would take.
    bytes: u64,
    /// Where files that were unpacked are kept.
    cache: Option<PathBuf>,
}

impl<'a> Large<'a> {
    /// The file, where its rows do not fit; files that cannot be read are the readers' to refuse.
    pub(super) fn of(path: &'a Path, choices: &'a Choices, memory: Memory) -> Result<Option<Self>> {
        npz::refuse_pickle_by_name(path)?;
        let Ok((format, bytes)) = needed(path, choices) else { return Ok(None) };
        let fits = bytes.saturating_mul(2) <= memory.0;
        let cache = cache::folder("data");
        Ok((!fits).then_some(Self { path, choices, memory, format, bytes, cache }))
    }

    /// Opens the data where they lie, or where they are unpacked to.
    pub(super) fn open(&self) -> Result<(Dataset, Vec<String>)> {
        let mut notes = vec![format!(
            "the data take {}, more than half of the {} that they may (`data.memory`): they stay on \
             disk",
            rounded(self.bytes),
            rounded(self.memory.0)
        )];
        if self.format == Format::LeRobot {
            return Err(Error::memory(format!(
                "the data take {}, and {} is read only into memory, of which {} may be used",
                rounded(self.bytes),
                self.format,
                rounded(self.memory.0)
            ))
            .hint("raise `data.memory`, or convert the data where there is more of it"));
        }
        if self.format == Format::Npz {
            let mut plan = Plan::of(self.path, &mut notes)?;
            if let Some(tables) = plan.tables() {
                plan.check()?;
                return Ok((plan.dataset(self.path, tables, self.memory)?, notes));
            }
        }
        let kept = self.kept()?;
        if let Ok(dataset) = self.reopened(&kept) {
            notes.push(format!("they were unpacked before, to {}", kept.display()));
            return Ok((dataset, notes));
        }
        self.unpack(&kept, &mut notes)?;
        notes.push(format!("they are unpacked to {}, once", kept.display()));
        let dataset = self.reopened(&kept).map_err(|error| error.in_file(&kept))?;
        Ok((dataset, notes))
    }

    /// Where the data are unpacked to.
    fn kept(&self) -> Result<PathBuf> {
        let none = || {
            Error::input("there is no folder to unpack large data to")
                .hint("set `XDG_CACHE_HOME` or `HOME`, or raise `data.memory`")
        };
        let folder = self.cache.as_ref().ok_or_else(none)?;
        Ok(folder.join(format!("{}.npz", self.name()?)))
    }

    /// A name for the source as it is now.
    fn name(&self) -> Result<String> {
        /// Bytes that are looked at, at either end.
        const ENDS: u64 = 1 << 16;
        let path = minari::file_of(self.path).unwrap_or_else(|| self.path.to_path_buf());
        let mut file = open_file(&path)?;
        let refused = |error| Error::input(format!("cannot read the file: {error}"));
        let about = file.metadata().map_err(refused)?;
        let mut hasher = blake3::Hasher::new();
        let place = std::fs::canonicalize(&path).unwrap_or(path);
        hasher.update(place.as_os_str().as_encoded_bytes());
        hasher.update(format!("{:?}{:?}", about.modified().ok(), self.choices.keys).as_bytes());
        hasher.update(&about.len().to_le_bytes());
        for start in [0, about.len().saturating_sub(ENDS)] {
            let mut bytes = Vec::new();
            file.seek(SeekFrom::Start(start)).map_err(refused)?;
            file.by_ref().take(ENDS).read_to_end(&mut bytes).map_err(refused)?;
            hasher.update(&bytes);
        }
        Ok(hasher.finalize().to_hex()[..32].to_owned())
    }

    fn reopened(&self, kept: &Path) -> Result<Dataset> {
        let mut plan = Plan::of(kept, &mut Vec::new())?;
        let tables = plan.tables().ok_or_else(|| Error::input("the file is packed"))?;
        plan.check()?;
        plan.dataset(kept, tables, self.memory)
    }

    fn unpack(&self, kept: &Path, notes: &mut Vec<String>) -> Result<()> {
        let folder = kept.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| Error::disk("create", folder, error))?;
        let mut writer = Writer::create(kept)?;
        let lengths = match self.format {
            Format::Npz => Plan::of(self.path, &mut Vec::new())?.unpack(&mut writer)?,
            Format::D4rl => d4rl::unpack(&Hdf5::open(self.path)?, &mut writer, notes)?,
            Format::Minari | Format::LeRobot => {
                let path = minari::file_of(self.path).unwrap_or_else(|| self.path.to_path_buf());
                minari::unpack(&Hdf5::open(&path)?, &path, self.choices, &mut writer, notes)?
            }
        };
        writer.finish(lengths.into_iter())
    }
}

/// The format of a file, and the bytes that its rows would take in memory.
fn needed(path: &Path, choices: &Choices) -> Result<(Format, u64)> {
    if let Some(file) = path.is_dir().then(|| minari::file_of(path)).flatten() {
        return Ok((Format::Minari, minari::bytes(&Hdf5::open(&file)?, choices)?));
    }
    if path.is_dir() {
        return Ok((Format::LeRobot, folder_bytes(&path.join("data"))));
    }
    match first_bytes(path)? {
        [b'P', b'A', b'R', b'1', ..] => {
            let bytes = std::fs::metadata(path).map_or(0, |about| about.len());
            Ok((Format::LeRobot, bytes))
        }
        [0x89, b'H', b'D', b'F', b'\r', b'\n', 0x1a, b'\n'] => {
            let file = Hdf5::open(path)?;
            if minari::is(&file)? {
                return Ok((Format::Minari, minari::bytes(&file, choices)?));
            }
            Ok((Format::D4rl, d4rl::bytes(&file)?))
        }
        _ => {
            let plan = Plan::of_arrays(path)?;
            let actions = plan.actions.as_ref().map_or(0, Array::bytes);
            Ok((Format::Npz, plan.states.bytes().saturating_add(actions)))
        }
    }
}

/// The bytes of all files two folders deep.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries(folder).flat_map(|chunk| entries(&chunk.path()));
    files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
}

/// One array of an npz file, by its header.
struct Array {
    key: &'static str,
    entry: usize,
    rows: usize,
    size: usize,
    /// Whether a row is one whole number that says which action was taken.
    whole: bool,
    item: npy::Item,
    /// Where its numbers begin, where the entry is not packed.
    start: Option<u64>,
}

impl Array {
    fn of(archive: &mut Archive<File>, key: &'static str) -> Result<Option<Self>> {
        let Some(entry) = npz::find(archive, key) else { return Ok(None) };
        let entry_start = archive.plain_start(entry)?;
        archive.read(entry, |reader, about| {
            let header = npy::header(reader, key, about.size)?;
            let (rows, size, whole) = npz::shape_of(&header, key)?;
            let numbers = (rows * size * header.item.bytes()) as u64;
            let start = entry_start.map(|start| start + about.size - numbers);
            Ok(Some(Self { key, entry, rows, size, whole, item: header.item, start }))
        })
    }

    /// Bytes of its rows in memory, at least.
    fn bytes(&self) -> u64 {
        (self.rows as u64).saturating_mul(4 * self.size as u64)
    }

    /// Where the rows are read from, where they can be read where they lie.
    fn table(&self) -> Option<Table> {
        let plain = self.whole || self.item == npy::Item::Float32;
        let start = self.start.filter(|_| plain)?;
        let item = if self.whole { self.item } else { npy::Item::Float32 };
        Some(Table { start, size: self.size, item })
    }

    /// Gives all numbers to `take`, those of the first row first, and looks at each.
    fn each(
        &self,
        archive: &mut Archive<File>,
        mut take: impl FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        let mut before = 0;
        archive.read(self.entry, |reader, about| {
            let header = npy::header(reader, self.key, about.size)?;
            npy::each_number(reader, &header, self.key, &mut |numbers| {
                check_numbers(self.key, numbers, self.size, before, self.key == ACTIONS)?;
                before += numbers.len() as u64;
                take(numbers)
            })
        })
    }

    /// Gives which action each row took to `take`.
    fn each_choice(
        &self,
        archive: &mut Archive<File>,
        mut take: impl FnMut(u32) -> Result<()>,
    ) -> Result<()> {
        let mut row = 0;
        archive.read(self.entry, |reader, about| {
            let header = npy::header(reader, self.key, about.size)?;
            npy::each_wide(reader, &header, self.key, &mut |value| {
                let choice = choice(row, value)?;
                row += 1;
                take(choice)
            })
        })
    }
}

/// What an npz file holds, and where.
struct Plan {
    archive: Archive<File>,
    states: Array,
    actions: Option<Array>,
    lengths: Vec<usize>,
}

impl Plan {
    fn of(path: &Path, notes: &mut Vec<String>) -> Result<Self> {
        let mut plan = Self::of_arrays(path)?;
        let states = (plan.states.key, plan.states.rows);
        if let Some(actions) = &plan.actions {
            same_rows(ACTIONS, actions.rows, states.0, states.1)?;
        }
        let wide = |array: &&Array| array.item == npy::Item::Float64;
        let arrays = [Some(&plan.states), plan.actions.as_ref()].into_iter().flatten();
        notes.extend(arrays.filter(wide).map(|array| narrowed(array.key)));
        plan.lengths = npz::read_lengths(&mut plan.archive, states, notes)?;
        Ok(plan)
    }

    /// The arrays, without a look at where trajectories end.
    fn of_arrays(path: &Path) -> Result<Self> {
        let mut archive = Archive::open(path)?;
        let key = npz::check(&mut archive)?;
        let missing = || Error::input(format!("no key `{key}`"));
        let states = Array::of(&mut archive, key)?.ok_or_else(missing)?;
        let actions = Array::of(&mut archive, ACTIONS)?;
        Ok(Self { archive, states, actions, lengths: Vec::new() })
    }

    /// Where rows are read from; none where the file must be unpacked first.
    fn tables(&self) -> Option<[Table; 2]> {
        let actions = self.actions.as_ref().map_or(Some(Table::NONE), Array::table)?;
        Some([self.states.table()?, actions])
    }

    /// Looks at every value and at the checksums, and counts the actions there are to choose from.
    fn check(&mut self) -> Result<()> {
        self.states.each(&mut self.archive, |_| Ok(()))?;
        match &mut self.actions {
            Some(actions) if actions.whole => {
                let mut most = 0;
                actions.each_choice(&mut self.archive, |choice| {
                    most = most.max(choice as usize + 1);
                    Ok(())
                })?;
                check_choices(most)?;
                actions.size = most;
                Ok(())
            }
            Some(actions) => actions.each(&mut self.archive, |_| Ok(())),
            None => Ok(()),
        }
    }

    fn dataset(&self, path: &Path, tables: [Table; 2], memory: Memory) -> Result<Dataset> {
        let [states, actions] = tables;
        let size = self.actions.as_ref().map_or(0, |actions| actions.size);
        let disk = Disk {
            file: Arc::new(store::Opened { file: open_file(path)?, path: path.to_path_buf() }),
            states,
            actions: Table { size, ..actions },
            origins: super::first_rows(&self.lengths).into(),
            memory: memory.0,
            standard: Arc::default(),
        };
        let dataset = Dataset::of(Store::Disk(disk), (self.states.size, size), &self.lengths)?;
        let one_hot = self.actions.as_ref().is_some_and(|actions| actions.whole);
        Ok(Dataset { one_hot, ..dataset })
    }

    /// Writes the same data plainly; the rows of each trajectory.
    fn unpack(mut self, writer: &mut Writer) -> Result<Vec<usize>> {
        let (archive, states) = (&mut self.archive, &self.states);
        writer.states([states.rows, states.size], |take| states.each(archive, take))?;
        match &self.actions {
            Some(actions) if actions.whole => {
                writer.choices(actions.rows, |take| actions.each_choice(archive, take))?;
            }
            Some(actions) => {
                writer.actions([actions.rows, actions.size], |take| actions.each(archive, take))?;
            }
            None => {}
        }
        Ok(self.lengths)
    }
}

#[cfg(test)]
mod tests;
