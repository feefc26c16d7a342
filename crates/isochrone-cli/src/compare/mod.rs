//! `isochrone compare`: worlds × learners × extractions × seeds, to tables, curves and a page.

mod distance;
mod overview;
mod page;
mod progress;
mod report;
mod shown;
mod sweep;
mod table;

use std::path::{Path, PathBuf};

use isochrone::checkpoint::{Lock, write_whole};
use isochrone::report::{Comparison, Series, pictures as draw};
use isochrone::run::compare::{Curve, Failure, Plan, Request, Results, Row, Sheet};
use isochrone::run::{Conditions, Recorded, UNHEARD};
use isochrone::simulate::World;
use isochrone::{Error, Result, plain};

use self::progress::Progress;
use self::report::{ComparisonReport, Protocol, Trained};
use self::sweep::Engines;
use crate::examiner::Steering;
use crate::flags::{Nodes, hardware};
use crate::output::{check_page, say, say_json};
use crate::progress::Recordings;
use crate::signals::Signals;

/// The text of a tuning grid, kept beside the runs so that the page stays a function of the folder.
const GRID: &str = "grid.txt";
/// Seeds of a combination that neither the command nor a sheet counts.
const SEEDS: u64 = 5;

/// Train and evaluate every combination of worlds, learners, extractions and seeds
///
/// Each combination is a run in its own folder, and runs share the threads, at least one each.
/// Complete runs are not repeated: if interrupted, the same command resumes. Tables, curves and the
/// page cover all runs in the folder. With --engine each run is a process of its own, here or on the
/// machines of a Ray cluster, Slurm or Kubernetes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone compare --world pinwheel
  isochrone compare --world pinwheel,roads --algorithm cmd1,my-variant.toml --extraction both
  isochrone compare --world pinwheel --seeds 10 --control graph --results docs/results.md
  isochrone compare configs/pointmaze.toml --device auto --results docs/results-pointmaze.md
  isochrone compare --world pinwheel --seeds 100 --engine slurm --partition long --dry-run
  isochrone compare --report-only runs/compare --results docs/results.md
  isochrone compare --report-only runs/compare,runs/distance --distance docs/distance.md")]
pub struct Compare {
    /// A benchmark sheet (.toml): worlds, learners, settings and published numbers
    sheet: Option<PathBuf>,
    /// The worlds, separated by commas [default: those of the sheet]
    #[arg(long = "world", value_name = "WORLD", value_delimiter = ',')]
    #[arg(required_unless_present_any = ["report_only", "sheet", "only"])]
    worlds: Vec<String>,
    /// The learners: names or configs (.toml), separated by commas; to define a variant, append keys
    /// after colons, as in cmd1:train.batch_size=1024 [default: those of the sheet, else all]
    #[arg(long = "algorithm", short, value_name = "NAME", value_delimiter = ',')]
    algorithms: Vec<String>,
    /// How to extract policies from distances: default, awr, ddpg-bc or both
    #[arg(long, default_value = "default")]
    extraction: String,
    /// Seeds per combination [default: those of the sheet, else 5]
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Change one key of every config, e.g. --set train.steps=5000
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// What controls the agent in the world; graph is measured in addition to the policy alone
    #[arg(long, value_enum, default_value_t = Steering::Policy)]
    control: Steering,
    #[command(flatten)]
    nodes: Nodes,
    /// The folder for runs, tables and curves [default: runs/SHEET, else runs/compare]
    #[arg(long, short)]
    out: Option<PathBuf>,
    /// Where updates run: auto, cpu or cuda:N; evaluations always run on the CPU
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Write the results as a Markdown page
    #[arg(long, value_name = "PAGE")]
    results: Option<PathBuf>,
    /// Write how accurate the learned steps are as a Markdown page
    #[arg(long, value_name = "PAGE")]
    distance: Option<PathBuf>,
    /// A text file that describes the tuning, appended to the page
    #[arg(long, value_name = "FILE")]
    grid: Option<PathBuf>,
    /// Train nothing; write tables, curves and the page for the runs in this folder; the page of
    /// --distance covers several folders, separated by commas
    #[arg(long, value_name = "OUT", value_delimiter = ',')]
    #[arg(conflicts_with_all = ["sheet", "worlds", "seeds", "overrides", "control", "nodes"])]
    report_only: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    engines: Engines,
}

/// Runs the command.
pub fn run(arguments: &Compare, threads: usize) -> Result<()> {
    if let (Some(index), Some(out)) = (arguments.engines.only, &arguments.out) {
        return sweep::only(index, out, threads);
    }
    let grid = arguments.grid.as_deref().map(read_grid).transpose()?;
    let pages = [(&arguments.results, page::SIGN), (&arguments.distance, distance::SIGN)];
    for (page, sign) in pages {
        page.iter().try_for_each(|page| check_page(page, sign))?;
    }
    if !arguments.report_only.is_empty() {
        if arguments.report_only.len() > 1 && (arguments.results.is_some() || arguments.json) {
            return Err(Error::input("only `--distance` can cover several folders")
                .hint("name one folder for `--results` and `--json`"));
        }
        return report(&arguments.report_only, grid, arguments);
    }
    let request = request(arguments)?;
    let out = &folder(arguments);
    let recordings = Recordings::default();
    let recorded: Recorded<'_> = if arguments.json {
        UNHEARD
    } else {
        &|world, episodes, of| recordings.recorded(world, episodes, of)
    };
    let failures = match &arguments.engines {
        engines if engines.dry_run || engines.is_asked() => {
            let plan = planned(Plan::list(&request, out, recorded)?);
            if engines.dry_run {
                return engines.tell(&plan, out, &arguments.device, threads);
            }
            let shown = !arguments.json;
            let failures = engines.execute(&plan, out, (&arguments.device, threads), shown)?;
            keep_sheet(&request, out)?;
            failures
        }
        _ => execute(&request, out, arguments, threads, recorded)?,
    };
    let reported = report(std::slice::from_ref(out), grid, arguments);
    worst(failures).map_or(reported, Err)
}

/// Says what is left out of a plan.
fn planned(plan: Plan) -> Plan {
    for left_out in &plan.left_out {
        crate::output::warn(&format!("left out: {left_out}"));
    }
    plan
}

fn keep_sheet(request: &Request, out: &Path) -> Result<()> {
    request.sheet.as_ref().map_or(Ok(()), |sheet| sheet.keep(out))
}

/// Executes all runs in threads of this process; returns those that failed.
fn execute(
    request: &Request,
    out: &Path,
    arguments: &Compare,
    threads: usize,
    recorded: Recorded<'_>,
) -> Result<Vec<Failure>> {
    let hardware = hardware(&arguments.device)?;
    let plan = planned(Plan::new(request, out, recorded)?);
    let signals = Signals::listen()?;
    let _lock = Lock::take(out)?;
    let conditions = Conditions::new(option_env!("ISOCHRONE_COMMIT"), threads);
    keep_sheet(request, out)?;
    let progress = Progress::new(&plan, signals.clone(), !arguments.json);
    let failures = plan.execute(&conditions, &hardware, &progress);
    drop(progress);
    if let Some(signal) = signals.received() {
        let out = out.display();
        crate::output::warn(&format!("saved in {out}; the same command resumes from there"));
        return Err(Error::Interrupted(signal));
    }
    Ok(failures)
}

/// What is to be compared: the command's words over the sheet's.
fn request(arguments: &Compare) -> Result<Request> {
    let sheet = arguments.sheet.as_deref().map(Sheet::read).transpose()?;
    let of_sheet = |named: &[String], own: fn(&Sheet) -> &[String]| match &sheet {
        Some(sheet) if named.is_empty() => own(sheet).to_vec(),
        _ => named.to_vec(),
    };
    let mut algorithms = of_sheet(&arguments.algorithms, |sheet| &sheet.algorithms);
    if algorithms.is_empty() {
        algorithms.push("all".into());
    }
    if arguments.control == Steering::Greedy {
        return Err(Error::input("`--control greedy` is not compared")
            .hint("choose policy or graph, or evaluate a run with `--control greedy`"));
    }
    let seeds = arguments.seeds.or(sheet.as_ref().map(|sheet| sheet.seeds)).unwrap_or(SEEDS);
    Ok(Request {
        worlds: of_sheet(&arguments.worlds, |sheet| &sheet.worlds),
        algorithms,
        extraction: arguments.extraction.parse()?,
        seeds,
        overrides: arguments
            .nodes
            .setting()
            .into_iter()
            .chain(arguments.overrides.clone())
            .collect(),
        planner: arguments.control == Steering::Graph
            || sheet.as_ref().is_some_and(|sheet| sheet.planner),
        sheet,
    })
}

/// Where the runs are kept.
fn folder(arguments: &Compare) -> PathBuf {
    let named = arguments.sheet.as_deref().and_then(Path::file_stem);
    let usual = || Path::new("runs").join(named.unwrap_or("compare".as_ref()));
    arguments.out.clone().unwrap_or_else(usual)
}

/// The failure that the command ends with: a divergence only where nothing else failed.
fn worst(failures: Vec<Failure>) -> Option<Error> {
    for failure in &failures {
        crate::output::warn(&format!("failed: {}: {}", failure.folder.display(), failure.error));
    }
    let mut errors: Vec<Error> = failures.into_iter().map(|failure| failure.error).collect();
    errors.sort_by_key(|error| matches!(error, Error::Diverged { .. }));
    errors.into_iter().next()
}

fn read_grid(path: &Path) -> Result<String> {
    plain::read_text(path).map_err(|error| {
        Error::input(format!("cannot read the grid: {error}"))
            .in_file(path)
            .hint("name a text file that says what was tuned")
    })
}

/// Writes and prints what the folders hold; writes nothing unless all of it can be read.
fn report(folders: &[PathBuf], grid: Option<String>, arguments: &Compare) -> Result<()> {
    let gathered = folders
        .iter()
        .map(|out| Gathered::read(out, grid.as_deref(), arguments))
        .collect::<Result<Vec<_>>>()?;
    gathered.iter().try_for_each(|one| one.write(grid.as_deref(), arguments))?;
    let reports: Vec<ComparisonReport> = gathered.into_iter().map(|one| one.report).collect();
    if let Some(target) = &arguments.distance {
        write_whole(target, distance::page(&reports).as_bytes())?;
    }
    let told = |report| if arguments.json { say_json(report) } else { tell(report) };
    reports.iter().try_for_each(told)
}

/// Everything that a folder holds, and what is to be written about it.
struct Gathered<'a> {
    out: &'a Path,
    results: Results,
    picture: Option<Comparison>,
    /// What was tuned, for the page.
    grid: Option<String>,
    report: ComparisonReport,
    json: String,
}

impl<'a> Gathered<'a> {
    fn read(out: &'a Path, grid: Option<&str>, arguments: &Compare) -> Result<Self> {
        let results = Results::read(out)?;
        let kept = out.join(GRID);
        let grid = match grid {
            None if kept.exists() => Some(read_grid(&kept)?),
            grid => grid.map(str::to_owned),
        };
        let mut wrote =
            ["compare.csv", "curves.csv", "compare.json"].map(|name| out.join(name)).to_vec();
        let picture = picture(&results.curves());
        if let Some(picture) = &picture {
            picture.check()?;
            wrote.extend(["curves.png", "curves.svg"].map(|name| out.join(name)));
        }
        wrote.extend(arguments.results.clone());
        wrote.extend(arguments.distance.clone());
        let trained = |(conditions, runs): (&Conditions, usize)| {
            let conditions = conditions.clone();
            Trained { conditions, runs }
        };
        let report = ComparisonReport {
            conditions: results.conditions().into_iter().map(trained).collect(),
            protocols: protocols(&results),
            sheet: Sheet::kept(out)?,
            rows: results.rows()?,
            pooled: results.pooled(),
            wrote,
        };
        let json = serde_json::to_string_pretty(&report)
            .map_err(|error| Error::input(format!("the results cannot be written: {error}")))?;
        Ok(Self { out, results, picture, grid, report, json })
    }

    fn write(&self, grid: Option<&str>, arguments: &Compare) -> Result<()> {
        let Self { out, results, picture, report, .. } = self;
        let write = |name: &str, text: &str| write_whole(&out.join(name), text.as_bytes());
        if let Some(grid) = grid {
            write(GRID, grid)?;
        }
        write("compare.csv", &results.to_csv())?;
        write("curves.csv", &results.curves_csv())?;
        write("compare.json", &self.json)?;
        if let Some(picture) = picture {
            draw::comparison(picture, &out.join("curves"))?;
        }
        let Some(target) = &arguments.results else { return Ok(()) };
        let drawn = target.with_extension("");
        if let Some(picture) = picture {
            draw::comparison(picture, &drawn)?;
        }
        let curves = picture.as_ref().and_then(|_| drawn.file_name()?.to_str());
        let routes = shown::copy(results, target)?;
        let page = page::page(report, curves, &routes, self.grid.as_deref());
        write_whole(target, page.as_bytes())
    }
}

fn protocols(results: &Results) -> Vec<Protocol> {
    let protocol = |world: World| {
        let run = results.runs.iter().find(|run| run.world == world)?;
        let environment = world.open();
        Some(Protocol {
            world,
            tasks: run.config.evaluation.tasks,
            horizon: environment.horizon(),
            radius: environment.radius(),
            discount: environment.discount(),
        })
    };
    results.worlds().into_iter().filter_map(protocol).collect()
}

/// Learning curves, one panel per world; none if nothing was measured.
fn picture(curves: &[Curve]) -> Option<Comparison> {
    let mut panels: Vec<(String, Vec<Series>)> = Vec::new();
    for curve in curves.iter().filter(|curve| !curve.steps.is_empty()) {
        let percent = |seed: &Vec<f64>| seed.iter().map(|rate| (100.0 * rate) as f32).collect();
        let series = Series {
            name: format!("{} {}", curve.algorithm, curve.extraction),
            steps: curve.steps.clone(),
            seeds: curve.overall.iter().map(percent).collect(),
        };
        match panels.last_mut() {
            Some((world, panel)) if *world == curve.world.name() => panel.push(series),
            _ => panels.push((curve.world.to_string(), vec![series])),
        }
    }
    (!panels.is_empty()).then(|| Comparison {
        title: "Success while training".into(),
        caption: "Share of all fixed pairs whose goal the policy reached.".into(),
        horizontal: "training steps".into(),
        vertical: "success (%)".into(),
        range: [0.0, 100.0],
        panels,
    })
}

fn tell(report: &ComparisonReport) -> Result<()> {
    for protocol in &report.protocols {
        let title = format!("reach     {}, {}", protocol.world, table::meaning(protocol.world));
        say(&title)?;
        let table = table::of_world(&report.rows, protocol.world, report.published());
        table.lines().iter().try_for_each(|line| say(&format!("          {line}")))?;
    }
    if !report.pooled.is_empty() {
        say("reach     all worlds together, resampled within each")?;
        let table = table::of_all(&report.pooled);
        table.lines().iter().try_for_each(|line| say(&format!("          {line}")))?;
    }
    for row in &report.rows {
        for problem in &row.problems {
            let Row { world, algorithm, extraction, .. } = row;
            say(&format!("missing   {world}, {algorithm} {extraction}: {problem}"))?;
        }
    }
    report.wrote.iter().try_for_each(|path| say(&format!("wrote     {}", path.display())))
}
