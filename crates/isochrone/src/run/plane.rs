//! The map of a run whose states lie in a plane: learned steps to a goal, as the input of a picture.
//!
//! White is what lies outside the corridors of a world that has them, else what is farther from the
//! data than data states are from each other.

use std::ops::Range;

use super::source::Source;
use crate::Result;
use crate::evaluate::steps_to;
use crate::model::Model;
use crate::plan::{Graph, PathEnding};
use crate::report::{DistanceField, Families, Isochrones, Panel};
use crate::simulate::referee::pinwheel::CELL;
use crate::simulate::{Referee, pinwheel};

/// Nodes along the longer side of a map.
const NODES: usize = 161;
/// The room around the data, as a share of their extent.
const ROOM: f32 = 0.04;
/// Trajectories handed to a picture; it draws fewer of each family.
const TRAJECTORIES: usize = 400;
/// Start and goal of the map of the pinwheel: along three sides into a spur, two switches.
pub const PINWHEEL: Ends = Ends { start: [0.2, 0.1], goal: [0.31, 0.69] };
/// Starts tried for the map of other data.
const TRIED: usize = 48;
/// Contours of the exact distance, at most, and the share of the map that they span.
const LEVELS: f32 = 8.0;
const SPANNED: f64 = 0.95;
/// Cells of the referee on each axis.
const CELLS: usize = 51;
/// Exact steps on a map are averaged over cells within this distance, nearer ones weighing more.
const SMOOTHED: f32 = 0.04;
/// Where these differ by more, as at the mouth of a dead end, there is no contour.
const JUMP: f32 = 10.0;

/// Where the planned path of a map begins and ends.
#[derive(Debug, Clone, Copy)]
pub struct Ends {
    /// Where the path begins.
    pub start: [f32; 2],
    /// Where the star stands.
    pub goal: [f32; 2],
}

/// The rectangle that a map shows, and which of its points are known.
pub struct Plane<'a> {
    source: &'a Source,
    corridors: bool,
    horizontal: [f32; 2],
    vertical: [f32; 2],
    columns: usize,
    rows: usize,
}

impl<'a> Plane<'a> {
    /// The plane of `source`; none unless its states have two values each and are all in memory.
    pub fn of(source: &'a Source) -> Option<Self> {
        let dataset = &source.dataset;
        if dataset.state_size() != 2 || dataset.stays_in().is_some() || dataset.is_divided() {
            return None;
        }
        let corridors =
            source.world.as_ref().is_some_and(|opened| opened.world.pinwheel().is_some());
        let [horizontal, vertical] =
            if corridors { [[0.0, 1.0]; 2] } else { [0, 1].map(|axis| extent(source, axis)) };
        let (wide, high) = (horizontal[1] - horizontal[0], vertical[1] - vertical[0]);
        let nodes = |side: f32| ((side / wide.max(high) * NODES as f32) as usize).max(2);
        let (columns, rows) = (nodes(wide), nodes(high));
        Some(Self { source, corridors, horizontal, vertical, columns, rows })
    }

    /// The learned steps to one goal on a coarse grid, and the goal: the end of the longest trajectory
    /// or, on the pinwheel, that of its map.
    ///
    /// # Errors
    /// None for a model of two values per state.
    #[cfg(feature = "pictures")]
    pub(super) fn overview(&self, model: &Model) -> Result<(DistanceField, [f32; 2])> {
        let dataset = &self.source.dataset;
        let far = || point(dataset.state(self.longest().end - 1));
        let goal = if self.corridors { PINWHEEL.goal } else { far() };
        let coarse = |nodes: usize| (nodes / 2).max(2);
        let plane = Self { columns: coarse(self.columns), rows: coarse(self.rows), ..*self };
        Ok((plane.learned(model, goal)?, goal))
    }

    /// The rows of the longest trajectory.
    fn longest(&self) -> Range<usize> {
        let dataset = &self.source.dataset;
        let longest = (0..dataset.trajectories()).max_by_key(|&at| dataset.trajectory(at).len());
        dataset.trajectory(longest.unwrap_or(0))
    }

    fn name(&self) -> String {
        let world = self.source.world.as_ref();
        world.map_or("recorded data".to_owned(), |opened| opened.world.to_string())
    }

    fn field(&self, value: impl FnMut([f32; 2]) -> f32) -> Result<DistanceField> {
        DistanceField::from_fn(self.horizontal, self.vertical, self.columns, self.rows, value)
    }

    /// The learned steps from every known point to `goal`.
    fn learned(&self, model: &Model, goal: [f32; 2]) -> Result<DistanceField> {
        let mut points = Vec::new();
        self.field(|point| {
            points.push(point);
            0.0
        })?;
        let mut known: Vec<bool> = if self.corridors {
            points.iter().map(|&point| inside(point)).collect()
        } else {
            model.novelty(points.as_flattened())?.into_iter().map(|far| far <= 1.0).collect()
        };
        if !known.contains(&true) {
            // Data finer than the grid: rather guesses than an empty map.
            known.fill(true);
        }
        let asked: Vec<[f32; 2]> = points
            .iter()
            .zip(&known)
            .filter(|(_, known)| **known)
            .map(|(point, _)| *point)
            .collect();
        let mut answers = steps_to(model, asked.as_flattened(), &goal)?.into_iter();
        let mut known = known.into_iter();
        self.field(|_| match known.next() {
            Some(true) => answers.next().unwrap_or(f32::NAN),
            _ => f32::NAN,
        })
    }

    /// The exact steps from every point of the corridors to `goal`, each cell's averaged with those
    /// around it.
    fn exact(&self, referee: &Referee, goal: [f32; 2]) -> Result<DistanceField> {
        let exact = referee.steps_to(&goal);
        let cell = |place: usize| place as f32 * CELL as f32;
        let places = || (0..CELLS).flat_map(|row| (0..CELLS).map(move |column| (column, row)));
        let known: Vec<([f32; 2], f32)> = places()
            .map(|(column, row)| [cell(column), cell(row)])
            .filter(|&centre| inside(centre))
            .map(|centre| (centre, exact(&centre) as f32))
            .filter(|(_, steps)| steps.is_finite())
            .collect();
        let smooth = |point: [f32; 2]| {
            let (mut total, mut weights, mut low, mut high) = (0.0, 0.0, f32::MAX, 0.0_f32);
            for (centre, steps) in &known {
                let gap = (centre[0] - point[0]).hypot(centre[1] - point[1]);
                let weight = 1.0 - gap / SMOOTHED;
                if weight > 0.0 {
                    (total, weights) = (total + weight * steps, weights + weight);
                    (low, high) = (low.min(*steps), high.max(*steps));
                }
            }
            if high - low > JUMP { f32::NAN } else { total / weights }
        };
        self.field(|point| if inside(point) { smooth(point) } else { f32::NAN })
    }

    /// A start and a goal whose path joins what no trajectory joins, where the world or the data
    /// have such.
    ///
    /// # Errors
    /// None for data of two values per state.
    pub fn ends(&self, graph: &Graph<'_, Model>) -> Result<Ends> {
        if self.corridors {
            return Ok(PINWHEEL);
        }
        let dataset = &self.source.dataset;
        let goal = dataset.state(self.longest().end - 1);
        let tree = graph.tree(goal)?;
        let mut best = (0, dataset.state(0));
        for index in 0..TRIED {
            let start = dataset.state(index * dataset.rows() / TRIED);
            let path = graph.path_along(&tree, start)?;
            if path.ending == PathEnding::Arrived && path.trajectories.len() > best.0 {
                best = (path.trajectories.len(), start);
            }
        }
        Ok(Ends { start: point(best.1), goal: point(goal) })
    }

    /// One map: the distance of `model` to the goal and a path planned with it.
    ///
    /// # Errors
    /// None for a model of two values per state.
    pub fn panel(
        &self,
        model: &Model,
        title: &str,
        goal: [f32; 2],
        path: &[Vec<f32>],
    ) -> Result<Panel> {
        let path = path.iter().map(|state| point(state)).collect();
        Ok(Panel { title: title.to_owned(), distance: self.learned(model, goal)?, path })
    }

    /// The whole picture: data by family, and one map for each panel, all in the scale of the exact
    /// steps where they are known.
    ///
    /// # Errors
    /// None for data of two values per state.
    pub fn isochrones(
        &self,
        panels: Vec<Panel>,
        ends: Ends,
        referee: Option<&Referee>,
    ) -> Result<Isochrones> {
        let exact = referee.filter(|_| self.corridors);
        let exact = exact.map(|referee| self.exact(referee, ends.goal)).transpose()?;
        let (levels, farthest) = exact.as_ref().map_or((Vec::new(), None), levels);
        let caption = if self.corridors {
            "Filled: learned steps to the star. Dashed: exact steps of the best use of recorded moves; \
             where learned steps are right, bands end at dashed lines. No line where steps jump, as at \
             dead ends. No trajectory passes a corner along the ring: a path that does joins families."
        } else {
            "Filled: learned steps to the star. White: farther from the data than data states are \
             from each other."
        };
        Ok(Isochrones {
            title: format!("Steps to a goal: {}", self.name()),
            caption: caption.into(),
            families: families(self.source),
            panels,
            start: ends.start,
            goal: ends.goal,
            exact,
            levels,
            farthest,
        })
    }
}

fn inside(point: [f32; 2]) -> bool {
    pinwheel::inside(point.map(f64::from))
}

fn point(state: &[f32]) -> [f32; 2] {
    [state[0], state[1]]
}

/// The range of one coordinate of the data, with room around it.
fn extent(source: &Source, axis: usize) -> [f32; 2] {
    let numbers = source.dataset.states().iter().skip(axis).step_by(2);
    let (low, high) = numbers.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &number| {
        (low.min(number), high.max(number))
    });
    // Data that do not move along this axis still need a map of some height.
    let room = ROOM * (high - low).max(1e-3 * low.abs().max(1.0));
    [low - room, high + room]
}

/// Round numbers of steps that most exact distances lie between, and where the scale ends: a band
/// above them, for what is farther or out of reach.
fn levels(exact: &DistanceField) -> (Vec<f32>, Option<f32>) {
    let mut known: Vec<f32> = exact.values.iter().copied().filter(|it| it.is_finite()).collect();
    known.sort_by(f32::total_cmp);
    let place = (SPANNED * known.len() as f64) as usize;
    let Some(&most) = known.get(place) else { return (Vec::new(), None) };
    let round = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    let step = round.into_iter().find(|step| most / step <= LEVELS).unwrap_or(most / LEVELS);
    let level = |count: u16| f32::from(count) * step;
    let levels: Vec<f32> = (1..).map(level).take_while(|level| *level < most).collect();
    let farthest = levels.last().map(|last| last + 2.0 * step);
    (levels, farthest)
}

/// The trajectories of a world by family, those of a file as one.
fn families(source: &Source) -> Families {
    let dataset = &source.dataset;
    let world = source.world.as_ref();
    let names = world.map_or(vec!["recorded".to_owned()], |opened| opened.family_names.clone());
    let family = |index: usize| world.map_or(0, |opened| opened.families[index]);
    let stride = dataset.trajectories().div_ceil(TRAJECTORIES).max(1);
    let line = |index: usize| -> Vec<[f32; 2]> {
        dataset.trajectory(index).map(|row| point(dataset.state(row))).collect()
    };
    let indices = (0..dataset.trajectories()).step_by(stride);
    Families { trajectories: indices.map(|index| (family(index), line(index))).collect(), names }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contours_are_round_numbers_below_the_end_of_the_scale() {
        let field = |most: f32| {
            let value = |[x, y]: [f32; 2]| if x + y == 2.0 { 2.0 * most } else { most * x };
            DistanceField::from_fn([0.0, 1.0], [0.0, 1.0], 11, 11, value).unwrap()
        };
        // One corner in 121 nodes, twice as far, does not stretch the scale.
        let found = levels(&field(73.0));
        assert_eq!(found, ((1..=7).map(|tens| 10.0 * tens as f32).collect(), Some(90.0)));
        assert_eq!(levels(&field(0.0)), (Vec::new(), None), "nothing to contour");
        assert_eq!(levels(&field(f32::NAN)), (Vec::new(), None));
    }
}
