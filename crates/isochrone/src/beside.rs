//! New files beside the files whose place they will take, under names that nobody can guess.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a file that is not whole yet ends.
const ENDING: &str = ".tmp";
/// Random hexadecimal digits in a name.
const DIGITS: usize = 16;
/// A file that nobody has written to for so long was left by a process that is gone.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A name in the folder of `path` that nobody can guess.
pub(crate) fn name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    // The standard library seeds its hash maps from the system's randomness.
    let chance = RandomState::new().hash_one(std::process::id());
    name.push(format!(".{chance:016x}{ENDING}"));
    path.with_file_name(name)
}

/// The name that a file called `name` is to get; none if it is not on its way to another.
pub(crate) fn target_of(name: &str) -> Option<&str> {
    let (target, digits) = name.strip_suffix(ENDING)?.rsplit_once('.')?;
    let random = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    random.then_some(target)
}

/// Creates `path`, which must not be there; a link is not followed.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).open(path)
}

/// Creates the file that will be renamed to `path`, and removes what killed processes left there.
pub(crate) fn create(path: &Path) -> io::Result<(PathBuf, File)> {
    check(path)?;
    sweep(path);
    let name = name(path);
    create_new(&name).map(|file| (name, file))
}

/// Refuses to replace anything but a regular file: no link, folder, device or pipe.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it exists and is not a regular file"))
        }
        _ => Ok(()),
    }
}

/// Removes files on their way to `path` that were abandoned.
pub(crate) fn sweep(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let target = path.file_name().and_then(|name| name.to_str());
    let Ok(entries) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(found) = name.to_str().and_then(target_of) else { continue };
        let age = entry.metadata().ok().and_then(|data| data.modified().ok()?.elapsed().ok());
        if Some(found) == target && age.is_some_and(|age| age > ABANDONED) {
            std::fs::remove_file(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_say_what_they_are_for() {
        let path = Path::new("folder/a.npz");
        let (one, other) = (name(path), name(path));
        assert_ne!(one, other);
        assert_eq!(one.parent(), path.parent());
        assert_eq!(target_of(one.file_name().unwrap().to_str().unwrap()), Some("a.npz"));
        for name in ["a.npz", "a.npz.tmp", "a.npz.123.tmp", "a.npz.0123456789abcdeg.tmp"] {
            assert_eq!(target_of(name), None, "{name}");
        }
    }

    #[test]
    fn what_killed_processes_left_goes_and_what_is_written_now_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let long_ago = std::time::SystemTime::now() - 2 * ABANDONED;
        let (old, other) = (name(&path), name(&folder.path().join("b.npz")));
        for leftover in [&old, &other] {
            create_new(leftover).unwrap().set_modified(long_ago).unwrap();
        }
        let (now, _file) = create(&path).unwrap();
        let (next, _file) = create(&path).unwrap();
        assert!(!old.exists() && other.exists() && now.exists() && next.exists());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_not_followed_and_only_regular_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("precious"), "kept").unwrap();
        std::os::unix::fs::symlink(at("precious"), at("link")).unwrap();
        assert!(create_new(&at("link")).is_err());
        std::fs::create_dir(at("folder")).unwrap();
        for target in [at("link"), at("folder"), PathBuf::from("/dev/null")] {
            assert!(create(&target).is_err(), "{}", target.display());
        }
        assert_eq!(std::fs::read_to_string(at("precious")).unwrap(), "kept");
        create(&at("precious")).unwrap();
        create(&at("new")).unwrap();
    }
}
