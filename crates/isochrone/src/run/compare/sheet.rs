//! A sheet: a benchmark's table as a file, with worlds, learners, their settings and published
//! numbers.
//!
//! ```toml
//! title = "Point mazes"
//! about = ["The data are recorded by this program."]
//! worlds = ["pointmaze-medium-navigate"]
//! algorithms = ["qrl", "gcbc"]
//! seeds = 3
//! planner = true
//! one_recording = true
//! [settings]              # for every run, as in a config
//! train.steps = 100000
//! [world.NAME]            # for one world, over these
//! [learner.qrl]           # for one learner, over both
//! algorithm.tolerance = 0.05
//! [world.NAME.learner.qrl] # for one learner in one world, over all
//! [[published]]           # a column beside ours
//! name = "OGBench"
//! source = "Park et al. 2024"
//! protocol = "8 seeds"
//! success.pointmaze-medium-navigate = { qrl = "82 ± 5", gcbc = "9 ± 6" }
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Table;

use crate::checkpoint::write_whole;
use crate::error::{Error, Result};
use crate::plain;
use crate::run::config::overlay;
use crate::run::presets::check_learner;
use crate::simulate::World;

const SHEET: &str = "sheet.toml";

/// The table of a benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// The title of the page.
    pub title: String,
    /// Sentences above the tables: where the data come from, what the budget was.
    #[serde(default)]
    pub about: Vec<String>,
    /// The worlds.
    pub worlds: Vec<String>,
    /// The learners.
    pub algorithms: Vec<String>,
    /// Seeds per combination.
    pub seeds: u64,
    /// Whether final models are also evaluated with the graph planner.
    #[serde(default)]
    pub planner: bool,
    /// Whether all seeds learn from one recording, as from the file of a benchmark.
    #[serde(default)]
    pub one_recording: bool,
    /// Settings for every run, as in a config.
    #[serde(default)]
    pub settings: Table,
    /// Settings for one world.
    #[serde(default)]
    pub world: BTreeMap<String, OfWorld>,
    /// Settings for one learner.
    #[serde(default)]
    pub learner: BTreeMap<String, Table>,
    /// Published numbers.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// Settings for one world: for all its runs and for single learners.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OfWorld {
    /// For every run, as in a config.
    #[serde(flatten)]
    pub settings: Table,
    /// For one learner.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub learner: BTreeMap<String, Table>,
}

/// Numbers that others have published, as printed there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The title of the column.
    pub name: String,
    /// Where it was published.
    pub source: String,
    /// How it was measured.
    pub protocol: String,
    /// Whether it is the best evaluation of each run, not those at its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub best: bool,
    /// By world and learner.
    pub success: BTreeMap<String, BTreeMap<String, String>>,
}

impl Sheet {
    /// Reads the sheet at `path`.
    ///
    /// # Errors
    /// A file that cannot be read, or unknown names.
    pub fn read(path: &Path) -> Result<Self> {
        let text = plain::read_text(path).map_err(|error| {
            Error::input(format!("cannot read the sheet: {error}"))
                .in_file(path)
                .hint("name a file such as `configs/pointmaze.toml`")
        })?;
        Self::parse(&text).map_err(|error| error.in_file(path))
    }

    /// Reads a sheet from its text.
    ///
    /// # Errors
    /// As [`Sheet::read`].
    pub fn parse(text: &str) -> Result<Self> {
        let sheet: Self = toml::from_str(text).map_err(|error| {
            let message: Vec<&str> = error.message().split_whitespace().collect();
            Error::input(format!("not a sheet: {}", message.join(" ")))
                .hint("worlds, algorithms and seeds are named in `configs/pointmaze.toml`")
        })?;
        let published = sheet.published.iter().flat_map(|column| &column.success);
        let learners = published.clone().flat_map(|(_, cells)| cells.keys());
        let worlds = published.map(|(world, _)| world);
        for world in sheet.worlds.iter().chain(sheet.world.keys()).chain(worlds) {
            world.parse::<World>()?;
        }
        let in_worlds = sheet.world.values().flat_map(|world| world.learner.keys());
        let named = sheet.algorithms.iter().chain(sheet.learner.keys()).chain(in_worlds);
        for name in named.chain(learners) {
            check_learner(name)?;
        }
        Ok(sheet)
    }

    /// Keeps the sheet in the folder of a comparison.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn keep(&self, out: &Path) -> Result<()> {
        let text = toml::to_string(self)
            .map_err(|error| Error::input(format!("the sheet cannot be written: {error}")))?;
        write_whole(&out.join(SHEET), text.as_bytes())
    }

    /// The sheet in the folder of a comparison; `None` if the comparison has none.
    ///
    /// # Errors
    /// As [`Sheet::read`].
    pub fn kept(out: &Path) -> Result<Option<Self>> {
        let path = out.join(SHEET);
        path.exists().then(|| Self::read(&path)).transpose()
    }

    /// The settings of a learner in a world, as the text of a config.
    ///
    /// # Errors
    /// A number that TOML cannot hold.
    pub fn config(&self, world: World, learner: &str) -> Result<String> {
        let mut settings = self.settings.clone();
        let here = self.world.get(world.name());
        let given = [
            here.map(|here| &here.settings),
            self.learner.get(learner),
            here.and_then(|here| here.learner.get(learner)),
        ];
        for given in given.into_iter().flatten() {
            overlay(&mut settings, given.clone());
        }
        toml::to_string(&settings)
            .map_err(|error| Error::input(format!("the settings cannot be written: {error}")))
    }
}

impl Published {
    /// The published number for a learner in a world.
    pub fn cell(&self, world: World, learner: &str) -> Option<&str> {
        self.success.get(world.name())?.get(learner).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHEET: &str = "
        title = 'Mazes'
        worlds = ['pointmaze-medium-navigate', 'pointmaze-giant-navigate']
        algorithms = ['qrl', 'gcbc']
        seeds = 3
        [settings]
        train = { steps = 100, batch_size = 64 }
        algorithm.policy.network.hidden = [8]
        [world.pointmaze-giant-navigate]
        train.steps = 200
        [world.pointmaze-giant-navigate.learner.qrl]
        algorithm.extraction.cloning_weight = 0.25
        [learner.qrl]
        train.batch_size = 32
        algorithm.extraction = { name = 'ddpg-bc', cloning_weight = 0.5 }
        [[published]]
        name = 'a'
        source = 'b'
        protocol = 'c'
        success.pointmaze-medium-navigate = { qrl = '82 ± 5' }";

    #[test]
    fn settings_for_a_learner_override_those_for_its_world_and_those_for_both_override_all() {
        let sheet = Sheet::parse(SHEET).unwrap();
        let worlds: Vec<World> = sheet.worlds.iter().map(|name| name.parse().unwrap()).collect();
        let settings = |world, name: &str| sheet.config(world, name).unwrap().parse::<Table>();
        let giant = settings(worlds[1], "qrl").unwrap();
        assert_eq!(giant["train"]["steps"].as_integer(), Some(200));
        assert_eq!(giant["train"]["batch_size"].as_integer(), Some(32));
        assert_eq!(giant["algorithm"]["extraction"]["cloning_weight"].as_float(), Some(0.25));
        assert_eq!(giant["algorithm"]["extraction"]["name"].as_str(), Some("ddpg-bc"));
        assert!(giant.get("learner").is_none());
        let medium = settings(worlds[0], "qrl").unwrap();
        assert_eq!(medium["algorithm"]["extraction"]["cloning_weight"].as_float(), Some(0.5));
        let medium = settings(worlds[0], "gcbc").unwrap();
        assert_eq!(medium["train"]["steps"].as_integer(), Some(100));
        assert_eq!(medium["train"]["batch_size"].as_integer(), Some(64));
        assert!(medium["algorithm"].get("extraction").is_none());
        let published = &sheet.published[0];
        assert_eq!(published.cell(worlds[0], "qrl"), Some("82 ± 5"));
        assert_eq!(
            (published.cell(worlds[1], "qrl"), published.cell(worlds[0], "gcbc")),
            (None, None)
        );
    }

    #[test]
    fn unknown_names_are_refused() {
        for (from, to, wanted) in [
            ("seeds = 3", "sedes = 3", "not a sheet: unknown field `sedes`"),
            ("'gcbc'", "'gcb'", "unknown learner `gcb`"),
            ("[learner.qrl]", "[learner.qlr]", "unknown learner `qlr`"),
            ("navigate.learner.qrl]", "navigate.learner.qlr]", "unknown learner `qlr`"),
            (
                "[world.pointmaze-giant",
                "[world.pointmaze-gigant",
                "unknown world `pointmaze-gigant",
            ),
            ("success.pointmaze-medium", "success.pointmaze-midium", "unknown world"),
        ] {
            let error = Sheet::parse(&SHEET.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
