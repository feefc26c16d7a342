//! d(φ(s, a), ψ(g)) / scale, states by ψ alone: an encoder of starts with their actions, one of
//! states, and a head; of several such critics the largest distance counts.
//!
//! Between states it is max_k d(ψ_k(s), ψ_k(g)): a maximum of quasimetrics is one.

use serde::{Deserialize, Serialize};

use super::{Embedding, Gather, Latents, Measure, Pairs, View, read};
use crate::engine::{ArenaId, Parameters, Program, Scalar, Value};
use crate::nn::{Head, HeadShape, Mlp, Network};
use crate::ops::Extremum;

/// The networks of a paired distance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairedShape {
    /// Both encoders.
    pub network: Network,
    /// The head.
    pub head: HeadShape,
    /// How many critics there are.
    pub critics: usize,
    /// Whether starts have an encoder of their own that sees the action.
    pub with_action: bool,
    /// What the head's output is divided by.
    pub scale: f64,
}

#[derive(Debug, Clone)]
struct Critic {
    start: Option<Mlp>,
    state: Mlp,
    head: Head,
}

/// The encoders and heads of a paired distance.
#[derive(Debug, Clone)]
pub struct Paired {
    arena: ArenaId,
    critics: Vec<Critic>,
    latent: usize,
    scale: f64,
}

impl Paired {
    /// Adds every critic to `arena`.
    pub fn new(
        parameters: &mut Parameters,
        arena: ArenaId,
        shape: &PairedShape,
        (state_size, action_size): (usize, usize),
    ) -> Self {
        let latent = shape.head.latent();
        let critics = (0..shape.critics)
            .map(|_| {
                let mut encoder = |inputs: usize| {
                    Mlp::new(parameters, arena, &shape.network, (inputs, latent), 1.0)
                };
                let start = shape.with_action.then(|| encoder(state_size + action_size));
                let state = encoder(state_size);
                let head = Head::new(parameters, arena, shape.head);
                Critic { start, state, head }
            })
            .collect();
        Self { arena, critics, latent, scale: shape.scale }
    }

    /// The arena of all critics.
    pub fn arena(&self) -> ArenaId {
        self.arena
    }

    /// How many critics there are.
    pub fn critics(&self) -> usize {
        self.critics.len()
    }

    /// Whether starts are encoded with their actions.
    pub fn with_action(&self) -> bool {
        self.critics.iter().all(|critic| critic.start.is_some())
    }

    /// φ_k(state, action), or ψ_k(state) where starts have no encoder of their own.
    pub fn start<T: Scalar>(
        &self,
        program: &mut Program<T>,
        critic: usize,
        state: Value,
        action: Value,
    ) -> Value {
        match &self.critics[critic].start {
            Some(encoder) => encoder.apply(program, &[state, action]),
            None => self.state(program, critic, state),
        }
    }

    /// ψ_k(state).
    pub fn state<T: Scalar>(&self, program: &mut Program<T>, critic: usize, state: Value) -> Value {
        self.critics[critic].state.apply(program, &[state])
    }

    /// d_k of all pairs of rows.
    pub fn pairwise<T: Scalar>(
        &self,
        program: &mut Program<T>,
        critic: usize,
        from: Value,
        to: Value,
    ) -> Value {
        let distance = self.critics[critic].head.pairwise(program, from, to);
        program.weighted_sum(&[(1.0 / self.scale, distance)])
    }

    /// d_k of corresponding rows.
    pub fn between<T: Scalar>(
        &self,
        program: &mut Program<T>,
        critic: usize,
        from: Value,
        to: Value,
    ) -> Value {
        let distance = self.critics[critic].head.between(program, from, to);
        program.weighted_sum(&[(1.0 / self.scale, distance)])
    }

    /// The largest distance of any critic from each start, which `encode` gives, to its goal.
    pub fn largest<T: Scalar>(
        &self,
        program: &mut Program<T>,
        goal: Value,
        encode: impl Fn(&mut Program<T>, usize) -> Value,
    ) -> Value {
        let distances: Vec<Value> = (0..self.critics.len())
            .map(|critic| {
                let from = encode(program, critic);
                let to = self.state(program, critic, goal);
                self.between(program, critic, from, to)
            })
            .collect();
        program.extremum_of(Extremum::Largest, &distances)
    }

    fn latents(&self, view: &View<'_>, network: &Mlp, inputs: &[f32]) -> Latents {
        let numbers = view.infer(network, inputs);
        Latents { width: self.latent, numbers }
    }
}

impl Measure for Paired {
    fn embed(&self, view: &View<'_>, states: &[f32]) -> Vec<Embedding> {
        let critics = self.critics.iter();
        critics
            .map(|critic| Embedding { from: self.latents(view, &critic.state, states), to: None })
            .collect()
    }

    fn start(&self, view: &View<'_>, states: &[f32], actions: &[f32]) -> Vec<Latents> {
        let critics = self.critics.iter();
        critics
            .map(|critic| match &critic.start {
                Some(start) => self.latents(view, start, &view.with(states, Some(actions))),
                None => self.latents(view, &critic.state, states),
            })
            .collect()
    }

    fn measure(
        &self,
        view: &View<'_>,
        copy: usize,
        sides: (&Latents, &Latents),
        pairs: Pairs,
        out: &mut [f32],
    ) {
        read(&self.critics[copy].head, view, sides, pairs, out);
        let scale = 1.0 / self.scale as f32;
        out.iter_mut().for_each(|distance| *distance *= scale);
    }

    fn gather(&self) -> Gather {
        Gather::Largest
    }
}
