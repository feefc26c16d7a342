//! Everything about a model but its numbers, and the networks that it describes.

use serde::{Deserialize, Serialize};

use crate::data::Normalization;
use crate::engine::{ArenaId, Parameters};
use crate::nn::{Actor, ActorShape, Measure, MeasureShape};

/// Actions kept to turn a distance of state-action pairs into one of states.
pub(super) const STORED_ACTIONS: usize = 8;

/// Everything about a model but its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelShape {
    /// Values per state.
    pub state_size: usize,
    /// Values per action; 0 without actions.
    pub action_size: usize,
    /// γ, which turns nats into steps.
    pub discount: f64,
    /// How states are normalized before a network sees them.
    pub normalization: Normalization,
    /// The distance, where one was learned.
    pub distance: Option<MeasureShape>,
    /// The policy, where one was learned.
    pub policy: Option<ActorShape>,
}

/// A network and its arena, where there is one.
pub(super) type Built<P> = Option<(ArenaId, P)>;

impl ModelShape {
    /// Whether the distance needs stored actions.
    pub(super) fn stores_actions(&self) -> bool {
        self.distance.as_ref().is_some_and(MeasureShape::stores_actions)
    }

    /// The networks of distance and policy with their arenas.
    pub(super) fn build(
        &self,
        parameters: &mut Parameters,
    ) -> (Built<Box<dyn Measure>>, Built<Actor>) {
        let sizes = (self.normalization.width(), self.action_size);
        let distance = self.distance.as_ref().map(|shape| {
            let arena = parameters.arena("distance");
            (arena, shape.build(parameters, arena, sizes))
        });
        let policy = self.policy.as_ref().map(|shape| {
            let arena = parameters.arena("policy");
            let sizes = (sizes.0, self.normalization.goal_width(), sizes.1);
            (arena, Actor::new(parameters, arena, shape, sizes))
        });
        (distance, policy)
    }

    /// Checks that the numbers of a file have the lengths this shape asks for.
    pub(super) fn check(
        &self,
        distance: Option<&[f32]>,
        actions: &[f32],
        policy: Option<&[f32]>,
    ) -> std::result::Result<(), String> {
        self.normalization.features.check(self.state_size).map_err(|error| error.to_string())?;
        Normalization::check_policy_goal(&self.normalization.policy_goal, self.state_size)
            .map_err(|error| error.to_string())?;
        if let Some(shape) = &self.distance {
            shape.check().map_err(|error| error.to_string())?;
        }
        let mut parameters = Parameters::default();
        let (measure, actor) = self.build(&mut parameters);
        let length = |arena: Option<ArenaId>| arena.map_or(0, |arena| parameters.length(arena));
        let stored = if self.stores_actions() { STORED_ACTIONS * self.action_size } else { 0 };
        let count = |numbers: Option<&[f32]>| numbers.map_or(0, <[f32]>::len);
        let expected = [
            ("distance", count(distance), length(measure.map(|(arena, _)| arena))),
            ("policy", count(policy), length(actor.map(|(arena, _)| arena))),
            ("stored_actions", actions.len(), stored),
            ("normalization", self.normalization.shift.len(), self.state_size),
            ("normalization", self.normalization.scale.len(), self.state_size),
        ];
        for (name, found, expected) in expected {
            if found != expected {
                return Err(format!("`{name}` has {found} values, expected {expected}"));
            }
        }
        Ok(())
    }
}
