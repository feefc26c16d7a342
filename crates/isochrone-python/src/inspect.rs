//! `data.inspect`: what a file holds and what looks wrong with it.

use std::path::PathBuf;

use isochrone::data::{Choices, Format, Inspection, Memory, open_sample};
use pyo3::prelude::*;
use serde::Serialize;

use crate::answers::plain;
use crate::errors::raised;

#[derive(Serialize)]
struct Inspected {
    file: PathBuf,
    format: Format,
    notes: Vec<String>,
    held_out: Option<PathBuf>,
    #[serde(flatten)]
    found: Inspection,
}

/// Describes a file of trajectories: rows, lengths, ranges, and what looks wrong.
#[pyfunction]
#[pyo3(signature = (path, *, keys = None))]
pub fn inspect(
    py: Python<'_>,
    path: PathBuf,
    keys: Option<Vec<String>>,
) -> PyResult<Bound<'_, PyAny>> {
    let choices = Choices { keys: keys.unwrap_or_default() };
    let answer = py.detach(|| {
        let opened = open_sample(&path, &choices, Memory::usual())?;
        let found = Inspection::of(&opened.rows);
        let (format, notes, held_out) = (opened.format, opened.notes, opened.held_out);
        Ok(Inspected { file: path, format, notes, held_out, found })
    });
    plain(py, &answer.map_err(raised)?)
}
