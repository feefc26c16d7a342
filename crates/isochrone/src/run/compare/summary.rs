//! Summaries over the seeds of each combination, at the end and during training.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::results::field;
use super::{Ending, Results, RunResult, measures};
use crate::error::Result;
use crate::evaluate::{Accuracy, OverSeeds};
use crate::run::RunConfig;
use crate::simulate::World;

/// The seeds of one learner with one extraction in one world.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The world.
    pub world: World,
    /// The learner's name, or that of its config file.
    pub algorithm: String,
    /// How its policy was extracted; `own` if the learner has no choice of extraction.
    pub extraction: String,
    /// Seeds that were started.
    pub seeds: Vec<u64>,
    /// How many are complete; everything below is about these.
    pub complete: usize,
    /// Each measure of [`measures`] by name, if the world has it.
    pub policy: BTreeMap<String, OverSeeds>,
    /// The same for the means of the last three evaluations.
    pub last_three: BTreeMap<String, OverSeeds>,
    /// The best overall success of all evaluations.
    pub best: Option<OverSeeds>,
    /// The overall success of the last evaluations less that of those before, as
    /// [`OverTraining::change`](crate::evaluate::OverTraining::change) has it.
    pub change: Option<OverSeeds>,
    /// The final model following the graph planner's waypoints, if that was measured.
    pub planner: BTreeMap<String, OverSeeds>,
    /// How accurate the final model's steps are: each of [`Accuracy::NAMES`] that was measured.
    pub accuracy: BTreeMap<String, OverSeeds>,
    /// Seconds per run.
    pub seconds: Option<f64>,
    /// Updates per run.
    pub updates: u64,
    /// How many different recordings and sets of start and goal pairs the seeds have.
    pub drawn: [usize; 2],
    /// Where the updates of its runs were made; empty if unknown.
    pub places: BTreeSet<String>,
    /// Rows per batch.
    pub batch_size: usize,
    /// Where the config differs from the learner's defaults, as `key = value`.
    pub departures: Vec<String>,
    /// Seeds that are not complete, and why.
    pub problems: Vec<String>,
}

impl Row {
    /// The overall success of its policies alone, as the protocol of its world counts it.
    pub fn success(&self) -> Option<&OverSeeds> {
        counted(self.world, &self.last_three, &self.policy).get("overall")
    }

    fn of(runs: &[RunResult]) -> Result<Self> {
        let first = &runs[0];
        let complete: Vec<&RunResult> =
            runs.iter().filter(|run| run.ending == Ending::Complete).collect();
        let seconds = complete.iter().map(|run| run.seconds).sum::<f64>() / complete.len() as f64;
        let over = |value: fn(&RunResult) -> f64| {
            let known = complete.iter().map(|run| value(run)).filter(|value| value.is_finite());
            OverSeeds::of(&known.collect::<Vec<f64>>())
        };
        let conditions = runs.iter().filter_map(|run| run.conditions.as_ref());
        Ok(Self {
            world: first.world,
            algorithm: first.algorithm.clone(),
            extraction: first.extraction_word().to_owned(),
            seeds: runs.iter().map(|run| run.config.seed).collect(),
            complete: complete.len(),
            policy: by_name(&complete, measures(), |run| &run.policy),
            last_three: by_name(&complete, measures(), |run| &run.last_three),
            best: over(|run| run.best),
            change: over(|run| run.change),
            planner: by_name(&complete, measures(), |run| &run.planner),
            accuracy: by_name(&complete, Accuracy::NAMES, |run| &run.accuracy),
            seconds: (!complete.is_empty()).then_some(seconds),
            updates: first.config.train.steps,
            drawn: [distinct(runs, |run| run.data.seed), distinct(runs, |run| run.evaluation.seed)],
            places: conditions.flat_map(|known| known.places()).map(str::to_owned).collect(),
            batch_size: first.config.train.batch_size,
            departures: departures(&first.config)?,
            problems: runs.iter().filter_map(problem).collect(),
        })
    }
}

/// What counts: in mazes the last three evaluations, elsewhere the final one.
fn counted<'m, M: ?Sized>(world: World, last_three: &'m M, last: &'m M) -> &'m M {
    match world {
        World::Maze(_) => last_three,
        _ => last,
    }
}

/// How many different seeds the configs of `runs` have.
fn distinct(runs: &[RunResult], seed: impl Fn(&RunConfig) -> u64) -> usize {
    runs.iter().map(|run| seed(&run.config)).collect::<BTreeSet<u64>>().len()
}

/// Each measure summarized over runs.
fn by_name<'r>(
    runs: &[&'r RunResult],
    names: impl IntoIterator<Item = impl Into<String>>,
    values: impl Fn(&'r RunResult) -> &'r [f64],
) -> BTreeMap<String, OverSeeds> {
    let known = |index: usize| -> Vec<f64> {
        runs.iter().map(|run| values(run)[index]).filter(|value| value.is_finite()).collect()
    };
    let names = names.into_iter().map(Into::into).enumerate();
    names.filter_map(|(index, name)| Some((name, OverSeeds::of(&known(index))?))).collect()
}

fn problem(run: &RunResult) -> Option<String> {
    let seed = run.config.seed;
    match &run.ending {
        Ending::Complete => None,
        Ending::Diverged(divergence) => Some(format!("seed {seed} diverged: {divergence}")),
        Ending::Stopped => {
            Some(format!("seed {seed} is not complete; the same command resumes it"))
        }
        Ending::Damaged(error) => Some(format!("seed {seed} is damaged: {error}")),
    }
}

/// Where `config` differs from its learner's defaults, except for what tables show anyway.
fn departures(config: &RunConfig) -> Result<Vec<String>> {
    let name = format!("algorithm.name=\"{}\"", config.algorithm.name());
    let usual = RunConfig::parse("", &[name])?;
    let table: toml::Value = toml::Value::try_from(config)
        .map_err(|error| crate::Error::input(format!("the config cannot be written: {error}")))?;
    let said = ["seed", "data.source", "train.steps", "train.batch_size"];
    let silent = ["train.log_every", "train.save_every", "train.evaluate_every", "train.keep"];
    let mut keys = config.differences(&usual)?;
    keys.retain(|key| !said.contains(&key.as_str()) && !silent.contains(&key.as_str()));
    let value = |key: &String| {
        let found = key.split('.').try_fold(&table, |inside, part| inside.get(part));
        found.map(|found| format!("{key} = {found}"))
    };
    Ok(keys.iter().filter_map(value).collect())
}

/// The learning curve of a row: the results of its complete seeds at every evaluation.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// The world.
    pub world: World,
    /// The learner's name, or that of its config file.
    pub algorithm: String,
    /// How its policy was extracted.
    pub extraction: String,
    /// The updates at which success was measured.
    pub steps: Vec<u64>,
    /// The overall success of each seed at each of them.
    pub overall: Vec<Vec<f64>>,
    /// The success on stitched tasks; NaN if the world has none.
    pub stitched: Vec<Vec<f64>>,
}

impl Curve {
    /// None if no seed is complete.
    fn of(runs: &[RunResult]) -> Option<Self> {
        let complete = || runs.iter().filter(|run| run.ending == Ending::Complete);
        let first = complete().next()?;
        let column = |index: usize| -> Vec<Vec<f64>> {
            let one = |run: &RunResult| run.curve.iter().map(|(_, row)| row[index]).collect();
            complete().map(one).collect()
        };
        Some(Self {
            world: first.world,
            algorithm: first.algorithm.clone(),
            extraction: first.extraction_word().to_owned(),
            steps: first.curve.iter().map(|(step, _)| *step).collect(),
            overall: column(0),
            stitched: column(1),
        })
    }
}

/// One learner over all worlds: each world is weighted by its seeds and resampled on its own.
#[derive(Debug, Clone, Serialize)]
pub struct Pooled {
    /// The learner's name, or that of its config file.
    pub algorithm: String,
    /// How its policy was extracted.
    pub extraction: String,
    /// The overall success.
    pub overall: OverSeeds,
}

impl Results {
    fn combinations(&self) -> impl Iterator<Item = &[RunResult]> {
        self.runs.chunk_by(|one, other| one.combination() == other.combination())
    }

    /// The worlds, without repetitions.
    pub fn worlds(&self) -> Vec<World> {
        let mut worlds: Vec<World> = self.runs.iter().map(|run| run.world).collect();
        worlds.dedup();
        worlds
    }

    /// One row for each combination of world, learner and extraction.
    ///
    /// # Errors
    /// A config that cannot be written as TOML.
    pub fn rows(&self) -> Result<Vec<Row>> {
        self.combinations().map(Row::of).collect()
    }

    /// One curve for each row that has a complete seed.
    pub fn curves(&self) -> Vec<Curve> {
        self.combinations().filter_map(Curve::of).collect()
    }

    /// The learners that have a complete seed in every world; empty if there is only one world.
    pub fn pooled(&self) -> Vec<Pooled> {
        let worlds = self.worlds();
        let Some(first) = worlds.first().filter(|_| worlds.len() > 1) else { return Vec::new() };
        let success = |world: World, name: &str, extraction: Option<&str>| -> Vec<f64> {
            let same =
                self.runs.iter().filter(|run| run.combination() == (world, name, extraction));
            let rates = same.map(|run| counted(world, &run.last_three, &run.policy)[0]);
            rates.filter(|value| value.is_finite()).collect()
        };
        let pool = |runs: &[RunResult]| {
            let (_, name, extraction) = runs[0].combination();
            let strata: Vec<Vec<f64>> =
                worlds.iter().map(|world| success(*world, name, extraction)).collect();
            if strata.iter().any(Vec::is_empty) {
                return None;
            }
            let strata: Vec<&[f64]> = strata.iter().map(Vec::as_slice).collect();
            Some(Pooled {
                algorithm: name.to_owned(),
                extraction: runs[0].extraction_word().to_owned(),
                overall: OverSeeds::of_strata(&strata)?,
            })
        };
        self.combinations().filter(|runs| runs[0].world == *first).filter_map(pool).collect()
    }

    /// One line for each evaluation of each row, as CSV.
    pub fn curves_csv(&self) -> String {
        const PARTS: [&str; 5] = ["mean", "standard_error", "interquartile_mean", "low", "high"];
        let columns = ["overall", "stitched"]
            .iter()
            .flat_map(|name| PARTS.iter().map(move |part| format!(",{name}_{part}")));
        let mut text =
            format!("world,algorithm,extraction,step,seeds{}\n", columns.collect::<String>());
        for curve in self.curves() {
            for (index, step) in curve.steps.iter().enumerate() {
                let Curve { world, algorithm, extraction, .. } = &curve;
                let seeds = curve.overall.len();
                text += &format!("{world},{algorithm},{extraction},{step},{seeds}");
                for seeds in [&curve.overall, &curve.stitched] {
                    let values: Vec<f64> = seeds.iter().map(|seed| seed[index]).collect();
                    let known = values.iter().all(|value| value.is_finite());
                    let over = OverSeeds::of(&values).filter(|_| known);
                    text += &parts(over).map(|value| format!(",{}", field(value))).concat();
                }
                text.push('\n');
            }
        }
        text
    }
}

fn parts(over: Option<OverSeeds>) -> [f64; 5] {
    over.map_or([f64::NAN; 5], |over| {
        let error = over.standard_error.unwrap_or(f64::NAN);
        let [low, high] = over.interval;
        [over.mean, error, over.interquartile_mean, low, high]
    })
}
