//! Policies: from a state and a goal to an action.

use serde::{Deserialize, Serialize};

use super::{Mlp, Network};
use crate::data::sampler::Column;
use crate::engine::{ArenaId, Parameters, Program, Scalar, Threads, Value};
use crate::error::{Error, Result};
use crate::ops::write_one_hot;

/// The shape of a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyShape {
    /// The network from state and goal to the law's numbers.
    pub network: Network,
    /// The law of the action.
    pub law: Law,
    /// The weights of the last layer begin as this share of the usual, so that first actions are small:
    /// 0.01 if left out, 0.1 in OGBench's networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale: Option<f64>,
}

impl Default for PolicyShape {
    fn default() -> Self {
        Self { network: Network::default(), law: Law::Auto, last_scale: None }
    }
}

impl PolicyShape {
    /// Checks the network and the law; `key` is where the policy stands in a config.
    ///
    /// # Errors
    /// Names the key of a layer without width, or of a deviation that is none.
    pub fn check(&self, key: &str) -> Result<()> {
        self.network.check(&format!("{key}.network"))?;
        if let Some(scale) = self.last_scale
            && !(scale > 0.0 && scale.is_finite())
        {
            return Err(Error::input(format!(
                "`{key}.last_scale` is `{scale}`, expected a positive number"
            ))
            .hint("leave it out for 0.01"));
        }
        match self.law {
            Law::Constant { deviation } if !(deviation > 0.0 && deviation.is_finite()) => {
                Err(Error::input(format!(
                    "`{key}.law.deviation` is `{deviation}`, expected a positive number"
                ))
                .hint("the default is 1.0"))
            }
            _ => Ok(()),
        }
    }
}

/// The law of an action given the network's output.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Law {
    /// What fits the data: `categorical` for discrete actions, else `constant` of deviation 1.
    Auto,
    /// A normal law of constant deviation around the output; acts by the output held to [−1, 1].
    Constant {
        /// The deviation in every coordinate.
        deviation: f64,
    },
    /// A squashed normal law whose deviation is learned; acts by the squashed mean.
    Tanh,
    /// One of several actions by its logit, as one-hot columns; acts by the most likely.
    Categorical,
}

/// The law of continuous actions that a config does not name.
const USUAL: Law = Law::Constant { deviation: 1.0 };

impl Law {
    /// This law, or the usual one where it is not named; `key` is where the policy stands in a
    /// config.
    ///
    /// # Errors
    /// A named law of the other kind of actions.
    pub fn fitted(self, discrete: bool, key: &str) -> Result<Self> {
        let (law, data, fitting) = match (self, discrete) {
            (Self::Auto, false) => return Ok(USUAL),
            (Self::Auto, true) => return Ok(Self::Categorical),
            (Self::Categorical, false) => ("categorical", "continuous", "`constant` or `tanh`"),
            (Self::Constant { .. }, true) => ("constant", "discrete", "`categorical`"),
            (Self::Tanh, true) => ("tanh", "discrete", "`categorical`"),
            _ => return Ok(self),
        };
        Err(Error::input(format!(
            "`{key}.law.kind` is `{law}`, the data's actions are {data}, expected {fitting}"
        ))
        .hint("leave the law out to take the one that fits"))
    }
}

/// The mean of a fresh policy is small: its last weights begin a hundredth as wide.
const LAST_SCALE: f64 = 0.01;

/// A policy with its network.
#[derive(Debug, Clone)]
pub struct Policy {
    network: Mlp,
    law: Law,
    action_size: usize,
}

impl Policy {
    /// Adds a policy to `arena`, from a state and a goal (`inputs` values) to an action.
    pub fn new(
        parameters: &mut Parameters,
        arena: ArenaId,
        shape: &PolicyShape,
        (inputs, action_size): (usize, usize),
    ) -> Self {
        let law = if shape.law == Law::Auto { USUAL } else { shape.law };
        let outputs = if law == Law::Tanh { 2 * action_size } else { action_size };
        let last_scale = shape.last_scale.unwrap_or(LAST_SCALE);
        let network = Mlp::new(parameters, arena, &shape.network, (inputs, outputs), last_scale);
        Self { network, law, action_size }
    }

    /// The arena the policy lives in.
    pub fn arena(&self) -> ArenaId {
        self.network.arena()
    }

    /// Declares the numbers of the law for each row.
    pub fn statistics<T: Scalar>(
        &self,
        program: &mut Program<T>,
        state: Value,
        goal: Value,
    ) -> Value {
        self.network.apply(program, &[state, goal])
    }

    /// Declares an action for each row: the mean held to its bounds, or a sample.
    pub fn action<T: Scalar>(&self, program: &mut Program<T>, statistics: Value) -> Value {
        match self.law {
            Law::Constant { .. } | Law::Auto => program.clip(statistics),
            Law::Tanh => {
                let noise = program.column(Column::Noise(self.action_size));
                program.tanh_sample(statistics, noise)
            }
            Law::Categorical => program.most_likely(statistics),
        }
    }

    /// Declares the log-likelihood of each row of `action`.
    pub fn log_likelihood<T: Scalar>(
        &self,
        program: &mut Program<T>,
        statistics: Value,
        action: Value,
    ) -> Value {
        match self.law {
            Law::Constant { deviation } => program.gaussian(statistics, action, deviation),
            Law::Auto => program.gaussian(statistics, action, 1.0),
            Law::Tanh => program.tanh_gaussian(statistics, action),
            Law::Categorical => program.categorical(statistics, action),
        }
    }

    /// The network's output for each row of normalized inputs: the law's numbers, not held to any
    /// bounds.
    pub fn center(&self, threads: &Threads, arena: &[f32], inputs: &[f32]) -> Vec<f32> {
        self.network.infer(threads, arena, inputs)
    }

    /// The most likely action for each row of normalized `inputs` (state, then goal).
    pub fn infer(&self, threads: &Threads, arena: &[f32], inputs: &[f32]) -> Vec<f32> {
        let statistics = self.center(threads, arena, inputs);
        match self.law {
            Law::Constant { .. } | Law::Auto => {
                statistics.iter().map(|x| x.clamp(-1.0, 1.0)).collect()
            }
            Law::Categorical => {
                let mut actions = vec![0.0; statistics.len()];
                write_one_hot(&statistics, self.action_size, &mut actions);
                actions
            }
            Law::Tanh => statistics
                .chunks_exact(2 * self.action_size)
                .flat_map(|row| row[..self.action_size].iter().map(|x| f32::tanh(*x)))
                .collect(),
        }
    }
}
