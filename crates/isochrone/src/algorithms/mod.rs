//! One file an algorithm; a closed enum of their configs.
//!
//! An algorithm declares its update once and, when training is over, hands over what it learned.
//! It runs no loop, opens no file and logs nothing.

mod actions;
pub mod atlas;
pub mod c_learning;
pub mod cmd1;
pub mod cmd2;
pub mod crl;
pub mod ddpg;
mod distance;
pub mod gcbc;
pub mod gciql;
pub mod gcivl;
pub mod hiql;
pub mod mqe;
mod paired;
mod policy;
pub mod qrl;
pub mod tmd;
mod values;

use serde::{Deserialize, Serialize};

use crate::data::sampler::{Column, RowsId};
use crate::engine::{ArenaId, Parameters, Program, Scalar, Value, Window};
use crate::error::{Error, Result};
use crate::extraction::Extraction;
use crate::model::Learned;
use crate::nn::PolicyShape;
use crate::teacher;

/// What an algorithm must know of the data and the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Problem {
    /// Numbers of a state.
    pub state_size: usize,
    /// Numbers that a policy sees of a goal.
    pub goal_size: usize,
    /// Numbers of an action; 0 without actions.
    pub action_size: usize,
    /// Updates of the whole run.
    pub steps: u64,
    /// γ.
    pub discount: f64,
    /// How near a goal counts as reached, where a world says so.
    pub radius: Option<f64>,
    /// The nats beyond which a goal is out of reach, where a teacher says so.
    pub farthest: Option<f64>,
}

impl Problem {
    /// Numbers of a state and of an action.
    pub fn sizes(&self) -> (usize, usize) {
        (self.state_size, self.action_size)
    }

    /// What a policy sees of `rows` as goals.
    fn policy_goal(&self, rows: RowsId) -> Column {
        match self.goal_size {
            whole if whole == self.state_size => Column::State(rows),
            part => Column::Goal(rows, part),
        }
    }

    /// The numbers that a policy has for input, and those of an action.
    fn policy_sizes(&self) -> (usize, usize) {
        (self.state_size + self.goal_size, self.action_size)
    }

    /// Refuses data without actions.
    fn need_actions(&self, name: &str) -> Result<()> {
        if self.action_size > 0 {
            return Ok(());
        }
        Err(Error::input(format!("`{name}` needs actions, the data have none"))
            .hint("without actions `cmd1`, `crl`, `qrl`, `mqe` and `gcivl` learn a distance"))
    }
}

/// A learner of a distance and a policy.
pub trait Algorithm {
    /// Declares one update: the inside of the paper's loop, in its order.
    fn declare<T: Scalar>(&self, program: &mut Program<T>);

    /// What was learned, given the numbers of every arena.
    fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned;
}

/// What the critic is a function of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Critic {
    /// State-action pairs where the data have actions, states where they have none.
    #[default]
    Auto,
    /// State-action pairs.
    StateAction,
    /// States alone.
    State,
}

impl Critic {
    /// Whether the encoder sees actions.
    pub fn with_action(self, action_size: usize) -> bool {
        match self {
            Self::Auto => action_size > 0,
            Self::StateAction => true,
            Self::State => false,
        }
    }
}

/// The action that stands beside a goal where the encoder needs one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GoalAction {
    /// The batch's goal actions in a fresh random order: the distance cannot depend on it.
    Permuted,
    /// The batch's goal actions, moved one place.
    Rolled,
    /// The action taken at the goal.
    Taken,
}

impl GoalAction {
    /// Declares the column.
    pub fn column<T: Scalar>(self, program: &mut Program<T>, goal: RowsId) -> Value {
        program.column(match self {
            Self::Permuted => Column::PermutedAction(goal, 0),
            Self::Rolled => Column::RolledAction(goal),
            Self::Taken => Column::Action(goal),
        })
    }
}

/// Which updates train what; a critic and a policy may learn together or one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Phases {
    /// The share of all updates after which critic and distance stand still; 1 never stops them.
    pub critic_until: f64,
    /// The share of all updates after which the policy begins to learn; 0 begins at once.
    pub policy_from: f64,
}

impl Default for Phases {
    fn default() -> Self {
        Self { critic_until: 1.0, policy_from: 0.0 }
    }
}

impl Phases {
    /// The updates of the critic and the distance.
    pub fn critic(&self, steps: u64) -> Window {
        Window { from: 0, until: share(self.critic_until, steps) }
    }

    /// The updates of the policy.
    pub fn policy(&self, steps: u64) -> Window {
        Window { from: share(self.policy_from, steps), until: steps }
    }

    /// Checks that both are shares.
    ///
    /// # Errors
    /// Names the one that is not.
    pub fn check(&self) -> Result<()> {
        for (key, value) in [("critic_until", self.critic_until), ("policy_from", self.policy_from)]
        {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::input(format!(
                    "`algorithm.phases.{key}` is `{value}`, expected a share of the updates, 0 to 1"
                ))
                .hint("0.5 is half of `train.steps`"));
            }
        }
        Ok(())
    }
}

fn share(share: f64, steps: u64) -> u64 {
    (share * steps as f64).round() as u64
}

/// Refuses a number that is not positive and finite.
fn positive(key: &str, value: f64) -> Result<()> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{value}`, expected a positive number"))
        .hint("`isochrone config` prints every key with its default"))
}

/// Refuses a number of things that is none.
fn counted(key: &str, value: usize) -> Result<()> {
    positive(key, value as f64)
}

/// Refuses a number that is not strictly between 0 and 1.
fn share_between(key: &str, value: f64) -> Result<()> {
    if value > 0.0 && value < 1.0 {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{value}`, expected a number between 0 and 1"))
        .hint("`isochrone config` prints every key with its default"))
}

/// Refuses a number outside 0 to 1.
fn up_to_one(key: &str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{value}`, expected a share, 0 to 1"))
        .hint("`isochrone config` prints every key with its default"))
}

/// What a config lets others replace.
trait Choices {
    /// How a policy is taken from the critic, where that can be chosen.
    fn extraction_mut(&mut self) -> Option<&mut Extraction> {
        None
    }

    /// Which updates train what, where critic and policy are two things.
    fn phases_mut(&mut self) -> Option<&mut Phases> {
        None
    }
}

/// A config with `policy`, `extraction`, `policy_optimizer` and `phases`: its policy is taken from the
/// critic by the chosen extraction.
macro_rules! extracted {
    ($config:ty) => {
        impl $config {
            fn policy_choices(&self) -> $crate::algorithms::policy::PolicyChoices<'_> {
                $crate::algorithms::policy::PolicyChoices {
                    shape: &self.policy,
                    extraction: &self.extraction,
                    optimizer: self.policy_optimizer,
                    phases: self.phases,
                }
            }
        }

        impl $crate::algorithms::Choices for $config {
            fn extraction_mut(&mut self) -> Option<&mut $crate::extraction::Extraction> {
                Some(&mut self.extraction)
            }

            fn phases_mut(&mut self) -> Option<&mut $crate::algorithms::Phases> {
                Some(&mut self.phases)
            }
        }
    };
}
use extracted;

/// The one list of learners: variant, name, module, what it is.
macro_rules! learners {
    ($($variant:ident, $name:literal, $module:ident, $about:literal;)*) => {
        /// The learners, by name.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        #[serde(tag = "name")]
        pub enum Config {
            $(
                #[doc = $about]
                #[serde(rename = $name)]
                $variant($module::Config),
            )*
        }

        impl Config {
            /// The learners' names.
            pub const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];

            /// Each learner's name and, in a sentence, what it is.
            pub const ABOUT: [(&'static str, &'static str); [$($name),*].len()] =
                [$(($name, $about)),*];

            /// Each learner's name and the source of its file, whose doc comments explain its keys.
            pub(crate) const SOURCES: [(&'static str, &'static str); [$($name),*].len()] =
                [$(($name, include_str!(concat!(stringify!($module), ".rs")))),*];

            /// The defaults of the learner called `name`.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant($module::Config::default())),)*
                    _ => None,
                }
            }

            /// Reads the choices of the learner called `name`; none where there is no such learner.
            pub fn read<'de, D: serde::Deserializer<'de>>(
                name: &str,
                from: D,
            ) -> Option<std::result::Result<Self, D::Error>> {
                match name {
                    $($name => Some($module::Config::deserialize(from).map(Self::$variant)),)*
                    _ => None,
                }
            }

            /// The name of this learner.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $name,)*
                }
            }

            fn choices_mut(&mut self) -> &mut dyn Choices {
                match self {
                    $(Self::$variant(config) => config,)*
                }
            }

            /// The policy of this learner, to read or replace.
            pub fn policy_mut(&mut self) -> &mut PolicyShape {
                match self {
                    $(Self::$variant(config) => &mut config.policy,)*
                }
            }

            /// Builds the learner: checks its config against the problem and adds its parameters.
            ///
            /// # Errors
            /// Choices that do not fit each other or the data.
            pub fn build(&self, problem: Problem, parameters: &mut Parameters) -> Result<Learner> {
                Ok(match self {
                    $(Self::$variant(config) => Learner::$variant(Box::new(
                        $module::$variant::new(config, problem, parameters)?,
                    )),)*
                })
            }
        }

        $(
            impl From<$module::Config> for Config {
                fn from(config: $module::Config) -> Self {
                    Self::$variant(config)
                }
            }
        )*

        /// A built learner.
        pub enum Learner {
            $(
                #[doc = $about]
                $variant(Box<$module::$variant>),
            )*
        }

        impl Algorithm for Learner {
            fn declare<T: Scalar>(&self, program: &mut Program<T>) {
                match self {
                    $(Self::$variant(learner) => learner.declare(program),)*
                }
            }

            fn learned(&self, numbers: &dyn Fn(ArenaId) -> Vec<f32>) -> Learned {
                match self {
                    $(Self::$variant(learner) => learner.learned(numbers),)*
                }
            }
        }
    };
}

learners! {
    Atlas, "atlas", atlas, "Distances solved in the data's own decision process, drawn as one map.";
    Cmd1, "cmd1", cmd1, "One step: a quasimetric inside a contrastive critic.";
    Cmd2, "cmd2", cmd2, "Two steps: a contrastive critic, distilled into a quasimetric.";
    Mqe, "mqe", mqe, "Multistep quasimetric estimation: backups over waypoints.";
    Tmd, "tmd", tmd, "Temporal metric distillation: a contrastive quasimetric with one-step backups.";
    Qrl, "qrl", qrl, "Quasimetric learning: neighbours one step apart, all else pushed away.";
    Crl, "crl", crl, "A contrastive critic of inner products.";
    Gcbc, "gcbc", gcbc, "Goal-conditioned behavioural cloning; no distance.";
    Gcivl, "gcivl", gcivl, "An expectile of the values of states.";
    Gciql, "gciql", gciql, "An expectile of the values of states and actions.";
    Hiql, "hiql", hiql, "A value and two policies: one names a waypoint, one goes there.";
    Ddpg, "ddpg", ddpg, "Twin critics of −1 a step, hindsight goals.";
    CLearning, "c-learning", c_learning, "A classifier of future states, taught by itself.";
}

impl Default for Config {
    fn default() -> Self {
        Self::named(Self::DEFAULT).expect("the default is one of the learners")
    }
}

impl Config {
    /// The learner that is used where none is named.
    pub const DEFAULT: &str = "cmd1";

    /// The policy extraction of this learner, to read or replace; none where it has a fixed one.
    pub fn extraction_mut(&mut self) -> Option<&mut Extraction> {
        self.choices_mut().extraction_mut()
    }

    /// Chooses the extraction called `name` with its defaults; one that is in place stays as it is.
    ///
    /// # Errors
    /// No such extraction, or a learner whose policy is its own.
    pub fn set_extraction(&mut self, name: &str) -> Result<()> {
        let chosen = Extraction::named(name)?;
        let learner = self.name();
        let Some(extraction) = self.extraction_mut() else {
            return Err(Error::input(format!("`{learner}` learns its policy in its own way"))
                .hint("leave the extraction out"));
        };
        if extraction.name() != name {
            *extraction = chosen;
        }
        Ok(())
    }

    /// How the teacher of this learner is made; none where it has none.
    pub fn teacher(&self) -> Option<&teacher::Settings> {
        match self {
            Self::Atlas(config) => Some(&config.teacher),
            _ => None,
        }
    }

    /// The phases of this learner, to read or replace; none where it is all one.
    pub fn phases_mut(&mut self) -> Option<&mut Phases> {
        self.choices_mut().phases_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBLEM: Problem = Problem {
        state_size: 5,
        goal_size: 2,
        action_size: 3,
        steps: 10,
        discount: 0.9,
        radius: Some(0.1),
        farthest: Some(2.0),
    };

    #[test]
    fn a_share_outside_its_range_is_refused_by_every_learner_that_has_it() {
        for (key, wrong) in
            [("diagonal", [-0.1, 1.5]), ("expectile", [0.0, 1.0]), ("follow_rate", [0.0, 1.0])]
        {
            let mut asked = 0;
            for name in Config::NAMES {
                let mut table = toml::Table::try_from(Config::named(name).unwrap()).unwrap();
                table.remove("name");
                if !table.contains_key(key) {
                    continue;
                }
                asked += 1;
                for value in wrong.into_iter().chain([f64::NAN]) {
                    table.insert(key.to_owned(), value.into());
                    let config = Config::read(name, table.clone()).unwrap().unwrap();
                    let refused = config.build(PROBLEM, &mut Parameters::default());
                    let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
                    assert!(said.contains(&format!("`algorithm.{key}`")), "{name} {value}: {said}");
                }
            }
            assert!(asked > 1, "{key}");
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn every_learner_runs_on_a_gpu_with_every_extraction() {
        use crate::ops::kernels::{BATCH, STATE, fit, known};
        for name in Config::NAMES {
            for extraction in [None, Some("awr"), Some("ddpg-bc")] {
                let mut config = Config::named(name).unwrap();
                if extraction.is_some_and(|extraction| config.set_extraction(extraction).is_err()) {
                    continue;
                }
                let mut parameters = Parameters::default();
                let learner = match (config.build(PROBLEM, &mut parameters), extraction) {
                    (Ok(learner), _) => learner,
                    // A distance of states alone has no gradient by actions.
                    (Err(_), Some("ddpg-bc")) => continue,
                    (Err(error), _) => panic!("{name}: {error}"),
                };
                let mut program = Program::new(parameters, BATCH, STATE, 3);
                learner.declare(&mut program);
                fit(&program, &known(&program));
            }
        }
    }
}
