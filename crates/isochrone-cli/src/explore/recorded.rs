//! The data that a run learns from, in memory.

use isochrone::Result;
use isochrone::evaluate::Trajectories;
use isochrone::run::{OpenRun, Source};
use isochrone::simulate::World;

use crate::opened::data_of;
use crate::progress::waiting;

/// The data of a run.
pub struct RecordedData {
    /// In memory; a sample where they do not fit.
    pub source: Source,
    /// Whether it is a sample.
    pub is_sample: bool,
    /// What its distance is judged on.
    pub trajectories: Trajectories,
    /// The least and the greatest value of each coordinate.
    pub ranges: Vec<[f32; 2]>,
    /// Why no episode can be run in the world, where there is one: its simulator is missing.
    pub unrunnable: Option<String>,
}

impl RecordedData {
    /// The data of a run; a sample where they do not fit.
    ///
    /// # Errors
    /// They cannot be read, or are no longer those the run began with.
    pub fn of(opened: &OpenRun) -> Result<Self> {
        let whole = waiting("open", |spinner| data_of(opened, &|note| spinner.note(note)))?;
        let trajectories = whole.judged_on(&opened.config)?;
        let is_sample = whole.dataset.stays_in().is_some();
        let source = whole.sampled()?;
        let size = source.dataset.state_size();
        let mut ranges = vec![[f32::INFINITY, f32::NEG_INFINITY]; size];
        for state in source.dataset.states().chunks_exact(size) {
            for (range, &value) in ranges.iter_mut().zip(state) {
                *range = [range[0].min(value), range[1].max(value)];
            }
        }
        let world = source.world.as_ref();
        let missing = world.and_then(|one| one.environment.tasks(0, 1, &source.dataset).err());
        let unrunnable = missing.map(|error| error.to_string());
        Ok(Self { source, is_sample, trajectories, ranges, unrunnable })
    }

    /// Whether the states are those of `other`, one by one.
    pub fn same_as(&self, other: &Self) -> bool {
        let (one, other) = (&self.source.dataset, &other.source.dataset);
        one.lengths().eq(other.lengths()) && one.states() == other.states()
    }

    /// The world, where the data come from one.
    pub fn world(&self) -> Option<World> {
        self.source.world.as_ref().map(|recorded| recorded.world)
    }
}
