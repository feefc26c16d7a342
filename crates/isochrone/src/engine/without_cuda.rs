//! What stands for [`CudaExecutor`] in a build without the feature `cuda`: no GPU is found, and no
//! executor for one can be made.

use std::time::Duration;

use super::device::{Device, Gpu};
use super::executor::{BrokenLoss, Clock};
use super::launches::Precision;
use super::parameters::ArenaId;
use super::program::Program;
use crate::data::sampler::Sampler;
use crate::error::{Error, Result};

fn absent() -> Error {
    Error::input("this program was built without the feature `cuda`")
        .hint("build it with `--features cuda`, or use `--device cpu`")
}

impl Device {
    /// The GPUs of this machine that can be used.
    ///
    /// # Errors
    /// Always: this build cannot use a GPU.
    pub fn available() -> Result<Vec<Gpu>> {
        Err(absent())
    }
}

/// An update taken apart; never made in this build.
#[derive(Debug, Clone)]
pub struct Dissection {
    /// Every launch alone, by operation.
    pub clock: Clock,
    /// How many launches.
    pub launches: usize,
    /// The longest chain of launches that wait for each other.
    pub chain: Duration,
}

/// The executor for NVIDIA GPUs; never made in this build.
pub enum CudaExecutor {}

#[allow(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "see the executor of the feature `cuda`"
)]
impl CudaExecutor {
    pub const TOGETHER: u64 = 1;

    pub fn new(
        _program: std::sync::Arc<Program<f32>>,
        _device: (&Gpu, Precision),
        _samplers: (&Sampler<'_>, Option<&Sampler<'_>>),
        _seeds: &[u64],
    ) -> Result<Self> {
        Err(absent())
    }

    pub fn add_recording(&mut self, _: (&Sampler<'_>, Option<&Sampler<'_>>)) -> Result<u32> {
        match *self {}
    }

    pub fn set_recording(&mut self, _replica: usize, _recording: u32) -> Result<()> {
        match *self {}
    }

    pub fn replicas(&self) -> usize {
        match *self {}
    }

    pub fn note(&self) -> Option<&str> {
        match *self {}
    }

    pub fn bytes(&self) -> usize {
        match *self {}
    }

    pub fn updates(&mut self, _step: u64, _count: u64) -> Result<()> {
        match *self {}
    }

    pub fn evaluate(&mut self, _step: u64) -> Result<()> {
        match *self {}
    }

    pub fn wait(&self) -> Result<()> {
        match *self {}
    }

    pub fn state(&self, _replica: usize, _arena: ArenaId) -> Result<[Vec<f32>; 3]> {
        match *self {}
    }

    pub fn set_state(&mut self, _: usize, _: ArenaId, _: [&[f32]; 3]) -> Result<()> {
        match *self {}
    }

    pub fn metrics(&mut self, _replica: usize, _step: u64, _out: &mut Vec<f64>) -> Result<()> {
        match *self {}
    }

    pub fn broken_loss(&self, _replica: usize) -> Result<Option<BrokenLoss>> {
        match *self {}
    }

    pub fn broken_now(&self, _replica: usize, _step: u64) -> Result<Option<BrokenLoss>> {
        match *self {}
    }

    pub fn dissect(self, _step: u64) -> Result<Dissection> {
        match self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_refused_with_the_feature_to_build_with() {
        let text = Device::Cuda(0).choose().unwrap_err().to_string();
        assert!(text.contains("feature `cuda`") && text.contains("--device cpu"), "{text}");
    }
}
