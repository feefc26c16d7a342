//! What is measured: a learner at one size of networks and data, built as a run builds it.

use std::path::Path;
use std::sync::Arc;

use isochrone::algorithms::{Config, Learner, Problem};
use isochrone::data::sampler::Sampler;
use isochrone::data::{Choices, Dataset, Lessons, Memory, Normalization, Scaling, load, npz};
use isochrone::engine::{Parameters, Program};
use isochrone::random::{Purpose, Stream};
use isochrone::run::RunConfig;
use isochrone::spelling::nearest;
use isochrone::{Error, Result};
use serde::Serialize;

/// Landmarks of a teacher's distances, and the nats beyond which a goal is out of reach.
const LANDMARKS: u32 = 1_000;
const FARTHEST: f64 = 10.0;

/// Sizes of networks and of the world's states and actions.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Hidden layers and their width: `4x512`.
    pub name: &'static str,
    layers: usize,
    width: usize,
    latent: usize,
    state: usize,
    action: usize,
    /// Whether critics have GELU and layer norm and policies GELU, else what is a learner's own.
    norm: bool,
    /// Rows of a batch, where none are asked for.
    batches: &'static [usize],
}

/// The paper's size with the batches of the paper and of its authors' code, OGBench's with its norm, a
/// middle one, and the one the 2-D worlds are learned with.
const SHAPES: [Shape; 4] = [
    Shape {
        name: "4x512",
        layers: 4,
        width: 512,
        latent: 512,
        state: 29,
        action: 8,
        norm: false,
        batches: &[256, 1024],
    },
    Shape {
        name: "3x512",
        layers: 3,
        width: 512,
        latent: 512,
        state: 29,
        action: 8,
        norm: true,
        batches: &[1024],
    },
    Shape {
        name: "3x256",
        layers: 3,
        width: 256,
        latent: 32,
        state: 29,
        action: 8,
        norm: false,
        batches: &[256],
    },
    Shape {
        name: "2x128",
        layers: 2,
        width: 128,
        latent: 32,
        state: 2,
        action: 2,
        norm: false,
        batches: &[256],
    },
];

/// The names of the shapes.
pub const SHAPE_NAMES: [&str; 4] = [SHAPES[0].name, SHAPES[1].name, SHAPES[2].name, SHAPES[3].name];
/// Rows of the random data, where no other number is asked for.
const ROWS: usize = 100_000;
/// Rows of a trajectory.
const LENGTH: usize = 100;
/// Random numbers that are drawn; more are these again.
const DRAWN: usize = 1 << 20;
const DISCOUNT: f64 = 0.99;
/// Updates of a run that none of the measured ones is the last of.
const STEPS: u64 = 1_000_000;

impl Shape {
    /// The shape called `name`.
    ///
    /// # Errors
    /// There is none; the known ones are named.
    pub fn named(name: &str) -> Result<Self> {
        SHAPES.into_iter().find(|shape| shape.name == name).ok_or_else(|| {
            Error::input(format!("unknown shape `{name}`")).hint(nearest(name, &SHAPE_NAMES))
        })
    }

    /// The cases of this shape: one for each of `batches`, or of its own where there are none.
    pub fn cases(&self, learner: &str, batches: &[usize], seeds: usize) -> Vec<Case> {
        let batches = if batches.is_empty() { self.batches } else { batches };
        let case = |&batch: &usize| Case {
            learner: learner.to_owned(),
            shape: self.name.to_owned(),
            state: self.state,
            action: self.action,
            hidden: vec![self.width; self.layers],
            norm: self.norm,
            latent: self.latent,
            batch,
            rows: ROWS,
            seeds,
        };
        batches.iter().map(case).collect()
    }
}

/// The learners asked for, in their order; all where none is named.
///
/// # Errors
/// A name that no learner has; the known ones are named.
pub fn learners(names: &[String]) -> Result<Vec<&'static str>> {
    if names.is_empty() {
        return Ok(Config::NAMES.to_vec());
    }
    let known = |name: &String| {
        Config::NAMES.into_iter().find(|known| known == name).ok_or_else(|| {
            let known: Vec<String> = Config::NAMES.iter().map(|name| format!("`{name}`")).collect();
            Error::input(format!("no algorithm is called `{name}`"))
                .hint(format!("expected some of {}", known.join(", ")))
        })
    };
    names.iter().map(known).collect()
}

/// A learner at one size.
#[derive(Debug, Clone, Serialize)]
pub struct Case {
    pub learner: String,
    /// The name of the shape it began from.
    pub shape: String,
    pub state: usize,
    pub action: usize,
    pub hidden: Vec<usize>,
    /// Whether critics have GELU and layer norm and policies GELU, else what is a learner's own.
    pub norm: bool,
    /// Coordinates of every latent vector, halves of maximum and norm in an MRN.
    pub latent: usize,
    pub batch: usize,
    /// Rows of the data.
    pub rows: usize,
    /// Seeds that are trained at once.
    pub seeds: usize,
}

impl Case {
    /// What stands beside a progress bar.
    pub fn title(&self) -> String {
        format!("{} {} batch {} seeds {}", self.learner, self.shape, self.batch, self.seeds)
    }

    fn problem(&self) -> Problem {
        Problem {
            state_size: self.state,
            goal_size: self.state,
            critic_goal: None,
            action_size: self.action,
            steps: STEPS,
            discount: DISCOUNT,
            radius: None,
            farthest: Some(FARTHEST),
        }
    }

    /// The learner's defaults at these sizes, with DDPG+BC (one set of goals in both policy terms)
    /// where its critic allows it.
    fn config(&self) -> Result<Config> {
        let Self { learner, hidden, latent, .. } = self;
        let gelu = if self.norm { r#", activation = "gelu""# } else { "" };
        let norm = if self.norm { r#", norm = "layer""# } else { "" };
        let mut settings = vec![
            format!("algorithm.name={learner}"),
            format!("algorithm.policy.network={{ hidden = {hidden:?}{gelu} }}"),
        ];
        let own = serde_json::to_value(Config::named(learner)).unwrap_or_default();
        for (key, value) in [
            ("network", format!("algorithm.network={{ hidden = {hidden:?}{gelu}{norm} }}")),
            ("head", format!("algorithm.head.latent={latent}")),
            ("latent", format!("algorithm.latent={latent}")),
        ] {
            if own.get(key).is_some() {
                settings.push(value);
            }
        }
        let own = RunConfig::parse("", &settings)?.algorithm;
        let mut descending = own.clone();
        let fits = descending.set_extraction("ddpg-bc").is_ok()
            && descending.build(self.problem(), &mut Parameters::default()).is_ok();
        Ok(if fits { descending } else { own })
    }
}

/// Random trajectories.
pub struct BenchData {
    dataset: Dataset,
    normalization: Normalization,
}

impl BenchData {
    /// The data of a case.
    ///
    /// # Errors
    /// More memory is needed than there is.
    pub fn new(case: &Case) -> Result<Self> {
        let mut draws = Stream::new(0, Purpose(0)).draws(0, 0);
        let drawn: Vec<f32> = (0..DRAWN).map(|_| draws.between(-1.0, 1.0) as f32).collect();
        let numbers = |width: usize| {
            let mut numbers = Vec::with_capacity(case.rows * width);
            while numbers.len() < case.rows * width {
                let left = (case.rows * width - numbers.len()).min(DRAWN);
                numbers.extend_from_slice(&drawn[..left]);
            }
            numbers
        };
        let mut lengths = vec![LENGTH; case.rows / LENGTH];
        lengths.extend(Some(case.rows % LENGTH).filter(|&rest| rest > 0));
        let actions = Some((numbers(case.action), case.action));
        let dataset = Dataset::new(numbers(case.state), case.state, actions, &lengths)?;
        let normalization = Normalization::fit(&dataset, Scaling::None)?;
        Ok(Self { dataset, normalization })
    }

    /// The same rows in an npz file, read where they lie because no more than `memory` bytes may be
    /// taken.
    ///
    /// # Errors
    /// The file cannot be written or read.
    pub fn moved_to(self, file: &Path, memory: u64) -> Result<Self> {
        npz::write(file, &self.dataset)?;
        drop(self);
        let dataset = load(file, &Choices::default(), Memory(memory))?.dataset;
        let normalization = Normalization::fit(&dataset, Scaling::None)?;
        Ok(Self { dataset, normalization })
    }

    /// Bytes that the data of a case take while they are made.
    pub fn bytes(case: &Case) -> u64 {
        let numbers = case.rows * (case.state + case.action);
        2 * (numbers * size_of::<f32>()) as u64
    }
}

/// A learner that was built for its data, ready for any executor.
pub struct Subject<'d> {
    pub config: Config,
    learner: Learner,
    parameters: Parameters,
    case: &'d Case,
    data: &'d BenchData,
}

impl<'d> Subject<'d> {
    /// Builds the learner of a case.
    ///
    /// # Errors
    /// Sizes that do not fit each other.
    pub fn new(case: &'d Case, data: &'d BenchData) -> Result<Self> {
        let starts = data.dataset.rows() - data.dataset.trajectories();
        if !(2..=starts).contains(&case.batch) {
            return Err(Error::input(format!(
                "`--batch` is `{}`, expected 2 to {starts}",
                case.batch
            ))
            .hint("leave it out to take the shape's own"));
        }
        let config = case.config()?;
        let mut parameters = Parameters::default();
        let learner = config.fitted(&data.dataset)?.build(case.problem(), &mut parameters)?;
        Ok(Self { config, learner, parameters, case, data })
    }

    /// The update.
    pub fn program(&self) -> Program<f32> {
        let Case { batch, state, action, .. } = *self.case;
        self.learner.program(self.parameters.clone(), batch, state, action)
    }

    /// What draws its batches.
    pub fn sampler(&self) -> Sampler<'d> {
        let layout = self.program().layout().clone();
        let sampler = Sampler::new(&self.data.dataset, &self.data.normalization, layout, DISCOUNT);
        sampler.taught(self.config.teacher().map(|_| lessons(self.case.rows)))
    }
}

/// Distances that nobody solved, as quick to look up as solved ones.
fn lessons(rows: usize) -> Lessons {
    let owners = (0..rows as u32).map(|row| row % LANDMARKS).collect();
    let nats = vec![0.5 * FARTHEST as f32; (LANDMARKS * LANDMARKS) as usize];
    Lessons::new(owners, Arc::new((0..LANDMARKS).collect()), Arc::new(nats))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_learner_is_built_at_the_sizes_of_every_shape() {
        for name in SHAPE_NAMES {
            for learner in Config::NAMES {
                let case = &Shape::named(name).unwrap().cases(learner, &[32], 1)[0];
                let config = serde_json::to_value(case.config().unwrap()).unwrap();
                assert_eq!(config["name"], learner);
                let hidden = serde_json::to_value(&case.hidden).unwrap();
                assert_eq!(config["policy"]["network"]["hidden"], hidden, "{learner}");
                // GELU and the norm where the shape has them, else the learner's own.
                let usual = serde_json::to_value(Config::named(learner)).unwrap();
                let of = |network: &serde_json::Value| {
                    let own = (network["activation"].clone(), network["norm"].clone());
                    if case.norm { ("gelu".into(), "layer".into()) } else { own }
                };
                let policy = &config["policy"]["network"];
                assert_eq!(policy["activation"], of(&usual["policy"]["network"]).0, "{learner}");
                if let Some(critic) = config.get("network") {
                    assert_eq!(critic["hidden"], hidden, "{learner}");
                    let found = (critic["activation"].clone(), critic["norm"].clone());
                    assert_eq!(found, of(&usual["network"]), "{learner}");
                }
                for latent in [config.get("latent"), config.pointer("/head/latent")] {
                    assert!(latent.is_none_or(|latent| *latent == case.latent), "{learner}");
                }
                let extraction = config.pointer("/extraction/name").cloned();
                let expected = match learner {
                    "gcbc" | "hiql" => None,
                    "gcivl" => Some("awr".into()),
                    _ => Some("ddpg-bc".into()),
                };
                assert_eq!(extraction, expected, "{learner}");
            }
        }
    }

    #[test]
    fn data_have_the_rows_asked_for_though_they_repeat() {
        let mut case = Shape::named("2x128").unwrap().cases("gcbc", &[32], 1).remove(0);
        case.rows = DRAWN + 150;
        let data = BenchData::new(&case).unwrap();
        assert_eq!(data.dataset.rows(), case.rows);
        assert_eq!(data.dataset.state(0), data.dataset.state(DRAWN / case.state));
    }

    #[test]
    fn rows_in_a_file_stay_there() {
        let case = Shape::named("2x128").unwrap().cases("gcbc", &[32], 1).remove(0);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.npz");
        let data = BenchData::new(&case).unwrap();
        let second = data.dataset.state(1).to_vec();
        let data = data.moved_to(&file, BenchData::bytes(&case) / 16).unwrap();
        assert_eq!(data.dataset.stays_in(), Some(file.as_path()));
        assert_eq!(data.dataset.read_state(1).unwrap(), second);
    }

    #[test]
    fn unknown_learners_and_shapes_are_refused_with_the_known_ones() {
        let text = learners(&["cmd3".into()]).unwrap_err().to_string();
        assert!(Config::NAMES.iter().all(|name| text.contains(&format!("`{name}`"))), "{text}");
        let text = Shape::named("8x8").unwrap_err().to_string();
        assert!(SHAPE_NAMES.iter().any(|name| text.contains(name)), "{text}");
    }
}
