//! Writes plain, unpacked npz with OGBench's keys; the file is replaced as a whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::super::{dataset::Dataset, npy};
use super::keys::{ACTIONS, STATES, TERMINALS};
use crate::beside;
use crate::error::{Error, Result};

/// Room for headers when deciding whether an entry needs 64-bit sizes.
const LARGE_ENTRY: usize = u32::MAX as usize - (1 << 16);

/// Writes a dataset as plain, unpacked npz with OGBench's keys. On failure the previous file stays.
///
/// The bytes are a function of the dataset alone.
///
/// # Errors
/// [`Error::Disk`] if writing fails; the file that holds the rows can no longer be read.
pub fn write(path: &Path, dataset: &Dataset) -> Result<()> {
    write_with(path, dataset, &[])
}

/// An array in addition to the dataset's own: its key, values per row, and rows.
pub type NamedArray<'a> = (&'a str, usize, &'a [f32]);

/// Like [`write`](fn@write), with `extra` arrays in addition to the dataset's own.
///
/// # Errors
/// As [`write()`].
///
/// # Panics
/// If an array does not have as many rows as the dataset.
pub fn write_with(path: &Path, dataset: &Dataset, extra: &[NamedArray<'_>]) -> Result<()> {
    let mut writer = Writer::create(path)?;
    let (rows, size) = (dataset.rows(), dataset.action_size());
    writer.states([rows, dataset.state_size()], |take| dataset.each_states(take))?;
    if dataset.choices().is_some() {
        writer.choices(rows, |take| {
            dataset.each_actions(|actions| {
                actions.chunks_exact(size).try_for_each(|row| {
                    take(row.iter().position(|&x| x == 1.0).unwrap_or_default() as u32)
                })
            })
        })?;
    } else if size > 0 {
        writer.actions([rows, size], |take| dataset.each_actions(take))?;
    }
    for &(key, width, values) in extra {
        assert_eq!(values.len(), rows * width, "`{key}` for {rows} rows");
        writer.matrix(key, [rows, width], |take| take(values))?;
    }
    writer.finish(dataset.lengths())
}

/// Writes an archive array by array; without [`Writer::finish`] nothing is kept.
pub(in crate::data) struct Writer {
    archive: Option<ZipWriter<Held>>,
    path: PathBuf,
    temporary: PathBuf,
    /// Whether a write has failed.
    failed: Arc<AtomicBool>,
}

/// Takes values, several at a time.
type Take<'a> = &'a mut dyn FnMut(&[f32]) -> Result<()>;

impl Writer {
    /// Starts the file that will be moved to `path`.
    pub(in crate::data) fn create(path: &Path) -> Result<Self> {
        let created = beside::create(path).map_err(|error| Error::disk("write", path, error));
        let (temporary, file) = created?;
        Ok(Self::onto(path, temporary, file))
    }

    /// Writes to `file`, called `temporary` until it is moved to `path`.
    pub(super) fn onto(path: &Path, temporary: PathBuf, file: File) -> Self {
        let file = BufWriter::with_capacity(1 << 20, file);
        let failed = Arc::new(AtomicBool::new(false));
        let held = Held { file, position: 0, failed: None, noticed: Arc::clone(&failed) };
        let archive = Some(ZipWriter::new(held));
        Self { archive, path: path.to_path_buf(), temporary, failed }
    }

    /// Writes the states; `fill` passes them to its argument.
    pub(in crate::data) fn states(
        &mut self,
        shape: [usize; 2],
        fill: impl FnOnce(Take<'_>) -> Result<()>,
    ) -> Result<()> {
        self.matrix(STATES[1], shape, fill)
    }

    /// Writes continuous actions.
    pub(in crate::data) fn actions(
        &mut self,
        shape: [usize; 2],
        fill: impl FnOnce(Take<'_>) -> Result<()>,
    ) -> Result<()> {
        self.matrix(ACTIONS, shape, fill)
    }

    fn matrix(
        &mut self,
        key: &str,
        shape: [usize; 2],
        fill: impl FnOnce(Take<'_>) -> Result<()>,
    ) -> Result<()> {
        self.start(key, npy::Item::Float32, &shape)?;
        let mut written = 0;
        fill(&mut |numbers| {
            written += numbers.len();
            self.put(|archive| npy::write_numbers(archive, numbers))
        })?;
        assert_eq!(written, shape[0] * shape[1], "values of `{key}`");
        Ok(())
    }

    /// Writes which action each row took.
    pub(in crate::data) fn choices(
        &mut self,
        rows: usize,
        fill: impl FnOnce(&mut dyn FnMut(u32) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.start(ACTIONS, npy::Item::Int64, &[rows])?;
        fill(&mut |choice| self.put(|archive| archive.write_all(&i64::from(choice).to_le_bytes())))
    }

    /// Writes where trajectories end and moves the file into place.
    pub(in crate::data) fn finish(mut self, lengths: impl Iterator<Item = usize>) -> Result<()> {
        let mut ends = Vec::new();
        for length in lengths.filter(|&length| length > 0) {
            ends.resize(ends.len() + length - 1, 0);
            ends.push(1);
        }
        self.start(TERMINALS, npy::Item::Bool, &[ends.len()])?;
        self.put(|archive| archive.write_all(&ends))?;
        self.close()
    }

    /// Moves the file into place.
    pub(in crate::data) fn close(mut self) -> Result<()> {
        let refused = |action, error| Error::disk(action, &self.path, error);
        let archive = self.archive.take().ok_or_else(|| refused("write", gone()))?;
        archive
            .finish()
            .map_err(io::Error::from)
            .and_then(Held::close)
            .map_err(|error| refused("write", error))?;
        std::fs::rename(&self.temporary, &self.path).map_err(|error| refused("rename", error))?;
        sync_folder_of(&self.path).map_err(|error| refused("sync the folder of", error))
    }

    /// Begins an array, whose bytes follow by [`Writer::put`].
    pub(in crate::data) fn start(
        &mut self,
        key: &str,
        item: npy::Item,
        shape: &[usize],
    ) -> Result<()> {
        let bytes = shape.iter().product::<usize>() * item.bytes();
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(bytes > LARGE_ENTRY);
        self.put(|archive| {
            archive.start_file(format!("{key}.npy"), options)?;
            npy::write_header(archive, item, shape)
        })
    }

    /// Writes to the archive through `work`.
    pub(in crate::data) fn put(
        &mut self,
        work: impl FnOnce(&mut ZipWriter<Held>) -> io::Result<()>,
    ) -> Result<()> {
        let archive = self.archive.as_mut().ok_or_else(gone);
        let failed = |error| Error::disk("write", &self.path, error);
        archive.and_then(work).map_err(failed)?;
        if self.failed.load(Ordering::Relaxed) {
            // The rest is not worth reading; closing tells why.
            let archive = self.archive.take().ok_or_else(gone).map_err(failed)?;
            archive.finish().map_err(io::Error::from).and_then(Held::close).map_err(failed)?;
        }
        Ok(())
    }
}

fn gone() -> io::Error {
    io::Error::other("the archive is closed")
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After the rename there is none. An earlier error is the one to report.
        std::fs::remove_file(&self.temporary).ok();
    }
}

pub(in crate::data) fn sync_folder_of(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// A file that keeps its first error until it is closed: the `zip` crate's writer would print it when
/// dropped.
pub(in crate::data) struct Held {
    file: BufWriter<File>,
    position: u64,
    failed: Option<io::Error>,
    /// Whether there is an error.
    noticed: Arc<AtomicBool>,
}

impl Held {
    /// Flushes everything to disk, or returns the first error.
    fn close(self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all(),
        }
    }

    fn attempt(&mut self, work: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = work(&mut self.file).err();
            self.noticed.store(self.failed.is_some(), Ordering::Relaxed);
        }
    }
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.attempt(|file| file.write_all(bytes));
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt(Write::flush);
        Ok(())
    }
}

impl Seek for Held {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        if let SeekFrom::Start(position) = to {
            self.position = position;
        }
        let mut reached = self.position;
        self.attempt(|file| file.seek(to).map(|position| reached = position));
        self.position = reached;
        Ok(reached)
    }
}
