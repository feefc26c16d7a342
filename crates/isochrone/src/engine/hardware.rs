//! One face over the two executors: a run may stop on one and resume on the other.

use std::sync::{Arc, Mutex, PoisonError};

use super::together::{Lockstep, Replica, Together};
use super::{
    ArenaId, BrokenLoss, Chosen, CudaExecutor, Device, Executor, Gpu, Precision, Program, Threads,
};
use crate::collective::Collective;
use crate::data::sampler::{Batch, Sampler};
use crate::error::{Error, Result};

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
    /// The runs that a GPU updates at once; none runs every one alone.
    pub companions: Option<Companions>,
    /// The recording that a run among them learns from.
    pub recording: usize,
    /// The processes that carry a run together.
    pub collective: Collective,
}

/// Runs that a GPU updates at once: recordings and seeds of one learner. Each trains in a thread of its
/// own, and the GPU waits until all of them have begun or left.
#[derive(Clone)]
pub struct Companions {
    runs: Arc<[Companion]>,
    gathered: Arc<Mutex<Gathered>>,
}

/// The recording and the seed of a run.
pub type Companion = (usize, u64);

/// The executor, once the first run has made it, its recordings, and the runs that left before.
#[derive(Default)]
struct Gathered {
    together: Option<Arc<Together<CudaExecutor>>>,
    /// Each recording that was brought and its number on the GPU.
    recordings: Vec<(usize, u32)>,
    left: Vec<usize>,
}

impl Companions {
    /// These runs, of which none has begun.
    pub fn new(runs: &[Companion]) -> Self {
        Self { runs: runs.into(), gathered: Arc::default() }
    }

    /// A run has ended, well or not; the others no longer wait for it.
    pub fn leave(&self, run: Companion) {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = self.runs.iter().position(|&other| other == run) {
            match &gathered.together {
                Some(together) => together.leave(at),
                None => gathered.left.push(at),
            }
        }
    }

    /// A run on the executor that `make` makes for all of them, with the recording that `bring` brings
    /// where no other has; the note is the maker's.
    fn join(
        &self,
        run: Companion,
        make: impl FnOnce(&[u64]) -> Result<CudaExecutor>,
        bring: impl FnOnce(&mut CudaExecutor) -> Result<u32>,
    ) -> Result<(Replica<CudaExecutor>, Option<String>)> {
        let mut gathered = self.gathered.lock().unwrap_or_else(PoisonError::into_inner);
        let mut note = None;
        let together = match &gathered.together {
            Some(together) => together.clone(),
            None => {
                let seeds: Vec<u64> = self.runs.iter().map(|&(_, seed)| seed).collect();
                let executor = make(&seeds)?;
                gathered.recordings.push((run.0, 0));
                note = executor.note().map(str::to_owned);
                let together = Together::new(executor);
                gathered.left.drain(..).for_each(|at| together.leave(at));
                gathered.together.insert(together).clone()
            }
        };
        let at = self.runs.iter().position(|&other| other == run);
        let at = at.expect("one of those that run together");
        let known = gathered.recordings.iter().find(|(recording, _)| *recording == run.0);
        let number = match known {
            Some(&(_, number)) => number,
            None => {
                let number = together.prepare(bring)?;
                gathered.recordings.push((run.0, number));
                number
            }
        };
        together.prepare(|executor| executor.set_recording(at, number))?;
        Ok((together.replica(at), note))
    }
}

impl Lockstep for CudaExecutor {
    fn replicas(&self) -> usize {
        self.replicas()
    }

    fn updates(&mut self, step: u64, count: u64) -> Result<()> {
        self.updates(step, count)
    }

    fn set_state(&mut self, replica: usize, arena: ArenaId, state: &[Vec<f32>; 3]) -> Result<()> {
        self.set_state(replica, arena, [&state[0], &state[1], &state[2]])
    }

    fn metrics(&mut self, replica: usize, step: u64) -> Result<Vec<f64>> {
        let mut out = Vec::new();
        self.metrics(replica, step, &mut out)?;
        Ok(out)
    }

    fn evaluate(&mut self, step: u64) -> Result<()> {
        self.evaluate(step)
    }

    fn broken_now(&self, replica: usize, step: u64) -> Result<Option<BrokenLoss>> {
        self.broken_now(replica, step)
    }
}

impl Hardware {
    /// The hardware that `device` means on this machine; under `auto` also why the CPU is used, in one line.
    ///
    /// # Errors
    /// A GPU was asked for by number and cannot be used.
    pub fn choose(device: Device, threads: Threads) -> Result<(Self, Option<String>)> {
        let (gpu, reason) = match device.choose()? {
            Chosen::Cpu(reason) => (None, reason),
            Chosen::Cuda(gpu) => (Some(gpu), None),
        };
        let or_cpu = device == Device::Auto;
        Ok((Self { threads, gpu, or_cpu, ..Self::default() }, reason))
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
    Cpu(Box<Executor<f32>>, Box<Batch>),
    Cuda(Replica<CudaExecutor>, Arc<Program<f32>>),
}

impl Engine {
    /// The executor of `program`; the note is what a user should know.
    ///
    /// # Errors
    /// The GPU that was asked for cannot run it.
    pub fn new(
        hardware: &Hardware,
        program: Program<f32>,
        (training, held_out): (&Sampler<'_>, Option<&Sampler<'_>>),
        seed: u64,
    ) -> Result<(Self, Option<String>)> {
        let (program, mut note) = (Arc::new(program), None);
        let (size, mut gpu) = (hardware.collective.size(), hardware.gpu.as_ref());
        if size > 1 && gpu.is_some() {
            let why = format!("{size} processes carry the run, and they share CPUs alone");
            if !hardware.or_cpu {
                return Err(Error::input(why).hint("leave out `--device`, or `mpirun`"));
            }
            (gpu, note) = (None, Some(format!("the CPU is used: {why}")));
        }
        if let Some(gpu) = gpu {
            let run = (hardware.recording, seed);
            let alone = || Companions::new(&[run]);
            let companions = hardware.companions.clone().unwrap_or_else(alone);
            let samplers = (training, held_out);
            let make = |seeds: &[u64]| {
                let device = (gpu, Precision::Tf32);
                CudaExecutor::new(program.clone(), device, samplers, seeds)
            };
            let bring = |executor: &mut CudaExecutor| executor.add_recording(samplers);
            match companions.join(run, make, bring) {
                Ok((replica, note)) => {
                    return Ok((Self::Cuda(replica, program), note));
                }
                Err(error) if hardware.or_cpu => {
                    companions.leave(run);
                    note = Some(format!("the CPU is used: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        let batch = training.batch(program.batch_size());
        let (threads, collective) = (hardware.threads.clone(), hardware.collective.clone());
        let executor = Executor::among(program, threads, seed, collective);
        Ok((Self::Cpu(Box::new(executor), Box::new(batch)), note))
    }

    pub fn program(&self) -> &Program<f32> {
        match self {
            Self::Cpu(executor, _) => executor.program(),
            Self::Cuda(_, program) => program,
        }
    }

    /// Whether an update may still run when it is asked for the next.
    pub fn runs_ahead(&self) -> bool {
        matches!(self, Self::Cuda(..))
    }

    /// Updates on the batches of (seed, step) for `count` steps; where they do not run ahead, one.
    pub fn updates(
        &mut self,
        sampler: &Sampler<'_>,
        seed: u64,
        (step, count): (u64, u64),
    ) -> Result<()> {
        match self {
            Self::Cpu(executor, batch) => executor.update_on(sampler, batch, (seed, step)),
            Self::Cuda(replica, _) => replica.updates(step, count),
        }
    }

    /// The metrics of `step` on a batch of the held-out data, which `sampler` draws, and the first of
    /// its losses that is not a finite number; moves nothing.
    pub fn held_out(
        &mut self,
        sampler: &Sampler<'_>,
        seed: u64,
        step: u64,
    ) -> Result<(Vec<f64>, Option<BrokenLoss>)> {
        match self {
            Self::Cpu(executor, batch) => {
                sampler.fill(batch, seed, step)?;
                executor.evaluate(batch, step);
                let broken = self.broken_loss(step)?;
                Ok((self.metrics(step)?, broken))
            }
            Self::Cuda(replica, _) => replica.held_out(step),
        }
    }

    /// The metrics of the last update, in the order of [`Program::metrics`]; NaN where inactive.
    pub fn metrics(&mut self, step: u64) -> Result<Vec<f64>> {
        match self {
            Self::Cpu(executor, _) => {
                let mut out = Vec::new();
                executor.metrics(step, &mut out);
                Ok(out)
            }
            Self::Cuda(replica, _) => replica.metrics(step),
        }
    }

    /// The signal at which this run stops at `step`: at once; where several processes carry it, that of
    /// rank 0; where several run together, at the step of the furthest.
    pub fn stops(&self, step: u64, signal: Option<i32>) -> Option<i32> {
        match self {
            Self::Cpu(executor, _) => {
                let mut bytes = signal.unwrap_or(0).to_le_bytes();
                executor.collective().broadcast(&mut bytes);
                Some(i32::from_le_bytes(bytes)).filter(|&signal| signal != 0)
            }
            Self::Cuda(replica, _) => replica.stops(step, signal),
        }
    }

    /// The numbers set so far are those of `step`.
    pub fn stand_at(&mut self, step: u64) {
        if let Self::Cuda(replica, _) = self {
            replica.stand_at(step);
        }
    }

    /// The first loss that was not a finite number in an update: of `step`, or where updates run
    /// ahead of any so far.
    pub fn broken_update(&self, step: u64) -> Result<Option<BrokenLoss>> {
        match self {
            Self::Cpu(..) => self.broken_loss(step),
            Self::Cuda(replica, _) => replica.read(|executor, at| executor.broken_loss(at)),
        }
    }

    /// The first loss of the passes active at `step` that is not a finite number now.
    fn broken_loss(&self, step: u64) -> Result<Option<BrokenLoss>> {
        match self {
            Self::Cpu(executor, _) => Ok(executor
                .broken_loss(step)
                .map(|(pass, value)| BrokenLoss { step, pass: pass.to_owned(), value })),
            Self::Cuda(replica, _) => replica.read(|executor, at| executor.broken_now(at, step)),
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
            Self::Cuda(replica, _) => {
                replica.state(arena, |executor, at| executor.state(at, arena))
            }
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
            Self::Cuda(replica, _) => {
                replica.set_state(arena, state.clone());
                Ok(())
            }
        }
    }
}
