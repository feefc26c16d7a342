//! LeRobot's parquet, versions 2.1 and 3.0: one row per frame, grouped by `episode_index`.
//!
//! A folder holds `meta/info.json` and `data/chunk-…/….parquet`: one episode per file in 2.1, many in
//! 3.0. A state is `observation.state`, an action is `action`; video and all other columns are
//! skipped. Actions are in the robot's units: if any lies outside [−1, 1], each dimension is scaled
//! by its own recorded range, −1 the smallest value and 1 the largest.
//! Source: LeRobot, "LeRobotDataset format", v2.1 and v3.0.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::reader::ColumnReader;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use serde_json::Value;

use super::complaints::{DAMAGED, Shape, missing, narrowed, same_rows};
use super::files::open_file;
use super::format::Format;
use super::guarded::guarded;
use super::npy;
use super::raw::RawRows;
use super::reader::{Pieces, Reader, Widths};
use super::rounding::Rounding;
use super::shards::joined_notes;
use crate::error::{Error, Result};
use crate::plain;

const STATE: &str = "observation.state";
const ACTION: &str = "action";
const EPISODE: &str = "episode_index";
const FRAME: &str = "frame_index";
/// Frames decoded at a time.
const BLOCK: usize = 1 << 14;
/// Versions that are read.
const VERSIONS: [&str; 2] = ["v2.1", "v3.0"];

/// Reads one parquet file, all files of a dataset's folder, or several files; everything is read at
/// once, because actions are scaled by the range of all.
pub(super) struct LeRobotReader {
    path: PathBuf,
    /// The files that a folder or a pattern names; none for a single file or a dataset's folder.
    shards: Vec<PathBuf>,
    bytes: u64,
}

impl LeRobotReader {
    /// A reader of what is at `path`, which is not looked at yet.
    pub(super) fn new(path: &Path) -> Self {
        let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
        let bytes = if path.is_dir() {
            let files = entries(&path.join("data")).flat_map(|chunk| entries(&chunk.path()));
            files.map(|file| size(&file.path())).sum()
        } else {
            size(path)
        };
        Self { path: path.to_path_buf(), shards: Vec::new(), bytes }
    }

    /// A reader of several files, called `path`.
    pub(super) fn of_shards(path: &Path, shards: Vec<PathBuf>) -> Self {
        let bytes = shards.iter().map(|file| size(file)).sum();
        Self { path: path.to_path_buf(), shards, bytes }
    }

    /// Every file by itself: an episode never spans two, and their numbers may repeat.
    fn read_shards(&self, notes: &mut Vec<String>) -> Result<RawRows> {
        let mut parts: Vec<(PathBuf, RawRows)> = Vec::new();
        let mut of_files = Vec::new();
        for file in &self.shards {
            let (mut frames, mut notes) = (Frames::default(), Vec::new());
            frames.add(file, &mut notes).map_err(|error| error.in_file(file))?;
            let rows = frames.into_rows();
            let widths = |rows: &RawRows| Widths {
                state: rows.state_size,
                action: rows.action_size,
                discrete: false,
            };
            if let Some((first, known)) = parts.first() {
                Widths::agree((first, widths(known)), (file, widths(&rows)))?;
            }
            of_files.push((file.clone(), notes));
            parts.push((file.clone(), rows));
        }
        notes.extend(joined_notes(&of_files));
        Ok(RawRows::joined(parts))
    }

    /// The files of a dataset's folder, or the only file.
    fn read_dataset(&self, notes: &mut Vec<String>) -> Result<RawRows> {
        let mut frames = Frames::default();
        if self.path.is_dir() {
            let promised = Promised::of(&self.path)?;
            for file in files(&self.path.join("data"))? {
                frames.add(&file, notes).map_err(|error| error.in_file(&file))?;
            }
            promised.check(&frames)?;
        } else {
            frames.add(&self.path, notes)?;
        }
        Ok(frames.into_rows())
    }
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |about| about.len())
}

impl Reader for LeRobotReader {
    fn format(&self) -> Format {
        Format::LeRobot
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of the files: the rows take no less.
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn widths(&self) -> Option<Widths> {
        None
    }

    fn read(&mut self, notes: &mut Vec<String>) -> Result<RawRows> {
        let mut rows = guarded(|| match self.shards[..] {
            [] => self.read_dataset(notes),
            _ => self.read_shards(notes),
        })?;
        if rows.actions.iter().any(|action| action.abs() > 1.0) {
            scale(&mut rows.actions, rows.action_size, notes);
        }
        Ok(rows)
    }

    fn pieces(&mut self) -> Option<&mut dyn Pieces> {
        None
    }
}

/// All parquet files of the chunks below `folder`, by name.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let refused = |error: std::io::Error| {
            Error::input(format!("cannot list the folder: {error}")).in_file(folder)
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(refused)? {
            paths.push(entry.map_err(refused)?.path());
        }
        paths.sort();
        Ok(paths)
    };
    let mut found = Vec::new();
    for chunk in list(folder)?.into_iter().filter(|path| path.is_dir()) {
        let parquet = |path: &PathBuf| path.extension().is_some_and(|end| end == "parquet");
        found.extend(list(&chunk)?.into_iter().filter(parquet));
    }
    if found.is_empty() {
        return Err(Error::input("no parquet files")
            .in_file(folder)
            .hint("LeRobot keeps them as `data/chunk-000/….parquet`; download the whole dataset"));
    }
    Ok(found)
}

/// What `meta/info.json` promises.
struct Promised {
    episodes: Option<u64>,
    frames: Option<u64>,
}

impl Promised {
    fn of(folder: &Path) -> Result<Self> {
        let path = folder.join("meta/info.json");
        let refused = |text: String| Error::input(text).in_file(&path);
        let text = plain::read_text(&path)
            .map_err(|error| refused(format!("cannot read the file: {error}")))?;
        let value: Value = serde_json::from_str(&text)
            .map_err(|error| refused(format!("the file is not JSON: {error}")))?;
        let version = value["codebase_version"].as_str().unwrap_or_default();
        if !VERSIONS.contains(&version) {
            return Err(refused(format!(
                "`codebase_version` is `{version}`, expected v2.1 or v3.0"
            ))
            .hint("convert the dataset with LeRobot's own scripts"));
        }
        let number = |key: &str| value[key].as_u64();
        Ok(Self { episodes: number("total_episodes"), frames: number("total_frames") })
    }

    fn check(&self, frames: &Frames) -> Result<()> {
        let found = (frames.lengths.len() as u64, frames.episodes.len() as u64);
        for (name, found, expected) in
            [("episodes", found.0, self.episodes), ("frames", found.1, self.frames)]
        {
            if expected.is_some_and(|expected| expected != found) {
                let expected = expected.unwrap_or_default();
                return Err(Error::input(format!(
                    "{found} {name}, `meta/info.json` says {expected}"
                ))
                .hint("the dataset is incomplete; download it again"));
            }
        }
        Ok(())
    }
}

/// The frames so far.
#[derive(Default)]
struct Frames {
    states: Vec<f32>,
    actions: Vec<f32>,
    state_size: usize,
    action_size: usize,
    /// The episode of every frame.
    episodes: Vec<i64>,
    lengths: Vec<usize>,
}

impl Frames {
    fn add(&mut self, path: &Path, notes: &mut Vec<String>) -> Result<()> {
        let file = open_file(path)?;
        let bytes = file.metadata().map_err(|error| Error::disk("read", path, error))?.len();
        let reader =
            SerializedFileReader::<File>::new(file).map_err(|e| refused("the file", &e))?;
        for index in 0..reader.num_row_groups() {
            check(reader.metadata().row_group(index), bytes)?;
            let group = reader.get_row_group(index).map_err(|e| refused("the file", &e))?;
            self.add_group(group.as_ref(), notes)?;
        }
        Ok(())
    }

    fn add_group(&mut self, group: &dyn RowGroupReader, notes: &mut Vec<String>) -> Result<()> {
        let (states, rows, state_size) = matrix(group, STATE, notes)?;
        let states_shape = Shape { key: STATE, rows, size: Some(state_size) };
        let has_action = find(group, ACTION).is_some();
        let (actions, action_size) = match has_action {
            false => (Vec::new(), 0),
            true => {
                let (values, found, size) = matrix(group, ACTION, notes)?;
                let shape = Shape { key: ACTION, rows: found, size: Some(size) };
                same_rows(shape, states_shape)?;
                (values, size)
            }
        };
        if self.states.is_empty() {
            (self.state_size, self.action_size) = (state_size, action_size);
        }
        if (self.state_size, self.action_size) != (state_size, action_size) {
            return Err(Error::input(format!(
                "a frame has {state_size} values in `{STATE}` and {action_size} in `{ACTION}`, earlier \
                 ones {} and {}",
                self.state_size, self.action_size
            )));
        }
        let (episodes, frames) = (whole(group, EPISODE)?, whole(group, FRAME)?);
        for (key, column) in [(EPISODE, &episodes), (FRAME, &frames)] {
            same_rows(Shape { key, rows: column.len(), size: None }, states_shape)?;
        }
        for (&episode, &frame) in episodes.iter().zip(&frames) {
            self.count(episode, frame)?;
        }
        self.states.extend(states);
        self.actions.extend(actions);
        Ok(())
    }

    /// Counts one frame: the next of its episode, or the first of another.
    fn count(&mut self, episode: i64, frame: i64) -> Result<()> {
        let same = self.episodes.last() == Some(&episode);
        let expected = if same { self.lengths.last().copied().unwrap_or_default() } else { 0 };
        if frame != expected as i64 {
            return Err(Error::input(format!(
                "`{FRAME}` is `{frame}` in episode {episode}, expected {expected}"
            ))
            .hint("the frames of an episode must follow each other; sort or download them again"));
        }
        self.episodes.push(episode);
        match self.lengths.last_mut().filter(|_| same) {
            Some(length) => *length += 1,
            None => self.lengths.push(1),
        }
        Ok(())
    }

    fn into_rows(self) -> RawRows {
        RawRows {
            states: self.states,
            state_size: self.state_size,
            states_key: STATE.into(),
            actions: self.actions,
            action_size: self.action_size,
            lengths: self.lengths,
            ..RawRows::default()
        }
    }
}

/// Scales each dimension of the actions to [−1, 1] by its recorded range.
fn scale(actions: &mut [f32], size: usize, notes: &mut Vec<String>) {
    let mut ranges = Vec::new();
    for column in 0..size {
        let of_column = || actions.iter().skip(column).step_by(size).copied();
        let (low, high) = (
            of_column().fold(f32::INFINITY, f32::min),
            of_column().fold(f32::NEG_INFINITY, f32::max),
        );
        let (middle, half) = ((low + high) / 2.0, ((high - low) / 2.0).max(f32::MIN_POSITIVE));
        for action in actions.iter_mut().skip(column).step_by(size) {
            // Rounding may overshoot the bound slightly.
            *action = ((*action - middle) / half).clamp(-1.0, 1.0);
        }
        ranges.push(format!("{low} to {high}"));
    }
    notes.push(format!(
        "actions are scaled to [−1, 1] by their recorded range: {}",
        ranges.join(", ")
    ));
}

fn refused(key: &str, error: &parquet::errors::ParquetError) -> Error {
    let text = error.to_string().to_lowercase().replace('\n', " ");
    Error::input(format!("`{key}` cannot be read: {text}")).hint(DAMAGED)
}

/// Checks that the columns of a row group lie within a file of `bytes` bytes: the parquet crate does
/// not.
fn check(group: &RowGroupMetaData, bytes: u64) -> Result<()> {
    for column in group.columns() {
        let first = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let numbers = [first, column.data_page_offset(), column.compressed_size()];
        let end = first.checked_add(column.compressed_size());
        let inside = end.is_some_and(|end| u64::try_from(end).is_ok_and(|end| end <= bytes));
        if !inside || numbers.iter().any(|&number| number < 0) || column.num_values() < 0 {
            let name = column.column_path().string();
            return Err(Error::input(format!(
                "`{name}` is said to lie at byte {first} with {} bytes, the file has {bytes}",
                column.compressed_size()
            ))
            .hint(DAMAGED));
        }
    }
    Ok(())
}

/// The index of the column whose name begins with `key`; lists end with `list.element`.
fn find(group: &dyn RowGroupReader, key: &str) -> Option<usize> {
    let schema = group.metadata().schema_descr();
    (0..schema.num_columns())
        .find(|&at| schema.column(at).path().parts().first().is_some_and(|name| name == key))
}

fn column(group: &dyn RowGroupReader, key: &str) -> Result<ColumnReader> {
    let Some(at) = find(group, key) else {
        let schema = group.metadata().schema_descr();
        let name = |at: usize| schema.column(at).path().parts().first().cloned();
        let names: Vec<String> = (0..schema.num_columns()).filter_map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        return Err(missing(key, &names, "LeRobot frames have a column of this name"));
    };
    group.get_column_reader(at).map_err(|error| refused(key, &error))
}

/// All values of a column, and its records.
macro_rules! values {
    ($reader:expr, $key:expr) => {{
        let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut records, mut levels) = (0, 0);
        loop {
            let read = $reader
                .read_records(BLOCK, Some(&mut definitions), Some(&mut repetitions), &mut values)
                .map_err(|error| refused($key, &error))?;
            if read.0 == 0 {
                break;
            }
            records += read.0;
            levels += read.2;
        }
        if levels != values.len() {
            return Err(Error::input(format!("`{}` has frames without a value", $key))
                .hint("drop the episodes with holes"));
        }
        (values, records, repetitions)
    }};
}

/// The values of a column of lists of equal length, its frames and that length.
fn matrix(
    group: &dyn RowGroupReader,
    key: &str,
    notes: &mut Vec<String>,
) -> Result<(Vec<f32>, usize, usize)> {
    let (values, rows, repetitions) = match column(group, key)? {
        ColumnReader::FloatColumnReader(mut reader) => values!(reader, key),
        ColumnReader::DoubleColumnReader(mut reader) => {
            let (wide, rows, repetitions) = values!(reader, key);
            let size = (wide.len() / rows.max(1)).max(1);
            let mut rounding = Rounding::new(rows, size);
            rounding.see(0, &wide);
            let note = narrowed(key);
            // The first episodes tell for all.
            if !notes.contains(&note) {
                notes.extend([Some(note), rounding.note(key)].into_iter().flatten());
            }
            (npy::narrow(&wide, 0, size, key)?, rows, repetitions)
        }
        _ => {
            return Err(Error::input(format!("`{key}` does not hold 32-bit or 64-bit floats"))
                .hint("a state and an action are lists of floats"));
        }
    };
    let size = values.len() / rows.max(1);
    // A list begins where the level of repetition is 0.
    let even = repetitions.iter().enumerate().all(|(at, &level)| (level == 0) == (at % size == 0));
    if size == 0 || values.len() != rows * size || !even {
        return Err(Error::input(format!("`{key}` has frames of different lengths"))
            .hint("every frame has the same number of values"));
    }
    Ok((values, rows, size))
}

/// The integers of a column.
fn whole(group: &dyn RowGroupReader, key: &str) -> Result<Vec<i64>> {
    match column(group, key)? {
        ColumnReader::Int64ColumnReader(mut reader) => Ok(values!(reader, key).0),
        ColumnReader::Int32ColumnReader(mut reader) => {
            let values: Vec<i32> = values!(reader, key).0;
            Ok(values.into_iter().map(i64::from).collect())
        }
        _ => Err(Error::input(format!("`{key}` does not hold integers")).hint(DAMAGED)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::basic::{Repetition, Type as Physical};
    use parquet::data_type::{DoubleType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::types::Type;
    use tempfile::TempDir;

    use super::*;
    use crate::data::{Choices, Format, open};

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
    }

    #[test]
    fn both_versions_hold_the_same_episodes() {
        for name in ["lerobot-v2.1", "lerobot-v3.0"] {
            let opened = open(&fixture(name), &Choices::default()).unwrap();
            assert_eq!(opened.format, Format::LeRobot);
            assert_eq!(opened.rows.lengths, [4, 5, 6], "{name}");
            assert_eq!((opened.rows.state_size, opened.rows.action_size), (3, 2));
            assert_eq!(opened.rows.states[3 * 4..][..3], [1.0, 0.0, 0.5], "{name}");
            let note = opened.notes.iter().find(|note| note.contains("scaled to")).unwrap();
            assert!(note.contains("0 to 140") && note.contains("-5 to 5"), "{note}");
            // Action 1 is 0 in the middle of its range; action 0 rises from −1 to 1.
            let actions = &opened.rows.actions;
            assert_eq!((actions[0], actions[28]), (-1.0, 1.0));
            opened.into_dataset().unwrap();
        }
    }

    #[test]
    fn one_file_is_read_alone_and_a_dataset_that_is_not_whole_is_refused() {
        let file = fixture("lerobot-v2.1/data/chunk-000/episode_000001.parquet");
        assert_eq!(open(&file, &Choices::default()).unwrap().rows.lengths, [5]);
        let folder = TempDir::new().unwrap();
        let chunk = folder.path().join("data/chunk-000");
        std::fs::create_dir_all(&chunk).unwrap();
        std::fs::create_dir(folder.path().join("meta")).unwrap();
        std::fs::copy(&file, chunk.join("episode_000001.parquet")).unwrap();
        let info = folder.path().join("meta/info.json");
        std::fs::copy(fixture("lerobot-v2.1/meta/info.json"), &info).unwrap();
        let complaint = || open(folder.path(), &Choices::default()).unwrap_err().to_string();
        assert!(complaint().contains("1 episodes, `meta/info.json` says 3"), "{}", complaint());
        std::fs::write(&info, r#"{"codebase_version": "v1.6"}"#).unwrap();
        assert!(complaint().contains("`codebase_version` is `v1.6`"), "{}", complaint());
    }

    #[test]
    fn rounding_that_hides_what_a_frame_changes_by_is_noted() {
        let column = |name: &str, kind: Physical| {
            let column = Type::primitive_type_builder(name, kind);
            Arc::new(column.with_repetition(Repetition::REQUIRED).build().unwrap())
        };
        let columns = vec![
            column(STATE, Physical::DOUBLE),
            column(EPISODE, Physical::INT64),
            column(FRAME, Physical::INT64),
        ];
        let schema = Type::group_type_builder("rows").with_fields(columns).build().unwrap();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("frames.parquet");
        let file = File::create(&path).unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(file, Arc::new(schema), properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let clock: Vec<f64> = (0..20).map(|frame| 1.7e9 + 0.02 * f64::from(frame)).collect();
        let mut states = group.next_column().unwrap().unwrap();
        states.typed::<DoubleType>().write_batch(&clock, None, None).unwrap();
        states.close().unwrap();
        for values in [vec![0; 20], (0..20).collect::<Vec<i64>>()] {
            let mut numbers = group.next_column().unwrap().unwrap();
            numbers.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
            numbers.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        let notes = open(&path, &Choices::default()).unwrap().notes;
        let told = "column 0 of `observation.state` changes by 0.02 per row";
        assert!(notes.iter().any(|note| note.starts_with(told)), "{notes:?}");
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = std::fs::read(fixture("lerobot-v3.0/data/chunk-000/file-000.parquet")).unwrap();
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("cut.parquet");
        for length in (4..bytes.len()).step_by(7) {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(LeRobotReader::new(&path).read(&mut Vec::new()).is_err(), "{length} bytes");
        }
    }
}
