//! A team of threads that shares one job after the other: whoever calls works along with the others.
//!
//! Between jobs its threads look for the next one for a while before they sleep, since the operations
//! of an update follow each other within microseconds and waking a thread takes longer than that. A
//! thread that comes late finds the job closed, and nobody waits for it. Every thread begins with its
//! own share of the parts, the same for every job, so that rows stay in the cache of the same core;
//! then it takes what others have not begun.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How often a thread looks for a job before it sleeps: some tenths of a millisecond.
const LOOKS: usize = 1 << 12;
/// The job is open to threads that are not yet at it.
const OPEN: u64 = 1 << 16;
/// There will be no more jobs.
const OVER: u64 = 1 << 17;
/// Jobs are counted above the flags, threads at the job below them.
const JOB: u64 = 1 << 18;

/// The next part of a thread's share, in a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Next(AtomicUsize);

/// What the parts of a job are calls of. It is not a type parameter, so that the machine code of a job
/// exists once.
pub(super) type PartWork<'w> = &'w (dyn Fn(usize) + Sync);

/// A job: its parts, and where its caller keeps the [`PartWork`].
#[derive(Clone, Copy)]
struct Job {
    work: *const (),
    parts: usize,
}

// SAFETY: it is called by threads that are at it alone; while there are any, its caller keeps what it
// points to, which is `Sync`.
unsafe impl Send for Job {}

struct Board {
    /// Jobs so far, [`OVER`], [`OPEN`] and how many threads are at the job, its caller left out.
    state: AtomicU64,
    job: Mutex<Option<Job>>,
    next: Box<[Next]>,
    asleep: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Threads that wait for jobs.
pub(super) struct Team {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
    busy: AtomicBool,
}

impl Team {
    /// A team of `count` threads, the caller of a job among them.
    pub fn new(count: usize) -> std::io::Result<Self> {
        let board = Arc::new(Board {
            state: AtomicU64::new(0),
            job: Mutex::default(),
            next: (0..count).map(|_| Next::default()).collect(),
            asleep: AtomicUsize::new(0),
            panic: Mutex::default(),
        });
        let mut team = Self { board, threads: Vec::new(), busy: AtomicBool::new(false) };
        for place in 1..count {
            let board = team.board.clone();
            let thread = std::thread::Builder::new().name(format!("team {place}"));
            team.threads.push(thread.spawn(move || board.serve(place))?);
        }
        Ok(team)
    }

    /// How many threads work.
    pub fn count(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `work` with every number below `parts`. A call from inside a job, or while another thread
    /// has one, is worked on by its caller alone.
    pub fn run(&self, parts: usize, work: PartWork<'_>) {
        if parts <= 1 || self.busy.swap(true, Ordering::Acquire) {
            return (0..parts).for_each(work);
        }
        let board = &*self.board;
        board.open(Job { work: (&raw const work).cast(), parts });
        if board.asleep.load(Ordering::SeqCst) > 0 {
            self.threads.iter().take(parts - 1).for_each(|thread| thread.thread().unpark());
        }
        let own = catch_unwind(AssertUnwindSafe(|| board.work(0)));
        board.close();
        let other = board.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.busy.store(false, Ordering::Release);
        if let Some(panic) = own.err().or(other) {
            resume_unwind(panic);
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.board.state.fetch_or(OVER, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A thread catches the panics of its jobs, so that it ends in no other way.
            let _ = thread.join();
        }
    }
}

impl Board {
    /// Where the share of thread `place` begins.
    fn share(&self, parts: usize, place: usize) -> usize {
        parts * place / self.next.len()
    }

    fn open(&self, job: Job) {
        *self.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
        for (place, next) in self.next.iter().enumerate() {
            next.0.store(self.share(job.parts, place), Ordering::Relaxed);
        }
        self.state.fetch_add(JOB | OPEN, Ordering::SeqCst);
    }

    /// Takes parts until all are taken: first those of its own share.
    fn work(&self, place: usize) {
        let Some(job) = *self.job.lock().unwrap_or_else(PoisonError::into_inner) else { return };
        for whose in (place..self.next.len()).chain(0..place) {
            let end = self.share(job.parts, whose + 1);
            let take = || self.next[whose].0.fetch_add(1, Ordering::Relaxed);
            while let Some(part) = Some(take()).filter(|&part| part < end) {
                // SAFETY: this thread is at the job, so its caller keeps what the job points to.
                (unsafe { *job.work.cast::<PartWork<'_>>() })(part);
            }
        }
    }

    /// Lets no further thread in and waits for those that are.
    fn close(&self) {
        self.state.fetch_and(!OPEN, Ordering::Relaxed);
        let mut looks = 0;
        while self.state.load(Ordering::Acquire) & (OPEN - 1) > 0 {
            looks += 1;
            if looks % LOOKS > 0 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    /// What a thread of the team does until it is over.
    fn serve(&self, place: usize) {
        let (mut last, mut looks) = (0, 0);
        loop {
            let state = self.state.load(Ordering::SeqCst);
            let (job, open) = (state / JOB, state & OPEN > 0);
            if state & OVER > 0 {
                return;
            } else if open && job != last {
                let entered = self.state.compare_exchange(
                    state,
                    state + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                if entered.is_ok() {
                    self.take_part(place);
                    (last, looks) = (job, 0);
                }
            } else if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                self.sleep(state);
                looks = 0;
            }
        }
    }

    fn take_part(&self, place: usize) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work(place))) {
            *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
        self.state.fetch_sub(1, Ordering::Release);
    }

    /// Sleeps unless the state is no longer `state`; whoever changes it later sees a sleeper.
    fn sleep(&self, state: u64) {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        if self.state.load(Ordering::SeqCst) == state {
            std::thread::park();
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_every_job_is_called_once() {
        for count in [1, 2, 3, 5] {
            let team = Team::new(count).unwrap();
            for parts in (0..300).map(|at| at % 13) {
                let calls: [AtomicUsize; 13] = Default::default();
                team.run(parts, &|part| _ = calls[part].fetch_add(1, Ordering::Relaxed));
                for (part, calls) in calls.iter().enumerate() {
                    let expected = usize::from(part < parts);
                    assert_eq!(calls.load(Ordering::Relaxed), expected, "{count} {parts} {part}");
                }
            }
        }
    }

    #[test]
    fn a_job_wakes_threads_that_sleep() {
        let team = Team::new(2).unwrap();
        while team.board.asleep.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
        // Both parts wait for each other: one thread alone would never end.
        let met = std::sync::Barrier::new(2);
        team.run(2, &|_| _ = met.wait());
    }

    #[test]
    fn jobs_inside_jobs_and_beside_jobs_are_done_by_their_callers() {
        let (team, calls) = (Team::new(2).unwrap(), AtomicUsize::new(0));
        let count = |_| _ = calls.fetch_add(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..50).for_each(|_| team.run(4, &|_| team.run(5, &count))));
            }
        });
        assert_eq!(calls.load(Ordering::Relaxed), 2 * 50 * 4 * 5);
    }

    #[test]
    fn a_panic_of_any_part_reaches_the_caller_and_the_team_goes_on() {
        let (team, calls) = (Team::new(2).unwrap(), AtomicUsize::new(0));
        for broken in 0..4 {
            let run = || team.run(4, &|part| assert_ne!(part, broken, "part {part} breaks"));
            let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
            let text = panic.downcast_ref::<String>().unwrap();
            assert!(text.contains(&format!("part {broken} breaks")), "{text}");
        }
        team.run(4, &|_| _ = calls.fetch_add(1, Ordering::Relaxed));
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }
}
