//! The shape of a product and of the matrices it reads.

/// The shape of a product: (m × k) · (k × n).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Rows of the result.
    pub m: usize,
    /// Summed over.
    pub k: usize,
    /// Columns of the result.
    pub n: usize,
}

/// Where a matrix begins and how far its rows and its columns lie apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strided<T> {
    pub start: *const T,
    pub row: usize,
    pub column: usize,
}

// SAFETY: it is only read through, in a product that borrows the matrix.
unsafe impl<T> Sync for Strided<T> {}

impl<T> Strided<T> {
    /// # Safety
    /// The row and the column are in the matrix.
    pub unsafe fn at(self, row: usize, column: usize) -> Self {
        // SAFETY: the place is in the matrix.
        Self { start: unsafe { self.start.add(row * self.row + column * self.column) }, ..self }
    }
}
