//! The rows of one array of a file, a portion at a time: a matrix of an npz file, or the columns
//! `key_0`, `key_1`, … of a csv file. A thread of its own reads ahead.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::archive::Archive;
use super::complaints::missing;
use super::csv::CsvReader;
use super::dataset::check_numbers;
use super::files::first_bytes;
use super::memory::check_room;
use super::npy;
use super::npz::refuse_pickle_by_name;
use crate::error::{Error, Result};

/// Portions that wait to be taken.
const AHEAD: usize = 2;
/// The way out of a value that nothing can be asked about.
const MEND: &str = "mend the value, or leave the row out, of pairs in both arrays";
/// The first bytes of a zip file, which an npz file is.
const ZIP: &[u8] = b"PK";

/// Rows of finite numbers, read portion by portion.
pub struct RowStream {
    /// How many rows there are, at least one.
    pub rows: usize,
    /// Values per row.
    pub size: usize,
    /// The array's name in the file.
    pub key: String,
    path: PathBuf,
    portions: Receiver<Result<Vec<f32>>>,
}

impl RowStream {
    /// Opens the array called by the first of `keys` that `path` has, to be read `portion` rows at a
    /// time.
    ///
    /// # Errors
    /// The file cannot be read, has none of the keys, or no rows.
    pub fn open(path: &Path, keys: &[&str], portion: usize) -> Result<Self> {
        let opened = refuse_pickle_by_name(path).and_then(|()| {
            if first_bytes(path)?.starts_with(ZIP) {
                Self::of_npz(path, keys, portion)
            } else {
                Self::of_csv(path, keys, portion)
            }
        });
        opened.map_err(|error| error.in_file(path))
    }

    fn of_npz(path: &Path, keys: &[&str], portion: usize) -> Result<Self> {
        let mut archive = Archive::open(path)?;
        archive.check_headers()?;
        let names: Vec<String> = archive
            .entries()
            .iter()
            .map(|entry| entry.name.strip_suffix(".npy").unwrap_or_default().to_owned())
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let key = chosen(keys, &names)?;
        let entry = names.iter().position(|name| *name == key).unwrap_or_default();
        let header = archive.read(entry, |reader, about| npy::header(reader, &key, about.size))?;
        let (rows, size) = header.matrix(&key)?;
        let name = key.clone();
        Self::start(path, (rows, size), key, portion, move |blocks| {
            archive.read(entry, |reader, _| {
                npy::skip_header(reader, &header, &name)?;
                // Rows of a table need not follow each other: what rounding loses cannot be told.
                let notes = &mut Vec::new();
                npy::each_number(reader, &header, &name, notes, &mut |numbers| blocks.take(numbers))
            })
        })
    }

    fn of_csv(path: &Path, keys: &[&str], portion: usize) -> Result<Self> {
        let reader = CsvReader::open(path)?;
        let names = reader.groups();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let key = chosen(keys, &names)?;
        let columns = reader.columns_of(&key)?;
        let sizes = (reader.rows(), columns.len());
        Self::start(path, sizes, key, portion, move |blocks| {
            reader.each(&columns, |row| blocks.take(row))
        })
    }

    fn start(
        path: &Path,
        (rows, size): (usize, usize),
        key: String,
        portion: usize,
        read: impl FnOnce(&mut Blocks) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        if rows == 0 {
            return Err(Error::input(format!("`{key}` has no rows")).hint("ask about one at least"));
        }
        let (sender, portions) = sync_channel(AHEAD);
        let room = portion * size;
        let mut blocks =
            Blocks { key: key.clone(), size, room, waiting: Vec::new(), before: 0, sender };
        std::thread::Builder::new()
            .spawn(move || {
                let read = read(&mut blocks).and_then(|()| blocks.give());
                if let Err(error) = read {
                    // Nobody to tell if the receiver has gone.
                    blocks.sender.send(Err(error)).ok();
                }
            })
            .map_err(|error| Error::memory(format!("cannot start a thread to read: {error}")))?;
        Ok(Self { rows, size, key, path: path.to_path_buf(), portions })
    }

    /// The next rows, as many as were asked for or those that are left; none after the last.
    ///
    /// # Errors
    /// The file is damaged, or a value is not finite.
    pub fn portion(&mut self) -> Result<Option<Vec<f32>>> {
        self.portions.recv().ok().transpose().map_err(|error| error.in_file(&self.path))
    }

    /// All rows at once.
    ///
    /// # Errors
    /// As [`RowStream::portion`].
    pub fn all(mut self) -> Result<Vec<f32>> {
        let bytes = 4 * (self.rows as u64).saturating_mul(self.size as u64);
        let what = format!("the rows of `{}`", self.key);
        check_room(&what, bytes, "ask about fewer rows at a time")
            .map_err(|error| error.in_file(&self.path))?;
        let mut rows = Vec::new();
        while let Some(portion) = self.portion()? {
            rows.extend(portion);
        }
        Ok(rows)
    }

    /// Refuses rows of another width than `expected` values.
    ///
    /// # Errors
    /// Names both widths.
    pub fn need_width(&self, expected: usize) -> Result<()> {
        if self.size == expected {
            return Ok(());
        }
        Err(Error::input(format!(
            "rows of `{}` have {} values, states of the model have {expected}",
            self.key, self.size
        ))
        .in_file(&self.path)
        .hint("pass whole states, as the model was trained on"))
    }
}

/// The first of `keys` among `found`.
fn chosen(keys: &[&str], found: &[&str]) -> Result<String> {
    let key = keys.iter().find(|key| found.contains(key));
    key.map(|key| (*key).to_owned()).ok_or_else(|| {
        let expected: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
        let otherwise = format!(
            "expected {}: an array of an npz file, or csv columns `{}_0`, `{}_1`, …",
            expected.join(" or "),
            keys[0],
            keys[0]
        );
        missing(keys[0], found, &otherwise)
    })
}

/// Values on their way from the reading thread, checked and cut into portions.
struct Blocks {
    key: String,
    size: usize,
    /// Values of a portion.
    room: usize,
    waiting: Vec<f32>,
    /// Values seen so far.
    before: u64,
    sender: SyncSender<Result<Vec<f32>>>,
}

impl Blocks {
    fn take(&mut self, mut numbers: &[f32]) -> Result<()> {
        check_numbers(&self.key, numbers, self.size, self.before, false)
            .map_err(|error| error.hint(MEND))?;
        self.before += numbers.len() as u64;
        while self.waiting.len() + numbers.len() >= self.room {
            let (first, rest) = numbers.split_at(self.room - self.waiting.len());
            self.waiting.extend_from_slice(first);
            numbers = rest;
            self.give()?;
        }
        self.waiting.extend_from_slice(numbers);
        Ok(())
    }

    /// Sends what waits; an error once nobody listens, which ends the reading.
    fn give(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let portion = std::mem::take(&mut self.waiting);
        self.sender.send(Ok(portion)).map_err(|_| Error::input("reading was stopped"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset, Field, TableWriter, Values, npz};

    fn written(name: &str, bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    fn complaint(text: &str, keys: &[&str]) -> String {
        let (_folder, path) = written("a.csv", text.as_bytes());
        let read = RowStream::open(&path, keys, 2).and_then(RowStream::all);
        read.unwrap_err().to_string()
    }

    #[test]
    fn portions_of_both_formats_are_cut_alike() {
        let folder = tempfile::tempdir().unwrap();
        let states: Vec<f32> = (0..14).map(|x| x as f32 / 4.0 - 1.0).collect();
        let archive = folder.path().join("a.npz");
        let data = Dataset::new(states.clone(), 2, None, &[7]).unwrap();
        npz::write(&archive, &data).unwrap();
        let table = folder.path().join("a.csv");
        let field = Field::rows("states", "states", &[2]);
        let mut writer = TableWriter::create(&table, vec![field]).unwrap();
        writer.rows(7, &[Values::Numbers(&states)]).unwrap();
        writer.finish().unwrap();
        for (path, keys) in [(&archive, ["states", "observations"]), (&table, ["x", "states"])] {
            let mut stream = RowStream::open(path, &keys, 3).unwrap();
            assert_eq!((stream.rows, stream.size), (7, 2));
            let mut found = Vec::new();
            while let Some(portion) = stream.portion().unwrap() {
                found.push(portion);
            }
            assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6, 2]);
            assert_eq!(found.concat(), states);
            stream.need_width(2).unwrap();
            assert!(stream.need_width(3).unwrap_err().to_string().contains("have 2 values"));
        }
    }

    #[test]
    fn a_stream_that_is_dropped_early_leaves_no_thread_behind() {
        let text = "s_0\n".to_owned() + &"1\n".repeat(10_000);
        let (_folder, path) = written("a.csv", text.as_bytes());
        let mut stream = RowStream::open(&path, &["s"], 1).unwrap();
        assert_eq!(stream.portion().unwrap(), Some(vec![1.0]));
        drop(stream);
    }

    #[test]
    fn what_is_wrong_with_a_table_is_named_with_its_row() {
        let keys = ["from"];
        let wrong = complaint("from_0,from_1\n1,2\n3,nan\n", &keys);
        assert!(wrong.contains("`from` row 1 column 1 is `NaN`"), "{wrong}");
        assert!(wrong.contains("mend the value") && !wrong.contains("trajectory"), "{wrong}");
        let wrong = complaint("from_0,from_1\n1,2\n3\n", &keys);
        assert!(wrong.contains("row 1 has 1 value, expected 2"), "{wrong}");
        let wrong = complaint("from_0\nabc\n", &keys);
        assert!(wrong.contains("row 0") && wrong.contains("`abc`"), "{wrong}");
        let wrong = complaint("fron_0,to_0\n1,2\n", &keys);
        assert!(wrong.contains("no key `from`, found `fron`, `to`"), "{wrong}");
        assert!(wrong.contains("is `fron` meant?"), "{wrong}");
        let wrong = complaint("from_0,from_2\n1,2\n", &keys);
        assert!(wrong.contains("`from_1`"), "{wrong}");
        let wrong = complaint("from_0,from_1\n", &keys);
        assert!(wrong.contains("`from` has no rows"), "{wrong}");
        assert!(complaint("", &keys).contains("the file is empty"));
        let wrong = complaint("from_0,from_0\n1,2\n", &keys);
        assert!(wrong.contains("twice"), "{wrong}");
        let wrong = complaint(&format!("from_0,{}\n", "x".repeat(17 << 20)), &keys);
        assert!(wrong.contains("a line of more than 16777216 bytes"), "{wrong}");
        let wrong = complaint(&",".repeat(200_000), &keys);
        assert!(wrong.contains("200001 columns, at most 131072"), "{wrong}");
    }

    #[test]
    fn a_hundred_thousand_columns_are_told_apart() {
        let names: Vec<String> = (0..100_000).map(|at| format!("from_{at}")).collect();
        let values: Vec<String> = (0..100_000).map(|at| (at % 7).to_string()).collect();
        let text = format!("{}\n{}\n", names.join(","), values.join(","));
        let (_folder, path) = written("a.csv", text.as_bytes());
        let rows = RowStream::open(&path, &["from"], 10).unwrap().all().unwrap();
        assert_eq!(rows.len(), 100_000);
        assert_eq!(rows[99_999], (99_999 % 7) as f32);
    }

    #[test]
    fn windows_line_ends_blank_lines_and_other_columns_are_read() {
        let text = "\u{feff}name,from_1,from_0\r\na,2,1\r\n\r\nb, 4 ,3\r\n";
        let (_folder, path) = written("a.csv", text.as_bytes());
        let rows = RowStream::open(&path, &["from"], 10).unwrap().all().unwrap();
        assert_eq!(rows, [1.0, 2.0, 3.0, 4.0]);
    }
}
