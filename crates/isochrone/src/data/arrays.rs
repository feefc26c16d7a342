//! Numeric arrays of any shape from an npz file in memory, by name, in double precision.

use std::io::Cursor;

use super::archive::Archive;
use super::npy;
use crate::error::{Error, Result};

/// The arrays of an npz file; each is unpacked on request.
pub struct Arrays<'a> {
    archive: Archive<Cursor<&'a [u8]>>,
}

/// One array: its shape and its values in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The length of each dimension; empty for a scalar.
    pub shape: Vec<usize>,
    /// The values.
    pub values: Vec<f64>,
}

impl<'a> Arrays<'a> {
    /// Opens the npz file in `bytes`.
    ///
    /// # Errors
    /// The bytes are not a valid zip file.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        Ok(Self { archive: Archive::new(Cursor::new(bytes))? })
    }

    /// The names of the arrays, in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.archive.entries().iter().filter_map(|entry| entry.name.strip_suffix(".npy"))
    }

    /// The array called `name`.
    ///
    /// # Errors
    /// There is none, or it is damaged, or it is not numeric.
    pub fn get(&mut self, name: &str) -> Result<Array> {
        let place = self
            .archive
            .entries()
            .iter()
            .position(|entry| entry.name.strip_suffix(".npy") == Some(name));
        let place = place.ok_or_else(|| Error::input(format!("no key `{name}`")))?;
        self.archive.read(place, |reader, entry| {
            let header = npy::header(reader, name, entry.size)?;
            Ok(Array { values: npy::wide(reader, &header, name)?, shape: header.shape })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_any_shape_are_read_in_double_precision() {
        let bytes = include_bytes!("../../tests/fixtures/float64.npz");
        let mut arrays = Arrays::open(bytes).unwrap();
        assert!(arrays.names().any(|name| name == "states"));
        let states = arrays.get("states").unwrap();
        assert_eq!((states.shape, states.values[3]), (vec![5, 2], -1.5));
        assert_eq!(arrays.get("terminals").unwrap().values, [0.0, 0.0, 1.0, 0.0, 1.0]);
        assert_eq!(arrays.get("nothing").unwrap_err().to_string(), "no key `nothing`");
        let object = include_bytes!("../../tests/fixtures/object.npz");
        let mut arrays = Arrays::open(object).unwrap();
        let name = arrays.names().next().map(str::to_owned).unwrap();
        assert!(arrays.get(&name).is_err());
        assert!(Arrays::open(&bytes[..bytes.len() - 9]).is_err());
        let traces = include_bytes!("../../tests/fixtures/golden-traces.npz");
        let start = Arrays::open(traces).unwrap().get("pointmaze-medium-task1/qpos0").unwrap();
        assert!(start.values.iter().any(|&value| value != f64::from(value as f32)));
    }
}
