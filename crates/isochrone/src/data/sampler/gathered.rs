//! Rows of a batch that the processes of a run have brought together.

use crate::data::dataset::Dataset;
use crate::data::store::StoredArray;
use crate::error::Result;

/// Rows of one array, each once and in order.
#[derive(Debug, Clone, Default)]
pub(super) struct GatheredRows {
    pub(super) rows: Vec<u32>,
    values: Vec<f32>,
    room: Vec<f32>,
}

impl GatheredRows {
    /// Brings the values of `rows` together, which may be listed repeatedly.
    pub(super) fn fill(&mut self, dataset: &Dataset, column: StoredArray) -> Result<()> {
        self.rows.sort_unstable();
        self.rows.dedup();
        dataset.gather(column, &self.rows, &mut self.values, &mut self.room)
    }

    /// One row of `size` values.
    pub(super) fn row(&self, row: u32, size: usize) -> &[f32] {
        let place = self.rows.binary_search(&row).expect("a row that a column is filled from");
        &self.values[place * size..][..size]
    }
}
