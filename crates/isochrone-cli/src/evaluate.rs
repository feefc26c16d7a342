//! `isochrone evaluate`: how often goals are reached, and how learned steps agree with exact and
//! elapsed ones and with the fewest along recorded moves.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use isochrone::evaluate::Success;
use isochrone::model::Model;
use isochrone::plan::Graph;
use isochrone::report::pictures as draw;
use isochrone::run::{Judges, LastCheck, OpenRun, Plane, Source};
use isochrone::{Error, Result, Tell};

use crate::evaluation::Evaluation;
use crate::examiner::{Examiner, Steering};
use crate::flags::Nodes;
use crate::opened::{data_of, open_run, sampled, seed_folders};
use crate::output::{drawn, say, say_json};
use crate::pictures;
use crate::progress::{Counter, EpisodeCount, Spinner, waiting};
use crate::routes::routes;
use crate::{seeds, wording};

/// Evaluate a run: success rates, agreement with exact steps, triangle inequality
///
/// For a folder with several seeds (`RUN/seed-0`, `RUN/seed-1`, …) it prints means over them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone evaluate runs/demo/atlas
  isochrone evaluate runs/pinwheel-cmd1 --control graph
  isochrone evaluate runs/pinwheel-cmd1 --json --no-pictures")]
pub struct Evaluate {
    /// A run's folder, or a folder of seeds
    run: PathBuf,
    /// What controls the agent in the world [default: policy]
    #[arg(long, value_enum)]
    control: Option<Steering>,
    #[command(flatten)]
    nodes: Nodes,
    /// Do not draw pictures
    #[arg(long)]
    no_pictures: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(arguments: &Evaluate) -> Result<()> {
    let seeds = seed_folders(&arguments.run);
    if !seeds.is_empty() {
        return several(arguments, &seeds);
    }
    let evaluation = waiting("evaluate", |spinner| one(arguments, spinner))?;
    if arguments.json { say_json(&evaluation) } else { tell(&evaluation) }
}

fn one(arguments: &Evaluate, spinner: &Spinner) -> Result<Evaluation> {
    let mut opened = open_run(&arguments.run)?;
    arguments.nodes.apply(&mut opened.config);
    if arguments.control.is_some() {
        // Complains before the long work where nobody can steer.
        opened.model.need_policy().map_err(|error| error.in_file(&opened.folder))?;
    }
    let (source, judges) = data(&opened, &|note| spinner.note(note))?;
    let examiner = Examiner::new(&opened.config, &source)?;
    let shown = noting(|note| spinner.note(note));
    let mut measured = measure(&opened, &examiner, judges.as_ref(), arguments.control, &shown)?;
    if !arguments.no_pictures {
        measured.evaluation.pictures = drawn(paint(&opened, &examiner, &measured))?;
    }
    Ok(measured.evaluation)
}

/// The data that a run learned from, and what to judge its distance by, if it has one. The latter is
/// chosen first: a sample would be split in another way.
fn data(opened: &OpenRun, note: &(dyn Fn(String) + Sync)) -> Result<(Source, Option<Judges>)> {
    let whole = data_of(opened, note)?;
    let judges = || Judges::new(&whole, &opened.config, Some(&|_, _| None));
    let judges = opened.model.has_distance().then(judges).transpose()?;
    Ok((sampled(whole)?, judges))
}

/// An evaluation and what its pictures need besides.
struct Examined<'m> {
    evaluation: Evaluation,
    graph: Option<Graph<'m, Model>>,
}

/// Shows how many episodes have ended; nothing once all have.
fn noting(show: impl Fn(String) + Sync) -> impl Fn(usize, usize) -> Option<i32> + Sync {
    let episodes = Mutex::new(EpisodeCount::default());
    move |ended, of| {
        let mut episodes = episodes.lock().unwrap_or_else(PoisonError::into_inner);
        if ended == of {
            *episodes = EpisodeCount::default();
            show(String::new());
        } else {
            show(episodes.ended(ended, of));
        }
        None
    }
}

fn measure<'m>(
    opened: &'m OpenRun,
    examiner: &Examiner<'_>,
    judges: Option<&Judges>,
    control: Option<Steering>,
    tell: &Tell<'_>,
) -> Result<Examined<'m>> {
    let (config, model) = (&opened.config, &opened.model);
    let steering = control.unwrap_or(Steering::Policy);
    let graph = || config.graph(model, &examiner.source().dataset);
    let graph = model.has_distance().then(graph).transpose()?;
    // Who asks for a way of steering gets it or an error; who does not, also learns the rest.
    let success = if model.has_policy() || control.is_some() {
        let measured = examiner.success(model, steering, graph.as_ref(), tell);
        measured.map_err(|error| error.in_file(&opened.folder))?
    } else {
        None
    };
    let accuracy = if model.has_distance() { examiner.accuracy(model)? } else { None };
    let against_exact = if model.has_distance() { examiner.against_exact(model)? } else { None };
    let (elapsed, solved) = judges.map_or(Ok((None, None)), |judges| judges.judge(model))?;
    let source = &config.data.source;
    let mut not_available = Vec::new();
    match (examiner.world(), &success) {
        (None, _) => not_available.push(format!(
            "success: `{source}` is no world to act in; if it was recorded in a built-in world, train \
             in another folder with `--set data.recorded_in=WORLD`"
        )),
        (_, None) => not_available.push(
            "success: the run has no policy; train one with `--from RUN --extraction awr`".into(),
        ),
        (_, Some(success)) if success.by_switches.is_empty() && success.by_task.is_empty() => {
            not_available.push(format!(
                "success by switches: `{source}` does not know which tasks need any"
            ));
        }
        _ => {}
    }
    if !model.has_distance() {
        not_available.push("steps, maps, audit: cloning learns a policy, no distance".into());
    } else if accuracy.is_none() {
        not_available.push(format!(
            "Spearman, slope, intercept, relative error: `{source}` has no exact solver"
        ));
    }
    let mut evaluation = Evaluation {
        folder: opened.folder.clone(),
        algorithm: config.algorithm.name().to_owned(),
        source: source.clone(),
        seed: config.seed,
        updates: opened.step,
        control: steering,
        success,
        over_training: wording::over_training(config, &opened.folder)?,
        accuracy,
        against_exact,
        against_elapsed: elapsed,
        against_solved: solved,
        doubt: None,
        audit: model.has_distance().then(|| examiner.audit(model)).transpose()?,
        not_available,
        pictures: Vec::new(),
    };
    evaluation.doubt = evaluation.judgement().doubt();
    if let Some(check) = LastCheck::new(model, &evaluation.judgement())
        && let Err(error) = check.keep(&opened.folder)
    {
        crate::output::warn(&format!("what the check says of the steps is not kept: {error}"));
    }
    Ok(Examined { evaluation, graph })
}

/// Draws what can be drawn of one run into its folder.
fn paint(
    opened: &OpenRun,
    examiner: &Examiner<'_>,
    measured: &Examined<'_>,
) -> Result<Vec<PathBuf>> {
    let name = format!("{} on {}", opened.config.algorithm.name(), opened.config.data.source);
    let mut drawn = Vec::new();
    let target = |name: &str| opened.folder.join(name);
    if let (Some(plane), Some(graph)) = (Plane::of(examiner.source()), &measured.graph) {
        let model = &opened.model;
        let ends = plane.ends(graph)?;
        let path = graph.path(&ends.start, &ends.goal)?;
        let panel =
            plane.panel(model, &wording::algorithm(&opened.config), ends.goal, &path.states)?;
        let picture = plane.isochrones(vec![panel], ends, examiner.referee())?;
        draw::isochrones(&picture, &target("isochrones"))?;
        drawn.push(target("isochrones"));
    }
    let Examined { evaluation, graph } = measured;
    if opened.model.has_policy()
        && let Some(picture) = routes(&opened.model, examiner, evaluation.control, graph.as_ref())?
    {
        draw::routes(&picture, &target("routes"))?;
        drawn.push(target("routes"));
    }
    let (accuracy, elapsed) = (evaluation.accuracy.as_ref(), evaluation.against_elapsed.as_ref());
    if let Some(picture) = pictures::calibration(accuracy, elapsed, &name) {
        draw::calibration(&picture, &target("calibration"))?;
        drawn.push(target("calibration"));
    }
    if let Some(picture) = pictures::curves(&[&opened.folder], &name)? {
        draw::curves(&picture, &target("curves"))?;
        drawn.push(target("curves"));
    }
    Ok(both(&drawn))
}

/// The two files of each picture.
fn both(drawn: &[PathBuf]) -> Vec<PathBuf> {
    let files = |path: &PathBuf| ["svg", "png"].map(|ending| path.with_extension(ending));
    drawn.iter().flat_map(files).collect()
}

/// Measures every complete seed of a folder.
fn several(arguments: &Evaluate, folders: &[PathBuf]) -> Result<()> {
    let counter = Counter::new("evaluate", folders.len() as u64, "seeds");
    let mut opened = complete_seeds(folders)?;
    opened.iter_mut().for_each(|one| arguments.nodes.apply(&mut one.config));
    let note = |note| {
        counter.note(note);
        counter.advance(0);
    };
    let (source, judges) = data(&opened[0], &note)?;
    let examiner = Examiner::new(&opened[0].config, &source)?;
    let mut evaluations = Vec::new();
    let tell = noting(note);
    for one in &opened {
        let measured = measure(one, &examiner, judges.as_ref(), arguments.control, &tell)?;
        evaluations.push(measured.evaluation);
        counter.advance(1);
    }
    drop(tell);
    drop(counter);
    let pictures =
        if arguments.no_pictures { Vec::new() } else { paint_seeds(arguments, &evaluations)? };
    let report = seeds::SeedsReport::new(arguments.run.clone(), evaluations, pictures);
    if arguments.json { say_json(&report) } else { report.tell() }
}

/// Opens the seeds that are complete, at least one; they must differ in their seed alone.
fn complete_seeds(folders: &[PathBuf]) -> Result<Vec<OpenRun>> {
    let (mut opened, mut left_out) = (Vec::<OpenRun>::new(), Vec::new());
    for folder in folders {
        match OpenRun::new(folder) {
            Ok(one) if one.is_complete() => opened.push(one),
            Ok(one) => left_out.push(
                Error::input(format!(
                    "not complete: step {} of {}",
                    one.step, one.config.train.steps
                ))
                .in_file(folder),
            ),
            Err(error) => left_out.push(error),
        }
    }
    if opened.is_empty()
        && let Some(error) = left_out.pop()
    {
        return Err(error);
    }
    for error in left_out {
        crate::output::warn(&format!("left out: {error}"));
    }
    for one in &opened {
        let mut keys = one.config.differences(&opened[0].config)?;
        keys.retain(|key| key != "seed");
        if !keys.is_empty() {
            return Err(Error::input(format!(
                "not seeds of one run, their configs differ in `{}`",
                keys.join("`, `")
            ))
            .in_file(&one.folder)
            .hint("evaluate the folders one by one"));
        }
    }
    Ok(opened)
}

fn paint_seeds(arguments: &Evaluate, evaluations: &[Evaluation]) -> Result<Vec<PathBuf>> {
    let folders: Vec<&Path> = evaluations.iter().map(|found| &*found.folder).collect();
    let name = evaluations.first().map_or(String::new(), Evaluation::name);
    let Some(picture) = pictures::curves(&folders, &name)? else { return Ok(Vec::new()) };
    let target = arguments.run.join("curves");
    draw::curves(&picture, &target)?;
    Ok(both(&[target]))
}

fn tell(evaluation: &Evaluation) -> Result<()> {
    say(&format!(
        "run       {}, seed {}, {} updates",
        evaluation.name(),
        evaluation.seed,
        wording::grouped(evaluation.updates)
    ))?;
    if let Some(success) = &evaluation.success {
        tell_success(success, evaluation.control)?;
    }
    if let Some(over) = &evaluation.over_training {
        say(&format!("          {}", wording::evaluations(over)))?;
    }
    if let Some(audit) = &evaluation.audit {
        say(&format!("check     {}", wording::triangle(audit)))?;
    }
    if let Some(measured) = &evaluation.accuracy {
        wording::accuracy(measured)
            .iter()
            .try_for_each(|line| say(&format!("check     {line}")))?;
    }
    if let Some(against) = &evaluation.against_exact {
        say(&format!("check     {}", wording::against(against)))?;
        say(&format!("check     {}", wording::fewest(against)))?;
    }
    let lines = wording::judgement(&evaluation.judgement());
    lines.iter().try_for_each(|line| say(&format!("check     {line}")))?;
    for missing in &evaluation.not_available {
        say(&format!("missing   {missing}"))?;
    }
    for picture in &evaluation.pictures {
        say(&format!("wrote     {}", picture.display()))?;
    }
    Ok(())
}

fn tell_success(success: &Success, control: Steering) -> Result<()> {
    say(&format!("reach     by the {}", control.words()))?;
    let row = |name: &str, rate| say(&format!("          {name:<14} {}", wording::rate(rate)));
    row("all", &success.overall)?;
    if let Some(stitched) = &success.stitched {
        row("stitched", stitched)?;
    }
    for class in &success.by_switches {
        row(&wording::counted(class.switches.into(), "switch", "switches"), &class.rate)?;
    }
    for task in &success.by_task {
        let steps = task.mean_steps.map_or(String::new(), |steps| format!("   {steps:.0} steps"));
        let (name, rate) = (format!("task {}", task.task), wording::rate(&task.rate));
        say(&format!("          {name:<14} {rate}{steps}"))?;
    }
    if let Some(steps) = success.mean_steps {
        say(&format!("          {steps:.0} steps on average where the goal was reached"))?;
    }
    Ok(())
}
