//! The library's errors as Python's, in the same words.

use isochrone::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};

/// The exception of an error: what a caller can fix is a `ValueError`.
pub fn raised(error: Error) -> PyErr {
    let words = error.to_string();
    match error {
        Error::Input(_) => PyValueError::new_err(words),
        Error::Disk { .. } => PyOSError::new_err(words),
        Error::Diverged { .. } | Error::Memory(_) | Error::Changed(_) | Error::Busy(_) => {
            PyRuntimeError::new_err(words)
        }
        Error::Interrupted(_) => PyKeyboardInterrupt::new_err(words),
    }
}

/// A `ValueError`: what was expected and found, and what to do about it.
pub fn refused(what: impl Into<String>, hint: &str) -> PyErr {
    raised(Error::input(what).hint(hint))
}
