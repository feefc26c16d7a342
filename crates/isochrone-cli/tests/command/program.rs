//! The command as a process of its own.

use std::process::{Command, Output};

/// Runs the command with `words`.
pub fn isochrone(words: &[impl AsRef<str>]) -> Output {
    let words = words.iter().map(AsRef::as_ref);
    Command::new(env!("CARGO_BIN_EXE_isochrone")).args(words).output().unwrap()
}

/// What a command that succeeds prints.
#[track_caller]
pub fn said(words: &[impl AsRef<str>]) -> String {
    let output = isochrone(words);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// What a command that refuses its input complains about: one line, exit code 2.
#[track_caller]
pub fn refused(words: &[impl AsRef<str>]) -> String {
    let output = isochrone(words);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text
}
