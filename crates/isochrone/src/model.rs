//! What survives training: a distance between states and a policy; answers in steps.
//!
//! A distance learned over state-action pairs becomes one between states by a mean over M stored
//! actions, d(s, g) = mean_m d((s, a_m), (g, a_m)): a mean of quasimetrics pulled back, so the
//! triangle inequality is exact and d(s, s) = 0. Nats inside, steps outside: steps = d / ln(1/γ).

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Files, Snapshot, load, save};
use crate::data::{Dataset, Normalization, Scaling};
use crate::engine::{Parameters, Threads};
use crate::error::{Error, Result};
use crate::nn::{Head, HeadShape, Mlp, Network, Policy, PolicyShape};
use crate::random::{Purpose, Stream, below};

const ACTIONS_PURPOSE: Purpose = Purpose(4);
const REFERENCE_PURPOSE: Purpose = Purpose(5);

/// Actions kept to turn a distance of state-action pairs into one of states.
const STORED_ACTIONS: usize = 8;
/// Data states kept to tell whether a state is far from the data.
const REFERENCE_ROWS: usize = 1024;
/// Data states that set the scale of "far".
const PROBES: usize = 256;

/// Everything about a model but its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelShape {
    /// Numbers of a state.
    pub state_size: usize,
    /// Numbers of an action; 0 without actions.
    pub action_size: usize,
    /// γ, which turns nats into steps.
    pub discount: f64,
    /// How states are normalized before a network sees them.
    pub normalization: Normalization,
    /// The distance.
    pub distance: DistanceShape,
    /// The policy, where one was learned.
    pub policy: Option<PolicyShape>,
}

/// The networks of a distance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DistanceShape {
    /// The encoder.
    pub network: Network,
    /// The head.
    pub head: HeadShape,
    /// Whether the encoder sees an action beside the state.
    pub with_action: bool,
    /// τ: the head's output is τ times the distance in nats.
    pub temperature: f64,
}

/// The encoder and head that a distance is read with; built the same way for training and reading.
#[derive(Debug, Clone)]
pub struct Encoder {
    /// The network.
    pub network: Mlp,
    /// The head.
    pub head: Head,
}

impl Encoder {
    /// Adds an encoder and its head to an arena called `name`.
    pub fn new(
        parameters: &mut Parameters,
        name: &str,
        shape: &DistanceShape,
        (state_size, action_size): (usize, usize),
    ) -> Self {
        let arena = parameters.arena(name);
        let inputs = state_size + if shape.with_action { action_size } else { 0 };
        let sizes = (inputs, shape.head.latent());
        let network = Mlp::new(parameters, arena, &shape.network, sizes, 1.0);
        let head = Head::new(parameters, arena, shape.head);
        Self { network, head }
    }
}

/// What was learned, as an algorithm hands it over: shapes and flat parameters.
#[derive(Debug, Clone)]
pub struct Learned {
    /// The distance's shape.
    pub distance: DistanceShape,
    /// The numbers of its arena.
    pub distance_parameters: Vec<f32>,
    /// The policy's shape and the numbers of its arena.
    pub policy: Option<(PolicyShape, Vec<f32>)>,
}

/// A learned distance and, where there is one, its policy.
pub struct Model {
    shape: ModelShape,
    encoder: Encoder,
    distance_parameters: Vec<f32>,
    stored_actions: Vec<f32>,
    policy: Option<(Policy, Vec<f32>)>,
    reference: Reference,
    threads: Threads,
}

/// States in latent coordinates: embed once, compare often.
#[derive(Debug, Clone)]
pub struct Embedded {
    rows: usize,
    /// One matrix of rows × latent for each stored action.
    copies: Vec<Vec<f32>>,
}

impl Embedded {
    /// How many states.
    pub fn rows(&self) -> usize {
        self.rows
    }
}

/// Data states, standardized, and how far apart they typically are.
#[derive(Debug, Clone, PartialEq)]
struct Reference {
    scaling: Normalization,
    states: Vec<f32>,
    spacing: f32,
}

impl Model {
    /// A model of what was learned from `dataset`.
    pub fn new(
        learned: Learned,
        dataset: &Dataset,
        normalization: Normalization,
        discount: f64,
        seed: u64,
    ) -> Self {
        let shape = ModelShape {
            state_size: dataset.state_size(),
            action_size: dataset.action_size(),
            discount,
            normalization,
            distance: learned.distance,
            policy: learned.policy.as_ref().map(|(shape, _)| shape.clone()),
        };
        let stream = Stream::new(seed, ACTIONS_PURPOSE);
        let stored_actions = (0..STORED_ACTIONS)
            .filter(|_| shape.distance.with_action)
            .flat_map(|index| {
                let row = below(stream.block(0, index as u32)[0], dataset.rows() as u32);
                dataset.action(row as usize).iter().copied()
            })
            .collect();
        Self::assemble(
            shape,
            learned.distance_parameters,
            stored_actions,
            learned.policy.map(|(_, numbers)| numbers),
            Reference::of(dataset, seed),
        )
    }

    fn assemble(
        shape: ModelShape,
        distance_parameters: Vec<f32>,
        stored_actions: Vec<f32>,
        policy: Option<Vec<f32>>,
        reference: Reference,
    ) -> Self {
        let sizes = (shape.state_size, shape.action_size);
        let encoder = Encoder::new(&mut Parameters::default(), "distance", &shape.distance, sizes);
        let policy = shape.policy.as_ref().zip(policy).map(|(policy, numbers)| {
            let mut parameters = Parameters::default();
            let arena = parameters.arena("policy");
            (Policy::new(&mut parameters, arena, policy, sizes), numbers)
        });
        let threads = Threads::default();
        Self { shape, encoder, distance_parameters, stored_actions, policy, reference, threads }
    }

    /// Everything about the model but its numbers.
    pub fn shape(&self) -> &ModelShape {
        &self.shape
    }

    /// Nats to steps.
    pub fn in_steps(&self, nats: f32) -> f32 {
        nats / (1.0 / self.shape.discount).ln() as f32
    }

    /// Whether it has a policy.
    pub fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    fn encode(&self, states: &[f32], action: impl Fn(usize) -> Option<Vec<f32>>) -> Vec<f32> {
        let size = self.shape.state_size;
        let mut inputs = Vec::with_capacity(states.len());
        let mut normalized = vec![0.0; size];
        for (row, state) in states.chunks_exact(size).enumerate() {
            self.shape.normalization.apply(state, &mut normalized);
            inputs.extend_from_slice(&normalized);
            inputs.extend(action(row).into_iter().flatten());
        }
        self.encoder.network.infer(&self.threads, &self.distance_parameters, &inputs)
    }

    fn stored_action(&self, at: usize) -> Option<Vec<f32>> {
        let size = self.shape.action_size;
        self.shape
            .distance
            .with_action
            .then(|| self.stored_actions[at * size..(at + 1) * size].to_vec())
    }

    fn copies(&self) -> usize {
        if self.shape.distance.with_action { STORED_ACTIONS } else { 1 }
    }

    /// Embeds states, row after row.
    pub fn embed(&self, states: &[f32]) -> Embedded {
        let copies =
            (0..self.copies()).map(|at| self.encode(states, |_| self.stored_action(at))).collect();
        Embedded { rows: states.len() / self.shape.state_size, copies }
    }

    /// The distance in nats from every state of `from` to every state of `to`.
    pub fn pairwise(&self, from: &Embedded, to: &Embedded) -> Vec<f32> {
        self.mean(from.rows * to.rows, from, to, |from, to, out| {
            self.encoder.head.infer_pairs(&self.distance_parameters, from, to, out);
        })
    }

    /// The distance in nats between corresponding states.
    pub fn between(&self, from: &Embedded, to: &Embedded) -> Vec<f32> {
        self.mean(from.rows, from, to, |from, to, out| {
            self.encoder.head.infer_rows(&self.distance_parameters, from, to, out);
        })
    }

    fn mean(
        &self,
        count: usize,
        from: &Embedded,
        to: &Embedded,
        distance: impl Fn(&[f32], &[f32], &mut [f32]),
    ) -> Vec<f32> {
        let mut total = vec![0.0; count];
        let mut one = vec![0.0; count];
        for (from, to) in from.copies.iter().zip(&to.copies) {
            distance(from, to, &mut one);
            total.iter_mut().zip(&one).for_each(|(total, &d)| *total += d);
        }
        let scale = 1.0 / (from.copies.len() as f32 * self.shape.distance.temperature as f32);
        total.iter_mut().for_each(|d| *d *= scale);
        total
    }

    /// The steps between corresponding states.
    pub fn steps(&self, from: &[f32], to: &[f32]) -> Vec<f32> {
        let nats = self.between(&self.embed(from), &self.embed(to));
        nats.into_iter().map(|d| self.in_steps(d)).collect()
    }

    /// The distance in nats from each (state, action) to the goal of its row.
    pub fn after(&self, states: &[f32], actions: &[f32], goals: &Embedded) -> Vec<f32> {
        let size = self.shape.action_size;
        let start = self.encode(states, |row| {
            self.shape.distance.with_action.then(|| actions[row * size..(row + 1) * size].to_vec())
        });
        let rows = states.len() / self.shape.state_size;
        let starts = Embedded { rows, copies: vec![start; goals.copies.len()] };
        self.between(&starts, goals)
    }

    /// Writes the policy's action for each observation and goal.
    ///
    /// # Errors
    /// The model has no policy.
    pub fn act(&self, observations: &[f32], goals: &[f32], actions: &mut [f32]) -> Result<()> {
        let (policy, numbers) = self.policy.as_ref().ok_or_else(|| {
            Error::input("the model has no policy")
                .hint("train one with `--from RUN --extraction awr`")
        })?;
        let size = self.shape.state_size;
        let mut inputs = vec![0.0; 2 * observations.len()];
        let rows = observations.chunks_exact(size).zip(goals.chunks_exact(size));
        for (input, (state, goal)) in inputs.chunks_exact_mut(2 * size).zip(rows) {
            let (first, second) = input.split_at_mut(size);
            self.shape.normalization.apply(state, first);
            self.shape.normalization.apply(goal, second);
        }
        actions.copy_from_slice(&policy.infer(&self.threads, numbers, &inputs));
        Ok(())
    }

    /// Which of the discrete actions the policy takes for each observation and goal, from 0.
    ///
    /// # Errors
    /// The model has no policy, or one of continuous actions.
    pub fn choose(&self, observations: &[f32], goals: &[f32]) -> Result<Vec<usize>> {
        let size = self.shape.action_size;
        let mut actions = vec![0.0; observations.len() / self.shape.state_size * size];
        self.act(observations, goals, &mut actions)?;
        let one_hot = |row: &[f32]| {
            let place = row.iter().position(|&x| x == 1.0);
            place.filter(|&at| row.iter().enumerate().all(|(other, &x)| other == at || x == 0.0))
        };
        actions.chunks_exact(size).map(one_hot).collect::<Option<_>>().ok_or_else(|| {
            Error::input("the model's actions are continuous").hint("ask for the action itself")
        })
    }

    /// How far each state is from the data, in typical spacings of data states: above 1 is farther
    /// than 99 of 100 data states are from their neighbours, and answers there are guesses.
    pub fn novelty(&self, states: &[f32]) -> Vec<f32> {
        self.reference.novelty(states)
    }

    /// Writes the model to one file.
    ///
    /// # Errors
    /// The disk refuses, or a number is not finite.
    pub fn save(&self, files: &dyn Files, path: &std::path::Path) -> Result<()> {
        let flat =
            |name: &str, numbers: &[f32]| (name.to_owned(), vec![numbers.len()], numbers.to_vec());
        let mut tensors = vec![
            flat("distance", &self.distance_parameters),
            flat("stored_actions", &self.stored_actions),
            flat("reference.states", &self.reference.states),
            flat("reference.shift", &self.reference.scaling.shift),
            flat("reference.scale", &self.reference.scaling.scale),
            flat("reference.spacing", &[self.reference.spacing]),
        ];
        if let Some((_, numbers)) = &self.policy {
            tensors.push(flat("policy", numbers));
        }
        let shape = serde_json::to_string(&self.shape).map_err(|error| {
            Error::input(format!("the model's shape cannot be written: {error}"))
        })?;
        let facts = [("kind".to_owned(), "model".to_owned()), ("shape".to_owned(), shape)];
        save(files, path, &Snapshot { step: 0, tensors, facts: facts.into() })
    }

    /// Reads a model written by [`Model::save`].
    ///
    /// # Errors
    /// The file is damaged, foreign, or not a model.
    pub fn load(files: &dyn Files, path: &std::path::Path) -> Result<Self> {
        let snapshot = load(files, path)?;
        let foreign = |what: &str| {
            Error::input(format!("not a model: {what}"))
                .in_file(path)
                .hint("expected a `model.safetensors` that `isochrone train` wrote")
        };
        let shape = snapshot.facts.get("shape").ok_or_else(|| foreign("no `shape`"))?;
        let shape: ModelShape =
            serde_json::from_str(shape).map_err(|error| foreign(&error.to_string()))?;
        let mut tensors = snapshot.tensors;
        let mut take = |name: &str| {
            let at = tensors.iter().position(|(found, ..)| found == name);
            at.map(|at| tensors.swap_remove(at).2)
        };
        let mut need = |name: &str| take(name).ok_or_else(|| foreign(&format!("no `{name}`")));
        let distance = need("distance")?;
        let actions = need("stored_actions")?;
        let reference = Reference {
            states: need("reference.states")?,
            scaling: Normalization {
                shift: need("reference.shift")?,
                scale: need("reference.scale")?,
            },
            spacing: need("reference.spacing")?.first().copied().unwrap_or(1.0),
        };
        let policy = take("policy");
        shape.check(&distance, &actions, policy.as_deref()).map_err(|what| foreign(&what))?;
        Ok(Self::assemble(shape, distance, actions, policy, reference))
    }
}

impl ModelShape {
    /// Checks that the numbers of a file have the lengths this shape asks for.
    fn check(
        &self,
        distance: &[f32],
        actions: &[f32],
        policy: Option<&[f32]>,
    ) -> std::result::Result<(), String> {
        let sizes = (self.state_size, self.action_size);
        let mut parameters = Parameters::default();
        self.distance.head.check().map_err(|error| error.to_string())?;
        let encoder = Encoder::new(&mut parameters, "distance", &self.distance, sizes);
        let stored = if self.distance.with_action { STORED_ACTIONS * self.action_size } else { 0 };
        let expected = [
            ("distance", distance.len(), parameters.length(encoder.network.arena())),
            ("stored_actions", actions.len(), stored),
            ("normalization", self.normalization.shift.len(), self.state_size),
            ("normalization", self.normalization.scale.len(), self.state_size),
        ];
        for (name, found, expected) in expected {
            if found != expected {
                return Err(format!("`{name}` has {found} numbers, expected {expected}"));
            }
        }
        match (&self.policy, policy) {
            (None, None) => Ok(()),
            (Some(shape), Some(numbers)) => {
                let arena = parameters.arena("policy");
                Policy::new(&mut parameters, arena, shape, sizes);
                let expected = parameters.length(arena);
                (numbers.len() == expected).then_some(()).ok_or_else(|| {
                    format!("`policy` has {} numbers, expected {expected}", numbers.len())
                })
            }
            _ => Err("the policy's shape and numbers do not come together".to_owned()),
        }
    }
}

impl Reference {
    fn of(dataset: &Dataset, seed: u64) -> Self {
        let scaling = Normalization::fit(dataset, Scaling::Standard);
        let stream = Stream::new(seed, REFERENCE_PURPOSE);
        let size = dataset.state_size();
        let row = |step: u64, index: usize| {
            below(stream.block(step, index as u32)[0], dataset.rows() as u32) as usize
        };
        let mut states = vec![0.0; size * REFERENCE_ROWS.min(dataset.rows())];
        for (index, target) in states.chunks_exact_mut(size).enumerate() {
            scaling.apply(dataset.state(row(0, index)), target);
        }
        let mut reference = Self { scaling, states, spacing: 1.0 };
        let probes: Vec<f32> =
            (0..PROBES).flat_map(|index| dataset.state(row(1, index)).iter().copied()).collect();
        let mut distances = reference.novelty(&probes);
        distances.sort_by(f32::total_cmp);
        reference.spacing = distances[PROBES * 99 / 100].max(1e-6);
        reference
    }

    fn novelty(&self, states: &[f32]) -> Vec<f32> {
        let size = self.scaling.shift.len();
        let mut point = vec![0.0; size];
        states
            .chunks_exact(size)
            .map(|state| {
                self.scaling.apply(state, &mut point);
                let squares = self.states.chunks_exact(size).map(|other| {
                    point.iter().zip(other).map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
                });
                squares.fold(f32::INFINITY, f32::min).sqrt() / self.spacing
            })
            .collect()
    }
}
