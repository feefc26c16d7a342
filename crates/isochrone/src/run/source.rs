//! Where a run's data come from: a world that is recorded or a file that is read, split and normalized
//! as the config says.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::config::{ActionKind, DataConfig, EvaluationConfig, RunConfig};
use super::files::{CONFIG, PROVENANCE};
use super::recording::Wanted;
use crate::collective::Collective;
use crate::data::{self, Choices, Dataset, Jumps, Loaded, Memory, Normalization};
use crate::error::{Error, Result, Tell};
use crate::evaluate::{Solved, Trajectories};
use crate::simulate::{Environment, Recording, Roads, Task, World, check_memory, roads};
use crate::spelling::question;
use crate::teacher::{self, Teacher, Terms};
use crate::train::Prepared;

/// γ where neither the config nor a world says otherwise.
const FILE_DISCOUNT: f64 = 0.99;

/// Goals that are solved to judge learned steps by.
const JUDGED_GOALS: usize = 100;

/// The data of a run and, for a world, the world itself. The world's γ and radius come from here
/// alone.
pub struct Source {
    /// All trajectories.
    pub dataset: Dataset,
    /// The world they come from.
    pub world: Option<RecordedWorld>,
    /// Other trajectories to validate on; where there are none, some of the dataset are held out.
    pub held_out: Option<Dataset>,
    /// What a user should know about the data; one sentence each.
    pub notes: Vec<String>,
}

impl Source {
    /// Trajectories alone.
    pub fn new(dataset: Dataset) -> Self {
        Self { dataset, world: None, held_out: None, notes: Vec::new() }
    }

    /// A name for the contents of the data, held-out ones included.
    ///
    /// # Errors
    /// Data that stay in a file can no longer be read.
    pub fn fingerprint(&self) -> Result<String> {
        let name = fingerprint(&self.dataset)?;
        let Some(held_out) = &self.held_out else { return Ok(name) };
        let both = name + &fingerprint(held_out)?;
        Ok(blake3::hash(both.as_bytes()).to_hex().to_string())
    }

    /// Normalized data to train and validate on, as the config says.
    ///
    /// # Errors
    /// Too few trajectories to hold some out; data that stay in a file can no longer be read.
    pub fn prepared(&self, config: &RunConfig) -> Result<Prepared> {
        let (training, validation) = match &self.held_out {
            None => self.split(config)?,
            Some(held_out) => (self.dataset.clone(), Some(held_out.clone())),
        };
        normalized(config, training, validation, self.radius())
    }

    /// The trajectories to judge the distance of a run on: those held out of its training or, where
    /// none are, those it was trained on; a sample where they stay in a file.
    ///
    /// # Errors
    /// Too few trajectories to hold some out; the file can no longer be read.
    pub fn judged_on(&self, config: &RunConfig) -> Result<Trajectories> {
        let held_out = match &self.held_out {
            None => self.split(config)?.1,
            given => given.clone(),
        };
        let dataset = held_out.as_ref().unwrap_or(&self.dataset).in_memory()?.into_owned();
        Ok(Trajectories {
            dataset,
            held_out: Some(held_out.is_some()),
            places: config.places().to_vec(),
        })
    }

    /// The trajectories to train on, and those held out by chance.
    fn split(&self, config: &RunConfig) -> Result<(Dataset, Option<Dataset>)> {
        let DataConfig { validation, seed, source, .. } = &config.data;
        self.dataset.split(*validation, *seed).map_err(|error| error.in_file(Path::new(source)))
    }

    /// The trajectories that a run learns from.
    ///
    /// # Errors
    /// Too few trajectories to hold some out; the file can no longer be read.
    pub fn learned_from(&self, config: &RunConfig) -> Result<Dataset> {
        match &self.held_out {
            None => Ok(self.split(config)?.0),
            Some(_) => Ok(self.dataset.clone()),
        }
    }

    /// Steps to judge the learned ones by, on the trajectories that a run learns from: those of its own
    /// teacher or, for learners without one, of the usual teacher where its landmarks tell single moves
    /// apart. `None` where the data do not suit it, stay in a file or are divided among processes, and
    /// where goals are places that leave out much of a state, of which a learner without a teacher
    /// knows nothing.
    ///
    /// # Errors
    /// Too few trajectories to hold some out; a signal.
    pub fn solved(&self, config: &RunConfig, tell: &Tell<'_>) -> Result<Option<Solved>> {
        let own = config.algorithm.teacher();
        let unlike = own.is_none() && !config.data.policy_goal.is_empty();
        if unlike || !self.is_here() {
            return Ok(None);
        }
        let dataset = self.learned_from(config)?;
        let settings = own.cloned().unwrap_or_default();
        let settings = teacher::Settings { goals: settings.goals.min(JUDGED_GOALS), ..settings };
        let terms = Terms {
            discount: self.discount(config),
            radius: self.radius(),
            policy_goal: &config.data.policy_goal,
            widest: if own.is_some() { f64::INFINITY } else { 1.0 },
            seed: config.evaluation.seed,
        };
        match Teacher::new(&dataset, &settings, terms, tell) {
            Ok(teacher) => {
                Ok(Some(Solved { lessons: teacher.lessons(), place: teacher.place(), dataset }))
            }
            Err(Error::Input(_) | Error::Memory(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How many recorded steps look like ends of trajectories that nobody marked; nobody looks where rows
    /// stay on disk or are divided among processes.
    pub fn unmarked_ends(&self) -> usize {
        let may_jump = |from: &[f32], to: &[f32]| {
            self.world.as_ref().is_some_and(|opened| opened.world.may_jump(from, to))
        };
        if self.is_here() { Jumps::of(&self.dataset, may_jump).suspicious } else { 0 }
    }

    /// The coordinates of a state that look like an angle that wraps; nobody looks where rows stay on disk
    /// or are divided among processes.
    pub fn wrapping_angles(&self) -> Vec<usize> {
        if self.is_here() { data::wrapping_angles(&self.dataset) } else { Vec::new() }
    }

    /// Whether this process has all rows in memory.
    fn is_here(&self) -> bool {
        self.dataset.stays_in().is_none() && !self.dataset.is_divided()
    }

    /// How near a goal counts as reached, where a world says so.
    fn radius(&self) -> Option<f64> {
        self.world.as_ref().map(|opened| opened.environment.radius())
    }

    /// γ of a run on these data: what the config says, else the world's own, else that of files.
    pub fn discount(&self, config: &RunConfig) -> f64 {
        let of_world = || self.world.as_ref().map(|opened| opened.environment.discount());
        config.discount.or_else(of_world).unwrap_or(FILE_DISCOUNT)
    }

    /// The same with its trajectories in memory: where they stay in a file, a sample of them, and a
    /// note says so.
    ///
    /// # Errors
    /// The file can no longer be read.
    pub fn sampled(mut self) -> Result<Self> {
        let sample = match self.dataset.in_memory()? {
            Cow::Borrowed(_) => return Ok(self),
            Cow::Owned(sample) => sample,
        };
        self.notes.push(format!(
            "{} of {} trajectories, drawn at random, stand for all: more do not fit into memory",
            sample.trajectories(),
            self.dataset.trajectories()
        ));
        if let Some(opened) = &mut self.world {
            // Only files are too large, and a file's trajectories are of one family.
            opened.families.truncate(sample.trajectories());
        }
        self.dataset = sample;
        Ok(self)
    }

    /// Kinds of tasks that the world asks in turn.
    pub(super) fn groups(&self) -> usize {
        self.world.as_ref().map_or(1, |opened| opened.environment.groups())
    }
}

/// A world that data were recorded in.
pub struct RecordedWorld {
    /// Which.
    pub world: World,
    /// To act in.
    pub environment: Box<dyn Environment>,
    /// The family of every trajectory.
    pub families: Vec<u8>,
    /// The families' names.
    pub family_names: Vec<String>,
}

/// Is told how many of all episodes of a world are recorded: the world's name and both numbers. None
/// are while another process records them.
pub type Recorded<'a> = &'a (dyn Fn(&str, u32, u32) + Sync);

/// Whoever is told and says nothing.
pub const UNHEARD: Recorded<'static> = &|_, _, _| {};

/// Generates a world's data or reads a file.
///
/// # Errors
/// The file cannot be read or is not what it must be.
pub fn open_source(config: &DataConfig) -> Result<Source> {
    open_told(config, UNHEARD)
}

/// As [`open_source`]; `recorded` is told how far the recording of a world is.
///
/// # Errors
/// As [`open_source`].
pub fn open_told(config: &DataConfig, recorded: Recorded<'_>) -> Result<Source> {
    open_among(config, &Collective::default(), recorded)
}

/// As [`open_told`], as one of the processes that carry `config` together: each reads and holds a
/// share of the files' rows. Where something needs all rows, every process has them.
///
/// # Errors
/// As [`open_source`].
pub fn open_shared_source(
    config: &RunConfig,
    collective: &Collective,
    recorded: Recorded<'_>,
) -> Result<Source> {
    let DataConfig { recorded_in, even, .. } = &config.data;
    let needs_all = recorded_in.is_some() || even.is_some() || config.algorithm.teacher().is_some();
    let alone = Collective::default();
    open_among(&config.data, if needs_all { &alone } else { collective }, recorded)
}

/// Refuses a name that is neither a world's nor that of a file, a folder or a pattern.
///
/// # Errors
/// There is none; a world with a similar name is asked for, else all are named. A folder that holds a
/// run instead of data.
pub fn check_source(name: &str) -> Result<()> {
    let path = Path::new(name);
    if name.parse::<World>().is_ok() {
        return Ok(());
    }
    if [CONFIG, PROVENANCE].iter().all(|file| path.join(file).is_file()) {
        return Err(Error::input("the folder holds a run, not data").in_file(path).hint(format!(
            "`isochrone train --out {name}` resumes it, `isochrone train --from {name}` learns \
             another policy from it"
        )));
    }
    if data::exists(path) {
        return Ok(());
    }
    if path.extension().is_some() || path.components().count() > 1 {
        return Err(Error::input(format!("no file called `{name}`"))
            .hint("check the path; it counts from the folder that you are in"));
    }
    let known: Vec<&str> = World::ALL.iter().map(|world| world.name()).collect();
    let all = || {
        let worlds: Vec<String> = known.iter().map(|world| format!("`{world}`")).collect();
        format!("name an .npz or .hdf5 file, a folder of them, or a world: {}", worlds.join(", "))
    };
    Err(Error::input(format!("no file and no world called `{name}`"))
        .hint(question(name, &known).unwrap_or_else(all)))
}

fn open_among(
    config: &DataConfig,
    collective: &Collective,
    recorded: Recorded<'_>,
) -> Result<Source> {
    if let Ok(world) = config.source.parse::<World>() {
        let environment = world.open();
        let count = config.episodes.unwrap_or_else(|| environment.episodes());
        check_memory(&*environment, count)?;
        let (name, seed) = (world.name(), config.seed);
        let told = |episodes| recorded(name, episodes, count);
        let record = |episodes, told: &(dyn Fn() + Sync)| {
            environment.record(seed, episodes, told).map(|made| made.recording)
        };
        let wanted = Wanted { record: &record, name, seed, count, told: &told };
        let (recording, note) = wanted.get(environment.records_slowly())?;
        let Recording { dataset, families, family_names } = recording;
        let world = RecordedWorld { world, environment, families, family_names };
        let notes = note.into_iter().collect();
        return Ok(Source { world: Some(world), notes, ..Source::new(dataset) });
    }
    if config.source == DataConfig::GIVEN {
        return Err(Error::input("the data were given by a program, not by a file or a world")
            .hint("ask the model alone, or pass the data again: `Run::on(dataset)`"));
    }
    check_source(&config.source)?;
    let path = Path::new(&config.source);
    let (dataset, mut notes, beside) = load(config, path, collective)?;
    let beside = beside.filter(|_| config.validation > 0.0);
    let held_out = match (config.held_out.as_deref(), beside) {
        (Some("none"), _) | (None, None) => None,
        (Some(path), _) => Some(PathBuf::from(path)),
        (None, Some(path)) => {
            notes.push(format!("validating on {}, found next to the data", path.display()));
            Some(path)
        }
    };
    let held_out =
        held_out.map(|path| load_held_out(config, &path, &dataset, collective)).transpose()?;
    let world = config.recorded_in.map(|world| recorded_in(world, &dataset, path)).transpose()?;
    Ok(Source { dataset, world, held_out, notes })
}

/// Trajectories of a file, what is to be said of them, and the held-out ones that lie beside it.
fn load(
    config: &DataConfig,
    path: &Path,
    collective: &Collective,
) -> Result<(Dataset, Vec<String>, Option<PathBuf>)> {
    let memory = config.memory.map_or_else(Memory::usual, Memory::of_data);
    if memory.0 == 0 {
        return Err(Error::memory("no memory is left for the data")
            .in_file(path)
            .hint("raise `--max-memory`, or free some"));
    }
    let loaded = data::load_among(path, &Choices::default(), memory, collective)?;
    let Loaded { dataset, notes, held_out, .. } = loaded;
    let dataset = match config.actions {
        ActionKind::Auto => dataset,
        ActionKind::OneHot => dataset.declared_one_hot().map_err(|error| error.in_file(path))?,
    };
    Ok((dataset, notes, held_out))
}

/// Held-out trajectories, whose states and actions must be like those of `dataset`.
fn load_held_out(
    config: &DataConfig,
    path: &Path,
    dataset: &Dataset,
    collective: &Collective,
) -> Result<Dataset> {
    let (held_out, ..) = load(config, path, collective)?;
    let sizes = |data: &Dataset| (data.state_size(), data.action_size());
    let (found, expected) = (sizes(&held_out), sizes(dataset));
    if found != expected || held_out.choices() != dataset.choices() {
        return Err(Error::input(format!(
            "held-out states and actions have {found:?} values, those trained on have {expected:?}"
        ))
        .in_file(path)
        .hint("name another file, or set `data.held_out = \"none\"`"));
    }
    Ok(held_out)
}

/// States that are compared with the places of a world.
const ASKED: usize = 200;

/// How far from every state of Roads an observation may be: five standard deviations of its noise.
const OFF_ROAD: f64 = 1.0;

/// Where the states of a world can be, by their first two coordinates.
fn places(world: World) -> Box<dyn Fn([f64; 2]) -> bool> {
    if world != World::Roads {
        return Box::new(move |place| world.is_free(place));
    }
    let roads = Roads::new(roads::SEED);
    Box::new(move |place| {
        let [x, y] = roads.state(roads.nearest(place));
        (place[0] - x).hypot(place[1] - y) <= OFF_ROAD
    })
}

/// The world that the data of a file are said to come from.
fn recorded_in(world: World, dataset: &Dataset, path: &Path) -> Result<RecordedWorld> {
    let environment = world.open();
    let found = (dataset.state_size(), dataset.action_size());
    let expected = (environment.state_size(), environment.action_size());
    if found != expected {
        return Err(Error::input(format!(
            "states and actions have {found:?} values, those of `{world}` have {expected:?}"
        ))
        .in_file(path)
        .hint("set `data.recorded_in` to the world the file was recorded in"));
    }
    let (step, mut elsewhere, mut asked) = (dataset.rows().div_ceil(ASKED), 0, 0);
    let fits = places(world);
    for row in (0..dataset.rows()).step_by(step.max(1)) {
        let state = dataset.read_state(row)?;
        elsewhere += usize::from(!fits([state[0], state[1]].map(f64::from)));
        asked += 1;
    }
    if elsewhere * 20 > asked {
        let share = 100 * elsewhere / asked;
        let place = if matches!(world, World::Maze(_)) { "in walls of" } else { "outside" };
        return Err(Error::input(format!("{share} % of the states lie {place} `{world}`"))
            .in_file(path)
            .hint("set `data.recorded_in` to the world the file was recorded in"));
    }
    let families = vec![0; dataset.trajectories()];
    Ok(RecordedWorld { world, environment, families, family_names: vec!["file".into()] })
}

/// Splits and normalizes data of no world as the config says.
///
/// # Errors
/// Too few trajectories to hold some out; data that stay in a file can no longer be read.
pub fn prepare(config: &RunConfig, dataset: &Dataset) -> Result<Prepared> {
    Source::new(dataset.clone()).prepared(config)
}

fn normalized(
    config: &RunConfig,
    training: Dataset,
    validation: Option<Dataset>,
    radius: Option<f64>,
) -> Result<Prepared> {
    let features = &config.data.features;
    features.check(training.state_size())?;
    let goal = &config.data.policy_goal;
    Normalization::check_policy_goal(goal, training.state_size())?;
    let normalization = Normalization::fit(&training, config.data.scaling)?
        .with(features.clone())
        .with_policy_goal(goal.clone())
        .with_critic_goal(config.data.critic_goal);
    let training = match &config.data.even {
        Some(law) => training.evened(law)?,
        None => training,
    };
    Ok(Prepared { training, validation, normalization, radius })
}

/// The task set of a world: fixed by the evaluation's seed.
///
/// # Errors
/// The world finds no such tasks in the data.
pub fn tasks(config: &RunConfig, source: &Source) -> Result<Vec<Task>> {
    match &source.world {
        Some(opened) => {
            let EvaluationConfig { seed, tasks, .. } = config.evaluation;
            opened.environment.tasks(seed, tasks, &source.dataset)
        }
        None => Ok(Vec::new()),
    }
}

/// A name for the contents of a dataset: 64 digits that change with any number or boundary in it.
///
/// # Errors
/// Data that stay in a file can no longer be read.
pub(super) fn fingerprint(dataset: &Dataset) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    let mut number = |value: usize| {
        hasher.update(&(value as u64).to_le_bytes());
    };
    [dataset.rows(), dataset.state_size(), dataset.action_size(), dataset.trajectories()]
        .into_iter()
        .chain(dataset.lengths())
        .for_each(&mut number);
    let mut add = |values: &[f32]| {
        for chunk in values.chunks(1 << 14) {
            let bytes = chunk.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
            hasher.update(&bytes);
        }
        Ok(())
    };
    dataset.each_states(&mut add)?;
    dataset.each_actions(&mut add)?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_episode_is_told_of() {
        let told = std::sync::Mutex::new(Vec::new());
        let config =
            DataConfig { source: "roads".into(), episodes: Some(3), ..DataConfig::default() };
        let recorded = |world: &str, episodes, of| {
            told.lock().unwrap().push((world.to_owned(), episodes, of));
        };
        open_told(&config, &recorded).unwrap();
        let mut told = told.into_inner().unwrap();
        told.sort();
        assert_eq!(told, [1, 2, 3].map(|episode| ("roads".to_owned(), episode, 3)));
    }

    #[test]
    fn a_world_whose_walls_hold_the_states_is_not_the_one_they_were_recorded_in() {
        use crate::simulate::maze::{Map, Maze};
        let world: World = "pointmaze-medium-navigate".parse().unwrap();
        let maze = Maze::new(Map::Medium);
        let of = |cells: Vec<crate::simulate::maze::Cell>| {
            let rows = cells.len();
            let states = cells.into_iter().flat_map(Maze::centre).map(|x| x as f32).collect();
            let dataset = Dataset::new(states, 2, Some((vec![0.0; 2 * rows], 2)), &[rows]);
            recorded_in(world, &dataset.unwrap(), Path::new("a.npz")).map(drop)
        };
        of(maze.free()).unwrap();
        let error = of(maze.walls().collect()).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(
            text.contains("100 % of the states lie in walls") && text.contains("a.npz"),
            "{text}"
        );
        let few = maze.free().repeat(40).into_iter().chain(maze.walls().take(3)).collect();
        of(few).unwrap();
    }

    #[test]
    fn states_outside_the_pinwheel_or_off_the_roads_were_recorded_elsewhere() {
        let of = |world: World, dataset: &Dataset| {
            let end = recorded_in(world, dataset, Path::new("a.npz")).map(drop);
            end.map_err(|error| error.to_string())
        };
        let [pinwheel, roads] =
            [World::Pinwheel, World::Roads].map(|world| world.open().generate(1).unwrap().dataset);
        of(World::Pinwheel, &pinwheel).unwrap();
        of(World::PinwheelShortcut, &pinwheel).unwrap();
        of(World::Roads, &roads).unwrap();
        let error = of(World::Pinwheel, &roads).unwrap_err();
        assert!(error.contains("% of the states lie outside `pinwheel`"), "{error}");
        assert!(error.contains("a.npz"), "{error}");
        let far = (0..200).map(|at| 40.0 + at as f32).collect();
        let far = Dataset::new(far, 2, Some((vec![0.0; 200], 2)), &[100]).unwrap();
        let error = of(World::Roads, &far).unwrap_err();
        assert!(error.contains("100 % of the states lie outside `roads`"), "{error}");
        let wide = Dataset::new(vec![0.5; 30], 3, Some((vec![0.0; 20], 2)), &[10]).unwrap();
        for world in [World::Pinwheel, World::Roads] {
            let error = of(world, &wide).unwrap_err();
            assert!(error.contains("(3, 2)") && error.contains("(2, 2)"), "{error}");
        }
    }

    #[test]
    fn a_fingerprint_changes_with_every_number_and_every_boundary() {
        let states = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let of = |states: &[f32], size, actions: Option<(Vec<f32>, usize)>, lengths: &[usize]| {
            fingerprint(&Dataset::new(states.to_vec(), size, actions, lengths).unwrap()).unwrap()
        };
        let mut seen = vec![
            of(&states, 1, None, &[3, 3]),
            of(&states, 1, None, &[2, 4]),
            of(&states, 1, None, &[6]),
            of(&states, 2, None, &[3]),
            of(&states, 1, Some((vec![0.5; 6], 1)), &[6]),
            of(&[1.0, 2.0, 3.0, 4.0, 5.0, 7.0], 1, None, &[6]),
        ];
        assert_eq!(seen[0], of(&states, 1, None, &[3, 3]));
        assert!(seen.iter().all(|digits| digits.len() == 64));
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 6);
    }
}
