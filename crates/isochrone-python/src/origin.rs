//! Where a model comes from, and with it the data that it learned from.

use std::borrow::Cow;

use isochrone::plan::{Distance, Doubts, Graph, Path, PathEnding};
use isochrone::report::Isochrones;
use isochrone::run::{Fitted, OpenRun, Plane, RunConfig, Source};
use isochrone::{Dataset, Error, Model};
use serde::Serialize;

use crate::dataset::PyDataset;

/// Where a model comes from.
pub enum Origin {
    File(Box<Model>),
    Run(Box<OpenRun>),
    Fitted(Box<Fitted>),
}

/// A plan as Python gets it.
#[derive(Serialize)]
pub struct Planned {
    pub arrived: bool,
    #[serde(flatten)]
    pub path: Path,
    pub doubts: Doubts,
}

impl Origin {
    pub fn model(&self) -> &Model {
        match self {
            Self::File(model) => model,
            Self::Run(opened) => &opened.model,
            Self::Fitted(fitted) => &fitted.model,
        }
    }

    pub fn config(&self) -> Cow<'_, RunConfig> {
        match self {
            Self::File(_) => Cow::Owned(RunConfig::default()),
            Self::Run(opened) => Cow::Borrowed(&opened.config),
            Self::Fitted(fitted) => Cow::Borrowed(&fitted.config),
        }
    }

    /// The data that the model learned from, as they were read.
    pub fn source(&self) -> isochrone::Result<Source> {
        match self {
            Self::File(_) => Err(Error::input("a model file contains no data")
                .hint("pass `dataset=…`, or load the run's folder instead of the model")),
            Self::Run(opened) => opened.source(),
            Self::Fitted(fitted) => Ok(Source {
                held_out: fitted.source.held_out.clone(),
                ..Source::new(fitted.source.dataset.clone())
            }),
        }
    }

    /// Asks about `dataset` or, without it, about the data that the model learned from, in memory.
    pub fn with_data<R>(
        &self,
        dataset: Option<&PyDataset>,
        ask: impl FnOnce(&Source) -> isochrone::Result<R>,
    ) -> isochrone::Result<R> {
        let source = match (self, dataset) {
            // With its world, if it was fitted there.
            (Self::Fitted(fitted), None) if fitted.source.dataset.stays_in().is_none() => {
                return ask(&fitted.source);
            }
            (_, Some(dataset)) => Source::new(dataset.in_memory()?),
            (_, None) => self.source()?.sampled()?,
        };
        self.check(&source.dataset)?;
        ask(&source)
    }

    /// A path from `start` to `goal`.
    pub fn plan(
        &self,
        dataset: Option<&PyDataset>,
        start: &[f32],
        goal: &[f32],
    ) -> isochrone::Result<Planned> {
        self.with_data(dataset, |source| {
            let path = self.graph(&source.dataset)?.path(start, goal)?;
            let doubts = Doubts::of(&path, &source.dataset, &Distance::places(self.model()))?;
            Ok(Planned { arrived: path.ending == PathEnding::Arrived, path, doubts })
        })
    }

    /// A map and a path from `start` to `goal`, or between ends that it chooses.
    pub fn map(
        &self,
        source: &Source,
        start: Option<Vec<f32>>,
        goal: Option<Vec<f32>>,
    ) -> isochrone::Result<Isochrones> {
        let plane = Plane::of(source).ok_or_else(|| {
            Error::input("a map needs states of two values").hint("ask for steps instead")
        })?;
        let (model, config) = (self.model(), self.config());
        let graph = self.graph(&source.dataset)?;
        let mut ends = plane.ends(&graph)?;
        ends.start = start.map_or(ends.start, |start| [start[0], start[1]]);
        ends.goal = goal.map_or(ends.goal, |goal| [goal[0], goal[1]]);
        let path = graph.path(&ends.start, &ends.goal)?;
        let path = if path.states.len() > 1 { &path.states[..] } else { &[] };
        let title = match self {
            Self::File(_) => "learned",
            _ => config.algorithm.name(),
        };
        let panel = plane.panel(model, title, ends.goal, path)?;
        plane.isochrones(vec![panel], ends, None)
    }

    /// The planner over `data`: a run in a folder keeps it there, a fitted one that of its own data.
    fn graph(&self, data: &Dataset) -> isochrone::Result<Graph<'_, Model>> {
        match self {
            Self::Run(opened) => opened.graph(data),
            Self::Fitted(fitted) if std::ptr::eq(data, &fitted.source.dataset) => fitted.planner(),
            _ => self.config().graph(self.model(), data),
        }
    }

    pub fn check(&self, data: &Dataset) -> isochrone::Result<()> {
        let (found, expected) = (data.state_size(), self.model().shape().state_size);
        if found == expected {
            return Ok(());
        }
        Err(Error::input(format!(
            "states of the dataset have `{found}` values, those the model learned from `{expected}`"
        ))
        .hint("pass data of the same kind as those it learned from"))
    }
}
