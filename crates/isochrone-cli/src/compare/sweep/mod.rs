//! A comparison as a list of independent runs, for the engines that people operate.
//!
//! Each run is one process, `isochrone compare --only INDEX --out OUT`, with one folder and one exit
//! code; it resumes if it is started again. What it needs is in a folder that all machines share:
//!
//! ```text
//! OUT/sweep/list.json       the folder of every run, and what all of them share
//! OUT/sweep/INDEX.toml      the config of a run
//! OUT/sweep/INDEX.json      how it ended: exit code and error
//! OUT/sweep/INDEX.log       what it printed
//! ```

mod engine;
mod kubernetes;
mod list;
mod local;
mod ray;
mod slurm;

use std::path::Path;
use std::time::{Duration, Instant};

use isochrone::checkpoint::Lock;
use isochrone::data::Memory;
use isochrone::run::Conditions;
use isochrone::run::compare::{Failure, Plan};
use isochrone::spelling::nearest;
use isochrone::{Error, Result};

use self::engine::{Engine, Resources};
use self::list::{Outcome, Sweep};
use super::progress::Progress;
use crate::flags::hardware;
use crate::output::{say, warn};
use crate::progress::{Bars, Counter};
use crate::signals::Signals;
use crate::wording::counted;

/// Between two looks at the folder.
const LOOK: Duration = Duration::from_millis(500);

/// Where and how the runs of a comparison are executed.
#[derive(clap::Args)]
#[command(next_help_heading = "Engines")]
pub struct Engines {
    /// What runs each combination as a process of its own: local, ray, slurm or kubernetes; --out must
    /// be on a disk that all machines share [default: threads of this process]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<String>,
    /// Print what would run where, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Run one of the runs that an engine was given, by its number; --out names their folder
    #[arg(long, value_name = "INDEX", requires = "out")]
    pub only: Option<usize>,
    /// CPUs per run
    #[arg(long, value_name = "N", default_value_t = 1, requires = "engine")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=4096))]
    cpus: u32,
    /// GPUs per run
    #[arg(long, value_name = "N", default_value_t = 0, requires = "engine")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=64))]
    gpus: u32,
    /// Memory per run, such as '4 GiB' [default: the engine's]
    #[arg(long, value_name = "SIZE", requires = "engine")]
    memory: Option<Memory>,
    /// How many times a failed run is retried; never after bad input or divergence
    #[arg(long, value_name = "N", default_value_t = 5, requires = "engine")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=100))]
    retries: u32,
    /// The name of the job in the engine's lists [default: isochrone-OUT]
    #[arg(long, value_name = "NAME", requires = "engine")]
    job_name: Option<String>,
    #[command(flatten)]
    slurm: slurm::SlurmFlags,
    #[command(flatten)]
    kubernetes: kubernetes::KubernetesFlags,
    #[command(flatten)]
    ray: ray::RayFlags,
}

/// The names of all engines.
const ENGINES: [&str; 4] = ["local", "ray", "slurm", "kubernetes"];

fn unknown(name: &str) -> Error {
    Error::input(format!("unknown engine `{name}`")).hint(nearest(name, &ENGINES))
}

impl Engines {
    /// Whether runs are processes of their own.
    pub fn is_asked(&self) -> bool {
        self.engine.is_some()
    }

    fn resources(&self, out: &Path) -> Resources {
        let stem = out.file_name().and_then(|name| name.to_str()).unwrap_or("compare");
        let usual = || format!("isochrone-{}", stem.to_lowercase().replace(['_', '.', ' '], "-"));
        Resources {
            cpus: self.cpus,
            gpus: self.gpus,
            memory: self.memory,
            retries: self.retries,
            name: self.job_name.clone().unwrap_or_else(usual),
        }
    }

    /// The engine that was named, which has been asked whether it is there.
    fn engine(&self, out: &Path, threads: usize) -> Result<Box<dyn Engine>> {
        let resources = self.resources(out);
        match self.engine.as_deref().unwrap_or("local") {
            "local" => Ok(Box::new(local::Local::new(resources, threads))),
            "ray" => Ok(Box::new(ray::Ray::new(resources, &self.ray)?)),
            "slurm" => Ok(Box::new(slurm::Slurm::new(resources, &self.slurm)?)),
            "kubernetes" => {
                Ok(Box::new(kubernetes::Kubernetes::new(resources, &self.kubernetes, out)?))
            }
            name => Err(unknown(name)),
        }
    }

    /// Prints what would run where.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), except that nothing needs to be installed.
    pub fn tell(&self, plan: &Plan, out: &Path, device: &str, threads: usize) -> Result<()> {
        if let Some(name) = self.engine.as_deref().filter(|name| !ENGINES.contains(name)) {
            return Err(unknown(name));
        }
        let sweep = Sweep::new(plan, out, device, self.cpus)?;
        for (index, folder) in sweep.runs.iter().enumerate() {
            let state = if plan.jobs[index].is_complete() { "complete" } else { "to do" };
            say(&format!("run       {index}  {}  {state}", folder.display()))?;
        }
        let Some(name) = &self.engine else {
            let threads = counted(threads as u64, "thread", "threads");
            return say(&format!("engine    this process, {threads}"));
        };
        let resources = self.resources(out);
        say(&format!("engine    {name}, {resources}"))?;
        say(&format!("command   {}", sweep.command("INDEX").join(" ")))?;
        let text = match name.as_str() {
            "slurm" => slurm::script(&sweep, &resources, &self.slurm),
            "kubernetes" => kubernetes::manifest(&sweep, &resources, &self.kubernetes)?,
            _ => return self.engine(out, threads).map(drop),
        };
        say(&text)
    }

    /// Has the engine run whatever is not complete and waits for it; returns the runs that failed.
    ///
    /// # Errors
    /// Nothing is submitted: an engine that is not there, wrong names, a folder that cannot be
    /// written. Otherwise: a signal.
    pub fn execute(
        &self,
        plan: &Plan,
        out: &Path,
        (device, threads): (&str, usize),
        shown: bool,
    ) -> Result<Vec<Failure>> {
        let mut engine = self.engine(out, threads)?;
        let signals = Signals::listen()?;
        let _lock = Lock::take(out)?;
        let sweep = Sweep::new(plan, out, device, self.cpus)?;
        let left: Vec<usize> =
            (0..plan.jobs.len()).filter(|&index| !plan.jobs[index].is_complete()).collect();
        if left.is_empty() {
            return Ok(Vec::new());
        }
        if engine.attach(&sweep)? {
            warn(&format!("waiting for {}, which was submitted before", engine.place()));
        } else {
            sweep.write(plan, &left)?;
            engine.submit(&sweep, &left)?;
        }
        let waited = wait(&mut *engine, &sweep, &left, &signals, shown);
        if let Some(signal) = signals.received() {
            engine.stop();
            warn(&format!("{}; the same command resumes", engine.left_behind()));
            return Err(Error::Interrupted(signal));
        }
        waited?;
        Ok(left.iter().filter_map(|&index| sweep.failure(index)).collect())
    }
}

/// Waits until every run has ended or the engine no longer has any of them.
fn wait(
    engine: &mut dyn Engine,
    sweep: &Sweep,
    left: &[usize],
    signals: &Signals,
    shown: bool,
) -> Result<()> {
    let bars = if shown { Bars::new() } else { Bars::hidden() };
    let runs = counted(left.len() as u64, "run", "runs");
    let bar = bars.bar(&format!("{}  {runs}", engine.place()), left.len() as u64);
    let counter = Counter::on(bar, "done", shown);
    let mut asked = Instant::now();
    loop {
        let ended = left.iter().filter(|&&index| sweep.is_over(index)).count();
        counter.reach(ended as u64);
        if ended == left.len() || signals.received().is_some() {
            break;
        }
        if asked.elapsed() > engine.patience() {
            asked = Instant::now();
            if !engine.is_alive()? {
                // A shared folder may show the last outcomes a moment later.
                std::thread::sleep(2 * LOOK);
                break;
            }
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Executes one run of the list in `out`; how it ended is written beside the list.
///
/// # Errors
/// There is no such run; whatever the run fails with.
pub fn only(index: usize, out: &Path, threads: usize) -> Result<()> {
    let (sweep, job) = Sweep::read(out, index)?;
    let signals = Signals::listen()?;
    let hardware = hardware(&sweep.device)?;
    let plan = Plan::of_one(job, sweep.planner)?;
    let conditions = Conditions::new(option_env!("ISOCHRONE_COMMIT"), threads);
    let progress = Progress::new(&plan, signals.clone(), false);
    let failed = plan.execute(&conditions, &hardware, &progress).pop();
    let error = match (signals.received(), failed) {
        // Whoever asked it to stop starts it again.
        (Some(signal), _) => return Err(Error::Interrupted(signal)),
        (None, None) => None,
        (None, Some(failure)) => Some(failure.error),
    };
    sweep.keep(index, &Outcome::of(error.as_ref()))?;
    error.map_or(Ok(()), Err)
}
