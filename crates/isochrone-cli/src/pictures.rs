//! From evaluations and tables of runs to the inputs of the pictures.

use std::path::Path;

use isochrone::Result;
use isochrone::evaluate::AgainstElapsed;
use isochrone::ledger;
use isochrone::report::{CalibrationChart, CalibrationPanel, Curves, Series, Spread, Trend};
use isochrone::run::files::{EVALUATION, METRICS};

use crate::examiner::Measured;
use crate::wording;

/// Learned against exact and elapsed steps; `None` if there are neither.
pub fn calibration(
    measured: Option<&Measured>,
    elapsed: Option<&AgainstElapsed>,
    name: &str,
) -> Option<CalibrationChart> {
    let (mut panels, mut captions) = (Vec::new(), Vec::new());
    if let Some(measured) = measured
        && let (Some(slope), Some(intercept)) = (measured.found.slope, measured.found.intercept)
    {
        captions.push(format!(
            "Exact: {}, on {} reachable pairs; line: least squares.",
            measured.against, measured.found.pairs
        ));
        let trend = Trend::Line { slope: slope as f32, intercept: intercept as f32 };
        panels.push(CalibrationPanel {
            known: "exact".into(),
            pairs: measured.pairs.clone(),
            trend,
        });
    }
    if let Some(found) = elapsed {
        captions.push(format!(
            "Elapsed: between two rows of one trajectory, {} pairs on {}; the distance is at most \
             about that.",
            found.pairs,
            wording::recorded(found)
        ));
        let medians = found.bands.iter().map(|band| [band.elapsed as f32, band.learned as f32]);
        panels.push(CalibrationPanel {
            known: "elapsed".into(),
            pairs: found.points.clone(),
            trend: Trend::Medians(medians.collect()),
        });
    }
    (!panels.is_empty()).then(|| CalibrationChart {
        title: format!("Learned and known steps: {name}"),
        caption: captions.join(" "),
        panels,
    })
}

/// Success over training steps where it was measured more than once, else losses; one curve
/// per folder. None where the folders hold neither.
///
/// # Errors
/// A table that cannot be read.
pub fn curves(folders: &[&Path], name: &str) -> Result<Option<Curves>> {
    let success = [
        ("all pairs", "evaluation/overall_success"),
        ("stitched pairs", "evaluation/stitched_success"),
    ];
    let measured = collect(folders, EVALUATION, &success, 100.0)?;
    if measured.iter().any(|series| series.steps.len() > 1) {
        let caption = "Share of the evaluation's tasks whose goal the policy reached.";
        return Ok(Some(chart(format!("Success of {name}"), caption, "success (%)", measured)));
    }
    let losses = [
        ("critic, training", "training/critic/loss"),
        ("critic, held out", "validation/critic/loss"),
    ];
    let losses = collect(folders, METRICS, &losses, 1.0)?;
    let caption = "Contrastive loss of single batches while the critic learned.";
    let drawn = !losses.is_empty();
    Ok(drawn.then(|| chart(format!("Loss of {name}"), caption, "loss (nats)", losses)))
}

fn chart(title: String, caption: &str, vertical: &str, series: Vec<Series>) -> Curves {
    Curves {
        title,
        caption: caption.to_owned(),
        horizontal: "training steps".into(),
        vertical: vertical.to_owned(),
        series,
        references: Vec::new(),
        spread: Spread::StandardError,
    }
}

/// One series for each column that holds a number, with a curve for each folder.
fn collect(
    folders: &[&Path],
    table: &str,
    columns: &[(&str, &str)],
    scale: f64,
) -> Result<Vec<Series>> {
    let present = folders.iter().map(|folder| folder.join(table)).filter(|path| path.exists());
    let tables = present.map(|path| ledger::read(&path)).collect::<Result<Vec<_>>>()?;
    let mut series = Vec::new();
    for (name, column) in columns {
        let curves: Vec<(Vec<f64>, Vec<f64>)> = tables
            .iter()
            .filter_map(|table| Some((table.column("step")?, table.column(column)?)))
            .collect();
        let known = |row: usize| curves.iter().any(|(_, values)| values[row].is_finite());
        let rows = curves.iter().map(|(steps, _)| steps.len()).min().unwrap_or(0);
        let rows: Vec<usize> = (0..rows).filter(|&row| known(row)).collect();
        if let (Some((steps, _)), false) = (curves.first(), rows.is_empty()) {
            series.push(Series {
                name: (*name).to_owned(),
                steps: rows.iter().map(|&row| steps[row] as u64).collect(),
                seeds: curves
                    .iter()
                    .map(|(_, values)| {
                        rows.iter().map(|&row| (scale * values[row]) as f32).collect()
                    })
                    .collect(),
            });
        }
    }
    Ok(series)
}
