//! A comparison: every combination of world, learner, extraction and seed as a run of its own.
//!
//! ```text
//! OUT/sheet.toml                       the sheet of a benchmark, where one was given
//! OUT/WORLD/NAME-EXTRACTION/seed-N/    a run, with these beside its own files:
//!     planner.csv                      success of the final model along the graph planner's waypoints
//!     accuracy.csv                     how right the final model's steps are, in a world with a referee
//!     diverged.toml                    where a number stopped being finite
//! ```
//!
//! What is reported is a function of this folder. A run that is complete is not repeated, one that
//! was stopped goes on, and a folder that holds runs of another config is refused.

mod plan;
mod results;
mod sheet;
mod summary;
mod work;

use std::path::{Path, PathBuf};

use toml::Value;

pub use plan::{Choice, Job, Plan, Request};
pub use results::{Ending, Results, RunResult, measures};
pub use sheet::{OfWorld, Published, Sheet};
pub use summary::{Curve, Pooled, Row};
pub use work::{Failure, Watch};

use super::{RunConfig, list, read_config};
use crate::error::{Error, Result};

/// The runs of worlds at and below `out`, by path.
fn runs(out: &Path) -> Result<Vec<(PathBuf, RunConfig)>> {
    let mut found = Vec::new();
    for listed in list(out)? {
        let config = read_config(&listed.folder)?;
        if config.data.world().is_some() {
            found.push((listed.folder, config));
        }
    }
    Ok(found)
}

/// The extraction of a config by name; none where its learner has no such choice.
fn extraction(config: &RunConfig) -> Result<Option<String>> {
    let value = Value::try_from(config).map_err(|error| Error::input(error.to_string()))?;
    let choice = value.get("algorithm").and_then(|part| part.get("extraction"));
    let name = choice.and_then(|choice| choice.get("name")).and_then(Value::as_str);
    Ok(name.map(str::to_owned))
}

/// Keys that all runs of one world and seed share, whatever their learner.
const SHARED: [&str; 4] = ["data.seed", "data.episodes", "evaluation.tasks", "evaluation.seed"];

/// Checks that seeds of one folder differ in the seeds alone, and that all runs of a world and a seed
/// learned from the same data and were asked the same.
fn agree(runs: &[(PathBuf, RunConfig)]) -> Result<()> {
    for (folder, config) in runs {
        let first =
            |same: &dyn Fn(&(PathBuf, RunConfig)) -> bool| runs.iter().find(|run| same(run));
        let sibling = first(&|(other, _)| other.parent() == folder.parent());
        let neighbour = first(&|(_, other)| {
            (&other.data.source, other.seed) == (&config.data.source, config.seed)
        });
        for (other, is_sibling) in [(sibling, true), (neighbour, false)] {
            let Some((place, other)) = other else { continue };
            let mut keys = other.differences(config)?;
            keys.retain(|key| match is_sibling {
                true => !["seed", "data.seed", "evaluation.seed"].contains(&&**key),
                false => SHARED.contains(&&**key),
            });
            if !keys.is_empty() {
                return Err(Error::input(format!(
                    "the folder holds a run of another config, which differs in `{}`",
                    keys.join("`, `")
                ))
                .in_file(place)
                .hint("choose another folder with `--out`, or repeat the old command"));
            }
        }
    }
    Ok(())
}
