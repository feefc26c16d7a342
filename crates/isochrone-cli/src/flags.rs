//! Flags that several commands have, each with one meaning.

use isochrone::collective::JobPlace;
use isochrone::engine::{Hardware, Threads};
use isochrone::run::RunConfig;
use isochrone::{Error, Result};

/// Limits the process to the threads that were asked for; returns how many there are.
pub fn use_threads(asked: Option<usize>, launch: Option<JobPlace>) -> Result<usize> {
    match asked {
        Some(count) if !(1..=Threads::MOST).contains(&count) => {
            let most = Threads::MOST;
            Err(Error::input(format!("`--threads` is `{count}`, expected 1 to {most}"))
                .hint("leave it out to use all cores"))
        }
        Some(count) => Threads::limit(count).map(|()| count),
        None => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            Ok((cores / launch.map_or(1, |launch| launch.here)).max(1))
        }
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
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", i64::MAX))
}

/// How many data states planners may use.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Nodes {
    /// Data states that planners may use [default: evaluation.nodes of the config, else 1500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
}

impl Nodes {
    /// The same as the setting of a key.
    pub fn setting(self) -> Option<String> {
        self.nodes.map(|nodes| format!("evaluation.nodes={nodes}"))
    }

    /// Sets the key in the config of a run.
    pub fn apply(self, config: &mut RunConfig) {
        if let Some(nodes) = self.nodes {
            config.evaluation.nodes = Some(nodes as usize);
        }
    }
}
