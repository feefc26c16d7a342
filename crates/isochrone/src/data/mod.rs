//! Files → [`Dataset`] → batches.
//!
//! `door` opens a path: `format` tells what it is, one `reader` per format reads it into
//! [`RawRows`], and a check of every value makes them a [`Dataset`], whose rows are in memory or, if
//! they are too many (`large`), on disk (`store`). Processes that carry a run together divide the rows
//! (`division`): each reads its `share`. [`sampler`] draws batches from it. Questions and
//! answers are plain tables, read by `rows` and written by `table`.

mod archive;
pub mod arrays;
mod complaints;
mod csv;
#[cfg(feature = "hdf5")]
mod d4rl;
mod dataset;
mod division;
mod door;
mod even;
mod features;
mod fetch;
mod files;
mod format;
#[cfg(any(feature = "hdf5", feature = "parquet"))]
mod guarded;
#[cfg(feature = "hdf5")]
mod hdf5;
mod inspect;
mod large;
#[cfg(feature = "parquet")]
mod lerobot;
mod lessons;
mod memory;
#[cfg(feature = "hdf5")]
mod minari;
mod normalization;
mod npy;
pub mod npz;
mod origins;
mod raw;
mod reader;
mod rounding;
mod rows;
pub mod sampler;
mod selection;
mod shards;
mod share;
mod store;
mod straight;
mod table;

pub use dataset::{Dataset, LARGEST};
pub use door::{Loaded, OpenedFile, files_of, load, open, open_sample};
pub use even::Even;
pub use features::Features;
pub use format::Format;
pub use inspect::{ColumnSummary, Inspection, Jumps, Leap, Lengths, SUSPICIOUS, wrapping_angles};
pub use lessons::Lessons;
pub(crate) use memory::check_room;
pub use memory::{Memory, available, rounded};
pub use normalization::{CriticGoal, Normalization, Scaling};
pub use raw::RawRows;
pub use reader::Choices;
pub use rows::RowStream;
pub use shards::exists;
pub use share::load_among;
pub use table::{Field, TableWriter, Values};
