//! Learns how many steps apart states are, from recorded trajectories.
//!
//! Modules stand in the order data pass through them; a module uses only those above it.
//! `tests/flow` reads this order; the blank lines keep the formatter from sorting it.

pub mod error;

pub mod spelling;

pub mod random;

mod cache;

mod pages;

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

pub mod algorithms;

pub mod ledger;

pub mod train;

pub mod plan;

pub mod evaluate;

pub mod report;

pub mod run;

pub use error::{Error, Result};
