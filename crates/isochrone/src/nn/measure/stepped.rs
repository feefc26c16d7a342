//! d(z(s), z(g)) in steps, and d(z(s) + m(z(s), a), z(g)) after an action: one encoder, a head, and
//! latent dynamics m whose last layer begins at zero. With a projector p the head sees p(z) instead of z.

use serde::{Deserialize, Serialize};

use super::{Embedding, Latents, Measure, Pairs, View, read};
use crate::engine::{ArenaId, Parameters, Program, Scalar, Value};
use crate::error::{Error, Result};
use crate::nn::{Head, HeadShape, Mlp, Network};
use crate::ops::Term;

/// The networks of a distance with latent dynamics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteppedShape {
    /// The encoder.
    pub network: Network,
    /// The network between latent states and the head; left out, the head sees them as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projector: Option<Projector>,
    /// The head.
    pub head: HeadShape,
    /// The dynamics; `None` if the data have no actions.
    pub dynamics: Option<Network>,
    /// Nats per unit of the head: ln(1/γ) for a head that measures steps, 1 for one that measures nats.
    pub nats: f64,
}

/// A network between latent states and the head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Projector {
    /// Values per latent state, which the dynamics move; the head has a width of its own.
    pub latent: usize,
    /// The network's hidden layers.
    pub network: Network,
}

impl Projector {
    /// Checks that latent states have values.
    ///
    /// # Errors
    /// They have none, or a layer has none.
    pub fn check(&self) -> Result<()> {
        if self.latent == 0 {
            return Err(Error::input("`projector.latent` is `0`, expected a positive number")
                .hint("128 is QRL's published choice"));
        }
        self.network.check("projector.network")
    }
}

/// An encoder with its head and dynamics.
#[derive(Debug, Clone)]
pub struct Stepped {
    arena: ArenaId,
    network: Mlp,
    projector: Option<Mlp>,
    head: Head,
    dynamics: Option<Mlp>,
    latent: usize,
    width: usize,
    nats: f64,
}

impl Stepped {
    /// Adds encoder, head and dynamics to `arena`.
    pub fn new(
        parameters: &mut Parameters,
        arena: ArenaId,
        shape: &SteppedShape,
        (state_size, action_size): (usize, usize),
    ) -> Self {
        let width = shape.head.latent();
        let latent = shape.projector.as_ref().map_or(width, |projector| projector.latent);
        let network = Mlp::new(parameters, arena, &shape.network, (state_size, latent), 1.0);
        let projector = shape
            .projector
            .as_ref()
            .map(|projector| Mlp::new(parameters, arena, &projector.network, (latent, width), 1.0));
        let head = Head::new(parameters, arena, shape.head);
        let dynamics = shape.dynamics.as_ref().map(|dynamics| {
            Mlp::new(parameters, arena, dynamics, (latent + action_size, latent), 0.0)
        });
        Self { arena, network, projector, head, dynamics, latent, width, nats: shape.nats }
    }

    /// The arena of encoder, head and dynamics.
    pub fn arena(&self) -> ArenaId {
        self.arena
    }

    /// z(state).
    pub fn encode<T: Scalar>(&self, program: &mut Program<T>, state: Value) -> Value {
        self.network.apply(program, &[state])
    }

    /// z + m(z, action); none without dynamics.
    pub fn step<T: Scalar>(
        &self,
        program: &mut Program<T>,
        latent: Value,
        action: Value,
    ) -> Option<Value> {
        let dynamics = self.dynamics.as_ref()?;
        let change = dynamics.apply(program, &[latent, action]);
        Some(program.weighted_sum(&[(1.0, latent), (1.0, change)]))
    }

    /// The steps between corresponding latent rows.
    pub fn between<T: Scalar>(&self, program: &mut Program<T>, from: Value, to: Value) -> Value {
        let [from, to] = [from, to].map(|latent| match &self.projector {
            Some(projector) => projector.apply(program, &[latent]),
            None => latent,
        });
        self.head.between(program, from, to)
    }

    /// ½ (m(d(ẑ', z')) + m(d(z', ẑ'))), ẑ' the latent state that `action` is predicted to lead to and z'
    /// the one reached, `next`; none without dynamics.
    pub fn prediction_error<T: Scalar>(
        &self,
        program: &mut Program<T>,
        latent: Value,
        action: Value,
        next: Value,
        mean: impl Fn(&mut Program<T>, Value) -> Value,
    ) -> Option<Value> {
        let predicted = self.step(program, latent, action)?;
        let both = [(predicted, next), (next, predicted)].map(|(from, to)| {
            let distance = self.between(program, from, to);
            Term::new(0.5, mean(program, distance))
        });
        Some(program.combine(&both))
    }

    fn latents(&self, view: &View<'_>, states: &[f32]) -> Vec<f32> {
        self.network.infer(view.threads, view.numbers, states)
    }

    /// Latent states as the head sees them.
    fn projected(&self, view: &View<'_>, latents: Vec<f32>) -> Latents {
        let numbers = match &self.projector {
            Some(projector) => projector.infer(view.threads, view.numbers, &latents),
            None => latents,
        };
        Latents { width: self.width, numbers }
    }
}

impl Measure for Stepped {
    fn embed(&self, view: &View<'_>, states: &[f32]) -> Vec<Embedding> {
        vec![Embedding { from: self.projected(view, self.latents(view, states)), to: None }]
    }

    fn start(&self, view: &View<'_>, states: &[f32], actions: &[f32]) -> Vec<Latents> {
        let mut numbers = self.latents(view, states);
        if let Some(dynamics) = &self.dynamics {
            let latents = View { state_size: self.latent, ..*view };
            let inputs = latents.with(&numbers, Some(actions));
            let change = dynamics.infer(view.threads, view.numbers, &inputs);
            numbers.iter_mut().zip(change).for_each(|(z, change)| *z += change);
        }
        vec![self.projected(view, numbers)]
    }

    fn measure(
        &self,
        view: &View<'_>,
        _copy: usize,
        sides: (&Latents, &Latents),
        pairs: Pairs,
        out: &mut [f32],
    ) {
        read(&self.head, view, sides, pairs, out);
        let nats = self.nats as f32;
        out.iter_mut().for_each(|distance| *distance *= nats);
    }
}
