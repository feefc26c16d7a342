//! The learners of a comparison, as they are written on the command line and in sheets.

use std::path::Path;

use crate::error::Result;
use crate::run::known_learners;
use crate::run::presets::check_learner;

/// One learner that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LearnerEntry {
    /// A name or the path of a config.
    pub(super) learner: String,
    /// `key=value` settings for this learner only.
    pub(super) settings: Vec<String>,
}

impl LearnerEntry {
    /// Reads `NAME` or `FILE.toml`, either followed by any number of `:KEY=VALUE`.
    fn read(word: &str) -> Self {
        let mut parts = word.split(':').map(|part| part.trim().to_owned());
        Self { learner: parts.next().unwrap_or_default(), settings: parts.collect() }
    }

    /// Whether it names a file.
    pub(super) fn is_file(&self) -> bool {
        self.learner.ends_with(".toml")
    }

    /// Its name in folders and tables: the learner's or the config file's, then its settings.
    pub(super) fn label(&self) -> String {
        let file = self.is_file().then(|| Path::new(&self.learner).file_stem()?.to_str()).flatten();
        let mut label = file.unwrap_or(&self.learner).to_owned();
        for setting in &self.settings {
            let short = setting.strip_prefix("algorithm.").unwrap_or(setting);
            let plain = short.replace(['"', '\'', ' '], "").replace(['/', '\\'], "-");
            label.push_str(&format!("+{plain}"));
        }
        label
    }
}

/// The learners that were asked for, without repetitions, in the order given.
pub(super) fn entries(words: &[String]) -> Result<Vec<LearnerEntry>> {
    let mut found: Vec<LearnerEntry> = Vec::new();
    for word in words {
        let entry = LearnerEntry::read(word);
        match entry.learner.as_str() {
            "all" => found.extend(
                known_learners()
                    .map(|name| LearnerEntry { learner: name.to_owned(), ..entry.clone() }),
            ),
            name => {
                if !entry.is_file() {
                    check_learner(name)?;
                }
                found.push(entry);
            }
        }
    }
    Ok(distinct(&found))
}

/// The items without repetitions, in the order given.
pub(super) fn distinct<T: PartialEq + Clone>(all: &[T]) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for one in all {
        if !found.contains(one) {
            found.push(one.clone());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_means_every_learner() {
        let all = entries(&["all".into()]).unwrap();
        let names: Vec<&str> = all.iter().map(|entry| entry.learner.as_str()).collect();
        let (own, forms) = names.split_at(crate::algorithms::Config::NAMES.len());
        assert_eq!(own, crate::algorithms::Config::NAMES);
        assert_eq!(forms, ["crl-nce", "cmd1-paper", "cmd2-paper"]);
    }
}
