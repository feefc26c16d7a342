//! The config of a run: TOML in, every default resolved, TOML out; the same text gives the same run.

mod keys;
mod meanings;

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(super) use self::keys::overlay;
use self::keys::{SEE_CONFIG, differ, one_line, read_algorithm, read_part, set, wrong_type};
use crate::algorithms;
use crate::data::{CriticGoal, Dataset, Even, Features, Memory, Scaling};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::nn::check_discount;
use crate::plain;
use crate::plan::{self, Graph};
use crate::simulate::World;
use crate::spelling::{LISTED, nearest};
use crate::train::TrainConfig;

/// Seeds of one command at most: each is a run of its own.
const MOST_SEEDS: u64 = 1_000;
/// Tasks of an evaluation at most: the standard error of a share is then 0.0016.
const MOST_TASKS: u64 = 100_000;
/// The largest seed that TOML can hold.
const LARGEST_SEED: u64 = i64::MAX as u64;

/// Everything that decides a run but the data themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct RunConfig {
    /// Seeds first values, batches and noise.
    pub seed: u64,
    /// γ: how far ahead the distance looks; left out, the world's own, or 0.99 for files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discount: Option<f64>,
    /// A complete run whose distance is taken over as it is, while a new policy is learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Where the data come from.
    pub data: DataConfig,
    /// The loop.
    pub train: TrainConfig,
    /// What is measured while and after training.
    pub evaluation: EvaluationConfig,
    /// The learner.
    pub algorithm: algorithms::Config,
}

/// Where the data come from and how they are prepared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// The name of a world, whose data are generated, or a file.
    pub source: String,
    /// The world that a file was recorded in; policies are evaluated there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_in: Option<World>,
    /// The seed of a world's data.
    pub seed: u64,
    /// Episodes of a world's data; left out, as many as the benchmark has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episodes: Option<u32>,
    /// Whether the actions of a file are continuous or discrete.
    pub actions: ActionKind,
    /// How states are normalized.
    pub scaling: Scaling,
    /// What networks see beside normalized states, or in their place.
    pub features: Features,
    /// Spreads starts and random goals evenly over places; left out, each row is
    /// drawn equally often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub even: Option<Even>,
    /// The coordinates of a goal that policies see, such as `[0, 1]`; left out they see all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policy_goal: Vec<usize>,
    /// What critics see of a goal: its whole `state`, or what the `policy` sees. Distances with a
    /// triangle inequality compare whole states.
    pub critic_goal: CriticGoal,
    /// The share of trajectories held out where no held-out file is named or found; 0 trains on all.
    pub validation: f64,
    /// A file of trajectories to validate on, or `none`; where this is not given and `validation` is
    /// not 0, `a-val.npz` beside `a.npz` is taken, and all of `a.npz` is trained on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out: Option<String>,
    /// The memory that data may take, such as `4 GiB`; left out, half of what the machine has
    /// left. It decides where rows are kept and does not affect results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            source: "pinwheel".into(),
            recorded_in: None,
            seed: 0,
            episodes: None,
            actions: ActionKind::Auto,
            scaling: Scaling::Range,
            features: Features::None,
            even: None,
            policy_goal: Vec::new(),
            critic_goal: CriticGoal::State,
            validation: 0.1,
            held_out: None,
            memory: None,
        }
    }
}

/// Whether the actions of a file are continuous or discrete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActionKind {
    /// Whole numbers are discrete actions, rows of real numbers continuous ones.
    Auto,
    /// Rows of real numbers with one 1 are discrete actions.
    OneHot,
}

impl DataConfig {
    /// What stands for the source of data that a program gave.
    pub const GIVEN: &str = "(given by a program)";

    /// The world, where the source names one or the file is said to come from one.
    pub fn world(&self) -> Option<World> {
        self.source.parse().ok().or(self.recorded_in)
    }
}

/// What is measured while and after training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationConfig {
    /// Start and goal pairs that a policy is asked to connect, in a world.
    pub tasks: usize,
    /// The seed of the pairs and of the world's chance.
    pub seed: u64,
    /// Triples of states on which the triangle inequality is checked.
    pub triples: u64,
    /// The least number of recorded steps to the waypoint that the graph planner gives the policy;
    /// left out, 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waypoint: Option<usize>,
    /// Data states that planners may use; left out, 1500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
}

impl Default for EvaluationConfig {
    fn default() -> Self {
        Self { tasks: 400, seed: 1_000, triples: 1_000_000, waypoint: None, nodes: None }
    }
}

impl RunConfig {
    /// Reads a config from TOML text with `key=value` overrides by dotted path.
    ///
    /// # Errors
    /// Names the key, what was expected and found, and the nearest known key.
    pub fn parse(text: &str, overrides: &[String]) -> Result<Self> {
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            Error::input(format!("not TOML: {}", one_line(error.message())))
                .hint("a line reads `key = value`, a section `[name]`")
        })?;
        for setting in overrides {
            set(&mut table, setting)?;
        }
        Self::from_table(table)
    }

    /// Whether one of the settings `key=value` is of the key `path`, such as `data.source`.
    ///
    /// # Errors
    /// A setting that is not `key=value`.
    pub fn has_setting(settings: &[String], path: &str) -> Result<bool> {
        let table = toml::Value::Table(Self::table(settings)?);
        let inner = |value: Option<toml::Value>, key: &str| value?.get(key).cloned();
        Ok(path.split('.').fold(Some(table), inner).is_some())
    }

    /// The settings `key=value` alone, as a table.
    pub(super) fn table(settings: &[String]) -> Result<Table> {
        let mut table = Table::new();
        settings.iter().try_for_each(|setting| set(&mut table, setting))?;
        Ok(table)
    }

    /// Reads the config file at `path`.
    ///
    /// # Errors
    /// As [`RunConfig::parse`], and where the file cannot be read.
    pub fn read(path: &Path, overrides: &[String]) -> Result<Self> {
        Self::parse(&text_of(path)?, overrides).map_err(|error| error.in_file(path))
    }

    /// As [`RunConfig::read`], of a config that says which data to learn from.
    ///
    /// # Errors
    /// As [`RunConfig::read`]; neither the file nor a setting has `data.source`.
    pub fn read_with_source(path: &Path, overrides: &[String]) -> Result<Self> {
        let config = Self::read(path, overrides)?;
        let has_source =
            |table: &Table| table.get("data").is_some_and(|data| data.get("source").is_some());
        let written = text_of(path)?.parse().is_ok_and(|table| has_source(&table));
        if written || has_source(&Self::table(overrides)?) {
            return Ok(config);
        }
        Err(Error::input("no `data.source`: the config does not say which data to learn from")
            .in_file(path)
            .hint("add `source = \"logs.npz\"`, or the name of a world, to its section `[data]`"))
    }

    fn from_table(mut table: Table) -> Result<Self> {
        const KEYS: [&str; 7] =
            ["seed", "discount", "from", "data", "train", "evaluation", "algorithm"];
        let known = |key: &str| KEYS.contains(&key);
        if let Some(key) = table.keys().find(|key| !known(key)) {
            return Err(Error::input(format!("unknown key `{key}`")).hint(nearest(key, &KEYS)));
        }
        let defaults = Self::default();
        let algorithm = match table.remove("algorithm") {
            Some(Value::Table(algorithm)) => read_algorithm(algorithm)?,
            Some(other) => return Err(wrong_type("algorithm", "a section", &other)),
            None => defaults.algorithm,
        };
        let mut part = |key: &str| table.remove(key);
        let config = Self {
            seed: read_part("seed", part("seed"))?.unwrap_or(defaults.seed),
            discount: read_part("discount", part("discount"))?,
            from: read_part("from", part("from"))?,
            data: read_part("data", part("data"))?.unwrap_or(defaults.data),
            train: read_part("train", part("train"))?.unwrap_or(defaults.train),
            evaluation: read_part("evaluation", part("evaluation"))?.unwrap_or(defaults.evaluation),
            algorithm,
        };
        config.check()?;
        Ok(config)
    }

    /// The whole config as TOML, every default written out.
    ///
    /// # Errors
    /// A number that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self)
            .map_err(|error| Error::input(format!("the config cannot be written: {error}")))
    }

    /// The whole config as TOML, every key with its meaning; keys that are not set are commented out.
    ///
    /// # Errors
    /// A number that TOML cannot hold.
    pub fn explained(&self) -> Result<String> {
        let table = Table::try_from(self)
            .map_err(|error| Error::input(format!("the config cannot be written: {error}")))?;
        let choices = |path: &str| Self::choices(&table, path);
        Ok(meanings::explained(&table, self.algorithm.name(), &choices))
    }

    /// The values that the key `path` takes, as a list, where they are few: what is said of a wrong one.
    fn choices(table: &Table, path: &str) -> Option<String> {
        let mut table = table.clone();
        set(&mut table, &format!("{path}='?'")).ok()?;
        let Err(Error::Input(complaint)) = Self::from_table(table) else { return None };
        let listed = complaint.hint?.strip_prefix(LISTED)?.to_owned();
        (!listed.ends_with('…')).then_some(listed)
    }

    /// The graph planner over `dataset` with the distance of `model`, built and followed as set here.
    ///
    /// # Errors
    /// States of another size than the model's, or a model without a distance.
    pub fn graph<'m>(&self, model: &'m Model, dataset: &Dataset) -> Result<Graph<'m, Model>> {
        model.need_distance()?;
        Graph::new(model, dataset, self.graph_settings())
    }

    /// The coordinates that say where a state is; none if all do.
    pub fn places(&self) -> &[usize] {
        match self.algorithm.teacher() {
            Some(teacher) if !teacher.place.is_empty() => &teacher.place,
            _ => &self.data.policy_goal,
        }
    }

    /// How the graph planner is built and followed.
    pub(super) fn graph_settings(&self) -> plan::GraphSettings {
        let usual = plan::GraphSettings::default();
        let waypoint = self.evaluation.waypoint.unwrap_or(usual.waypoint);
        let nodes = self.evaluation.nodes.unwrap_or(usual.nodes);
        plan::GraphSettings { nodes, waypoint, ..usual }
    }

    /// The seeds of `count` runs, counted up from the config's own.
    ///
    /// # Errors
    /// None or too many, or seeds that a config cannot hold.
    pub fn seeds(&self, count: u64) -> Result<Range<u64>> {
        if !(1..=MOST_SEEDS).contains(&count) {
            return Err(Error::input(format!(
                "`--seeds` is `{count}`, expected 1 to {MOST_SEEDS}"
            ))
            .hint("five give a standard error; leave it out for the default"));
        }
        check_seed("seed", self.seed.saturating_add(count - 1))?;
        Ok(self.seed..self.seed + count)
    }

    /// The config without what decides no result: a run may be resumed with other values of these.
    pub(super) fn identity(&self) -> Self {
        let data = DataConfig { memory: None, ..self.data.clone() };
        Self { data, ..self.clone() }
    }

    /// The part that decides a model, wherever the data lie.
    pub(super) fn of_model(&self) -> Self {
        let TrainConfig { steps, batch_size, shards, .. } = self.train;
        let DataConfig { seed, scaling, validation, .. } = self.data;
        let data = DataConfig {
            seed,
            scaling,
            validation,
            features: self.data.features.clone(),
            even: self.data.even.clone(),
            policy_goal: self.data.policy_goal.clone(),
            critic_goal: self.data.critic_goal,
            ..DataConfig::default()
        };
        let train = TrainConfig { steps, batch_size, shards, ..TrainConfig::default() };
        Self { from: None, data, train, evaluation: EvaluationConfig::default(), ..self.clone() }
    }

    /// The dotted keys in which two configs differ, those that decide a result.
    ///
    /// # Errors
    /// As [`RunConfig::to_toml`].
    pub fn differences(&self, other: &Self) -> Result<Vec<String>> {
        let table = |config: &Self| -> Result<Value> {
            Value::try_from(config).map_err(|error| Error::input(error.to_string()))
        };
        let mut keys = Vec::new();
        differ("", &table(&self.identity())?, &table(&other.identity())?, &mut keys);
        Ok(keys)
    }

    /// Checks the values of keys that a program may have set.
    pub(super) fn check(&self) -> Result<()> {
        let range = |key: &str, value: f64, low: f64, high: f64, expected: &str| {
            if value >= low && value < high {
                return Ok(());
            }
            Err(Error::input(format!("`{key}` is `{value}`, expected {expected}")).hint(SEE_CONFIG))
        };
        if let Some(discount) = self.discount {
            check_discount(discount)?;
        }
        range("data.validation", self.data.validation, 0.0, 1.0, "0 up to, not including, 1")?;
        let counts = [
            ("train.steps", self.train.steps),
            ("train.log_every", self.train.log_every),
            ("train.save_every", self.train.save_every),
            ("train.keep", self.train.keep as u64),
            ("evaluation.tasks", self.evaluation.tasks as u64),
            ("evaluation.triples", self.evaluation.triples),
            ("evaluation.nodes", self.evaluation.nodes.unwrap_or(1) as u64),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, count)| *count == 0) {
            let what = format!("`{key}` is `0`, expected at least 1");
            return Err(Error::input(what).hint(SEE_CONFIG));
        }
        self.train.check_shards(1)?;
        let tasks = self.evaluation.tasks;
        if tasks as u64 > MOST_TASKS {
            let what = format!("`evaluation.tasks` is `{tasks}`, expected 1 to {MOST_TASKS}");
            return Err(Error::input(what).hint(SEE_CONFIG));
        }
        check_seed("seed", self.seed)?;
        check_seed("data.seed", self.data.seed)?;
        check_seed("evaluation.seed", self.evaluation.seed)
    }
}

/// Checks that a config file can hold `seed`.
fn check_seed(key: &str, seed: u64) -> Result<()> {
    if seed <= LARGEST_SEED {
        return Ok(());
    }
    Err(Error::input(format!("`{key}` is `{seed}`, expected 0 to {LARGEST_SEED}"))
        .hint("choose a smaller seed"))
}

/// The text of a config file.
fn text_of(path: &Path) -> Result<String> {
    plain::read_text(path).map_err(|error| {
        Error::input(format!("cannot read the config: {error}"))
            .in_file(path)
            .hint("`isochrone config` prints one to save and change")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str, overrides: &[&str]) -> String {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        RunConfig::parse(text, &overrides).unwrap_err().to_string()
    }

    #[test]
    fn a_resolved_config_read_back_is_the_same_config() {
        for name in algorithms::Config::NAMES {
            let text = format!(
                "discount = 0.9\n[algorithm]\nname = \"{name}\"\npolicy_optimizer.clip = 2.0"
            );
            let config = RunConfig::parse(&text, &["train.steps=77".into()]).unwrap();
            assert_eq!(config.train.steps, 77);
            let written = config.to_toml().unwrap();
            assert_eq!(RunConfig::parse(&written, &[]).unwrap(), config, "{written}");
            assert_eq!(RunConfig::parse(&written, &[]).unwrap().to_toml().unwrap(), written);
        }
    }

    #[test]
    fn mistakes_name_the_key_and_the_nearest_one() {
        let wrong = message("discout = 0.9", &[]);
        assert!(
            wrong.contains("`discout`") && wrong.contains("did you mean `discount`?"),
            "{wrong}"
        );
        let wrong = message("", &["train.stepz=5"]);
        assert!(wrong.contains("`stepz` of `train`") && wrong.contains("`steps`"), "{wrong}");
        let wrong = message("[algorithm]\nname = \"cmd3\"", &[]);
        assert!(wrong.contains("`cmd3`") && wrong.contains("`cmd1`"), "{wrong}");
        let wrong = message("", &["train.steps=many"]);
        assert!(wrong.contains("`train.steps`") && wrong.contains("many"), "{wrong}");
        let wrong = message("", &["algorithm.optimizer.learning_rte=1"]);
        assert!(wrong.contains("learning_rte") && wrong.contains("`learning_rate`"), "{wrong}");
        let wrong = message("", &["algorithm.name=cmd1", "algorithm.variant=symetric"]);
        assert!(wrong.contains("did you mean `symmetric`?"), "{wrong}");
        let wrong = message("", &["algorithm.extraction.name=aw"]);
        assert!(wrong.contains("`awr`"), "{wrong}");
        for bad in
            ["discount=1.0", "discount=0", "discount=nan", "data.validation=1.0", "train.steps=0"]
        {
            let wrong = message("", &[bad]);
            assert!(wrong.contains(bad.split('=').next().unwrap()), "{bad}: {wrong}");
        }
        assert!(!message("a = [", &[]).contains('\n'));
    }

    #[test]
    fn a_file_may_be_said_to_come_from_a_world() {
        let said = ["data.source=a.npz".into(), "data.recorded_in=antmaze-umaze".into()];
        let config = RunConfig::parse("", &said).unwrap();
        assert_eq!(config.data.world().unwrap().name(), "antmaze-umaze");
        assert_eq!(RunConfig::parse(&config.to_toml().unwrap(), &[]).unwrap(), config);
        let wrong = message("", &["data.recorded_in=antmaze-umze"]);
        assert!(wrong.contains("recorded_in") && wrong.contains("antmaze-umaze"), "{wrong}");
    }

    #[test]
    fn differing_keys_are_named() {
        let one = RunConfig::default();
        let other = RunConfig::parse("", &["train.steps=5".into(), "discount=0.5".into()]).unwrap();
        assert_eq!(one.differences(&other).unwrap(), ["train.steps", "discount"]);
    }
}
