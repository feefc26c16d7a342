//! Flags that several commands have, each with one meaning.

use isochrone::engine::{Hardware, Threads};
use isochrone::{Error, Result};

/// More threads than any machine has cores take its memory for nothing.
const MOST_THREADS: usize = 1024;

/// The number of threads to use.
pub fn thread_count(asked: Option<usize>) -> Result<usize> {
    match asked {
        Some(count) if !(1..=MOST_THREADS).contains(&count) => {
            Err(Error::input(format!("`--threads` is `{count}`, expected 1 to {MOST_THREADS}"))
                .hint("leave it out to use all cores"))
        }
        Some(count) => Ok(count),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// The hardware that `--device` names on this machine; says why where it is the CPU after all.
pub fn hardware(device: &str) -> Result<Hardware> {
    let (hardware, reason) = Hardware::choose(device.parse()?, Threads::default())?;
    if let Some(reason) = reason {
        crate::output::warn(&reason);
    }
    Ok(hardware)
}

/// Reads a seed; for clap.
pub fn seed(text: &str) -> std::result::Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}
