//! A run as it was at one checkpoint, with its data and who answers longer questions about it.

use std::sync::{Arc, OnceLock};

use isochrone::run::OpenRun;

use super::desk::Desk;
use super::recorded::RecordedData;

/// A run as it was at one checkpoint.
pub struct Loaded {
    /// Counts up when the run has trained further.
    pub version: u64,
    /// The run.
    pub opened: Arc<OpenRun>,
    /// What it learns from.
    pub data: Arc<RecordedData>,
    /// Answers that take longer.
    pub desk: Desk,
    /// The coordinates to show first.
    pub axes: [usize; 2],
    /// The map of these, as JSON, made before anybody asks.
    pub map: OnceLock<std::result::Result<String, String>>,
}
