//! The loop: sample, update, tell, save. No mathematics.
//!
//! A trainer is a pure function of (seed, data, config) at every step: stopping, saving and going on
//! gives the same bits as never stopping.

use serde::{Deserialize, Serialize};

use crate::algorithms::{Algorithm, Config, Learner, Problem};
use crate::checkpoint::Snapshot;
use crate::data::sampler::{Batch, Sampler};
use crate::data::{Dataset, Normalization};
use crate::engine::{Executor, Parameters, Program, Threads};
use crate::error::{Error, Result};
use crate::model::Model;

/// How long and in what portions training runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
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
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            steps: 20_000,
            batch_size: 256,
            log_every: 100,
            save_every: 2_000,
            evaluate_every: 0,
            keep: 2,
        }
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
    executor: Executor<f32>,
    learner: Learner,
    sampler: Sampler<'d>,
    held_out: Option<Sampler<'d>>,
    batch: Batch,
    data: &'d Prepared,
    discount: f64,
    seed: u64,
    step: u64,
}

impl<'d> Trainer<'d> {
    /// A run at its first step.
    ///
    /// # Errors
    /// Choices that do not fit each other or the data.
    pub fn new(
        algorithm: &Config,
        settings: &Settings,
        data: &'d Prepared,
        discount: f64,
        seed: u64,
        threads: Threads,
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
        let (state_size, action_size) = (data.normalization.width(), dataset.action_size());
        let mut parameters = Parameters::default();
        let problem = Problem {
            state_size,
            action_size,
            steps: settings.steps,
            discount,
            radius: data.radius,
        };
        let learner = algorithm.fitted(dataset)?.build(problem, &mut parameters)?;
        let mut program = Program::new(parameters, settings.batch_size, state_size, action_size);
        learner.declare(&mut program);
        let sampler = |dataset: &'d Dataset| {
            Sampler::new(dataset, &data.normalization, program.layout().clone(), discount)
        };
        let held_out = data.validation.as_ref().map(&sampler);
        let sampler = sampler(dataset);
        let batch = sampler.batch(settings.batch_size);
        let executor = Executor::new(program, threads, seed);
        Ok(Self { executor, learner, sampler, held_out, batch, data, discount, seed, step: 0 })
    }

    /// Updates done.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The executor, for timings.
    pub fn executor(&mut self) -> &mut Executor<f32> {
        &mut self.executor
    }

    /// One update.
    ///
    /// # Errors
    /// A loss is not a finite number.
    pub fn update(&mut self) -> Result<()> {
        self.sampler.fill(&mut self.batch, self.seed, self.step);
        self.executor.update(&self.batch, self.step);
        diverged(self.step, "training", "loss", self.executor.broken_loss(self.step))?;
        self.step += 1;
        Ok(())
    }

    /// The names of the metrics of a row: training, then validation losses.
    pub fn metrics(&self) -> Vec<String> {
        let mut names = self.executor.program().metrics();
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
        let names = self.executor.program().metrics();
        let done = self.step.saturating_sub(1);
        let mut row = Vec::new();
        self.executor.metrics(done, &mut row);
        diverged(done, "training", "gradient_norm", self.executor.broken_gradient(done))?;
        if let Some(sampler) = &self.held_out {
            sampler.fill(&mut self.batch, self.seed, done);
            self.executor.evaluate(&self.batch, done);
            diverged(done, "validation", "loss", self.executor.broken_loss(done))?;
            let mut held_out = Vec::new();
            self.executor.metrics(done, &mut held_out);
            let losses = names.iter().zip(held_out).filter(|(name, _)| name.ends_with("/loss"));
            row.extend(losses.map(|(_, value)| value));
        }
        Ok(row)
    }

    /// Everything needed to go on from here.
    pub fn snapshot(&self) -> Snapshot {
        let parameters = self.executor.program().parameters();
        let mut tensors = Vec::new();
        for arena in parameters.arenas() {
            let name = parameters.name(arena);
            for (part, numbers) in PARTS.iter().zip(self.executor.state(arena)) {
                tensors.push((format!("{name}.{part}"), vec![numbers.len()], numbers.to_vec()));
            }
        }
        Snapshot { step: self.step, tensors, facts: Default::default() }
    }

    /// Goes on from `snapshot`.
    ///
    /// # Errors
    /// A tensor is missing or of another length.
    pub fn restore(&mut self, snapshot: &Snapshot) -> Result<()> {
        let parameters = self.executor.program().parameters().clone();
        for arena in parameters.arenas() {
            let name = parameters.name(arena);
            for (part, target) in PARTS.iter().zip(self.executor.state_mut(arena)) {
                copy(snapshot, &format!("{name}.{part}"), target)?;
            }
        }
        self.step = snapshot.step;
        Ok(())
    }

    /// Takes the parameters of the arenas whose name `wanted` says from another run's snapshot.
    ///
    /// # Errors
    /// A tensor is missing or of another length.
    pub fn adopt(&mut self, snapshot: &Snapshot, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let parameters = self.executor.program().parameters().clone();
        for arena in parameters.arenas() {
            let name = parameters.name(arena);
            if wanted(name) {
                copy(snapshot, &format!("{name}.values"), self.executor.arena_mut(arena))?;
            }
        }
        Ok(())
    }

    /// The model as it is now.
    pub fn model(&self) -> Model {
        let learned = self.learner.learned(&|arena| self.executor.arena(arena).to_vec());
        let normalization = self.data.normalization.clone();
        Model::new(learned, &self.data.training, normalization, self.discount, self.seed)
    }
}

/// Stops where a pass is broken.
fn diverged(step: u64, side: &str, metric: &str, broken: Option<(&str, f64)>) -> Result<()> {
    broken.map_or(Ok(()), |(pass, value)| {
        Err(Error::Diverged { step, metric: format!("{side}/{pass}/{metric}"), value })
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
