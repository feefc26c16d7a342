//! Several runs, each with its own seed and thread, on one executor that updates all of them at once.
//!
//! A run asks for updates and does not wait; the executor does an update when every run that is still there
//! has asked for it. A run that reads waits until what it asked for is done, and nothing more can be
//! done before it asks again. A run that stands at a later step than the others waits with its numbers
//! aside until they arrive there.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{ArenaId, BrokenLoss};
use crate::error::{Error, Result};

/// What several runs share.
pub(crate) trait Lockstep: Send {
    /// How many runs.
    fn replicas(&self) -> usize;
    /// Updates all of them, `count` times from `step` on.
    fn updates(&mut self, step: u64, count: u64) -> Result<()>;
    /// Sets the numbers of an arena of one.
    fn set_state(&mut self, replica: usize, arena: ArenaId, state: &[Vec<f32>; 3]) -> Result<()>;
    /// Metrics of the last update, or of the batch held out after [`Lockstep::evaluate`].
    fn metrics(&mut self, replica: usize, step: u64) -> Result<Vec<f64>>;
    /// Runs all on data held out.
    fn evaluate(&mut self, step: u64) -> Result<()>;
    /// The first loss that is not a finite number now.
    fn broken_now(&self, replica: usize, step: u64) -> Result<Option<BrokenLoss>>;
}

/// One run among several.
pub(crate) struct Replica<E: Lockstep> {
    together: Arc<Together<E>>,
    at: usize,
}

/// An executor and how far its runs are.
pub(crate) struct Together<E> {
    state: Mutex<State<E>>,
    moved: Condvar,
}

struct State<E> {
    executor: E,
    /// Updates done, from the first step of all; none before all runs have asked.
    done: Option<u64>,
    runs: Vec<Run>,
    /// What was read at `done`.
    seen: Option<Seen>,
    /// The step at which all stop, and the signal that asked for it.
    stop: Option<(u64, i32)>,
    failed: bool,
}

/// One run: gone, or asking for updates up to a step, or waiting aside until the others arrive.
struct Run {
    here: bool,
    /// Updates asked for; none before the first time.
    asked: Option<u64>,
    /// The step its numbers belong to, as long as they stand aside.
    aside: Option<u64>,
    numbers: Vec<(ArenaId, [Vec<f32>; 3])>,
}

#[derive(Default)]
struct Seen {
    training: Vec<Vec<f64>>,
    held_out: Vec<HeldOut>,
}

/// The metrics of a batch held out, or the loss that is broken.
type HeldOut = (Vec<f64>, Option<BrokenLoss>);

impl<E: Lockstep> Together<E> {
    /// The runs of `executor`, all at its first values.
    pub fn new(executor: E) -> Arc<Self> {
        let run = || Run { here: true, asked: None, aside: Some(0), numbers: Vec::new() };
        let runs = (0..executor.replicas()).map(|_| run()).collect();
        let state = State { executor, done: None, runs, seen: None, stop: None, failed: false };
        Arc::new(Self { state: Mutex::new(state), moved: Condvar::new() })
    }

    /// Run `at`.
    pub fn replica(self: &Arc<Self>, at: usize) -> Replica<E> {
        Replica { together: self.clone(), at }
    }

    /// Prepares the executor before the first update.
    pub fn prepare<T>(&self, work: impl FnOnce(&mut E) -> T) -> T {
        work(&mut self.lock().executor)
    }

    /// Run `at` is gone; the others no longer wait for it.
    pub fn leave(&self, at: usize) {
        let mut state = self.lock();
        state.runs[at].here = false;
        // What fails here fails again for those who wait for it.
        state.failed |= state.advance().is_err();
        self.moved.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Lockstep> State<E> {
    /// Does what every run that is here has asked for.
    fn advance(&mut self) -> Result<()> {
        let here = |runs: &[Run]| runs.iter().any(|run| run.here);
        while here(&self.runs) && self.runs.iter().all(|run| !run.here || run.asked.is_some()) {
            let runs = self.runs.iter().filter(|run| run.here);
            let first = runs.clone().filter_map(|run| run.aside).min();
            let done = *self.done.get_or_insert(first.unwrap_or(0));
            self.take_in(done)?;
            let runs = self.runs.iter().filter(|run| run.here);
            let until = runs.filter_map(|run| run.aside.or(run.asked)).min().unwrap_or(done);
            if until <= done {
                break;
            }
            self.seen = None;
            self.executor.updates(done, until - done)?;
            self.done = Some(until);
        }
        Ok(())
    }

    /// Gives the executor the numbers of the runs that stand at `done`.
    fn take_in(&mut self, done: u64) -> Result<()> {
        for at in 0..self.runs.len() {
            if self.runs[at].aside == Some(done) {
                for (arena, numbers) in std::mem::take(&mut self.runs[at].numbers) {
                    self.executor.set_state(at, arena, &numbers)?;
                }
                self.runs[at].aside = None;
            }
        }
        Ok(())
    }

    /// The metrics of all runs at `step`, the last update done.
    fn training(&mut self, step: u64) -> Result<&mut Seen> {
        if self.seen.is_none() {
            let each = (0..self.runs.len()).map(|at| self.executor.metrics(at, step));
            let training = each.collect::<Result<_>>()?;
            self.seen = Some(Seen { training, held_out: Vec::new() });
        }
        Ok(self.seen.get_or_insert_default())
    }

    fn held_out(&mut self, step: u64) -> Result<&mut Seen> {
        if self.training(step)?.held_out.is_empty() {
            self.executor.evaluate(step)?;
            let one = |at: usize| {
                let broken = self.executor.broken_now(at, step)?;
                Ok((self.executor.metrics(at, step)?, broken))
            };
            let held_out = (0..self.runs.len()).map(one).collect::<Result<_>>()?;
            self.seen.get_or_insert_default().held_out = held_out;
        }
        self.training(step)
    }
}

impl<E: Lockstep> Replica<E> {
    /// Asks for `count` updates from `step` on, once those asked for before are queued.
    pub fn updates(&self, step: u64, count: u64) -> Result<()> {
        let mut state = self.caught_up()?;
        state.runs[self.at].asked = Some(step + count);
        let done = state.advance();
        state.failed |= done.is_err();
        self.together.moved.notify_all();
        done
    }

    /// Sets the numbers of an arena before the first update.
    pub fn set_state(&self, arena: ArenaId, numbers: [Vec<f32>; 3]) {
        let kept = &mut self.together.lock().runs[self.at].numbers;
        kept.retain(|(other, _)| *other != arena);
        kept.push((arena, numbers));
    }

    /// The numbers of an arena: those set, where they still stand aside, else what `read` finds.
    pub fn state(
        &self,
        arena: ArenaId,
        read: impl FnOnce(&mut E, usize) -> Result<[Vec<f32>; 3]>,
    ) -> Result<[Vec<f32>; 3]> {
        let mut state = self.together.lock();
        let run = &state.runs[self.at];
        let aside = run.numbers.iter().find(|(other, _)| *other == arena);
        match aside {
            Some((_, numbers)) => Ok(numbers.clone()),
            None if run.asked.is_none() => read(&mut state.executor, self.at),
            None => {
                drop(state);
                self.read(read)
            }
        }
    }

    /// The numbers set so far are those of `step`.
    pub fn stand_at(&self, step: u64) {
        self.together.lock().runs[self.at].aside = Some(step);
    }

    /// What `read` finds once all updates asked for are done.
    pub fn read<T>(&self, read: impl FnOnce(&mut E, usize) -> Result<T>) -> Result<T> {
        let mut state = self.caught_up()?;
        read(&mut state.executor, self.at)
    }

    /// The metrics of `step`, the last update.
    pub fn metrics(&self, step: u64) -> Result<Vec<f64>> {
        Ok(self.caught_up()?.training(step)?.training[self.at].clone())
    }

    /// The metrics of a batch held out.
    pub fn held_out(&self, step: u64) -> Result<HeldOut> {
        Ok(self.caught_up()?.held_out(step)?.held_out[self.at].clone())
    }

    /// Whether this run, at `step`, is to stop: all stop at the same step, so that they can go on
    /// together.
    pub fn stops(&self, step: u64, signal: Option<i32>) -> Option<i32> {
        let mut state = self.together.lock();
        if let (None, Some(signal)) = (state.stop, signal) {
            let runs = state.runs.iter().filter(|run| run.here);
            let furthest = runs.filter_map(|run| run.asked).max().unwrap_or(step);
            state.stop = Some((furthest, signal));
        }
        state.stop.filter(|(at, _)| step >= *at).map(|(_, signal)| signal)
    }

    /// Waits until the executor was asked for everything this run has asked for.
    fn caught_up(&self) -> Result<MutexGuard<'_, State<E>>> {
        let mut state = self.together.lock();
        loop {
            let run = &state.runs[self.at];
            if state.failed {
                return Err(Error::input("the GPU stopped while it ran another seed")
                    .hint("look at `nvidia-smi`, or use `--device cpu`"));
            }
            if run.asked.is_none() || (run.aside.is_none() && run.asked == state.done) {
                return Ok(state);
            }
            state = self.together.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<E: Lockstep> Drop for Replica<E> {
    fn drop(&mut self) {
        self.together.leave(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts updates and keeps one number a run, which every update makes larger by one.
    struct Counter {
        numbers: Vec<f32>,
        calls: Vec<(u64, u64)>,
        evaluated: usize,
    }

    impl Lockstep for Counter {
        fn replicas(&self) -> usize {
            self.numbers.len()
        }
        fn updates(&mut self, step: u64, count: u64) -> Result<()> {
            self.calls.push((step, count));
            self.numbers.iter_mut().for_each(|number| *number += count as f32);
            Ok(())
        }
        fn set_state(&mut self, at: usize, _: ArenaId, state: &[Vec<f32>; 3]) -> Result<()> {
            self.numbers[at] = state[0][0];
            Ok(())
        }
        fn metrics(&mut self, at: usize, step: u64) -> Result<Vec<f64>> {
            Ok(vec![self.numbers[at].into(), step as f64, self.evaluated as f64])
        }
        fn evaluate(&mut self, _: u64) -> Result<()> {
            self.evaluated += 1;
            Ok(())
        }
        fn broken_now(&self, _: usize, _: u64) -> Result<Option<BrokenLoss>> {
            Ok(None)
        }
    }

    fn counter(runs: usize) -> Arc<Together<Counter>> {
        Together::new(Counter { numbers: vec![0.0; runs], calls: Vec::new(), evaluated: 0 })
    }

    #[test]
    fn updates_wait_for_every_run_and_readers_see_the_step_they_asked_for() {
        let together = counter(3);
        std::thread::scope(|scope| {
            for at in 0..3 {
                let replica = together.replica(at);
                scope.spawn(move || {
                    for step in (0..300).step_by(10) {
                        replica.updates(step, 10).unwrap();
                        if step % 50 == 40 {
                            let row = replica.metrics(step + 9).unwrap();
                            assert_eq!(row[0], (step + 10) as f64);
                            let (held_out, _) = replica.held_out(step + 9).unwrap();
                            assert_eq!(held_out[2], row[2] + 1.0, "evaluated once for all runs");
                        }
                        if at == 1 && step == 100 {
                            return;
                        }
                    }
                });
            }
        });
        let state = together.lock();
        assert_eq!(state.executor.calls.iter().map(|(_, count)| count).sum::<u64>(), 300);
        assert_eq!(state.executor.evaluated, 6);
    }

    #[test]
    fn a_run_that_stands_at_a_later_step_waits_with_its_numbers_until_the_others_arrive() {
        let together = counter(2);
        let (behind, ahead) = (together.replica(0), together.replica(1));
        ahead.set_state(ArenaId(0), [vec![1000.0], vec![], vec![]]);
        ahead.stand_at(20);
        ahead.updates(20, 10).unwrap();
        assert_eq!(ahead.state(ArenaId(0), |_, _| unreachable!()).unwrap()[0], [1000.0]);
        behind.updates(0, 30).unwrap();
        assert_eq!(together.lock().executor.calls, [(0, 20), (20, 10)]);
        assert_eq!(behind.metrics(29).unwrap()[0], 30.0);
        assert_eq!(ahead.metrics(29).unwrap()[0], 1010.0);
    }

    #[test]
    fn a_signal_stops_all_runs_at_the_step_of_the_furthest() {
        let together = counter(2);
        let (first, second) = (together.replica(0), together.replica(1));
        first.updates(0, 64).unwrap();
        second.updates(0, 128).unwrap();
        assert_eq!(first.stops(64, Some(15)), None);
        assert_eq!(second.stops(128, None), Some(15));
        first.updates(64, 64).unwrap();
        assert_eq!(first.stops(128, None), Some(15));
    }
}
