//! What the last check of a run said of its learned steps: `judged.toml`, beside the model.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::JUDGED;
use super::provenance::read_toml;
use crate::checkpoint::write_whole;
use crate::error::{Error, Result};
use crate::evaluate::Judgement;
use crate::model::Model;

/// What a check said of a model's learned steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCheck {
    /// The fingerprint of the distance that was checked.
    distance: String,
    /// Why learned steps should not be read as steps; `None` if nothing speaks against it.
    pub doubt: Option<String>,
}

impl LastCheck {
    /// What a judgement of `model` says; `None` where too little was compared to say that nothing speaks
    /// against its steps.
    pub fn new(model: &Model, judgement: &Judgement<'_>) -> Option<Self> {
        let (settled, doubt) = (judgement.is_settled(), judgement.doubt());
        settled.then(|| Self { distance: model.distance_fingerprint(), doubt })
    }

    /// What is kept beside `model`, which came from a run's folder or a model file at `path`; `None` if
    /// nothing can be read there, or another model was checked.
    pub fn read(path: &Path, model: &Model) -> Option<Self> {
        let folder = if path.is_dir() { path } else { path.parent()? };
        let kept: Option<Self> = read_toml(&folder.join(JUDGED)).ok()?;
        kept.filter(|kept| kept.distance == model.distance_fingerprint())
    }

    /// Keeps it in the folder of the model's run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep(&self, folder: &Path) -> Result<()> {
        let text = toml::to_string(self)
            .map_err(|error| Error::input(format!("the check cannot be written: {error}")))?;
        write_whole(&folder.join(JUDGED), text.as_bytes())
    }
}
