//! Output: lines on standard output that survive a closed pipe, and files that are not replaced unasked.

use std::io::Write;
use std::path::Path;
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
