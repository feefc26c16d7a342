//! A folder to try commands in, and what one that is refused must say.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::rows::Rows;

const SMALL: [&str; 8] = [
    "train.batch_size=16",
    "train.steps=12",
    "train.save_every=5",
    "train.log_every=4",
    "evaluation.tasks=4",
    "algorithm.network.hidden=[8]",
    "algorithm.policy.network.hidden=[8]",
    "algorithm.head.latent=4",
];

/// A folder to work in, with files of rows in it.
pub struct Bench {
    folder: TempDir,
}

impl Bench {
    pub fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isochrone"));
        command.current_dir(self.folder.path()).args(arguments);
        command.env_remove("RUST_BACKTRACE").stdin(Stdio::null());
        command
    }

    /// A short training of `arguments`.
    pub fn train(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&["train"]);
        let chosen = |word: &&str| {
            ["--algorithm", "--from"].contains(word)
                || word.starts_with("algorithm.name")
                || word.ends_with(".toml")
        };
        if !arguments.iter().any(chosen) {
            command.args(["--algorithm", "cmd1"]);
        }
        for setting in SMALL {
            command.args(["--set", setting]);
        }
        command.args(arguments);
        command
    }

    /// The contents of every file, by its path.
    fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.insert(path.clone(), std::fs::read(path).unwrap());
                }
            }
        }
        found
    }

    /// The one line a training is refused with; everything that was there stays as it is.
    #[track_caller]
    pub fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let before = self.contents();
        let output = self.train(arguments).output().unwrap();
        let line = one_line(&output, code, arguments);
        let after = self.contents();
        for (path, bytes) in before {
            assert!(after.get(&path) == Some(&bytes), "`{}` is changed: {line}", path.display());
        }
        line
    }

    #[track_caller]
    pub fn trained(&self, arguments: &[&str]) {
        let output = self.train(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    }

    /// Writes five trajectories of ten rows in a square, with actions.
    pub fn square(&self, name: &str) {
        self.rows(name, &Rows::square(5));
    }

    pub fn rows(&self, name: &str, rows: &Rows) {
        std::fs::write(self.path(name), rows.npz()).unwrap();
    }
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
pub fn one_line(output: &Output, code: i32, what: &[&str]) -> String {
    let line = said(output);
    assert_eq!(output.status.code(), Some(code), "{what:?}: {line}");
    assert_eq!(line.trim_end().lines().count(), 1, "{what:?}: {line}");
    assert!(line.starts_with("error: "), "{what:?}: {line}");
    assert!(line.contains("; hint: "), "{what:?}: {line}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{what:?}");
    line
}

#[track_caller]
pub fn assert_names(line: &str, words: &[&str]) {
    for word in words {
        assert!(line.contains(word), "`{word}` is not in: {line}");
    }
}
