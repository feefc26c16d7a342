//! Learns how many steps apart states are, from recorded trajectories.
//!
//! ```
//! use isochrone::algorithms::cmd1;
//! use isochrone::{Dataset, Model, Run};
//!
//! # fn main() -> isochrone::Result<()> {
//! // Forty walks round a circle: two values per state, two per action, thirty rows per walk.
//! let angle = |row: usize| 0.7 * (row / 30) as f32 + 0.1 * (row % 30) as f32;
//! let states = (0..1_200).flat_map(|row| [angle(row).cos(), angle(row).sin()]).collect();
//! let actions = (0..1_200).flat_map(|row| [-angle(row).sin(), angle(row).cos()]).collect();
//! let walks = Dataset::new(states, 2, Some((actions, 2)), &[30; 40])?;
//!
//! // `Run::on("logs.npz")` reads a file, `Run::on("pinwheel")` records a world.
//! let mut learner = cmd1::Config::default();
//! learner.temperature = 0.5;
//! let fitted = Run::on(walks).learner(learner).discount(0.95).batch_size(64).updates(30).fit()?;
//!
//! let (here, there) = ([1.0, 0.0], [0.0, 1.0]);
//! println!("{} steps", fitted.model.steps(&here, &there)?[0]);
//! println!("go {:?}", fitted.model.act(&here, &there)?);
//! println!("by way of {:?}", fitted.planner()?.path(&here, &there)?.states);
//!
//! let path = std::env::temp_dir().join("circle.safetensors");
//! fitted.model.save(&path)?;
//! assert_eq!(Model::load(&path)?.steps(&here, &there)?, fitted.model.steps(&here, &there)?);
//! # std::fs::remove_file(path).ok();
//! # Ok(())
//! # }
//! ```
//!
//! The folder `examples/` has three programs: one's own arrays, questions to a model, a world and a
//! policy. [`run::RunConfig`] has every choice, [`algorithms`] every learner.
//!
//! Modules stand in the order data pass through them; a module uses only those above it.
//! `tests/flow` reads this order; the blank lines keep the formatter from sorting it.

pub mod error;

pub mod spelling;

pub mod random;

pub mod plain;

mod beside;

mod cache;

mod pages;

mod protobuf;

pub mod collective;

pub mod data;

pub mod tabular;

pub mod teacher;

pub mod simulate;

pub mod engine;

pub mod ops;

pub mod nn;

pub mod extraction;

pub mod checkpoint;

pub mod model;

pub mod onnx;

pub mod algorithms;

pub mod ledger;

mod events;

pub mod train;

pub mod plan;

pub mod evaluate;

pub mod report;

pub mod run;

pub use data::Dataset;
pub use engine::Device;
pub use error::{Error, Result, Tell};
pub use model::Model;
pub use plan::Graph;
pub use run::{Fitted, Run, RunConfig};
pub use simulate::World;
