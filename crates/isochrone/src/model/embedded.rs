//! States in latent coordinates.

use crate::error::{Error, Result};
use crate::nn::Embedding;

/// Pairs that one thread measures at a time.
pub(super) const PAIRS: usize = 1 << 16;

/// A distance for every pair of so many states, all zero.
pub(super) fn room_for(from: usize, to: usize) -> Result<Vec<f32>> {
    let refused = || {
        Error::memory(format!("{from} × {to} distances do not fit in memory"))
            .hint("ask about fewer states at a time")
    };
    let mut all = Vec::new();
    let count = from.checked_mul(to).ok_or_else(refused)?;
    all.try_reserve_exact(count).map_err(|_| refused())?;
    all.resize(count, 0.0);
    Ok(all)
}

/// States in latent coordinates: embed once, compare often.
#[derive(Debug, Clone)]
pub struct Embedded {
    pub(super) rows: usize,
    /// The states once for every copy of the distance: a stored action, or a critic.
    pub(super) copies: Vec<Embedding>,
}

impl Embedded {
    /// How many states.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The latent rows, once for every copy of the distance.
    pub fn copies(&self) -> &[Embedding] {
        &self.copies
    }

    /// Some of the states, in this order.
    pub(super) fn at(&self, rows: &[usize]) -> Self {
        let copies = self.copies.iter().map(|copy| copy.at(rows)).collect();
        Self { rows: rows.len(), copies }
    }
}
