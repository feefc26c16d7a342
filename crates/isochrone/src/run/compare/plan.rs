//! From words to runs: every combination is resolved and checked before the first run begins.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use super::Sheet;
use super::agreement::{agree, extraction, runs};
use super::entry::{LearnerEntry, distinct, entries};
use crate::data::{Dataset, available, rounded};
use crate::engine::Threads;
use crate::error::{Error, Result};
use crate::evaluate::ExactSteps;
use crate::run::presets::form;
use crate::run::{DataConfig, Recorded, RunConfig, Source, UNHEARD, open_told, tuned};
use crate::simulate::World;
use crate::spelling::nearest;
use crate::train::Trainer;

/// Evaluations during a run whose config asks for none.
const EVALUATIONS: u64 = 8;

/// Which policy extractions are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// That of the preset or of the learner's defaults.
    Default,
    /// Advantage-weighted regression.
    Awr,
    /// Descent of the distance, with behavioural cloning.
    DdpgBc,
    /// All that fit the learner.
    Both,
}

impl Choice {
    const NAMES: [&'static str; 4] = ["default", "awr", "ddpg-bc", "both"];

    /// The extractions to set; none means the config's own.
    fn variants(self) -> &'static [Option<&'static str>] {
        match self {
            Self::Default => &[None],
            Self::Awr => &[Some("awr")],
            Self::DdpgBc => &[Some("ddpg-bc")],
            Self::Both => &[Some("awr"), Some("ddpg-bc")],
        }
    }
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "default" => Ok(Self::Default),
            "awr" => Ok(Self::Awr),
            "ddpg-bc" => Ok(Self::DdpgBc),
            "both" => Ok(Self::Both),
            _ => Err(Error::input(format!("unknown extraction `{name}`"))
                .hint(nearest(name, &Self::NAMES))),
        }
    }
}

/// What to compare, as text.
#[derive(Debug, Clone)]
pub struct Request {
    /// Names of worlds.
    pub worlds: Vec<String>,
    /// Names of learners or paths of configs (.toml), each optionally followed by settings after colons
    /// (`cmd1:train.batch_size=1024`); `all` means every learner.
    pub algorithms: Vec<String>,
    /// How policies are extracted from distances.
    pub extraction: Choice,
    /// Seeds per combination, counted up from the config's; the seeds of data and tasks count along.
    pub seeds: u64,
    /// `key=value` settings for every run.
    pub overrides: Vec<String>,
    /// Whether final models are also evaluated with the graph planner.
    pub planner: bool,
    /// The settings of learners and worlds, in place of presets and defaults.
    pub sheet: Option<Sheet>,
}

/// One run of a comparison.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its config.
    pub config: RunConfig,
    /// Its folder.
    pub folder: PathBuf,
}

/// The runs of a comparison and the data they learn from.
pub struct Plan {
    /// The runs: all combinations with the first seed, then those with the next.
    pub jobs: Vec<Job>,
    /// Combinations of [`Choice::Both`] that are left out, and why.
    pub left_out: Vec<String>,
    /// Whether final models are also evaluated with the graph planner.
    pub planner: bool,
    sources: Vec<(DataConfig, Source)>,
    /// Exact steps of worlds with a referee, each solved once.
    pub(super) exact: Mutex<Vec<(ExactKey, Arc<Vec<ExactSteps>>)>>,
}

/// What exact steps depend on: recording, discount (its bits) and evaluation seed.
pub(super) type ExactKey = (String, u64, Option<u32>, u64, u64);

/// One combination of world, learner and extraction.
struct Combination {
    config: RunConfig,
    folder: PathBuf,
}

impl Plan {
    /// Resolves `request` into runs below `out` as [`list`](Self::list) does, and opens the data of all
    /// of them.
    ///
    /// # Errors
    /// As [`list`](Self::list); data of all seeds that do not fit into memory.
    pub fn new(request: &Request, out: &Path, recorded: Recorded<'_>) -> Result<Self> {
        let mut plan = Self::list(request, out, recorded)?;
        let one_recording = request.sheet.as_ref().is_some_and(|sheet| sheet.one_recording);
        plan.check_memory(if one_recording { 1 } else { request.seeds })?;
        for at in 0..plan.jobs.len() {
            let data = plan.jobs[at].config.data.clone();
            plan.open(&data, recorded)?;
        }
        Ok(plan)
    }

    /// The plan of a single run that a comparison listed.
    ///
    /// # Errors
    /// Its data cannot be read.
    pub fn of_one(job: Job, planner: bool) -> Result<Self> {
        let mut plan = Self::empty(planner);
        plan.open(&job.config.data, UNHEARD)?;
        plan.jobs.push(job);
        Ok(plan)
    }

    fn empty(planner: bool) -> Self {
        Self {
            jobs: Vec::new(),
            left_out: Vec::new(),
            planner,
            sources: Vec::new(),
            exact: Mutex::default(),
        }
    }

    /// Resolves `request` into runs below `out`, with the preset of the world and the learner if there
    /// is one, else with the learner's defaults. Only the data of the first seeds are opened.
    ///
    /// # Errors
    /// Unknown names, settings that do not fit, or a folder with runs of another config.
    pub fn list(request: &Request, out: &Path, recorded: Recorded<'_>) -> Result<Self> {
        RunConfig::default().seeds(request.seeds)?;
        let worlds = distinct(&request.worlds);
        let worlds: Vec<World> =
            worlds.iter().map(|name| name.parse()).collect::<Result<Vec<_>>>()?;
        let entries = entries(&request.algorithms)?;
        let mut plan = Self::empty(request.planner);
        let mut combinations: Vec<Combination> = Vec::new();
        for &world in &worlds {
            for entry in &entries {
                for found in plan.combine(request, (world, entry), out, recorded)? {
                    if combinations.iter().any(|other| other.folder == found.folder) {
                        return Err(Error::input("two learners have the same name")
                            .in_file(&found.folder)
                            .hint("give the config's file another name"));
                    }
                    match combinations.iter().find(|other| other.config == found.config) {
                        None => {}
                        // A form of a learner is one of its own only where it was tuned.
                        Some(_) if request.algorithms.iter().any(|name| name == "all") => continue,
                        Some(other) => {
                            return Err(Error::input(format!(
                                "the same config as `{}`: both would train the same runs",
                                other.folder.display()
                            ))
                            .in_file(&found.folder)
                            .hint("leave one of the two out, or give it settings of its own"));
                        }
                    }
                    combinations.push(found);
                }
            }
        }
        let one_recording = request.sheet.as_ref().is_some_and(|sheet| sheet.one_recording);
        let job = |seed: u64, combination: &Combination| {
            let mut config = combination.config.clone();
            config.seed += seed;
            config.data.seed += if one_recording { 0 } else { seed };
            config.evaluation.seed += seed;
            let folder = combination.folder.join(format!("seed-{}", config.seed));
            Job { config, folder }
        };
        let jobs = (0..request.seeds)
            .flat_map(|seed| combinations.iter().map(move |combination| job(seed, combination)));
        plan.jobs = jobs.collect();
        plan.jobs.iter().try_for_each(|job| job.config.check())?;
        plan.check_folder(out)?;
        Ok(plan)
    }

    /// The data that `config` learns from.
    pub(super) fn source(&self, config: &RunConfig) -> Option<&Source> {
        let same = |(data, _): &&(DataConfig, Source)| recording(data) == recording(&config.data);
        self.sources.iter().find(same).map(|(_, source)| source)
    }

    /// The extractions of one learner in one world, each checked against the data.
    fn combine(
        &mut self,
        request: &Request,
        (world, entry): (World, &LearnerEntry),
        out: &Path,
        recorded: Recorded<'_>,
    ) -> Result<Vec<Combination>> {
        let label = entry.label();
        let place = out.join(world.name());
        let given: Vec<String> = request.overrides.iter().chain(&entry.settings).cloned().collect();
        // Settings for the requested extraction need not fit that of the preset.
        let fitting = if request.extraction == Choice::Default { &given[..] } else { &[] };
        let bare = resolve(request, world, entry, None, fitting)
            .map_err(|error| error.in_file(&place.join(&label)))?;
        let own = [None];
        let variants = match extraction(&bare)? {
            Some(_) => request.extraction.variants(),
            // A learner with its own policy is listed once, whatever the extraction.
            None => &own[..],
        };
        let mut found = Vec::new();
        let mut refused = None;
        for &variant in variants {
            let folder =
                match variant.map_or_else(|| extraction(&bare), |it| Ok(Some(it.into())))? {
                    Some(extraction) => place.join(format!("{label}-{extraction}")),
                    None => place.join(&label),
                };
            let resolved = resolve(request, world, entry, variant, &given).and_then(with_policy);
            if let Ok(config) = &resolved {
                self.open(&config.data, recorded)?;
            }
            let fitting = resolved.and_then(|config| self.fit(&config).map(|()| config));
            match fitting.map_err(|error| error.in_file(&folder)) {
                Ok(config) => found.push(Combination { config, folder }),
                Err(error @ Error::Input(_)) if variants.len() > 1 => {
                    self.left_out.push(error.to_string());
                    refused = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        match refused {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    /// Opens the data unless they are open already.
    fn open(&mut self, data: &DataConfig, recorded: Recorded<'_>) -> Result<()> {
        let known = |(other, _): &(DataConfig, Source)| recording(other) == recording(data);
        if !self.sources.iter().any(known) {
            self.sources.push((data.clone(), open_told(data, recorded)?));
        }
        Ok(())
    }

    /// Checks that `seeds` times the data that are open fit into memory.
    fn check_memory(&self, seeds: u64) -> Result<()> {
        let size = |data: &Dataset| data.rows() * (data.state_size() + data.action_size()) * 4;
        let bytes: usize = self.sources.iter().map(|(_, source)| size(&source.dataset)).sum();
        let bytes = (bytes as u64).saturating_mul(seeds - 1);
        if available().is_some_and(|free| bytes > free) {
            let (size, count) = (rounded(bytes), seeds);
            return Err(Error::memory(format!(
                "the data of {count} seeds take {size}, which do not fit into memory"
            ))
            .hint("compare fewer seeds with `--seeds`, or shorter recordings: `data.episodes`"));
        }
        Ok(())
    }

    /// Checks that a run of `config` could start.
    fn fit(&self, config: &RunConfig) -> Result<()> {
        let Some(source) = self.source(config) else { return Ok(()) };
        let data = source.prepared(config)?;
        let (seed, discount) = (config.seed, source.discount(config));
        let threads = Threads::default();
        // Whether it could start shows when a teacher solves a single goal.
        let mut algorithm = config.algorithm.clone();
        if let Some(teacher) = algorithm.teacher_mut() {
            teacher.goals = 1;
        }
        Trainer::new(&algorithm, &config.train, &data, discount, seed, threads).map(drop)
    }

    /// Checks that the runs already in `out` belong to the same comparison.
    fn check_folder(&self, out: &Path) -> Result<()> {
        let mut all = if out.exists() { runs(out)? } else { Vec::new() };
        all.extend(self.jobs.iter().map(|job| (job.folder.clone(), job.config.clone())));
        agree(&all)
    }
}

/// Refuses a config that learns no policy.
fn with_policy(config: RunConfig) -> Result<RunConfig> {
    if extraction(&config)?.as_deref() == Some("none") {
        return Err(Error::input("extraction `none` learns no policy to compare")
            .hint("choose `awr` or `ddpg-bc`"));
    }
    Ok(config)
}

/// What determines the recorded data of a config.
pub(super) fn recording(data: &DataConfig) -> (&str, u64, Option<u32>) {
    (&data.source, data.seed, data.episodes)
}

/// The config of the first seed of a combination, with the `key=value` settings `given`.
fn resolve(
    request: &Request,
    world: World,
    entry: &LearnerEntry,
    extraction: Option<&str>,
    given: &[String],
) -> Result<RunConfig> {
    let (name, is_file) = (entry.learner.as_str(), entry.is_file());
    let (learner, made) = form(name);
    let mut settings = vec![format!("data.source=\"{world}\"")];
    // Presets know forms by their names; sheets have their own settings.
    if request.sheet.is_some() {
        settings.push(format!("algorithm.name=\"{learner}\""));
        settings.extend(made.map(str::to_owned));
    } else if !is_file {
        settings.push(format!("algorithm.name=\"{name}\""));
    }
    if let Some(extraction) = extraction {
        settings.push(format!("algorithm.extraction.name=\"{extraction}\""));
    }
    settings.extend_from_slice(given);
    let mut config = match &request.sheet {
        _ if is_file => RunConfig::read(Path::new(name), &settings)?,
        Some(sheet) => RunConfig::parse(&sheet.config(world, name)?, &settings)?,
        None => tuned(&settings)?,
    };
    let chosen = config.data.world() == Some(world)
        && (is_file || config.algorithm.name() == learner)
        && extraction.is_none_or(
            |wanted| matches!(self::extraction(&config), Ok(Some(found)) if found == wanted),
        );
    if !chosen {
        return Err(Error::input("a setting changes what is compared").hint(
            "worlds, learners and extractions are chosen with `--world`, `--algorithm` and \
             `--extraction`",
        ));
    }
    let says = |setting: &String| setting.trim_start().starts_with("train.evaluate_every");
    if config.train.evaluate_every == 0 && !given.iter().any(says) {
        config.train.evaluate_every = config.train.steps.div_ceil(EVALUATIONS);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(request: &Request) -> Result<Plan> {
        Plan::new(request, Path::new("out"), UNHEARD)
    }

    fn request(algorithms: &[&str], extraction: Choice, overrides: &[&str]) -> Request {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Request {
            worlds: words(&["pinwheel", "pinwheel"]),
            algorithms: words(algorithms),
            extraction,
            seeds: 2,
            overrides: words(overrides),
            planner: false,
            sheet: None,
        }
    }

    fn folders(plan: &Plan) -> Vec<String> {
        let short = |job: &Job| job.folder.strip_prefix("out").unwrap().display().to_string();
        plan.jobs.iter().map(short).collect()
    }

    #[test]
    fn every_combination_is_a_run_of_its_own_with_the_preset_where_there_is_one() {
        let mut wanted = request(&["cmd2", "cmd1", "cmd2"], Choice::Default, &["seed=7"]);
        wanted.worlds.push("roads".into());
        let plan = planned(&wanted).unwrap();
        let mut expected = Vec::new();
        for seed in [7, 8] {
            for (world, name) in [
                (World::Pinwheel, "cmd2"),
                (World::Pinwheel, "cmd1"),
                (World::Roads, "cmd2"),
                (World::Roads, "cmd1"),
            ] {
                let settings = [
                    format!("algorithm.name={name}"),
                    format!("data.source={world}"),
                    format!("seed={seed}"),
                ];
                let tuned = crate::run::preset(world, name, None);
                let mut config = RunConfig::parse(tuned, &settings).unwrap();
                // Nothing else is changed but that curves need evaluations.
                if config.train.evaluate_every == 0 {
                    config.train.evaluate_every = config.train.steps / EVALUATIONS;
                }
                config.data.seed += seed - 7;
                config.evaluation.seed += seed - 7;
                let extraction = extraction(&config).unwrap().unwrap();
                expected.push((config, format!("{world}/{name}-{extraction}/seed-{seed}")));
            }
        }
        let configs = plan.jobs.iter().map(|job| job.config.clone());
        assert_eq!(configs.zip(folders(&plan)).collect::<Vec<_>>(), expected);
        assert_eq!(expected[0].1, "pinwheel/cmd2-awr/seed-7", "the preset's own extraction");
        let quiet = request(&["cmd1"], Choice::Default, &["train.evaluate_every=0"]);
        let plan = planned(&quiet).unwrap();
        assert!(plan.jobs.iter().all(|job| job.config.train.evaluate_every == 0));
    }

    #[test]
    fn a_sheet_has_the_last_word_on_settings_and_may_keep_one_recording() {
        let sheet = Sheet::parse(
            "title = ''\nworlds = ['pinwheel']\nalgorithms = ['cmd1', 'gcbc']\nseeds = 2\n\
             one_recording = true\n[settings]\ntrain.steps = 33\n\
             [learner.cmd1]\nalgorithm.temperature = 2.0",
        );
        let sheet = sheet.unwrap();
        let mut wanted = request(&["cmd1", "gcbc"], Choice::Default, &["seed=7"]);
        wanted.sheet = Some(sheet);
        let plan = planned(&wanted).unwrap();
        assert_eq!(folders(&plan)[..2], ["pinwheel/cmd1-awr/seed-7", "pinwheel/gcbc/seed-7"]);
        for (at, job) in plan.jobs.iter().enumerate() {
            let seed = 7 + at as u64 / 2;
            let config = &job.config;
            assert_eq!(
                (config.seed, config.data.seed, config.evaluation.seed),
                (seed, 0, seed + 993)
            );
            assert_eq!(config.train.steps, 33, "no preset");
            let own = config.to_toml().unwrap().contains("temperature = 2.0");
            assert_eq!(own, config.algorithm.name() == "cmd1");
        }
    }

    #[test]
    fn of_both_extractions_those_that_fit_are_compared_and_one_that_was_named_is_refused() {
        let plan = planned(&request(&["cmd1"], Choice::Both, &["seed=0"]));
        let plan = plan.unwrap();
        assert_eq!(
            folders(&plan)[..2],
            ["pinwheel/cmd1-awr/seed-0", "pinwheel/cmd1-ddpg-bc/seed-0"]
        );
        // A preset's own extraction keeps its tuned weight; another begins with its defaults.
        let text = |job: &Job| job.config.to_toml().unwrap();
        assert!(text(&plan.jobs[1]).contains("cloning_weight = 0.03"));
        let state = ["algorithm.critic=state"];
        let plan = planned(&request(&["cmd1"], Choice::Both, &state)).unwrap();
        assert_eq!((plan.jobs.len(), plan.left_out.len()), (2, 1));
        assert!(plan.left_out[0].contains("`ddpg-bc` needs"), "{:?}", plan.left_out);
        let alone = planned(&request(&["cmd1"], Choice::DdpgBc, &state));
        assert!(alone.is_err_and(|error| error.to_string().contains("out/pinwheel/cmd1-ddpg-bc")));
    }

    #[test]
    fn a_config_is_named_after_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let variant = folder.path().join("warmer.toml");
        let text = "[algorithm]\nname = \"cmd1\"\ntemperature = 2.0\n";
        std::fs::write(&variant, text).unwrap();
        let variant = variant.to_str().unwrap();
        let plan = planned(&request(&[variant], Choice::Default, &[])).unwrap();
        assert_eq!(folders(&plan), ["pinwheel/warmer-awr/seed-0", "pinwheel/warmer-awr/seed-1"]);
        assert!(plan.jobs[1].config.to_toml().unwrap().contains("temperature = 2.0"));
        let same = folder.path().join("cmd1.toml");
        std::fs::write(&same, text).unwrap();
        let twice = request(&["cmd1", same.to_str().unwrap()], Choice::Awr, &[]);
        let error = planned(&twice).err().unwrap().to_string();
        assert!(error.contains("two learners have the same name"), "{error}");
    }

    #[test]
    fn a_variant_without_a_preset_begins_from_that_of_its_learner() {
        let mut wanted = request(&["crl", "crl-nce"], Choice::Default, &[]);
        wanted.worlds = vec!["roads".into()];
        let plan = planned(&wanted).unwrap();
        let [crl, nce] = [0, 1].map(|at| plan.jobs[at].config.to_toml().unwrap());
        assert_eq!(crl.replace("contrast = \"cpc\"", "contrast = \"nce\""), nce);
    }

    #[test]
    fn settings_behind_a_colon_make_a_variant_with_a_row_of_its_own() {
        let words = ["cmd2", "cmd2:train.batch_size=64:algorithm.targets=\"raw\""];
        let plan = planned(&request(&words, Choice::Awr, &["seed=3"])).unwrap();
        let variant = "pinwheel/cmd2+train.batch_size=64+targets=raw-awr/seed-3";
        assert_eq!(folders(&plan)[..2], ["pinwheel/cmd2-awr/seed-3", variant]);
        let different = plan.jobs[0].config.differences(&plan.jobs[1].config).unwrap();
        assert_eq!(different, ["algorithm.targets", "train.batch_size"]);
        for (word, known) in [("cmd3:seed=1", "cmd1"), ("cmd2:train.batch=64", "batch_size")] {
            let error = planned(&request(&[word], Choice::Awr, &[]));
            let error = error.err().unwrap();
            assert!(error.to_string().contains(known), "{error}");
        }
        // The preset of CMD-2 descends the distance; the key is one of the other extraction.
        let warmer =
            request(&["cmd2:algorithm.extraction.inverse_temperature=5"], Choice::Awr, &[]);
        assert_eq!(planned(&warmer).unwrap().jobs.len(), 2);
        let other = request(&["cmd2:algorithm.name=\"cmd1\""], Choice::Awr, &[]);
        assert!(planned(&other).is_err());
    }
}
