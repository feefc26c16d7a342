//! f(s, a, g) = φ(s, a)ᵀψ(g) / τ, read as the distance f(g, a, g) − f(s, a, g).
//!
//! No quasimetric: it may be negative and may break the triangle inequality. Between states it is
//! the mean over stored actions.

use serde::{Deserialize, Serialize};

use super::{Embedding, Latents, Measure, Pairs, View, for_pairs, shown};
use crate::data::sampler::{Column, RowsId};
use crate::engine::{ArenaId, Parameters, Program, Scalar, Value};
use crate::nn::{Mlp, Network};

/// The networks of a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoredShape {
    /// Both encoders.
    pub network: Network,
    /// Coordinates of both representations.
    pub latent: usize,
    /// Whether the starts' encoder sees an action.
    pub with_action: bool,
    /// τ: inner products are divided by it.
    pub temperature: f64,
}

/// The two encoders of a score.
#[derive(Debug, Clone)]
pub struct Scored {
    start: Mlp,
    goal: Mlp,
    shape: ScoredShape,
    /// Values of a goal that its encoder sees, if not all.
    part: Option<usize>,
}

impl Scored {
    /// Adds the encoder of starts and the encoder of goals to their arenas.
    pub fn new(
        parameters: &mut Parameters,
        (starts, goals): (ArenaId, ArenaId),
        shape: &ScoredShape,
        (state_size, goal_size, action_size): (usize, usize, usize),
    ) -> Self {
        let inputs = state_size + if shape.with_action { action_size } else { 0 };
        let mut encoder = |arena: ArenaId, inputs: usize| {
            Mlp::new(parameters, arena, &shape.network, (inputs, shape.latent), 1.0)
        };
        let start = encoder(starts, inputs);
        let goal = encoder(goals, goal_size);
        let part = (goal_size < state_size).then_some(goal_size);
        Self { start, goal, shape: shape.clone(), part }
    }

    /// What the goals' encoder is shown of `rows`.
    pub fn shown(&self, rows: RowsId) -> Column {
        shown(rows, self.part)
    }

    /// Whether starts are seen with their actions.
    pub fn with_action(&self) -> bool {
        self.shape.with_action
    }

    /// The arenas of starts and goals.
    pub fn arenas(&self) -> [ArenaId; 2] {
        [self.start.arena(), self.goal.arena()]
    }

    /// φ(state, action); `action` is asked for where the encoder sees one.
    pub fn start<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: impl FnOnce(&mut Program<T>) -> Value,
    ) -> Value {
        if self.shape.with_action {
            let action = action(program);
            self.start.apply(program, &[state, action])
        } else {
            self.start.apply(program, &[state])
        }
    }

    /// ψ(goal).
    pub fn goal<T: Scalar>(&self, program: &mut Program<T>, goal: Value) -> Value {
        self.goal.apply(program, &[goal])
    }

    /// f of all pairs of representations.
    pub fn pairwise<T: Scalar>(
        &self,
        program: &mut Program<T>,
        starts: Value,
        goals: Value,
    ) -> Value {
        program.inner_products(starts, goals, self.shape.temperature)
    }

    /// f of corresponding representations.
    pub fn between<T: Scalar>(
        &self,
        program: &mut Program<T>,
        starts: Value,
        goals: Value,
    ) -> Value {
        program.inner_products_by_row(starts, goals, self.shape.temperature)
    }

    fn score(&self, start: &[f32], goal: &[f32]) -> f32 {
        let products = start.iter().zip(goal).map(|(&a, &b)| f64::from(a) * f64::from(b));
        (products.sum::<f64>() / self.shape.temperature) as f32
    }

    fn starts(&self, view: &View<'_>, inputs: &[f32]) -> Latents {
        let numbers = view.infer(&self.start, inputs);
        Latents { width: self.shape.latent, numbers }
    }
}

impl Measure for Scored {
    fn embed(&self, view: &View<'_>, states: &[f32]) -> Vec<Embedding> {
        let width = self.shape.latent;
        let goals = view.infer(&self.goal, &view.shown(states));
        let copy = |action: &[f32]| {
            let from = self.starts(view, &view.beside(states, action));
            let rows = from.rows().zip(goals.chunks_exact(width));
            // A goal carries its own score, f(g, a, g), behind its representation.
            let numbers = rows
                .flat_map(|(start, goal)| {
                    goal.iter().copied().chain(std::iter::once(self.score(start, goal)))
                })
                .collect();
            Embedding { from, to: Some(Latents { width: width + 1, numbers }) }
        };
        view.stored().into_iter().map(copy).collect()
    }

    fn start(&self, view: &View<'_>, states: &[f32], actions: &[f32]) -> Vec<Latents> {
        let inputs = view.with(states, self.shape.with_action.then_some(actions));
        vec![self.starts(view, &inputs); view.stored().len()]
    }

    fn measure(
        &self,
        _view: &View<'_>,
        _copy: usize,
        sides: (&Latents, &Latents),
        pairs: Pairs,
        out: &mut [f32],
    ) {
        for_pairs(sides, pairs, out, |start, goal| {
            let (goal, own) = goal.split_at(self.shape.latent);
            own[0] - self.score(start, goal)
        });
    }
}
