//! Spreads rows over threads; every row is computed by one task, whatever the number of threads.

use std::sync::Arc;

use rayon::prelude::*;

use crate::error::{Error, Result};

/// A pool of threads, or none.
#[derive(Clone, Default)]
pub struct Threads {
    pool: Option<Arc<rayon::ThreadPool>>,
}

impl Threads {
    /// A pool of `count` threads; one thread means the caller's own.
    ///
    /// # Errors
    /// The system refuses to start threads.
    pub fn new(count: usize) -> Result<Self> {
        if count <= 1 {
            return Ok(Self::default());
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build();
        let pool = pool.map_err(|error| {
            Error::memory(format!("cannot start {count} threads: {error}"))
                .hint("lower `--threads`")
        })?;
        Ok(Self { pool: Some(Arc::new(pool)) })
    }

    /// How many threads work.
    pub fn count(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Runs `work` inside the pool, so that the calls below start at once.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Calls `work(part, numbers)` for consecutive parts of `out`, `length` numbers each.
    pub fn parts<T: Send>(
        &self,
        out: &mut [T],
        length: usize,
        work: impl Fn(usize, &mut [T]) + Sync,
    ) {
        match self.pool {
            None => out.chunks_mut(length).enumerate().for_each(|(at, part)| work(at, part)),
            Some(_) => {
                out.par_chunks_mut(length).enumerate().for_each(|(at, part)| work(at, part));
            }
        }
    }

    /// As [`Threads::parts`], over three slices cut alongside each other.
    pub fn parts3<A: Send, B: Send, C: Send>(
        &self,
        first: (&mut [A], usize),
        second: (&mut [B], usize),
        third: (&mut [C], usize),
        work: impl Fn(usize, &mut [A], &mut [B], &mut [C]) + Sync,
    ) {
        match self.pool {
            None => first
                .0
                .chunks_mut(first.1)
                .zip(second.0.chunks_mut(second.1))
                .zip(third.0.chunks_mut(third.1))
                .enumerate()
                .for_each(|(at, ((a, b), c))| work(at, a, b, c)),
            Some(_) => first
                .0
                .par_chunks_mut(first.1)
                .zip(second.0.par_chunks_mut(second.1))
                .zip(third.0.par_chunks_mut(third.1))
                .enumerate()
                .for_each(|(at, ((a, b), c))| work(at, a, b, c)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_visited_once_for_any_thread_count() {
        for count in [1, 2, 3] {
            let threads = Threads::new(count).unwrap();
            assert_eq!(threads.count(), count);
            let mut out = vec![0u32; 103];
            threads.enter(|| {
                threads.parts(&mut out, 10, |part, numbers| {
                    numbers.iter_mut().for_each(|x| *x += 1 + part as u32);
                });
            });
            assert!(out.iter().enumerate().all(|(at, &x)| x == 1 + (at / 10) as u32));
        }
    }
}
