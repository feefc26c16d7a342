//! Everything a run needs to go on, in one safetensors file that is whole or not there.
//!
//! Temporary file → fsync → rename → fsync of the folder. The metadata begin with
//! BLAKE3(file with the 64 digits of the checksum as zeros), so that no bit may differ: tensors,
//! facts, step and layout alike. The bytes are a function of the [`Snapshot`]; no clock, no
//! random names. The newest checkpoint is found by looking, never by a pointer.
//! Source of the layout: Hugging Face, "Safetensors", section Format.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

use crate::data::Dataset;
use crate::error::{Error, Result};

/// The version of the layout, written under the fact `format`.
pub const FORMAT: &str = "1";

/// Facts that are written by [`save`] itself.
const RESERVED: [&str; 3] = [CHECKSUM, "format", "step"];
const CHECKSUM: &str = "blake3";
/// What safetensors calls its facts.
const METADATA: &str = "__metadata__";
/// How the text of every checkpoint begins; the digits of the checksum follow.
const OPENING: &str = r#"{"__metadata__":{"blake3":""#;
const LENGTH_SIZE: usize = 8;
const DIGITS_START: usize = LENGTH_SIZE + OPENING.len();
const DIGITS: usize = 2 * blake3::OUT_LEN;
const DIGITS_END: usize = DIGITS_START + DIGITS;
const NO_DIGITS: [u8; DIGITS] = [b'0'; DIGITS];
const TEMPORARY: &str = ".tmp";
const LOCK: &str = ".lock";

/// What is asked of a file system: whole files, in an order that survives a cut of power.
pub trait Files: Send + Sync {
    /// Creates or replaces a file and returns when all its bytes are on the disk.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Gives a file another name, replacing what has it, in one indivisible act.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Returns when the names in a folder are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// The bytes of a plain file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// The names in a folder, in any order.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The file system of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Files for Disk {
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // One handle for both: a failed write-back is reported to the handle that wrote.
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        // A pipe or a device could be read for ever.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file"));
        }
        std::fs::read(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
}

/// The name, the shape and the values of a tensor.
pub type Tensor = (String, Vec<usize>, Vec<f32>);

/// A run at one step: all its numbers, and the facts they depend on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Updates done.
    pub step: u64,
    /// All tensors, in any order; [`load`] returns them sorted by name.
    pub tensors: Vec<Tensor>,
    /// Hash of the config, fingerprint of the data, kind of model: whatever must agree to go on.
    pub facts: BTreeMap<String, String>,
}

impl Snapshot {
    /// The tensor of this name: its shape and values.
    pub fn tensor(&self, name: &str) -> Option<(&[usize], &[f32])> {
        let found = self.tensors.iter().find(|tensor| tensor.0 == name)?;
        Some((&found.1, &found.2))
    }
}

/// Writes a snapshot to `path`: the whole file, or none and what was there before.
///
/// # Errors
/// [`Error::Diverged`] with the tensor's name where a number is not finite, [`Error::Disk`] where
/// the system refuses, [`Error::Input`] where a name stands twice or a shape does not fit.
pub fn save(files: &dyn Files, path: &Path, snapshot: &Snapshot) -> Result<()> {
    write_whole(files, path, &encode(snapshot).map_err(|error| error.in_file(path))?)
}

/// Writes a file whole, or leaves what was there before: temporary file, sync, rename, sync of the
/// folder.
///
/// # Errors
/// The system refuses; the temporary file is then gone.
pub fn write_whole(files: &dyn Files, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = temporary(path);
    let placed =
        files.write(&temporary, bytes).map_err(|error| Error::disk("write", path, error)).and_then(
            |()| files.rename(&temporary, path).map_err(|error| Error::disk("rename", path, error)),
        );
    if placed.is_err() {
        // Gives the space back; a leftover would be replaced by the next save.
        files.remove(&temporary).ok();
        return placed;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    files.sync_folder(folder).map_err(|error| Error::disk("sync", folder, error))
}

fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(TEMPORARY);
    path.with_file_name(name)
}

/// Reads a snapshot and verifies every bit of it.
///
/// # Errors
/// [`Error::Disk`] where the file cannot be read; [`Error::Input`] where it is damaged, was not
/// written by [`save`], or has another format.
pub fn load(files: &dyn Files, path: &Path) -> Result<Snapshot> {
    let bytes = files.read(path).map_err(|error| Error::disk("read", path, error))?;
    decode(&bytes).map_err(|error| error.in_file(path))
}

/// Writes `step-<12 digits>.safetensors` into `folder` and removes what is no longer needed:
/// temporary files that a killed save left, and all but the `keep` newest checkpoints up to this
/// step. The one just written always stays.
///
/// # Errors
/// As [`save`]; where only the tidying fails, the checkpoint is already safe.
pub fn save_step(files: &dyn Files, folder: &Path, snapshot: &Snapshot, keep: usize) -> Result<()> {
    let names = files.list(folder).map_err(|error| Error::disk("list", folder, error))?;
    let remove = |name: &str| {
        let path = folder.join(name);
        files.remove(&path).map_err(|error| Error::disk("remove", path, error))
    };
    let leftovers = names.iter().filter(|name| {
        name.strip_suffix(TEMPORARY).is_some_and(|target| step_of(target).is_some())
    });
    leftovers.map(String::as_str).try_for_each(remove)?;
    save(files, &folder.join(name_of(snapshot.step)), snapshot)?;
    let steps = names.iter().filter_map(|name| step_of(name));
    let mut older = steps.filter(|&step| step < snapshot.step).collect::<Vec<_>>();
    older.sort_unstable_by(|one, other| other.cmp(one));
    let others = keep.saturating_sub(1);
    older.into_iter().skip(others).try_for_each(|step| remove(&name_of(step)))
}

fn name_of(step: u64) -> String {
    format!("step-{step:012}.safetensors")
}

fn step_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("step-")?.strip_suffix(".safetensors")?;
    digits.parse().ok().filter(|&step| name_of(step) == name)
}

/// What a folder of checkpoints holds.
#[derive(Debug, Default)]
pub struct Latest {
    /// The newest snapshot that verifies.
    pub snapshot: Option<Snapshot>,
    /// Why newer ones were passed over, the newest first; each error names its file.
    pub skipped: Vec<Error>,
}

/// Finds the newest checkpoint of `folder` that verifies; a folder that is not there has none.
///
/// # Errors
/// [`Error::Disk`] where the folder cannot be listed. A damaged checkpoint is no error: it is
/// passed over and told in [`Latest::skipped`].
pub fn latest(files: &dyn Files, folder: &Path) -> Result<Latest> {
    let names = match files.list(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Latest::default()),
        listed => listed.map_err(|error| Error::disk("list", folder, error))?,
    };
    let mut steps = names.iter().filter_map(|name| step_of(name)).collect::<Vec<_>>();
    steps.sort_unstable_by(|one, other| other.cmp(one));
    let mut found = Latest::default();
    for step in steps {
        let path = folder.join(name_of(step));
        match load(files, &path) {
            Ok(snapshot) if snapshot.step == step => {
                found.snapshot = Some(snapshot);
                break;
            }
            Ok(other) => found.skipped.push(
                Error::input(format!("the checkpoint is of step {}, not {step}", other.step))
                    .in_file(&path),
            ),
            Err(error) => found.skipped.push(error),
        }
    }
    Ok(found)
}

fn encode(snapshot: &Snapshot) -> Result<Vec<u8>> {
    let mut tensors = snapshot.tensors.iter().collect::<Vec<_>>();
    tensors.sort_by(|one, other| one.0.cmp(&other.0));
    for (name, shape, values) in &tensors {
        check_tensor(snapshot.step, name, shape, values)?;
    }
    if let Some(pair) = tensors.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(Error::input(format!("tensor `{}` stands twice", pair[0].0)));
    }
    let header = header(snapshot, &tensors)?;
    let size = tensors.iter().map(|tensor| size_of_val(tensor.2.as_slice())).sum::<usize>();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(LENGTH_SIZE + header.len() + size).map_err(|_| {
        Error::memory(format!("a checkpoint of {size} bytes does not fit into the memory"))
    })?;
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend(header.as_bytes());
    for (_, _, values) in tensors {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    let digits = checksum(&bytes);
    bytes[DIGITS_START..DIGITS_END].copy_from_slice(digits.as_bytes());
    Ok(bytes)
}

fn check_tensor(step: u64, name: &str, shape: &[usize], values: &[f32]) -> Result<()> {
    if name == METADATA {
        return Err(Error::input(format!("`{name}` cannot name a tensor")));
    }
    let count = shape.iter().try_fold(1usize, |product, &side| product.checked_mul(side));
    if count != Some(values.len()) {
        return Err(Error::input(format!(
            "tensor `{name}` has {} numbers, expected the shape `{shape:?}`",
            values.len()
        )));
    }
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(()),
        Some(&value) => {
            Err(Error::Diverged { step, metric: name.to_string(), value: f64::from(value) })
        }
    }
}

fn header(snapshot: &Snapshot, tensors: &[&Tensor]) -> Result<String> {
    if let Some(name) = RESERVED.iter().find(|name| snapshot.facts.contains_key(**name)) {
        return Err(Error::input(format!("the fact `{name}` is written by the checkpoint itself")));
    }
    let mut facts = snapshot.facts.clone();
    facts.insert("format".into(), FORMAT.into());
    facts.insert("step".into(), snapshot.step.to_string());
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = OPENING.to_string() + &"0".repeat(DIGITS) + "\"";
    for (name, value) in &facts {
        text += &format!(",{}:{}", quoted(name), quoted(value));
    }
    text.push('}');
    let mut start = 0;
    for (name, shape, values) in tensors {
        let end = start + size_of_val(values.as_slice());
        let name = quoted(name);
        let shape = serde_json::Value::from(shape.as_slice());
        text +=
            &format!(r#",{name}:{{"dtype":"F32","shape":{shape},"data_offsets":[{start},{end}]}}"#);
        start = end;
    }
    text.push('}');
    // Tensors begin at a multiple of eight bytes, as the format asks.
    let padding = text.len().next_multiple_of(8) - text.len();
    Ok(text + &" ".repeat(padding))
}

/// The digits of the checksum of a file, whatever digits stand in it.
fn checksum(bytes: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&bytes[..DIGITS_START]).update(&NO_DIGITS).update(&bytes[DIGITS_END..]);
    hasher.finalize().to_hex().to_string()
}

fn decode(bytes: &[u8]) -> Result<Snapshot> {
    if bytes.len() < DIGITS_END || &bytes[LENGTH_SIZE..DIGITS_START] != OPENING.as_bytes() {
        return Err(foreign(bytes));
    }
    if &bytes[DIGITS_START..DIGITS_END] != checksum(bytes).as_bytes() {
        return Err(damaged("its checksum does not match"));
    }
    let (header, metadata) =
        SafeTensors::read_metadata(bytes).map_err(|error| damaged(&error.to_string()))?;
    let mut facts = BTreeMap::from_iter(metadata.metadata().clone().unwrap_or_default());
    let format = facts.remove("format").unwrap_or_default();
    if format != FORMAT {
        return Err(Error::input(format!(
            "the checkpoint has format `{format}`, expected `{FORMAT}`"
        ))
        .hint("use the version of isochrone that wrote it"));
    }
    facts.remove(CHECKSUM);
    let step = facts.remove("step").and_then(|step| step.parse().ok());
    let step = step.ok_or_else(|| damaged("it names no step"))?;
    let data = &bytes[LENGTH_SIZE + header..];
    let mut tensors = Vec::new();
    for (name, info) in BTreeMap::from_iter(metadata.tensors()) {
        let (start, end) = info.data_offsets;
        if info.dtype != Dtype::F32 {
            return Err(Error::input(format!(
                "tensor `{name}` is `{}`, expected `F32`",
                info.dtype
            )));
        }
        let values = data[start..end].as_chunks().0.iter().map(|&item| f32::from_le_bytes(item));
        let values = values.collect::<Vec<_>>();
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(Error::input(format!("tensor `{name}` holds `{value}`")));
        }
        tensors.push((name, info.shape.clone(), values));
    }
    Ok(Snapshot { step, tensors, facts })
}

fn damaged(why: &str) -> Error {
    Error::input(format!("the checkpoint is damaged: {why}"))
        .hint("go on from an older one, or copy it again")
}

fn foreign(bytes: &[u8]) -> Error {
    if SafeTensors::read_metadata(bytes).is_ok() {
        return Error::input("the safetensors file is no checkpoint of isochrone")
            .hint("a checkpoint is written by `isochrone train`");
    }
    damaged("it does not begin as one")
}

/// A name for the contents of a dataset: 64 digits that change with any number or boundary in it.
///
/// # Errors
/// Data that stay in a file can no longer be read.
pub fn fingerprint(dataset: &Dataset) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    let mut number = |value: usize| {
        hasher.update(&(value as u64).to_le_bytes());
    };
    [dataset.rows(), dataset.state_size(), dataset.action_size(), dataset.trajectories()]
        .into_iter()
        .chain(dataset.lengths())
        .for_each(&mut number);
    let mut add = |values: &[f32]| {
        for chunk in values.chunks(1 << 14) {
            let bytes = chunk.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
            hasher.update(&bytes);
        }
        Ok(())
    };
    dataset.each_states(&mut add)?;
    dataset.each_actions(&mut add)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// The right to work in a folder, held until dropped; the system frees it when a process dies.
#[derive(Debug)]
pub struct Lock {
    held: File,
}

impl Lock {
    /// Takes the folder, creating it where it is not there.
    ///
    /// # Errors
    /// [`Error::Busy`] where another run has it, [`Error::Disk`] where the system refuses.
    pub fn take(folder: &Path) -> Result<Self> {
        let refused = |error| Error::disk("lock", folder, error);
        std::fs::create_dir_all(folder).map_err(refused)?;
        // The file stays after the run: removing it would let two runs hold two files.
        let options = OpenOptions::new().create(true).write(true).truncate(false).clone();
        let file = options.open(folder.join(LOCK)).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { held: file }),
            Err(TryLockError::WouldBlock) => Err(Error::busy("another run is at work")
                .in_file(folder)
                .hint("wait until it ends or choose another folder with `--out`")),
            Err(TryLockError::Error(error)) => Err(refused(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child process just being started may still have the file open.
        self.held.unlock().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::sync::{Barrier, Mutex, MutexGuard};
    use tempfile::TempDir;

    const GOLDEN: &[u8] = include_bytes!("../tests/fixtures/checkpoint-format-1.safetensors");

    fn snapshot(step: u64) -> Snapshot {
        let wave = |index: u64| ((step + index) as f32 * 0.7).sin();
        Snapshot {
            step,
            tensors: vec![
                ("bias".into(), vec![3], (0..3).map(wave).collect()),
                ("empty".into(), vec![0, 4], vec![]),
                ("encoder/weight \"q\"".into(), vec![2, 2], (3..7).map(wave).collect()),
                ("scalar".into(), vec![], vec![-0.0]),
            ],
            facts: [("config", "c0ffee"), ("kind", "cmd1"), ("note", "a \"quoted\" γ\n")]
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .into(),
        }
    }

    /// A file system in memory that remembers what a cut of power may undo.
    #[derive(Default)]
    struct Twin {
        state: Mutex<State>,
        fault: Option<(usize, Fault)>,
        forgets_folders: bool,
    }

    #[derive(Default)]
    struct State {
        contents: Vec<Vec<u8>>,
        names: BTreeMap<PathBuf, usize>,
        durable: BTreeMap<PathBuf, usize>,
        pending: Vec<Change>,
        operations: usize,
        dead: bool,
    }

    /// A change of names that is not yet on the disk.
    #[derive(Clone)]
    enum Change {
        Create(PathBuf, usize),
        Rename(PathBuf, PathBuf, usize),
        Remove(PathBuf),
    }

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        /// The process dies before the operation, half way through it, or right after it.
        DieBefore,
        DieMidway,
        DieAfter,
        /// The operation alone fails; a write leaves half its bytes.
        Refuse,
    }

    impl Change {
        fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
            match self {
                Self::Create(path, content) => drop(names.insert(path.clone(), *content)),
                Self::Remove(path) => drop(names.remove(path)),
                Self::Rename(from, to, content) => {
                    names.remove(from);
                    names.insert(to.clone(), *content);
                }
            }
        }
    }

    impl Twin {
        fn with_fault(fault: Option<(usize, Fault)>) -> Self {
            Self { fault, ..Self::default() }
        }

        fn lock(&self) -> MutexGuard<'_, State> {
            self.state.lock().unwrap()
        }

        /// Counts an operation and does it, unless its fault has come.
        fn operate<T>(
            &self,
            half: impl FnOnce(&mut State),
            whole: impl FnOnce(&mut State) -> io::Result<T>,
        ) -> io::Result<T> {
            let mut state = self.lock();
            let gone = || io::Error::other("the process is gone");
            if state.dead {
                return Err(gone());
            }
            let now = state.operations;
            state.operations += 1;
            let fault = self.fault.filter(|fault| fault.0 == now).map(|fault| fault.1);
            state.dead = fault.is_some_and(|fault| fault != Fault::Refuse);
            match fault {
                None => whole(&mut state),
                Some(Fault::DieBefore) => Err(gone()),
                Some(Fault::DieAfter) => whole(&mut state).and(Err(gone())),
                Some(Fault::DieMidway) => {
                    half(&mut state);
                    Err(gone())
                }
                Some(Fault::Refuse) => {
                    half(&mut state);
                    Err(io::ErrorKind::StorageFull.into())
                }
            }
        }

        /// Every file system that may be found after the end: all names, or any part of those
        /// changes that were not yet on the disk.
        fn afterwards(&self) -> Vec<Self> {
            let state = self.lock();
            let mut all = Vec::new();
            for chosen in 0..1usize << state.pending.len() {
                let mut names = state.durable.clone();
                for (index, change) in state.pending.iter().enumerate() {
                    if chosen >> index & 1 == 1 {
                        change.apply(&mut names);
                    }
                }
                let (contents, durable) = (state.contents.clone(), names.clone());
                let state = State { contents, names, durable, ..State::default() };
                all.push(Self { state: Mutex::new(state), ..Self::default() });
            }
            all
        }
    }

    impl State {
        fn change(&mut self, change: Change) {
            change.apply(&mut self.names);
            self.pending.push(change);
        }

        fn create(&mut self, path: &Path, bytes: &[u8]) {
            self.contents.push(bytes.to_vec());
            self.change(Change::Create(path.to_path_buf(), self.contents.len() - 1));
        }

        fn find(&self, path: &Path) -> io::Result<usize> {
            self.names.get(path).copied().ok_or(io::ErrorKind::NotFound.into())
        }
    }

    impl Files for Twin {
        fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
            self.operate(
                |state| state.create(path, &bytes[..bytes.len() / 2]),
                |state| {
                    state.create(path, bytes);
                    Ok(())
                },
            )
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            self.operate(
                |_| (),
                |state| {
                    let content = state.find(from)?;
                    state.change(Change::Rename(from.into(), to.into(), content));
                    Ok(())
                },
            )
        }

        fn sync_folder(&self, _: &Path) -> io::Result<()> {
            self.operate(
                |_| (),
                |state| {
                    if !self.forgets_folders {
                        state.durable = state.names.clone();
                        state.pending.clear();
                    }
                    Ok(())
                },
            )
        }

        fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
            self.operate(|_| (), |state| state.find(path).map(|at| state.contents[at].clone()))
        }

        fn list(&self, _: &Path) -> io::Result<Vec<String>> {
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_string();
            self.operate(|_| (), |state| Ok(state.names.keys().map(name).collect()))
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            self.operate(
                |_| (),
                |state| {
                    state.find(path)?;
                    state.change(Change::Remove(path.into()));
                    Ok(())
                },
            )
        }
    }

    const STEPS: [u64; 4] = [10, 20, 30, 40];

    /// Saves until the end or the first error; the last step that was acknowledged.
    fn run(files: &dyn Files, keep: usize) -> Option<u64> {
        let mut acknowledged = None;
        for step in STEPS {
            if save_step(files, Path::new("run"), &snapshot(step), keep).is_err() {
                break;
            }
            acknowledged = Some(step);
        }
        acknowledged
    }

    fn found(files: &dyn Files) -> Option<u64> {
        let latest = latest(files, Path::new("run")).unwrap();
        assert!(latest.skipped.is_empty(), "unreadable: {:?}", latest.skipped);
        latest.snapshot.map(|found| {
            assert_eq!(found, snapshot(found.step));
            found.step
        })
    }

    fn operations() -> usize {
        let twin = Twin::default();
        assert_eq!(run(&twin, 2), Some(40));
        twin.lock().operations
    }

    #[test]
    fn killed_or_unplugged_at_any_operation_the_newest_or_previous_checkpoint_loads() {
        let (mut worlds, faults) = (0, [Fault::DieBefore, Fault::DieMidway, Fault::DieAfter]);
        for keep in [1, 2] {
            for (operation, fault) in (0..operations()).flat_map(|n| faults.map(|f| (n, f))) {
                let twin = Twin::with_fault(Some((operation, fault)));
                let acknowledged = run(&twin, keep);
                for after in twin.afterwards() {
                    let found = found(&after);
                    assert!(found >= acknowledged, "{operation} {fault:?}: {found:?}");
                    save_step(&after, Path::new("run"), &snapshot(90), keep).unwrap();
                    let names = after.list(Path::new("run")).unwrap();
                    assert!(names.iter().all(|name| step_of(name).is_some()), "{names:?}");
                    assert_eq!(super::tests::found(&after), Some(90));
                    worlds += 1;
                }
            }
        }
        assert!(worlds > 200, "only {worlds} ends were looked at");
    }

    #[test]
    fn a_folder_that_is_not_synced_is_caught_by_the_twin() {
        let lost = (0..operations()).any(|operation| {
            let fault = Some((operation, Fault::DieAfter));
            let twin = Twin { fault, forgets_folders: true, ..Twin::default() };
            let acknowledged = run(&twin, 1);
            twin.afterwards().iter().any(|after| {
                latest(after, Path::new("run")).unwrap().snapshot.map(|found| found.step)
                    < acknowledged
            })
        });
        assert!(lost);
    }

    #[test]
    fn an_operation_that_is_refused_leaves_the_last_checkpoint_and_the_next_save_works() {
        for operation in 0..operations() {
            let twin = Twin::with_fault(Some((operation, Fault::Refuse)));
            let acknowledged = run(&twin, 2);
            assert!(found(&twin) >= acknowledged, "operation {operation}");
            save_step(&twin, Path::new("run"), &snapshot(90), 2).unwrap();
            assert_eq!(found(&twin), Some(90));
            assert!(twin.list(Path::new("run")).unwrap().len() <= 3);
        }
    }

    #[test]
    fn a_snapshot_comes_back_as_it_was_and_as_the_same_bytes() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.safetensors");
        save(&Disk, &path, &snapshot(7)).unwrap();
        assert_eq!(load(&Disk, &path).unwrap(), snapshot(7));
        let bytes = std::fs::read(&path).unwrap();
        let mut shuffled = snapshot(7);
        shuffled.tensors.reverse();
        assert_eq!(encode(&shuffled).unwrap(), bytes);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a leftover");
        assert_eq!(snapshot(7).tensor("bias").unwrap().0, [3]);
        assert_eq!(snapshot(7).tensor("none"), None);
        // Any reader of safetensors finds the tensors where they should be.
        let foreign = SafeTensors::deserialize(&bytes).unwrap();
        assert_eq!(
            foreign.tensor("bias").unwrap().data()[..4],
            7f32.mul_add(0.7, 0.0).sin().to_le_bytes()
        );
        assert_eq!(foreign.tensor("scalar").unwrap().data(), (-0f32).to_le_bytes());
    }

    #[test]
    fn a_file_of_format_1_stays_readable() {
        let mut expected = Snapshot { step: 12, ..Snapshot::default() };
        expected.tensors.push(("weight".into(), vec![2, 2], vec![0.5, -1.0, 2.0, 0.25]));
        expected.facts.insert("kind".into(), "golden".into());
        assert_eq!(decode(GOLDEN).unwrap(), expected);
        assert_eq!(encode(&expected).unwrap(), GOLDEN);
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_detected() {
        let mut bytes = encode(&snapshot(3)).unwrap();
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(decode(&bytes).unwrap(), snapshot(3));
        bytes.push(0);
        assert!(decode(&bytes).is_err());
    }

    /// The bytes with a piece of their header replaced by one of the same length, and the
    /// checksum mended.
    fn forged(from: &str, to: &str) -> Vec<u8> {
        let mut bytes = encode(&snapshot(3)).unwrap();
        assert_eq!(from.len(), to.len());
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
        let digits = checksum(&bytes);
        bytes[DIGITS_START..DIGITS_END].copy_from_slice(digits.as_bytes());
        bytes
    }

    #[test]
    fn what_is_no_checkpoint_is_told_apart() {
        let says = |bytes: &[u8], expected: &str| {
            let error = decode(bytes).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(expected), "{error}");
        };
        let view = safetensors::tensor::TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap();
        let other = safetensors::serialize([("weight", view)], None).unwrap();
        says(&other, "the safetensors file is no checkpoint of isochrone");
        says(b"", "does not begin as one");
        says(&[0xff; 200], "does not begin as one");
        says(&forged(r#""format":"1""#, r#""format":"2""#), "format `2`, expected `1`");
        says(&forged(r#""step":"3""#, r#""step":"x""#), "it names no step");
        says(&forged(r#""dtype":"F32","shape":[3]"#, r#""dtype":"I32","shape":[3]"#), "`I32`");
        says(&forged(r#""shape":[3]"#, r#""shape":[9]"#), "damaged");
        let mut holed = encode(&snapshot(3)).unwrap();
        let last = holed.len() - 4;
        holed[last..].copy_from_slice(&f32::NAN.to_le_bytes());
        let digits = checksum(&holed);
        holed[DIGITS_START..DIGITS_END].copy_from_slice(digits.as_bytes());
        says(&holed, "tensor `scalar` holds `NaN`");
    }

    #[test]
    fn a_snapshot_that_must_not_be_saved_is_refused_and_the_old_one_stays() {
        let twin = Twin::default();
        let path = Path::new("run/a.safetensors");
        save(&twin, path, &snapshot(1)).unwrap();
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut bad = snapshot(2);
            bad.tensors[2].2[1] = value;
            match save(&twin, path, &bad).unwrap_err() {
                Error::Diverged { step: 2, metric, .. } => assert_eq!(metric, bad.tensors[2].0),
                other => panic!("{other}"),
            }
        }
        let mut twice = snapshot(2);
        twice.tensors.push(twice.tensors[0].clone());
        assert!(save(&twin, path, &twice).unwrap_err().to_string().contains("stands twice"));
        let mut wrong = snapshot(2);
        wrong.tensors[0].1 = vec![4];
        assert!(save(&twin, path, &wrong).unwrap_err().to_string().contains("3 numbers"));
        let mut named = snapshot(2);
        named.tensors[0].0 = METADATA.into();
        assert!(save(&twin, path, &named).is_err());
        let mut facts = snapshot(2);
        facts.facts.insert("step".into(), "9".into());
        assert!(save(&twin, path, &facts).is_err());
        assert_eq!(load(&twin, path).unwrap(), snapshot(1));
    }

    #[test]
    fn the_newest_that_verifies_is_found_and_the_damaged_are_told() {
        let folder = TempDir::new().unwrap();
        let none = latest(&Disk, &folder.path().join("none")).unwrap();
        assert!(none.snapshot.is_none() && none.skipped.is_empty());
        for step in [100, 200, 300] {
            save_step(&Disk, folder.path(), &snapshot(step), 9).unwrap();
        }
        let path = |step| folder.path().join(name_of(step));
        std::fs::write(path(300), &std::fs::read(path(300)).unwrap()[..300]).unwrap();
        std::fs::copy(path(100), path(400)).unwrap();
        std::fs::create_dir(path(500)).unwrap();
        let found = latest(&Disk, folder.path()).unwrap();
        assert_eq!(found.snapshot, Some(snapshot(200)));
        let told = found.skipped.iter().map(Error::to_string).collect::<Vec<_>>();
        assert!(told[0].contains("step-000000000500"), "{told:?}");
        assert!(told[1].contains("is of step 100, not 400"), "{told:?}");
        assert!(told[2].contains("damaged") && told[2].contains("step-000000000300"), "{told:?}");
    }

    #[test]
    fn older_checkpoints_and_leftovers_go_but_nothing_else() {
        let folder = TempDir::new().unwrap();
        let others = ["metrics.csv", "step-7.safetensors", "model.safetensors.tmp"];
        for name in others.iter().chain(&["step-000000000005.safetensors.tmp"]) {
            std::fs::write(folder.path().join(name), b"x").unwrap();
        }
        for step in [1, 2, 12_000, 3, 4] {
            save_step(&Disk, folder.path(), &snapshot(step), 2).unwrap();
        }
        let mut names = Disk.list(folder.path()).unwrap();
        names.retain(|name| !others.contains(&name.as_str()));
        names.sort();
        let kept = [3, 4, 12_000].map(|step| format!("step-{step:012}.safetensors"));
        assert_eq!(names, kept, "the run went back to step 3; what is ahead of it stays");
        assert_eq!(Disk.list(folder.path()).unwrap().len(), kept.len() + others.len());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_of_the_disk_and_the_old_file_stays() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.safetensors");
        save(&Disk, &path, &snapshot(1)).unwrap();
        std::os::unix::fs::symlink("/dev/full", temporary(&path)).unwrap();
        let error = save(&Disk, &path, &snapshot(2)).unwrap_err();
        assert!(matches!(error, Error::Disk { action: "write", .. }), "{error}");
        assert_eq!(load(&Disk, &path).unwrap(), snapshot(1));
        save(&Disk, &path, &snapshot(2)).unwrap();
        assert_eq!(load(&Disk, &path).unwrap(), snapshot(2));
        assert!(matches!(load(&Disk, Path::new("/dev/full")), Err(Error::Disk { .. })));
    }

    #[test]
    fn a_fingerprint_changes_with_every_number_and_every_boundary() {
        let states = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let of = |states: &[f32], size, actions: Option<(Vec<f32>, usize)>, lengths: &[usize]| {
            fingerprint(&Dataset::new(states.to_vec(), size, actions, lengths).unwrap()).unwrap()
        };
        let mut seen = vec![
            of(&states, 1, None, &[3, 3]),
            of(&states, 1, None, &[2, 4]),
            of(&states, 1, None, &[6]),
            of(&states, 2, None, &[3]),
            of(&states, 1, Some((vec![0.5; 6], 1)), &[6]),
            of(&[1.0, 2.0, 3.0, 4.0, 5.0, 7.0], 1, None, &[6]),
        ];
        assert_eq!(seen[0], of(&states, 1, None, &[3, 3]));
        assert!(seen.iter().all(|digits| digits.len() == 64));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 6);
    }

    #[test]
    fn of_sixteen_threads_exactly_one_takes_a_folder_and_the_next_gets_it_after() {
        let folder = TempDir::new().unwrap();
        for round in 0..100 {
            let folder = folder.path().join("runs").join(round.to_string());
            let barrier = Barrier::new(16);
            let winners = std::thread::scope(|scope| {
                let try_once = || {
                    barrier.wait();
                    let taken = Lock::take(&folder);
                    barrier.wait();
                    match taken {
                        Ok(_) => 1,
                        Err(error) => {
                            assert_eq!(error.exit_code(), 7, "{error}");
                            0
                        }
                    }
                };
                let threads = (0..16).map(|_| scope.spawn(try_once)).collect::<Vec<_>>();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
            });
            assert_eq!(winners, 1, "round {round}");
            Lock::take(&folder).unwrap();
        }
    }

    /// Starts this test program again, to run one test as another process.
    fn another_process(test: &str, folder: &Path) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &format!("checkpoint::tests::{test}"), "--nocapture", "--ignored"])
            .env("ISOCHRONE_TEST_FOLDER", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn told(child: &mut Child, words: [&str; 2]) -> usize {
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        lines
            .find_map(|line| words.iter().position(|word| line.as_ref().unwrap().contains(word)))
            .expect("the process tells")
    }

    fn folder_of_parent() -> Option<PathBuf> {
        std::env::var_os("ISOCHRONE_TEST_FOLDER").map(PathBuf::from)
    }

    #[test]
    #[ignore = "the other process of `of_sixteen_processes_exactly_one_takes_a_folder`"]
    fn a_process_takes_the_lock_and_waits() {
        let Some(folder) = folder_of_parent() else { return };
        let taken = Lock::take(&folder);
        println!("{}", if taken.is_ok() { "has won" } else { "has lost" });
        io::stdin().read_line(&mut String::new()).unwrap();
    }

    #[test]
    fn of_sixteen_processes_exactly_one_takes_a_folder() {
        for _ in 0..4 {
            let folder = TempDir::new().unwrap();
            let start = |_| another_process("a_process_takes_the_lock_and_waits", folder.path());
            let mut children = (0..16).map(start).collect::<Vec<_>>();
            let told = children.iter_mut().map(|child| told(child, ["has won", "has lost"]));
            assert_eq!(told.filter(|&word| word == 0).count(), 1);
            assert_eq!(Lock::take(folder.path()).unwrap_err().exit_code(), 7);
            for mut child in children {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            Lock::take(folder.path()).expect("a dead process holds nothing");
        }
    }

    #[test]
    #[ignore = "the other process of `killed_at_random_times_the_newest_checkpoint_loads`"]
    fn a_process_saves_until_it_is_killed() {
        let Some(folder) = folder_of_parent() else { return };
        let first = latest(&Disk, &folder).unwrap().snapshot.map_or(0, |found| found.step);
        println!("has begun");
        for step in first + 1.. {
            save_step(&Disk, &folder, &snapshot(step), 2).unwrap();
        }
    }

    #[test]
    fn killed_at_random_times_the_newest_checkpoint_loads() {
        let folder = TempDir::new().unwrap();
        let mut before = 0;
        for round in 0..30u64 {
            let mut child = another_process("a_process_saves_until_it_is_killed", folder.path());
            told(&mut child, ["has begun", "has begun"]);
            std::thread::sleep(std::time::Duration::from_micros(20_000 + round * 2_377 % 20_000));
            child.kill().unwrap();
            child.wait().unwrap();
            let found = latest(&Disk, folder.path()).unwrap();
            assert!(found.skipped.is_empty(), "{:?}", found.skipped);
            let step = found.snapshot.map_or(0, |found| {
                assert_eq!(found, snapshot(found.step));
                found.step
            });
            assert!(step >= before, "went back from {before} to {step}");
            before = step;
        }
        assert!(before > 0, "nothing was saved");
    }
}
