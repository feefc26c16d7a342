//! Data larger than the memory they may take: their rows stay on disk.
//!
//! A plain npz file (not packed, 32-bit floats) is read in place, after one pass that compares its
//! checksums and checks every value. Other files are first unpacked to such a file in the user's cache
//! folder, a piece at a time. It is named after the source's path, length, modification time, first
//! and last bytes, and is reused as long as these stay the same.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::dataset::Dataset;
use super::files::open_file;
use super::memory::{Memory, rounded};
use super::npz::{NpzReader, Writer};
use super::reader::{Choices, Pieces, Reader};
use super::shards::joined_notes;
use crate::cache;
use crate::error::{Error, Result};

/// Whether the rows do not fit into the memory they may take: all rows and the parts that they are
/// split into must.
pub(super) fn is_large(readers: &[Box<dyn Reader>], memory: Memory) -> bool {
    bytes(readers).saturating_mul(2) > memory.0
}

fn bytes(readers: &[Box<dyn Reader>]) -> u64 {
    readers.iter().fold(0, |sum, reader| sum.saturating_add(reader.bytes()))
}

/// Opens data, called `path`, whose rows do not fit: each file in place or where it is unpacked to;
/// also what there is to note.
pub(super) fn open(
    path: &Path,
    readers: &mut [Box<dyn Reader>],
    choices: &Choices,
    memory: Memory,
) -> Result<(Dataset, Vec<String>)> {
    open_with(path, readers, choices, memory, cache::folder("data").as_deref())
}

/// As [`open`], unpacking to the folder `cache`.
fn open_with(
    path: &Path,
    readers: &mut [Box<dyn Reader>],
    choices: &Choices,
    memory: Memory,
    cache: Option<&Path>,
) -> Result<(Dataset, Vec<String>)> {
    let mut notes = vec![stay_on_disk(readers, memory)];
    let (mut parts, mut of_files) = (Vec::new(), Vec::new());
    for reader in readers {
        let file = reader.path().to_path_buf();
        let (part, said) = open_one(&mut **reader, choices, memory, cache)
            .map_err(|error| error.in_file(&file))?;
        parts.push(part);
        of_files.push((file, said));
    }
    notes.extend(joined_notes(&of_files));
    match parts.len() {
        1 => Ok((parts.remove(0), notes)),
        _ => Ok((Dataset::joined(path, &parts, memory.0)?, notes)),
    }
}

/// The note about data of which more than `memory` allows for stay on disk.
pub(super) fn stay_on_disk(readers: &[Box<dyn Reader>], memory: Memory) -> String {
    let [taken, allowed] = [bytes(readers), memory.0].map(rounded);
    format!(
        "the data take {taken}, more than half of the {allowed} they may use (`data.memory`): they \
         stay on disk"
    )
}

/// The rows of one file, in place or where it is unpacked to the folder `cache`.
pub(super) fn open_one(
    reader: &mut dyn Reader,
    choices: &Choices,
    memory: Memory,
    cache: Option<&Path>,
) -> Result<(Dataset, Vec<String>)> {
    let (format, source) = (reader.format(), reader.path().to_path_buf());
    let [taken, allowed] = [reader.bytes(), memory.0].map(rounded);
    let Some(pieces) = reader.pieces() else {
        return Err(Error::memory(format!(
            "the data take {taken}, but {format} is read only into memory, of which {allowed} may be \
             used"
        ))
        .hint("raise `data.memory`, or convert the data on a machine with more memory"));
    };
    let mut notes = Vec::new();
    if let Some(dataset) = pieces.in_place(memory, &mut notes)? {
        return Ok((dataset, notes));
    }
    let kept = kept(&source, choices, cache)?;
    if let Ok(dataset) = reopened(&kept, memory) {
        notes.push(format!("they were unpacked before, to {}", kept.display()));
        return Ok((dataset, notes));
    }
    unpack(pieces, &kept, &mut notes)?;
    notes.push(format!("they are unpacked to {}, once", kept.display()));
    let dataset = reopened(&kept, memory).map_err(|error| error.in_file(&kept))?;
    Ok((dataset, notes))
}

/// Where the data of `source` are unpacked to.
fn kept(source: &Path, choices: &Choices, cache: Option<&Path>) -> Result<PathBuf> {
    let none = || {
        Error::input("there is no folder to unpack large data to")
            .hint("set `XDG_CACHE_HOME` or `HOME`, or raise `data.memory`")
    };
    Ok(cache.ok_or_else(none)?.join(format!("{}.npz", name(source, choices)?)))
}

/// A name for the source as it is now.
fn name(source: &Path, choices: &Choices) -> Result<String> {
    /// Bytes that are hashed at either end.
    const ENDS: u64 = 1 << 16;
    let mut file = open_file(source)?;
    let refused = |error| Error::input(format!("cannot read the file: {error}"));
    let about = file.metadata().map_err(refused)?;
    let mut hasher = blake3::Hasher::new();
    let place = std::fs::canonicalize(source).unwrap_or_else(|_| source.to_path_buf());
    hasher.update(place.as_os_str().as_encoded_bytes());
    hasher.update(format!("{:?}{:?}", about.modified().ok(), choices.keys).as_bytes());
    hasher.update(&about.len().to_le_bytes());
    for start in [0, about.len().saturating_sub(ENDS)] {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start)).map_err(refused)?;
        file.by_ref().take(ENDS).read_to_end(&mut bytes).map_err(refused)?;
        hasher.update(&bytes);
    }
    Ok(hasher.finalize().to_hex()[..32].to_owned())
}

fn reopened(kept: &Path, memory: Memory) -> Result<Dataset> {
    let dataset = NpzReader::open(kept)?.in_place(memory, &mut Vec::new())?;
    dataset.ok_or_else(|| Error::input("the file is packed"))
}

fn unpack(pieces: &mut dyn Pieces, kept: &Path, notes: &mut Vec<String>) -> Result<()> {
    let folder = kept.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(|error| Error::disk("create", folder, error))?;
    let mut writer = Writer::create(kept)?;
    let lengths = pieces.unpack(&mut writer, notes)?;
    writer.finish(lengths.into_iter())
}

#[cfg(test)]
mod tests;
