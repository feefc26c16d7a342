//! The evaluations of models: prepared once for a world, run on any model of it.

use std::sync::OnceLock;

use isochrone::data::Dataset;
use isochrone::evaluate::{
    ASKED, Accuracy, Agreement, Audit, Calibration, Control, ExactSteps, JudgedGoal, Line, Success,
    audit, calibrate, learned_steps, outcomes, referee_pairs, success, supported_steps,
};
use isochrone::model::Model;
use isochrone::plan::{Ball, Graph, Greedy};
use isochrone::run::{self, RecordedWorld, RunConfig, Source};
use isochrone::simulate::referee::Columns;
use isochrone::simulate::{Outcome, Paths, Referee, Task};
use isochrone::tabular::steps;
use isochrone::{Result, Tell};
use serde::{Deserialize, Serialize};

/// Goals that the referee solves, and starts for each.
const GOALS: usize = 24;
const STARTS: usize = 40;
/// The reach of a greedy move, in recorded steps of median length.
const GREEDY_REACH: f32 = 4.0;
/// Moves after which a greedy path ends.
const GREEDY_MOVES: usize = 1_000;

/// Who steers the episodes of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steering {
    /// The policy alone
    Policy,
    /// The policy, following the waypoints of a shortest path over data states
    Graph,
    /// The policy, moving to the best data state nearby
    Greedy,
}

impl Steering {
    /// What stands in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Graph => "policy with the graph planner",
            Self::Greedy => "policy with the greedy planner",
        }
    }
}

/// How learned steps agree with exact ones.
///
/// Two references: what the data say (their occupancy distance on pairs that one trajectory answers,
/// its triangle closure on the others), which is what is learned, and the fewest steps that any
/// policy needs, which may go against the recorded direction.
#[derive(Debug, Clone, Serialize)]
pub struct Against {
    /// On pairs that one trajectory answers.
    pub seen: Agreement,
    /// On pairs that need several.
    pub stitched: Agreement,
    /// learned = slope · what the data say + intercept.
    pub line: Option<Line>,
    /// learned = slope · fewest steps + intercept.
    pub fewest_line: Option<Line>,
    /// The median error in fewest steps after a monotone map, on goals it was not fitted on.
    pub median_error: Option<f64>,
    /// Half the width in steps of the band that holds 90 % of the pairs it was fitted on.
    pub band: Option<f64>,
    /// The share of pairs that such a band holds on goals it was not fitted on.
    pub coverage: Option<f64>,
}

impl Against {
    fn of(found: &Calibration, judged: &[JudgedGoal], discount: f64) -> Self {
        // The referee hands out pairs with finite answers alone, so none is left out of the points.
        let answers = judged.iter().flat_map(|goal| &goal.starts).map(|start| start.answer);
        let (mut exact, mut learned) = (Vec::new(), Vec::new());
        for (answer, point) in answers.zip(&found.points) {
            let nats = if point.stitched { answer.closure } else { answer.seen };
            exact.push(steps(nats, discount));
            learned.push(point.learned);
        }
        Self {
            seen: found.seen,
            stitched: found.stitched,
            line: Line::fit(&exact, &learned),
            fewest_line: found.line,
            median_error: found.median_error,
            band: found.band,
            coverage: found.coverage,
        }
    }
}

/// How right learned steps are, against the best use of recorded moves.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// The numbers.
    #[serde(flatten)]
    pub found: Accuracy,
    /// What exact steps are counted of and to.
    pub against: &'static str,
    /// (exact, learned) of the pairs with a way.
    #[serde(skip)]
    pub pairs: Vec<[f32; 2]>,
}

/// What is known about the data of a run and asked of its models.
pub struct Examiner<'a> {
    source: &'a Source,
    seed: u64,
    triples: u64,
    tasks: Vec<Task>,
    referee: Option<Referee>,
    exact: OnceLock<Vec<ExactSteps>>,
    judged: OnceLock<Vec<JudgedGoal>>,
}

impl<'a> Examiner<'a> {
    /// Prepares the questions that `config` asks about `source`; a referee takes a few seconds.
    ///
    /// # Errors
    /// The world finds no tasks in the data.
    pub fn new(config: &RunConfig, source: &'a Source) -> Result<Self> {
        let seed = config.evaluation.seed;
        let discount = source.discount(config);
        let referee = source.world.as_ref().map(|opened| opened.world);
        let referee = referee.map(|world| Referee::of(world, &source.dataset, discount));
        Ok(Self {
            source,
            seed,
            triples: config.evaluation.triples,
            tasks: run::tasks(config, source)?,
            referee: referee.transpose()?.flatten(),
            exact: OnceLock::new(),
            judged: OnceLock::new(),
        })
    }

    /// The data and the world.
    pub fn source(&self) -> &'a Source {
        self.source
    }

    /// The world, where there is one.
    pub fn world(&self) -> Option<&'a RecordedWorld> {
        self.source.world.as_ref()
    }

    /// Knows exact steps, where the world has a referee.
    pub fn referee(&self) -> Option<&Referee> {
        self.referee.as_ref()
    }

    /// How right the steps of `model` are; none without a referee. The first question takes some
    /// seconds.
    ///
    /// # Errors
    /// A learned distance is not finite.
    pub fn accuracy(&self, model: &Model) -> Result<Option<Measured>> {
        let (Some(referee), Some(opened)) = (&self.referee, self.world()) else { return Ok(None) };
        let Some(against) = Referee::meaning(opened.world) else { return Ok(None) };
        let exact = self.exact.get_or_init(|| {
            // There are no more goals than tasks, so that a small evaluation is quick.
            let asked = [ASKED[0].min(self.tasks.len()), ASKED[1]];
            supported_steps(referee, &self.source.dataset, self.seed, asked)
        });
        let learned = learned_steps(model, exact)?;
        let found = Accuracy::of(exact, &learned)?;
        let exact = exact.iter().flat_map(|asked| &asked.steps);
        let pairs = exact.zip(learned.iter().flatten()).filter(|(exact, _)| exact.is_finite());
        let pairs = pairs.map(|(&exact, &learned)| [exact as f32, learned as f32]).collect();
        Ok(Some(Measured { found, against, pairs }))
    }

    /// Whether the distance of `model` is a quasimetric.
    ///
    /// # Errors
    /// States of another size than the model's.
    pub fn audit(&self, model: &Model) -> Result<Audit> {
        audit(model, self.source.dataset.states(), self.triples, self.seed)
    }

    /// How the steps of `model` agree with the other columns of a pinwheel; none elsewhere.
    ///
    /// # Errors
    /// A learned distance is not finite.
    pub fn against_exact(&self, model: &Model) -> Result<Option<Against>> {
        let compare = |columns: &Columns| {
            let judged = self.judged.get_or_init(|| {
                referee_pairs(columns, &self.source.dataset, self.seed, GOALS, STARTS)
            });
            let found = calibrate(model, judged)?;
            Ok(Against::of(&found, judged, model.shape().discount))
        };
        self.referee().and_then(Referee::columns).map(compare).transpose()
    }

    /// How often `model` reaches its goals; none without a world. `tell` hears how many episodes have
    /// ended.
    ///
    /// # Errors
    /// A model without a policy or, where it is asked for, without a distance; one of another size
    /// than the world; a signal that `tell` gives.
    pub fn success(
        &self,
        model: &Model,
        steering: Steering,
        graph: Option<&Graph<'_, Model>>,
        tell: &Tell<'_>,
    ) -> Result<Option<Success>> {
        let Some(opened) = self.world() else { return Ok(None) };
        let environment = &*opened.environment;
        self.steered(model, steering, graph, |control| {
            success(environment, &self.tasks, model, control, self.seed, tell)
        })
    }

    /// The first `count` episodes of the evaluation with the states they passed; none without a
    /// world.
    ///
    /// # Errors
    /// As [`Examiner::success`].
    pub fn routes(
        &self,
        model: &Model,
        steering: Steering,
        graph: Option<&Graph<'_, Model>>,
        count: usize,
    ) -> Result<Option<Vec<Outcome>>> {
        let Some(opened) = self.world() else { return Ok(None) };
        let environment = &*opened.environment;
        let tasks = &self.tasks[..count.min(self.tasks.len())];
        self.steered(model, steering, graph, |control| {
            outcomes(environment, tasks, model, control, self.seed, Paths::Keep, &|_, _| None)
        })
    }

    /// The tasks of the evaluation.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// What `measure` finds where `model` is steered so.
    fn steered<R>(
        &self,
        model: &Model,
        steering: Steering,
        graph: Option<&Graph<'_, Model>>,
        measure: impl Fn(Control<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        match (steering, graph) {
            (Steering::Policy, _) => measure(Control::Policy).map(Some),
            (Steering::Graph, Some(graph)) => measure(Control::Graph(graph)).map(Some),
            (Steering::Greedy, Some(graph)) => {
                measure(Control::Greedy(&greedy(model, self.source, graph)?)).map(Some)
            }
            (Steering::Graph | Steering::Greedy, None) => model.need_distance().map(|()| None),
        }
    }
}

/// A greedy planner over the nodes of `graph`.
///
/// # Errors
/// Data that do not move.
pub fn greedy<'m>(
    model: &'m Model,
    source: &Source,
    graph: &Graph<'_, Model>,
) -> Result<Greedy<'m, Model>> {
    let step = median_step(&source.dataset);
    let world = source.world.as_ref();
    let arrived = world.map_or(step, |opened| opened.environment.radius() as f32);
    let ball = Ball { radius: GREEDY_REACH * step, arrived, most_moves: GREEDY_MOVES };
    Greedy::new(model, graph.states(), ball)
}

/// The median length of recorded steps, in the raw coordinates of the states.
fn median_step(dataset: &Dataset) -> f32 {
    let length = |row: usize| {
        let (here, next) = (dataset.state(row), dataset.state(row + 1));
        here.iter().zip(next).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt()
    };
    let starts = (0..dataset.rows()).filter(|&row| dataset.last_row(row) != row);
    let mut lengths: Vec<f32> = starts.map(length).collect();
    let middle = lengths.len() / 2;
    *lengths.select_nth_unstable_by(middle, f32::total_cmp).1
}
