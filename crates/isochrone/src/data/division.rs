//! How the processes of a run divide the rows of a dataset among themselves: each holds consecutive
//! trajectories, in the order of their ranks, and sends others what they need.

use std::ops::Range;
use std::sync::Arc;

use crate::collective::Collective;
use crate::error::Result;

/// Values that are sent at once.
const BLOCK: usize = 1 << 16;

/// Which rows each process holds.
#[derive(Debug, Clone)]
pub(super) struct Division {
    /// By rank, the row after the last that it holds.
    ends: Arc<[usize]>,
    collective: Collective,
}

impl PartialEq for Division {
    fn eq(&self, other: &Self) -> bool {
        self.ends == other.ends
    }
}

impl Division {
    /// What stands for a row of another process: x + −0 has the bits of x, whatever x is.
    pub(super) const ABSENT: f32 = -0.0;

    /// `counts` holds the number of rows of each process.
    pub(super) fn new(counts: &[usize], collective: &Collective) -> Self {
        let mut end = 0;
        let ends = counts.iter().map(|count| {
            end += count;
            end
        });
        Self { ends: ends.collect(), collective: collective.clone() }
    }

    /// The rows of this process.
    pub(super) fn own(&self) -> Range<usize> {
        self.of(self.collective.rank())
    }

    fn of(&self, rank: usize) -> Range<usize> {
        let start = rank.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[rank]
    }

    /// The division of a dataset of some of the trajectories; `first_and_length` tells where each
    /// began and how long it is.
    pub(super) fn select(&self, first_and_length: impl Iterator<Item = (usize, usize)>) -> Self {
        let mut counts = vec![0; self.ends.len()];
        for (first, length) in first_and_length {
            counts[self.ends.partition_point(|&end| end <= first)] += length;
        }
        Self::new(&counts, &self.collective)
    }

    /// Passes all rows, of `size` values each, to `take`, in order and on every process; `held` passes
    /// on those held here.
    pub(super) fn each(
        &self,
        size: usize,
        held: impl Fn(&mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()>,
        take: &mut dyn FnMut(&[f32]) -> Result<()>,
    ) -> Result<()> {
        let whole_rows = (BLOCK / size.max(1)).max(1) * size.max(1);
        for rank in 0..self.collective.size() {
            if rank != self.collective.rank() {
                self.receive(rank, take)?;
                continue;
            }
            held(&mut |values| {
                values.chunks(whole_rows).try_for_each(|block| {
                    self.send(block);
                    take(block)
                })
            })?;
            self.send(&[]);
        }
        Ok(())
    }

    fn send(&self, block: &[f32]) {
        let mut bytes: Vec<u8> = block.iter().flat_map(|value| value.to_le_bytes()).collect();
        let rank = self.collective.rank();
        self.collective.broadcast_from(rank, &mut (block.len() as u64).to_le_bytes());
        self.collective.broadcast_from(rank, &mut bytes);
    }

    /// Takes blocks from another process up to an empty one, its last.
    fn receive(&self, rank: usize, take: &mut dyn FnMut(&[f32]) -> Result<()>) -> Result<()> {
        let (mut count, mut bytes, mut block) = ([0; 8], Vec::new(), Vec::new());
        loop {
            self.collective.broadcast_from(rank, &mut count);
            bytes.resize(4 * u64::from_le_bytes(count) as usize, 0);
            self.collective.broadcast_from(rank, &mut bytes);
            if bytes.is_empty() {
                return Ok(());
            }
            block.clear();
            block.extend(bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)));
            take(&block)?;
        }
    }

    /// Completes rows that every process listed alike and filled in where it holds them; the others
    /// are [`Self::ABSENT`].
    pub(super) fn join(&self, rows: &mut [f32], room: &mut Vec<f32>) {
        self.collective.sum(rows, room);
    }
}
