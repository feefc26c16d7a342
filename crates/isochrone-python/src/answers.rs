//! Answers of the library as plain Python values: dicts, lists, numbers, texts.

use pyo3::prelude::*;
use serde::Serialize;

use crate::errors::refused;

/// Any answer as what `json.loads` makes of it: the keys are those that the command prints.
pub fn plain<'py>(py: Python<'py>, answer: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(answer)
        .map_err(|error| refused(format!("the answer cannot be written: {error}"), "report it"))?;
    py.import("json")?.getattr("loads")?.call1((text,))
}
