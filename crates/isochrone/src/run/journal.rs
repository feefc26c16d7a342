//! The tables and event files of a run: where its metrics go, each under one name.
//!
//! A row is added to its csv table, to `metrics.jsonl` (unless it depends on the clock) and to
//! TensorBoard's events. `metrics.jsonl` follows from the tables and is written anew when a run is
//! resumed, so that it has the same bytes as that of an uninterrupted run.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::files::{EVALUATION, EVENTS, LINES, METRICS, TIMING};
use crate::checkpoint::write_whole;
use crate::error::{Error, Result};
use crate::events::EventFiles;
use crate::ledger::{self, Due, Ledger, Resumed};
use crate::train::TrainConfig;

/// What depends on the clock: updates per second since the last save, and how long the evaluation
/// took that ended since.
const TIMES: [&str; 2] = ["time/updates_per_second", "time/evaluation_seconds"];

/// The rows of a run that `settings` describes which are due in the tables of metrics and of
/// evaluations.
pub(super) fn due(settings: &TrainConfig) -> [Due; 2] {
    [settings.log_every, settings.evaluate_every].map(|every| Due { every, last: settings.steps })
}

/// The names of a run's metrics.
pub(super) struct MetricNames {
    /// Of training and validation.
    pub(super) metrics: Vec<String>,
    /// Of an evaluation; none if nothing is evaluated.
    pub(super) evaluation: Option<Vec<String>>,
}

struct Recorded {
    columns: Vec<String>,
    ledger: Ledger,
}

/// The open files of a run's metrics.
pub(super) struct Journal {
    metrics: Recorded,
    evaluation: Option<Recorded>,
    timing: Recorded,
    lines: (PathBuf, File),
    /// TensorBoard's.
    pub(super) events: EventFiles,
}

impl Journal {
    /// Opens or creates the files in `folder`. With `resume`, rows of later steps are removed, and
    /// every row that was due up to that step must be there; only the evaluation of that step may
    /// still have been under way, unless the run `is_complete`.
    ///
    /// # Errors
    /// A table that is damaged or of other columns, a lost row, disk I/O that fails.
    pub(super) fn open(
        folder: &Path,
        names: MetricNames,
        settings: &TrainConfig,
        resume: Option<u64>,
        is_complete: bool,
    ) -> Result<Self> {
        let open = |name: &str, columns: Vec<String>, due: Option<(Due, u64)>| {
            let resumed = resume.map(|step| Resumed { step, due });
            let ledger = Ledger::open(&folder.join(name), &columns, resumed)?;
            Ok(Recorded { columns, ledger })
        };
        let [logged, evaluated] = due(settings);
        let step = resume.unwrap_or(0);
        let measured = if is_complete { step } else { step.saturating_sub(1) };
        let metrics = open(METRICS, names.metrics, Some((logged, step)))?;
        let evaluation =
            names.evaluation.map(|columns| open(EVALUATION, columns, Some((evaluated, measured))));
        let evaluation = evaluation.transpose()?;
        let timing = open(TIMING, TIMES.map(str::to_owned).into(), None)?;
        let lines = open_lines(folder, [Some(&metrics), evaluation.as_ref()])?;
        let events = EventFiles::new(&folder.join(EVENTS), resume.map_or(0, |step| step + 1));
        Ok(Self { metrics, evaluation, timing, lines, events })
    }

    /// Adds a row of training and validation metrics.
    pub(super) fn logged(&mut self, step: u64, values: &[f64]) -> Result<()> {
        add(&mut self.metrics, Some(&mut self.lines), &mut self.events, step, values)
    }

    /// Whether the evaluation of `step` is in its table; true if nothing is evaluated.
    pub(super) fn has_evaluation(&self, step: u64) -> bool {
        self.evaluation.as_ref().is_none_or(|table| table.ledger.last_step() == Some(step))
    }

    /// Adds a row of an evaluation.
    pub(super) fn evaluated(&mut self, step: u64, values: &[f64]) -> Result<()> {
        let Some(evaluation) = &mut self.evaluation else { return Ok(()) };
        add(evaluation, Some(&mut self.lines), &mut self.events, step, values)
    }

    /// Adds a row of what depends on the clock.
    pub(super) fn timed(&mut self, step: u64, values: [f64; TIMES.len()]) -> Result<()> {
        add(&mut self.timing, None, &mut self.events, step, &values)
    }

    /// Returns when all rows are on disk.
    pub(super) fn sync(&self) -> Result<()> {
        let tables = [Some(&self.metrics), self.evaluation.as_ref(), Some(&self.timing)];
        tables.into_iter().flatten().try_for_each(|table| table.ledger.sync())?;
        let (path, file) = &self.lines;
        file.sync_all().map_err(|error| Error::disk("sync", path, error))
    }
}

fn add(
    table: &mut Recorded,
    lines: Option<&mut (PathBuf, File)>,
    events: &mut EventFiles,
    step: u64,
    values: &[f64],
) -> Result<()> {
    table.ledger.append(step, values)?;
    if let Some((path, file)) = lines {
        let line = line(step, &table.columns, values);
        file.write_all(line.as_bytes()).map_err(|error| Error::disk("write", &*path, error))?;
    }
    events.scalars(step, &table.columns, values)
}

/// Writes what the tables hold, in the order in which it was added, and opens the file for more.
fn open_lines(folder: &Path, tables: [Option<&Recorded>; 2]) -> Result<(PathBuf, File)> {
    let mut rows = Vec::new();
    for (table, name) in tables.into_iter().zip([METRICS, EVALUATION]) {
        let Some(table) = table else { continue };
        for row in ledger::read(&folder.join(name))?.rows {
            rows.push((row[0] as u64, line(row[0] as u64, &table.columns, &row[1..])));
        }
    }
    // Stable: at one step metrics are logged before the evaluation.
    rows.sort_by_key(|(step, _)| *step);
    let text: String = rows.into_iter().map(|(_, line)| line).collect();
    let path = folder.join(LINES);
    write_whole(&path, text.as_bytes())?;
    let file = OpenOptions::new().append(true).open(&path);
    let file = file.map_err(|error| Error::disk("open", &path, error))?;
    Ok((path, file))
}

/// One row as a JSON object; `null` stands for what is not a finite number.
fn line(step: u64, columns: &[String], values: &[f64]) -> String {
    let mut line = format!("{{\"step\": {step}");
    for (column, &value) in columns.iter().zip(values) {
        let text = if value.is_finite() { ledger::number(value) } else { "null".to_owned() };
        line += &format!(", \"{column}\": {text}");
    }
    line + "}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_with_the_digits_of_the_table() {
        let columns = ["a", "b", "c", "d"].map(str::to_owned);
        let values = [f64::from(0.1f32), f64::NAN, f64::INFINITY, -2.5e20];
        let text = line(7, &columns, &values);
        assert_eq!(text, "{\"step\": 7, \"a\": 0.1, \"b\": null, \"c\": null, \"d\": -2.5e20}\n");
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["d"], -2.5e20);
    }

    #[test]
    fn lines_are_made_again_from_the_tables_whatever_stands_there() {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            TrainConfig { steps: 9, log_every: 2, evaluate_every: 3, ..TrainConfig::default() };
        let open = |resume| {
            let names = MetricNames {
                metrics: vec!["training/loss".into()],
                evaluation: Some(vec!["evaluation/success".into()]),
            };
            Journal::open(folder.path(), names, &settings, resume, false).unwrap()
        };
        let fill = |journal: &mut Journal, steps: std::ops::RangeInclusive<u64>| {
            let [logged, evaluated] = due(&settings);
            for step in steps {
                if logged.at(step) {
                    journal.logged(step, &[f64::from(1.0 / step as f32)]).unwrap();
                }
                if evaluated.at(step) {
                    journal.evaluated(step, &[1.0 / step as f64]).unwrap();
                }
            }
        };
        fill(&mut open(None), 1..=9);
        let path = folder.path().join(LINES);
        let whole = std::fs::read_to_string(&path).unwrap();
        assert_eq!(whole.lines().count(), 8, "{whole}");
        for found in [&whole[..], "", "not ours", &whole[..50]] {
            std::fs::write(&path, found).unwrap();
            fill(&mut open(Some(6)), 7..=9);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
        }
        std::fs::remove_file(&path).unwrap();
        open(Some(9));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    }
}
