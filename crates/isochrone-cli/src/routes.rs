//! From a model and a maze to the picture of its routes: walls, learned steps, what episodes did.

use isochrone::Result;
use isochrone::evaluate::steps_to;
use isochrone::model::Model;
use isochrone::plan::Graph;
use isochrone::report::{DistanceField, Routed, Routes};
use isochrone::simulate::maze::{CELL_SIDE, Maze};
use isochrone::simulate::{Outcome, Task, World};

use crate::examiner::{Examiner, Steering};

/// Nodes along the longer side of a map.
const NODES: usize = 181;
/// Episodes drawn of each task.
const EPISODES: usize = 6;

/// The routes of `model` in the maze that `examiner` asks about; none in other worlds.
///
/// # Errors
/// A model of another size than the world's.
pub fn routes(
    model: &Model,
    examiner: &Examiner<'_>,
    steering: Steering,
    graph: Option<&Graph<'_, Model>>,
) -> Result<Option<Routes>> {
    let Some(opened) = examiner.world() else { return Ok(None) };
    let World::Maze(course) = opened.world else { return Ok(None) };
    let groups = opened.environment.groups();
    let Some(outcomes) = examiner.routes(model, steering, graph, groups * EPISODES)? else {
        return Ok(None);
    };
    let plan = MapSource { maze: Maze::new(course.map), model, graph };
    let tasks = examiner.tasks();
    let task = |task: usize| plan.task(task, groups, (tasks, &outcomes));
    let drawn = outcomes.len() / groups;
    Ok(Some(Routes {
        title: format!("Routes in {}", opened.world),
        caption: format!(
            "From above. Filled: learned steps to the star, the goal of the first episode; goals of \
             the others lie near it. Lines: {drawn} episodes of each task by the {}.",
            steering.words()
        ),
        plane: plan.plane(),
        walls: plan.maze.walls().map(|cell| square(Maze::centre(cell))).collect(),
        tasks: (0..groups).map(task).collect::<Result<Vec<_>>>()?,
        longest: longest(&outcomes),
    }))
}

/// The longest way of those that arrived; of all where none did.
fn longest(outcomes: &[Outcome]) -> usize {
    let steps = |arrived: bool| {
        let counted = outcomes.iter().filter(move |outcome| outcome.reached || !arrived);
        counted.map(|outcome| outcome.steps as usize).max()
    };
    steps(true).or(steps(false)).unwrap_or(1)
}

/// The corners of the cell with this middle.
fn square(centre: [f64; 2]) -> [[f32; 2]; 2] {
    let half = 0.5 * CELL_SIDE;
    [centre.map(|value| (value - half) as f32), centre.map(|value| (value + half) as f32)]
}

/// What every map of a picture needs.
struct MapSource<'a> {
    maze: Maze,
    model: &'a Model,
    graph: Option<&'a Graph<'a, Model>>,
}

impl MapSource<'_> {
    /// The maze from the middle of its outer walls inward.
    fn plane(&self) -> [[f32; 2]; 2] {
        let last = |count: usize| (CELL_SIDE * (count as f64 - 1.0) - CELL_SIDE) as f32;
        let first = -CELL_SIDE as f32;
        [[first, last(self.maze.columns())], [first, last(self.maze.rows())]]
    }

    fn task(
        &self,
        index: usize,
        groups: usize,
        (tasks, outcomes): (&[Task], &[Outcome]),
    ) -> Result<Routed> {
        let goal = &tasks[index].goal;
        let own: Vec<&Outcome> = outcomes.iter().skip(index).step_by(groups).collect();
        let reached = own.iter().filter(|outcome| outcome.reached).count();
        let place = |state: &Vec<f32>| [state[0], state[1]];
        let path = |outcome: &&Outcome| outcome.path.iter().map(place).collect();
        let name = if groups > 1 { format!("task {}", index + 1) } else { "episodes".into() };
        Ok(Routed {
            title: format!("{name}: {reached} of {} reached", own.len()),
            distance: self.graph.map(|graph| self.distance(graph, goal)).transpose()?,
            goal: [goal[0], goal[1]],
            paths: own.iter().map(path).collect(),
        })
    }

    /// Learned steps to `goal` from the free points of the maze. What a state has besides its place is
    /// that of the nearest state of the graph.
    fn distance(&self, graph: &Graph<'_, Model>, goal: &[f32]) -> Result<DistanceField> {
        let [horizontal, vertical] = self.plane();
        let (wide, high) = (horizontal[1] - horizontal[0], vertical[1] - vertical[0]);
        let nodes = |side: f32| ((side / wide.max(high) * NODES as f32) as usize).max(2);
        let size = self.model.shape().state_size;
        let free = |point: [f32; 2]| !self.maze.is_wall(self.maze.cell_at(point.map(f64::from)));
        let mut states = Vec::new();
        let field = |value: &mut dyn FnMut([f32; 2]) -> f32| {
            DistanceField::from_fn(horizontal, vertical, nodes(wide), nodes(high), value)
        };
        field(&mut |point| {
            if free(point) {
                states.extend_from_slice(nearest(graph.states(), size, point));
                let first = states.len() - size;
                states[first..first + 2].copy_from_slice(&point);
            }
            0.0
        })?;
        let mut steps = steps_to(self.model, &states, goal)?.into_iter();
        field(&mut |point| {
            if free(point) { steps.next().unwrap_or(f32::NAN) } else { f32::NAN }
        })
    }
}

/// The state whose place is nearest to `point`.
fn nearest(states: &[f32], size: usize, point: [f32; 2]) -> &[f32] {
    let gap = |state: &[f32]| (state[0] - point[0]).hypot(state[1] - point[1]);
    let nearest = states.chunks_exact(size).min_by(|one, other| gap(one).total_cmp(&gap(other)));
    nearest.unwrap_or(&states[..size])
}
