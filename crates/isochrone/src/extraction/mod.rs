//! A policy from a critic, the same way for every learner.
//!
//! A learner brings three things, and the last pass of its update is then a policy's:
//!
//! - its config names an [`Extraction`]: AWR, DDPG+BC or none, beside the policy's network and optimizer;
//! - its critic is a [`Critique`]: it says how far a state, or a state and an action, is from a goal;
//! - its update ends with `PolicyPass::declare` (`algorithms/policy.rs`), which owns the policy's network
//!   ([`Policy`]) and descends the loss that the extraction declares here. Gradients pass through the
//!   critic to the action; only the policy's parameters move.
//!
//! What a critic answers decides what an extraction makes of it; â is the policy's action:
//!
//! | critic | answers | AWR's advantage | DDPG+BC descends |
//! |---|---|---|---|
//! | of states and actions | `after` | d(s, â, g) − d(s, a, g) | d(s, â, g) |
//! | the same, with a value | `after`, `value` | by choice d(s, g) − d(s, a, g) | d(s, â, g) |
//! | of states | `from` | (d(s, g) − d(s', g)) / h | refused |
//! | of states, with a model f of actions | both | (d(s, g) − d(s', g)) / h | d(f(s, â), g) |

mod awr;
mod critique;
mod ddpg_bc;

use serde::{Deserialize, Serialize};

pub use awr::{Awr, Baseline};
pub use critique::{Answers, Critique, Farthest};
pub use ddpg_bc::DdpgBc;

use critique::PolicyColumns;

use crate::data::sampler::{Column, GoalMix, Layout, Offsets, Rows, RowsId};
use crate::engine::{Program, Scalar, Value};
use crate::error::{Error, Result};
use crate::nn::Policy;
use crate::spelling::nearest;

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

    /// Declares the policy's loss; `None` if no policy is learned. Goals lie `offsets` ahead, and the
    /// policy has `seen` of one.
    pub fn declare<T: Scalar>(
        &self,
        program: &mut Program<T>,
        policy: &Policy,
        critique: &impl Critique,
        (offsets, seen): (Offsets, impl Fn(RowsId) -> Column),
    ) -> Option<Value> {
        if *self == Self::None {
            return None;
        }
        let columns = self.columns(program, offsets, seen);
        match self {
            Self::Awr(awr) => awr.declare(program, policy, columns, critique),
            Self::DdpgBc(ddpg) => ddpg.declare(program, policy, columns, critique),
            Self::None => None,
        }
    }

    fn columns<T: Scalar>(
        &self,
        program: &mut Program<T>,
        offsets: Offsets,
        seen: impl Fn(RowsId) -> Column,
    ) -> PolicyColumns {
        let goals = program.rows(Rows::Mixed(self.goals(), offsets));
        let goal = program.column(seen(goals));
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
            goals,
            goal,
            own_goal,
        }
    }

    /// Checks that the choice fits the data and what the critic answers.
    ///
    /// # Errors
    /// A policy without actions, DDPG+BC on a critic that cannot follow them, a baseline that is not
    /// learned, a horizon that the critic has no use for, shares of goals outside 0 to 1.
    pub fn check(&self, action_size: usize, critic: Answers) -> Result<()> {
        let (key, weight) = match self {
            Self::Awr(awr) => ("inverse_temperature", awr.inverse_temperature),
            Self::DdpgBc(ddpg) => ("cloning_weight", ddpg.cloning_weight),
            Self::None => return Ok(()),
        };
        if action_size == 0 {
            return Err(Error::input("a policy needs actions, but the data have none")
                .hint("set `algorithm.extraction.name = \"none\"` to learn only the distance"));
        }
        if !critic.after && matches!(self, Self::DdpgBc(_)) {
            return Err(Error::input(
                "extraction `ddpg-bc` needs a distance from state and action",
            )
            .hint("use `awr`, or a critic of states and actions"));
        }
        if let Self::Awr(awr) = self {
            awr.check(critic)?;
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::engine::Parameters;
    use crate::nn::PolicyShape;

    /// Answers what it is told to and counts the questions.
    #[derive(Default)]
    struct Counting {
        follows_actions: bool,
        knows_states: bool,
        after: Cell<u32>,
        from: Cell<u32>,
    }

    impl Critique for Counting {
        fn after<T: Scalar>(
            &self,
            program: &mut Program<T>,
            _: Value,
            _: Value,
            goal: RowsId,
        ) -> Option<Value> {
            let answer = self.follows_actions.then(|| program.column(Column::Gap(goal)))?;
            self.after.set(self.after.get() + 1);
            Some(answer)
        }

        fn from<T: Scalar>(
            &self,
            program: &mut Program<T>,
            _: Value,
            goal: RowsId,
        ) -> Option<Value> {
            let answer = self.knows_states.then(|| program.column(Column::Gap(goal)))?;
            self.from.set(self.from.get() + 1);
            Some(answer)
        }
    }

    /// The program of an extraction from a critic, and whether there is a loss.
    fn declared(extraction: &Extraction, critic: &Counting) -> (Program<f64>, bool) {
        let mut parameters = Parameters::default();
        let arena = parameters.arena("policy");
        let policy = Policy::new(&mut parameters, arena, &PolicyShape::default(), (4, 2));
        let mut program: Program<f64> = Program::new(parameters, 8, 2, 2);
        let seen = (Offsets::default(), Column::State);
        let loss = extraction.declare(&mut program, &policy, critic, seen);
        (program, loss.is_some())
    }

    /// How often (`after`, `from`) answered, and whether there is a loss.
    fn asked(name: &str, follows_actions: bool, knows_states: bool) -> (u32, u32, bool) {
        let critic = Counting { follows_actions, knows_states, ..Counting::default() };
        let (_, loss) = declared(&Extraction::named(name).unwrap(), &critic);
        (critic.after.get(), critic.from.get(), loss)
    }

    #[test]
    fn an_extraction_asks_each_kind_of_critic_what_the_table_says() {
        for (critic, awr, ddpg_bc) in [
            ((true, false), (2, 0, true), (1, 0, true)),
            ((false, true), (0, 2, true), (0, 0, false)),
            ((true, true), (0, 2, true), (1, 0, true)),
        ] {
            assert_eq!(asked("awr", critic.0, critic.1), awr, "{critic:?}");
            assert_eq!(asked("ddpg-bc", critic.0, critic.1), ddpg_bc, "{critic:?}");
            assert_eq!(asked("none", critic.0, critic.1), (0, 0, false), "{critic:?}");
        }
    }

    #[test]
    fn a_value_that_nothing_learns_is_no_baseline() {
        let awr = Awr { baseline: Baseline::Value, ..Awr::default() };
        let extraction = Extraction::Awr(awr);
        let without = Answers::either(true);
        assert!(extraction.check(2, Answers { value: true, ..without }).is_ok());
        let error = extraction.check(2, without).unwrap_err().to_string();
        assert!(error.contains("`algorithm.extraction.baseline` is `value`"), "{error}");
    }

    #[test]
    fn progress_over_rows_is_asked_only_of_critics_of_states() {
        let over = |horizon: u32| Extraction::Awr(Awr { horizon, ..Awr::default() });
        assert!(over(10).check(2, Answers::either(false)).is_ok());
        assert!(over(1).check(2, Answers::either(true)).is_ok());
        let error = over(10).check(2, Answers::either(true)).unwrap_err().to_string();
        assert!(error.contains("`algorithm.extraction.horizon` is `10`"), "{error}");
        let error = over(0).check(2, Answers::either(false)).unwrap_err().to_string();
        assert!(error.contains("expected 1 or more"), "{error}");
    }

    #[test]
    fn progress_over_rows_ends_at_the_goal() {
        let critic = Counting { knows_states: true, ..Counting::default() };
        let awr = Awr { horizon: 10, ..Awr::default() };
        let (program, loss) = declared(&Extraction::Awr(awr), &critic);
        assert!(loss);
        let layout = program.layout();
        let later = layout.columns().iter().find_map(|column| match column {
            Column::State(rows) => match layout.choice(*rows) {
                Rows::Ahead(10, Some(goal)) => Some(layout.choice(goal)),
                _ => None,
            },
            _ => None,
        });
        assert!(matches!(later, Some(Rows::Mixed(..))), "{later:?}");
    }
}
