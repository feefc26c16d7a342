//! The list of runs in the shared folder, and how each of them ended.

use std::path::{Path, PathBuf};

use isochrone::checkpoint::write_whole;
use isochrone::run::RunConfig;
use isochrone::run::compare::{Failure, Job, Plan};
use isochrone::{Error, Result, plain};
use serde::{Deserialize, Serialize};

/// The folder of the list, in that of the comparison.
const FOLDER: &str = "sweep";
const LIST: &str = "list.json";

/// All runs of a comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Their folders, below that of the comparison.
    pub runs: Vec<PathBuf>,
    /// Whether final models are also evaluated with the graph planner.
    pub planner: bool,
    /// Where updates run.
    pub device: String,
    /// Threads of a run.
    pub threads: u32,
    /// The folder of the comparison; every machine calls it so.
    #[serde(skip)]
    pub out: PathBuf,
}

/// How a run ended.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The exit code of its process.
    pub code: u8,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Where a number stopped being finite: step, metric and value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    diverged: Option<(u64, String, String)>,
}

impl Outcome {
    /// Of a run that is complete, or failed with `error`.
    pub fn of(error: Option<&Error>) -> Self {
        let Some(error) = error else { return Self::default() };
        let diverged = match error {
            Error::Diverged { step, metric, value } => {
                Some((*step, metric.clone(), value.to_string()))
            }
            _ => None,
        };
        Self { code: error.exit_code(), error: Some(error.to_string()), diverged }
    }

    /// Whether another try would end in the same way: done, bad input, diverged.
    pub fn is_final(code: i32) -> bool {
        matches!(code, 0 | 2 | 3)
    }

    /// The error that a run failed with, as far as its outcome tells.
    fn into_error(self) -> Option<Error> {
        if let Some((step, metric, value)) = self.diverged {
            return Some(Error::Diverged {
                step,
                metric,
                value: value.parse().unwrap_or(f64::NAN),
            });
        }
        let text = self.error.unwrap_or_else(|| "the run failed".to_owned());
        match self.code {
            0 => None,
            4 => Some(Error::disk("finish", "the run", std::io::Error::other(text))),
            5 => Some(Error::memory(text)),
            6 => Some(Error::changed(text)),
            7 => Some(Error::busy(text)),
            _ => Some(Error::input(text)),
        }
    }
}

impl Sweep {
    /// The list of a plan's runs below `out`.
    pub fn new(plan: &Plan, out: &Path, device: &str, threads: u32) -> Result<Self> {
        let below = |job: &Job| job.folder.strip_prefix(out).unwrap_or(&job.folder).to_path_buf();
        Ok(Self {
            runs: plan.jobs.iter().map(below).collect(),
            planner: plan.planner,
            device: device.to_owned(),
            threads,
            out: std::path::absolute(out).map_err(|error| Error::disk("find", out, error))?,
        })
    }

    /// The list in `out` and the run number `index` of it.
    pub fn read(out: &Path, index: usize) -> Result<(Self, Job)> {
        let path = out.join(FOLDER).join(LIST);
        let refused = |text: String| {
            Error::input(text).in_file(&path).hint("`isochrone compare --engine` writes it")
        };
        let text = plain::read_text(&path)
            .map_err(|error| refused(format!("cannot read the list of runs: {error}")))?;
        let mut sweep: Self = serde_json::from_str(&text)
            .map_err(|error| refused(format!("the list of runs is damaged: {error}")))?;
        sweep.out = out.to_path_buf();
        let Some(folder) = sweep.runs.get(index) else {
            return Err(refused(format!("no run {index}, there are {}", sweep.runs.len())));
        };
        let folder = out.join(folder);
        let config = RunConfig::read(&sweep.file(index, "toml"), &[])?;
        Ok((sweep, Job { config, folder }))
    }

    /// Writes the list and the configs of the runs `left`, whose old outcomes are removed.
    pub fn write(&self, plan: &Plan, left: &[usize]) -> Result<()> {
        let folder = self.folder();
        std::fs::create_dir_all(&folder).map_err(|error| Error::disk("create", &folder, error))?;
        for &index in left {
            let text = plan.jobs[index].config.to_toml()?;
            write_whole(&self.file(index, "toml"), text.as_bytes())?;
            let outcome = self.file(index, "json");
            if outcome.exists() {
                std::fs::remove_file(&outcome)
                    .map_err(|error| Error::disk("remove", &outcome, error))?;
            }
        }
        write_whole(&folder.join(LIST), json(self)?.as_bytes())
    }

    /// Where list, configs, outcomes and logs are.
    pub fn folder(&self) -> PathBuf {
        self.out.join(FOLDER)
    }

    /// The file of run `index` with this extension.
    pub fn file(&self, index: usize, ending: &str) -> PathBuf {
        self.folder().join(format!("{index}.{ending}"))
    }

    /// The command line of a run; `index` is its number or what the engine puts in its place.
    pub fn command(&self, index: &str) -> Vec<String> {
        let program = std::env::current_exe().unwrap_or_else(|_| "isochrone".into());
        self.command_of(&program.display().to_string(), index)
    }

    /// The command line of a run where the command is called `program`.
    pub fn command_of(&self, program: &str, index: &str) -> Vec<String> {
        let (out, threads) = (self.out.display().to_string(), self.threads.to_string());
        let words = [program, "compare", "--only", index, "--out", &out, "--threads", &threads];
        words.map(str::to_owned).to_vec()
    }

    /// Writes how run `index` ended.
    pub fn keep(&self, index: usize, outcome: &Outcome) -> Result<()> {
        write_whole(&self.file(index, "json"), json(outcome)?.as_bytes())
    }

    fn outcome(&self, index: usize) -> Option<Outcome> {
        serde_json::from_str(&plain::read_text(&self.file(index, "json")).ok()?).ok()
    }

    /// Whether run `index` has ended and another try would end in the same way.
    pub fn is_over(&self, index: usize) -> bool {
        self.outcome(index).is_some_and(|outcome| Outcome::is_final(outcome.code.into()))
    }

    /// Why run `index` failed; none where it is complete.
    pub fn failure(&self, index: usize) -> Option<Failure> {
        let error = match self.outcome(index) {
            Some(outcome) => outcome.into_error()?,
            None => Error::input("the run did not end")
                .in_file(&self.file(index, "log"))
                .hint("the same command resumes it"),
        };
        Some(Failure { folder: self.out.join(&self.runs[index]), error })
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string_pretty(value)
        .map_err(|error| Error::input(format!("the list of runs cannot be written: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_comes_back_with_its_exit_code() {
        let diverged = Error::Diverged { step: 7, metric: "loss".into(), value: f64::NAN };
        for error in [Error::input("a"), diverged, Error::memory("b"), Error::busy("c")] {
            let text = json(&Outcome::of(Some(&error))).unwrap();
            let back: Outcome = serde_json::from_str(&text).unwrap();
            let back = back.into_error().unwrap();
            assert_eq!(
                (back.exit_code(), back.to_string()),
                (error.exit_code(), error.to_string())
            );
        }
        assert!(Outcome::of(None).into_error().is_none());
        assert!([0, 2, 3].into_iter().all(Outcome::is_final));
        assert!(![1, 4, 7, 137, 143].into_iter().any(Outcome::is_final));
    }
}
