//! What every engine can do, and what a run may take of it.

use std::fmt;
use std::process::{Command, Stdio};
use std::time::Duration;

use isochrone::data::Memory;
use isochrone::{Error, Result};

use super::list::Sweep;

/// What each run may take.
#[derive(Debug, Clone)]
pub struct Resources {
    pub cpus: u32,
    pub gpus: u32,
    pub memory: Option<Memory>,
    /// Tries after the first.
    pub retries: u32,
    /// The name of the job.
    pub name: String,
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CPU, {} GPU per run", self.cpus, self.gpus)?;
        if let Some(memory) = self.memory {
            write!(f, ", {memory}")?;
        }
        write!(f, ", {} retries", self.retries)
    }
}

/// Something that runs processes.
pub trait Engine {
    /// What it is called in messages.
    fn place(&self) -> String;

    /// Whether it still has runs of an earlier command, which are then waited for.
    fn attach(&mut self, _sweep: &Sweep) -> Result<bool> {
        Ok(false)
    }

    /// Starts the runs `left`.
    fn submit(&mut self, sweep: &Sweep, left: &[usize]) -> Result<()>;

    /// Whether it still has any of the runs.
    fn is_alive(&mut self) -> Result<bool>;

    /// How long to wait between two such questions.
    fn patience(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// A signal asks to stop.
    fn stop(&mut self);

    /// What has become of the runs after [`stop`](Self::stop).
    fn left_behind(&self) -> String {
        "saved".to_owned()
    }
}

/// What a program prints; none if it fails or is not there.
pub fn asked(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What a program prints, or the last line of its complaint.
pub fn demanded(program: &str, arguments: &[&str]) -> Result<String> {
    let refused = |text: &str| Error::input(format!("`{program}` failed: {}", text.trim()));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| refused(&error.to_string()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(refused(text.trim().lines().last().unwrap_or("it gave no reason")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Asks a process to save and stop.
pub fn terminate(process: u32) {
    let _ = Command::new("kill").args(["-TERM", &process.to_string()]).status();
}
