//! Everything about a model but its numbers, and the networks that it describes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::data::Normalization;
use crate::engine::{ArenaId, Parameters};
use crate::error::{Error, Result};
use crate::nn::{Actor, ActorShape, Measure, MeasureShape, check_discount};

/// Actions kept to turn a distance of state-action pairs into one of states.
pub(super) const STORED_ACTIONS: usize = 8;

/// The largest size in a shape: of a state, a layer, a latent vector.
const LARGEST_SIZE: u64 = 1 << 20;

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
            let sizes = (sizes.0, self.normalization.critic_goal_width(), sizes.1);
            (arena, shape.build(parameters, arena, sizes))
        });
        let policy = self.policy.as_ref().map(|shape| {
            let arena = parameters.arena("policy");
            let sizes = (sizes.0, self.normalization.goal_width(), sizes.1);
            (arena, Actor::new(parameters, arena, shape, sizes))
        });
        (distance, policy)
    }

    /// The shape that a file says in JSON, checked as a config is.
    pub(super) fn read(text: &str) -> std::result::Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if let Some(size) = oversized(&value) {
            return Err(format!("a size is `{size}`, expected at most {LARGEST_SIZE}"));
        }
        let mut shape: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        shape.check().map_err(|error| match error {
            Error::Input(complaint) => complaint.what,
            other => other.to_string(),
        })?;
        let features = shape.normalization.features.clone();
        shape.normalization = shape.normalization.with(features);
        Ok(shape)
    }

    /// Checks everything that does not depend on the numbers.
    fn check(&self) -> Result<()> {
        if self.state_size == 0 {
            return Err(Error::input("`state_size` is `0`, expected at least 1"));
        }
        for values in [&self.normalization.shift, &self.normalization.scale] {
            if values.len() != self.state_size {
                let (found, expected) = (values.len(), self.state_size);
                let what = format!("`normalization` has {found} values, expected {expected}");
                return Err(Error::input(what));
            }
        }
        check_discount(self.discount)?;
        self.normalization.features.check(self.state_size)?;
        Normalization::check_policy_goal(&self.normalization.policy_goal, self.state_size)?;
        self.distance.iter().try_for_each(MeasureShape::check)?;
        let whole = self.normalization.critic_goal.is_state();
        if !whole && self.distance.as_ref().is_some_and(MeasureShape::is_quasimetric) {
            return Err(Error::input("`critic_goal` is `policy`, but the distance has a head"));
        }
        self.policy.iter().try_for_each(ActorShape::check)?;
        if self.policy.is_some() && self.action_size == 0 {
            return Err(Error::input("`action_size` is `0`, but there is a policy"));
        }
        Ok(())
    }

    /// Checks that the numbers of a file have the lengths this shape asks for.
    pub(super) fn check_lengths(
        &self,
        distance: Option<&[f32]>,
        actions: &[f32],
        policy: Option<&[f32]>,
    ) -> std::result::Result<(), String> {
        let mut parameters = Parameters::default();
        let (measure, actor) = self.build(&mut parameters);
        let length = |arena: Option<ArenaId>| arena.map_or(0, |arena| parameters.length(arena));
        let stored = if self.stores_actions() { STORED_ACTIONS * self.action_size } else { 0 };
        let count = |numbers: Option<&[f32]>| numbers.map_or(0, <[f32]>::len);
        let expected = [
            ("distance", count(distance), length(measure.map(|(arena, _)| arena))),
            ("policy", count(policy), length(actor.map(|(arena, _)| arena))),
            ("stored_actions", actions.len(), stored),
        ];
        for (name, found, expected) in expected {
            if found != expected {
                return Err(format!("`{name}` has {found} values, expected {expected}"));
            }
        }
        Ok(())
    }
}

/// The first whole number in a shape that is larger than any size.
fn oversized(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().filter(|&size| size > LARGEST_SIZE),
        Value::Array(items) => items.iter().find_map(oversized),
        Value::Object(fields) => fields.values().find_map(oversized),
        _ => None,
    }
}
