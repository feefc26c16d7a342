//! Who steers while mazes are recorded: from cell to cell along the shortest way, or anywhere.
//!
//! OGBench: the direction to the middle of the next cell; in the goal's own cell to that cell's
//! middle, not to the goal. D4RL: the direction to a waypoint drawn anew in every step, up to one
//! metre beyond the middle of the next cell; the goal itself when it is next. Its cell of a place is
//! 1 + ⌊x/4⌋, half a cell off, and all its noise is to one side, as published.

use super::course::{Course, Kind, Protocol};
use super::maze::{CELL_SIDE, Cell, Maze, Place, distance};
use crate::random::Draws;

/// OGBench's starts and goals lie this far from the middle of their cells, on each axis.
const SPREAD: f64 = 1.0;
/// Cells between start and goal of a stitch episode.
const STITCH_CELLS: u16 = 4;
/// Steps after which an explorer takes a new direction.
const EXPLORED: usize = 10;
/// Keeps a direction of no length from dividing by zero.
const TINY: f64 = 1e-6;

/// A place in `cell` as OGBench draws one, for a start or for a goal.
pub(super) fn scattered(cell: Cell, draws: &mut Draws) -> Place {
    Maze::centre(cell).map(|value| value + draws.between(-SPREAD, SPREAD))
}

/// A goal in `cell` as D4RL draws one: noise of up to 1 and up to ½, both to one side.
pub(super) fn beyond(cell: Cell, draws: &mut Draws) -> Place {
    Maze::centre(cell).map(|value| (value + draws.uniform() + 0.5 * draws.uniform()).max(0.0))
}

/// Where an episode begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Start {
    /// At this place.
    At(Place),
    /// At the origin, wherever the body's own noise puts it.
    Origin,
}

/// The hand that steers one episode.
pub(super) struct Driver<'a> {
    maze: &'a Maze,
    kind: Kind,
    radius: f64,
    goal: Place,
    /// The direction of an explorer.
    heading: Place,
    junctions: Vec<Cell>,
}

fn one_of(cells: &[Cell], draws: &mut Draws) -> Cell {
    cells[draws.below(cells.len() as u32) as usize]
}

impl<'a> Driver<'a> {
    /// Draws start and goal of an episode of `course`.
    pub(super) fn new(course: Course, maze: &'a Maze, draws: &mut Draws) -> (Self, Start) {
        let (start, goal) = match course.protocol() {
            Protocol::Ogbench => ogbench_ends(course.kind, maze, draws),
            Protocol::D4rl => d4rl_ends(course.kind, maze, draws),
        };
        let (kind, radius) = (course.kind, course.radius());
        let junctions = maze.junctions();
        (Self { maze, kind, radius, goal, heading: [0.0; 2], junctions }, start)
    }

    /// The direction in which to go from `place` in step `step`: of length one, or none.
    pub(super) fn direction(&mut self, place: Place, step: usize, draws: &mut Draws) -> Place {
        match self.kind {
            Kind::Explore => {
                if step.is_multiple_of(EXPLORED) {
                    self.heading = unit([draws.normal(), draws.normal()]);
                }
                self.heading
            }
            Kind::Navigate | Kind::Stitch => {
                let here = self.maze.cell_at(place);
                toward(place, Maze::centre(self.maze.next(here, self.maze.cell_at(self.goal))))
            }
            Kind::Fixed | Kind::Play | Kind::Diverse => toward(place, self.waypoint(place, draws)),
        }
    }

    fn waypoint(&self, place: Place, draws: &mut Draws) -> Place {
        let goal = shifted_cell(self.goal);
        let next = shifted_next(self.maze, shifted_cell(place), goal);
        match next {
            Some(next) if next != goal => Maze::centre(next).map(|value| value + draws.uniform()),
            _ => self.goal,
        }
    }

    /// Takes note that the body is at `place` now: a navigator who arrived gets a new goal.
    pub(super) fn moved(&mut self, place: Place, draws: &mut Draws) {
        if self.kind == Kind::Navigate && distance(place, self.goal) <= self.radius {
            self.goal = scattered(one_of(&self.junctions, draws), draws);
        }
    }
}

fn ogbench_ends(kind: Kind, maze: &Maze, draws: &mut Draws) -> (Start, Place) {
    let start = one_of(&maze.free(), draws);
    let goals = match kind {
        Kind::Stitch => maze.ring(start, STITCH_CELLS),
        _ => maze.junctions(),
    };
    let goal = if goals.is_empty() { start } else { one_of(&goals, draws) };
    (Start::At(scattered(start, draws)), scattered(goal, draws))
}

/// Where D4RL's public script does not say how goals of the diverse data were drawn, they are drawn
/// from all free cells here.
fn d4rl_ends(kind: Kind, maze: &Maze, draws: &mut Draws) -> (Start, Place) {
    let marked = maze.map().recorded_goals();
    let goal = match kind {
        Kind::Diverse => one_of(&maze.free(), draws),
        _ => one_of(marked, draws),
    };
    let start = match kind {
        Kind::Fixed => Start::Origin,
        _ => {
            let mut cells = maze.free();
            cells.retain(|cell| !marked.contains(cell));
            let centre = Maze::centre(one_of(&cells, draws));
            Start::At(centre.map(|value| (value + draws.uniform()).max(0.0)))
        }
    };
    (start, beyond(goal, draws))
}

/// D4RL's cell of a place, half a cell off.
fn shifted_cell(place: Place) -> Cell {
    let index = |value: f64| (1.0 + value.max(1e-4) / CELL_SIDE) as usize;
    Cell { row: index(place[1]), column: index(place[0]) }
}

/// The cell after `from` on a shortest way to `to`; `from` may be a wall, half a cell off as it is.
fn shifted_next(maze: &Maze, from: Cell, to: Cell) -> Option<Cell> {
    if from == to {
        return Some(to);
    }
    let Cell { row, column } = from;
    let around = [
        Cell { row, column: column + 1 },
        Cell { row, column: column - 1 },
        Cell { row: row - 1, column },
        Cell { row: row + 1, column },
    ];
    let reached = |cell: Cell| Some((maze.steps(cell, to)?, cell));
    let open = around.into_iter().filter(|&cell| !maze.is_wall(cell)).filter_map(reached);
    open.min_by_key(|&(steps, _)| steps).map(|(_, cell)| cell)
}

fn unit(way: Place) -> Place {
    let length = way[0].hypot(way[1]) + TINY;
    way.map(|value| value / length)
}

fn toward(from: Place, to: Place) -> Place {
    unit([to[0] - from[0], to[1] - from[1]])
}

#[cfg(test)]
mod tests {
    use super::super::course::Body;
    use super::super::maze::{Map, ORIGIN};
    use super::*;
    use crate::random::{Purpose, Stream};

    fn draws(index: u32) -> Draws {
        Stream::new(0, Purpose(0)).draws(0, index)
    }

    #[test]
    fn stitch_goals_are_four_cells_away_and_navigators_go_to_junctions() {
        let maze = Maze::new(Map::Large);
        let course = |kind| Course { body: Body::Point, map: Map::Large, kind };
        for index in 0..200 {
            let (driver, start) = Driver::new(course(Kind::Stitch), &maze, &mut draws(index));
            let Start::At(place) = start else { panic!("OGBench starts at a place") };
            let cells = (maze.cell_at(place), maze.cell_at(driver.goal));
            assert_eq!(maze.steps(cells.0, cells.1), Some(4));
            let (mut driver, _) = Driver::new(course(Kind::Navigate), &maze, &mut draws(index));
            let first = driver.goal;
            assert!(maze.junctions().contains(&maze.cell_at(first)));
            driver.moved([first[0] + 1.01, first[1]], &mut draws(index));
            assert_eq!(driver.goal, first, "not there yet");
            driver.moved([first[0] + 0.99, first[1]], &mut draws(index + 1_000));
            assert_ne!(driver.goal, first);
            assert!(maze.junctions().contains(&maze.cell_at(driver.goal)));
        }
    }

    #[test]
    fn a_driver_aims_at_the_middle_of_the_next_cell() {
        let maze = Maze::new(Map::Medium);
        let course = Course { body: Body::Point, map: Map::Medium, kind: Kind::Navigate };
        let (mut driver, _) = Driver::new(course, &maze, &mut draws(0));
        driver.goal = [0.9, 7.1];
        let cell = maze.cell_at([0.0, 4.0]);
        assert_eq!(maze.next(cell, maze.cell_at(driver.goal)), maze.next(cell, cell));
        let direction = driver.direction([1.0, 4.0], 0, &mut draws(0));
        assert!((direction[0] + 1.0).abs() < 1e-5 && direction[1] == 0.0, "{direction:?}");
    }

    #[test]
    fn an_explorer_turns_every_ten_steps() {
        let maze = Maze::new(Map::Medium);
        let course = Course { body: Body::Ant, map: Map::Medium, kind: Kind::Explore };
        let mut draws = draws(0);
        let (mut driver, _) = Driver::new(course, &maze, &mut draws);
        let ways: Vec<Place> =
            (0..30).map(|step| driver.direction([0.0; 2], step, &mut draws)).collect();
        for (step, way) in ways.iter().enumerate() {
            assert_eq!(*way, ways[step / 10 * 10]);
            assert!((way[0].hypot(way[1]) - 1.0).abs() < 1e-3);
        }
        assert!(ways[0] != ways[10] && ways[10] != ways[20]);
    }

    #[test]
    fn the_rules_of_d4rl_are_half_a_cell_off_and_to_one_side() {
        let maze = Maze::new(Map::Umaze);
        assert_eq!(shifted_cell([3.9, 4.1]), Cell { row: 2, column: 1 });
        assert_eq!(shifted_cell([-1.0, 0.0]), ORIGIN);
        let course = Course { body: Body::Ant, map: Map::Umaze, kind: Kind::Fixed };
        for index in 0..100 {
            let mut draws = draws(index);
            let (driver, start) = Driver::new(course, &maze, &mut draws);
            assert_eq!(start, Start::Origin);
            let [x, y] = driver.goal;
            assert!((0.0..1.5).contains(&x) && (8.0..9.5).contains(&y));
            let [x, y] = driver.waypoint([0.0, 0.0], &mut draws);
            assert!((4.0..5.0).contains(&x) && (0.0..1.0).contains(&y));
            assert_eq!(driver.waypoint([4.1, 8.1], &mut draws), driver.goal);
        }
        let diverse = Course { kind: Kind::Diverse, ..course };
        let goals: Vec<Cell> = (0..100)
            .map(|index| maze.cell_at(Driver::new(diverse, &maze, &mut draws(index)).0.goal))
            .collect();
        assert!(maze.free().iter().all(|cell| goals.contains(cell)));
    }
}
