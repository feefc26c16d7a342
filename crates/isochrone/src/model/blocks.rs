//! Answers for many rows, block after block over all threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::Result;

/// Rows that one thread takes at a time: as many as a network takes in one task.
pub(super) const BLOCK: usize = 192;

/// What `answer` says of blocks of at most `block` rows, one after the other.
pub(super) fn in_blocks<R: Send>(
    rows: usize,
    block: usize,
    answer: impl Fn(Range<usize>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if rows <= block {
        return Ok(vec![answer(0..rows)?]);
    }
    let blocks = (0..rows.div_ceil(block)).into_par_iter();
    blocks.map(|at| answer(at * block..rows.min((at + 1) * block))).collect()
}
