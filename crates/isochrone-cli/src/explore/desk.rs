//! A thread per run for answers that take longer and prepare what later ones share: plans, exact
//! steps, audits, episodes. A bounded number of questions may wait.

use std::cell::OnceCell;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};

use isochrone::evaluate::{Control, Solved, outcomes};
use isochrone::model::Model;
use isochrone::plan::{Graph, Greedy, Path};
use isochrone::run::OpenRun;
use isochrone::simulate::{Outcome, Paths, Task};
use isochrone::{Error, Result};

use super::recorded::RecordedData;
use crate::examiner::{self, Examiner, Steering};
use crate::plan::Planner;

/// Questions that may wait.
const WAITING: usize = 16;

type Job = Box<dyn for<'a> FnOnce(&Clerk<'a>) + Send>;

/// Takes questions for a [`Clerk`], who begins with the first one.
pub struct Desk {
    opened: Arc<OpenRun>,
    data: Arc<RecordedData>,
    jobs: OnceLock<SyncSender<Job>>,
}

/// Why a question was not answered.
pub enum Unanswered {
    /// Too many wait already.
    Full,
    /// What is wrong with it.
    Wrong(Error),
}

impl Desk {
    /// A desk for one run.
    pub fn new(opened: Arc<OpenRun>, data: Arc<RecordedData>) -> Self {
        Self { opened, data, jobs: OnceLock::new() }
    }

    /// Waits for the answer to a question.
    pub fn ask<R: Send + 'static>(
        &self,
        question: impl for<'a> FnOnce(&Clerk<'a>) -> Result<R> + Send + 'static,
    ) -> std::result::Result<R, Unanswered> {
        let (answer, answered) = sync_channel(1);
        let job: Job = Box::new(move |clerk| {
            answer.send(question(clerk)).ok();
        });
        match self.jobs.get_or_init(|| self.clerk()).try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(Unanswered::Full),
            Err(TrySendError::Disconnected(_)) => return Err(Unanswered::Wrong(gone())),
        }
        answered.recv().unwrap_or_else(|_| Err(gone())).map_err(Unanswered::Wrong)
    }

    fn clerk(&self) -> SyncSender<Job> {
        let (jobs, waiting) = sync_channel::<Job>(WAITING);
        let (opened, data) = (Arc::clone(&self.opened), Arc::clone(&self.data));
        std::thread::spawn(move || {
            let clerk = Clerk {
                opened: &opened,
                data: &data,
                graph: OnceCell::new(),
                greedy: OnceCell::new(),
                examiner: OnceCell::new(),
                solved: OnceCell::new(),
            };
            waiting.into_iter().for_each(|job| {
                let job = std::panic::AssertUnwindSafe(|| job(&clerk));
                std::panic::catch_unwind(job).ok();
            });
        });
        jobs
    }
}

fn gone() -> Error {
    Error::input("the question could not be answered")
}

/// Answers questions about one run, and keeps what they share.
pub struct Clerk<'a> {
    /// The run.
    pub opened: &'a OpenRun,
    /// What it learns from.
    pub data: &'a RecordedData,
    graph: OnceCell<Graph<'a, Model>>,
    greedy: OnceCell<Greedy<'a, Model>>,
    examiner: OnceCell<Examiner<'a>>,
    solved: OnceCell<Option<Solved>>,
}

/// The content of `cell`, made by `make` where it is empty.
fn kept<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    match cell.get() {
        Some(content) => Ok(content),
        None => make().map(|made| cell.get_or_init(|| made)),
    }
}

impl<'a> Clerk<'a> {
    fn model(&self) -> &'a Model {
        &self.opened.model
    }

    fn graph(&self) -> Result<&Graph<'a, Model>> {
        let dataset = &self.data.source.dataset;
        kept(&self.graph, || self.opened.graph(dataset))
    }

    fn greedy(&self) -> Result<&Greedy<'a, Model>> {
        let graph = self.graph()?;
        kept(&self.greedy, || examiner::greedy(self.model(), &self.data.source, graph))
    }

    /// What is known about the world and asked of the model.
    pub fn examiner(&self) -> Result<&Examiner<'a>> {
        kept(&self.examiner, || Examiner::new(&self.opened.config, &self.data.source))
    }

    /// The fewest steps along recorded moves, where they can be had.
    pub fn solved(&self) -> Result<Option<&Solved>> {
        let solve = || match self.data.is_sample {
            true => Ok(None),
            false => self.data.source.solved(&self.opened.config, &|_, _| None),
        };
        kept(&self.solved, solve).map(Option::as_ref)
    }

    /// A path between two whole states.
    pub fn path(&self, planner: Planner, start: &[f32], goal: &[f32]) -> Result<Path> {
        match planner {
            Planner::Graph => self.graph()?.path(start, goal),
            Planner::Greedy => self.greedy()?.path(start, goal),
        }
    }

    /// `count` episodes from `start` to `goal` in the run's world.
    pub fn episodes(
        &self,
        steering: Steering,
        [start, goal]: [&[f32]; 2],
        count: usize,
        seed: u64,
    ) -> Result<Vec<Outcome>> {
        let Some(recorded) = &self.data.source.world else {
            let source = &self.opened.config.data.source;
            return Err(Error::input(format!("`{source}` is no world to act in")));
        };
        if !recorded.world.is_free([f64::from(start[0]), f64::from(start[1])]) {
            return Err(Error::input("the start lies in a wall").hint("choose another start"));
        }
        // Opens the simulator of a world that has one.
        self.examiner()?;
        let task = Task {
            start: start.iter().map(|&value| f64::from(value)).collect(),
            goal: goal.to_vec(),
            switches: None,
        };
        let control = match steering {
            Steering::Policy => Control::Policy,
            Steering::Graph => Control::Graph(self.graph()?),
            Steering::Greedy => Control::Greedy(self.greedy()?),
        };
        let paths = if count == 1 { Paths::Keep } else { Paths::Forget };
        let tasks = vec![task; count];
        let (world, unheard) = (&*recorded.environment, &|_, _| None);
        outcomes(world, &tasks, self.model(), control, seed, paths, unheard)
    }
}
