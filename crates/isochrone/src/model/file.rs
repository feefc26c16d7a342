//! A model as one file; `docs/formats.md` describes it.

use std::collections::BTreeMap;
use std::path::Path;

use super::Model;
use super::reference::ReferenceStates;
use super::shape::ModelShape;
use crate::checkpoint::{Snapshot, load, save};
use crate::data::Normalization;
use crate::error::{Error, Result};

/// The array of a model's file with the directions of its Fourier features.
const DIRECTIONS: &str = "features.directions";

impl Model {
    /// Writes the model to one file.
    ///
    /// # Errors
    /// Disk I/O failed, or a number is not finite.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_with(path.as_ref(), BTreeMap::new())
    }

    /// A name for the distance: 64 digits that change with any number of it or of what it sees.
    pub(crate) fn distance_fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("{:?}", self.shape).as_bytes());
        let numbers = self.distance.iter().flat_map(|(_, numbers)| numbers);
        for number in self.shape.normalization.directions().iter().chain(numbers) {
            hasher.update(&number.to_le_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Like [`Model::save`], with `facts` about the run it belongs to.
    pub(crate) fn save_with(&self, path: &Path, mut facts: BTreeMap<String, String>) -> Result<()> {
        let flat =
            |name: &str, numbers: &[f32]| (name.to_owned(), vec![numbers.len()], numbers.to_vec());
        let mut tensors = vec![
            flat("stored_actions", &self.stored_actions),
            flat("reference.states", &self.reference.states),
            flat("reference.shift", &self.reference.scaling.shift),
            flat("reference.scale", &self.reference.scaling.scale),
            flat("reference.spacing", &[self.reference.spacing]),
        ];
        let directions = self.shape.normalization.directions();
        if !directions.is_empty() {
            tensors.push(flat(DIRECTIONS, directions));
        }
        let distance = self.distance.as_ref().map(|(_, numbers)| ("distance", numbers));
        let policy = self.policy.as_ref().map(|(_, numbers)| ("policy", numbers));
        tensors
            .extend(distance.into_iter().chain(policy).map(|(name, numbers)| flat(name, numbers)));
        let shape = serde_json::to_string(&self.shape).map_err(|error| {
            Error::input(format!("the model's shape cannot be written: {error}"))
        })?;
        facts.extend([("kind".to_owned(), "model".to_owned()), ("shape".to_owned(), shape)]);
        save(path, &Snapshot { step: 0, tensors, facts })
    }

    /// Reads a model written by [`Model::save`].
    ///
    /// # Errors
    /// The file is damaged, foreign, or not a model.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_with_facts(path.as_ref()).map(|(model, _)| model)
    }

    /// Like [`Model::load`], with everything that the file says of itself.
    pub(crate) fn load_with_facts(path: &Path) -> Result<(Self, BTreeMap<String, String>)> {
        let snapshot = load(path)?;
        let foreign = |what: &str| {
            Error::input(format!("not a model: {what}"))
                .in_file(path)
                .hint("expected a `model.safetensors` that `isochrone train` wrote")
        };
        let shape = snapshot.facts.get("shape").ok_or_else(|| foreign("no `shape`"))?;
        let mut shape = ModelShape::read(shape).map_err(|what| foreign(&what))?;
        let mut tensors = snapshot.tensors;
        let mut take = |name: &str| {
            let at = tensors.iter().position(|(found, ..)| found == name);
            at.map(|at| tensors.swap_remove(at).2)
        };
        let mut need = |name: &str| take(name).ok_or_else(|| foreign(&format!("no `{name}`")));
        let actions = need("stored_actions")?;
        let reference = ReferenceStates {
            states: need("reference.states")?,
            scaling: Normalization::new(need("reference.shift")?, need("reference.scale")?),
            spacing: need("reference.spacing")?.first().copied().unwrap_or(0.0),
        };
        reference.check(shape.state_size).map_err(|what| foreign(&what))?;
        let (distance, policy) = (take("distance"), take("policy"));
        // Older files do not have them; they are always drawn alike.
        if let Some(directions) = take(DIRECTIONS) {
            let normalization = shape.normalization.with_directions(directions);
            shape.normalization = normalization.map_err(|error| foreign(&error.to_string()))?;
        }
        shape
            .check_lengths(distance.as_deref(), &actions, policy.as_deref())
            .map_err(|what| foreign(&what))?;
        let model = Self::assemble(shape, distance, actions, policy, reference);
        model.check_answers().map_err(|what| foreign(&what))?;
        Ok((model, snapshot.facts))
    }

    /// Refuses networks whose numbers overflow between data states.
    fn check_answers(&self) -> std::result::Result<(), String> {
        /// Data states that are tried.
        const TRIED: usize = 64;
        let from = self.reference.recorded(TRIED);
        let mut to = from.clone();
        to.rotate_left(self.shape.state_size);
        for (name, answers) in
            [("distance", self.steps(&from, &to)), ("policy", self.act(&from, &to))]
        {
            if answers.is_ok_and(|values| values.iter().any(|value| value.is_nan())) {
                return Err(format!("`{name}` answers `NaN` between data states"));
            }
        }
        Ok(())
    }
}
