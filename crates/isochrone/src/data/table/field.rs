//! The arrays of a table and their values.

use std::io::{self, Write};

use crate::data::npy::{self, Item};

/// One array of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name in an npz file.
    pub(super) key: String,
    /// Its name in a csv file, where values of a row are numbered: `name_0`, `name_1`, ….
    pub(super) column: String,
    /// The shape of a row; empty for a single value.
    pub(super) shape: Vec<usize>,
    pub(super) item: Item,
}

impl Field {
    /// Numbers, one per row.
    pub fn number(name: &str) -> Self {
        Self::rows(name, name, &[])
    }

    /// Whole numbers, one per row.
    pub fn whole(name: &str) -> Self {
        Self { item: Item::Int64, ..Self::rows(name, name, &[]) }
    }

    /// Rows of numbers of this shape, called `key` in npz files and `column_0`, … in csv files.
    pub fn rows(key: &str, column: &str, shape: &[usize]) -> Self {
        let (key, column) = (key.to_owned(), column.to_owned());
        Self { key, column, shape: shape.to_vec(), item: Item::Float32 }
    }

    pub(super) fn width(&self) -> usize {
        self.shape.iter().product()
    }

    pub(super) fn columns(&self) -> Vec<String> {
        if self.shape.is_empty() {
            return vec![self.column.clone()];
        }
        (0..self.width()).map(|at| format!("{}_{at}", self.column)).collect()
    }
}

/// Values of one field for several rows.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// Of a field of numbers.
    Numbers(&'a [f32]),
    /// Of a field of whole numbers.
    Wholes(&'a [u64]),
}

impl Values<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbers(values) => values.len(),
            Self::Wholes(values) => values.len(),
        }
    }

    pub(super) fn write(&self, writer: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Numbers(values) => npy::write_numbers(writer, values),
            Self::Wholes(values) => {
                values.iter().try_for_each(|value| writer.write_all(&value.to_le_bytes()))
            }
        }
    }
}
