//! Slurm job arrays: one batch file, submitted once or, where arrays are limited, in parts.

use std::path::Path;

use isochrone::checkpoint::write_whole;
use isochrone::spelling::nearest;
use isochrone::{Error, Result, plain};

use super::engine::{Engine, Resources, asked, demanded};
use super::list::Sweep;

/// The largest index of an array, plus 1, where Slurm does not say.
const USUAL_ARRAY: usize = 1001;
/// Seconds before the time limit at which a run is asked to save.
const NOTICE: u32 = 60;
/// How often a run that was asked to save is queued again.
const REQUEUES: u32 = 1000;
const SCRIPT: &str = "slurm.sbatch";
/// Keeps the numbers of the arrays that were submitted.
const JOBS: &str = "slurm.jobs";

/// Flags of this engine.
#[derive(Clone, clap::Args)]
pub struct SlurmFlags {
    /// Slurm: the partition [default: that of the cluster]
    #[arg(long, value_name = "NAME", requires = "engine")]
    partition: Option<String>,
    /// Slurm: the time limit of a run, as sbatch reads it; a run saves a minute earlier and is queued
    /// again [default: that of the partition]
    #[arg(long, value_name = "TIME", requires = "engine")]
    time_limit: Option<String>,
}

/// Runs processes as tasks of job arrays.
pub struct Slurm {
    resources: Resources,
    flags: SlurmFlags,
    /// The numbers of the arrays.
    jobs: Vec<String>,
}

impl Slurm {
    pub fn new(resources: Resources, flags: &SlurmFlags) -> Result<Self> {
        if asked("sbatch", &["--version"]).is_none() {
            return Err(Error::input("there is no `sbatch` here")
                .hint("submit from a node of the cluster, or see the file with `--dry-run`"));
        }
        let listed = demanded("sinfo", &["--noheader", "--format=%R"])?;
        let known: Vec<&str> = listed.lines().map(str::trim).collect();
        if let Some(name) = &flags.partition
            && !known.contains(&name.as_str())
        {
            return Err(Error::input(format!("no partition `{name}`")).hint(nearest(name, &known)));
        }
        if let Some(limit) = &flags.time_limit
            && !is_time(limit)
        {
            return Err(Error::input(format!("`--time-limit` is `{limit}`, not a time"))
                .hint("write minutes, hours:minutes:seconds or days-hours:minutes:seconds"));
        }
        Ok(Self { resources, flags: flags.clone(), jobs: Vec::new() })
    }
}

fn is_time(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    digits(days) && rest.split(':').count() <= 3 && rest.split(':').all(digits)
}

impl Engine for Slurm {
    fn place(&self) -> String {
        match self.jobs[..] {
            [] => "Slurm".to_owned(),
            _ => format!("Slurm job {}", self.jobs.join(", ")),
        }
    }

    fn attach(&mut self, sweep: &Sweep) -> Result<bool> {
        let kept = plain::read_text(&sweep.folder().join(JOBS)).unwrap_or_default();
        self.jobs = kept.lines().map(str::to_owned).collect();
        let found = self.is_alive()?;
        if !found {
            self.jobs.clear();
        }
        Ok(found)
    }

    fn submit(&mut self, sweep: &Sweep, left: &[usize]) -> Result<()> {
        let path = sweep.folder().join(SCRIPT);
        write_whole(&path, script(sweep, &self.resources, &self.flags).as_bytes())?;
        let most = largest_array();
        for first in (0..sweep.runs.len()).step_by(most) {
            let here = left.iter().filter(|&&run| (first..first + most).contains(&run));
            let tasks: Vec<usize> = here.map(|run| run - first).collect();
            if tasks.is_empty() {
                continue;
            }
            let array = format!("--array={}", ranges(&tasks));
            let submitted = demanded(
                "sbatch",
                &["--parsable", &array, &path.display().to_string(), &first.to_string()],
            )?;
            let job = submitted.trim().split(';').next().unwrap_or_default().to_owned();
            self.jobs.push(job);
            write_whole(&sweep.folder().join(JOBS), (self.jobs.join("\n") + "\n").as_bytes())?;
        }
        Ok(())
    }

    fn is_alive(&mut self) -> Result<bool> {
        if self.jobs.is_empty() {
            return Ok(false);
        }
        let jobs = format!("--jobs={}", self.jobs.join(","));
        Ok(match demanded("squeue", &["--noheader", "--format=%i", &jobs]) {
            Ok(listed) => !listed.trim().is_empty(),
            // A controller that does not answer for a moment still has the jobs; those that are long
            // gone it does not know.
            Err(error) => !error.to_string().contains("Invalid job id"),
        })
    }

    fn stop(&mut self) {}

    fn left_behind(&self) -> String {
        format!("{} goes on (`scancel {}` ends it)", self.place(), self.jobs.join(" "))
    }
}

fn largest_array() -> usize {
    let config = asked("scontrol", &["show", "config"]).unwrap_or_default();
    let line = config.lines().find(|line| line.starts_with("MaxArraySize"));
    let found = line.and_then(|line| line.split('=').nth(1)?.trim().parse().ok());
    found.unwrap_or(USUAL_ARRAY).saturating_sub(1).max(1)
}

/// Numbers in ascending order, as `0-3,7`.
fn ranges(numbers: &[usize]) -> String {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => found.push((number, number)),
        }
    }
    let text = |&(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    found.iter().map(text).collect::<Vec<_>>().join(",")
}

/// The batch file; its argument is the number of the array's first run.
pub fn script(sweep: &Sweep, resources: &Resources, flags: &SlurmFlags) -> String {
    let Resources { cpus, gpus, memory, retries, name } = resources;
    let mut options = vec![
        format!("--job-name={name}"),
        format!("--cpus-per-task={cpus}"),
        "--nodes=1".to_owned(),
        "--ntasks=1".to_owned(),
        "--requeue".to_owned(),
        format!("--signal=B:TERM@{NOTICE}"),
        "--open-mode=append".to_owned(),
        "--output=/dev/null".to_owned(),
    ];
    options.extend((*gpus > 0).then(|| format!("--gres=gpu:{gpus}")));
    options.extend(memory.map(|memory| format!("--mem={}M", memory.0.div_ceil(1 << 20))));
    options.extend(flags.partition.as_ref().map(|name| format!("--partition={name}")));
    options.extend(flags.time_limit.as_ref().map(|limit| format!("--time={limit}")));
    let options: String = options.iter().map(|option| format!("#SBATCH {option}\n")).collect();
    let words = sweep.command("INDEX");
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let command = words.join(" ").replace("'INDEX'", "\"$run\"");
    let logs = quoted(&folder_text(&sweep.folder()));
    format!(
        "#!/bin/bash
{options}
# Whoever is asked to stop before there is a child passes it on to the child.
child= asked=
trap 'asked=1; [ -z \"$child\" ] || kill -TERM \"$child\"' TERM
run=$(( $1 + SLURM_ARRAY_TASK_ID ))
exec >> {logs}/\"$run.log\" 2>&1
for try in $(seq 0 {retries}); do
    {command} &
    child=$!
    [ -z \"$asked\" ] || kill -TERM \"$child\"
    code=0
    wait \"$child\" || code=$?
    # A signal ends the first wait, the process ends the second.
    while kill -0 \"$child\" 2> /dev/null; do
        code=0
        wait \"$child\" || code=$?
    done
    case $code in
    # Complete, bad input, diverged: another try would end in the same way.
    0 | 2 | 3) exit $code ;;
    # Asked to stop before the time limit, and saved.
    143)
        if [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {REQUEUES} ]; then
            scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\"
        fi
        exit $code
        ;;
    # The process of a node that is gone may still be saving.
    7) sleep 5 ;;
    esac
done
exit $code
"
    )
}

fn folder_text(folder: &Path) -> String {
    folder.display().to_string()
}

/// A word as the shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_are_left_become_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!(ranges(&[4]), "4");
    }

    #[test]
    fn times_are_told_from_other_words() {
        for time in ["30", "1:30", "12:00:00", "2-12:00:00", "1-0"] {
            assert!(is_time(time), "{time}");
        }
        for other in ["", "soon", "1h", "1-", "1:2:3:4", "-5"] {
            assert!(!is_time(other), "{other}");
        }
    }
}
