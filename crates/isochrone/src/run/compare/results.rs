//! The contents of a comparison's folder: one result per run, read from the run's tables.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::agreement::{agree, extraction, runs};
use crate::algorithms;
use crate::error::{Error, Result};
use crate::evaluate::{Accuracy, LAST, OverTraining};
use crate::ledger;
use crate::run::files::{ACCURACY, DIVERGED, EVALUATION, PLANNER};
use crate::run::provenance::read_toml;
use crate::run::tables::{MOST_TASKS, check_evaluations, evaluation_columns};
use crate::run::{Conditions, RunConfig, folder, update_seconds};
use crate::simulate::World;

/// The state of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// Its last update is done.
    Complete,
    /// A number stopped being finite.
    Diverged(Divergence),
    /// It can be resumed.
    Stopped,
    /// All its updates are done, but its model is damaged or missing; the error says how.
    Damaged(String),
}

/// Where a number stopped being finite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Divergence {
    /// The update.
    pub step: u64,
    /// The metric.
    pub metric: String,
    /// Its value.
    pub value: f64,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` became `{}` at step {}", self.metric, self.value, self.step)
    }
}

impl Ending {
    /// One word, for tables.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Diverged(_) => "diverged",
            Self::Stopped => "stopped",
            Self::Damaged(_) => "damaged",
        }
    }
}

/// The names of the measures, in the order of the rows of a [`RunResult`]: `overall`, `stitched`,
/// `mean_steps`, then `switches_0` and so on, then `task_1`, `task_1_steps` and so on.
pub fn measures() -> Vec<String> {
    let short = |name: &String| name.trim_start_matches("evaluation/").replace("_success", "");
    columns().iter().map(short).collect()
}

/// The columns of all kinds of evaluations, without repetitions.
fn columns() -> Vec<String> {
    let mut columns = evaluation_columns(1);
    let more = evaluation_columns(MOST_TASKS);
    columns.extend(more.into_iter().filter(|name| name.contains("/task_")));
    columns
}

/// The results of one run. What was not measured is NaN.
#[derive(Debug, Clone)]
pub struct RunResult {
    /// Its folder.
    pub folder: PathBuf,
    /// Its world.
    pub world: World,
    /// The learner's name, or that of its config file.
    pub algorithm: String,
    /// How its policy was extracted; none if the learner has no choice of extraction.
    pub extraction: Option<String>,
    /// Its config.
    pub config: RunConfig,
    /// What trained it; none if its folder does not say.
    pub conditions: Option<Conditions>,
    /// Whether it is complete.
    pub ending: Ending,
    /// Seconds of its updates and evaluations, as it recorded them.
    pub seconds: f64,
    /// The final model controlled by its policy, in the order of [`measures`].
    pub policy: Vec<f64>,
    /// The mean of the last three evaluations, in the same order.
    pub last_three: Vec<f64>,
    /// The best overall success of all evaluations.
    pub best: f64,
    /// The overall success of the last evaluations less that of those before, as
    /// [`OverTraining::change`](crate::evaluate::OverTraining::change) has it.
    pub change: f64,
    /// The final model following the graph planner's waypoints.
    pub planner: Vec<f64>,
    /// How accurate the final model's steps are, in the order of [`Accuracy::NAMES`].
    pub accuracy: Vec<f64>,
    /// For every evaluation, its step and the policy's results there.
    pub curve: Vec<(u64, Vec<f64>)>,
}

impl RunResult {
    fn read(folder: PathBuf, config: RunConfig, world: World) -> Result<Self> {
        let extraction = extraction(&config)?;
        // A run that is no part of a comparison has its learner's own name.
        let name_of = |folder: Option<&Path>| Some(folder?.file_name()?.to_str()?.to_owned());
        let is_compared =
            name_of(folder.parent().and_then(Path::parent)).as_deref() == Some(world.name());
        let place = name_of(folder.parent()).filter(|_| is_compared);
        let place = place.as_deref().unwrap_or(config.algorithm.name());
        let suffix = extraction.as_ref().map_or(String::new(), |name| format!("-{name}"));
        let algorithm = place.strip_suffix(&suffix).unwrap_or(place).to_owned();
        let ending = match read_toml(&folder.join(DIVERGED))? {
            _ if folder::is_complete(&config, &folder)? => Ending::Complete,
            Some(divergence) => Ending::Diverged(divergence),
            None => folder::damage(&config, &folder)
                .map_or(Ending::Stopped, |error| Ending::Damaged(error.to_string())),
        };
        let curve = table(&folder.join(EVALUATION))?;
        let steps: Vec<f64> = curve.iter().map(|(step, _)| *step as f64).collect();
        check_evaluations(&config, &folder, &steps)?;
        let blank = || vec![f64::NAN; measures().len()];
        let complete = ending == Ending::Complete;
        let last = |rows: &[(u64, Vec<f64>)]| {
            let end = rows.last().filter(|(step, _)| complete && *step == config.train.steps);
            end.map_or_else(blank, |(_, row)| row.clone())
        };
        let rates: Vec<f64> = curve.iter().map(|(_, row)| row[0]).collect();
        let over = OverTraining::of(&rates).filter(|_| complete);
        Ok(Self {
            policy: last(&curve),
            last_three: over.map_or_else(blank, |_| last_three(&curve)),
            best: over.map_or(f64::NAN, |over| over.best),
            change: over.and_then(|over| over.change).unwrap_or(f64::NAN),
            planner: last(&table(&folder.join(PLANNER))?),
            accuracy: measured_accuracy(&folder.join(ACCURACY), config.train.steps, complete)?,
            seconds: update_seconds(&folder)?,
            conditions: Conditions::read(&folder)?,
            folder,
            world,
            algorithm,
            extraction,
            config,
            ending,
            curve,
        })
    }

    /// The word for the extraction in a table.
    pub fn extraction_word(&self) -> &str {
        self.extraction.as_deref().unwrap_or("own")
    }

    /// World, learner and extraction, which seeds of one combination share.
    pub(super) fn combination(&self) -> (World, &str, Option<&str>) {
        (self.world, &self.algorithm, self.extraction.as_deref())
    }
}

/// The accuracy of a complete run's final model; NaN where it was not measured.
fn measured_accuracy(path: &Path, steps: u64, complete: bool) -> Result<Vec<f64>> {
    let table = if path.exists() && complete { Some(ledger::read(path)?) } else { None };
    let last = table.as_ref().and_then(|table| table.rows.last());
    let last = last.filter(|row| row[0] as u64 == steps);
    let value = |name: &str| {
        let columns = &table.as_ref()?.columns;
        let place = columns.iter().position(|column| *column == format!("accuracy/{name}"))?;
        last.map(|row| row[place])
    };
    Ok(Accuracy::NAMES.iter().map(|name| value(name).unwrap_or(f64::NAN)).collect())
}

/// The rows of an evaluation's table by step; none if there is no such table.
fn table(path: &Path) -> Result<Vec<(u64, Vec<f64>)>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let table = ledger::read(path)?;
    let known = columns();
    if !table.columns[1..].iter().all(|name| known.contains(name)) {
        return Err(Error::input("the columns are not those of an evaluation").in_file(path));
    }
    let places: Vec<Option<usize>> =
        known.iter().map(|name| table.columns.iter().position(|column| column == name)).collect();
    let row = |row: Vec<f64>| {
        let values = places.iter().map(|place| place.map_or(f64::NAN, |place| row[place]));
        (row[0] as u64, values.collect())
    };
    Ok(table.rows.into_iter().map(row).collect())
}

/// The mean of each measure over those of the last three evaluations that have it.
fn last_three(curve: &[(u64, Vec<f64>)]) -> Vec<f64> {
    let last = &curve[curve.len().saturating_sub(LAST)..];
    let mean = |index: usize| {
        let known: Vec<f64> =
            last.iter().map(|(_, row)| row[index]).filter(|value| value.is_finite()).collect();
        known.iter().sum::<f64>() / known.len() as f64
    };
    (0..columns().len()).map(mean).collect()
}

/// All results in a comparison's folder.
#[derive(Debug, Clone)]
pub struct Results {
    /// The runs by world, learner, extraction and seed.
    pub runs: Vec<RunResult>,
}

impl Results {
    /// Reads the runs at and below `out`.
    ///
    /// # Errors
    /// No runs of worlds, tables that cannot be read, or runs that do not belong together.
    pub fn read(out: &Path) -> Result<Self> {
        let found = runs(out)?;
        agree(&found)?;
        let mut runs = Vec::new();
        for (folder, config) in found {
            if let Some(world) = config.data.world() {
                runs.push(RunResult::read(folder, config, world)?);
            }
        }
        if runs.is_empty() {
            return Err(Error::input("no runs to compare")
                .in_file(out)
                .hint("name a folder that `isochrone compare --out` made"));
        }
        let place = |run: &RunResult| {
            let world = World::ALL.iter().position(|world| *world == run.world);
            let names = algorithms::Config::NAMES;
            let learner = names.iter().position(|name| *name == run.config.algorithm.name());
            let (name, extraction) = (run.algorithm.clone(), run.extraction.clone());
            (world, learner, name, extraction, run.config.seed)
        };
        runs.sort_by_cached_key(place);
        Ok(Self { runs })
    }

    /// What trained the runs, with the number of runs for each.
    pub fn conditions(&self) -> BTreeMap<&Conditions, usize> {
        let mut counts = BTreeMap::new();
        for conditions in self.runs.iter().filter_map(|run| run.conditions.as_ref()) {
            *counts.entry(conditions).or_default() += 1;
        }
        counts
    }

    /// One line per run, as CSV, without timings.
    pub fn to_csv(&self) -> String {
        let names = measures();
        let planner: Vec<String> = names.iter().map(|name| format!("planner_{name}")).collect();
        let first = "world,algorithm,extraction,seed,steps,status,last_three,best";
        let accuracy = Accuracy::NAMES.map(|name| format!("accuracy_{name}"));
        let mut text =
            format!("{first},{},{},{}\n", names.join(","), planner.join(","), accuracy.join(","));
        for run in &self.runs {
            text += &format!(
                "{},{},{},{},{},{}",
                run.world,
                run.algorithm,
                run.extraction_word(),
                run.config.seed,
                run.config.train.steps,
                run.ending.word()
            );
            let over = [run.last_three[0], run.best];
            let measured = run.policy.iter().chain(&run.planner).chain(&run.accuracy);
            for value in over.iter().chain(measured) {
                text.push(',');
                text += &field(*value);
            }
            text.push('\n');
        }
        text
    }
}

/// A number in a CSV file; empty if it is not finite.
pub(super) fn field(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}
