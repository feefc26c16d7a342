//! The runs in a comparison's folder, and whether they belong to one comparison.

use std::path::{Path, PathBuf};

use toml::Value;

use crate::error::{Error, Result};
use crate::run::{RunConfig, list, read_config};

/// The runs of worlds at and below `out`, by path.
pub(super) fn runs(out: &Path) -> Result<Vec<(PathBuf, RunConfig)>> {
    let mut found = Vec::new();
    for listed in list(out)? {
        let config = read_config(&listed.folder)?;
        if config.data.world().is_some() {
            found.push((listed.folder, config));
        }
    }
    Ok(found)
}

/// The name of a config's extraction; none if its learner has no choice of one.
pub(super) fn extraction(config: &RunConfig) -> Result<Option<String>> {
    let value = Value::try_from(config).map_err(|error| Error::input(error.to_string()))?;
    let choice = value.get("algorithm").and_then(|part| part.get("extraction"));
    let name = choice.and_then(|choice| choice.get("name")).and_then(Value::as_str);
    Ok(name.map(str::to_owned))
}

/// Keys that all runs of one world and seed share, whatever their learner.
const SHARED: [&str; 4] = ["data.seed", "data.episodes", "evaluation.tasks", "evaluation.seed"];

/// Checks that the seeds in one folder differ in nothing but their seeds, and that all runs of one
/// world and seed learn from the same data and are evaluated on the same tasks.
pub(super) fn agree(runs: &[(PathBuf, RunConfig)]) -> Result<()> {
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
                    "the folder contains a run of another config, which differs in `{}`",
                    keys.join("`, `")
                ))
                .in_file(place)
                .hint("choose another folder with `--out`, or repeat the old command"));
            }
        }
    }
    Ok(())
}
