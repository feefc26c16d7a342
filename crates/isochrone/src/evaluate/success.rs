//! How often a model reaches what it is asked for, by how much a task must be stitched.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::{Error, Result, Tell};
use crate::model::Model;
use crate::plan::{Graph, Greedy, Tree};
use crate::simulate::{Environment, Outcome, Paths, Task, rollout_told};

/// Who steers: the model's policy, sent to the goal itself or from waypoint to waypoint.
#[derive(Clone, Copy)]
pub enum Control<'a> {
    /// The policy alone.
    Policy,
    /// The policy, sent along the shortest path over data states; to the goal where there is none.
    Graph(&'a Graph<'a, Model>),
    /// The policy, sent to the best candidate in a ball; to the goal where the ball is empty.
    Greedy(&'a Greedy<'a, Model>),
}

/// How many of some tasks succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// The share that reached the goal.
    pub rate: f64,
    /// √(rate (1 − rate) / tasks): the standard error of a share.
    pub standard_error: f64,
    /// How many tasks.
    pub tasks: usize,
}

/// The tasks whose route changes families equally often.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Class {
    /// Changes of family.
    pub switches: u8,
    /// How many of them succeeded.
    #[serde(flatten)]
    pub rate: Rate,
}

/// The episodes of one of a benchmark's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TaskRate {
    /// The benchmark's number of the task, from 1.
    pub task: usize,
    /// How many of its episodes succeeded.
    #[serde(flatten)]
    pub rate: Rate,
    /// Mean steps of those that did; `None` if none did.
    pub mean_steps: Option<f64>,
}

/// How a set of tasks ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Success {
    /// Over all tasks.
    pub overall: Rate,
    /// Over the tasks with one switch or more; `None` if the world knows no switches.
    pub stitched: Option<Rate>,
    /// By the number of switches, rising.
    pub by_switches: Vec<Class>,
    /// By the benchmark's task, where the world has several that are asked in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_task: Vec<TaskRate>,
    /// Mean steps of the episodes that reached their goal; `None` if none did.
    pub mean_steps: Option<f64>,
}

/// Lets `model` act in all `tasks` under `control` and counts successes; `tell` hears how many
/// episodes have ended.
///
/// # Errors
/// As [`outcomes`].
pub fn success(
    environment: &dyn Environment,
    tasks: &[Task],
    model: &Model,
    control: Control<'_>,
    seed: u64,
    tell: &Tell<'_>,
) -> Result<Success> {
    let outcomes = outcomes(environment, tasks, model, control, seed, Paths::Forget, tell)?;
    let by_task = by_task(environment.groups(), &outcomes);
    Success::of(tasks, &outcomes).map(|success| Success { by_task, ..success })
}

/// The rates of `groups` tasks that were asked in turn, as OGBench reports them; none of one alone.
pub fn by_task(groups: usize, outcomes: &[Outcome]) -> Vec<TaskRate> {
    let asked = |task: usize| {
        let own: Vec<&Outcome> = outcomes.iter().skip(task).step_by(groups).collect();
        let reached: Vec<bool> = own.iter().map(|outcome| outcome.reached).collect();
        let mean_steps = mean_steps(own.iter().copied());
        Rate::of(&reached).map(|rate| TaskRate { task: task + 1, rate, mean_steps })
    };
    if groups > 1 { (0..groups).filter_map(asked).collect() } else { Vec::new() }
}

/// Mean steps of the episodes that reached their goal; `None` if none did.
fn mean_steps<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Option<f64> {
    let steps: Vec<f64> =
        outcomes.filter(|outcome| outcome.reached).map(|outcome| outcome.steps.into()).collect();
    (!steps.is_empty()).then(|| steps.iter().sum::<f64>() / steps.len() as f64)
}

/// Lets `model` act in all `tasks` under `control`; one outcome for each task. `tell` hears how many
/// episodes have ended.
///
/// # Errors
/// A model without a policy, or of states or actions of another size than the world's; a signal that
/// `tell` gives.
pub fn outcomes(
    environment: &dyn Environment,
    tasks: &[Task],
    model: &Model,
    control: Control<'_>,
    seed: u64,
    paths: Paths,
    tell: &Tell<'_>,
) -> Result<Vec<Outcome>> {
    let shape = model.shape();
    let found = (shape.state_size, shape.action_size);
    let expected = (environment.state_size(), environment.action_size());
    if found != expected {
        return Err(Error::input(format!(
            "states and actions of the model have `{}` and `{}` values, those of the world `{}` and `{}`",
            found.0, found.1, expected.0, expected.1
        )));
    }
    // Complains here where there is no policy, so that acting below cannot fail.
    model.need_policy()?;
    let guides = Guides::new(tasks, control)?;
    let policy = |observations: &[f32], goals: &[f32], actions: &mut [f32]| {
        let targets = guides.targets(observations, goals);
        let chosen = model.act(observations, &targets).expect("sizes that were checked");
        actions.copy_from_slice(&chosen);
    };
    rollout_told(environment, tasks, seed, paths, &policy, tell)
}

/// What is prepared once for every goal.
struct Guides<'a> {
    control: Control<'a>,
    /// The bits of each goal, and its place in what follows.
    places: BTreeMap<Vec<u32>, usize>,
    trees: Vec<Tree>,
    fields: Vec<Vec<f32>>,
}

fn bits(goal: &[f32]) -> Vec<u32> {
    goal.iter().map(|value| value.to_bits()).collect()
}

impl<'a> Guides<'a> {
    fn new(tasks: &[Task], control: Control<'a>) -> Result<Self> {
        let (mut places, mut goals) = (BTreeMap::new(), Vec::new());
        for task in tasks {
            places.entry(bits(&task.goal)).or_insert_with(|| {
                goals.push(task.goal.as_slice());
                goals.len() - 1
            });
        }
        let (mut trees, mut fields) = (Vec::new(), Vec::new());
        match control {
            Control::Policy => {}
            Control::Graph(graph) => trees = graph.trees(&goals)?,
            Control::Greedy(greedy) => fields = greedy.fields(&goals.concat()),
        }
        Ok(Self { control, places, trees, fields })
    }

    /// For each observation the state that the policy is sent to.
    fn targets(&self, observations: &[f32], goals: &[f32]) -> Vec<f32> {
        let mut targets = goals.to_vec();
        if matches!(self.control, Control::Policy) || goals.is_empty() {
            return targets;
        }
        let size = self.places.keys().next().map_or(1, Vec::len);
        let rows = observations.chunks_exact(size).zip(goals.chunks_exact(size));
        for (target, (state, goal)) in targets.chunks_exact_mut(size).zip(rows) {
            let place = self.places[&bits(goal)];
            let waypoint = match self.control {
                Control::Policy => None,
                Control::Graph(graph) => graph.waypoint(state, &self.trees[place]),
                Control::Greedy(greedy) => greedy.waypoint(state, goal, &self.fields[place]),
            };
            if let Some(waypoint) = waypoint {
                target.copy_from_slice(waypoint);
            }
        }
        targets
    }
}

impl Rate {
    /// The rate over `reached`; none without tasks.
    fn of(reached: &[bool]) -> Option<Self> {
        let tasks = reached.len();
        let rate = reached.iter().filter(|&&reached| reached).count() as f64 / tasks as f64;
        let standard_error = (rate * (1.0 - rate) / tasks as f64).sqrt();
        (tasks > 0).then_some(Self { rate, standard_error, tasks })
    }
}

impl Success {
    /// Counts the `outcomes` of `tasks`, one for each.
    ///
    /// # Errors
    /// No tasks.
    pub fn of(tasks: &[Task], outcomes: &[Outcome]) -> Result<Self> {
        let mut classes: BTreeMap<u8, Vec<bool>> = BTreeMap::new();
        for (task, outcome) in tasks.iter().zip(outcomes) {
            if let Some(switches) = task.switches {
                classes.entry(switches).or_default().push(outcome.reached);
            }
        }
        let all: Vec<bool> = outcomes.iter().map(|outcome| outcome.reached).collect();
        let stitched: Vec<bool> = classes.range(1..).flat_map(|(_, class)| class.clone()).collect();
        let class = |(&switches, reached): (&u8, &Vec<bool>)| {
            Rate::of(reached).map(|rate| Class { switches, rate })
        };
        Ok(Self {
            overall: Rate::of(&all).ok_or_else(|| {
                Error::input("no tasks to act in").hint("ask for one episode or more")
            })?,
            stitched: Rate::of(&stitched),
            by_switches: classes.iter().filter_map(class).collect(),
            by_task: Vec::new(),
            mean_steps: mean_steps(outcomes.iter()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Draws;
    use crate::simulate::{Recording, rollout};

    /// A line of whole numbers; an action moves by its sign.
    struct Line;

    impl Environment for Line {
        fn state_size(&self) -> usize {
            1
        }
        fn action_size(&self) -> usize {
            1
        }
        fn discount(&self) -> f64 {
            0.9
        }
        fn horizon(&self) -> usize {
            10
        }
        fn radius(&self) -> f64 {
            0.1
        }
        fn step(&self, state: &mut [f64], action: &[f32], _: &mut Draws) {
            state[0] += f64::from(action[0].signum());
        }
        fn observe(&self, state: &[f64], _: &mut Draws) -> Vec<f32> {
            vec![state[0] as f32]
        }
        fn generate(&self, _: u64) -> Result<Recording> {
            Err(Error::input("nothing is recorded here"))
        }
        fn tasks(&self, _: u64, _: usize, _: &crate::data::Dataset) -> Result<Vec<Task>> {
            Ok(Vec::new())
        }
    }

    fn task(goal: f32, switches: Option<u8>) -> Task {
        Task { start: vec![0.0], goal: vec![goal], switches }
    }

    #[test]
    fn successes_are_counted_by_class_with_a_policy_that_only_goes_right() {
        let tasks = [
            task(3.0, Some(0)),
            task(-2.0, Some(0)),
            task(5.0, Some(1)),
            task(10.0, Some(1)),
            task(11.0, Some(1)),
            task(-1.0, Some(1)),
            task(2.0, Some(3)),
        ];
        let right = &|_: &[f32], _: &[f32], actions: &mut [f32]| actions.fill(1.0);
        let outcomes = rollout(&Line, &tasks, 0, Paths::Forget, right);
        let success = Success::of(&tasks, &outcomes).unwrap();
        let rate = |reached: f64, tasks: usize| {
            let rate = reached / tasks as f64;
            Rate { rate, standard_error: (rate * (1.0 - rate) / tasks as f64).sqrt(), tasks }
        };
        assert_eq!(success.overall, rate(4.0, 7));
        assert_eq!(success.stitched, Some(rate(3.0, 5)));
        let classes: Vec<(u8, Rate)> =
            success.by_switches.iter().map(|class| (class.switches, class.rate)).collect();
        assert_eq!(classes, [(0, rate(1.0, 2)), (1, rate(2.0, 4)), (3, rate(1.0, 1))]);
        assert_eq!(success.mean_steps, Some(5.0));
        let json = serde_json::to_value(&success).unwrap();
        assert_eq!(json["by_switches"][1]["switches"], 1);
        assert_eq!(json["by_switches"][1]["rate"], 0.5);
    }

    #[test]
    fn tasks_asked_in_turn_are_counted_apart() {
        let goals = [3.0, -2.0, 5.0, 4.0, 4.0, -1.0, 11.0];
        let tasks = goals.map(|goal| task(goal, None));
        let right = &|_: &[f32], _: &[f32], actions: &mut [f32]| actions.fill(1.0);
        let outcomes = rollout(&Line, &tasks, 0, Paths::Forget, right);
        let found = by_task(3, &outcomes);
        let rates: Vec<(usize, usize, f64)> =
            found.iter().map(|found| (found.task, found.rate.tasks, found.rate.rate)).collect();
        assert_eq!(rates, [(1, 3, 2.0 / 3.0), (2, 2, 0.5), (3, 2, 0.5)]);
        let steps: Vec<Option<f64>> = found.iter().map(|found| found.mean_steps).collect();
        assert_eq!(steps, [Some(3.5), Some(4.0), Some(5.0)]);
        assert!(by_task(1, &outcomes).is_empty());
    }

    #[test]
    fn a_world_without_switches_has_no_classes_and_no_tasks_are_refused() {
        let tasks = [task(-3.0, None)];
        let right = &|_: &[f32], _: &[f32], actions: &mut [f32]| actions.fill(1.0);
        let outcomes = rollout(&Line, &tasks, 0, Paths::Forget, right);
        let success = Success::of(&tasks, &outcomes).unwrap();
        assert_eq!((success.stitched, success.mean_steps), (None, None));
        assert!(success.by_switches.is_empty() && success.overall.rate == 0.0);
        let error = Success::of(&[], &[]).unwrap_err().to_string();
        assert_eq!(error, "no tasks to act in; hint: ask for one episode or more");
    }
}
