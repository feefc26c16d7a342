//! `isochrone data`: describes files of trajectories, converts and records them.

use std::path::{Path, PathBuf};
use std::time::Instant;

use isochrone::data::{
    Choices, ColumnSummary, Format, Inspection, Leap, Loaded, Memory, OpenedFile, RawRows,
    SUSPICIOUS, files_of, load, npz, open_sample,
};
use isochrone::report::{Coverage, pictures};
use isochrone::simulate::World;
use isochrone::{Error, Result};
use serde::Serialize;

use crate::generate::{self, Generate};
use crate::output::{check_apart, check_target, say, say_json};
use crate::progress::waiting;
use crate::wording::{self, counted, grouped};

/// Inspect and convert files of trajectories, and collect datasets in built-in worlds
#[derive(clap::Args)]
pub struct Data {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Inspect(Inspect),
    Convert(Convert),
    Generate(Generate),
}

/// Describe a file of trajectories and what looks wrong with it.
///
/// Reads OGBench npz, D4RL and Minari hdf5 and, in a build with the feature `parquet`, LeRobot; for
/// Minari and LeRobot also the folder. The files of a folder or a pattern are one dataset, in the
/// order of their names. Data that training would refuse are described first and then
/// refused.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone data inspect my-logs.npz
  isochrone data inspect my-logs.npz --picture coverage.png --json")]
struct Inspect {
    #[command(flatten)]
    from: Input,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Draw a map of the states over the two axes that look like positions: .png and .svg
    #[arg(long, value_name = "PNG")]
    picture: Option<PathBuf>,
    /// Replace the pictures if they exist
    #[arg(long, requires = "picture")]
    force: bool,
    /// The world that the data were recorded in, whose jumps are not taken for unmarked ends
    #[arg(long, value_name = "WORLD")]
    recorded_in: Option<World>,
}

/// Convert trajectories from any format that `inspect` reads to OGBench npz.
#[derive(clap::Args)]
#[command(after_help = "Example:
  isochrone data convert antmaze.hdf5 antmaze.npz")]
struct Convert {
    #[command(flatten)]
    from: Input,
    /// The file to write, ending in .npz
    to: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

/// Where trajectories come from.
#[derive(clap::Args)]
struct Input {
    /// A file of trajectories, the folder of a Minari or LeRobot dataset, or a folder or a pattern
    /// ('logs/*.npz') of files
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The observations that make up a state, in this order, if a Minari file names several
    #[arg(long, value_name = "KEY,…", value_delimiter = ',')]
    keys: Vec<String>,
}

impl Input {
    fn choices(&self) -> Choices {
        Choices { keys: self.keys.clone() }
    }

    /// Refuses to write to files that are read.
    fn check_apart(&self, written: &[PathBuf]) -> Result<()> {
        if written.iter().all(|path| !path.exists()) {
            return Ok(());
        }
        let files = files_of(&self.path)?;
        let read: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        written.iter().try_for_each(|path| check_apart(path, &read))
    }

    /// The rows, or a sample if there are too many, and the seconds it took to read them.
    fn read(&self) -> Result<(OpenedFile, f64)> {
        let since = Instant::now();
        let opened = open_sample(&self.path, &self.choices(), Memory::usual())?;
        Ok((opened, since.elapsed().as_secs_f64()))
    }
}

/// Runs the command.
pub fn run(arguments: &Data) -> Result<()> {
    match &arguments.action {
        Action::Inspect(arguments) => inspect(arguments),
        Action::Convert(arguments) => convert(arguments),
        Action::Generate(arguments) => generate::run(arguments),
    }
}

/// What an inspection prints.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    format: Format,
    notes: &'a [String],
    held_out: Option<&'a Path>,
    wrote: &'a [PathBuf],
    read_seconds: f64,
    rows_per_second: f64,
    #[serde(flatten)]
    found: Inspection,
}

fn inspect(arguments: &Inspect) -> Result<()> {
    let pictures = arguments.picture.as_deref().map(pictures_of).transpose()?.unwrap_or_default();
    pictures.iter().try_for_each(|path| check_target(path, arguments.force))?;
    arguments.from.check_apart(&pictures)?;
    let look = |(opened, seconds): (OpenedFile, f64)| {
        let found = Inspection::knowing(&opened.rows, |from, to| {
            arguments.recorded_in.is_some_and(|world| world.may_jump(from, to))
        });
        if let [path, ..] = &pictures[..] {
            draw(&opened.rows, &found, &arguments.from.path, &path.with_extension(""))?;
        }
        Ok((opened, seconds, found))
    };
    let (opened, seconds, found) = waiting("inspect", |_| arguments.from.read().and_then(look))?;
    let report = Report {
        file: &arguments.from.path,
        format: opened.format,
        notes: &opened.notes,
        held_out: opened.held_out.as_deref(),
        wrote: &pictures,
        read_seconds: seconds,
        rows_per_second: found.rows as f64 / seconds,
        found,
    };
    if arguments.json {
        say_json(&report)?
    } else {
        tell(&report)?
    }
    opened.into_dataset().map(drop)
}

fn tell(report: &Report<'_>) -> Result<()> {
    let found = &report.found;
    say(&format!(
        "file      {}: {}, read in {:.2} s ({} rows per second)",
        report.file.display(),
        report.format,
        report.read_seconds,
        grouped(report.rows_per_second as u64)
    ))?;
    let lengths = &found.lengths;
    say(&format!(
        "rows      {} in {} of {} to {} rows, median {}",
        grouped(found.rows as u64),
        counted(found.trajectories as u64, "trajectory", "trajectories"),
        grouped(lengths.shortest as u64),
        grouped(lengths.longest as u64),
        lengths.median
    ))?;
    columns("states", &found.states, found.positions)?;
    columns("actions", &found.actions, None)?;
    if let Some(choices) = found.choices {
        let choices = counted(choices as u64, "action", "actions");
        say(&format!("choices   {choices} to choose from, by index"))?;
    }
    if let Some(share) = found.at_bounds {
        say(&format!("bounds    {:.1} % of all action values are −1 or 1", 100.0 * share))?;
    }
    if let Some(share) = found.beyond_bounds.filter(|&share| share > 0.0) {
        let sizes = found.actions.iter().flat_map(|column| [column.least, column.largest]);
        let most = sizes.flatten().fold(0.0, |most: f32, value| most.max(value.abs()));
        say(&format!(
            "          {:.1} % of all action values are beyond [−1, 1], up to {}: divide each column by \
             its limit",
            100.0 * share,
            digits(most)
        ))?;
    }
    for (index, line) in checks(found).iter().enumerate() {
        say(&format!("{:<10}{line}", if index == 0 { "check" } else { "" }))?;
    }
    for note in report.notes {
        say(&format!("note      {note}"))?;
    }
    if let Some(path) = report.held_out {
        say(&format!("held out  {}, next to it, is for validation", path.display()))?;
    }
    report.wrote.iter().try_for_each(|path| say(&format!("wrote     {}", path.display())))
}

/// The two files of a picture that is named with one of their endings or none.
fn pictures_of(named: &Path) -> Result<Vec<PathBuf>> {
    match named.extension().and_then(|ending| ending.to_str()) {
        None | Some("png" | "svg") => {
            Ok(["png", "svg"].map(|ending| named.with_extension(ending)).to_vec())
        }
        Some(ending) => Err(Error::input(format!("pictures are not written as `.{ending}`"))
            .in_file(named)
            .hint("name a file that ends in .png")),
    }
}

fn columns(name: &str, columns: &[ColumnSummary], positions: Option<[usize; 2]>) -> Result<()> {
    /// Columns that are listed.
    const LISTED: usize = 64;
    let count = counted(columns.len() as u64, "value per row", "values per row");
    say(&format!("{name:<10}{}", if columns.is_empty() { "none" } else { &count }))?;
    for (index, column) in columns.iter().take(LISTED).enumerate() {
        let number = |value: Option<f32>| value.map_or("–".to_owned(), digits);
        let mut line = format!(
            "{index:>12}  {:>12} to {:>12}, mean {:>12}",
            number(column.least),
            number(column.largest),
            number(column.mean.map(|mean| mean as f32))
        );
        let place = positions.and_then(|pair| pair.iter().position(|&axis| axis == index));
        if let Some(place) = place {
            line += ["  looks like x", "  looks like y"][place];
        }
        if column.constant {
            line += "  constant";
        }
        if column.not_finite > 0 {
            line +=
                &format!("  not finite in {}", counted(column.not_finite as u64, "row", "rows"));
        }
        say(&line)?;
    }
    match columns.len().checked_sub(LISTED) {
        Some(more @ 1..) => say(&format!("              and {more} more, all in `--json`")),
        _ => Ok(()),
    }
}

/// A number with four decimals or, where these would hide it, with five digits.
fn digits(value: f32) -> String {
    if value != 0.0 && value.abs() < 0.01 {
        format!("{value:.4e}")
    } else {
        format!("{:.4}", value + 0.0)
    }
}

/// One line for each thing that may be wrong, even if nothing is.
fn checks(found: &Inspection) -> Vec<String> {
    let jumps = &found.jumps;
    let told = |count: usize, one: &str, many: &str| match count {
        0 => format!("no {one}"),
        count => counted(count as u64, one, many),
    };
    let mut lines = vec![
        told(found.not_finite(), "value that is not finite", "values that are not finite"),
        told(found.duplicates, "duplicated trajectory", "duplicated trajectories"),
    ];
    let constant = found.states.iter().chain(&found.actions).filter(|column| column.constant);
    lines.push(told(constant.count(), "constant dimension", "constant dimensions"));
    if found.lengths.of_one_row > 0 {
        lines.push(told(
            found.lengths.of_one_row,
            "trajectory of one row",
            "trajectories of one row",
        ));
    }
    let mut line = told(
        jumps.suspicious,
        "step that looks like an unmarked end",
        "steps that look like unmarked ends",
    );
    line += &format!(
        " (longer than {SUSPICIOUS} × {usual}, or a dimension leaps; 90 % of all steps are shorter \
         than {usual}, the longest is {}{unit})",
        digits(jumps.longest),
        usual = digits(jumps.usual),
        unit = if found.positions.is_some() { "" } else { ", each axis divided by its range" },
    );
    if jumps.suspicious > 0 {
        let rows: Vec<String> = jumps.rows.iter().map(|&row| grouped(row as u64)).collect();
        line += &format!(", the first after row {}", rows.join(", "));
    }
    lines.push(line);
    lines.extend(found.wrapping.iter().map(|&axis| wording::wraps(axis)));
    let leap = |leap: &Leap| {
        format!(
            "dimension {} (by up to {}; 99 % of its changes are below {})",
            leap.dimension,
            digits(leap.longest),
            digits(leap.usual)
        )
    };
    let leaps: Vec<String> = jumps.leaps.iter().map(leap).collect();
    if !leaps.is_empty() {
        let leaps = leaps.join(", ");
        lines.push(format!("they leap in {leaps}; an angle that wraps does so too"));
    }
    lines
}

fn draw(rows: &RawRows, found: &Inspection, from: &Path, to: &Path) -> Result<()> {
    /// Cells along the longer side.
    const CELLS: usize = 140;
    let [across, up] = found.positions.ok_or_else(|| {
        Error::input("no two axes look like positions, so there is no map to draw")
            .in_file(from)
            .hint("leave `--picture` out")
    })?;
    let points = rows.states.chunks_exact(rows.state_size).map(|state| [state[across], state[up]]);
    let mut coverage = Coverage::of(points, CELLS)?;
    let name = from.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    coverage.title = format!("Coverage of {name}");
    coverage.caption = format!(
        "{} rows in {}, counted in cells of {:.3} × {:.3}; {:.0} % of the cells hold a row.",
        grouped(found.rows as u64),
        counted(found.trajectories as u64, "trajectory", "trajectories"),
        coverage.cell,
        coverage.cell,
        100.0 * coverage.visited()
    );
    coverage.axes = [across, up].map(|axis| format!("dimension {axis} of the state"));
    pictures::coverage(&coverage, to)
}

fn convert(arguments: &Convert) -> Result<()> {
    let to = &arguments.to;
    check_format(to)?;
    check_target(to, arguments.force)?;
    arguments.from.check_apart(std::slice::from_ref(to))?;
    let write = |loaded: Loaded| npz::write(to, &loaded.dataset).map(|()| loaded);
    let Loaded { dataset, format, notes, .. } = waiting("convert", |_| {
        load(&arguments.from.path, &arguments.from.choices(), Memory::usual()).and_then(write)
    })?;
    for note in &notes {
        say(&format!("note      {note}"))?;
    }
    say(&format!(
        "wrote     {}: {} rows in {}, from {format} to {}",
        to.display(),
        grouped(dataset.rows() as u64),
        counted(dataset.trajectories() as u64, "trajectory", "trajectories"),
        Format::Npz
    ))
}

/// Refuses a format that cannot be written.
fn check_format(to: &Path) -> Result<()> {
    let hint = "name a file that ends in `.npz`: OGBench npz can be written";
    match Format::by_ending(to) {
        Some(format) if Format::WRITTEN.contains(&format) => {}
        Some(format) => {
            let what = format!("{format} can be read but not written");
            return Err(Error::input(what).in_file(to).hint(hint));
        }
        None => {
            let what = "the extension names no format that can be written";
            return Err(Error::input(what).in_file(to).hint(hint));
        }
    }
    Ok(())
}
