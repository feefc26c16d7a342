//! One face over the two executors: a run may stop on one and go on with the other.

use super::{
    ArenaId, BrokenLoss, Chosen, CudaExecutor, Device, Executor, Gpu, Precision, Program, Threads,
};
use crate::data::sampler::{Batch, Sampler};
use crate::error::Result;

/// What a run computes with. It decides how fast the run is and the last bits of its numbers, and is
/// no part of its config.
#[derive(Clone, Default)]
pub struct Hardware {
    /// The threads of the CPU.
    pub threads: Threads,
    /// The GPU that updates run on; none runs them on the CPU.
    pub gpu: Option<Gpu>,
    /// Whether the CPU takes over where the GPU cannot run a program.
    pub or_cpu: bool,
}

impl Hardware {
    /// What `device` comes to on this machine; under `auto` also why the CPU is used, in one line.
    ///
    /// # Errors
    /// A GPU was asked for by number and cannot be used.
    pub fn choose(device: Device, threads: Threads) -> Result<(Self, Option<String>)> {
        let (gpu, reason) = match device.choose()? {
            Chosen::Cpu(reason) => (None, reason),
            Chosen::Cuda(gpu) => (Some(gpu), None),
        };
        Ok((Self { threads, gpu, or_cpu: device == Device::Auto }, reason))
    }
}

impl From<Threads> for Hardware {
    fn from(threads: Threads) -> Self {
        Self { threads, ..Self::default() }
    }
}

impl From<&Threads> for Hardware {
    fn from(threads: &Threads) -> Self {
        threads.clone().into()
    }
}

/// An executor with the batch it reads.
pub(crate) enum Engine {
    Cpu(Box<Executor<f32>>, Batch),
    Cuda(Box<CudaExecutor>),
}

impl Engine {
    /// The executor of the program that `declare` gives; the note is what a user should know.
    ///
    /// # Errors
    /// The GPU that was asked for cannot run it.
    pub fn new(
        hardware: &Hardware,
        declare: &dyn Fn() -> Program<f32>,
        (training, held_out): (&Sampler<'_>, Option<&Sampler<'_>>),
        seed: u64,
    ) -> Result<(Self, Option<String>)> {
        let mut note = None;
        if let Some(gpu) = &hardware.gpu {
            let device = (gpu, Precision::Tf32);
            match CudaExecutor::new(declare(), device, (training, held_out), &[seed]) {
                Ok(executor) => {
                    let note = executor.note().map(str::to_owned);
                    return Ok((Self::Cuda(Box::new(executor)), note));
                }
                Err(error) if hardware.or_cpu => note = Some(format!("the CPU is used: {error}")),
                Err(error) => return Err(error),
            }
        }
        let program = declare();
        let batch = training.batch(program.batch_size());
        let executor = Executor::new(program, hardware.threads.clone(), seed);
        Ok((Self::Cpu(Box::new(executor), batch), note))
    }

    pub fn program(&self) -> &Program<f32> {
        match self {
            Self::Cpu(executor, _) => executor.program(),
            Self::Cuda(executor) => executor.program(),
        }
    }

    /// Whether an update may still run when it is asked for the next.
    pub fn runs_ahead(&self) -> bool {
        matches!(self, Self::Cuda(_))
    }

    /// One update on the batch of (seed, step).
    pub fn update(&mut self, sampler: &Sampler<'_>, seed: u64, step: u64) -> Result<()> {
        match self {
            Self::Cpu(executor, batch) => {
                sampler.fill(batch, seed, step)?;
                executor.update(batch, step);
                Ok(())
            }
            Self::Cuda(executor) => executor.update(step),
        }
    }

    /// The losses of `step` on a batch of the held-out data, which `sampler` draws; moves nothing.
    pub fn evaluate(&mut self, sampler: &Sampler<'_>, seed: u64, step: u64) -> Result<()> {
        match self {
            Self::Cpu(executor, batch) => {
                sampler.fill(batch, seed, step)?;
                executor.evaluate(batch, step);
                Ok(())
            }
            Self::Cuda(executor) => executor.evaluate(step),
        }
    }

    /// The metrics of the last update, in the order of [`Program::metrics`]; NaN where inactive.
    pub fn metrics(&mut self, step: u64, out: &mut Vec<f64>) -> Result<()> {
        match self {
            Self::Cpu(executor, _) => {
                executor.metrics(step, out);
                Ok(())
            }
            Self::Cuda(executor) => executor.metrics(0, step, out),
        }
    }

    /// The first loss that was not a finite number in an update: of `step`, or where updates run
    /// ahead of any so far.
    pub fn broken_update(&self, step: u64) -> Result<Option<BrokenLoss>> {
        match self {
            Self::Cpu(..) => self.broken_loss(step),
            Self::Cuda(executor) => executor.broken_loss(0),
        }
    }

    /// The first loss of the passes active at `step` that is not a finite number now.
    pub fn broken_loss(&self, step: u64) -> Result<Option<BrokenLoss>> {
        match self {
            Self::Cpu(executor, _) => Ok(executor
                .broken_loss(step)
                .map(|(pass, value)| BrokenLoss { step, pass: pass.to_owned(), value })),
            Self::Cuda(executor) => executor.broken_now(0, step),
        }
    }

    /// The first pass active at `step` whose gradient's norm among `metrics` is not finite.
    pub fn broken_gradient(&self, step: u64, metrics: &[f64]) -> Option<(&str, f64)> {
        let passes = &self.program().passes;
        let norms = &metrics[metrics.len() - passes.len()..];
        let mut active = passes.iter().zip(norms).filter(|(pass, _)| pass.window.contains(step));
        active.find_map(|(pass, &norm)| (!norm.is_finite()).then_some((pass.name.as_str(), norm)))
    }

    /// Values, first and second moments of an arena: everything a checkpoint keeps of it.
    pub fn state(&self, arena: ArenaId) -> Result<[Vec<f32>; 3]> {
        match self {
            Self::Cpu(executor, _) => Ok(executor.state(arena).map(<[f32]>::to_vec)),
            Self::Cuda(executor) => executor.state(0, arena),
        }
    }

    /// Sets what [`Engine::state`] gives.
    pub fn set_state(&mut self, arena: ArenaId, state: &[Vec<f32>; 3]) -> Result<()> {
        match self {
            Self::Cpu(executor, _) => {
                for (target, numbers) in executor.state_mut(arena).into_iter().zip(state) {
                    target.copy_from_slice(numbers);
                }
                Ok(())
            }
            Self::Cuda(executor) => executor.set_state(0, arena, [&state[0], &state[1], &state[2]]),
        }
    }
}
