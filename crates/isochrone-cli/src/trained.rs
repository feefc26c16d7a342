//! What `isochrone train` says at its end: success, and whether learned numbers can be read as steps.

use std::path::PathBuf;

use isochrone::evaluate::{AgainstElapsed, AgainstSolved, Judgement, OverTraining, Rate, Success};
use isochrone::run::files::MODEL;
use isochrone::run::{Finished, Judges, LastCheck, RunConfig, Source};
use isochrone::{Error, Result};
use serde::Serialize;

use crate::output::{say, say_json};
use crate::progress::waiting;
use crate::signals::Signals;
use crate::wording;

/// What a training run prints at its end.
#[derive(Serialize)]
struct Report {
    folder: PathBuf,
    seed: u64,
    success: Option<Success>,
    /// All evaluations of the run, in a maze.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_training: Option<OverTraining>,
    /// Agreement with the steps that elapsed on recorded trajectories, where a distance was learned.
    against_elapsed: Option<AgainstElapsed>,
    /// Agreement with the fewest steps along recorded moves, where a distance was learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    against_solved: Option<AgainstSolved>,
    /// Why learned steps should not be read as steps, if something speaks against it.
    doubt: Option<String>,
    error: Option<String>,
}

impl Report {
    fn new(folder: PathBuf, seed: u64) -> Self {
        Self {
            folder,
            seed,
            success: None,
            over_training: None,
            against_elapsed: None,
            against_solved: None,
            doubt: None,
            error: None,
        }
    }

    /// Adds what was learned, and how right its steps are; the latter again to be kept, where nothing is.
    fn judge(
        &mut self,
        Finished { model, success }: Finished,
        judges: Option<&Judges>,
        algorithm: &str,
    ) -> Result<Option<LastCheck>> {
        self.success = success;
        let Some(judges) = judges.filter(|_| model.has_distance()) else { return Ok(None) };
        (self.against_elapsed, self.against_solved) = judges.judge(&model)?;
        let judgement = self.judgement(algorithm);
        // What `evaluate` kept may rest on more, such as exact steps.
        let is_new = LastCheck::read(&self.folder, &model).is_none();
        let judged = LastCheck::new(&model, &judgement).filter(|_| is_new);
        self.doubt = judgement.doubt();
        Ok(judged)
    }

    fn judgement<'a>(&'a self, algorithm: &'a str) -> Judgement<'a> {
        let (elapsed, solved) = (self.against_elapsed.as_ref(), self.against_solved.as_ref());
        Judgement { elapsed, solved, exact: None, algorithm }
    }

    /// Prints it as lines; the one error of a single run is printed elsewhere.
    fn tell(&self, is_one_of_many: bool, algorithm: &str) -> Result<()> {
        let name = self.folder.display();
        if let Some(error) = &self.error {
            return if is_one_of_many {
                say(&format!("failed    {name}: {error}"))
            } else {
                Ok(())
            };
        }
        let reached = self.success.as_ref().map_or(String::new(), |success| {
            let Rate { rate, tasks, .. } = success.overall;
            format!("   reached {:.1} % of {tasks} goals", 100.0 * rate)
        });
        say(&format!("trained   {name}/{MODEL}{reached}"))?;
        if let Some(over) = self.over_training.as_ref().filter(|_| self.success.is_some()) {
            say(&format!("          {}", wording::evaluations(over)))?;
        }
        let lines = wording::judgement(&self.judgement(algorithm));
        lines.iter().try_for_each(|line| say(&format!("check     {line}")))
    }
}

/// Judges and prints the `results` of `jobs`, which learned from `source`. Of several processes, which share
/// the data, all take part, and one `keeps` what is said.
///
/// # Errors
/// The last error of a run; a folder that cannot be read or written.
pub fn tell(
    jobs: &[(RunConfig, PathBuf)],
    source: &Source,
    results: Vec<Result<Finished>>,
    keeps: bool,
    signals: &Signals,
    json: bool,
) -> Result<()> {
    let has_distance = |finished: &Finished| finished.model.has_distance();
    let hear = |_: usize, _: usize| signals.received();
    let judges = || match keeps {
        true => waiting("check", |_| Judges::new(source, &jobs[0].0, Some(&hear))),
        false => Judges::new(source, &jobs[0].0, None),
    };
    let judges = results.iter().flatten().any(has_distance).then(judges).transpose()?;
    let mut reports = Vec::new();
    let mut failure = None;
    let algorithm = jobs[0].0.algorithm.name();
    for ((config, folder), result) in jobs.iter().zip(results) {
        let mut report = Report::new(folder.clone(), config.seed);
        if keeps {
            report.over_training = wording::over_training(config, folder)?;
        }
        match result {
            Ok(finished) => {
                let judged = report.judge(finished, judges.as_ref(), algorithm)?;
                if let Some(judged) = judged.filter(|_| keeps) {
                    judged.keep(folder)?;
                }
            }
            Err(error) => {
                report.error = Some(error.to_string());
                failure = Some(error);
            }
        }
        reports.push(report);
    }
    if json {
        say_json(&reports)?;
    } else {
        reports.iter().try_for_each(|report| report.tell(reports.len() > 1, algorithm))?;
    }
    failure.map_or(Ok(()), Err::<(), Error>)
}
