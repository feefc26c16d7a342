//! Arrays from Python: of any layout and number type, as rows of finite 32-bit floats.

use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::errors::refused;

/// An array's values in C order and its shape.
pub struct Values<T> {
    pub values: Vec<T>,
    pub shape: Vec<usize>,
}

/// Rows of equal width.
pub struct RowValues {
    pub values: Vec<f32>,
    pub rows: usize,
    /// Whether one row was given without a leading axis.
    pub is_single: bool,
}

/// The kind of an array's numbers, as numpy names it: `f`, `i`, `u`, `b` and others.
pub fn kind(array: &Bound<'_, PyAny>) -> PyResult<String> {
    array.getattr("dtype")?.getattr("kind")?.extract()
}

/// Anything that numpy takes for an array of numbers.
pub fn as_array<'py>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = value.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (value,)).map_err(|error| {
        refused(format!("`{name}` is not an array: {error}"), "pass rows of equal length")
    })?;
    let kind = kind(&array)?;
    if ["f", "i", "u", "b"].contains(&kind.as_str()) {
        return Ok(array);
    }
    let dtype = array.getattr("dtype")?.str()?;
    Err(refused(
        format!("`{name}` has the dtype `{dtype}`, expected numbers"),
        "pass rows of equal length, of floats or integers",
    ))
}

/// The array's numbers as `T`, copied.
pub fn values<T: numpy::Element + Copy>(
    name: &str,
    value: &Bound<'_, PyAny>,
) -> PyResult<Values<T>> {
    if let Ok(array) = value.cast::<PyArrayDyn<T>>()
        && array.is_c_contiguous()
        && let Some(copy) = copied(&array.readonly())
    {
        return Ok(copy);
    }
    let array = as_array(name, value)?;
    let numpy = value.py().import("numpy")?;
    let dtype = T::get_dtype(value.py());
    // A value too large for 32 bits becomes infinite, which is refused below without a warning here.
    let quiet = numpy.call_method("errstate", (), Some(&over(value.py())?))?;
    quiet.call_method0("__enter__")?;
    let converted = numpy.call_method1("require", (&array, dtype, ["C", "A"]));
    quiet.call_method1("__exit__", (value.py().None(), value.py().None(), value.py().None()))?;
    let converted = converted?.cast_into::<PyArrayDyn<T>>()?;
    copied(&converted.readonly())
        .ok_or_else(|| refused(format!("`{name}` cannot be read"), "pass a plain numpy array"))
}

fn over(py: Python<'_>) -> PyResult<Bound<'_, pyo3::types::PyDict>> {
    let words = pyo3::types::PyDict::new(py);
    words.set_item("over", "ignore")?;
    words.set_item("invalid", "ignore")?;
    Ok(words)
}

/// A copy; none of an array that is not contiguous or not aligned.
fn copied<T: numpy::Element + Copy>(array: &PyReadonlyArrayDyn<'_, T>) -> Option<Values<T>> {
    let values = array.as_slice().ok()?.to_vec();
    Some(Values { values, shape: array.shape().to_vec() })
}

/// One row of `size` values, or several: shape (`size`,) or (rows, `size`).
pub fn rows(name: &str, value: &Bound<'_, PyAny>, size: usize) -> PyResult<RowValues> {
    let Values { values, shape } = values::<f32>(name, value)?;
    let (rows, is_single) = match shape[..] {
        [width] if width == size => (1, true),
        [rows, width] if width == size => (rows, false),
        _ => {
            return Err(refused(
                format!(
                    "`{name}` has the shape {}, expected ({size},) or (rows, {size})",
                    shown(&shape)
                ),
                "one row has as many values as a state of the model",
            ));
        }
    };
    finite(name, &values, size)?;
    Ok(RowValues { values, rows, is_single })
}

/// Refuses the first row with a value that is not finite.
pub fn finite(name: &str, values: &[f32], size: usize) -> PyResult<()> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => Err(refused(
            format!(
                "`{name}` row {} has `{}`, expected finite numbers",
                at / size.max(1),
                values[at]
            ),
            "drop or repair the row; 32-bit floats reach 3.4e38",
        )),
    }
}

/// A shape as Python prints it.
pub fn shown(shape: &[usize]) -> String {
    let numbers: Vec<String> = shape.iter().map(usize::to_string).collect();
    match &numbers[..] {
        [one] => format!("({one},)"),
        _ => format!("({})", numbers.join(", ")),
    }
}

/// Values as an array of `rows` rows.
pub fn table<T: numpy::Element>(
    py: Python<'_>,
    values: Vec<T>,
    rows: usize,
    width: usize,
) -> PyResult<Bound<'_, PyArray2<T>>> {
    values.into_pyarray(py).reshape([rows, width])
}

/// Values as a row.
pub fn row<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyArray1<T>> {
    values.into_pyarray(py)
}
