//! From a distance to a policy: by name, the same for every learner with a distance.

mod awr;
mod ddpg_bc;

use serde::{Deserialize, Serialize};

pub use awr::{Awr, Baseline};
pub use ddpg_bc::DdpgBc;

use crate::data::sampler::{Column, GoalMix, Layout, Offsets, Rows, RowsId};
use crate::engine::{Program, Scalar, Value};
use crate::error::{Error, Result, nearest};
use crate::nn::Policy;

/// How a policy is taken from a distance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Extraction {
    /// Advantage-weighted regression.
    Awr(Awr),
    /// Descent of the distance, with behavioural cloning.
    DdpgBc(DdpgBc),
    /// No policy: only the distance is learned.
    None,
}

impl Default for Extraction {
    fn default() -> Self {
        Self::Awr(Awr::default())
    }
}

/// How far a state is from a policy's goal, as a learner declares it.
pub trait Reach<T: Scalar> {
    /// The distance from (state, `action`) to the goal of each row, or none on a state critic.
    fn after(&self, program: &mut Program<T>, action: Value) -> Option<Value>;

    /// The distances from each state and from its successor to the goal, on a state critic.
    fn stepping(&self, program: &mut Program<T>) -> (Value, Value);
}

/// The columns a policy learns from.
#[derive(Debug, Clone, Copy)]
pub struct PolicyColumns {
    /// The state it acts in.
    pub state: Value,
    /// The action recorded there.
    pub action: Value,
    /// The goal it is asked to reach.
    pub goal: Value,
    /// The goal whose recorded action it clones.
    pub own_goal: Value,
}

impl Extraction {
    /// The extractions' names.
    pub const NAMES: [&'static str; 3] = ["awr", "ddpg-bc", "none"];

    /// The extraction called `name`, with its defaults.
    ///
    /// # Errors
    /// No such extraction; the known ones are listed.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "awr" => Ok(Self::Awr(Awr::default())),
            "ddpg-bc" => Ok(Self::DdpgBc(DdpgBc::default())),
            "none" => Ok(Self::None),
            _ => Err(Error::input(format!("unknown extraction `{name}`"))
                .hint(nearest(name, &Self::NAMES))),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Awr(_) => "awr",
            Self::DdpgBc(_) => "ddpg-bc",
            Self::None => "none",
        }
    }

    /// Where the policy's goals come from.
    pub fn goals(&self) -> GoalMix {
        match self {
            Self::Awr(awr) => awr.goals,
            Self::DdpgBc(ddpg) => ddpg.goals,
            Self::None => GoalMix::default(),
        }
    }

    /// Declares the columns of the policy, which has `seen` of a goal.
    pub fn columns<T: Scalar>(
        &self,
        program: &mut Program<T>,
        offsets: Offsets,
        seen: impl Fn(RowsId) -> Column,
    ) -> PolicyColumns {
        let goal = program.rows(Rows::Mixed(self.goals(), offsets));
        let goal = program.column(seen(goal));
        let own_goal = match self {
            Self::DdpgBc(DdpgBc { cloning_goals: ddpg_bc::CloningGoals::Future, .. }) => {
                let future = program.rows(Rows::Future(offsets));
                program.column(seen(future))
            }
            _ => goal,
        };
        PolicyColumns {
            state: program.column(Column::State(Layout::START)),
            action: program.column(Column::Action(Layout::START)),
            goal,
            own_goal,
        }
    }

    /// Declares the policy's loss; none where no policy is learned.
    pub fn declare<T: Scalar>(
        &self,
        program: &mut Program<T>,
        policy: &Policy,
        columns: PolicyColumns,
        reach: &impl Reach<T>,
    ) -> Option<Value> {
        match self {
            Self::Awr(awr) => Some(awr.declare(program, policy, columns, reach)),
            Self::DdpgBc(ddpg) => ddpg.declare(program, policy, columns, reach),
            Self::None => None,
        }
    }

    /// Checks that the choice fits the data and the critic.
    ///
    /// # Errors
    /// A policy without actions, DDPG+BC on a state critic, shares of goals that are no shares.
    pub fn check(&self, action_size: usize, state_critic: bool) -> Result<()> {
        let (key, weight) = match self {
            Self::Awr(awr) => ("inverse_temperature", awr.inverse_temperature),
            Self::DdpgBc(ddpg) => ("cloning_weight", ddpg.cloning_weight),
            Self::None => return Ok(()),
        };
        if action_size == 0 {
            return Err(Error::input("a policy needs actions, the data have none")
                .hint("set `algorithm.extraction.name = \"none\"` to learn the distance alone"));
        }
        if state_critic && matches!(self, Self::DdpgBc(_)) {
            return Err(Error::input(
                "extraction `ddpg-bc` needs a distance from state and action",
            )
            .hint("use `awr`, or a critic of states and actions"));
        }
        if !(weight >= 0.0 && weight.is_finite()) {
            return Err(Error::input(format!(
                "`algorithm.extraction.{key}` is `{weight}`, expected a number, 0 or more"
            ))
            .hint("`isochrone config` prints every key with its default"));
        }
        self.goals().check("algorithm.extraction.goals")
    }
}
