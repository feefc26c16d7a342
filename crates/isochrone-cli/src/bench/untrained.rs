//! Models that have learned nothing, for what takes the same time with any model.

use isochrone::Result;
use isochrone::data::Dataset;
use isochrone::engine::Threads;
use isochrone::model::Model;
use isochrone::run::{RunConfig, prepare};
use isochrone::train::Trainer;

/// The model of `settings` before its first update, with all of `data` to learn from.
///
/// # Errors
/// It cannot be built, for want of memory.
pub fn untrained(settings: &[&str], data: &Dataset, threads: &Threads) -> Result<Model> {
    let settings: Vec<String> =
        settings.iter().chain(&["data.validation=0"]).map(|&setting| setting.to_owned()).collect();
    let config = RunConfig::parse("", &settings)?;
    let data = prepare(&config, data)?;
    let (algorithm, train) = (&config.algorithm, &config.train);
    Trainer::new(algorithm, train, &data, 0.99, 0, threads.clone())?.model()
}
