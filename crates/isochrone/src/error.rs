//! The one `Error`: what the user should fix, and where.
//!
//! Variants are named by the remedy, not by the module that found the problem. The text of an error
//! is one line: lower case, values in backticks, the path last, then a hint that says what to do.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The result of anything that can fail because of a user's file, config or machine.
pub type Result<T> = std::result::Result<T, Error>;

/// Hears how many parts of all some work has done, and gives the signal at which to stop; the work then
/// ends with [`Error::Interrupted`].
pub type Tell<'a> = dyn Fn(usize, usize) -> Option<i32> + Sync + 'a;

/// What went wrong, by what the user should fix; each variant has its exit code.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, config or argument is not as expected. Exit code 2.
    #[error("{0}")]
    Input(Complaint),
    /// A number stopped being finite, or a distance ran away, while training. Exit code 3.
    #[error(
        "`{metric}` became `{value}` at step {step}; the last sound checkpoint is kept; \
         hint: lower `algorithm.optimizer.learning_rate`, make the head or the networks smaller, \
         look for outliers in the data, or use another learner"
    )]
    Diverged {
        /// The update at which it was found.
        step: u64,
        /// The metric or tensor that is not finite or too large.
        metric: String,
        /// Its value.
        value: f64,
    },
    /// Disk I/O failed. Exit code 4.
    #[error("cannot {action} `{}`: {source}; hint: {}", path.display(), way_out(action, source))]
    Disk {
        /// What was tried, as a verb: `write`, `rename`, `lock`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// There is not enough memory. Exit code 5.
    #[error("{0}")]
    Memory(Complaint),
    /// The data are not the same as when the run began. Exit code 6.
    #[error("{0}")]
    Changed(Complaint),
    /// Another process is using the folder. Exit code 7.
    #[error("{0}")]
    Busy(Complaint),
    /// Stopped by a signal; the run is saved. Exit code 128 + signal.
    #[error("stopped by signal {0}; the run is saved")]
    Interrupted(i32),
}

/// What to do where disk I/O failed.
fn way_out(action: &str, error: &std::io::Error) -> &'static str {
    let reads = ["read", "find", "list"].contains(&action);
    match error.kind() {
        _ if action == "start" => "install it, or name it by its whole path",
        ErrorKind::PermissionDenied if reads => "change its permissions",
        _ if reads => "check that it is there and that its disk is sound",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "choose a place that may be written, or change its permissions"
        }
        _ => "free space or choose another folder with `--out`",
    }
}

/// One line: what is wrong, in which file, and what to do about it.
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
            write!(f, " (`{}`)", path.display())?;
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

    /// The data changed during a run.
    pub fn changed(what: impl Into<String>) -> Self {
        Self::Changed(Complaint::new(what))
    }

    /// A folder is in use.
    pub fn busy(what: impl Into<String>) -> Self {
        Self::Busy(Complaint::new(what))
    }

    /// There is not enough memory.
    pub fn memory(what: impl Into<String>) -> Self {
        Self::Memory(Complaint::new(what))
    }

    /// The system could not `action` the file or folder at `path`.
    pub fn disk(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::Disk { action, path: path.into(), source }
    }

    /// Adds the file that the error is about, unless one is named already.
    #[must_use]
    pub fn in_file(mut self, path: &Path) -> Self {
        if let Some(complaint) = self.complaint()
            && complaint.path.is_none()
        {
            complaint.path = Some(path.to_path_buf());
        }
        self
    }

    /// Adds what to do about it.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_error_is_one_line_with_path_and_hint() {
        let error = Error::input("unknown key `discout`")
            .in_file(Path::new("a.toml"))
            .hint("did you mean `discount`?");
        assert_eq!(
            error.to_string(),
            "unknown key `discout` (`a.toml`); hint: did you mean `discount`?"
        );
        assert_eq!(error.exit_code(), 2);
        assert_eq!(Error::Interrupted(15).exit_code(), 143);
    }
}
