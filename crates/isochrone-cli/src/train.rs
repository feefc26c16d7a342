//! `isochrone train`: learns a distance and a policy from a file, a world or a config.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use indicatif::ProgressBar;
use isochrone::algorithms::{self, Phases};
use isochrone::engine::{Hardware, Seeds, Threads};
use isochrone::evaluate::{OverTraining, Success};
use isochrone::run::{self, Finished, Observer, Origin, RunConfig, Source};
use isochrone::{Error, Result};
use serde::Serialize;

use crate::output::{Bars, say, say_json};
use crate::signals::Signals;
use crate::wording;

/// Learns a distance and a policy.
///
/// The same command in the same folder goes on where it stopped.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone train pinwheel
  isochrone train my-logs.npz --algorithm cmd2 --set train.steps=50000
  isochrone train configs/pinwheel-cmd1.toml --seeds 4
  isochrone train --from runs/pinwheel-cmd1 --extraction awr --out runs/again")]
pub struct Train {
    /// An .npz file, the name of a world, or a config (.toml); with --from, the old run's
    pub source: Option<String>,
    /// The learner
    #[arg(long, short, help = learners())]
    pub algorithm: Option<String>,
    /// Changes one key of the config, e.g. --set train.steps=5000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// Where the run is kept [default: runs/SOURCE-ALGORITHM]
    #[arg(long, short)]
    pub out: Option<PathBuf>,
    /// The seed of the run
    #[arg(long)]
    pub seed: Option<u64>,
    /// Trains so many seeds, each in its own folder, counted up from the seed
    #[arg(long, value_name = "N")]
    pub seeds: Option<u64>,
    /// Threads to use [default: all cores]
    #[arg(long, short)]
    pub threads: Option<usize>,
    /// Where updates run: auto, cpu or cuda:N; auto takes a GPU where there is one
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Takes the distance of this run as it is and learns a new policy from it
    #[arg(long, value_name = "RUN")]
    pub from: Option<PathBuf>,
    /// How the policy is taken from the distance: awr, ddpg-bc or none
    #[arg(long)]
    pub extraction: Option<String>,
    /// Prints the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// What the help says of `--algorithm`.
fn learners() -> String {
    let usual = RunConfig::default().algorithm.name();
    let [names @ .., last] = algorithms::Config::NAMES.map(|name| match name == usual {
        true => format!("{name} (the default)"),
        false => name.to_owned(),
    });
    format!("The learner: {} or {last}", names.join(", "))
}

/// What a training run prints at its end.
#[derive(Serialize)]
struct Report {
    folder: PathBuf,
    seed: u64,
    success: Option<Success>,
    /// All evaluations of the run, in a maze.
    #[serde(skip_serializing_if = "Option::is_none")]
    over_training: Option<OverTraining>,
    error: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &Train) -> Result<()> {
    let config = resolve(arguments)?;
    if arguments.seeds == Some(0) {
        return Err(Error::input("`--seeds` is `0`, expected at least 1")
            .hint("leave it out to train one seed"));
    }
    let threads = thread_count(arguments.threads)?;
    let hardware = hardware(&arguments.device)?;
    let folder = arguments.out.clone().unwrap_or_else(|| default_folder(&config, arguments));
    let source = run::open_source(&config.data)?;
    source.notes.iter().for_each(|note| crate::warn(note));
    let origin = Origin { distance_from: arguments.from.clone() };
    let signals = Signals::listen()?;
    let jobs: Vec<(RunConfig, PathBuf)> = match arguments.seeds {
        None => vec![(config, folder.clone())],
        Some(count) => (0..count)
            .map(|index| {
                let seed = config.seed + index;
                (RunConfig { seed, ..config.clone() }, folder.join(format!("seed-{seed}")))
            })
            .collect(),
    };
    let results = train_all(&jobs, &source, &origin, (&hardware, threads), &signals)?;
    tell(&jobs, results, arguments, &folder)
}

/// The config of the command line: a file or an old run, then the flags, then `--set`.
fn resolve(arguments: &Train) -> Result<RunConfig> {
    let mut overrides = Vec::new();
    let mut file = None;
    match (&arguments.source, &arguments.from) {
        (Some(source), None) if source.ends_with(".toml") => file = Some(PathBuf::from(source)),
        (Some(source), None) => overrides.push(text("data.source", source)?),
        (None, Some(_)) => {}
        (Some(_), Some(_)) => {
            return Err(Error::input(
                "`--from` brings its own data, a source beside it is not used",
            )
            .hint("leave out the source, or `--from`"));
        }
        (None, None) => {
            return Err(Error::input("no data named")
                .hint("name an .npz file or a world: `isochrone train pinwheel`"));
        }
    }
    if let Some(name) = &arguments.algorithm {
        overrides.push(text("algorithm.name", name)?);
    }
    if let Some(seed) = arguments.seed {
        overrides.push(format!("seed={seed}"));
    }
    if let Some(old) = &arguments.from {
        return resolve_from(old, arguments, overrides);
    }
    let parse = |overrides: &[String]| match &file {
        Some(path) => RunConfig::read(path, overrides),
        None => RunConfig::parse(usual(arguments), overrides),
    };
    parse(&settings(arguments, overrides, parse)?)
}

/// The settings of flags, of the extraction where it fits the learner, and of `--set`, in this order.
fn settings(
    arguments: &Train,
    mut flags: Vec<String>,
    parse: impl Fn(&[String]) -> Result<RunConfig>,
) -> Result<Vec<String>> {
    if let Some(extraction) = &arguments.extraction {
        parse(&flags)?.algorithm.set_extraction(extraction)?;
        flags.push(text("algorithm.extraction.name", extraction)?);
    }
    flags.extend(arguments.overrides.iter().cloned());
    Ok(flags)
}

/// The settings a run begins from: those tuned to the world it names, else nothing.
fn usual(arguments: &Train) -> &'static str {
    let named =
        arguments.overrides.iter().rev().find_map(|set| set.strip_prefix("algorithm.name="));
    let algorithm = named.or(arguments.algorithm.as_deref()).unwrap_or("cmd1");
    let world = arguments.source.as_deref().and_then(|source| source.parse().ok());
    world.map_or("", |world| run::preset(world, algorithm, arguments.extraction.as_deref()))
}

/// The setting of `key` to a text, quoted so that every text comes back as it is.
pub fn text(key: &str, value: &str) -> Result<String> {
    let quoted = serde_json::to_string(value)
        .map_err(|error| Error::input(format!("`{value}` cannot be quoted: {error}")))?;
    Ok(format!("{key}={quoted}"))
}

/// The config of an old run with its distance held and a new extraction.
fn resolve_from(old: &Path, arguments: &Train, flags: Vec<String>) -> Result<RunConfig> {
    if arguments.extraction.is_none() {
        return Err(Error::input("`--from` needs `--extraction`").hint("choose awr or ddpg-bc"));
    }
    let text = run::read_config(old)?.to_toml()?;
    let parse = |overrides: &[String]| RunConfig::parse(&text, overrides);
    let mut config = parse(&settings(arguments, flags, parse)?)?;
    let learner = config.algorithm.name();
    let phases = config.algorithm.phases_mut().ok_or_else(|| {
        Error::input(format!("`{learner}` learned no distance to take a policy from"))
            .hint("choose a run of another algorithm")
    })?;
    *phases = Phases { critic_until: 0.0, policy_from: 0.0 };
    Ok(config)
}

fn default_folder(config: &RunConfig, arguments: &Train) -> PathBuf {
    let source = Path::new(&config.data.source).file_stem();
    let source = source.and_then(|name| name.to_str()).unwrap_or("data");
    let name = match &arguments.from {
        Some(old) => {
            let old = old.file_name().and_then(|name| name.to_str()).unwrap_or("run");
            format!("{old}-{}", arguments.extraction.as_deref().unwrap_or("policy"))
        }
        None => format!("{source}-{}", config.algorithm.name()),
    };
    Path::new("runs").join(name)
}

/// What `--device` comes to on this machine; says why where it is the CPU after all.
pub fn hardware(device: &str) -> Result<Hardware> {
    let (hardware, reason) = Hardware::choose(device.parse()?, Threads::default())?;
    if let Some(reason) = reason {
        crate::warn(&reason);
    }
    Ok(hardware)
}

/// More threads than any machine has cores take its memory for nothing.
const MOST_THREADS: usize = 1024;

/// The number of threads to use.
pub fn thread_count(asked: Option<usize>) -> Result<usize> {
    match asked {
        Some(count) if !(1..=MOST_THREADS).contains(&count) => {
            Err(Error::input(format!("`--threads` is `{count}`, expected 1 to {MOST_THREADS}"))
                .hint("leave it out to use all cores"))
        }
        Some(count) => Ok(count),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// Trains every job: one after the other with all threads where there is one, else side by side.
pub fn train_all(
    jobs: &[(RunConfig, PathBuf)],
    source: &Source,
    origin: &Origin,
    (hardware, threads): (&Hardware, usize),
    signals: &Signals,
) -> Result<Vec<Result<Finished>>> {
    let bars = Bars::new();
    // A GPU updates all seeds at once, so all of them must be there.
    let at_once = if hardware.gpu.is_some() { jobs.len() } else { threads.min(jobs.len()) };
    let seeds: Vec<u64> = jobs.iter().map(|(config, _)| config.seed).collect();
    let hardware = Hardware { seeds: Some(Seeds::new(&seeds)), ..hardware.clone() };
    // A pool each: in a shared one a run that waits would be handed another run to do first.
    let pools = (0..at_once)
        .map(|_| Threads::new((threads / at_once).max(1)))
        .collect::<Result<Vec<_>>>()?;
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let work = |pool: &Threads| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((config, folder)) = jobs.get(at) else { break };
            let label = folder.file_name().and_then(|name| name.to_str()).unwrap_or("run");
            let bar = bars.bar(&format!("train  {label}"), config.train.steps);
            let mut observer = Watch { bar: bar.clone(), signals: signals.clone() };
            let hardware = Hardware { threads: pool.clone(), ..hardware.clone() };
            let seeds = hardware.seeds.clone();
            let result = run::execute(config, source, folder, origin, hardware, &mut observer);
            seeds.iter().for_each(|seeds| seeds.leave(config.seed));
            bar.finish();
            if let Ok(mut results) = results.lock() {
                results.push((at, result));
            }
        }
    };
    std::thread::scope(|scope| {
        for pool in &pools {
            scope.spawn(|| work(pool));
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Shows a run on its bar.
struct Watch {
    bar: ProgressBar,
    signals: Signals,
}

impl Observer for Watch {
    fn updated(&mut self, step: u64, _steps: u64) {
        if step.is_multiple_of(16) {
            self.bar.set_position(step);
        }
    }

    fn skipped(&mut self, error: &Error) {
        self.bar.suspend(|| crate::warn(&format!("{error}; the one before it is used")));
    }

    fn resumed(&mut self, step: u64) {
        self.bar.set_position(step);
        self.bar.reset_eta();
        self.bar.suspend(|| crate::warn(&format!("goes on from step {step}")));
    }

    fn noted(&mut self, note: &str) {
        self.bar.suspend(|| crate::warn(note));
    }

    fn evaluated(&mut self, _step: u64, success: &Success) {
        self.bar.set_message(format!("reached {:.0} %", 100.0 * success.overall.rate));
    }

    fn signal(&self) -> Option<i32> {
        self.signals.received()
    }
}

fn tell(
    jobs: &[(RunConfig, PathBuf)],
    results: Vec<Result<Finished>>,
    arguments: &Train,
    folder: &Path,
) -> Result<()> {
    let mut reports = Vec::new();
    let mut failure = None;
    for ((config, folder), result) in jobs.iter().zip(results) {
        let (success, error) = match result {
            Ok(finished) => (finished.success, None),
            Err(error) => {
                let text = error.to_string();
                failure = Some(error);
                (None, Some(text))
            }
        };
        let over_training = wording::over_training(config, folder)?;
        let (folder, seed) = (folder.clone(), config.seed);
        reports.push(Report { folder, seed, success, over_training, error });
    }
    if arguments.json {
        say_json(&reports)?;
    } else {
        for report in &reports {
            let name = report.folder.display();
            match (&report.error, &report.success) {
                (Some(error), _) if reports.len() > 1 => {
                    say(&format!("failed    {name}: {error}"))?
                }
                (Some(_), _) => {}
                (None, None) => say(&format!("trained   {name}/model.safetensors"))?,
                (None, Some(success)) => {
                    say(&format!(
                        "trained   {name}/model.safetensors   reached {:.1} % of {} goals",
                        100.0 * success.overall.rate,
                        success.overall.tasks
                    ))?;
                    if let Some(over) = &report.over_training {
                        say(&format!("          {}", wording::evaluations(over)))?;
                    }
                }
            }
        }
    }
    match failure {
        None => Ok(()),
        Some(error) => {
            if let Error::Interrupted(_) = error {
                crate::warn(&format!(
                    "saved in {}; the same command goes on from there",
                    folder.display()
                ));
            }
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use isochrone::simulate::World;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        train: Train,
    }

    fn resolved(words: &[&str]) -> Result<RunConfig> {
        resolve(&Line::parse_from([&["train"], words].concat()).train)
    }

    #[test]
    fn an_extraction_brings_its_preset_and_settings_come_after_it() {
        let words = ["pinwheel", "-a", "crl", "--extraction", "awr"];
        let tuned = run::preset(World::Pinwheel, "crl", Some("awr"));
        assert_eq!(resolved(&words).unwrap(), RunConfig::parse(tuned, &[]).unwrap());
        let softer = ["--set", "algorithm.extraction.inverse_temperature=2"];
        let text = resolved(&[&words[..], &softer].concat()).unwrap().to_toml().unwrap();
        assert!(text.contains("inverse_temperature = 2.0"), "{text}");
        let own = resolved(&["pinwheel", "-a", "gcbc", "--extraction", "awr"]).unwrap_err();
        assert!(own.to_string().contains("in its own way"), "{own}");
    }
}
