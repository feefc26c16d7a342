//! Spreads rows over threads; every row is computed by one task, whatever the number of threads.
#![allow(unsafe_code)]

mod team;

use std::marker::PhantomData;
use std::sync::Arc;

use crate::error::{Error, Result};
use team::{PartWork, Team};

/// A pool of threads, or none.
#[derive(Clone, Default)]
pub struct Threads {
    pool: Option<Arc<Pool>>,
}

/// The team takes the parts of an update, which are brief; rayon's threads sleep meanwhile and take
/// whatever else is spread.
struct Pool {
    team: Team,
    rayon: rayon::ThreadPool,
}

impl Threads {
    /// More threads than any machine has cores would only waste memory.
    pub const MOST: usize = 1024;

    /// A pool of `count` threads; one thread means the caller's own.
    ///
    /// # Errors
    /// More than [`Threads::MOST`], or the system refuses to start threads.
    pub fn new(count: usize) -> Result<Self> {
        if count <= 1 {
            return Ok(Self::default());
        }
        if count > Self::MOST {
            return Err(Error::input(format!("{count} threads, expected 1 to {}", Self::MOST))
                .hint("leave it out to use all cores"));
        }
        let rayon = rayon::ThreadPoolBuilder::new().num_threads(count).build();
        let rayon = rayon.map_err(|error| refused(count, &error))?;
        let team = Team::new(count).map_err(|error| refused(count, &error))?;
        Ok(Self { pool: Some(Arc::new(Pool { team, rayon })) })
    }

    /// Spreads all work of this process that has no pool of its own over `count` threads; to be
    /// called once, before any such work.
    ///
    /// # Errors
    /// The system refuses to start threads, or work has already been spread.
    pub fn limit(count: usize) -> Result<()> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count);
        pool.build_global().map_err(|error| refused(count, &error))
    }

    /// How many threads work.
    pub fn count(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.team.count())
    }

    /// Runs `work` inside the pool, so that whatever it spreads by rayon stays in it.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.rayon.install(work),
            None => work(),
        }
    }

    /// Calls `work` with every number below `count`.
    fn each(&self, count: usize, work: PartWork<'_>) {
        match &self.pool {
            Some(pool) => pool.team.run(count, work),
            None => (0..count).for_each(work),
        }
    }

    /// Calls `work(part, numbers)` for consecutive parts of `out`, `length` numbers each.
    pub fn parts<T: Send>(
        &self,
        out: &mut [T],
        length: usize,
        work: impl Fn(usize, &mut [T]) + Sync,
    ) {
        let out = Cut::new(out, length);
        // SAFETY: every part is asked for once.
        self.each(out.count(), &|part| work(part, unsafe { out.part(part) }));
    }

    /// As [`Threads::parts`], over three slices cut alongside each other.
    pub fn parts3<A: Send, B: Send, C: Send>(
        &self,
        first: (&mut [A], usize),
        second: (&mut [B], usize),
        third: (&mut [C], usize),
        work: impl Fn(usize, &mut [A], &mut [B], &mut [C]) + Sync,
    ) {
        let first = Cut::new(first.0, first.1);
        let second = Cut::new(second.0, second.1);
        let third = Cut::new(third.0, third.1);
        let count = first.count().min(second.count()).min(third.count());
        self.each(count, &|part| {
            // SAFETY: every part is asked for once.
            let (a, b, c) = unsafe { (first.part(part), second.part(part), third.part(part)) };
            work(part, a, b, c);
        });
    }
}

fn refused(count: usize, error: &dyn std::fmt::Display) -> Error {
    Error::memory(format!("cannot start {count} threads: {error}")).hint("lower `--threads`")
}

/// A slice that is cut into parts of one length, the last one shorter.
struct Cut<'a, T> {
    start: *mut T,
    total: usize,
    length: usize,
    borrowed: PhantomData<&'a mut [T]>,
}

// SAFETY: its parts are slices that lie apart, which threads may have where numbers may be sent.
unsafe impl<T: Send> Sync for Cut<'_, T> {}

impl<'a, T> Cut<'a, T> {
    fn new(numbers: &'a mut [T], length: usize) -> Self {
        assert!(length > 0, "a part has numbers");
        Self { start: numbers.as_mut_ptr(), total: numbers.len(), length, borrowed: PhantomData }
    }

    fn count(&self) -> usize {
        self.total.div_ceil(self.length)
    }

    /// # Safety
    /// The part is below the count and is asked for once.
    #[allow(clippy::mut_from_ref)]
    unsafe fn part(&self, part: usize) -> &mut [T] {
        let from = part * self.length;
        // SAFETY: the part begins inside the slice and ends with it at the latest; no other part has
        // any of its numbers.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.add(from), self.length.min(self.total - from))
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

    #[test]
    fn three_slices_are_cut_alongside_each_other_up_to_the_shortest() {
        for count in [1, 2, 3] {
            let threads = Threads::new(count).unwrap();
            let (mut a, mut b, mut c) = (vec![0u32; 50], vec![0u64; 9], vec![0u8; 11]);
            threads.parts3((&mut a, 10), (&mut b, 2), (&mut c, 3), |part, a, b, c| {
                a.iter_mut().for_each(|x| *x += 1 + part as u32);
                b.iter_mut().for_each(|x| *x += 1 + part as u64);
                c.iter_mut().for_each(|x| *x += 1 + part as u8);
            });
            let expected =
                |at: usize, length: usize| if at / length < 4 { at / length + 1 } else { 0 };
            assert!((0..50).all(|at| a[at] as usize == expected(at, 10)), "{a:?}");
            assert!((0..9).all(|at| b[at] as usize == expected(at, 2)), "{b:?}");
            assert!((0..11).all(|at| c[at] as usize == expected(at, 3)), "{c:?}");
        }
    }
}
