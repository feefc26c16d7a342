//! Runs an update: flat parameters, a static list of operations, passes that descend.
//!
//! The engine knows no operation by name and no mathematics of learning. Shapes are static, every
//! buffer is allocated once, and an update allocates nothing. Sums run in a fixed order, so the
//! same seed gives the same bits for any number of threads.

pub mod cuda;
mod executor;
mod hardware;
mod optimizer;
mod parameters;
mod plan;
mod products;
mod program;
mod scalar;
mod threads;
mod together;

pub use cuda::{
    Argument, BrokenLoss, Buffer, Chosen, CudaExecutor, Device, Dissection, Factor, Finish, Gpu,
    Grid, Kernels, Precision, Queue, Target,
};
pub use executor::{Backward, Clock, Executor, Forward};
pub(crate) use hardware::Engine;
pub use hardware::{Hardware, Seeds};
pub use optimizer::{Adam, Schedule};
pub use parameters::{ArenaId, Initial, Parameter, Parameters};
pub(crate) use products::wide_kernel;
pub use products::{Product, Side, Wide, multiply, wide};
pub use program::{Operation, Program, Stage, Value, Window};
pub use scalar::Scalar;
pub use threads::Threads;
