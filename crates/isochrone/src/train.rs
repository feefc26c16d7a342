//! The loop: sample, update, tell, save. No mathematics.
//!
//! A trainer is a pure function of (seed, data, config) at every step: stopping, saving and going on
//! gives the same bits as never stopping.

use serde::{Deserialize, Serialize};

use crate::algorithms::{Algorithm, Config, Learner, Problem};
use crate::checkpoint::Snapshot;
use crate::collective::Collective;
use crate::data::sampler::Sampler;
use crate::data::{Dataset, Normalization, check_room};
use crate::engine::{ArenaId, BrokenLoss, Engine, Executor, Hardware, Parameters, Program};
use crate::error::{Error, Result, Tell};
use crate::model::{DataSample, Model};
use crate::teacher::{Teacher, Terms};

/// How long and in what portions training runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Updates of the whole run.
    pub steps: u64,
    /// Rows of a batch.
    pub batch_size: usize,
    /// Updates between two rows of `metrics.csv`.
    pub log_every: u64,
    /// Updates between two checkpoints.
    pub save_every: u64,
    /// Updates between two evaluations; 0 evaluates at the end alone.
    pub evaluate_every: u64,
    /// Checkpoints kept.
    pub keep: usize,
    /// Shards of a batch, a power of two that divides its rows: at most so many processes of `mpirun` can
    /// carry the run, and its bytes depend on the shards, not on the processes; left out, 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<usize>,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: 20_000,
            batch_size: 256,
            log_every: 100,
            save_every: 2_000,
            evaluate_every: 0,
            keep: 2,
            shards: None,
        }
    }
}

impl TrainConfig {
    /// Checks that a batch can be cut into its shards and that so many processes can carry them.
    ///
    /// # Errors
    /// One of the numbers does not divide the other.
    pub fn check_shards(&self, processes: usize) -> Result<()> {
        let (shards, rows) = (self.shards.unwrap_or(1), self.batch_size);
        if rows < 2 {
            return Err(Error::input(format!(
                "`train.batch_size` is `{rows}`, expected at least 2"
            )));
        }
        if !shards.is_power_of_two() || !rows.is_multiple_of(shards) || shards > rows {
            return Err(Error::input(format!(
                "`train.shards` is `{shards}`, expected a power of two that divides the {rows} rows \
                 of `train.batch_size`"
            ))
            .hint("8 serves 1, 2, 4 or 8 processes"));
        }
        if !shards.is_multiple_of(processes) {
            let least = processes.next_power_of_two();
            return Err(Error::input(format!(
                "{processes} processes cannot share {shards} shards, expected a number that divides \
                 `train.shards`"
            ))
            .hint(format!("start another number, or add `--set train.shards={least}`")));
        }
        Ok(())
    }
}

/// The data of a run: what is trained on, what is held out, and how states are normalized.
pub struct Prepared {
    /// Trained on.
    pub training: Dataset,
    /// Held out, where a share was asked for.
    pub validation: Option<Dataset>,
    /// Fitted on the training side.
    pub normalization: Normalization,
    /// How near a goal counts as reached, where a world says so.
    pub radius: Option<f64>,
}

/// One run in progress.
pub struct Trainer<'d> {
    engine: Engine,
    notes: Vec<String>,
    learner: Learner,
    sampler: Sampler<'d>,
    held_out: Option<Sampler<'d>>,
    data: &'d Prepared,
    sample: DataSample,
    discount: f64,
    seed: u64,
    step: u64,
}

impl<'d> Trainer<'d> {
    /// A run at its first step.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data, or a GPU that cannot be used.
    pub fn new(
        algorithm: &Config,
        settings: &TrainConfig,
        data: &'d Prepared,
        discount: f64,
        seed: u64,
        hardware: impl Into<Hardware>,
    ) -> Result<Self> {
        let hardware = hardware.into();
        Self::telling(algorithm, settings, data, discount, seed, hardware, &|_, _| None)
    }

    /// As [`Trainer::new`]; `tell` hears how far the teacher is, where the learner has one.
    ///
    /// # Errors
    /// As [`Trainer::new`], and a signal that `tell` gives.
    pub fn telling(
        algorithm: &Config,
        settings: &TrainConfig,
        data: &'d Prepared,
        discount: f64,
        seed: u64,
        hardware: Hardware,
        tell: &Tell<'_>,
    ) -> Result<Self> {
        let dataset = &data.training;
        let starts = dataset.rows() - dataset.trajectories();
        if settings.batch_size > starts || settings.batch_size < 2 {
            return Err(Error::input(format!(
                "`train.batch_size` is `{}`, expected 2 to {starts}, the starts of the data",
                settings.batch_size
            ))
            .hint("change it with `--set train.batch_size=…`"));
        }
        settings.check_shards(hardware.collective.size())?;
        let (state_size, action_size) = (data.normalization.width(), dataset.action_size());
        let teacher = algorithm.teacher().map(|teacher| {
            let policy_goal = &data.normalization.policy_goal;
            let terms =
                Terms { discount, radius: data.radius, policy_goal, widest: f64::INFINITY, seed };
            let collective = &hardware.collective;
            let solve = || Teacher::among(dataset, teacher, terms, tell, collective);
            hardware.threads.enter(solve)
        });
        let teacher = teacher.transpose()?;
        let mut parameters = Parameters::default();
        let problem = Problem {
            state_size,
            goal_size: data.normalization.goal_width(),
            critic_goal: data.normalization.critic_goal_places().map(<[usize]>::len),
            action_size,
            steps: settings.steps,
            discount,
            radius: data.radius,
            farthest: teacher.as_ref().map(Teacher::farthest),
        };
        let learner = algorithm.fitted(dataset)?.build(problem, &mut parameters)?;
        let parameters_bytes = parameters.bytes();
        let saved = parameters_bytes / COPIES_TRAINED * COPIES_SAVED;
        check_memory("the parameters of the networks", saved)?;
        let mut program = Program::new(parameters, settings.batch_size, state_size, action_size);
        program.cut(settings.shards.unwrap_or(1));
        learner.declare(&mut program);
        if hardware.gpu.is_none() {
            let bytes = parameters_bytes.saturating_add(saved).saturating_add(program.bytes());
            check_memory("the networks and a batch of their values", bytes)?;
        }
        let layout = program.layout().clone();
        let sampler = |dataset: &'d Dataset| {
            Sampler::new(dataset, &data.normalization, layout.clone(), discount)
        };
        let mut held_out = data.validation.as_ref().map(&sampler);
        if let (Some(teacher), Some(validation)) = (&teacher, &data.validation) {
            let lessons = teacher.lessons_for(validation)?;
            held_out = held_out
                .filter(|_| !lessons.goals().is_empty())
                .map(|sampler| sampler.taught(Some(lessons)));
        }
        let sampler = sampler(dataset).taught(teacher.as_ref().map(Teacher::lessons));
        let samplers = (&sampler, held_out.as_ref());
        let (engine, note) = Engine::new(&hardware, program, samplers, seed)?;
        let notes = teacher.iter().map(Teacher::summary).chain(note).collect();
        let sample = DataSample::of(dataset, seed)?;
        Ok(Self {
            engine,
            notes,
            learner,
            sampler,
            held_out,
            data,
            sample,
            discount,
            seed,
            step: 0,
        })
    }

    /// Updates done.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The CPU's executor, for timings; `None` if a GPU runs.
    pub fn executor(&mut self) -> Option<&mut Executor<f32>> {
        match &mut self.engine {
            Engine::Cpu(executor, _) => Some(executor),
            Engine::Cuda(..) => None,
        }
    }

    /// Whether a GPU runs the updates.
    pub fn on_gpu(&self) -> bool {
        self.engine.runs_ahead()
    }

    /// What a user should know of the teacher and of the device, a line each.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// One update. A GPU may still be at it when this returns.
    ///
    /// # Errors
    /// A loss is not a finite number; a GPU tells so when metrics or numbers are next asked for.
    pub fn update(&mut self) -> Result<()> {
        self.updates(self.step + 1)
    }

    /// Updates until `step` updates are done, or where a GPU runs until all of them are asked for.
    ///
    /// # Errors
    /// As [`Trainer::update`].
    pub fn updates(&mut self, step: u64) -> Result<()> {
        while self.step < step {
            let count = if self.on_gpu() { step - self.step } else { 1 };
            self.engine.updates(&self.sampler, self.seed, (self.step, count))?;
            if !self.on_gpu() {
                diverged("training", self.engine.broken_update(self.step)?)?;
            }
            self.step += count;
        }
        Ok(())
    }

    /// The signal at which this run stops now, after one was received or not: several seeds on one
    /// GPU stop at the same step.
    pub fn stops(&self, signal: Option<i32>) -> Option<i32> {
        self.engine.stops(self.step, signal)
    }

    /// Waits for updates that still run, and stops where one of them was broken.
    ///
    /// # Errors
    /// A loss that is not a finite number; the GPU does not work.
    pub fn catch_up(&self) -> Result<()> {
        if !self.engine.runs_ahead() {
            return Ok(());
        }
        diverged("training", self.engine.broken_update(self.step.saturating_sub(1))?)
    }

    /// The names of the metrics of a row: training, then validation losses.
    pub fn metrics(&self) -> Vec<String> {
        let mut names = self.engine.program().metrics();
        if self.held_out.is_some() {
            let losses = names.iter().filter(|name| name.ends_with("/loss"));
            let losses: Vec<String> =
                losses.map(|name| name.replace("training/", "validation/")).collect();
            names.extend(losses);
        }
        names
    }

    /// The metrics of the update just done, in the order of [`Trainer::metrics`].
    ///
    /// # Errors
    /// A gradient or a validation loss is not a finite number.
    pub fn row(&mut self) -> Result<Vec<f64>> {
        let names = self.engine.program().metrics();
        let done = self.step.saturating_sub(1);
        self.catch_up()?;
        let mut row = self.engine.metrics(done)?;
        if let Some((pass, value)) = self.engine.broken_gradient(done, &row) {
            let metric = format!("training/{pass}/gradient_norm");
            return Err(Error::Diverged { step: done, metric, value });
        }
        if let Some(sampler) = &self.held_out {
            let (held_out, broken) = self.engine.held_out(sampler, self.seed, done)?;
            diverged("validation", broken)?;
            let losses = names.iter().zip(held_out).filter(|(name, _)| name.ends_with("/loss"));
            row.extend(losses.map(|(_, value)| value));
        }
        Ok(row)
    }

    /// Everything needed to go on from here, on this device or another.
    ///
    /// # Errors
    /// A GPU does not work, or a loss was not a finite number.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.catch_up()?;
        let parameters = self.engine.program().parameters();
        let mut tensors = Vec::new();
        for arena in parameters.arenas() {
            let name = parameters.name(arena);
            for (part, numbers) in PARTS.iter().zip(self.engine.state(arena)?) {
                tensors.push((format!("{name}.{part}"), vec![numbers.len()], numbers));
            }
        }
        Ok(Snapshot { step: self.step, tensors, facts: Default::default() })
    }

    /// Goes on from `snapshot`.
    ///
    /// # Errors
    /// A tensor is missing or of another length.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.take(snapshot, &PARTS, |_| true)?;
        self.step = snapshot.step;
        self.engine.stand_at(self.step);
        Ok(())
    }

    /// Where several processes carry the run, they all go on from where rank 0 is.
    ///
    /// # Errors
    /// A GPU does not work.
    pub fn share(&mut self, collective: &Collective) -> Result<()> {
        if collective.size() == 1 {
            return Ok(());
        }
        let mut step = self.step.to_le_bytes();
        collective.broadcast(&mut step);
        self.step = u64::from_le_bytes(step);
        for arena in self.engine.program().parameters().clone().arenas() {
            let mut state = self.engine.state(arena)?;
            for numbers in &mut state {
                let mut bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
                collective.broadcast(&mut bytes);
                for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
                    *number = f32::from_le_bytes(*bytes);
                }
            }
            self.engine.set_state(arena, &state)?;
        }
        self.engine.stand_at(self.step);
        Ok(())
    }

    /// Takes the parameters of the arenas whose name `wanted` says from another run's snapshot.
    ///
    /// # Errors
    /// A tensor is missing or of another length.
    pub fn adopt(&mut self, snapshot: &Snapshot, wanted: impl Fn(&str) -> bool) -> Result<()> {
        self.take(snapshot, &PARTS[..1], wanted)
    }

    /// Takes these parts of the arenas whose name `wanted` says.
    fn take(
        &mut self,
        snapshot: &Snapshot,
        parts: &[&str],
        wanted: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let parameters = self.engine.program().parameters().clone();
        for arena in parameters.arenas().filter(|&arena| wanted(parameters.name(arena))) {
            let mut state = self.engine.state(arena)?;
            for (part, target) in parts.iter().zip(&mut state) {
                copy(snapshot, &format!("{}.{part}", parameters.name(arena)), target)?;
            }
            self.engine.set_state(arena, &state)?;
        }
        Ok(())
    }

    /// The model as it is now.
    ///
    /// # Errors
    /// A GPU does not work, or a loss was not a finite number.
    pub fn model(&self) -> Result<Model> {
        self.catch_up()?;
        let arenas = self.engine.program().parameters().arenas();
        let values = arenas.map(|arena| {
            let [values, _, _] = self.engine.state(arena)?;
            Ok((arena, values))
        });
        let values: Vec<(ArenaId, Vec<f32>)> = values.collect::<Result<_>>()?;
        let of = |arena: ArenaId| {
            let found = values.iter().find(|(other, _)| *other == arena);
            found.map_or_else(Vec::new, |(_, values)| values.clone())
        };
        let learned = self.learner.learned(&of);
        let normalization = self.data.normalization.clone();
        Ok(Model::new(learned, &self.sample, normalization, self.discount))
    }
}

/// Copies of the parameters that are trained: values, gradients and two moments.
const COPIES_TRAINED: u64 = 4;
/// Copies that a save takes beside them: all but the gradients, as numbers and as the file's bytes.
const COPIES_SAVED: u64 = 6;

/// Refuses what the memory has no room for, before it is asked for.
fn check_memory(what: &str, bytes: u64) -> Result<()> {
    check_room(what, bytes, "make the networks' `hidden` or `train.batch_size` smaller")
}

/// Stops where a loss is broken.
fn diverged(side: &str, broken: Option<BrokenLoss>) -> Result<()> {
    broken.map_or(Ok(()), |BrokenLoss { step, pass, value }| {
        Err(Error::Diverged { step, metric: format!("{side}/{pass}/loss"), value })
    })
}

/// What a checkpoint keeps of an arena.
const PARTS: [&str; 3] = ["values", "first_moment", "second_moment"];

fn copy(snapshot: &Snapshot, name: &str, target: &mut [f32]) -> Result<()> {
    let found = snapshot.tensor(name).map(|(_, numbers)| numbers);
    match found {
        Some(numbers) if numbers.len() == target.len() => {
            target.copy_from_slice(numbers);
            Ok(())
        }
        Some(numbers) => Err(Error::input(format!(
            "`{name}` has {} numbers, expected {}",
            numbers.len(),
            target.len()
        ))
        .hint("the checkpoint is of another network")),
        None => Err(Error::input(format!("the checkpoint has no `{name}`"))
            .hint("the checkpoint is of another algorithm")),
    }
}

#[cfg(test)]
mod tests;
