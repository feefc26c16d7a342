//! `isochrone plan`: a path from one state to another over recorded states.

use std::path::PathBuf;

use isochrone::data::{Dataset, LARGEST};
use isochrone::plan::{Distance, Doubts, Gap, Path, PathEnding};
use isochrone::report::pictures;
use isochrone::run::{Ends, LastCheck, OpenRun, Plane, Source};
use isochrone::simulate::Referee;
use isochrone::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::flags::Nodes;
use crate::opened::{data_of, open_run, sampled};
use crate::output::{drawn, say, say_json};
use crate::progress::{Spinner, waiting};
use crate::{examiner, wording};

/// Learned and recorded steps disagree beyond this factor and this many steps.
const FACTOR: f32 = 1.5;
const SLACK: f32 = 5.0;

/// Plan a path between two states with the distance of a run
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone plan runs/demo/atlas --start 0.2,0.1 --goal 0.31,0.69
  isochrone plan runs/pinwheel-cmd1 --start 0.5,0.1 --goal 0.9,0.5 --planner greedy --json")]
pub struct Plan {
    /// A run's folder
    run: PathBuf,
    /// The start: values separated by commas
    #[arg(long, value_name = "X,Y", allow_hyphen_values = true)]
    start: String,
    /// The goal, likewise
    #[arg(long, value_name = "X,Y", allow_hyphen_values = true)]
    goal: String,
    /// The planner that finds the path
    #[arg(long, value_enum, default_value_t = Planner::Graph)]
    planner: Planner,
    #[command(flatten)]
    nodes: Nodes,
    /// Do not draw plan.svg and plan.png
    #[arg(long)]
    no_pictures: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a path is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Planner {
    /// The shortest path along recorded steps
    Graph,
    /// Move to the best data state nearby, again and again
    Greedy,
}

/// What a plan prints.
#[derive(Serialize)]
pub struct Report {
    run: PathBuf,
    planner: Planner,
    start: End,
    goal: End,
    path: Path,
    /// The learned steps left at each state of the path.
    left: Vec<f32>,
    /// The trajectories it borrows from, with their families if they have any.
    borrowed: Vec<Borrowed>,
    /// What speaks against following it.
    doubts: Doubts,
    /// What the last check of the run said of its learned steps, if there was one.
    judged: Option<LastCheck>,
    pictures: Vec<PathBuf>,
}

/// A start or a goal, and how far it is from the data.
#[derive(Serialize)]
struct End {
    state: Vec<f32>,
    /// In typical spacings of data states.
    spacings: f32,
    words: String,
    /// How many values were given, if the others are those of a data state.
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<usize>,
}

impl End {
    fn new(state: Vec<f32>, spacings: f32, given: Option<usize>) -> Self {
        Self { state, spacings, words: wording::novelty(spacings), given }
    }

    fn line(&self) -> String {
        let filled = self.given.map_or(String::new(), |given| {
            let more = self.state.len() - given;
            format!("; {more} values were not given and are those of the nearest data state")
        });
        format!("{}: {}{filled}", wording::state(&self.state), self.words)
    }
}

#[derive(Serialize)]
struct Borrowed {
    trajectory: usize,
    family: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &Plan) -> Result<()> {
    let report = waiting("plan", |spinner| plan(arguments, spinner))?;
    if arguments.json { say_json(&report) } else { tell(&report) }
}

fn plan(arguments: &Plan, spinner: &Spinner) -> Result<Report> {
    let mut opened = open_run(&arguments.run)?;
    arguments.nodes.apply(&mut opened.config);
    let model = &opened.model;
    let size = model.shape().state_size;
    let start = coordinates("start", &arguments.start, size)?;
    let goal = coordinates("goal", &arguments.goal, size)?;
    let source = sampled(data_of(&opened, &|note| spinner.note(note))?)?;
    let ends = [completed(start, &source.dataset)?, completed(goal, &source.dataset)?];
    let graph = opened.graph(&source.dataset)?;
    let (start, goal) = (&ends[0].0, &ends[1].0);
    let path = match arguments.planner {
        Planner::Graph => graph.path(start, goal)?,
        Planner::Greedy => examiner::greedy(model, &source, &graph)?.path(start, goal)?,
    };
    let pictures = if arguments.no_pictures {
        Vec::new()
    } else {
        drawn(draw(&opened, &source, &path, goal))?
    };
    let report = Report::new(&opened, &source, arguments.planner, ends, path)?;
    Ok(Report { pictures, ..report })
}

impl Report {
    /// What there is to say about `path`, found by `planner` between two ends.
    ///
    /// # Errors
    /// A learned distance that cannot be asked.
    pub fn new(
        opened: &OpenRun,
        source: &Source,
        planner: Planner,
        [start, goal]: [Completed; 2],
        path: Path,
    ) -> Result<Self> {
        let model = &opened.model;
        let left = model.steps(&path.states.concat(), &goal.0)?;
        let families = source.world.as_ref();
        let borrow = |&trajectory: &usize| Borrowed {
            trajectory,
            family: families
                .map(|world| world.family_names[usize::from(world.families[trajectory])].clone()),
        };
        Ok(Self {
            run: opened.folder.clone(),
            planner,
            start: End::new(start.0, path.novelty.start, start.1),
            goal: End::new(goal.0, path.novelty.goal, goal.1),
            left,
            borrowed: path.trajectories.iter().map(borrow).collect(),
            doubts: Doubts::of(&path, &source.dataset, &model.places())?,
            judged: LastCheck::read(&opened.folder, model),
            path,
            pictures: Vec::new(),
        })
    }

    /// What speaks against following the plan, a sentence each.
    pub fn cautions(&self) -> Vec<String> {
        cautions(&self.doubts, &self.path)
    }
}

/// How many leading values of a state are enough to name it: its place.
const PLACE: usize = 2;

/// A whole state, and how many of its values were given if some were missing.
pub type Completed = (Vec<f32>, Option<usize>);

/// A whole state from its first values: the others are those of the data state that is nearest in the
/// given ones.
///
/// # Errors
/// The data can no longer be read.
pub fn completed(mut state: Vec<f32>, dataset: &Dataset) -> Result<Completed> {
    let given = state.len();
    if given == dataset.state_size() {
        return Ok((state, None));
    }
    let nearest = dataset.read_state(dataset.nearest(&state)?)?;
    state.extend_from_slice(&nearest[given..]);
    Ok((state, Some(given)))
}

/// The values of a state given as text, all of them or the first few.
fn coordinates(name: &str, text: &str, size: usize) -> Result<Vec<f32>> {
    let places = ["x", "y", "z"];
    let example = match size {
        0..=3 => places[..size].join(","),
        _ => format!("x1,x2,…,x{size}"),
    };
    let numbers: std::result::Result<Vec<f32>, _> =
        text.split(',').map(|number| number.trim().parse::<f32>()).collect();
    let numbers =
        numbers.ok().filter(|numbers| numbers.iter().all(|number| number.abs() <= LARGEST));
    let Some(numbers) = numbers else {
        return Err(Error::input(format!(
            "`--{name}` is `{text}`, expected numbers separated by commas, none above 1e18 in size"
        ))
        .hint(format!("write `--{name} {example}`")));
    };
    if !names_a_state(numbers.len(), size) {
        return Err(Error::input(format!(
            "`--{name}` has `{}` values, states of the run have `{size}`",
            numbers.len()
        ))
        .hint(format!("write `--{name} {example}`")));
    }
    Ok(numbers)
}

/// Whether so many values are a state of `size` values, or enough to name one.
pub fn names_a_state(given: usize, size: usize) -> bool {
    given == size || (PLACE..size).contains(&given)
}

/// Draws the path over the distance; nothing unless states have two values.
fn draw(opened: &OpenRun, source: &Source, path: &Path, goal: &[f32]) -> Result<Vec<PathBuf>> {
    let Some(plane) = Plane::of(source) else { return Ok(Vec::new()) };
    let ends = Ends { start: [path.states[0][0], path.states[0][1]], goal: [goal[0], goal[1]] };
    let states: &[Vec<f32>] = if path.states.len() > 1 { &path.states } else { &[] };
    let discount = opened.model.shape().discount;
    let pinwheel = source.world.as_ref().filter(|opened| opened.world.pinwheel().is_some());
    let referee = pinwheel.map(|opened| Referee::of(opened.world, &source.dataset, discount));
    let referee = referee.transpose()?.flatten();
    let panel =
        plane.panel(&opened.model, &wording::algorithm(&opened.config), ends.goal, states)?;
    let picture = plane.isochrones(vec![panel], ends, referee.as_ref())?;
    let target = opened.folder.join("plan");
    pictures::isochrones(&picture, &target)?;
    Ok(vec![target.with_extension("svg"), target.with_extension("png")])
}

fn tell(report: &Report) -> Result<()> {
    let path = &report.path;
    say(&format!("start     {}", report.start.line()))?;
    say(&format!("goal      {}", report.goal.line()))?;
    let states = wording::counted(path.states.len() as u64, "state", "states");
    match &path.ending {
        PathEnding::NoPath { why } => say(&format!("path      none: {why}"))?,
        PathEnding::Arrived => say(&format!(
            "path      {states}, {:.1} learned steps along it, {:.1} asked for directly",
            path.steps, path.direct
        ))?,
        PathEnding::LocalMinimum { why } | PathEnding::OutOfMoves { why } => {
            say(&format!("path      ends short of the goal after {states}: {why}"))?;
        }
    }
    if let Some(recorded) = path.recorded {
        let steps = wording::counted(recorded as u64, "step", "steps");
        say(&format!("recorded  {steps}{}", borrowed(&report.borrowed)))?;
    }
    if path.states.len() > 1 {
        let states: Vec<String> = path.states.iter().map(|state| wording::state(state)).collect();
        let width = states.iter().map(|state| state.chars().count()).max().unwrap_or(0);
        for (state, left) in states.iter().zip(&report.left) {
            say(&format!("          {state:width$}  {left:6.1} steps left"))?;
        }
    }
    for doubt in report.cautions() {
        say(&format!("caution   {doubt}"))?;
    }
    for line in meanings(report) {
        say(&line)?;
    }
    for picture in &report.pictures {
        say(&format!("wrote     {}", picture.display()))?;
    }
    Ok(())
}

/// What speaks against following a plan, a sentence each.
fn cautions(doubts: &Doubts, path: &Path) -> Vec<String> {
    let far = |(end, spacings): &(&str, f32)| {
        format!(
            "far from the data: the {end} lies {spacings:.1} typical spacings away; what is said \
             about it is a guess"
        )
    };
    let mut cautions: Vec<String> = doubts.far.iter().map(far).collect();
    let worst = |gaps: &[Gap]| {
        gaps.iter().copied().max_by(|one, other| one.typical_steps.total_cmp(&other.typical_steps))
    };
    if let Some(gap) = worst(&doubts.jumps) {
        let moves = wording::counted(path.hops.len().max(1) as u64, "move", "moves");
        cautions.push(format!(
            "teleports: {} of {moves} jump, at worst {:.0} typical steps where {} recorded; \
             `recorded` is too low; more `--nodes` may help",
            doubts.jumps.len(),
            gap.typical_steps,
            if gap.recorded == 1 { "1 is".into() } else { format!("{} are", gap.recorded) },
        ));
    }
    if let Some(gap) = worst(&doubts.bridges) {
        cautions.push(format!(
            "bridged: nothing recorded covers {}, at worst {:.0} typical steps long, where the path \
             joins trajectories or meets its ends",
            wording::counted(doubts.bridges.len() as u64, "gap", "gaps"),
            gap.typical_steps,
        ));
    }
    if path.recorded.is_none() && path.states.len() > 1 {
        cautions.push(
            "greedy: its moves follow the learned distance alone; nothing recorded shows that they can \
             be made"
                .to_owned(),
        );
    }
    if let Some(recorded) = path.recorded {
        let were =
            if recorded == 1 { "1 was recorded" } else { &format!("{recorded} were recorded") };
        let (recorded, direct) = (recorded as f32, path.direct);
        if doubts.leave_out_much(recorded) {
            cautions.push(format!(
                "left out: between the moves that the path borrows, and at its ends, lie about {:.0} \
                 typical steps that nothing recorded covers; `recorded` does not count them",
                doubts.uncovered,
            ));
        }
        if let Some(around) = doubts.coarse {
            cautions.push(format!(
                "coarse: a node of the planner stands for all states within {around:.1} typical steps, \
                 so that walls and one-way streets inside are not seen; `recorded` can be far too low; \
                 more `--nodes` make them narrower"
            ));
        }
        if path.doubted > 0 {
            let moves = wording::counted(path.hops.len() as u64, "move", "moves");
            cautions.push(format!(
                "doubted: the learned distance holds {} of {moves} for far longer than recorded, and no \
                 other way is left; either the recording leapt there, or the distance needs more training",
                path.doubted
            ));
        }
        let counted = recorded + doubts.uncovered;
        let is_too_long = |steps: f32| steps > FACTOR * counted + SLACK;
        if is_too_long(direct) {
            cautions.push(format!(
                "disagreement: {direct:.1} steps are learned where {were}; either the learned \
                 distance is too long here, or the recording waited less or had more luck than can be \
                 counted on"
            ));
        } else if is_too_long(path.steps) {
            cautions.push(format!(
                "disagreement: {:.1} steps are learned along the path, move by move, where {were}; \
                 either the learned distance is too long between near states, or the path passes where \
                 nothing recorded does",
                path.steps
            ));
        } else if counted > FACTOR * direct + SLACK {
            cautions.push(format!(
                "disagreement: {direct:.1} steps are learned where {were}; either the \
                 path misses a faster way, or the learned distance is too short here"
            ));
        }
    }
    cautions
}

/// What each kind of number that was printed means, and which one to read; a line each.
fn meanings(report: &Report) -> Vec<String> {
    let (path, doubts) = (&report.path, &report.doubts);
    let mut lines = Vec::new();
    let is_whole = doubts.jumps.is_empty() && doubts.bridges.is_empty() && doubts.coarse.is_none();
    let leaves_out = path.recorded.is_some_and(|recorded| doubts.leave_out_much(recorded as f32));
    if path.recorded.is_some() && is_whole && !leaves_out {
        lines.push(
            "recorded: the steps that trajectories took along the path, without its two ends; read \
             this one as steps, but where moves succeed only by chance it is too low, since failed \
             tries are not counted",
        );
    } else if path.recorded.is_some() {
        lines.push(
            "recorded: the steps that trajectories took along the path, without its two ends; with \
             what is said above, it is a lower bound",
        );
    }
    if path.ending == PathEnding::Arrived {
        lines.push(
            "learned along it: the distances of its moves added up; if a learner adds a constant, \
             it counts once per move",
        );
        lines.push("asked for directly: the learned distance from start to goal");
    }
    if path.states.len() > 1 {
        lines.push("steps left: the learned distance from that state to the goal");
    }
    let meaning = |line: &str| format!("meaning   {line}");
    let mut lines: Vec<String> = lines.into_iter().map(meaning).collect();
    if !lines.is_empty() {
        lines.extend(wording::trust(report.judged.as_ref()));
    }
    if !doubts.far.is_empty() {
        lines.push(meaning(
            "spacings: 1 is as far as 99 of 100 data states are from their neighbours",
        ));
    }
    lines
}

/// The trajectories a path borrows from, those of one family together.
fn borrowed(all: &[Borrowed]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let count = wording::counted(all.len() as u64, "trajectory", "trajectories");
    let group = |group: &[Borrowed]| {
        let numbers: Vec<String> = group.iter().map(|one| one.trajectory.to_string()).collect();
        let family = group[0].family.as_ref().map_or(String::new(), |name| format!("{name} "));
        format!("{family}{}", numbers.join(", "))
    };
    let groups = all.chunk_by(|one, other| one.family == other.family).map(group);
    format!("; borrows from {count}: {}", groups.collect::<Vec<_>>().join("; "))
}
