//! Everything a comparison reports.

use std::path::PathBuf;

use isochrone::run::Conditions;
use isochrone::run::compare::{Pooled, Published, Row, Sheet};
use isochrone::simulate::World;
use serde::Serialize;

/// Everything a comparison reports; printed as a table, written as `compare.json`.
#[derive(Serialize)]
pub struct ComparisonReport {
    /// What trained the runs, and how many each.
    pub conditions: Vec<Trained>,
    /// How runs were judged.
    pub protocols: Vec<Protocol>,
    /// The sheet that the runs were made by, with what others have published.
    pub sheet: Option<Sheet>,
    /// One for each combination.
    pub rows: Vec<Row>,
    /// The learners over all worlds, where there are several.
    pub pooled: Vec<Pooled>,
    /// Files beside the runs.
    pub wrote: Vec<PathBuf>,
}

impl ComparisonReport {
    /// What others have published.
    pub fn published(&self) -> &[Published] {
        self.sheet.as_ref().map_or(&[], |sheet| &sheet.published)
    }
}

/// How many runs were trained under one kind of conditions.
#[derive(Serialize)]
pub struct Trained {
    #[serde(flatten)]
    pub conditions: Conditions,
    pub runs: usize,
}

/// How the runs of one world were judged.
#[derive(Serialize)]
pub struct Protocol {
    pub world: World,
    /// Start and goal pairs of a seed.
    pub tasks: usize,
    /// Steps after which an episode has failed.
    pub horizon: usize,
    /// The distance from the goal within which it has succeeded.
    pub radius: f64,
    /// The discount of runs whose config names none.
    pub discount: f64,
}
