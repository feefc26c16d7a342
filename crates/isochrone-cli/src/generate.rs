//! `isochrone data generate`: records a world to a file, with a validation file next to it.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use isochrone::data::npz;
use isochrone::simulate::{Environment, World, check_memory};
use isochrone::{Error, Result};

use crate::flags::seed;
use crate::output::{check_target, say};
use crate::progress::Counter;
use crate::wording::grouped;

/// For every so many episodes one more is recorded for validation.
const VALIDATION: u32 = 10;
/// How mazes are recorded.
const KINDS: [&str; 5] = ["navigate", "stitch", "explore", "play", "diverse"];
/// How a maze is recorded by default.
const USUAL_KIND: &str = KINDS[0];

/// Collect a dataset in a built-in world
///
/// The file has OGBench's layout: observations, actions, terminals and, if the world has them, qpos and
/// qvel; a second one, FILE-val.npz, holds a tenth as many different episodes.
/// The same seed gives the same bytes on any number of threads. Mazes are recorded in the style of
/// OGBench and D4RL; the files are not theirs. Ant mazes need MuJoCo: `pip install mujoco-core`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  isochrone data generate pointmaze-medium --kind stitch -o stitch.npz
  isochrone data generate antmaze-large-play --episodes 100 -o play.npz
  isochrone data generate pinwheel --seed 3 -o pinwheel.npz")]
pub struct Generate {
    /// A world, such as `pinwheel`, `pointmaze-large` or `antmaze-umaze-diverse`
    world: String,
    /// How a maze is recorded: navigate, stitch, explore, play, diverse [default: navigate]
    #[arg(long)]
    kind: Option<String>,
    /// Episodes in the file [default: as many as the benchmark has]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    episodes: Option<u32>,
    /// The seed of the recording
    #[arg(long, default_value_t = 0, allow_hyphen_values = true, value_parser = seed)]
    seed: u64,
    /// The file to write, ending in .npz
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub fn run(arguments: &Generate) -> Result<()> {
    let world = named(&arguments.world, arguments.kind.as_deref())?;
    let validation_file = beside(&arguments.out)?;
    for path in [&arguments.out, &validation_file] {
        check_target(path, arguments.force)?;
    }
    let environment = world.open();
    let episodes = arguments.episodes.unwrap_or_else(|| environment.episodes());
    check_memory(&*environment, episodes)?;
    let further = episodes / VALIDATION;
    let recorder = Recorder { world, environment: &*environment, seed: arguments.seed };
    // The larger file last: once it exists, both do.
    if further > 0 {
        recorder.write(&validation_file, episodes..episodes.saturating_add(further))?;
    }
    recorder.write(&arguments.out, 0..episodes)
}

/// The world called `name`; `kind` may be part of the name.
fn named(name: &str, kind: Option<&str>) -> Result<World> {
    match kind {
        Some(kind) => format!("{name}-{kind}").parse().map_err(|error| {
            let is_known = |kind: &&&str| format!("{name}-{kind}").parse::<World>().is_ok();
            match KINDS.iter().filter(is_known).copied().collect::<Vec<_>>() {
                kinds if !kinds.is_empty() => {
                    Error::input(format!("`{name}` is not recorded as `{kind}`"))
                        .hint(format!("choose `--kind` {}", kinds.join(", ")))
                }
                _ if name.parse::<World>().is_ok() => {
                    Error::input(format!("`{name}` has no kinds")).hint("leave out `--kind`")
                }
                _ => error,
            }
        }),
        None => {
            name.parse().or_else(|error| format!("{name}-{USUAL_KIND}").parse().map_err(|_| error))
        }
    }
}

/// FILE-val.npz; checks early what would otherwise fail after long work.
fn beside(out: &Path) -> Result<PathBuf> {
    let stem = out.file_stem().and_then(|stem| stem.to_str());
    let (Some(stem), Some("npz")) = (stem, out.extension().and_then(|ending| ending.to_str()))
    else {
        return Err(Error::input("the file to write does not end in `.npz`")
            .in_file(out)
            .hint("for example `-o data.npz`"));
    };
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(Error::input("the folder does not exist")
            .in_file(folder)
            .hint("create it first"));
    }
    Ok(out.with_file_name(format!("{stem}-val.npz")))
}

struct Recorder<'a> {
    world: World,
    environment: &'a dyn Environment,
    seed: u64,
}

impl Recorder<'_> {
    fn write(&self, path: &Path, episodes: Range<u32>) -> Result<()> {
        let (count, since) = (episodes.len() as u64, Instant::now());
        let counter = Counter::new(&format!("record  {}", self.world), count, "episodes");
        let recorded = self.environment.record(self.seed, episodes, &|| counter.advance(1));
        drop(counter);
        let recorded = recorded?;
        let seconds = since.elapsed().as_secs_f64();
        let further: Vec<npz::NamedArray<'_>> = recorded
            .further
            .iter()
            .map(|array| (array.name, array.width, array.values.as_slice()))
            .collect();
        let dataset = &recorded.recording.dataset;
        npz::write_with(path, dataset, &further)?;
        say(&format!(
            "wrote     {}: {}, {} episodes, {} rows, {} rows per second",
            path.display(),
            self.world,
            grouped(count),
            grouped(dataset.rows() as u64),
            grouped((dataset.rows() as f64 / seconds) as u64)
        ))
    }
}
