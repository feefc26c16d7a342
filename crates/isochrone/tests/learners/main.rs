//! Learners as programs train them. One program, because every learner is compiled again for the tests that
//! run it.
#![allow(clippy::unwrap_used)]

mod capacity;
mod contract;
mod discrete;
mod goals;
#[cfg(feature = "cuda")]
mod gpu;
mod parity;
mod recovery;
mod successors;
