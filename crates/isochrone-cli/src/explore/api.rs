//! The JSON API: what may be asked and how it is answered; docs/api.md describes it.

use std::sync::Arc;

use isochrone::evaluate::{Audit, Judgement, against_elapsed, against_solved};
use isochrone::model::Model;
use isochrone::{Error, Result};
use serde::Serialize;
use serde_json::{Value, json};

use super::asked::{
    Acts, Ends, Episodes, ExactGoal, OfRun, Pairs, apart, known_keys, named, number, read, rows,
    whole,
};
use super::desk::{Clerk, Unanswered};
use super::http::Answer;
use super::loaded::Loaded;
use super::sent;
use super::subject::{ShownRun, described};
use crate::plan;
use crate::wording;

/// Pairs that one question may ask about.
const MOST_PAIRS: usize = 1_000_000;
/// Episodes of one question.
const MOST_EPISODES: usize = 1_000;
/// Triples of an audit.
const TRIPLES: u64 = 1_000_000;
/// Points of a calibration plot.
const POINTS: usize = 1_500;

/// The runs that can be asked.
pub struct Api {
    /// One or two.
    pub subjects: Vec<Arc<ShownRun>>,
}

/// An answer in JSON, or why there is none.
type Said = std::result::Result<String, Answer>;

/// Steps, in a list or in a table, and how far both ends are from the data.
#[derive(Serialize)]
struct Steps<T> {
    steps: T,
    from_spacings: Vec<f32>,
    to_spacings: Vec<f32>,
}

#[derive(Serialize)]
struct Actions<'a> {
    actions: Vec<&'a [f32]>,
    spacings: Spacings,
}

/// How far observations and goals are from the data.
#[derive(Serialize)]
struct Spacings {
    observations: Vec<f32>,
    goals: Vec<f32>,
}

/// What `isochrone plan --json` prints, and what speaks against following the path.
#[derive(Serialize)]
struct Planned {
    #[serde(flatten)]
    report: plan::Report,
    cautions: Vec<String>,
}

impl Api {
    /// The methods that `path` takes; none where nothing is there.
    pub fn method(path: &str) -> Option<&'static str> {
        match path {
            "/api/runs" | "/api/map" | "/api/model" | "/api/trajectories" | "/api/curves" => {
                Some("GET")
            }
            "/api/steps" | "/api/pairwise" | "/api/act" | "/api/plan" | "/api/exact"
            | "/api/audit" | "/api/calibration" | "/api/rollout" => Some("POST"),
            _ => None,
        }
    }

    /// The keys that the query of `path` may have.
    fn keys(path: &str) -> &'static [&'static str] {
        match path {
            "/api/map" | "/api/trajectories" => &["run", "x", "y"],
            "/api/model" | "/api/curves" => &["run"],
            _ => &[],
        }
    }

    /// Whether questions to `path` wait at the desk of a run, and so need no turn of their own.
    pub fn waits(path: &str) -> bool {
        matches!(
            path,
            "/api/plan" | "/api/exact" | "/api/audit" | "/api/calibration" | "/api/rollout"
        )
    }

    /// Answers a question to a path that [`Api::method`] knows.
    pub fn answer(&self, path: &str, query: &str, body: &[u8]) -> Said {
        known_keys(query, Self::keys(path))?;
        match path {
            "/api/runs" => Ok(self.runs()),
            "/api/map" => self.map(query),
            "/api/trajectories" => {
                let (loaded, axes) = self.asked_axes(query)?;
                told(sent::trajectories(&loaded, axes))
            }
            "/api/model" => {
                Ok(sent::model(&*self.loaded(number(query, "run")?.unwrap_or(0))?).to_string())
            }
            "/api/curves" => {
                let subject = self.subject(number(query, "run")?.unwrap_or(0))?;
                told(sent::curves(&subject.folder))
            }
            "/api/steps" => self.steps(&read(body)?),
            "/api/pairwise" => self.pairwise(&read(body)?),
            "/api/act" => self.act(&read(body)?),
            "/api/plan" => self.plan(read(body)?),
            "/api/exact" => self.exact(read(body)?),
            "/api/rollout" => self.rollout(read(body)?),
            "/api/audit" => {
                let run = read::<OfRun>(body)?.run;
                ask(&*self.loaded(run)?, audited)
            }
            _ => {
                let run = read::<OfRun>(body)?.run;
                ask(&*self.loaded(run)?, calibrated)
            }
        }
    }

    /// Every run, described.
    fn runs(&self) -> String {
        json!({ "runs": described(&self.subjects) }).to_string()
    }

    fn subject(&self, run: usize) -> std::result::Result<&Arc<ShownRun>, Answer> {
        let count = self.subjects.len();
        self.subjects.get(run).ok_or_else(|| {
            Answer::refusal(404, format!("no run `{run}`, there are {count}, counted from 0"))
        })
    }

    fn loaded(&self, run: usize) -> std::result::Result<Arc<Loaded>, Answer> {
        self.subject(run)?.loaded().map_err(|reason| Answer::refusal(409, reason))
    }

    fn asked_axes(&self, query: &str) -> std::result::Result<(Arc<Loaded>, [usize; 2]), Answer> {
        let loaded = self.loaded(number(query, "run")?.unwrap_or(0))?;
        let [x, y] = loaded.axes;
        let axes = [number(query, "x")?.unwrap_or(x), number(query, "y")?.unwrap_or(y)];
        let axes = apart(axes, loaded.opened.model.shape().state_size)?;
        Ok((loaded, axes))
    }

    fn map(&self, query: &str) -> Said {
        let (loaded, axes) = self.asked_axes(query)?;
        if axes == loaded.axes {
            return sent::first_map(&loaded).map_err(|reason| Answer::refusal(400, reason));
        }
        told(sent::map(&loaded, axes, sent::FLOATS))
    }

    fn steps(&self, asked: &Pairs) -> Said {
        let loaded = self.loaded(asked.run)?;
        let model = &loaded.opened.model;
        let size = model.shape().state_size;
        let (from, to) = (rows("from", &asked.from, size)?, rows("to", &asked.to, size)?);
        let steps = model.steps(&from, &to).map_err(|error| refused(&error))?;
        let (from_spacings, to_spacings) = (spacings(model, &from)?, spacings(model, &to)?);
        text(&Steps { steps, from_spacings, to_spacings })
    }

    fn pairwise(&self, asked: &Pairs) -> Said {
        let loaded = self.loaded(asked.run)?;
        let model = &loaded.opened.model;
        let size = model.shape().state_size;
        let (from, to) = (rows("from", &asked.from, size)?, rows("to", &asked.to, size)?);
        if asked.from.len().saturating_mul(asked.to.len()) > MOST_PAIRS {
            return Err(Answer::refusal(413, format!("at most {MOST_PAIRS} pairs at a time")));
        }
        let steps = model.pairwise_steps(&from, &to).map_err(|error| refused(&error))?;
        let steps: Vec<&[f32]> = steps.chunks(asked.to.len().max(1)).collect();
        let (from_spacings, to_spacings) = (spacings(model, &from)?, spacings(model, &to)?);
        text(&Steps { steps, from_spacings, to_spacings })
    }

    fn act(&self, asked: &Acts) -> Said {
        let loaded = self.loaded(asked.run)?;
        let model = &loaded.opened.model;
        let size = model.shape().state_size;
        let observations = rows("observations", &asked.observations, size)?;
        let goals = rows("goals", &asked.goals, size)?;
        let actions = model.act(&observations, &goals).map_err(|error| refused(&error))?;
        let actions: Vec<&[f32]> = actions.chunks(model.shape().action_size.max(1)).collect();
        let (observations, goals) = (spacings(model, &observations)?, spacings(model, &goals)?);
        text(&Actions { actions, spacings: Spacings { observations, goals } })
    }

    fn plan(&self, asked: Ends) -> Said {
        let loaded = self.loaded(asked.run)?;
        let size = loaded.opened.model.shape().state_size;
        for (name, state) in [("start", &asked.start), ("goal", &asked.goal)] {
            named(name, state, size)?;
        }
        ask(&loaded, move |clerk| {
            let source = &clerk.data.source;
            let ends = [
                plan::completed(asked.start, &source.dataset)?,
                plan::completed(asked.goal, &source.dataset)?,
            ];
            let path = clerk.path(asked.planner, &ends[0].0, &ends[1].0)?;
            let report = plan::Report::new(clerk.opened, source, asked.planner, ends, path)?;
            let cautions = report.cautions();
            Ok(Planned { report, cautions })
        })
    }

    fn exact(&self, asked: ExactGoal) -> Said {
        let loaded = self.loaded(asked.run)?;
        let size = loaded.opened.model.shape().state_size;
        whole("goal", &asked.goal, size)?;
        let axes = apart(asked.axes, size)?;
        ask(&loaded, move |clerk| exact(clerk, axes, &asked.goal))
    }

    fn rollout(&self, asked: Episodes) -> Said {
        let loaded = self.loaded(asked.run)?;
        let size = loaded.opened.model.shape().state_size;
        whole("start", &asked.start, size)?;
        whole("goal", &asked.goal, size)?;
        if !(1..=MOST_EPISODES).contains(&asked.episodes) {
            return Err(Answer::refusal(400, format!("`episodes` is 1 to {MOST_EPISODES}")));
        }
        ask(&loaded, move |clerk| {
            let ends = [&asked.start[..], &asked.goal[..]];
            let ended = clerk.episodes(asked.control, ends, asked.episodes, asked.seed)?;
            let steps: Vec<u32> =
                ended.iter().filter(|one| one.reached).map(|one| one.steps).collect();
            let mean =
                steps.iter().map(|&steps| f64::from(steps)).sum::<f64>() / steps.len() as f64;
            Ok(json!({
                "episodes": ended.len(),
                "reached": steps.len(),
                "mean_steps": mean,
                "steps": ended[0].steps,
                "path": ended[0].path,
            }))
        })
    }
}

/// How far each state is from the data; finite, as numbers in JSON are.
fn spacings(model: &Model, states: &[f32]) -> std::result::Result<Vec<f32>, Answer> {
    let found = model.novelty(states).map_err(|error| refused(&error))?;
    Ok(found.into_iter().map(|spacings| spacings.min(f32::MAX)).collect())
}

/// The exact steps from each of a map's known cells to `goal`; what cannot get there has none.
fn exact(clerk: &Clerk<'_>, axes: [usize; 2], goal: &[f32]) -> Result<Value> {
    let grid = sent::grid(&clerk.opened.model, clerk.data, axes, sent::FLOATS)?;
    let Some(referee) = clerk.examiner()?.referee() else {
        let source = &clerk.opened.config.data.source;
        return Err(Error::input(format!("exact steps of `{source}` are not known")));
    };
    let to_goal = referee.steps_to(goal);
    let steps: Vec<f64> = grid.states.chunks_exact(goal.len()).map(&to_goal).collect();
    Ok(json!({ "steps": steps }))
}

/// Whether the distance is a quasimetric, in words.
pub fn audited(clerk: &Clerk<'_>) -> Result<Value> {
    let states = clerk.data.source.dataset.states();
    let found = isochrone::evaluate::audit(&clerk.opened.model, states, TRIPLES, 0)?;
    Ok(json!({ "words": verdict(&found), "audit": found }))
}

fn verdict(found: &Audit) -> Vec<String> {
    let triples = wording::grouped(found.triples);
    let first = match &found.worst {
        None => format!(
            "The triangle inequality holds on all {triples} triples of recorded states: a detour \
             through a third state is never shorter than the direct way."
        ),
        Some(worst) => format!(
            "The triangle inequality fails on {} of {triples} triples of recorded states, at worst \
             by {:.1} %: there a detour through a third state is shorter than the direct way, so \
             these numbers are no lengths of ways.",
            wording::grouped(found.violations),
            100.0 * worst.relative
        ),
    };
    let asymmetry = format!(
        "There and back differ by {:.0} % of the mean distance, {:.1} steps.",
        100.0 * found.asymmetry,
        found.mean_steps
    );
    vec![first, asymmetry]
}

/// Learned against exact and elapsed steps, as points and in words.
pub fn calibrated(clerk: &Clerk<'_>) -> Result<Value> {
    let model = &clerk.opened.model;
    let exact = clerk.examiner()?.accuracy(model)?;
    let config = &clerk.opened.config;
    let seed = config.evaluation.seed;
    let elapsed = against_elapsed(model, &clerk.data.trajectories, seed)?;
    let error = exact.as_ref().and_then(|found| found.found.median_relative_error);
    let solved = clerk.solved()?.map(|solved| against_solved(model, solved, seed));
    let solved = solved.transpose()?.flatten();
    let thinned = |points: &[[f32; 2]]| -> Vec<[f32; 2]> {
        points.iter().step_by(points.len().div_ceil(POINTS).max(1)).copied().collect()
    };
    let exact = exact.map(
        |found| json!({ "points": thinned(&found.pairs), "words": wording::accuracy(&found) }),
    );
    let algorithm = config.algorithm.name();
    let elapsed = elapsed.map(|found| {
        let (elapsed, solved) = (Some(&found), solved.as_ref());
        let judgement = Judgement { elapsed, solved, exact: error, algorithm };
        json!({
            "points": thinned(&found.points),
            "words": wording::judgement(&judgement),
            "bands": found.bands,
        })
    });
    Ok(json!({ "exact": exact, "elapsed": elapsed }))
}

/// Asks the clerk of a run.
fn ask<R: Serialize + Send + 'static>(
    loaded: &Loaded,
    question: impl for<'a> FnOnce(&Clerk<'a>) -> Result<R> + Send + 'static,
) -> Said {
    let answered = loaded.desk.ask(question).map_err(|why| match why {
        Unanswered::Full => Answer::refusal(503, "too many questions wait already"),
        Unanswered::Wrong(error) => refused(&error),
    });
    text(&answered?)
}

fn told(value: Result<Value>) -> Said {
    value.map(|value| value.to_string()).map_err(|error| refused(&error))
}

fn text(value: &impl Serialize) -> Said {
    let wrong = |error: serde_json::Error| Answer::refusal(422, error.to_string());
    serde_json::to_string(value).map_err(wrong)
}

/// What is wrong with a question, or with what it is about.
fn refused(error: &Error) -> Answer {
    let status = if matches!(error, Error::Input(_)) { 400 } else { 409 };
    Answer::refusal(status, error.to_string())
}
