//! What the page is sent once: a map of embedded states, the model's numbers, recorded trajectories,
//! curves. Long arrays travel as base64 of little-endian numbers.

use isochrone::data::Dataset;
use isochrone::ledger::{self, Table};
use isochrone::model::{Embedded, Model};
use isochrone::nn::{Embedding, Latents, MeasureShape};
use isochrone::report::MapCells;
use isochrone::run::files::{EVALUATION, METRICS};
use isochrone::{Error, Result};
use serde_json::{Value, json};

use super::loaded::Loaded;
use super::recorded::RecordedData;

/// Latent values of a map on the page.
pub const FLOATS: usize = 3_000_000;
/// Cells near the data, at most.
const MOST_CELLS: usize = 10_000;
/// Cells of a distance that the page must compute by its networks, pair by pair.
const MOST_COMPUTED: usize = 2_500;
/// Points of a trajectory, trajectories, and points of all of them, at most.
const POINTS: usize = 250;
const TRAJECTORIES: usize = 160;
const ALL_POINTS: usize = 6_000;
/// Rows of a table of curves, at most.
const ROWS: usize = 400;

/// Base64 with the usual alphabet.
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = ALPHABET[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

fn numbers(values: &[f32]) -> String {
    let mut bytes = Vec::with_capacity(4 * values.len());
    values.iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
    base64(&bytes)
}

/// The grid of a map: about as many cells as the page can hold within `floats` latent values.
pub fn grid(
    model: &Model,
    data: &RecordedData,
    axes: [usize; 2],
    floats: usize,
) -> Result<MapCells> {
    let most = match &model.shape().distance {
        None => COARSE,
        Some(MeasureShape::Valued(_)) => MOST_COMPUTED,
        Some(_) => {
            let probe = model.embed(data.source.dataset.state(0))?;
            let width =
                |copy: &Embedding| copy.from.width + copy.to.as_ref().map_or(0, |to| to.width);
            let each: usize = probe.copies().iter().map(width).sum();
            (floats / each).clamp(COARSE, MOST_CELLS)
        }
    };
    MapCells::new(model, &data.source.dataset, data.world(), axes, most)
}

/// The fewest cells of a map.
const COARSE: usize = 900;

/// A map: the cells of a plane, their states, and how the distance sees them.
pub fn map(loaded: &Loaded, axes: [usize; 2], floats: usize) -> Result<Value> {
    let model = &loaded.opened.model;
    let grid = grid(model, &loaded.data, axes, floats)?;
    let computed = matches!(model.shape().distance, None | Some(MeasureShape::Valued(_)));
    let copies = if computed { Vec::new() } else { copies(loaded, &grid.states)? };
    Ok(json!({
        "version": loaded.version,
        "axes": grid.axes,
        "horizontal": grid.horizontal,
        "vertical": grid.vertical,
        "columns": grid.columns,
        "rows": grid.rows,
        "cells": base64(&grid.cells.iter().flat_map(|cell| cell.to_le_bytes()).collect::<Vec<_>>()),
        "states": numbers(&grid.states),
        "copies": copies,
    }))
}

/// The latent rows of states, copy by copy; parts of them are embedded at the same time.
fn copies(loaded: &Loaded, states: &[f32]) -> Result<Vec<Value>> {
    let model = &loaded.opened.model;
    let size = model.shape().state_size;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = (states.len() / size).div_ceil(threads).max(1) * size;
    let parts = std::thread::scope(|scope| {
        let parts: Vec<_> =
            states.chunks(part).map(|part| scope.spawn(|| model.embed(part))).collect();
        parts.into_iter().map(|part| part.join().unwrap_or_else(|_| model.embed(&[]))).collect()
    });
    let parts: Vec<Embedded> = Result::<Vec<_>>::from_iter::<Vec<_>>(parts)?;
    let side = |of: &dyn Fn(&Embedding) -> Option<&Latents>, copy: usize| {
        let latents: Vec<&Latents> =
            parts.iter().filter_map(|part| of(&part.copies()[copy])).collect();
        let rows: Vec<f32> = latents.iter().flat_map(|one| &one.numbers).copied().collect();
        latents.first().map(|one| json!({ "width": one.width, "numbers": numbers(&rows) }))
    };
    let count = parts.first().map_or(0, |part| part.copies().len());
    let copy = |at: usize| {
        let (from, to) = (side(&|one| Some(&one.from), at), side(&|one| one.to.as_ref(), at));
        json!({ "from": from, "to": to })
    };
    Ok((0..count).map(copy).collect())
}

/// The map of the first coordinates, as JSON; made once.
///
/// # Errors
/// Why there is none.
pub fn first_map(loaded: &Loaded) -> std::result::Result<String, String> {
    let make = || map(loaded, loaded.axes, FLOATS).map(|map| map.to_string());
    loaded.map.get_or_init(|| make().map_err(|error| error.to_string())).clone()
}

/// The distance's shape and numbers, laid out as in a model file.
pub fn model(loaded: &Loaded) -> Value {
    let model = &loaded.opened.model;
    let arrays = model.numbers();
    json!({
        "version": loaded.version,
        "shape": model.shape(),
        "distance": numbers(arrays.distance.unwrap_or_default()),
        "stored_actions": numbers(arrays.stored_actions),
        "directions": numbers(model.shape().normalization.directions()),
    })
}

/// Some recorded trajectories in the plane of two coordinates.
pub fn trajectories(loaded: &Loaded, axes: [usize; 2]) -> Result<Value> {
    let dataset: &Dataset = &loaded.data.source.dataset;
    if let Some(axis) = axes.into_iter().find(|&axis| axis >= dataset.state_size()) {
        return Err(Error::input(format!("no coordinate `{axis}`")));
    }
    let all = dataset.trajectories();
    let length = (dataset.rows() / all).clamp(1, POINTS);
    let shown = all.min(TRAJECTORIES).min(ALL_POINTS / length);
    let (mut points, mut lengths) = (Vec::new(), Vec::new());
    for index in 0..shown {
        // Evenly spread, without a fixed stride that would meet one family alone.
        let rows = dataset.trajectory(index * all / shown);
        let (first, count) = (rows.start, rows.len());
        let kept = count.min(POINTS);
        for at in 0..kept {
            let row = first + if kept > 1 { at * (count - 1) / (kept - 1) } else { 0 };
            points.extend(axes.map(|axis| dataset.state(row)[axis]));
        }
        lengths.push(kept);
    }
    Ok(json!({ "axes": axes, "lengths": lengths, "points": numbers(&points) }))
}

/// The tables of a run's folder, thinned; those that are there.
pub fn curves(folder: &std::path::Path) -> Result<Value> {
    let table = |name: &str| {
        let path = folder.join(name);
        if !path.exists() {
            return Ok(Value::Null);
        }
        ledger::read(&path).map(thinned)
    };
    Ok(json!({ "metrics": table(METRICS)?, "evaluation": table(EVALUATION)? }))
}

fn thinned(table: Table) -> Value {
    let apart = table.rows.len().div_ceil(ROWS).max(1);
    let last = table.rows.len().saturating_sub(1);
    let rows = table.rows.iter().enumerate();
    let rows: Vec<&Vec<f64>> =
        rows.filter(|(at, _)| at % apart == 0 || *at == last).map(|(_, row)| row).collect();
    json!({ "columns": table.columns, "rows": rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_usual_one() {
        for (text, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(text.as_bytes()), expected);
        }
        assert_eq!(base64(&[255, 254, 253]), "//79");
    }
}
