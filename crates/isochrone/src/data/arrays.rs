//! Any arrays of numbers from an npz file in memory, by name, with all their digits.

use std::io::Cursor;

use super::archive::Archive;
use super::npy;
use crate::error::{Error, Result};

/// The arrays of an npz file; each is unpacked when it is asked for.
pub struct Arrays<'a> {
    archive: Archive<Cursor<&'a [u8]>>,
}

/// One array: its sides and its numbers, the last side running fastest.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The length of each side; none for a single number.
    pub shape: Vec<usize>,
    /// The numbers.
    pub values: Vec<f64>,
}

impl<'a> Arrays<'a> {
    /// Opens an npz file that stands in `bytes`.
    ///
    /// # Errors
    /// The bytes are no sound zip file.
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
    /// There is none, or it is damaged, or it holds something else than numbers.
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
    fn arrays_of_any_number_of_sides_are_read_with_all_digits() {
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
