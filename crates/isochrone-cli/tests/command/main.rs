//! The command as users and scripts run it. One program, so that tests that wait run beside tests that
//! compute.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod bench;
mod commands;
mod compare;
mod data;
mod documents;
mod explore;
mod faults;
mod generate;
mod kill;
mod mazes;
mod mpi;
mod own_worlds;
mod program;
mod publish;
mod query;
mod runs;
mod score;
mod sweep;
