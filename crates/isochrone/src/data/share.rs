//! The share of the data that each of several processes reads and holds.
//!
//! The bytes of all files, one after the other, are cut into equal spans, one per process. A process
//! reads the files that its span meets and keeps the trajectories that begin in it, so that every
//! trajectory is kept once. Of what others hold it learns the lengths of trajectories alone.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::dataset::{Dataset, check_choices};
use super::division::Division;
use super::door::{Loaded, held_out, load, readers};
use super::large;
use super::memory::Memory;
use super::raw::RawRows;
use super::reader::{Choices, Reader};
use super::shards::joined_notes;
use super::store::{Numbers, RowsOnDisk, Store};
use crate::cache;
use crate::collective::Collective;
use crate::error::{Error, Result};

/// As [`load`], as one of several processes that divide the rows among themselves. All of them call
/// it; an error that only one has ends it, and with it the others.
///
/// # Errors
/// As [`load`], for the files that this process reads.
pub fn load_among(
    path: &Path,
    choices: &Choices,
    memory: Memory,
    collective: &Collective,
) -> Result<Loaded> {
    if collective.size() == 1 {
        return load(path, choices, memory);
    }
    let mut readers = readers(path, choices).map_err(|error| error.in_file(path))?;
    // Machines differ: where the share of one process must stay on disk, all do.
    let of_all = Memory(memory.0.saturating_mul(collective.size() as u64));
    let said = collective.all_say(vec![u8::from(large::is_large(&readers, of_all))]);
    let stays_on_disk = said.concat().contains(&1);
    let spans = Spans::new(&readers, collective);
    let share = if stays_on_disk {
        Share::on_disk(path, &mut readers, &spans, choices, memory)
    } else {
        Share::in_memory(&mut readers, &spans, memory)
    };
    let share = share.map_err(|error| error.in_file(path))?;
    let (dataset, said) = share.among(collective).map_err(|error| error.in_file(path))?;
    let of_files: Vec<(PathBuf, Vec<String>)> =
        said.into_iter().map(|(at, notes)| (readers[at].path().to_path_buf(), notes)).collect();
    let mut notes = Vec::new();
    if stays_on_disk {
        notes.push(large::stay_on_disk(&readers, of_all));
    }
    notes.extend(joined_notes(&of_files));
    notes.push(format!("{} processes divide the rows among themselves", collective.size()));
    let format = readers[0].format();
    Ok(Loaded { dataset, format, notes, held_out: held_out(path, format) })
}

/// Parts of a byte that positions are counted in, so that no process has an empty span.
const PARTS: u128 = 1 << 32;

/// Where files lie among the bytes of all, and the span of this process.
struct Spans {
    files: Vec<Range<u128>>,
    own: Range<u128>,
}

impl Spans {
    fn new(readers: &[Box<dyn Reader>], collective: &Collective) -> Self {
        let mut end = 0;
        let files = readers.iter().map(|reader| {
            let start = end;
            end += u128::from(reader.bytes().max(1)) * PARTS;
            start..end
        });
        let files = files.collect();
        let (rank, size) = (collective.rank() as u128, collective.size() as u128);
        Self { files, own: end * rank / size..end * (rank + 1) / size }
    }

    fn meets(&self, file: usize) -> bool {
        let Range { start, end } = self.files[file];
        start < self.own.end && self.own.start < end
    }

    /// The trajectories of a file that begin in the span of this process.
    fn own(&self, file: usize, lengths: &[usize]) -> Vec<usize> {
        let Range { start, end } = self.files[file];
        let rows = lengths.iter().sum::<usize>().max(1) as u128;
        let mut row = 0;
        let is_own = |&index: &usize| {
            let place = start + (end - start) * row / rows;
            row += lengths[index] as u128;
            self.own.contains(&place)
        };
        (0..lengths.len()).filter(is_own).collect()
    }
}

/// What there is to note, by the index of the file.
type NotesByFile = Vec<(usize, Vec<String>)>;

/// What this process reads and keeps.
struct Share {
    rows: ShareRows,
    state_size: usize,
    /// Values per action as the files have them.
    action_size: usize,
    /// Discrete actions: one more than the largest; 0 without any.
    choices: usize,
    is_discrete: bool,
    lengths: Vec<usize>,
    notes: NotesByFile,
}

enum ShareRows {
    Memory { states: Vec<f32>, actions: Vec<f32> },
    Disk(RowsOnDisk),
}

/// What a process says about its share, besides the lengths of its trajectories.
#[derive(Serialize, Deserialize)]
struct SaidOfShare {
    choices: usize,
    notes: NotesByFile,
}

impl Share {
    fn in_memory(readers: &mut [Box<dyn Reader>], spans: &Spans, memory: Memory) -> Result<Self> {
        let is_single = readers.len() == 1;
        let (mut parts, mut notes) = (Vec::new(), Vec::new());
        for (at, reader) in readers.iter_mut().enumerate().filter(|(at, _)| spans.meets(*at)) {
            let (file, mut said) = (reader.path().to_path_buf(), Vec::new());
            let rows = if is_single {
                part_of_one(&mut **reader, spans, memory, &mut said)
            } else {
                part_of_many(&mut **reader, spans, at, &mut said)
            };
            parts.push((file.clone(), rows.map_err(|error| error.in_file(&file))?));
            notes.push((at, said));
        }
        let rows = if parts.len() == 1 { parts.remove(0).1 } else { RawRows::joined(parts) };
        Ok(Self {
            state_size: rows.state_size,
            action_size: rows.action_size,
            choices: rows.choice_count(),
            is_discrete: rows.discrete,
            lengths: rows.lengths,
            rows: ShareRows::Memory { states: rows.states, actions: rows.actions },
            notes,
        })
    }

    fn on_disk(
        path: &Path,
        readers: &mut [Box<dyn Reader>],
        spans: &Spans,
        choices: &Choices,
        memory: Memory,
    ) -> Result<Self> {
        let (cache, mut parts, mut notes) = (cache::folder("data"), Vec::new(), Vec::new());
        for (at, reader) in readers.iter_mut().enumerate().filter(|(at, _)| spans.meets(*at)) {
            let file = reader.path().to_path_buf();
            let (part, said) = large::open_one(&mut **reader, choices, memory, cache.as_deref())
                .map_err(|error| error.in_file(&file))?;
            parts.push(part.select(&spans.own(at, &part.lengths().collect::<Vec<_>>())));
            notes.push((at, said));
        }
        let disks: Vec<&RowsOnDisk> = parts.iter().filter_map(Dataset::disk).collect();
        let is_discrete = parts.iter().any(|part| part.choices().is_some());
        let action_size = parts.iter().map(Dataset::action_size).max().unwrap_or_default();
        Ok(Self {
            rows: ShareRows::Disk(RowsOnDisk::joined(path, &disks, action_size, memory.0)),
            state_size: parts.first().map_or(0, Dataset::state_size),
            action_size,
            choices: if is_discrete { action_size } else { 0 },
            is_discrete,
            lengths: parts.iter().flat_map(Dataset::lengths).collect(),
            notes,
        })
    }

    /// The dataset of all shares, and what there is to note by file.
    fn among(self, collective: &Collective) -> Result<(Dataset, NotesByFile)> {
        let own = self.lengths.iter().flat_map(|&length| (length as u64).to_le_bytes()).collect();
        let length = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes) as usize;
        let of_ranks = collective.all_say(own).into_iter();
        let lengths: Vec<Vec<usize>> =
            of_ranks.map(|bytes| bytes.as_chunks().0.iter().map(length).collect()).collect();
        let (choices, notes) = self.all_said(collective)?;
        let action_size = if self.is_discrete { choices } else { self.action_size };
        if self.is_discrete {
            check_choices(choices)?;
        }
        let store = match self.rows {
            ShareRows::Memory { states, actions } if self.is_discrete => {
                let actions = one_hot(&actions, choices);
                Store::Memory(Arc::new(Numbers { states, actions }))
            }
            ShareRows::Memory { states, actions } => {
                Store::Memory(Arc::new(Numbers { states, actions }))
            }
            ShareRows::Disk(disk) => {
                let memory = disk.memory;
                Store::Disk(RowsOnDisk::joined(disk.path(), &[&disk], action_size, memory))
            }
        };
        let counts: Vec<usize> = lengths.iter().map(|lengths| lengths.iter().sum()).collect();
        let division = Some(Division::new(&counts, collective));
        let dataset = Dataset::of(store, (self.state_size, action_size), &lengths.concat())?;
        Ok((Dataset { one_hot: self.is_discrete, division, ..dataset }, notes))
    }

    /// What all processes say: the number of discrete actions, and notes by file.
    fn all_said(&self, collective: &Collective) -> Result<(usize, NotesByFile)> {
        let own = SaidOfShare { choices: self.choices, notes: self.notes.clone() };
        let own = serde_json::to_vec(&own);
        let own = own.map_err(|error| Error::input(format!("notes cannot be sent: {error}")))?;
        let (mut choices, mut notes) = (0, Vec::new());
        for bytes in collective.all_say(own) {
            let said: SaidOfShare = serde_json::from_slice(&bytes)
                .map_err(|error| Error::input(format!("notes cannot be read: {error}")))?;
            choices = choices.max(said.choices);
            notes.extend(said.notes);
        }
        // A file that several processes read has the same notes each time.
        notes.dedup_by_key(|(file, _)| *file);
        Ok((choices, notes))
    }
}

/// The own trajectories of a file that is the whole dataset; where it can be read in place, the others
/// are never in memory.
fn part_of_one(
    reader: &mut dyn Reader,
    spans: &Spans,
    memory: Memory,
    notes: &mut Vec<String>,
) -> Result<RawRows> {
    let mut said = Vec::new();
    let in_place = match reader.pieces() {
        Some(pieces) => pieces.in_place(memory, &mut said)?,
        None => None,
    };
    match in_place {
        None => part_of_many(reader, spans, 0, notes),
        Some(whole) => {
            notes.extend(said);
            let own = spans.own(0, &whole.lengths().collect::<Vec<_>>());
            Ok(RawRows::of(&whole.select(&own).copied()?))
        }
    }
}

/// The own trajectories of file number `file` among several.
fn part_of_many(
    reader: &mut dyn Reader,
    spans: &Spans,
    file: usize,
    notes: &mut Vec<String>,
) -> Result<RawRows> {
    let rows = reader.read(notes)?;
    rows.check_values()?;
    let own = spans.own(file, &rows.lengths);
    Ok(if own.len() == rows.lengths.len() { rows } else { rows.cut(&own) })
}

/// Each discrete action as a row with a single 1 among `count` values.
fn one_hot(actions: &[f32], count: usize) -> Vec<f32> {
    let mut rows = vec![0.0; actions.len() * count];
    for (row, &choice) in actions.iter().enumerate() {
        rows[row * count + choice as usize] = 1.0;
    }
    rows
}

#[cfg(test)]
mod tests;
