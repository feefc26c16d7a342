//! The executor for NVIDIA GPUs, built without a toolkit and loaded only where there is one.
//!
//! Kernels stand beside the operations they belong to and are compiled by NVRTC when first used;
//! products go through cuBLASLt or, where they are small, tiles of our own; a whole update is one CUDA
//! graph. All replicas (seeds) of a run are computed by the same launches: the grid's z is the replica,
//! products are strided batches.
//! No sum depends on which thread comes first, so two runs give the same bits.
#![allow(unsafe_code)]

mod arrangement;
mod compiler;
mod dissection;
mod driver;
#[cfg(test)]
pub(crate) mod emulation;
mod executor;
mod graph;
mod layout;
mod libraries;
#[cfg(test)]
pub(crate) mod listing;
mod machine;
mod memory;
mod numbers;
mod optimizer;
mod products;
mod sampler;
mod tiles;
mod update;

#[cfg(test)]
pub(crate) use compiler::tests::compile_here;
pub use dissection::Dissection;
pub use executor::CudaExecutor;

/// The CUDA sources of the executor itself.
#[cfg(test)]
pub(crate) const OWN_SOURCES: [&str; 3] = [sampler::SOURCE, optimizer::SOURCE, tiles::SOURCE];
