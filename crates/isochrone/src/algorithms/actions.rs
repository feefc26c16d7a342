//! What a learner's choices become once the kind of the data's actions is known.

use super::Config;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::extraction::Extraction;

impl Config {
    /// The same choices with the policy's law fitted to the actions of `dataset`.
    ///
    /// # Errors
    /// A law or an extraction that does not fit the actions.
    pub fn fitted(&self, dataset: &Dataset) -> Result<Self> {
        let mut config = self.clone();
        let discrete = dataset.choices().is_some();
        if discrete && matches!(config.extraction_mut(), Some(Extraction::DdpgBc(_))) {
            return Err(Error::input(
                "extraction `ddpg-bc` moves actions by small steps, the data's actions are discrete",
            )
            .hint("set `algorithm.extraction.name = \"awr\"`"));
        }
        let policy = config.policy_mut();
        policy.law = policy.law.fitted(discrete, "algorithm.policy")?;
        Ok(config)
    }
}
