//! d(e(s, a), e(g, a')) / τ: one encoder of states, or of states with actions, and a head.
//!
//! Over states alone it is read as the mean over stored actions of d(e(s, a_m), e(g, a_m)): a mean
//! of pulled-back quasimetrics, so the triangle inequality is exact.

use serde::{Deserialize, Serialize};

use super::{Embedding, Latents, Measure, Pairs, View, read};
use crate::engine::{ArenaId, Parameters};
use crate::nn::{Head, HeadShape, Mlp, Network};

/// The networks of an encoded distance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EncodedShape {
    /// The encoder.
    pub network: Network,
    /// The head.
    pub head: HeadShape,
    /// Whether the encoder sees an action beside the state.
    pub with_action: bool,
    /// τ: the head's output is τ times the distance in nats.
    pub temperature: f64,
}

/// An encoder and its head.
#[derive(Debug, Clone)]
pub struct Encoded {
    /// The encoder.
    pub network: Mlp,
    /// The head.
    pub head: Head,
    latent: usize,
    with_action: bool,
    temperature: f64,
}

impl Encoded {
    /// Adds the encoder and its head to `arena`.
    pub fn new(
        parameters: &mut Parameters,
        arena: ArenaId,
        shape: &EncodedShape,
        (state_size, action_size): (usize, usize),
    ) -> Self {
        let inputs = state_size + if shape.with_action { action_size } else { 0 };
        let latent = shape.head.latent();
        let network = Mlp::new(parameters, arena, &shape.network, (inputs, latent), 1.0);
        let head = Head::new(parameters, arena, shape.head);
        let (with_action, temperature) = (shape.with_action, shape.temperature);
        Self { network, head, latent, with_action, temperature }
    }

    fn encode(&self, view: &View<'_>, inputs: &[f32]) -> Vec<f32> {
        view.infer(&self.network, inputs)
    }
}

impl Measure for Encoded {
    fn embed(&self, view: &View<'_>, states: &[f32]) -> Vec<Embedding> {
        let stored = view.stored().into_iter();
        stored
            .map(|action| {
                Embedding::same(self.latent, self.encode(view, &view.beside(states, action)))
            })
            .collect()
    }

    fn start(&self, view: &View<'_>, states: &[f32], actions: &[f32]) -> Vec<Latents> {
        let inputs = view.with(states, self.with_action.then_some(actions));
        let start = Latents { width: self.latent, numbers: self.encode(view, &inputs) };
        vec![start; view.stored().len()]
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
        let scale = 1.0 / self.temperature as f32;
        out.iter_mut().for_each(|distance| *distance *= scale);
    }
}
