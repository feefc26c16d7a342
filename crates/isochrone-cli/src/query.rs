//! `isochrone query`: answers about many pairs of states, from a file to a file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use isochrone::data::{Field, RowStream, TableWriter, Values};
use isochrone::model::Model;
use isochrone::run::LastCheck;
use isochrone::{Error, Result};
use serde::Serialize;

use crate::opened::open_asked;
use crate::output::{check_apart, check_target, say, say_json};
use crate::progress::Counter;
use crate::wording::{self, counted, grouped};

/// Ask a run about many pairs of states: steps, actions, distance from the data
///
/// PAIRS is an npz file with the arrays `from` and `to` (rows × state size), or a csv file with the
/// columns `from_0`, `from_1`, …, `to_0`, `to_1`, …. OUT has one row per pair: `steps`, `actions`
/// (csv: `action_0`, …) of the policy at `from` with the goal `to`, and `from_spacings` and
/// `to_spacings`, how far both are from the data in typical spacings of data states: above 1, answers
/// are guesses. A pair without a way gets a finite number too; `plan` knows where nothing leads.
///
/// STATES is an npz file with `states` (or `observations`), or a csv file with `state_0`, `state_1`,
/// …. With --pairwise an npz file gets `steps` of starts × goals, `from_spacings` of the starts and
/// `to_spacings` of the goals; a csv file gets one line per pair with `from_row` and `to_row`.
///
/// Files are read and written a portion at a time; with --pairwise the goals stay in memory.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone query runs/demo/atlas pairs.npz -o answers.npz
  isochrone query runs/demo/atlas pairs.csv -o answers.csv --answers steps
  isochrone query runs/demo/atlas --from starts.npz --to goals.npz --pairwise -o table.npz")]
pub struct Query {
    /// A run's folder, or a model file
    run: PathBuf,
    /// The pairs: npz or csv
    #[arg(required_unless_present = "from", conflicts_with = "from")]
    pairs: Option<PathBuf>,
    /// Starts, instead of PAIRS: npz or csv
    #[arg(long, value_name = "STATES", requires = "to")]
    from: Option<PathBuf>,
    /// Goals: one per start, or one for all of them
    #[arg(long, value_name = "STATES", requires = "from")]
    to: Option<PathBuf>,
    /// Ask about every start with every goal
    #[arg(long, requires = "from")]
    pairwise: bool,
    /// What to ask for [default: all that the model answers; with --pairwise no actions]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ANSWER,…")]
    answers: Vec<Answer>,
    /// The file to write, .npz or .csv
    #[arg(short, long, value_name = "OUT")]
    out: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What can be asked about a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Answer {
    /// Steps from the start to the goal
    Steps,
    /// The policy's action at the start
    Actions,
    /// How far start and goal are from the data
    Spacings,
}

/// What the command prints.
#[derive(Serialize)]
struct Report<'a> {
    pairs: u64,
    seconds: f64,
    pairs_per_second: f64,
    /// Pairs with an end farther from the data than one typical spacing; `None` if nobody asked.
    far: Option<u64>,
    /// What the last check of the run said of its learned steps, if there was one and they were asked.
    judged: Option<&'a LastCheck>,
    wrote: &'a Path,
}

/// Pairs that are asked about at a time.
const PORTION: usize = 1 << 16;
const STARTS: &[&str] = &["from"];
const GOALS: &[&str] = &["to"];
const STATES: &[&str] = &["states", "observations", "state", "observation"];

/// Runs the command.
pub fn run(arguments: &Query) -> Result<()> {
    check_target(&arguments.out, arguments.force)?;
    let read: Vec<&Path> = [&arguments.pairs, &arguments.from, &arguments.to]
        .into_iter()
        .flatten()
        .map(|it| &**it)
        .collect();
    check_apart(&arguments.out, &read)?;
    TableWriter::is_npz(&arguments.out)?;
    let (model, judged) = open_asked(&arguments.run)?;
    let asked = Asked::new(&model, &arguments.answers, arguments.pairwise)?;
    let since = Instant::now();
    let (pairs, far) =
        if arguments.pairwise { pairwise(&asked, arguments)? } else { by_row(&asked, arguments)? };
    let seconds = since.elapsed().as_secs_f64();
    let report = Report {
        pairs,
        seconds,
        pairs_per_second: pairs as f64 / seconds,
        far: asked.spacings.then_some(far),
        judged: judged.as_ref().filter(|_| asked.steps),
        wrote: &arguments.out,
    };
    if arguments.json { say_json(&report) } else { tell(&report, asked.steps) }
}

fn tell(report: &Report<'_>, has_steps: bool) -> Result<()> {
    say(&format!(
        "asked     {} in {:.1} s, {} per second",
        counted(report.pairs, "pair", "pairs"),
        report.seconds,
        grouped(report.pairs_per_second as u64)
    ))?;
    if let Some(far @ 1..) = report.far {
        say(&format!(
            "caution   {} with an end farther from the data than one typical spacing; answers \
             about them are guesses",
            counted(far, "pair", "pairs")
        ))?;
    }
    if let Some(line) = wording::trust(report.judged).filter(|_| has_steps) {
        say(&line)?;
    }
    say(&format!("wrote     {}", report.wrote.display()))
}

/// What is asked of a model.
struct Asked<'m> {
    model: &'m Model,
    steps: bool,
    actions: bool,
    spacings: bool,
}

/// Answers about some pairs; empty where nobody asked.
struct Answers {
    steps: Vec<f32>,
    actions: Vec<f32>,
    from_spacings: Vec<f32>,
    to_spacings: Vec<f32>,
}

impl<'m> Asked<'m> {
    fn new(model: &'m Model, answers: &[Answer], pairwise: bool) -> Result<Self> {
        let named = |answer| answers.contains(&answer);
        if named(Answer::Steps) {
            model.need_distance()?;
        }
        if named(Answer::Actions) {
            model.need_policy()?;
        }
        let all = answers.is_empty();
        Ok(Self {
            model,
            steps: named(Answer::Steps) || all && model.has_distance(),
            actions: named(Answer::Actions) || all && model.has_policy() && !pairwise,
            spacings: named(Answer::Spacings) || all,
        })
    }

    fn answer(&self, from: &[f32], to: &[f32]) -> Result<Answers> {
        let model = self.model;
        let (steps, actions) = match (self.steps, self.actions) {
            (true, true) => model.steps_and_actions(from, to)?,
            (true, false) => (model.steps(from, to)?, Vec::new()),
            (false, true) => (Vec::new(), model.act(from, to)?),
            (false, false) => Default::default(),
        };
        let spacings = |states| if self.spacings { model.novelty(states) } else { Ok(Vec::new()) };
        let (from_spacings, to_spacings) = (spacings(from)?, spacings(to)?);
        Ok(Answers { steps, actions, from_spacings, to_spacings })
    }

    /// The fields of a row of answers about `pairs` pairs; none for a single pair.
    fn fields(&self, pairs: Option<usize>) -> Vec<Field> {
        let shape = |tail: Option<usize>| pairs.into_iter().chain(tail).collect::<Vec<_>>();
        let size = self.model.shape().action_size;
        [
            self.steps.then(|| Field::rows("steps", "steps", &shape(None))),
            self.actions.then(|| Field::rows("actions", "action", &shape(Some(size)))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn values<'a>(&self, answers: &'a Answers) -> Vec<Values<'a>> {
        [(self.steps, &answers.steps), (self.actions, &answers.actions)]
            .into_iter()
            .filter_map(|(asked, values)| asked.then_some(Values::Numbers(values)))
            .collect()
    }

    fn state_size(&self) -> usize {
        self.model.shape().state_size
    }
}

/// How many pairs have an end farther from the data than one spacing.
fn far<'a>(from: impl Iterator<Item = &'a f32>, to: impl Iterator<Item = &'a f32>) -> u64 {
    from.zip(to).filter(|(from, to)| from.max(**to) > 1.0).count() as u64
}

/// Asks about the pairs of corresponding rows.
fn by_row(asked: &Asked<'_>, arguments: &Query) -> Result<(u64, u64)> {
    let open = |path: &Path, keys| RowStream::open(path, keys, PORTION);
    let (mut from, mut to) = match (&arguments.pairs, &arguments.from, &arguments.to) {
        (None, Some(from), Some(to)) => (open(from, STATES)?, open(to, STATES)?),
        (pairs, ..) => {
            let pairs = pairs.as_deref().unwrap_or(Path::new(""));
            (open(pairs, STARTS)?, open(pairs, GOALS)?)
        }
    };
    from.need_width(asked.state_size())?;
    to.need_width(asked.state_size())?;
    if to.rows != from.rows && to.rows != 1 {
        return Err(Error::input(format!("{} goals for {} starts", to.rows, from.rows))
            .hint("pass one goal per start, or one for all, or ask about all with `--pairwise`"));
    }
    let rows = from.rows;
    let one = if to.rows == 1 { to.portion()? } else { None };
    let mut fields = asked.fields(None);
    if asked.spacings {
        fields.extend(["from_spacings", "to_spacings"].map(Field::number));
    }
    let mut writer = TableWriter::create(&arguments.out, fields)?;
    let counter = Counter::new("query", rows as u64, "pairs");
    let mut many = 0;
    while let Some(starts) = from.portion()? {
        let goals = match &one {
            Some(goal) => goal.repeat(starts.len() / goal.len()),
            None => to.portion()?.unwrap_or_default(),
        };
        let answers = asked.answer(&starts, &goals)?;
        let mut values = asked.values(&answers);
        if asked.spacings {
            values
                .extend([&answers.from_spacings, &answers.to_spacings].map(|v| Values::Numbers(v)));
            many += far(answers.from_spacings.iter(), answers.to_spacings.iter());
        }
        let count = starts.len() / asked.state_size();
        writer.rows(count, &values)?;
        counter.advance(count as u64);
    }
    writer.finish()?;
    Ok((rows as u64, many))
}

/// Asks about every start with every goal.
fn pairwise(asked: &Asked<'_>, arguments: &Query) -> Result<(u64, u64)> {
    let (Some(from), Some(to)) = (&arguments.from, &arguments.to) else {
        return Err(Error::input("`--pairwise` needs `--from` and `--to`"));
    };
    let goals = RowStream::open(to, STATES, PORTION)?;
    goals.need_width(asked.state_size())?;
    let count = goals.rows;
    let mut starts = RowStream::open(from, STATES, (PORTION / count).max(1))?;
    starts.need_width(asked.state_size())?;
    let goals = goals.all()?;
    let rows = starts.rows;
    let counter = Counter::new("query", (rows * count) as u64, "pairs");
    let mut sheet = Sheet::new(asked, arguments, goals, count)?;
    while let Some(starts) = starts.portion()? {
        sheet.add(&starts, &counter)?;
    }
    let far = sheet.finish()?;
    Ok(((rows * count) as u64, far))
}

/// Answers about every start with all goals.
struct Sheet<'a, 'm> {
    asked: &'a Asked<'m>,
    writer: TableWriter,
    npz: bool,
    goals: Vec<f32>,
    count: usize,
    embedded: Option<isochrone::model::Embedded>,
    to_spacings: Vec<f32>,
    /// Starts so far.
    rows: u64,
    far: u64,
}

impl<'a, 'm> Sheet<'a, 'm> {
    fn new(asked: &'a Asked<'m>, arguments: &Query, goals: Vec<f32>, count: usize) -> Result<Self> {
        let npz = TableWriter::is_npz(&arguments.out)?;
        let mut fields = asked.fields(npz.then_some(count));
        if npz {
            fields.extend(asked.spacings.then(|| Field::number("from_spacings")));
        } else {
            fields.splice(0..0, ["from_row", "to_row"].map(Field::whole));
            if asked.spacings {
                fields.extend(["from_spacings", "to_spacings"].map(Field::number));
            }
        }
        let mut writer = TableWriter::create(&arguments.out, fields)?;
        let embedded = asked.steps.then(|| asked.model.embed_precisely(&goals)).transpose()?;
        let to_spacings = if asked.spacings { asked.model.novelty(&goals)? } else { Vec::new() };
        if asked.spacings {
            writer.array("to_spacings", &to_spacings);
        }
        Ok(Self { asked, writer, npz, goals, count, embedded, to_spacings, rows: 0, far: 0 })
    }

    fn add(&mut self, starts: &[f32], counter: &Counter) -> Result<()> {
        let (asked, size) = (self.asked, self.asked.state_size());
        let rows = starts.len() / size;
        let model = asked.model;
        let mut answers = Answers {
            steps: Vec::new(),
            actions: Vec::new(),
            from_spacings: if asked.spacings { model.novelty(starts)? } else { Vec::new() },
            to_spacings: Vec::new(),
        };
        if let Some(goals) = &self.embedded {
            let nats = model.pairwise(&model.embed_precisely(starts)?, goals);
            answers.steps = nats.into_iter().map(|d| model.in_steps(d)).collect();
        }
        if asked.actions {
            let each = starts.chunks_exact(size).flat_map(|start| start.repeat(self.count));
            answers.actions = model.act(&each.collect::<Vec<_>>(), &self.goals.repeat(rows))?;
        }
        for from in &answers.from_spacings {
            self.far += far(std::iter::repeat(from), self.to_spacings.iter());
        }
        self.write(rows, answers)?;
        self.rows += rows as u64;
        counter.advance((rows * self.count) as u64);
        Ok(())
    }

    fn write(&mut self, rows: usize, mut answers: Answers) -> Result<()> {
        if self.npz {
            let mut values = self.asked.values(&answers);
            if self.asked.spacings {
                values.push(Values::Numbers(&answers.from_spacings));
            }
            return self.writer.rows(rows, &values);
        }
        let (pairs, count) = (rows * self.count, self.count);
        let from: Vec<u64> = (0..pairs).map(|at| self.rows + (at / count) as u64).collect();
        let to: Vec<u64> = (0..pairs).map(|at| (at % count) as u64).collect();
        let each = answers.from_spacings.iter();
        answers.from_spacings = each.flat_map(|&x| std::iter::repeat_n(x, count)).collect();
        answers.to_spacings = self.to_spacings.repeat(rows);
        let mut values = vec![Values::Wholes(&from), Values::Wholes(&to)];
        values.extend(self.asked.values(&answers));
        if self.asked.spacings {
            values
                .extend([&answers.from_spacings, &answers.to_spacings].map(|v| Values::Numbers(v)));
        }
        self.writer.rows(pairs, &values)
    }

    fn finish(self) -> Result<u64> {
        self.writer.finish()?;
        Ok(self.far)
    }
}
