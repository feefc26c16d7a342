//! How an update grows with batch, width, latent size, seeds and rows: `scaling.json`,
//! `scaling.csv`, and a picture for each.

use std::path::Path;

use isochrone::checkpoint::write_whole;
use isochrone::report::{Curves, Reference, Series, Spread, pictures};
use isochrone::{Error, Result};
use serde::Serialize;

use super::case::{BenchData, Case, Shape};
use super::machine::{Machine, available_memory, mebibytes};
use super::measure::Found;
use super::meter::Meter;
use crate::output::{say, say_json};
use crate::progress::Counter;

/// What grows while all else stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Axis {
    Batch,
    Width,
    Latent,
    Seeds,
    Rows,
    /// Rows that stay in a file, of which an eighth fits into the memory that data may take.
    Disk,
}

const AXES: [Axis; 6] =
    [Axis::Batch, Axis::Width, Axis::Latent, Axis::Seeds, Axis::Rows, Axis::Disk];
/// Points of an axis where a rough answer is asked for.
const FEW: usize = 2;

impl Axis {
    fn values(self, gpu: bool) -> &'static [usize] {
        match self {
            Self::Batch => &[256, 512, 1024, 2048, 4096],
            Self::Width => &[128, 256, 512, 1024],
            Self::Latent => &[32, 64, 128, 256, 512, 1024],
            Self::Seeds if gpu => &[1, 2, 4, 8, 16, 32, 64],
            Self::Seeds => &[1, 2, 4, 8],
            Self::Disk if gpu => &[],
            Self::Rows | Self::Disk => &[100_000, 1_000_000, 10_000_000, 100_000_000],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Width => "width",
            Self::Latent => "latent",
            Self::Seeds => "seeds",
            Self::Rows => "rows",
            Self::Disk => "disk",
        }
    }

    /// What the horizontal axis of its picture counts; rows by their power of ten.
    fn counts(self) -> &'static str {
        match self {
            Self::Batch => "rows of a batch",
            Self::Width => "width of the hidden layers",
            Self::Latent => "coordinates of a latent vector",
            Self::Seeds => "seeds at once",
            Self::Rows => "rows of data in memory, power of ten",
            Self::Disk => "rows of data on disk, power of ten",
        }
    }

    fn place(self, value: usize) -> u64 {
        match self {
            Self::Rows | Self::Disk => u64::from(value.ilog10()),
            _ => value as u64,
        }
    }

    fn set(self, case: &mut Case, value: usize) {
        match self {
            Self::Batch => case.batch = value,
            Self::Width => case.hidden.fill(value),
            Self::Latent => case.latent = value,
            Self::Seeds => case.seeds = value,
            Self::Rows | Self::Disk => case.rows = value,
        }
    }
}

/// One measured place on an axis.
#[derive(Debug, Serialize)]
struct Point {
    axis: Axis,
    value: usize,
    #[serde(flatten)]
    found: Found,
}

/// One that was not measured.
#[derive(Debug, Serialize)]
struct Skipped {
    axis: Axis,
    value: usize,
    learner: String,
    why: String,
}

/// `scaling.json`.
#[derive(Debug, Serialize)]
struct Scaling {
    version: &'static str,
    machine: Machine,
    device: String,
    threads: usize,
    points: Vec<Point>,
    skipped: Vec<Skipped>,
}

/// Measures every axis from the first batch of `shape` on, and writes what was found to `out` when an
/// axis is done.
pub fn run(
    meter: &mut Meter,
    learners: &[&str],
    shape: Shape,
    out: &Path,
    (quick, json): (bool, bool),
) -> Result<()> {
    std::fs::create_dir_all(out).map_err(|error| Error::disk("create", out, error))?;
    let most = if quick { FEW } else { usize::MAX };
    let places = places(meter.hardware.gpu.is_some(), most);
    let counter = Counter::new("scaling", (places.len() * learners.len()) as u64, "points");
    let mut scaling = Scaling::new(meter);
    for axis in AXES {
        for learner in learners {
            let base = shape.cases(learner, &[], 1).swap_remove(0);
            for &(_, value) in places.iter().filter(|place| place.0 == axis) {
                let mut case = base.clone();
                axis.set(&mut case, value);
                let file = (axis == Axis::Disk).then(|| out.join("rows.npz"));
                match point(meter, &case, file.as_deref(), &counter) {
                    Ok(found) => scaling.points.push(Point { axis, value, found }),
                    Err(error @ Error::Memory(_)) => {
                        let (learner, why) = (case.learner, error.to_string());
                        scaling.skipped.push(Skipped { axis, value, learner, why });
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        scaling.write(out)?;
    }
    drop(counter);
    if json { say_json(&scaling) } else { scaling.tell(out) }
}

fn places(gpu: bool, most: usize) -> Vec<(Axis, usize)> {
    let of = |axis: Axis| axis.values(gpu).iter().take(most).map(move |&value| (axis, value));
    AXES.into_iter().flat_map(of).collect()
}

/// Measures one place, where its data fit into memory; with `file` they then stay in that file.
fn point(meter: &mut Meter, case: &Case, file: Option<&Path>, counter: &Counter) -> Result<Found> {
    if let Some(available) = available_memory()
        && BenchData::bytes(case) > available
    {
        counter.advance(1);
        return Err(Error::memory(format!(
            "{} rows need {}, this machine has {}",
            case.rows,
            mebibytes(BenchData::bytes(case)),
            mebibytes(available)
        )));
    }
    let data = BenchData::new(case)?;
    let Some(file) = file else { return meter.measure(case, &data, counter) };
    let found = data.moved_to(file, BenchData::bytes(case) / 16);
    let found = found.map_err(|error| Error::memory(error.to_string()));
    let found = found.and_then(|data| meter.measure(case, &data, counter));
    // What is left of a file that could not be written is of no use either.
    let _ = std::fs::remove_file(file);
    found
}

impl Scaling {
    /// Nothing measured yet.
    fn new(meter: &Meter) -> Self {
        let gpu = meter.hardware.gpu.as_ref();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: meter.machine.clone(),
            device: gpu.map_or("cpu".to_owned(), |gpu| format!("cuda:{}", gpu.number)),
            threads: meter.hardware.threads.count(),
            points: Vec::new(),
            skipped: Vec::new(),
        }
    }

    fn write(&self, out: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)
            .map_err(|error| Error::input(format!("the answer cannot be written: {error}")))?;
        write_whole(&out.join("scaling.json"), (json + "\n").as_bytes())?;
        write_whole(&out.join("scaling.csv"), self.csv().as_bytes())?;
        for axis in AXES {
            if let Some(picture) = self.picture(axis) {
                pictures::curves(&picture, &out.join(format!("scaling-{}", axis.name())))?;
            }
        }
        Ok(())
    }

    fn csv(&self) -> String {
        let head = "learner,axis,value,batch,width,latent,seeds,rows,update_median_ms,\
                    update_best_ms,updates_per_second_per_seed,memory_bytes\n";
        let line = |Point { axis, value, found }: &Point| {
            let Case { learner, batch, hidden, latent, seeds, rows, .. } = &found.case;
            format!(
                "{learner},{},{value},{batch},{},{latent},{seeds},{rows},{},{},{},{}\n",
                axis.name(),
                hidden.first().unwrap_or(&0),
                found.update_median_ms,
                found.update_best_ms,
                found.updates_per_second_per_seed,
                found.memory_bytes
            )
        };
        head.to_owned() + &self.points.iter().map(line).collect::<String>()
    }

    /// The curves of an axis, from 0 on: median and best of every learner; `None` if it has no two
    /// points.
    fn picture(&self, axis: Axis) -> Option<Curves> {
        let mut series: Vec<Series> = Vec::new();
        for point in self.points.iter().filter(|point| point.axis == axis) {
            let found = &point.found;
            for (kind, time) in [("median", found.update_median_ms), ("best", found.update_best_ms)]
            {
                let name = format!("{}, {kind}", found.case.learner);
                let at = series.iter().position(|one| one.name == name).unwrap_or_else(|| {
                    series.push(Series { name, steps: Vec::new(), seeds: vec![vec![]] });
                    series.len() - 1
                });
                series[at].steps.push(axis.place(point.value));
                series[at].seeds[0].push(time as f32);
            }
        }
        series.retain(|series| series.steps.len() > 1);
        let machine = self.machine.gpu.as_ref().unwrap_or(&self.machine.cpu);
        (!series.is_empty()).then(|| Curves {
            title: format!("one update by {}", axis.counts()),
            caption: format!("{machine}; {} threads.", self.threads),
            horizontal: axis.counts().to_owned(),
            vertical: "ms".to_owned(),
            series,
            references: vec![Reference { name: String::from("0"), value: 0.0 }],
            spread: Spread::Range,
        })
    }

    fn tell(&self, out: &Path) -> Result<()> {
        for Point { axis, value, found } in &self.points {
            say(&format!(
                "{:<10} {:<6} {value:>11}  {:>10.3} ms  {:>10.1} updates/s/seed  {}",
                found.case.learner,
                axis.name(),
                found.update_median_ms,
                found.updates_per_second_per_seed,
                mebibytes(found.memory_bytes as u64)
            ))?;
        }
        for Skipped { axis, value, learner, why } in &self.skipped {
            say(&format!("{learner:<10} {:<6} {value:>11}  left out: {why}", axis.name()))?;
        }
        say(&format!("wrote     {}", out.join("scaling.json").display()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::measured;
    use super::*;

    fn scaling() -> Scaling {
        let point = |axis, value| Point { axis, value, found: measured("gcbc", 1) };
        let mut points = vec![point(Axis::Batch, 256), point(Axis::Batch, 512)];
        points.extend([
            point(Axis::Rows, 100_000),
            point(Axis::Rows, 1_000_000),
            point(Axis::Width, 8),
        ]);
        points[1].found.update_median_ms = 7.5;
        let machine = Machine::here(None);
        Scaling {
            version: "0",
            machine,
            device: "cpu".into(),
            threads: 1,
            points,
            skipped: Vec::new(),
        }
    }

    #[test]
    fn every_axis_changes_one_size_of_the_case() {
        let base = Shape::named("4x512").unwrap().cases("cmd1", &[], 1).swap_remove(0);
        let plain = serde_json::to_value(&base).unwrap();
        for axis in AXES {
            let mut case = base.clone();
            axis.set(&mut case, 3);
            let changed = serde_json::to_value(&case).unwrap();
            let keys = plain.as_object().unwrap().keys();
            assert_eq!(keys.filter(|key| plain[*key] != changed[*key]).count(), 1, "{axis:?}");
            assert!(axis.values(true).is_sorted());
        }
        assert_eq!(places(false, FEW).len(), AXES.len() * FEW);
        assert_eq!(places(true, FEW).len(), (AXES.len() - 1) * FEW);
    }

    #[test]
    fn curves_have_median_and_best_of_their_axis_and_rows_are_placed_by_their_power_of_ten() {
        let scaling = scaling();
        let batch = scaling.picture(Axis::Batch).unwrap();
        assert_eq!(batch.series[0].steps, [256, 512]);
        assert_eq!((batch.series[0].seeds[0][1], batch.series.len()), (7.5, 2));
        assert!(batch.series[1].name.ends_with("best"));
        assert_eq!(scaling.picture(Axis::Rows).unwrap().series[0].steps, [5, 6]);
        assert!(scaling.picture(Axis::Width).is_none() && scaling.picture(Axis::Seeds).is_none());
        let csv = scaling.csv();
        assert_eq!(csv.lines().count(), 6);
        let columns = |line: &str| line.split(',').count();
        assert!(csv.lines().all(|line| columns(line) == columns(csv.lines().next().unwrap())));
    }
}
