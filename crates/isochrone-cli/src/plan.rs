//! `isochrone plan`: a path from one state to another over recorded states.

use std::path::PathBuf;

use isochrone::data::Dataset;
use isochrone::plan::{Path, PathEnding};
use isochrone::report::pictures;
use isochrone::run::{OpenRun, Source};
use isochrone::simulate::referee::Columns;
use isochrone::{Error, Result};
use serde::Serialize;

use crate::flags::Nodes;
use crate::opened::{data_of, open_run};
use crate::output::{Bars, say, say_json};
use crate::pictures::{Ends, Plane};
use crate::{examiner, wording};

/// Plan a path between two states with the distance of a run
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone plan runs/demo/cmd2 --start 0.2,0.1 --goal 0.31,0.69
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Planner {
    /// The shortest path along recorded steps
    Graph,
    /// Move to the best data state nearby, again and again
    Greedy,
}

/// What a plan prints.
#[derive(Serialize)]
struct Report {
    run: PathBuf,
    planner: Planner,
    start: End,
    goal: End,
    path: Path,
    /// The learned steps left at each state of the path.
    left: Vec<f32>,
    /// The trajectories it borrows from, with their families if they have any.
    borrowed: Vec<Borrowed>,
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
    let spinner = Bars::new().spinner("plan");
    let report = plan(arguments);
    spinner.finish_and_clear();
    let report = report?;
    if arguments.json { say_json(&report) } else { tell(&report) }
}

fn plan(arguments: &Plan) -> Result<Report> {
    let mut opened = open_run(&arguments.run)?;
    arguments.nodes.apply(&mut opened.config);
    let model = &opened.model;
    let size = model.shape().state_size;
    let start = coordinates("start", &arguments.start, size)?;
    let goal = coordinates("goal", &arguments.goal, size)?;
    let source = data_of(&opened)?;
    let (start, start_filled) = completed(start, &source.dataset)?;
    let (goal, goal_filled) = completed(goal, &source.dataset)?;
    let graph = opened.config.graph(model, &source.dataset)?;
    let path = match arguments.planner {
        Planner::Graph => graph.path(&start, &goal)?,
        Planner::Greedy => examiner::greedy(model, &source, &graph)?.path(&start, &goal)?,
    };
    let left = model.steps(&path.states.concat(), &goal)?;
    let families = source.world.as_ref();
    let borrow = |&trajectory: &usize| Borrowed {
        trajectory,
        family: families
            .map(|world| world.family_names[usize::from(world.families[trajectory])].clone()),
    };
    let pictures =
        if arguments.no_pictures { Vec::new() } else { draw(&opened, &source, &path, &goal)? };
    Ok(Report {
        run: opened.folder,
        planner: arguments.planner,
        start: End::new(start, path.novelty.start, start_filled),
        goal: End::new(goal, path.novelty.goal, goal_filled),
        left,
        borrowed: path.trajectories.iter().map(borrow).collect(),
        path,
        pictures,
    })
}

/// How many leading values of a state are enough to name it: its place.
const PLACE: usize = 2;

/// A whole state from its first values, and how many were given if some were missing: the others are
/// those of the data state that is nearest in the given ones.
fn completed(mut state: Vec<f32>, dataset: &Dataset) -> Result<(Vec<f32>, Option<usize>)> {
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
    let numbers = numbers.ok().filter(|numbers| numbers.iter().all(|number| number.is_finite()));
    let Some(numbers) = numbers else {
        return Err(Error::input(format!(
            "`--{name}` is `{text}`, expected finite numbers separated by commas"
        ))
        .hint(format!("write `--{name} {example}`")));
    };
    let leading = PLACE..size;
    if numbers.len() != size && !leading.contains(&numbers.len()) {
        return Err(Error::input(format!(
            "`--{name}` has `{}` values, states of the run have `{size}`",
            numbers.len()
        ))
        .hint(format!("write `--{name} {example}`")));
    }
    Ok(numbers)
}

/// Draws the path over the distance; nothing unless states have two values.
fn draw(opened: &OpenRun, source: &Source, path: &Path, goal: &[f32]) -> Result<Vec<PathBuf>> {
    let Some(plane) = Plane::of(source) else { return Ok(Vec::new()) };
    let ends = Ends { start: [path.states[0][0], path.states[0][1]], goal: [goal[0], goal[1]] };
    let states: &[Vec<f32>] = if path.states.len() > 1 { &path.states } else { &[] };
    let discount = opened.model.shape().discount;
    let pinwheel = source.world.as_ref().and_then(|world| world.world.pinwheel());
    let referee =
        pinwheel.map(|world| Columns::new(&world, &source.dataset, discount)).transpose()?;
    let panel =
        plane.panel(&opened.model, &wording::algorithm(&opened.config), ends.goal, states)?;
    let picture = plane.isochrones(vec![panel], ends, referee.as_ref().map(|it| (it, discount)))?;
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
        say(&format!("recorded  {recorded} steps{}", borrowed(&report.borrowed)))?;
    }
    if path.states.len() > 1 {
        let states: Vec<String> = path.states.iter().map(|state| wording::state(state)).collect();
        let width = states.iter().map(|state| state.chars().count()).max().unwrap_or(0);
        for (state, left) in states.iter().zip(&report.left) {
            say(&format!("          {state:width$}  {left:6.1} steps left"))?;
        }
    }
    for picture in &report.pictures {
        say(&format!("wrote     {}", picture.display()))?;
    }
    Ok(())
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
