//! Runs an update: flat parameters, a static list of operations, passes that descend.
//!
//! The engine knows no operation by name and no mathematics of learning. Shapes are static, every
//! buffer is allocated once, and an update allocates nothing. Sums run in a fixed order, so the
//! same seed gives the same bits for any number of threads.

mod choice;
#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod device;
mod executor;
mod hardware;
mod launches;
mod operation;
mod optimizer;
mod parameters;
mod plan;
mod products;
mod program;
mod scalar;
mod shards;
mod threads;
mod together;
#[cfg(not(feature = "cuda"))]
mod without_cuda;

pub use choice::Chosen;
#[cfg(feature = "cuda")]
pub use cuda::{CudaExecutor, Dissection};
pub use device::{Device, Gpu};
pub use executor::{BrokenLoss, Clock, Executor};
pub(crate) use hardware::Engine;
pub use hardware::{Companions, Hardware};
pub use launches::Precision;
pub(crate) use launches::{
    Argument, Buffer, Factor, Finish, Grid, Kernels, Queue, Target, down_blocks,
};
pub use operation::{Backward, Forward, OfRows, Operation, Stage, Value};
pub use optimizer::{Adam, Schedule};
pub use parameters::{ArenaId, Initial, Parameter, Parameters};
pub(crate) use products::wide_kernel;
pub(crate) use products::{
    ABREAST, Abreast, can_abreast, from_abreast, lay_abreast, multiply_abreast,
};
pub use products::{Product, Side, Wide, multiply, wide};
pub use program::{Program, Window};
pub use scalar::Scalar;
pub use threads::Threads;
#[cfg(not(feature = "cuda"))]
pub use without_cuda::{CudaExecutor, Dissection};
