//! `isochrone demo`: data, three learners, checks against exact steps and a picture, in one command.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use isochrone::checkpoint::write_whole;
use isochrone::engine::{Hardware, Threads};
use isochrone::evaluate::{Accuracy, Audit, FAR, Judgement, Line, MOST_OFF, Success};
use isochrone::model::Model;
use isochrone::report::{Panel, pictures as draw};
use isochrone::run::files::{METRICS, MODEL};
use isochrone::run::{self, LastCheck, PINWHEEL, Plane, RunConfig, Source};
use isochrone::simulate::{World, pinwheel};
use isochrone::{Error, Result, Tell, ledger};
use serde::Serialize;

use crate::examiner::{Examiner, Measured, Steering};
use crate::flags::seed;
use crate::output::{say, say_json};
use crate::progress::{REPORT_EVERY, waiting};
use crate::signals::Signals;
use crate::training::{Workshop, train_all};
use crate::wording;

/// The learner to use, and the paper's without our repairs. The first takes longest and so begins first.
const LEARNERS: [&str; 3] = ["atlas", "cmd2-paper", "cmd1-paper"];
/// Updates and batch size of `atlas`: less than its preset has, with nearly the same numbers.
const ATLAS: [&str; 2] = ["train.steps=8000", "train.batch_size=256"];

/// Train three learners in a small world and check their steps against exact ones
///
/// Takes about a minute and a half on two cores. If interrupted, the same command resumes; once
/// complete, it only repeats the checks.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone demo
  isochrone demo --out runs/another --seed 1 --json")]
pub struct Demo {
    /// The folder to write to
    #[arg(long, short, default_value = "runs/demo")]
    out: PathBuf,
    /// The seed of all runs
    #[arg(long, default_value_t = 0, allow_hyphen_values = true, value_parser = seed)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Everything the demo reports; printed as lines, written as `summary.json`.
#[derive(Serialize)]
struct Summary {
    dataset: Facts,
    learners: Vec<Learner>,
    /// What a number of steps means.
    steps: String,
    wrote: Vec<PathBuf>,
}

/// The data in numbers.
#[derive(Serialize)]
struct Facts {
    source: String,
    trajectories: usize,
    steps: usize,
    families: usize,
    discount: f64,
    horizon: usize,
}

/// The results of one learner.
#[derive(Serialize)]
struct Learner {
    name: String,
    training: Training,
    audit: Audit,
    accuracy: Option<Measured>,
    policy: Option<Success>,
    graph: Option<Success>,
}

/// How one run went, read from its tables.
#[derive(Serialize)]
struct Training {
    updates: u64,
    seconds: f64,
    updates_per_second: f64,
    /// The critic's last loss, in nats.
    critic: Option<f64>,
}

/// Runs the command.
pub fn run(arguments: &Demo, threads: usize) -> Result<()> {
    let jobs = jobs(arguments)?;
    let [(config, _), ..] = &jobs[..] else { return Ok(()) };
    let source = run::open_source(&config.data)?;
    let facts = Facts::of(config, &source);
    if !arguments.json {
        say(&facts.line())?;
    }
    let signals = Signals::listen()?;
    let (models, trained) = learn(&jobs, &source, threads, &signals)?;
    let training = jobs.iter().map(|(config, folder)| Training::of(config, folder));
    let training = training.collect::<Result<Vec<_>>>()?;
    // Where the bars stand on the terminal they have said it.
    let shown = trained && std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    if !(arguments.json || shown) {
        for ((_, folder), training) in jobs.iter().zip(&training) {
            say(&training.line(&name(folder)))?;
        }
    }
    let asked = || check(&source, &jobs, &models, &arguments.out, threads, &signals);
    let checked = waiting("check", |_| asked());
    if let Some(signal) = signals.received() {
        return Err(Error::Interrupted(signal));
    }
    let (checked, mut wrote) = checked?;
    for ((checked, model), job) in checked.iter().zip(&models).zip(&jobs) {
        checked.keep(model, job)?;
    }
    wrote.extend(jobs.iter().map(|(_, folder)| folder.join(MODEL)));
    wrote.push(arguments.out.join("summary.json"));
    let learners = checked.into_iter().zip(training).zip(&jobs);
    let learners =
        learners.map(|((checked, training), (_, folder))| checked.learner(folder, training));
    let summary = Summary {
        learners: learners.collect(),
        steps: wording::meaning(facts.discount),
        dataset: facts,
        wrote,
    };
    summary.write(&arguments.out)?;
    if arguments.json { say_json(&summary) } else { summary.tell() }
}

fn name(folder: &Path) -> String {
    folder.file_name().and_then(|name| name.to_str()).unwrap_or("run").to_owned()
}

fn jobs(arguments: &Demo) -> Result<Vec<(RunConfig, PathBuf)>> {
    let job = |&name: &&str| {
        let mut settings = vec![
            format!("data.source=\"{}\"", World::Pinwheel),
            format!("algorithm.name=\"{name}\""),
            format!("seed={}", arguments.seed),
        ];
        if name == "atlas" {
            settings.extend(ATLAS.map(str::to_owned));
        }
        Ok((run::tuned(&settings)?, arguments.out.join(name)))
    };
    LEARNERS.iter().map(job).collect()
}

/// Trains what is not trained yet, side by side; the models, and whether any was trained now.
fn learn(
    jobs: &[(RunConfig, PathBuf)],
    source: &Source,
    threads: usize,
    signals: &Signals,
) -> Result<(Vec<Model>, bool)> {
    let complete = |(config, folder): &&(RunConfig, PathBuf)| {
        let same = run::read_config(folder).and_then(|old| old.differences(config));
        folder.join(MODEL).exists() && same.is_ok_and(|keys| keys.is_empty())
    };
    let left: Vec<_> = jobs.iter().filter(|job| !complete(job)).cloned().collect();
    if !left.is_empty() {
        let hardware = &Hardware::default();
        let workshop = Workshop { hardware, threads, report_every: REPORT_EVERY, signals };
        let results = train_all(&left, source, &workshop)?;
        for result in results {
            result?;
        }
    }
    let models = jobs.iter().map(|(_, folder)| run::open_model(folder)).collect::<Result<_>>()?;
    Ok((models, !left.is_empty()))
}

/// What is asked of one model.
struct Checked {
    audit: Audit,
    accuracy: Option<Measured>,
    policy: Option<Success>,
    graph: Option<Success>,
}

impl Checked {
    /// Keeps what it says of the steps of `model` in the folder of its run.
    fn keep(&self, model: &Model, (config, folder): &(RunConfig, PathBuf)) -> Result<()> {
        let exact = self.relative_error();
        let algorithm = config.algorithm.name();
        let judgement = Judgement { elapsed: None, solved: None, exact, algorithm };
        LastCheck::new(model, &judgement).map_or(Ok(()), |check| check.keep(folder))
    }

    /// How far off the learned steps are, above a map.
    fn error(&self) -> String {
        let error = self.relative_error().map(|error| 100.0 * error);
        format!("median error {} %", wording::maybe(error, 0))
    }

    fn relative_error(&self) -> Option<f64> {
        self.accuracy.as_ref().and_then(|it| it.found.median_relative_error)
    }

    fn learner(self, folder: &Path, training: Training) -> Learner {
        let Self { audit, accuracy, policy, graph } = self;
        Learner { name: name(folder), training, audit, accuracy, policy, graph }
    }
}

/// Asks every model the same questions and draws the picture; what was found and written.
fn check(
    source: &Source,
    jobs: &[(RunConfig, PathBuf)],
    models: &[Model],
    out: &Path,
    threads: usize,
    signals: &Signals,
) -> Result<(Vec<Checked>, Vec<PathBuf>)> {
    let pool = Threads::new(threads)?;
    let (config, _) = &jobs[0];
    let examiner = pool.enter(|| Examiner::new(config, source))?;
    let ask = &|(model, (config, _)): (&Model, &(RunConfig, PathBuf))| {
        pool.enter(|| question(model, config, &examiner, &|_, _| signals.received()))
    };
    let pairs = models.iter().zip(jobs);
    let answers: Vec<Result<(Checked, Option<Panel>)>> = if threads == 1 {
        pairs.map(ask).collect()
    } else {
        std::thread::scope(|scope| {
            let asked: Vec<_> = pairs.map(|pair| scope.spawn(move || ask(pair))).collect();
            asked.into_iter().map(|one| one.join().expect("a check does not panic")).collect()
        })
    };
    let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
    let (checked, panels): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
    let Some(plane) = Plane::of(source) else { return Ok((checked, Vec::new())) };
    let panels = panels.into_iter().flatten().collect();
    let picture = plane.isochrones(panels, PINWHEEL, examiner.referee())?;
    let target = out.join("isochrones");
    draw::isochrones(&picture, &target)?;
    Ok((checked, ["png", "svg"].map(|ending| target.with_extension(ending)).to_vec()))
}

/// The answers of one model and its map.
fn question(
    model: &Model,
    config: &RunConfig,
    examiner: &Examiner<'_>,
    tell: &Tell<'_>,
) -> Result<(Checked, Option<Panel>)> {
    let graph = config.graph(model, &examiner.source().dataset)?;
    let checked = Checked {
        audit: examiner.audit(model)?,
        accuracy: examiner.accuracy(model)?,
        policy: examiner.success(model, Steering::Policy, Some(&graph), tell)?,
        graph: examiner.success(model, Steering::Graph, Some(&graph), tell)?,
    };
    let Some(plane) = Plane::of(examiner.source()) else { return Ok((checked, None)) };
    let ends = plane.ends(&graph)?;
    let path = graph.path(&ends.start, &ends.goal)?;
    let title = format!("{}: {}", wording::algorithm(config), checked.error());
    let panel = plane.panel(model, &title, ends.goal, &path.states)?;
    Ok((checked, Some(panel)))
}

impl Facts {
    fn of(config: &RunConfig, source: &Source) -> Self {
        let dataset = &source.dataset;
        let world = source.world.as_ref();
        Self {
            source: config.data.source.clone(),
            trajectories: dataset.trajectories(),
            steps: dataset.rows() - dataset.trajectories(),
            families: world.map_or(0, |opened| opened.family_names.len()),
            discount: source.discount(config),
            horizon: world.map_or(0, |opened| opened.environment.horizon()),
        }
    }

    fn line(&self) -> String {
        format!(
            "dataset   {}, {} trajectories, {} steps, {} path families (no family passes a corner)",
            self.source,
            wording::grouped(self.trajectories as u64),
            wording::grouped(self.steps as u64),
            self.families
        )
    }
}

impl Training {
    /// Reads what the run in `folder` wrote down.
    fn of(config: &RunConfig, folder: &Path) -> Result<Self> {
        let seconds = run::update_seconds(folder)?;
        let losses = ledger::read(&folder.join(METRICS))?.column("training/critic/loss");
        let critic = losses.and_then(|losses| losses.into_iter().rfind(|loss| loss.is_finite()));
        let updates = config.train.steps;
        Ok(Self { updates, seconds, updates_per_second: updates as f64 / seconds, critic })
    }

    fn line(&self, name: &str) -> String {
        format!(
            "train     {name}  {} updates in {:.0} s   critic {}   {:.0} updates/s",
            wording::grouped(self.updates),
            self.seconds,
            wording::maybe(self.critic, 2),
            self.updates_per_second
        )
    }
}

impl Summary {
    fn write(&self, out: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::input(format!("the summary cannot be written: {error}")))?;
        write_whole(&out.join("summary.json"), text.as_bytes())
    }

    fn tell(&self) -> Result<()> {
        let violations = self.each(|it| wording::grouped(it.audit.violations));
        let triples = self.learners.first().map_or(0, |it| it.audit.triples);
        say(&format!(
            "check     triangle inequality on {} triples: violations {violations}",
            wording::grouped(triples)
        ))?;
        for line in table(&self.rows()) {
            say(&line)?;
        }
        let tasks = self.learners.iter().find_map(|learner| learner.policy.as_ref());
        let tasks = tasks.map_or(0, |success| success.overall.tasks as u64);
        say(&format!(
            "reached   with the policy alone, {} fixed pairs, within {} steps, radius {}; unseen: pairs that no \
             trajectory joins; planned: the same policy following a plan",
            wording::grouped(tasks),
            self.dataset.horizon,
            pinwheel::RADIUS
        ))?;
        if let Some(measured) = self.learners.iter().find_map(|it| it.accuracy.as_ref()) {
            say(&format!(
                "exact     {}; error: the median of |learned − exact| / exact; far: above {FAR} steps",
                measured.against
            ))?;
        }
        say(&format!("use       {}", self.verdict()))?;
        say(&format!("steps     {}", self.steps))?;
        let wrote = self.wrote.iter().filter(|path| path.extension().is_none_or(|it| it != "svg"));
        let wrote: Vec<String> = wrote.map(|path| path.display().to_string()).collect();
        say(&format!("wrote     {}", wrote.join("  ")))
    }

    fn each(&self, number: impl Fn(&Learner) -> String) -> String {
        let one = |learner: &Learner| format!("{} {}", learner.name, number(learner));
        self.learners.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// The table of all learners, its head first.
    fn rows(&self) -> Vec<[String; 8]> {
        let head = [
            "learner",
            "reached",
            "unseen",
            "planned",
            "learned steps",
            "error",
            "Spearman",
            "far",
        ];
        let percent = |share: Option<f64>, digits| {
            format!("{} %", wording::maybe(share.map(|share| 100.0 * share), digits))
        };
        let row = |learner: &Learner| {
            let found = learner.accuracy.as_ref().map(|it| it.found);
            let of = |number: fn(&Accuracy) -> Option<f64>| found.as_ref().and_then(number);
            let line = of(|it| it.slope).zip(of(|it| it.intercept));
            let line = line.map(|(slope, intercept)| Line { slope, intercept });
            let overall = |success: &Option<Success>| success.as_ref().map(|it| it.overall.rate);
            let stitched = learner.policy.as_ref().and_then(|it| it.stitched);
            [
                learner.name.clone(),
                percent(overall(&learner.policy), 1),
                percent(stitched.map(|it| it.rate), 1),
                percent(overall(&learner.graph), 1),
                line.map_or("no line fits".to_owned(), |line| wording::straight(&line, "exact")),
                percent(of(|it| it.median_relative_error), 0),
                wording::maybe(of(|it| it.spearman), 2),
                wording::maybe(of(|it| it.far), 2),
            ]
        };
        std::iter::once(head.map(str::to_owned)).chain(self.learners.iter().map(row)).collect()
    }

    /// Whose numbers are steps, in one sentence.
    fn verdict(&self) -> String {
        let error = |it: &&Learner| {
            it.accuracy.as_ref().and_then(|measured| measured.found.median_relative_error)
        };
        let right = |it: &&Learner| error(it).is_some_and(|error| error <= MOST_OFF);
        let names = |learners: Vec<&Learner>| {
            learners.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(" and ")
        };
        let (right, wrong): (Vec<_>, Vec<_>) = self.learners.iter().partition(right);
        match (right.is_empty(), wrong.is_empty()) {
            (true, _) => "none of them where steps matter".to_owned(),
            (false, true) => format!("{}: their numbers are steps", names(right)),
            (false, false) => format!(
                "{} where steps matter; the numbers of {} are not steps",
                names(right),
                names(wrong)
            ),
        }
    }
}

/// Rows with their columns aligned: the first as labels are, the others to the right.
fn table(rows: &[[String; 8]]) -> Vec<String> {
    let wide =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let line = |row: &[String; 8]| {
        let cells = row.iter().enumerate().skip(1);
        let cells = cells.map(|(column, cell)| format!("{cell:>width$}", width = wide(column)));
        format!("{:<12}{}", row[0], cells.collect::<Vec<_>>().join("   "))
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_the_table_are_aligned() {
        let row = |name: &str, steps: &str| {
            let mut row: [String; 8] = std::array::from_fn(|_| "1".to_owned());
            (row[0], row[4]) = (name.to_owned(), steps.to_owned());
            row
        };
        let lines = table(&[row("learner", "learned steps"), row("cmd1", "2 × steps")]);
        assert_eq!(lines[0], "learner     1   1   1   learned steps   1   1   1");
        assert_eq!(lines[1], "cmd1        1   1   1       2 × steps   1   1   1");
    }
}
