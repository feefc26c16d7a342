//! One file per algorithm, and a closed enum of their configs.
//!
//! An algorithm declares its update once and, when training is over, hands over what it learned.
//! It runs no loop, opens no file and logs nothing.

mod actions;
pub mod atlas;
pub mod c_learning;
mod choices;
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
mod problem;
pub mod qrl;
pub mod tmd;
mod values;

use serde::{Deserialize, Serialize};

use choices::{
    Adjustable, check_critics, counted, extracted, not_negative, numbered, positive, share_between,
    up_to_one,
};
pub use choices::{Critic, GoalAction, Phases};
pub use problem::{Algorithm, Problem};

use crate::engine::{ArenaId, Parameters, Program, Scalar};
use crate::error::{Error, Result};
use crate::extraction::Extraction;
use crate::model::Learned;
use crate::nn::PolicyShape;
use crate::teacher;

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

            /// Reads the choices of the learner called `name`; `None` if there is no such learner.
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

            fn choices_mut(&mut self) -> &mut dyn Adjustable {
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
    Ddpg, "ddpg", ddpg, "Twin critics of −1 per step, hindsight goals.";
    CLearning, "c-learning", c_learning, "A classifier of future states, taught by itself.";
}

impl Learner {
    /// One update over batches of `rows` rows, in single precision.
    pub fn program(
        &self,
        parameters: Parameters,
        rows: usize,
        state_size: usize,
        action_size: usize,
    ) -> Program<f32> {
        let mut program = Program::new(parameters, rows, state_size, action_size);
        self.declare(&mut program);
        program
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::named(Self::DEFAULT).expect("the default is one of the learners")
    }
}

impl Config {
    /// The learner that is used where none is named.
    pub const DEFAULT: &str = "atlas";

    /// The policy extraction of this learner, to read or replace; `None` if it has a fixed one.
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

    /// How the teacher of this learner is made; `None` if it has none.
    pub fn teacher(&self) -> Option<&teacher::Settings> {
        match self {
            Self::Atlas(config) => Some(&config.teacher),
            _ => None,
        }
    }

    /// The same, to change it.
    pub fn teacher_mut(&mut self) -> Option<&mut teacher::Settings> {
        match self {
            Self::Atlas(config) => Some(&mut config.teacher),
            _ => None,
        }
    }

    /// The phases of this learner, to read or replace; `None` if it is all one.
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
        critic_goal: None,
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

    #[test]
    fn a_head_refuses_named_coordinates_of_a_goal_even_where_they_are_all() {
        for name in Config::NAMES {
            let config = Config::named(name).unwrap();
            let of_critic = |critic_goal| {
                config.build(Problem { critic_goal, ..PROBLEM }, &mut Parameters::default()).err()
            };
            assert!(of_critic(None).is_none(), "{name}");
            let has_head = ["atlas", "cmd1", "cmd2", "tmd", "mqe", "qrl"].contains(&name);
            let said = of_critic(Some(5)).map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(said.contains("compares whole states"), has_head, "{name}: {said}");
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn every_learner_runs_on_a_gpu_with_every_extraction() {
        use crate::ops::kernels::{BATCH, STATE, fit, known};
        let mut of_a_part = 0;
        for name in Config::NAMES {
            for (critic_goal, extraction) in
                [(None, None), (None, Some("awr")), (None, Some("ddpg-bc")), (Some(2), None)]
            {
                let mut config = Config::named(name).unwrap();
                if extraction.is_some_and(|extraction| config.set_extraction(extraction).is_err()) {
                    continue;
                }
                let mut parameters = Parameters::default();
                let problem = Problem { critic_goal, ..PROBLEM };
                let learner = match (config.build(problem, &mut parameters), extraction) {
                    (Ok(learner), _) => learner,
                    // A distance of states alone has no gradient by actions, and a head compares
                    // whole states.
                    (Err(_), Some("ddpg-bc")) => continue,
                    (Err(_), _) if critic_goal.is_some() => continue,
                    (Err(error), _) => panic!("{name}: {error}"),
                };
                of_a_part += usize::from(critic_goal.is_some());
                let program = learner.program(parameters, BATCH, STATE, 3);
                fit(&program, &known(&program));
            }
        }
        assert!(of_a_part > 3, "{of_a_part} learners have critics of a part of a goal");
    }
}
