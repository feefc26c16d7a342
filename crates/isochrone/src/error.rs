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
            "unknown key `discout` in `a.toml`; hint: did you mean `discount`?"
        );
        assert_eq!(error.exit_code(), 2);
        assert_eq!(Error::Interrupted(15).exit_code(), 143);
    }
}
