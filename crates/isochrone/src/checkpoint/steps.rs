//! Snapshots as files: one by its path, and the newest of a folder of them.

use std::io;
use std::path::Path;

use super::files::{Files, place};
use super::snapshot::{Snapshot, decode, encode};
use crate::beside;
use crate::error::{Error, Result};

/// See [`super::save`].
pub(super) fn save(files: &dyn Files, path: &Path, snapshot: &Snapshot) -> Result<()> {
    place(files, path, &encode(snapshot).map_err(|error| error.in_file(path))?)
}

/// See [`super::load`].
pub(super) fn load(files: &dyn Files, path: &Path) -> Result<Snapshot> {
    let bytes = files.read(path).map_err(|error| Error::disk("read", path, error))?;
    decode(&bytes).map_err(|error| error.in_file(path))
}

/// See [`super::save_step`].
pub(super) fn save_step(
    files: &dyn Files,
    folder: &Path,
    snapshot: &Snapshot,
    keep: usize,
) -> Result<()> {
    let names = files.list(folder).map_err(|error| Error::disk("list", folder, error))?;
    let mut leftovers =
        names.iter().filter(|name| beside::target_of(name).and_then(step_of).is_some());
    leftovers.try_for_each(|name| remove(files, folder, name))?;
    save(files, &folder.join(name_of(snapshot.step)), snapshot)?;
    remove_older(files, folder, &names, snapshot.step, keep)
}

fn remove(files: &dyn Files, folder: &Path, name: &str) -> Result<()> {
    let path = folder.join(name);
    files.remove(&path).map_err(|error| Error::disk("remove", path, error))
}

/// See [`super::tidy`].
pub(super) fn tidy(files: &dyn Files, folder: &Path, step: u64, keep: usize) -> Result<()> {
    let names = files.list(folder).map_err(|error| Error::disk("list", folder, error))?;
    remove_older(files, folder, &names, step, keep)
}

/// Removes those of the checkpoints with these names that are older than `step`, all but the `keep`
/// newest, of which the one of `step` is the first.
fn remove_older(
    files: &dyn Files,
    folder: &Path,
    names: &[String],
    step: u64,
    keep: usize,
) -> Result<()> {
    let steps = names.iter().filter_map(|name| step_of(name));
    let mut older = steps.filter(|&found| found < step).collect::<Vec<_>>();
    older.sort_unstable_by(|one, other| other.cmp(one));
    let others = keep.saturating_sub(1);
    older.into_iter().skip(others).try_for_each(|step| remove(files, folder, &name_of(step)))
}

/// The name of the checkpoint of a step.
pub(super) fn name_of(step: u64) -> String {
    format!("step-{step:012}.safetensors")
}

/// The step of the checkpoint of this name.
pub(crate) fn step_of(name: &str) -> Option<u64> {
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

/// See [`super::latest`].
pub(super) fn latest(files: &dyn Files, folder: &Path) -> Result<Latest> {
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
