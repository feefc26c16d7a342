//! Output: lines on standard output that survive a closed pipe, and files that are not replaced unasked.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use isochrone::{Error, Result};
use serde::Serialize;

static CLOSED: AtomicBool = AtomicBool::new(false);
static MUTED: AtomicBool = AtomicBool::new(false);

/// From now on nothing is said but why this process ends: of several that carry a run, one speaks.
pub fn mute() {
    MUTED.store(true, Ordering::Relaxed);
}

/// Writes one line to standard output. If the reader has gone away, output stops, work does not.
pub fn say(line: &str) -> Result<()> {
    if CLOSED.load(Ordering::Relaxed) || MUTED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            CLOSED.store(true, Ordering::Relaxed);
            Ok(())
        }
        Err(error) => Err(Error::disk("write", "standard output", error)),
    }
}

/// Whether somebody still reads standard output.
pub fn is_heard() -> bool {
    !CLOSED.load(Ordering::Relaxed)
}

/// Writes a value as JSON to standard output.
pub fn say_json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::input(format!("the answer cannot be written as JSON: {error}")))?;
    say(&text)
}

/// Prints one line to standard error; a closed one is ignored.
pub fn warn(line: &str) {
    if !MUTED.load(Ordering::Relaxed) {
        complain(line);
    }
}

/// As [`warn`], whoever speaks.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The pictures that were drawn beside an answer. Where they could not be written a warning says so:
/// the answer is not lost with them.
pub fn drawn(pictures: Result<Vec<PathBuf>>) -> Result<Vec<PathBuf>> {
    match pictures {
        Err(error @ Error::Disk { .. }) => {
            warn(&format!(
                "warning: pictures could not be written (`--no-pictures` skips them): {error}"
            ));
            Ok(Vec::new())
        }
        other => other,
    }
}

/// Refuses a file that exists, unless it may be replaced.
pub fn check_target(out: &Path, force: bool) -> Result<()> {
    if out.exists() && !force {
        return Err(Error::input("the file exists already")
            .in_file(out)
            .hint("name another file, or replace it with `--force`"));
    }
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        None => Ok(()),
        Some(folder) => {
            Err(Error::input("the folder does not exist").in_file(folder).hint("create it first"))
        }
    }
}

/// Refuses to replace a file that is read, with `--force` too.
pub fn check_apart(out: &Path, read: &[&Path]) -> Result<()> {
    let place = |path: &Path| path.canonicalize().ok();
    match place(out) {
        Some(target) if read.iter().any(|path| place(path).as_ref() == Some(&target)) => {
            Err(Error::input("the output would replace a file that is read")
                .in_file(out)
                .hint("name another file"))
        }
        _ => Ok(()),
    }
}

/// Refuses a page that exists unless `sign` stands near its beginning: then this program wrote it. The
/// pictures beside a new page must be new too.
pub fn check_page(out: &Path, sign: &str) -> Result<()> {
    /// Bytes of a page that are looked at.
    const HEAD: u64 = 4096;
    if !out.exists() {
        let pictures = ["svg", "png"].map(|ending| out.with_extension(ending));
        return pictures.iter().try_for_each(|picture| check_target(picture, false));
    }
    let mut head = Vec::new();
    let read = std::fs::File::open(out).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    read.map_err(|error| Error::disk("read", out, error))?;
    let text = String::from_utf8_lossy(&head);
    if text.contains(sign) {
        return Ok(());
    }
    Err(Error::input("the file exists already, and this command did not write it")
        .in_file(out)
        .hint("name another file, or remove this one"))
}
