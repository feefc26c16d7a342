//! V(s, g) or Q(s, a, g): networks over start and goal together.
//!
//! A value of −1 per step reads as the distance −ln(1 + (1−γ)v) in nats, v held to
//! (−1/(1−γ), 0]; a classifier's logit f as f(g, a, g) − f(s, a, g). Neither is a quasimetric. State
//! values count by their mean over critics, action values by the least; without state values the
//! distance of two states is the mean over stored actions.

use serde::{Deserialize, Serialize};

use super::{Embedding, Latents, Measure, Pairs, View, shown};
use crate::data::sampler::{Column, RowsId};
use crate::engine::{ArenaId, Parameters, Program, Scalar, Value};
use crate::nn::{Mlp, Network};
use crate::ops::to_sphere;

/// The networks of a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ValuedShape {
    /// Every network.
    pub network: Network,
    /// How many values of states there are.
    pub state_values: usize,
    /// How many values of states with actions there are.
    pub action_values: usize,
    /// Coordinates of a learned representation of the goal; left out, the goal itself is shown.
    pub representation: Option<usize>,
    /// What the numbers mean.
    pub reading: Reading,
}

/// What the number of a value means.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Minus the discounted number of steps to go.
    Steps {
        /// γ.
        discount: f64,
    },
    /// The logit of how much likelier the goal is in the future than at random.
    Logit,
}

/// The networks of a value.
#[derive(Debug, Clone)]
pub struct Valued {
    arena: ArenaId,
    states: Vec<Mlp>,
    actions: Vec<Mlp>,
    representation: Option<(Mlp, usize)>,
    reading: Reading,
    /// Values of a goal that the networks see, if not all.
    part: Option<usize>,
}

impl Valued {
    /// Adds the networks to `arena`.
    pub fn new(
        parameters: &mut Parameters,
        arena: ArenaId,
        shape: &ValuedShape,
        (state_size, goal_size, action_size): (usize, usize, usize),
    ) -> Self {
        let goal = shape.representation.unwrap_or(goal_size);
        let mut network =
            |sizes: (usize, usize)| Mlp::new(parameters, arena, &shape.network, sizes, 1.0);
        let representation =
            shape.representation.map(|size| (network((state_size + goal_size, size)), size));
        let mut critics = |count: usize, inputs: usize| -> Vec<Mlp> {
            (0..count).map(|_| network((inputs, 1))).collect()
        };
        let states = critics(shape.state_values, state_size + goal);
        let actions = critics(shape.action_values, state_size + action_size + goal);
        let part = (goal_size < state_size).then_some(goal_size);
        Self { arena, states, actions, representation, reading: shape.reading, part }
    }

    /// What the networks are shown of `rows` as goals.
    pub fn shown(&self, rows: RowsId) -> Column {
        shown(rows, self.part)
    }

    /// The arena of all networks.
    pub fn arena(&self) -> ArenaId {
        self.arena
    }

    /// Whether it has values of states.
    pub fn has_state_values(&self) -> bool {
        !self.states.is_empty()
    }

    /// The goal as the networks see it from `state`: itself, or its representation.
    pub fn goal<T: Scalar>(&self, program: &mut Program<T>, state: Value, goal: Value) -> Value {
        match &self.representation {
            Some((network, _)) => {
                let raw = network.apply(program, &[state, goal]);
                program.sphere(raw)
            }
            None => goal,
        }
    }

    /// V of each critic; `goal` as [`Valued::goal`] gives it.
    pub fn of_state<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: Value,
    ) -> Vec<Value> {
        self.states.iter().map(|network| network.apply(program, &[state, goal])).collect()
    }

    /// Q of each critic; `goal` as [`Valued::goal`] gives it.
    pub fn of_action<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        action: Value,
        goal: Value,
    ) -> Vec<Value> {
        let networks = self.actions.iter();
        networks.map(|network| network.apply(program, &[state, action, goal])).collect()
    }

    /// The representation of each goal from the state beside it, scaled to the sphere.
    fn represent(&self, view: &View<'_>, states: &[f32], goals: &[f32]) -> Option<Vec<f32>> {
        let (network, size) = self.representation.as_ref()?;
        let goal_size = self.part.unwrap_or(view.state_size);
        let goal_rows = View { action_size: goal_size, ..*view };
        let inputs = goal_rows.with(states, Some(goals));
        let raw = view.infer(network, &inputs);
        let mut rows = vec![0.0; raw.len()];
        for (row, out) in raw.chunks_exact(*size).zip(rows.chunks_exact_mut(*size)) {
            to_sphere(row, out);
        }
        Some(rows)
    }

    /// The values of starts, rows of `width`, at the goals of the same rows.
    fn values(&self, view: &View<'_>, width: usize, starts: &[f32], goals: &[f32]) -> Vec<f32> {
        let by_state = width == view.state_size && !self.states.is_empty();
        let networks = if by_state { &self.states } else { &self.actions };
        let states: Vec<f32> = starts
            .chunks_exact(width)
            .flat_map(|start| start[..view.state_size].iter().copied())
            .collect();
        let goals = view.shown(goals);
        let represented = self.represent(view, &states, &goals);
        let goals = represented.as_deref().unwrap_or(&goals);
        let goal_width = goals.len() / (starts.len() / width);
        let rows = View { state_size: width, action_size: goal_width, ..*view };
        let inputs = rows.with(starts, Some(goals));
        let values: Vec<Vec<f32>> =
            networks.iter().map(|network| view.infer(network, &inputs)).collect();
        (0..values[0].len())
            .map(|row| {
                let each = values.iter().map(|values| values[row]);
                if by_state {
                    each.sum::<f32>() / values.len() as f32
                } else {
                    each.fold(f32::INFINITY, f32::min)
                }
            })
            .collect()
    }

    /// Values in nats.
    fn in_nats(
        &self,
        view: &View<'_>,
        start: &Latents,
        goals: &[f32],
        value: Vec<f32>,
    ) -> Vec<f32> {
        match self.reading {
            Reading::Steps { discount } => {
                let rate = 1.0 - discount as f32;
                // A value at its worst stands for a goal out of reach: a large number, not infinity.
                let left = |v: f32| (1.0 + rate * v.min(0.0)).max(f32::EPSILON);
                value.into_iter().map(|v| 0.0 - left(v).ln()).collect()
            }
            Reading::Logit => {
                let own: Vec<f32> = start
                    .rows()
                    .zip(goals.chunks_exact(view.state_size))
                    .flat_map(|(start, goal)| goal.iter().chain(&start[view.state_size..]))
                    .copied()
                    .collect();
                let own = self.values(view, start.width, &own, goals);
                own.into_iter().zip(value).map(|(own, f)| own - f).collect()
            }
        }
    }
}

impl Measure for Valued {
    fn embed(&self, view: &View<'_>, states: &[f32]) -> Vec<Embedding> {
        let goals = Latents { width: view.state_size, numbers: states.to_vec() };
        if self.has_state_values() {
            return vec![Embedding { from: goals, to: None }];
        }
        let stored = view.stored().into_iter();
        let copy = |action: &[f32]| Embedding {
            from: Latents {
                width: view.state_size + view.action_size,
                numbers: view.beside(states, action),
            },
            to: Some(goals.clone()),
        };
        stored.map(copy).collect()
    }

    fn start(&self, view: &View<'_>, states: &[f32], actions: &[f32]) -> Vec<Latents> {
        let with_action = !self.actions.is_empty();
        let width = view.state_size + if with_action { view.action_size } else { 0 };
        let numbers = view.with(states, with_action.then_some(actions));
        vec![Latents { width, numbers }; view.stored().len()]
    }

    fn measure(
        &self,
        view: &View<'_>,
        _copy: usize,
        (from, to): (&Latents, &Latents),
        pairs: Pairs,
        out: &mut [f32],
    ) {
        match pairs {
            Pairs::ByRow => {
                let value = self.values(view, from.width, &from.numbers, &to.numbers);
                out.copy_from_slice(&self.in_nats(view, from, &to.numbers, value));
            }
            Pairs::All => {
                let goals = to.rows().len();
                for (start, out) in from.rows().zip(out.chunks_exact_mut(goals.max(1))) {
                    let from = Latents { width: from.width, numbers: start.repeat(goals) };
                    self.measure(view, 0, (&from, to), Pairs::ByRow, out);
                }
            }
        }
    }
}
