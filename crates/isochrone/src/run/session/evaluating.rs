//! How often a run's policy reaches its goals, measured in turn with its updates or beside them.

use std::thread::Scope;
use std::time::Duration;

use super::{Observer, Session, telling};
use crate::error::{Error, Result, Tell};
use crate::model::Model;
#[cfg(feature = "pictures")]
use crate::report::pictures;
use crate::run::beside::{Beside, Evaluated, measure};
use crate::run::journal::{Journal, due};
#[cfg(feature = "pictures")]
use crate::run::plane::Plane;
use crate::run::tables::evaluation_row;

/// Between two looks at an evaluation that is waited for.
const PAUSE: Duration = Duration::from_millis(5);

impl Session<'_> {
    /// Evaluates the model that the run resumes from, if it was stopped before its evaluation ended.
    /// A signal that ends the evaluation is an error, here and below.
    pub(super) fn catch_up(
        &mut self,
        journal: &mut Journal,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let step = self.trainer.step();
        let [_, evaluated] = due(&self.config.train);
        if step > 0 && evaluated.at(step) && !journal.has_evaluation(step) {
            self.evaluate(journal, observer)?;
        }
        Ok(())
    }

    /// Measures success in the world and draws the map; how many seconds the measuring took.
    pub(super) fn evaluate(
        &mut self,
        journal: &mut Journal,
        observer: &mut dyn Observer,
    ) -> Result<f64> {
        let model = self.pictured(journal)?;
        let tell = telling(observer, |observer, ended, of| observer.evaluating(ended, of));
        let measure = || measure(self.config, self.source, &self.tasks, &model, &tell);
        let found = Evaluated::by(measure)?;
        drop(tell);
        self.record(self.trainer.step(), found, journal, observer)
    }

    /// As [`Session::evaluate`], but training goes on meanwhile.
    pub(super) fn evaluate_beside<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        journal: &mut Journal,
    ) -> Result<Beside<'scope>>
    where
        Self: 'scope,
    {
        let model = self.pictured(journal)?;
        let (config, source, tasks) = (self.config, self.source, self.tasks.clone());
        let found = move |tell: &Tell<'_>| measure(config, source, &tasks, &model, tell);
        Beside::begin(scope, self.trainer.step(), found)
    }

    /// Waits for an evaluation, and writes its row and those that waited for it. A signal ends it if
    /// the model that it evaluates is saved: the run is then resumed from there, and the updates since
    /// are made again.
    pub(super) fn settle(
        &mut self,
        beside: Beside<'_>,
        journal: &mut Journal,
        observer: &mut dyn Observer,
    ) -> Result<f64> {
        let step = beside.step;
        while self.saved == Some(step) && !beside.has_ended() {
            if let Some(signal) = observer.signal() {
                beside.abandon(signal);
                return Err(Error::Interrupted(signal));
            }
            std::thread::sleep(PAUSE);
        }
        let (found, waiting) = beside.end()?;
        let seconds = self.record(step, found, journal, observer)?;
        waiting.iter().try_for_each(|(step, row)| journal.logged(*step, row))?;
        Ok(seconds)
    }

    /// Writes the row of an evaluation.
    fn record(
        &mut self,
        step: u64,
        found: Evaluated,
        journal: &mut Journal,
        observer: &mut dyn Observer,
    ) -> Result<f64> {
        let Some(success) = found.success else { return Ok(f64::NAN) };
        journal.evaluated(step, &evaluation_row(&success, self.source.groups()))?;
        observer.evaluated(step, &success);
        self.success = Some(success);
        Ok(found.seconds)
    }

    /// The model as it stands, drawn as a map.
    fn pictured(&self, journal: &mut Journal) -> Result<Model> {
        let model = self.trainer.model()?;
        #[cfg(feature = "pictures")]
        self.draw(&model, journal)?;
        #[cfg(not(feature = "pictures"))]
        let _ = journal;
        Ok(model)
    }

    /// Adds the map of the learned distance to TensorBoard's events, where states lie in a plane.
    #[cfg(feature = "pictures")]
    fn draw(&self, model: &Model, journal: &mut Journal) -> Result<()> {
        let Some(plane) = Plane::of(self.source).filter(|_| model.has_distance()) else {
            return Ok(());
        };
        let (distance, goal) = plane.overview(model)?;
        let image = pictures::thumbnail(&distance, goal)?;
        journal.events.image(self.trainer.step(), "evaluation/isochrones", &image)
    }
}
