//! The front door: the examples run, a model refuses what it cannot answer, data bring their own γ.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use isochrone::algorithms::{Config, cmd1, ddpg, gcbc};
use isochrone::engine::Threads;
use isochrone::extraction::Extraction;
use isochrone::run::{self, Conditions, Listed, OpenRun, Silent, Source, Status, files};
use isochrone::{Dataset, Error, Model, Run, RunConfig};
use tempfile::TempDir;

#[path = "../examples/own_arrays.rs"]
mod own_arrays;
#[path = "../examples/query_a_model.rs"]
mod query_a_model;
#[path = "../examples/world_and_policy.rs"]
mod world_and_policy;

#[test]
fn the_examples_run() {
    own_arrays::main().unwrap();
    query_a_model::main().unwrap();
    world_and_policy::main().unwrap();
}

/// Walks round a circle, one way.
fn walks() -> Dataset {
    let angle = |row: usize| 0.7 * (row / 30) as f32 + 0.1 * (row % 30) as f32;
    let states = (0..600).flat_map(|row| [angle(row).cos(), angle(row).sin()]).collect();
    let actions = (0..600).flat_map(|row| [-angle(row).sin(), angle(row).cos()]).collect();
    Dataset::new(states, 2, Some((actions, 2)), &[30; 20]).unwrap()
}

fn small(data: Dataset, learner: impl Into<Config>) -> Run {
    Run::on(data).learner(learner).batch_size(32).updates(6).threads(1)
}

fn refused<T>(result: isochrone::Result<T>) -> String {
    let error = result.err().unwrap();
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn one_goal_serves_all_states_and_other_numbers_of_goals_are_refused() {
    let model = small(walks(), cmd1::Config::default()).fit().unwrap().model;
    let states: Vec<f32> = walks().states()[..10].to_vec();
    let goal = [0.0, 1.0];
    let steps = model.steps(&states, &goal).unwrap();
    let each = model.steps(&states, &goal.repeat(5)).unwrap();
    assert_eq!(steps.len(), 5);
    assert!(
        steps.iter().zip(&each).all(|(one, all)| (one - all).abs() < 1e-4),
        "{steps:?} {each:?}"
    );
    assert!(steps.iter().skip(1).all(|&steps| steps > 0.0), "{steps:?}");
    assert_eq!(model.act(&states, &goal).unwrap(), model.act(&states, &goal.repeat(5)).unwrap());
    let goals = model.embed(&goal).unwrap();
    assert_eq!(model.after(&states, &[0.5; 10], &goals).unwrap().len(), 5);

    let three = [0.0; 6];
    assert!(refused(model.steps(&states, &three)).contains("3 goals for 5 states"));
    assert!(refused(model.act(&states, &three)).contains("one goal per state"));
    assert!(refused(model.steps(&states[..9], &goal)).contains("not a multiple of 2"));
    assert!(refused(model.novelty(&states[..9])).contains("not a multiple of 2"));
    assert!(refused(model.embed(&states[..9])).contains("not a multiple of 2"));
    assert!(refused(model.act(&states, &goal[..1])).contains("the goals have 1 values"));
    assert!(refused(model.after(&states, &[0.5; 4], &goals)).contains("expected 10"));
    let two = model.embed(&three[..4]).unwrap();
    assert!(refused(model.after(&states, &[0.5; 10], &two)).contains("2 goals for 5 states"));
}

#[test]
fn a_model_without_a_distance_or_a_policy_says_so() {
    let cloned = small(walks(), gcbc::Config::default()).fit().unwrap();
    assert!(refused(cloned.model.steps(&[0.0; 2], &[0.0; 2])).contains("no distance"));
    assert!(refused(cloned.planner()).contains("no distance"));
    let distance = cmd1::Config { extraction: Extraction::None, ..cmd1::Config::default() };
    let model = small(walks(), distance).fit().unwrap().model;
    assert!(refused(model.act(&[0.0; 2], &[0.0; 2])).contains("no policy"));
}

#[test]
fn data_of_the_caller_do_not_take_the_discount_and_radius_of_a_world() {
    let config = RunConfig::default();
    assert_eq!(config.data.source, "pinwheel");
    let source = Source::new(walks());
    assert_eq!(source.discount(&config), 0.99);
    assert_eq!(source.prepared(&config).unwrap().radius, None);
    let pinwheel = run::open_source(&config.data).unwrap();
    assert_eq!(pinwheel.discount(&config), 0.95);
    assert!(pinwheel.prepared(&config).unwrap().radius.is_some());
    let fitted = small(walks(), ddpg::Config::default()).fit().unwrap();
    assert_eq!(fitted.model.shape().discount, 0.99);
    assert!(fitted.success.is_none() && fitted.config.data.world().is_none());
    let fitted = small(walks(), ddpg::Config::default()).discount(0.9).fit().unwrap();
    assert_eq!(fitted.model.shape().discount, 0.9);
}

#[test]
fn what_was_trained_says_why_its_steps_are_no_steps_and_cloning_has_none() {
    let fitted = small(walks(), cmd1::Config::default()).fit().unwrap();
    let check = fitted.check(&|_, _| None).unwrap().unwrap();
    let doubt = check.doubt.unwrap();
    assert!(doubt.ends_with("where steps matter, use the learner `atlas`"), "{doubt}");
    // Its own teacher solves goals; whoever stops that is told what elapsed says.
    let (fitted, goals) = (small(walks(), Config::default()).fit().unwrap(), AtomicUsize::new(0));
    let check = |signal: Option<i32>| {
        let told = |solved, _| {
            goals.fetch_max(solved, Ordering::Relaxed);
            signal
        };
        fitted.check(&told).unwrap().unwrap().doubt.unwrap()
    };
    for doubt in [check(None), check(Some(2))] {
        assert!(doubt.ends_with("train longer or on more data"), "{doubt}");
    }
    assert!(goals.into_inner() > 0);
    let cloned = small(walks(), gcbc::Config::default()).fit().unwrap();
    assert!(cloned.check(&|_, _| None).unwrap().is_none());
}

fn bytes(model: &Model, folder: &TempDir) -> Vec<u8> {
    let path = folder.path().join("bytes.safetensors");
    model.save(&path).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn a_run_in_a_folder_is_the_run_without_one_and_resumes() {
    let folder = TempDir::new().unwrap();
    let place = folder.path().join("run");
    let fit = || small(walks(), cmd1::Config::default());
    let (free, kept) = (fit().fit().unwrap(), fit().folder(&place).fit().unwrap());
    assert_eq!(bytes(&free.model, &folder), bytes(&kept.model, &folder));
    let provenance = std::fs::read_to_string(place.join(files::PROVENANCE)).unwrap();
    assert!(provenance.contains("discount = 0.99") && provenance.contains("threads = 1"));
    assert_eq!(OpenRun::new(&place).unwrap().step, 6);
    let error = refused(OpenRun::new(&place).unwrap().source());
    assert!(error.contains("given by a program"), "{error}");
}

/// A run of few updates that stops after `step` of them.
struct Stops(u64);

impl run::Observer for Stops {
    fn updated(&mut self, step: u64, _: u64) {
        self.0 = self.0.saturating_sub(u64::from(step > 0));
    }
    fn signal(&self) -> Option<i32> {
        (self.0 == 0).then_some(2)
    }
}

fn few(
    folder: &Path,
    more: &[&str],
    observer: &mut dyn run::Observer,
) -> isochrone::Result<RunConfig> {
    few_by(Conditions::new(Some("c0ffee"), 3), folder, more, observer)
}

fn few_by(
    conditions: Conditions,
    folder: &Path,
    more: &[&str],
    observer: &mut dyn run::Observer,
) -> isochrone::Result<RunConfig> {
    let settings = [
        "algorithm.name=cmd1",
        "data.episodes=100",
        "train.steps=12",
        "train.batch_size=32",
        "evaluation.tasks=4",
        "algorithm.network.hidden=[16]",
        "algorithm.policy.network.hidden=[16]",
    ];
    let settings: Vec<String> = settings.iter().chain(more).map(ToString::to_string).collect();
    let config = RunConfig::parse("", &settings)?;
    let source = run::open_source(&config.data)?;
    run::execute(&config, &source, folder, &conditions, Threads::default(), observer)?;
    Ok(config)
}

#[test]
fn provenance_names_every_program_that_trained_a_run() {
    let folder = TempDir::new().unwrap();
    let said = || std::fs::read_to_string(folder.path().join(files::PROVENANCE)).unwrap();
    let by = |commit, threads, updates| {
        let conditions = Conditions::new(Some(commit), threads);
        few_by(conditions, folder.path(), &[], &mut Stops(updates))
    };
    assert!(by("c0ffee", 3, 4).is_err());
    let first = said();
    assert!(by("c0ffee", 2, 1).is_err());
    assert_eq!(said(), first, "other threads give the same run");
    assert!(by("decaf", 3, 1).is_err());
    assert!(by("decaf", 3, 1).is_err());
    by("c0ffee", 3, u64::MAX).unwrap();
    // A complete run is not trained again.
    by("7ea", 3, u64::MAX).unwrap();
    let added = said().strip_prefix(&first).unwrap().to_owned();
    let entry = |step: u64, commit: &str| {
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "\n[[resumed]]\nstep = {step}\nversion = \"{version}\"\ncommit = \"{commit}\"\n\
             device = \"cpu\"\n"
        )
    };
    assert_eq!(added, entry(5, "decaf") + &entry(7, "c0ffee"));
}

#[test]
fn a_stopped_run_answers_from_its_newest_checkpoint() {
    let folder = TempDir::new().unwrap();
    let stopped = few(folder.path(), &[], &mut Stops(5));
    assert!(matches!(stopped, Err(Error::Interrupted(2))));
    let opened = OpenRun::new(folder.path()).unwrap();
    assert_eq!((opened.step, opened.is_complete()), (5, false));
    let at_five = opened.model.steps(&[0.5, 0.1], &[0.9, 0.5]).unwrap();
    assert!(at_five[0].is_finite() && opened.model.has_policy());
    few(folder.path(), &[], &mut Silent).unwrap();
    let opened = OpenRun::new(folder.path()).unwrap();
    assert!(opened.is_complete());
    assert_ne!(opened.model.steps(&[0.5, 0.1], &[0.9, 0.5]).unwrap(), at_five);
}

#[test]
fn more_steps_in_the_same_folder_continue_the_run_and_fewer_are_refused() {
    let folder = TempDir::new().unwrap();
    few(folder.path(), &[], &mut Silent).unwrap();
    let first = std::fs::read(folder.path().join(files::MODEL)).unwrap();
    let error = refused(few(folder.path(), &["train.steps=7"], &mut Silent));
    assert!(error.contains("has 12 updates, 7 were asked for"), "{error}");
    // Stopped on the way, the same command resumes.
    let more = ["train.steps=20"];
    assert!(few(folder.path(), &more, &mut Stops(3)).is_err());
    assert!(!folder.path().join(files::MODEL).exists());
    few(folder.path(), &more, &mut Silent).unwrap();
    assert_eq!(run::read_config(folder.path()).unwrap().train.steps, 20);
    assert_ne!(std::fs::read(folder.path().join(files::MODEL)).unwrap(), first);
    let steps = isochrone::ledger::read(&folder.path().join(files::METRICS)).unwrap();
    assert_eq!(steps.column("step").unwrap(), [12.0, 20.0]);
    // A schedule that is the same at any length: then the longer run is the run begun longer.
    let whole = TempDir::new().unwrap();
    few(whole.path(), &more, &mut Silent).unwrap();
    let model = |folder: &TempDir| std::fs::read(folder.path().join(files::MODEL)).unwrap();
    assert_eq!(model(&folder), model(&whole));
}

#[test]
fn a_run_from_another_names_it_and_its_config_gives_it_again() {
    let folder = TempDir::new().unwrap();
    let (old, new, again) =
        (folder.path().join("old"), folder.path().join("new"), folder.path().join("again"));
    let from = format!("from='{}'", old.display());
    let held = [&*from, "algorithm.phases.critic_until=0.0", "algorithm.extraction.name=ddpg-bc"];
    assert!(few(&old, &[], &mut Stops(5)).is_err());
    let error = refused(few(&new, &held, &mut Silent));
    assert!(error.contains("step 5 of 12") && error.contains("isochrone train --out"), "{error}");
    few(&old, &[], &mut Silent).unwrap();
    few(&new, &held, &mut Silent).unwrap();
    let provenance = std::fs::read_to_string(new.join(files::PROVENANCE)).unwrap();
    let parent = format!("from = \"{}\"", old.display());
    for said in [&*parent, "from_step = 12", "commit = \"c0ffee\"", "threads = 3"] {
        assert!(provenance.contains(said), "{said}: {provenance}");
    }
    let config = RunConfig::read(&new.join(files::CONFIG), &[]).unwrap();
    assert_eq!(config.from.as_deref(), old.to_str());
    let source = run::open_source(&config.data).unwrap();
    let conditions = Conditions::default();
    run::execute(&config, &source, &again, &conditions, Threads::default(), &mut Silent).unwrap();
    let model = |folder: &Path| std::fs::read(folder.join(files::MODEL)).unwrap();
    assert_eq!(model(&new), model(&again));
}

#[test]
fn listing_runs_creates_nothing_and_calls_nothing_running() {
    let folder = TempDir::new().unwrap();
    assert!(few(folder.path(), &[], &mut Stops(5)).is_err());
    let status = |listed: Vec<Listed>| listed[0].status;
    let lock = folder.path().join(".lock");
    // Another who only looks, as a folder that cannot be written leaves no other way.
    let looking = std::fs::File::open(&lock).unwrap();
    looking.lock_shared().unwrap();
    assert_eq!(status(run::list(folder.path()).unwrap()), Status::Stopped);
    looking.unlock().unwrap();
    std::fs::remove_file(&lock).unwrap();
    assert_eq!(status(run::list(folder.path()).unwrap()), Status::Stopped);
    assert!(!lock.exists());
    let _at_work = isochrone::checkpoint::Lock::take(folder.path()).unwrap();
    assert_eq!(status(run::list(folder.path()).unwrap()), Status::Running);
}
