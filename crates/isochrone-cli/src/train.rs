//! `isochrone train`: learns a distance and a policy from a file, a world or a config.

use std::path::{Path, PathBuf};

use isochrone::algorithms::{self, Phases};
use isochrone::collective::{Collective, JobPlace};
use isochrone::engine::Hardware;
use isochrone::run::files::{CONFIG, MODEL};
use isochrone::run::{self, RunConfig};
use isochrone::simulate::World;
use isochrone::{Error, Result};

use crate::flags::{hardware, seed};
use crate::opened::seed_folders;
use crate::progress::{REPORT_EVERY, Recordings};
use crate::signals::Signals;
use crate::trained;
use crate::training::{Workshop, train_all};
use crate::wording;

/// Learn a distance and a policy.
///
/// The same command in the same folder resumes where the run stopped. With more `train.steps`, or with
/// --more, a complete run continues: schedules and phases then span all updates, old and new.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone train pinwheel
  isochrone train my-logs.npz --algorithm cmd2 --set train.steps=50000
  isochrone train runs/pinwheel-cmd1/config.toml --seeds 4 --out runs/four
  isochrone train --out runs/pinwheel-cmd1 --more 5000
  isochrone train --from runs/pinwheel-cmd1 --extraction awr --out runs/again")]
pub struct Train {
    /// A file of trajectories, a folder or a pattern ('logs/*.npz') of them, the name of a world, or a
    /// config (.toml); without it, the run in --out or that of --from
    pub source: Option<String>,
    /// The learner
    #[arg(long, short, help = learners())]
    pub algorithm: Option<String>,
    /// Change one key of the config, e.g. --set train.steps=5000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<String>,
    /// The run's folder [default: runs/SOURCE-ALGORITHM; with --from RUN-EXTRACTION]
    #[arg(long, short)]
    pub out: Option<PathBuf>,
    /// The seed of the run
    #[arg(long, allow_hyphen_values = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Train N seeds, counting up from --seed, each in its own folder; all on the same data and
    /// evaluated on the same tasks (`compare` draws both anew for every seed)
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub seeds: Option<u64>,
    /// Train the complete run in --out for N more updates; a run that was stopped is completed first
    #[arg(long, value_name = "N", requires = "out", value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(conflicts_with_all = ["source", "algorithm", "overrides", "seed", "seeds", "from", "extraction"])]
    pub more: Option<u64>,
    /// Where updates run: auto, cpu or cuda:N; auto uses a GPU if there is one
    #[arg(long, default_value = "cpu")]
    pub device: String,
    /// Keep the distance of this complete run and learn a new policy from it
    #[arg(long, value_name = "RUN")]
    pub from: Option<PathBuf>,
    /// How to extract the policy from the distance: awr, ddpg-bc or none
    #[arg(long)]
    pub extraction: Option<String>,
    /// Without a terminal: seconds between two lines of progress; 0 prints every row of metrics
    #[arg(long, value_name = "SECONDS", default_value_t = REPORT_EVERY)]
    pub report_every: f64,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// What the help says of `--algorithm`.
pub fn learners() -> String {
    let [names @ .., last] = algorithms::Config::NAMES.map(|name| {
        if name == algorithms::Config::DEFAULT {
            format!("{name} (the default)")
        } else {
            name.to_owned()
        }
    });
    format!(
        "The learner: {} or {last}; also crl-nce (crl with binary NCE), cmd1-paper and cmd2-paper \
         (without what our presets add in the 2-D worlds)",
        names.join(", ")
    )
}

/// Runs the command.
pub fn run(arguments: &Train, threads: usize) -> Result<()> {
    let (folder, jobs) = jobs(arguments)?;
    if !(arguments.report_every >= 0.0 && arguments.report_every < 1e9) {
        let found = arguments.report_every;
        return Err(Error::input(format!("`--report-every` is `{found}`, expected seconds"))
            .hint("leave it out for a line every 10 seconds"));
    }
    let launch = JobPlace::read();
    if let Some(JobPlace { size, .. }) = launch {
        if size > 1 && jobs.len() > 1 {
            return Err(Error::input(format!(
                "{size} processes carry one run, not {}",
                jobs.len()
            ))
            .hint("leave out `--seeds`, or start `isochrone compare --engine` without mpirun"));
        }
        jobs[0].0.train.check_shards(size)?;
    }
    let collective = Collective::launched()?;
    let hardware = Hardware { collective: collective.clone(), ..hardware(&arguments.device)? };
    let recordings = Recordings::default();
    let recorded = |world: &str, episodes, of| recordings.recorded(world, episodes, of);
    let source = run::open_shared_source(&jobs[0].0, &collective, &recorded)?;
    source.notes.iter().for_each(|note| crate::output::warn(note));
    let is_file = jobs[0].0.data.source.parse::<World>().is_err();
    let unmarked = if is_file { source.unmarked_ends() } else { 0 };
    if unmarked > 0 {
        crate::output::warn(&format!(
            "{}; `isochrone data inspect` says where",
            wording::counted(
                unmarked as u64,
                "step looks like an unmarked end of a trajectory but is learned as a move",
                "steps look like unmarked ends of trajectories but are learned as moves"
            )
        ));
    }
    let angles = if is_file { source.wrapping_angles() } else { Vec::new() };
    angles.iter().for_each(|axis| crate::output::warn(&wording::wraps(*axis)));
    let signals = Signals::listen()?;
    let report_every = arguments.report_every;
    let workshop = Workshop { hardware: &hardware, threads, report_every, signals: &signals };
    let results = train_all(&jobs, &source, &workshop)?;
    // Every process has a part in it, and rank 0 alone is heard.
    let is_heard = collective.rank() == 0;
    let told = trained::tell(&jobs, &source, results, is_heard, &signals, arguments.json);
    if let Err(Error::Interrupted(_)) = told {
        let folder = folder.display();
        crate::output::warn(&format!("saved in {folder}; the same command resumes from there"));
    }
    told?;
    // Only where all went well: who fails ends the others by leaving without a word.
    collective.leave();
    Ok(())
}

/// The folder of the command, and the runs in it.
fn jobs(arguments: &Train) -> Result<(PathBuf, Vec<(RunConfig, PathBuf)>)> {
    if let (None, None, Some(folder)) = (&arguments.source, &arguments.from, &arguments.out) {
        return Ok((folder.clone(), continued(folder, arguments)?));
    }
    let config = resolve(arguments)?;
    let folder = arguments.out.clone().unwrap_or_else(|| default_folder(&config, arguments));
    check_folder(&folder, arguments.seeds.is_some())?;
    let jobs = match arguments.seeds {
        None => vec![(config, folder.clone())],
        Some(count) => config
            .seeds(count)?
            .map(|seed| (RunConfig { seed, ..config.clone() }, folder.join(format!("seed-{seed}"))))
            .collect(),
    };
    Ok((folder, jobs))
}

/// Refuses a folder that is none, or that holds one run where seeds are asked for or the other way
/// round: whoever asks it could not tell which is meant.
fn check_folder(folder: &Path, seeds: bool) -> Result<()> {
    let (what, hint) = if folder.exists() && !folder.is_dir() {
        ("the folder of the run is a file", "choose a folder with `--out`")
    } else if seeds && folder.join(CONFIG).exists() {
        ("the folder holds a run, not seeds of one", "choose another folder with `--out`")
    } else if !seeds && !seed_folders(folder).is_empty() {
        ("the folder holds several seeds", "choose another folder with `--out`, or add `--seeds`")
    } else {
        return Ok(());
    };
    Err(Error::input(what).in_file(folder).hint(hint))
}

/// The runs that a folder holds, to be resumed or, where they are complete, continued.
fn continued(folder: &Path, arguments: &Train) -> Result<Vec<(RunConfig, PathBuf)>> {
    let mut folders = seed_folders(folder);
    if folders.is_empty() {
        folders.push(folder.to_owned());
    }
    if !folders[0].join(CONFIG).exists() {
        return Err(Error::input("no data named, and no run to resume")
            .in_file(folder)
            .hint("name a file of trajectories or a world: `isochrone train pinwheel`"));
    }
    if let Some(flag) = changed(arguments) {
        return Err(Error::input(format!("`{flag}` would change the run")).in_file(folder).hint(
            "name its source to train anew, leave the flag out to resume the run, or continue it by \
             `--more N` updates",
        ));
    }
    let job = |folder: PathBuf| {
        let mut config = run::read_config(&folder)?;
        run::check_data(&folder, &config)?;
        match arguments.more {
            Some(more) if folder.join(MODEL).exists() => {
                config.train.steps = config.train.steps.saturating_add(more);
            }
            Some(more) => crate::output::warn(&format!(
                "note: {} was stopped before its {} updates: completing it first; give `--more {more}` \
                 again afterwards",
                folder.display(),
                config.train.steps
            )),
            None => {}
        }
        Ok((config, folder))
    };
    folders.into_iter().map(job).collect()
}

/// A flag that decides what is learned.
fn changed(arguments: &Train) -> Option<&'static str> {
    let flags = [
        ("--algorithm", arguments.algorithm.is_some()),
        ("--set", !arguments.overrides.is_empty()),
        ("--seed", arguments.seed.is_some()),
        ("--seeds", arguments.seeds.is_some()),
        ("--extraction", arguments.extraction.is_some()),
    ];
    flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}

fn no_data() -> Error {
    Error::input("no data named")
        .hint("name a file of trajectories or a world: `isochrone train pinwheel`")
}

/// The config of the command line: a file or an old run, then the flags, then `--set`.
fn resolve(arguments: &Train) -> Result<RunConfig> {
    let asked = arguments.asked();
    match (&arguments.source, &arguments.from) {
        (Some(_), None) => asked.config(),
        (None, Some(old)) => resolve_from(old, &asked),
        (Some(_), Some(_)) => {
            Err(Error::input("`--from` brings its own data, a source cannot be added")
                .hint("leave out the source, or `--from`"))
        }
        (None, None) => Err(no_data()),
    }
}

impl Train {
    fn asked(&self) -> Asked<'_> {
        Asked {
            source: self.source.as_deref(),
            algorithm: self.algorithm.as_deref(),
            extraction: self.extraction.as_deref(),
            seed: self.seed,
            overrides: &self.overrides,
        }
    }
}

/// What a command line says of a run's config.
pub struct Asked<'a> {
    /// Data, a world or a config (.toml).
    pub source: Option<&'a str>,
    /// The learner.
    pub algorithm: Option<&'a str>,
    /// How its policy is extracted.
    pub extraction: Option<&'a str>,
    /// The seed.
    pub seed: Option<u64>,
    /// `key=value` settings.
    pub overrides: &'a [String],
}

impl Asked<'_> {
    /// The config: a file, or what was tuned to the world and the learner, or the defaults where nothing
    /// was or no source is named; over it the flags, then the settings.
    ///
    /// # Errors
    /// A file that cannot be read, or keys and values that fit nothing.
    pub fn config(&self) -> Result<RunConfig> {
        let data = self.data().map(|data| text("data.source", data)).transpose()?;
        let flags = data.into_iter().chain(self.flags()?).collect();
        let parse = |settings: &[String]| match (self.source, self.data()) {
            (_, Some(_)) => run::tuned(settings),
            (Some(file), None) => {
                RunConfig::read_with_source(Path::new(file), &run::spelled_out(settings)?)
            }
            (None, None) => RunConfig::parse("", &run::spelled_out(settings)?),
        };
        parse(&self.settings(flags, parse)?)
    }

    /// The source, if it is no config.
    pub fn data(&self) -> Option<&str> {
        self.source.filter(|source| !source.ends_with(".toml"))
    }

    /// The settings of learner and seed.
    fn flags(&self) -> Result<Vec<String>> {
        let learner = self.algorithm.map(|name| text("algorithm.name", name)).transpose()?;
        let seed = self.seed.map(|seed| format!("seed={seed}"));
        Ok(learner.into_iter().chain(seed).collect())
    }

    /// The settings of flags, of the extraction where it fits the learner, and of `--set`, in this order.
    fn settings(
        &self,
        mut flags: Vec<String>,
        parse: impl Fn(&[String]) -> Result<RunConfig>,
    ) -> Result<Vec<String>> {
        if let Some(extraction) = self.extraction {
            parse(&flags)?.algorithm.set_extraction(extraction)?;
            flags.push(text("algorithm.extraction.name", extraction)?);
        }
        for (flag, is_given, key) in [
            ("`--algorithm`", self.algorithm.is_some(), "algorithm.name"),
            ("`--extraction`", self.extraction.is_some(), "algorithm.extraction.name"),
            ("`--seed`", self.seed.is_some(), "seed"),
            ("a source", self.data().is_some(), "data.source"),
        ] {
            if is_given && RunConfig::has_setting(self.overrides, key)? {
                return Err(Error::input(format!("{flag} and `--set {key}` are both given"))
                    .hint("leave one of the two out"));
            }
        }
        flags.extend(self.overrides.iter().cloned());
        Ok(flags)
    }
}

/// The setting of `key` to a text, quoted so that every text comes back as it is.
pub fn text(key: &str, value: &str) -> Result<String> {
    let quoted = serde_json::to_string(value)
        .map_err(|error| Error::input(format!("`{value}` cannot be quoted: {error}")))?;
    Ok(format!("{key}={quoted}"))
}

/// The config of an old run with its distance held and a new extraction.
fn resolve_from(old: &Path, asked: &Asked<'_>) -> Result<RunConfig> {
    if asked.extraction.is_none() {
        return Err(Error::input("`--from` needs `--extraction`").hint("choose awr or ddpg-bc"));
    }
    let config = run::read_config(old)?;
    if let Some(name) = asked.algorithm.filter(|name| *name != config.algorithm.name()) {
        let own = config.algorithm.name();
        return Err(Error::input(format!("`--from` keeps a distance of `{own}`, not of `{name}`"))
            .in_file(old)
            .hint("leave out `--algorithm`"));
    }
    run::check_data(old, &config)?;
    let had_dynamics =
        config.algorithm.clone().extraction_mut().is_some_and(|it| it.name() == "ddpg-bc");
    let config = config.to_toml()?;
    let mut flags = asked.flags()?;
    flags.push(text("from", &old.display().to_string())?);
    let parse = |overrides: &[String]| RunConfig::parse(&config, overrides);
    let mut config = parse(&asked.settings(flags, parse)?)?;
    let learner = config.algorithm.name();
    if config.algorithm.teacher().is_some() && asked.extraction == Some("ddpg-bc") && !had_dynamics
    {
        return Err(Error::input(format!(
            "`{learner}` learns the dynamics that `ddpg-bc` needs together with the distance, and this \
             run has none"
        ))
        .in_file(old)
        .hint("choose `--extraction awr`, or train anew with `--extraction ddpg-bc`"));
    }
    let phases = config.algorithm.phases_mut().ok_or_else(|| {
        Error::input(format!("`{learner}` learned no distance to take a policy from"))
            .hint("choose a run of another algorithm")
    })?;
    *phases = Phases { critic_until: 0.0, policy_from: 0.0 };
    Ok(config)
}

fn default_folder(config: &RunConfig, arguments: &Train) -> PathBuf {
    let source = short_name(&config.data.source);
    let name = match &arguments.from {
        Some(old) => {
            let old = old.file_name().and_then(|name| name.to_str()).unwrap_or("run");
            format!("{old}-{}", arguments.extraction.as_deref().unwrap_or("policy"))
        }
        None => {
            let learner = arguments.algorithm.as_deref();
            format!("{source}-{}", learner.unwrap_or(config.algorithm.name()))
        }
    };
    Path::new("runs").join(name)
}

/// The last part of a source without its extension; a pattern is named without its wildcards, or by
/// its folder where nothing else is left.
fn short_name(source: &str) -> String {
    let parts = Path::new(source).with_extension("");
    let plain = |part: &std::ffi::OsStr| {
        let text = part.to_str()?.replace(['*', '?'], "");
        let text = text.trim_matches(['-', '_', '.']).to_owned();
        (!text.is_empty()).then_some(text)
    };
    parts.iter().rev().find_map(plain).unwrap_or("data".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

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
