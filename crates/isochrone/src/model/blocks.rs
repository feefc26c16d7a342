//! Answers for many rows, block after block over all threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::error::Result;

/// Rows that one thread takes at a time; fixed, so that answers do not depend on the threads.
pub(super) const BLOCK: usize = 256;

/// What `answer` says of blocks of at most `block` rows, one after the other.
pub(super) fn in_blocks(
    rows: usize,
    block: usize,
    answer: impl Fn(Range<usize>) -> Result<Vec<f32>> + Sync,
) -> Result<Vec<f32>> {
    if rows <= block {
        return answer(0..rows);
    }
    let blocks = (0..rows.div_ceil(block)).into_par_iter();
    let answers =
        blocks.map(|at| answer(at * block..rows.min((at + 1) * block))).collect::<Result<Vec<_>>>();
    Ok(answers?.concat())
}
