//! How a learner's choices adapt to the actions in the data.

use super::Config;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::extraction::Extraction;

impl Config {
    /// The same choices, with the policy's law fitted to the actions of `dataset`. Without actions the
    /// learner's default extraction gives way to none: only the distance is learned.
    ///
    /// # Errors
    /// A law or an extraction that does not fit the actions.
    pub fn fitted(&self, dataset: &Dataset) -> Result<Self> {
        let mut config = self.clone();
        let discrete = dataset.choices().is_some();
        if dataset.action_size() == 0 {
            let usual = Self::named(self.name());
            let usual = usual.and_then(|mut usual| usual.extraction_mut().cloned());
            if let Some(extraction) = config.extraction_mut()
                && Some(&*extraction) == usual.as_ref()
            {
                *extraction = Extraction::None;
            }
        }
        if discrete && matches!(config.extraction_mut(), Some(Extraction::DdpgBc(_))) {
            return Err(Error::input(
                "extraction `ddpg-bc` moves actions by small steps, but the data's actions are discrete",
            )
            .hint("set `algorithm.extraction.name = \"awr\"`"));
        }
        let policy = config.policy_mut();
        policy.law = policy.law.fitted(discrete, "algorithm.policy")?;
        Ok(config)
    }
}
