//! The one `Error`: what the user must mend, and where.
//!
//! Variants are named by the remedy, not by the module that noticed. The text of an error is one
//! line: lower case, values in backticks, the path last, then a hint that says the way out.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything that can fail because of a user's file, config or machine.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, by what the user must mend; the exit code stands beside each variant.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, config or argument is not what it must be. Exit code 2.
    #[error("{0}")]
    Input(Complaint),
    /// A number stopped being finite while training. Exit code 3.
    #[error(
        "`{metric}` became `{value}` at step {step}; the last finite checkpoint stays; \
         hint: lower `algorithm.optimizer.learning_rate` or look for outliers in the data"
    )]
    Diverged {
        /// The update at which it was seen.
        step: u64,
        /// The metric or tensor that is not finite.
        metric: String,
        /// Its value.
        value: f64,
    },
    /// The disk refused a read or a write. Exit code 4.
    #[error("cannot {action} `{}`: {source}; hint: free space or choose another folder with `--out`", path.display())]
    Disk {
        /// What was tried, as a verb: `write`, `rename`, `lock`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The plan needs more memory than there is. Exit code 5.
    #[error("{0}")]
    Memory(Complaint),
    /// The data are not those the run began with. Exit code 6.
    #[error("{0}")]
    Changed(Complaint),
    /// Another process works in this folder. Exit code 7.
    #[error("{0}")]
    Busy(Complaint),
    /// A signal asked to stop; the work is saved. Exit code 128 + signal.
    #[error("stopped by signal {0}; the run is saved")]
    Interrupted(i32),
}

/// One line of complaint: what is wrong, in which file, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong: lower case, values in backticks, expected and found.
    pub what: String,
    /// The file or folder it is about.
    pub path: Option<PathBuf>,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if let Some(path) = &self.path {
            write!(f, " in `{}`", path.display())?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; hint: {hint}")?;
        }
        Ok(())
    }
}

impl Complaint {
    fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), path: None, hint: None }
    }
}

impl Error {
    /// Bad input: a file, a config or an argument.
    pub fn input(what: impl Into<String>) -> Self {
        Self::Input(Complaint::new(what))
    }

    /// The data changed under a run.
    pub fn changed(what: impl Into<String>) -> Self {
        Self::Changed(Complaint::new(what))
    }

    /// A folder is in use.
    pub fn busy(what: impl Into<String>) -> Self {
        Self::Busy(Complaint::new(what))
    }

    /// More memory is needed than there is.
    pub fn memory(what: impl Into<String>) -> Self {
        Self::Memory(Complaint::new(what))
    }

    /// The system refused `action` on `path`.
    pub fn disk(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Disk { action, path: path.into(), source }
    }

    /// Adds the file the complaint is about, unless one is named already.
    #[must_use]
    pub fn in_file(mut self, path: &Path) -> Self {
        if let Some(complaint) = self.complaint()
            && complaint.path.is_none()
        {
            complaint.path = Some(path.to_path_buf());
        }
        self
    }

    /// Adds the way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Some(complaint) = self.complaint() {
            complaint.hint = Some(hint.into());
        }
        self
    }

    fn complaint(&mut self) -> Option<&mut Complaint> {
        match self {
            Self::Input(complaint)
            | Self::Memory(complaint)
            | Self::Changed(complaint)
            | Self::Busy(complaint) => Some(complaint),
            Self::Diverged { .. } | Self::Disk { .. } | Self::Interrupted(_) => None,
        }
    }

    /// The exit code of a command that ends with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::Diverged { .. } => 3,
            Self::Disk { .. } => 4,
            Self::Memory(_) => 5,
            Self::Changed(_) => 6,
            Self::Busy(_) => 7,
            Self::Interrupted(signal) => 128u8.wrapping_add(*signal as u8),
        }
    }
}

/// A question with the known name that needs the fewest changes, where one is near, and all names
/// where they are few.
pub fn nearest(wrong: &str, known: &[&str]) -> String {
    /// More names than these are not listed.
    const LISTED: usize = 16;
    let listed: Vec<String> = known.iter().take(LISTED).map(|n| format!("`{n}`")).collect();
    let more = if known.len() > LISTED { ", …" } else { "" };
    let all = format!("expected one of {}{more}", listed.join(", "));
    let best = known.iter().map(|name| (changes(wrong, name), *name)).min();
    match best {
        Some((changes, name)) if changes <= 1 + wrong.chars().count() / 3 => {
            let question = format!("did you mean `{name}`?");
            if more.is_empty() { format!("{question} {all}") } else { question }
        }
        _ => all,
    }
}

/// The fewest insertions, deletions and replacements of letters between two words (Levenshtein).
pub fn changes(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, letter) in left.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], above + 1);
        for (place, other) in right.iter().enumerate() {
            let replaced = corner + usize::from(letter != *other);
            corner = row[place + 1];
            row[place + 1] = replaced.min(corner + 1).min(row[place] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest_and_with_all_where_they_are_few() {
        let known = ["cmd1", "cmd2", "qrl"];
        let all = "expected one of `cmd1`, `cmd2`, `qrl`";
        assert_eq!(nearest("cdm1", &known), format!("did you mean `cmd1`? {all}"));
        assert_eq!(nearest("elsewhere", &known), all);
        let many: Vec<String> = (0..17).map(|at| format!("name{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(nearest("nam12", &many), "did you mean `name12`?");
        assert!(nearest("elsewhere", &many).ends_with("`name15`, …"));
    }

    #[test]
    fn an_input_error_is_one_line_with_path_and_hint() {
        let error = Error::input("unknown key `discout`")
            .in_file(Path::new("a.toml"))
            .hint("did you mean `discount`?");
        assert_eq!(
            error.to_string(),
            "unknown key `discout` in `a.toml`; hint: did you mean `discount`?"
        );
        assert_eq!(error.exit_code(), 2);
        assert_eq!(Error::Interrupted(15).exit_code(), 143);
    }
}
