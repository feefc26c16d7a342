//! Trajectories in numpy's npz: `states`, `terminals` and, where known, `actions`.
//!
//! `states` is rows × n (`observations` is the same), `terminals` is 1 on the last row of each
//! trajectory and 0 elsewhere, `actions` is rows × m within [−1, 1], or one whole number a row that
//! says which of n discrete actions was taken. Other keys are left alone.
//! The layout is OGBench's. Files may be hostile: see [`read`].

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::archive::Archive;
use super::door::{Rows, missing, narrowed, same_rows};
use super::{Dataset, npy};
use crate::error::{Error, Result, changes};

/// Keys that hold the states, the preferred one first.
const STATES: [&str; 2] = ["states", "observations"];
const ACTIONS: &str = "actions";
const TERMINALS: &str = "terminals";
const VALIDS: &str = "valids";
/// Names others give to these keys; only ever used in a hint.
const SYNONYMS: [(&str, &[&str]); 2] = [
    ("states", &["obs", "observation", "state", "s", "x"]),
    ("terminals", &["dones", "done", "timeouts", "terminal", "ends", "truncations"]),
];
/// Endings of pickles.
const PICKLES: [&str; 6] = ["pkl", "pickle", "pt", "pth", "joblib", "ckpt"];
/// Room for headers when deciding whether an entry needs 64-bit sizes.
const LARGE_ENTRY: usize = u32::MAX as usize - (1 << 16);

/// Reads a dataset from an npz file, as `numpy.savez` and `numpy.savez_compressed` write it.
///
/// Whatever the file holds, reading ends with the data or with an error, in memory bounded by the
/// file's own size and what its packed bytes can hold.
///
/// # Errors
/// Every mistake has its own message with the file, the key and the row: a file that is no npz, a
/// pickle, a missing key, a wrong dtype or shape, rows that do not match, flags other than 0 and
/// 1, rows after the last terminal, and everything that [`Dataset::new`] refuses.
pub fn read(path: &Path) -> Result<Dataset> {
    refuse_pickle_by_name(path)
        .and_then(|()| read_rows(path, &mut Vec::new()))
        .and_then(Rows::check)
        .map_err(|error| error.in_file(path))
}

/// Reads the rows of a file without a look at their values; what was converted goes to `notes`.
pub(super) fn read_rows(path: &Path, notes: &mut Vec<String>) -> Result<Rows> {
    // Two handles: arrays are unpacked on two threads.
    let mut archive = Archive::open(path)?;
    let mut other = archive.again(super::door::open_file(path)?);
    read_archive(&mut archive, &mut other, notes)
}

/// Reads states by one handle of an archive and, at the same time, all else by the other.
fn read_archive<R: Read + Seek + Send>(
    archive: &mut Archive<R>,
    other: &mut Archive<R>,
    notes: &mut Vec<String>,
) -> Result<Rows> {
    archive.check_headers()?;
    refuse_torch(archive)?;
    let states_key = states_key(archive)?;
    find(archive, TERMINALS).ok_or_else(|| absent(archive, TERMINALS))?;
    let (states, beside) = rayon::join(|| read_matrix(archive, states_key), || Beside::read(other));
    let states = states?.noted(states_key, notes);
    let Beside { actions, mut ends, valid } = beside?;
    let Matrix { values: actions, size: action_size, whole, .. } = match actions {
        None => Matrix::default(),
        Some(actions) => {
            same_rows(ACTIONS, actions.rows, states_key, states.rows)?;
            actions.noted(ACTIONS, notes)
        }
    };
    same_rows(TERMINALS, ends.len(), states_key, states.rows)?;
    if let Some(valid) = valid {
        same_rows(VALIDS, valid.len(), states_key, states.rows)?;
        ends = last_rows(&ends, &valid)?;
        notes.push("`valids` marks OGBench's compact form; trajectories end where it is 0".into());
    }
    Ok(Rows {
        states: states.values,
        state_size: states.size,
        states_key: states_key.to_owned(),
        actions,
        action_size,
        discrete: whole,
        lengths: lengths(&ends)?,
    })
}

/// What an archive holds beside its states.
struct Beside {
    actions: Option<Matrix>,
    ends: Vec<bool>,
    valid: Option<Vec<bool>>,
}

impl Beside {
    fn read<R: Read + Seek>(archive: &mut Archive<R>) -> Result<Self> {
        let has = |archive: &Archive<R>, key| find(archive, key).is_some();
        let actions = has(archive, ACTIONS).then(|| read_matrix(archive, ACTIONS)).transpose()?;
        let ends = read_flags(archive, TERMINALS)?;
        let valid = has(archive, VALIDS).then(|| read_flags(archive, VALIDS)).transpose()?;
        Ok(Self { actions, ends, valid })
    }
}

/// Numbers in rows, and how they were kept in the file.
#[derive(Default)]
struct Matrix {
    values: Vec<f32>,
    rows: usize,
    size: usize,
    wide: bool,
    /// One whole number a row.
    whole: bool,
}

impl Matrix {
    fn noted(self, key: &str, notes: &mut Vec<String>) -> Self {
        notes.extend(self.wide.then(|| narrowed(key)));
        self
    }
}

/// The last rows of OGBench's compact form: `valids` is 0 there, and `terminals` is 1 there and on
/// the row before.
fn last_rows(terminals: &[bool], valid: &[bool]) -> Result<Vec<bool>> {
    let ends: Vec<bool> = valid.iter().map(|valid| !valid).collect();
    for (row, &terminal) in terminals.iter().enumerate() {
        let expected = ends[row] || ends.get(row + 1).is_some_and(|&end| end);
        if terminal != expected {
            return Err(Error::input(format!(
                "`{TERMINALS}` row {row} is {}, expected {}: where `{VALIDS}` is 0, and on the \
                 row before, it is 1",
                u8::from(terminal),
                u8::from(expected)
            ))
            .hint("drop `valids` if `terminals` alone marks the last rows"));
        }
    }
    Ok(ends)
}

/// Refuses a file whose ending says that it is a pickle.
pub(super) fn refuse_pickle_by_name(path: &Path) -> Result<()> {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if !PICKLES.contains(&ending.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(Error::input(format!("`.{ending}` files are pickles, expected npz")).hint(npy::CONVERT))
}

fn refuse_torch<R: Read + Seek>(archive: &Archive<R>) -> Result<()> {
    if archive.entries().iter().all(|entry| !entry.name.ends_with(".pkl")) {
        return Ok(());
    }
    Err(Error::input("the file is a pickle of PyTorch, expected npz").hint(npy::CONVERT))
}

fn keys<R: Read + Seek>(archive: &Archive<R>) -> impl Iterator<Item = &str> {
    archive.entries().iter().filter_map(|entry| entry.name.strip_suffix(".npy"))
}

fn find<R: Read + Seek>(archive: &Archive<R>, key: &str) -> Option<usize> {
    archive.entries().iter().position(|entry| entry.name.strip_suffix(".npy") == Some(key))
}

fn states_key<R: Read + Seek>(archive: &Archive<R>) -> Result<&'static str> {
    let mut found = STATES.into_iter().filter(|key| find(archive, key).is_some());
    let key = found.next().ok_or_else(|| absent(archive, STATES[0]))?;
    match found.next() {
        None => Ok(key),
        Some(other) => Err(Error::input(format!("both `{key}` and `{other}` are there"))
            .hint("keep one of the two")),
    }
}

/// The complaint about a key that is not there.
fn absent<R: Read + Seek>(archive: &Archive<R>, key: &str) -> Error {
    let found = keys(archive).collect::<Vec<_>>();
    let otherwise = match key {
        TERMINALS => "`terminals` is 1 on the last row of each trajectory, else 0",
        _ => "save it with `numpy.savez(file, states=…, terminals=…)`",
    };
    missing(key, &found, nearest(&found, key), otherwise)
}

fn nearest<'a>(found: &[&'a str], key: &str) -> Option<&'a str> {
    let synonyms = SYNONYMS.iter().find(|(name, _)| *name == key).map_or(&[][..], |entry| entry.1);
    let rank = |name: &str| {
        let lower = name.to_ascii_lowercase();
        if synonyms.contains(&lower.as_str()) { 1 } else { changes(&lower, key) }
    };
    let short = found.iter().copied().filter(|name| name.len() <= 2 * key.len());
    short.min_by_key(|name| rank(name)).filter(|name| rank(name) <= key.len() / 3)
}

fn index<R: Read + Seek>(archive: &Archive<R>, key: &str) -> Result<usize> {
    find(archive, key).ok_or_else(|| absent(archive, key))
}

fn read_matrix<R: Read + Seek>(archive: &mut Archive<R>, key: &str) -> Result<Matrix> {
    let index = index(archive, key)?;
    archive.read(index, |reader, entry| {
        let header = npy::header(reader, key, entry.size)?;
        let (rows, size) = match header.shape[..] {
            // Which action was taken, one whole number a row.
            [rows] if key == ACTIONS && header.item.is_whole() => (rows, 1),
            _ => header.matrix(key)?,
        };
        let wide = header.item == npy::Item::Float64;
        let whole = key == ACTIONS && header.item.is_whole() && size == 1;
        let values = if whole {
            npy::wide(reader, &header, key)?.into_iter().map(|value| value as f32).collect()
        } else {
            npy::numbers(reader, &header, key)?
        };
        Ok(Matrix { values, rows, size, wide, whole })
    })
}

fn read_flags<R: Read + Seek>(archive: &mut Archive<R>, key: &str) -> Result<Vec<bool>> {
    let index = index(archive, key)?;
    archive.read(index, |reader, entry| {
        let header = npy::header(reader, key, entry.size)?;
        if header.shape.len() != 1 {
            let found = header.shape.len();
            return Err(Error::input(format!("`{key}` has {found} dimensions, expected 1"))
                .hint(format!("save `{key}.reshape(-1)`")));
        }
        npy::flags(reader, &header, key)
    })
}

fn lengths(ends: &[bool]) -> Result<Vec<usize>> {
    if ends.last() == Some(&false) {
        let first = ends.iter().rposition(|&end| end).map_or(0, |last| last + 1);
        let last = ends.len() - 1;
        return Err(Error::input(format!(
            "`{TERMINALS}` row {last} is 0: rows {first} to {last} belong to no whole trajectory"
        ))
        .hint("set the last row to 1 if the trajectory ends there, or drop these rows"));
    }
    Ok(ends.split_inclusive(|&end| end).map(<[bool]>::len).collect())
}

/// Writes a dataset as plain, unpacked npz, with OGBench's keys: the whole file, or none and what
/// was there before.
///
/// The bytes are a function of the dataset alone.
///
/// # Errors
/// [`Error::Disk`] where the system refuses.
pub fn write(path: &Path, dataset: &Dataset) -> Result<()> {
    write_with(path, dataset, &[])
}

/// An array beside the dataset's own: its key, the numbers in a row, and its rows.
pub type Further<'a> = (&'a str, usize, &'a [f32]);

/// As [`write`], with `further` arrays beside the dataset's own.
///
/// # Errors
/// As [`write`].
///
/// # Panics
/// Where an array has not as many rows as the dataset.
pub fn write_with(path: &Path, dataset: &Dataset, further: &[Further<'_>]) -> Result<()> {
    let temporary = beside(path);
    let written = write_file(&temporary, dataset, further)
        .map_err(|error| Error::disk("write", path, error))
        .and_then(|()| {
            std::fs::rename(&temporary, path).map_err(|e| Error::disk("rename", path, e))
        });
    if written.is_err() {
        // The first error is the one to tell; a leftover is overwritten by the next write.
        std::fs::remove_file(&temporary).ok();
        return written;
    }
    sync_folder_of(path).map_err(|error| Error::disk("sync the folder of", path, error))
}

/// A name in the same folder that no other process takes.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn write_file(path: &Path, dataset: &Dataset, further: &[Further<'_>]) -> io::Result<()> {
    let file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut archive = ZipWriter::new(Held { file, position: 0, failed: None });
    let (rows, size) = (dataset.rows(), dataset.action_size());
    write_matrix(&mut archive, STATES[1], dataset.states(), &[rows, dataset.state_size()])?;
    if dataset.choices().is_some() {
        archive.start_file(format!("{ACTIONS}.npy"), options(8 * rows))?;
        npy::write_header(&mut archive, npy::Item::Int64, &[rows])?;
        for row in dataset.actions().chunks_exact(size) {
            let choice = row.iter().position(|&x| x == 1.0).unwrap_or_default();
            archive.write_all(&(choice as i64).to_le_bytes())?;
        }
    } else if size > 0 {
        write_matrix(&mut archive, ACTIONS, dataset.actions(), &[rows, size])?;
    }
    for &(key, width, values) in further {
        assert_eq!(values.len(), rows * width, "`{key}` beside {rows} rows");
        write_matrix(&mut archive, key, values, &[rows, width])?;
    }
    archive.start_file(format!("{TERMINALS}.npy"), options(rows))?;
    npy::write_header(&mut archive, npy::Item::Bool, &[rows])?;
    let ends = (0..rows).map(|row| u8::from(dataset.last_row(row) == row));
    archive.write_all(&ends.collect::<Vec<_>>())?;
    archive.finish()?.close()
}

/// A file that holds its first error until it is closed: the `zip` crate's writer would print it
/// when dropped.
struct Held {
    file: BufWriter<File>,
    position: u64,
    failed: Option<io::Error>,
}

impl Held {
    /// Everything on the disk, or the first error.
    fn close(self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all(),
        }
    }

    fn attempt(&mut self, work: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = work(&mut self.file).err();
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

fn write_matrix(
    archive: &mut ZipWriter<Held>,
    key: &str,
    values: &[f32],
    shape: &[usize],
) -> io::Result<()> {
    archive.start_file(format!("{key}.npy"), options(size_of_val(values)))?;
    npy::write_header(archive, npy::Item::Float32, shape)?;
    npy::write_numbers(archive, values)
}

fn options(bytes: usize) -> SimpleFileOptions {
    SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(bytes > LARGE_ENTRY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const PLAIN: &[u8] = include_bytes!("../../tests/fixtures/plain.npz");
    const COMPRESSED: &[u8] = include_bytes!("../../tests/fixtures/compressed.npz");
    const FLOAT64: &[u8] = include_bytes!("../../tests/fixtures/float64.npz");
    const FORTRAN: &[u8] = include_bytes!("../../tests/fixtures/fortran.npz");
    const OBJECT: &[u8] = include_bytes!("../../tests/fixtures/object.npz");
    const NO_TERMINALS: &[u8] = include_bytes!("../../tests/fixtures/no-terminals.npz");

    /// What every sound fixture holds.
    fn expected() -> Dataset {
        let states = vec![0.0, 0.5, 1.0, -1.5, 2.0, 2.25, 3.0, 0.0, 4.0, 1e-3];
        Dataset::new(states, 2, Some((vec![0.5, -1.0, 0.0, 1.0, 0.25], 1)), &[3, 2]).unwrap()
    }

    struct Bench {
        folder: TempDir,
    }

    impl Bench {
        fn new() -> Self {
            Self { folder: TempDir::new().unwrap() }
        }

        fn read_named(&self, name: &str, bytes: &[u8]) -> Result<Dataset> {
            let path = self.folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            read(&path)
        }

        fn read(&self, bytes: &[u8]) -> Result<Dataset> {
            self.read_named("data.npz", bytes)
        }

        fn complaint(&self, bytes: &[u8]) -> String {
            let error = self.read(bytes).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
            let text = error.to_string();
            assert!(text.contains("data.npz"), "no file named: {text}");
            text
        }
    }

    /// A zip of arrays given by key, dtype, shape and bytes.
    fn pack(method: CompressionMethod, arrays: &[(&str, npy::Item, &[usize], &[u8])]) -> Vec<u8> {
        let mut archive = ZipWriter::new(io::Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(method);
        for &(key, item, shape, data) in arrays {
            archive.start_file(format!("{key}.npy"), options).unwrap();
            npy::write_header(&mut archive, item, shape).unwrap();
            archive.write_all(data).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    /// As [`read`], from memory.
    fn read_bytes(bytes: &[u8]) -> Result<Dataset> {
        let mut archive = Archive::new(io::Cursor::new(bytes))?;
        let mut other = archive.again(io::Cursor::new(bytes));
        read_archive(&mut archive, &mut other, &mut Vec::new())?.check()
    }

    fn stored(arrays: &[(&str, npy::Item, &[usize], &[u8])]) -> Vec<u8> {
        pack(CompressionMethod::Stored, arrays)
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn files_of_numpy_are_read_plain_packed_and_wide() {
        let bench = Bench::new();
        for (name, bytes) in [("plain", PLAIN), ("packed", COMPRESSED), ("wide", FLOAT64)] {
            assert_eq!(bench.read(bytes).unwrap(), expected(), "{name}");
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_its_bytes_are_a_function_of_the_data() {
        let folder = TempDir::new().unwrap();
        let bare = Dataset::new(vec![1.0, 2.0, 3.0], 1, None, &[1, 2]).unwrap();
        for dataset in [expected(), bare] {
            let paths = [folder.path().join("one.npz"), folder.path().join("two.npz")];
            for path in &paths {
                write(path, &dataset).unwrap();
                assert_eq!(read(path).unwrap(), dataset);
            }
            assert_eq!(std::fs::read(&paths[0]).unwrap(), std::fs::read(&paths[1]).unwrap());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "a leftover");
    }

    #[test]
    fn a_write_that_fails_leaves_what_was_there() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("data.npz");
        write(&path, &expected()).unwrap();
        let before = std::fs::read(&path).unwrap();
        if cfg!(target_os = "linux") {
            std::os::unix::fs::symlink("/dev/full", beside(&path)).unwrap();
            let error = write(&path, &expected()).unwrap_err();
            assert_eq!(error.exit_code(), 4, "{error}");
            assert!(!beside(&path).exists());
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(
            write(&folder.path().join("no/data.npz"), &expected()).unwrap_err().exit_code(),
            4
        );
    }

    #[test]
    fn every_truncation_is_refused() {
        for bytes in [PLAIN, COMPRESSED] {
            for length in 0..bytes.len() {
                assert!(read_bytes(&bytes[..length]).is_err(), "{length} bytes");
            }
        }
    }

    #[test]
    fn every_flipped_bit_gives_an_error_or_the_right_data() {
        for bytes in [PLAIN, COMPRESSED] {
            let mut bytes = bytes.to_vec();
            let mut refused = 0;
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                match read_bytes(&bytes) {
                    Ok(dataset) => assert_eq!(dataset, expected(), "bit {bit}"),
                    Err(_) => refused += 1,
                }
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            assert!(refused > bytes.len() * 4, "only {refused} flips were noticed");
        }
    }

    #[test]
    fn foreign_files_are_named_with_the_way_to_convert() {
        let bench = Bench::new();
        assert!(bench.complaint(OBJECT).contains("`states` holds Python objects"));
        assert!(bench.complaint(OBJECT).contains("numpy.savez(file, states=…, terminals=…)"));
        assert!(bench.complaint(FORTRAN).contains("`states` is in Fortran order"));
        assert!(bench.complaint(b"\x80\x04\x95pickle").contains("the file is a pickle"));
        assert!(bench.complaint(b"\x89HDF\r\n\x1a\n").contains("HDF5"));
        assert!(bench.complaint(b"\x93NUMPY\x01\x00").contains("one npy array"));
        assert!(bench.complaint(b"").contains("empty"));
        assert!(bench.complaint(b"hello, world").contains("not npz"));
        for name in ["a.pkl", "a.pt", "a.PTH", "a.pickle"] {
            let error = bench.read_named(name, PLAIN).unwrap_err().to_string();
            assert!(error.contains("are pickles") && error.contains("numpy.savez"), "{error}");
        }
        let mut torch = ZipWriter::new(io::Cursor::new(Vec::new()));
        torch.start_file("archive/data.pkl", SimpleFileOptions::default()).unwrap();
        let torch = torch.finish().unwrap().into_inner();
        assert!(bench.complaint(&torch).contains("a pickle of PyTorch"));
        let folder = read(bench.folder.path()).unwrap_err().to_string();
        assert!(folder.contains("expected a plain file"), "{folder}");
        let none = read(&bench.folder.path().join("none.npz")).unwrap_err();
        assert!(none.to_string().contains("none.npz") && none.exit_code() == 2, "{none}");
    }

    #[test]
    fn a_missing_key_is_named_with_the_keys_that_are_there() {
        let bench = Bench::new();
        let error = bench.complaint(NO_TERMINALS);
        assert!(error.starts_with("no key `terminals`, found `states`, `actions`, `dones` in"));
        assert!(error.ends_with("is `dones` meant? save it as `terminals`"), "{error}");
        let data = floats(&[1.0]);
        let typo = stored(&[("statse", npy::Item::Float32, &[1, 1], &data)]);
        assert!(bench.complaint(&typo).contains("is `statse` meant?"));
        let other = stored(&[("zebra", npy::Item::Float32, &[1, 1], &data)]);
        assert!(bench.complaint(&other).contains("found `zebra`"));
        assert!(!bench.complaint(&other).contains("meant"));
        assert!(bench.complaint(&stored(&[])).contains("found no arrays"));
    }

    #[test]
    fn each_mistake_in_honest_data_has_its_own_message() {
        use npy::Item::{Bool, Byte, Float32};
        let bench = Bench::new();
        let four = floats(&[0.0, 1.0, 2.0, 3.0]);
        let states = ("states", Float32, &[4, 1][..], &four[..]);
        let ends = ("terminals", Bool, &[4][..], &[0, 1, 0, 1][..]);
        assert!(bench.read(&stored(&[states, ends])).is_ok());
        let says = |arrays: &[(&str, npy::Item, &[usize], &[u8])], text: &str| {
            let error = bench.complaint(&stored(arrays));
            assert!(error.contains(text), "expected `{text}` in: {error}");
        };
        says(&[("states", Float32, &[4], &four), ends], "`states` has 1 dimensions, expected 2");
        says(&[("states", Float32, &[4, 0], &[]), ends], "`states` has no numbers in a row");
        says(&[("states", Byte, &[4, 1], &[0; 4]), ends], "`states` has dtype `|u1`");
        says(&[states, ("observations", Float32, &[4, 1], &four), ends], "both `states` and");
        says(&[states, ("terminals", Bool, &[4, 1], &[0, 1, 0, 1])], "`terminals` has 2 dimens");
        says(&[states, ("terminals", Bool, &[3], &[0, 0, 1])], "`terminals` has 3 rows, `states`");
        says(&[states, ("terminals", Bool, &[4], &[0, 7, 0, 1])], "`terminals` row 1 is `7`");
        says(&[states, ("terminals", Bool, &[4], &[0, 1, 0, 0])], "rows 2 to 3 belong to no whole");
        says(&[states, ("terminals", Bool, &[4], &[0; 4])], "rows 0 to 3 belong to no whole");
        says(&[states, ("terminals", Bool, &[4], &[1; 4])], "no trajectory has two rows");
        says(
            &[states, ends, ("valids", Bool, &[4], &[1; 4])],
            "`terminals` row 1 is 1, expected 0",
        );
        says(&[states, ends, ("valids", Bool, &[3], &[1; 3])], "`valids` has 3 rows");
        let short = ("actions", Float32, &[3, 1][..], &four[..12]);
        says(&[states, short, ends], "`actions` has 3 rows, `states` has 4");
        let wide = ("actions", Float32, &[4, 1][..], &four[..]);
        says(&[states, wide, ends], "`actions` row 2 column 0 is `2`, expected within [-1, 1]");
        let holed = floats(&[0.0, f32::NAN, 2.0, 3.0]);
        let holed = ("states", Float32, &[2, 2][..], &holed[..]);
        let end = ("terminals", Bool, &[2][..], &[0, 1][..]);
        says(&[holed, end], "`states` row 0 column 1 is `NaN`, expected a finite number");
    }

    #[test]
    fn the_compact_form_ends_a_trajectory_where_valids_is_0() {
        let states = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let compact = stored(&[
            ("observations", npy::Item::Float32, &[7, 1], &states),
            ("terminals", npy::Item::Float32, &[7], &floats(&[0., 1., 1., 0., 0., 1., 1.])),
            ("valids", npy::Item::Float32, &[7], &floats(&[1., 1., 0., 1., 1., 1., 0.])),
        ]);
        let dataset = Bench::new().read(&compact).unwrap();
        assert_eq!(dataset.trajectories(), 2);
        assert_eq!((dataset.trajectory(0), dataset.trajectory(1)), (0..3, 3..7));
    }

    #[test]
    fn bombs_are_refused_before_they_are_unpacked() {
        let bench = Bench::new();
        let zeros = vec![0; 80 << 20];
        let shape = [zeros.len() / 4, 1];
        let bomb = pack(
            CompressionMethod::Deflated,
            &[
                ("states", npy::Item::Float32, &shape, &zeros),
                ("terminals", npy::Item::Bool, &[1], &[1]),
            ],
        );
        assert!(bomb.len() < 1 << 20);
        let error = bench.complaint(&bomb);
        assert!(error.contains("more than 100 times"), "{error}");
    }

    /// Where the directory's record of the first entry begins.
    fn first_record(bytes: &[u8]) -> usize {
        bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap()
    }

    #[test]
    fn sizes_that_lie_are_refused() {
        let bench = Bench::new();
        for (bytes, packed_offset, claim) in [
            (PLAIN, 24, u32::MAX - 1),
            (PLAIN, 24, 3),
            (COMPRESSED, 24, u32::MAX - 1),
            (COMPRESSED, 24, 200_000),
            (COMPRESSED, 24, 130),
            (COMPRESSED, 20, u32::MAX - 1),
            (COMPRESSED, 20, 5),
        ] {
            let mut bytes = bytes.to_vec();
            let at = first_record(&bytes) + packed_offset;
            bytes[at..at + 4].copy_from_slice(&claim.to_le_bytes());
            bench.complaint(&bytes);
        }
    }

    #[test]
    fn a_thousand_entries_are_read_and_one_more_is_refused() {
        let bench = Bench::new();
        let crowd = |count: usize| {
            let mut archive = zip::ZipWriter::new_append(io::Cursor::new(PLAIN.to_vec())).unwrap();
            for index in 0..count - 3 {
                archive.start_file(format!("{index}"), SimpleFileOptions::default()).unwrap();
            }
            archive.finish().unwrap().into_inner()
        };
        assert_eq!(bench.read(&crowd(1_000)).unwrap(), expected());
        assert!(bench.complaint(&crowd(1_001)).contains("1001 entries"));
        // The end record claims 64-bit numbers that say a million.
        assert!(bench.complaint(&with_large_end(PLAIN, 1_000_000)).contains("1000000 entries"));
    }

    /// The same archive with its end record in 64 bits.
    fn with_large_end(bytes: &[u8], entries: u64) -> Vec<u8> {
        let end = bytes.len() - 22;
        let (size, start) = (&bytes[end + 12..end + 16], &bytes[end + 16..end + 20]);
        let mut large = bytes[..end].to_vec();
        large.extend(b"PK\x06\x06");
        large.extend(44u64.to_le_bytes());
        large.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        large.extend(entries.to_le_bytes());
        large.extend(entries.to_le_bytes());
        for number in [size, start] {
            large.extend(number);
            large.extend([0; 4]);
        }
        large.extend(b"PK\x06\x07\0\0\0\0");
        large.extend((end as u64).to_le_bytes());
        large.extend(1u32.to_le_bytes());
        large.extend(b"PK\x05\x06\0\0\0\0");
        large.extend([0xff; 12]);
        large.extend([0, 0]);
        large
    }

    #[test]
    fn a_64_bit_end_record_is_read() {
        assert_eq!(Bench::new().read(&with_large_end(PLAIN, 3)).unwrap(), expected());
    }

    #[test]
    fn a_key_that_stands_twice_is_refused() {
        // Both the directory and the header of `actions` say `states`, padded by nothing.
        let data = floats(&[1.0]);
        let mut bytes = stored(&[
            ("states", npy::Item::Float32, &[1, 1], &data),
            ("stateS", npy::Item::Float32, &[1, 1], &data),
        ]);
        let spots = (0..bytes.len() - 6).filter(|&at| &bytes[at..at + 6] == b"stateS");
        for at in spots.collect::<Vec<_>>() {
            bytes[at + 5] = b's';
        }
        assert!(Bench::new().complaint(&bytes).contains("`states.npy` stands twice"));
    }
}
