//! `isochrone score`: the steps that remain at every frame of recorded trajectories.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::time::Instant;

use isochrone::data::{
    Choices, Dataset, Field, LARGEST, Loaded, Memory, TableWriter, Values, load,
};
use isochrone::evaluate::{AgainstElapsed, AgainstSolved, Judgement, Trajectories};
use isochrone::model::Model;
use isochrone::report::{Remaining, TrajectoryCourse, pictures};
use isochrone::run::{Judges, OpenRun};
use isochrone::{Error, Result};
use serde::Serialize;

use crate::opened::{data_of, open_run};
use crate::output::{check_apart, check_target, say, say_json};
use crate::progress::{Counter, Spinner, waiting};
use crate::wording::{self, counted, grouped};

/// Score every frame of recorded trajectories by the steps that remain to a goal
///
/// OUT has one row per frame: `trajectory`, `frame` (both from 0), `steps` (learned steps to the goal),
/// `spacings` (how far the frame is from the data the model learned from, in typical spacings; above 1
/// the steps are a guess) and, with --goal last, `remaining` (frames that really remained). A table
/// says how learned steps agree with what remained on held-out trajectories, and OUT.png shows some
/// trajectories over time. Data larger than memory are read a portion at a time.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone score logs.npz --model runs/logs-atlas -o progress.csv
  isochrone score logs.npz --model runs/logs-atlas --goal 0.31,0.69 -o progress.npz
  isochrone score logs.npz --model runs/logs-atlas --goal 1200 -o progress.npz --no-pictures")]
pub struct Score {
    /// A file of trajectories, the folder of a Minari or LeRobot dataset, or a folder or a pattern
    /// ('logs/*.npz') of files
    data: PathBuf,
    /// The folder of the run whose distance is used
    #[arg(long, value_name = "RUN")]
    model: PathBuf,
    /// `last` (the last frame of each trajectory), a state (values separated by commas) or a row of
    /// DATA (a whole number, from 0)
    #[arg(long, default_value = "last", value_name = "last|STATE|ROW", allow_hyphen_values = true)]
    goal: String,
    /// The observations that make up a state, in this order, if a Minari file names several
    #[arg(long, value_name = "KEY,…", value_delimiter = ',')]
    keys: Vec<String>,
    /// Memory that the data may take, such as '4 GiB'; larger data stay on disk. --max-memory limits the
    /// whole process [default: half of what is available]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Memory>,
    /// The file to write: .npz, .csv or, in a build with the feature `parquet`, .parquet
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Replace OUT and its pictures if they exist
    #[arg(long)]
    force: bool,
    /// Do not draw OUT.svg and OUT.png
    #[arg(long)]
    no_pictures: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The goal of every frame.
#[derive(Debug, Clone, PartialEq)]
enum Goal {
    /// The last frame of its trajectory.
    Last,
    /// One state for all.
    State(Vec<f32>),
}

/// What the command prints.
#[derive(Serialize)]
struct Report {
    data: PathBuf,
    goal: String,
    trajectories: usize,
    frames: u64,
    seconds: f64,
    /// Frames farther from the data than one typical spacing.
    far: u64,
    /// Whether `calibration` is about the last frames of trajectories, or about any of their frames.
    against: &'static str,
    calibration: Option<AgainstElapsed>,
    /// Agreement with the fewest steps along recorded moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    against_solved: Option<AgainstSolved>,
    /// Why learned steps should not be read as steps, if something speaks against it.
    doubt: Option<String>,
    notes: Vec<String>,
    wrote: Vec<PathBuf>,
}

/// Frames that are asked about at a time.
const PORTION: usize = 1 << 16;
/// Trajectories in the picture.
const SHOWN: usize = 6;

/// Runs the command.
pub fn run(arguments: &Score) -> Result<()> {
    let drawn = arguments.out.with_extension("");
    let pictures = ["svg", "png"].map(|ending| arguments.out.with_extension(ending));
    check_target(&arguments.out, arguments.force)?;
    check_apart(&arguments.out, &[&arguments.data])?;
    TableWriter::is_npz(&arguments.out)?;
    if !arguments.no_pictures {
        pictures.iter().try_for_each(|path| check_target(path, arguments.force))?;
    }
    let opened = open_run(&arguments.model)?;
    let model = &opened.model;
    model.need_distance().map_err(|error| error.in_file(&arguments.model))?;
    let memory = arguments.memory.unwrap_or_else(Memory::usual);
    let choices = Choices { keys: arguments.keys.clone() };
    let Loaded { dataset, notes, .. } = load(&arguments.data, &choices, memory)?;
    check_width(&dataset, model, &arguments.data)?;
    let goal = Goal::of(&arguments.goal, &dataset)?;
    let since = Instant::now();
    let scored = score(model, &dataset, &goal, &arguments.out)?;
    let seconds = since.elapsed().as_secs_f64();
    let mut wrote = vec![arguments.out.clone()];
    if !arguments.no_pictures {
        pictures::remaining(&picture(scored.courses, &goal, arguments), &drawn)?;
        wrote.extend(pictures);
    }
    let (calibration, against_solved) =
        waiting("check", |spinner| judged(&opened, &dataset, &goal, spinner))?;
    let judgement = Judgement {
        elapsed: calibration.as_ref(),
        solved: against_solved.as_ref(),
        exact: None,
        algorithm: opened.config.algorithm.name(),
    };
    let doubt = judgement.doubt();
    // The table has what elapsed.
    let told = wording::beside_elapsed(&judgement);
    let report = Report {
        data: arguments.data.clone(),
        goal: arguments.goal.clone(),
        trajectories: dataset.trajectories(),
        frames: dataset.rows() as u64,
        seconds,
        far: scored.far,
        against: if goal == Goal::Last { "remaining" } else { "elapsed" },
        calibration,
        against_solved,
        doubt,
        notes,
        wrote,
    };
    if arguments.json { say_json(&report) } else { tell(&report, &told) }
}

fn check_width(dataset: &Dataset, model: &Model, path: &Path) -> Result<()> {
    let (found, expected) = (dataset.state_size(), model.shape().state_size);
    if found == expected {
        return Ok(());
    }
    Err(Error::input(format!(
        "states of the data have {found} values, states of the model have {expected}"
    ))
    .in_file(path)
    .hint("score data of the kind that the run learned from"))
}

impl Goal {
    fn of(text: &str, dataset: &Dataset) -> Result<Self> {
        let size = dataset.state_size();
        let wrong = |what: String| {
            Error::input(what).hint(format!(
                "write `--goal last`, `--goal` with {size} values separated by commas, or a row \
                 below {}",
                dataset.rows()
            ))
        };
        if text == "last" {
            return Ok(Self::Last);
        }
        if let Ok(row) = text.parse::<usize>() {
            if row >= dataset.rows() {
                return Err(wrong(format!("there is no row {row} among {}", dataset.rows())));
            }
            return Ok(Self::State(dataset.read_state(row)?.into_owned()));
        }
        let values: Option<Vec<f32>> = text
            .split(',')
            .map(|value| value.trim().parse().ok().filter(|value: &f32| value.abs() <= LARGEST))
            .collect();
        match values {
            Some(values) if values.len() == size => Ok(Self::State(values)),
            Some(values) => {
                Err(wrong(format!("`--goal` has {} values, states have {size}", values.len())))
            }
            None => Err(wrong(format!("`--goal` is `{text}`, expected `last`, a state or a row"))),
        }
    }
}

/// What is kept of the frames that were scored.
struct Scored {
    far: u64,
    courses: Vec<(usize, Vec<f32>)>,
}

/// Frames that wait to be asked about.
#[derive(Default)]
struct Waiting {
    trajectory: Vec<u64>,
    frame: Vec<u64>,
    remaining: Vec<u64>,
    states: Vec<f32>,
    goals: Vec<f32>,
}

/// Writes the steps of every frame to `out`.
fn score(model: &Model, dataset: &Dataset, goal: &Goal, out: &Path) -> Result<Scored> {
    let mut fields = vec![
        Field::whole("trajectory"),
        Field::whole("frame"),
        Field::number("steps"),
        Field::number("spacings"),
    ];
    if *goal == Goal::Last {
        fields.push(Field::whole("remaining"));
    }
    let mut writer = TableWriter::create(out, fields)?;
    let shown = shown(dataset.trajectories());
    let mut scored = Scored { far: 0, courses: shown.iter().map(|&at| (at, Vec::new())).collect() };
    let counter = Counter::new("score", dataset.rows() as u64, "rows");
    let mut flush = |waiting: &mut Waiting| -> Result<()> {
        let steps = match goal {
            Goal::Last => model.steps(&waiting.states, &waiting.goals)?,
            Goal::State(state) => model.steps(&waiting.states, state)?,
        };
        let spacings = model.novelty(&waiting.states)?;
        scored.far += spacings.iter().filter(|&&spacings| spacings > 1.0).count() as u64;
        for (&trajectory, &steps) in waiting.trajectory.iter().zip(&steps) {
            if let Ok(at) = shown.binary_search(&(trajectory as usize)) {
                scored.courses[at].1.push(steps);
            }
        }
        let mut values = vec![
            Values::Wholes(&waiting.trajectory),
            Values::Wholes(&waiting.frame),
            Values::Numbers(&steps),
            Values::Numbers(&spacings),
        ];
        if *goal == Goal::Last {
            values.push(Values::Wholes(&waiting.remaining));
        }
        writer.rows(steps.len(), &values)?;
        counter.advance(steps.len() as u64);
        *waiting = Waiting::default();
        Ok(())
    };
    frames(dataset, goal, &mut flush)?;
    writer.finish()?;
    Ok(scored)
}

/// Passes all frames to `flush`, a portion at a time.
fn frames(
    dataset: &Dataset,
    goal: &Goal,
    flush: &mut dyn FnMut(&mut Waiting) -> Result<()>,
) -> Result<()> {
    let (mut waiting, mut row, mut trajectory) = (Waiting::default(), 0, 0);
    let mut last = Vec::new();
    dataset.each_states(|states| {
        for state in states.chunks_exact(dataset.state_size()) {
            if row == dataset.trajectory(trajectory).end {
                trajectory += 1;
            }
            let rows = dataset.trajectory(trajectory);
            if row == rows.start && *goal == Goal::Last {
                last = dataset.read_state(rows.end - 1)?.into_owned();
            }
            waiting.trajectory.push(trajectory as u64);
            waiting.frame.push((row - rows.start) as u64);
            waiting.remaining.push((rows.end - 1 - row) as u64);
            waiting.states.extend_from_slice(state);
            waiting.goals.extend_from_slice(&last);
            row += 1;
            if waiting.frame.len() == PORTION {
                flush(&mut waiting)?;
            }
        }
        Ok(())
    })?;
    if waiting.frame.is_empty() { Ok(()) } else { flush(&mut waiting) }
}

/// Trajectories for the picture, spread over all.
fn shown(trajectories: usize) -> Vec<usize> {
    let count = SHOWN.min(trajectories);
    (0..count).map(|at| at * trajectories / count).collect()
}

fn picture(courses: Vec<(usize, Vec<f32>)>, goal: &Goal, arguments: &Score) -> Remaining {
    let name = |path: &Path| {
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let to_last = *goal == Goal::Last;
    let (data, run) = (name(&arguments.data), name(&arguments.model));
    let what =
        if to_last { "its last frame".to_owned() } else { format!("goal {}", arguments.goal) };
    Remaining {
        title: format!("Steps to the goal: {data}, scored by {run}"),
        caption: format!("Each panel is one trajectory; learned steps from each frame to {what}."),
        trajectories: courses
            .into_iter()
            .map(|(at, learned)| TrajectoryCourse {
                name: format!("trajectory {at}"),
                learned,
                to_last,
            })
            .collect(),
    }
}

/// How learned steps agree with what remained, on trajectories that the run did not learn from, where
/// there are some, and with the fewest along the moves that it learned from.
fn judged(
    opened: &OpenRun,
    dataset: &Dataset,
    goal: &Goal,
    spinner: &Spinner,
) -> Result<(Option<AgainstElapsed>, Option<AgainstSolved>)> {
    let config = &opened.config;
    // Where the run's own data are gone, nobody knows what it learned from.
    let source = data_of(opened, &|note| spinner.note(note)).ok();
    let unseen = source.as_ref().map(|source| unseen(dataset, &source.learned_from(config)?));
    let unseen = unseen.transpose()?;
    let trajectories = Trajectories {
        held_out: unseen.as_ref().map(Option::is_some),
        dataset: match unseen.flatten() {
            Some(unseen) => unseen,
            None => dataset.in_memory()?.into_owned(),
        },
        places: config.places().to_vec(),
    };
    let judges = Judges::on(trajectories, source.as_ref(), config, Some(&|_, _| None))?;
    let judges = if *goal == Goal::Last { judges.of_remaining() } else { judges };
    judges.judge(&opened.model)
}

/// The trajectories of `dataset` that are not among the `learned`, a sample where they stay in a file;
/// none if all are.
fn unseen(dataset: &Dataset, learned: &Dataset) -> Result<Option<Dataset>> {
    let known: HashSet<u64> =
        (0..learned.trajectories()).map(|at| hash(learned, at)).collect::<Result<_>>()?;
    let dataset = &*dataset.in_memory()?;
    let mut states = Vec::new();
    let mut lengths = Vec::new();
    for at in 0..dataset.trajectories() {
        let rows = dataset.trajectory(at);
        // One row is no way to anywhere.
        if rows.len() > 1 && !known.contains(&hash(dataset, at)?) {
            lengths.push(rows.len());
            rows.for_each(|row| states.extend_from_slice(dataset.state(row)));
        }
    }
    let some = !lengths.is_empty();
    some.then(|| Dataset::new(states, dataset.state_size(), None, &lengths)).transpose()
}

/// A number that only equal trajectories share.
fn hash(dataset: &Dataset, trajectory: usize) -> Result<u64> {
    let rows: Vec<u32> = dataset.trajectory(trajectory).map(|row| row as u32).collect();
    let mut hasher = DefaultHasher::new();
    dataset.gather_states(&rows)?.iter().for_each(|value| hasher.write_u32(value.to_bits()));
    Ok(hasher.finish())
}

/// Prints the report, with what was `told` of the learned steps beside the table.
fn tell(report: &Report, told: &[String]) -> Result<()> {
    for note in &report.notes {
        say(&format!("note      {note}"))?;
    }
    say(&format!(
        "scored    {}: {} of {} in {:.1} s",
        report.data.display(),
        counted(report.frames, "frame", "frames"),
        counted(report.trajectories as u64, "trajectory", "trajectories"),
        report.seconds
    ))?;
    if report.far > 0 {
        say(&format!(
            "caution   {} farther from the data than one typical spacing; answers about them \
             are guesses",
            counted(report.far, "frame lies", "frames lie")
        ))?;
    }
    if let Some(found) = &report.calibration {
        // The medians stand in the table.
        say(&format!("check     {}", wording::elapsed_share(found)))?;
        say(&format!("          {:>12} {:>10} {:>10}", report.against, "learned", "pairs"))?;
        for band in &found.bands {
            say(&format!(
                "          {:>12.0} {:>10.1} {:>10}",
                band.elapsed,
                band.learned,
                grouped(band.pairs as u64)
            ))?;
        }
    }
    told.iter().try_for_each(|line| say(&format!("check     {line}")))?;
    report.wrote.iter().try_for_each(|path| say(&format!("wrote     {}", path.display())))
}
