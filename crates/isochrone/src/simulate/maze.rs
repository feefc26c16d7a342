//! Mazes of square cells: maps, coordinates, routes and tasks, as D4RL and OGBench have them.
//!
//! x = 4 · column − 4, y = 4 · row − 4: the middle of cell (1, 1) is the origin and rows go to +y.
//! Sources: Fu, Kumar, Nachum, Tucker, Levine: "D4RL: datasets for deep data-driven reinforcement
//! learning" (2020); Park, Frans, Eysenbach, Levine: "OGBench: benchmarking offline goal-conditioned
//! RL" (2024), and their published environments.

use crate::random::Draws;

/// The side of a cell, in metres.
pub const CELL_SIDE: f64 = 4.0;
/// A portal takes whoever comes this near to its middle.
pub const PORTAL_RADIUS: f64 = 1.5;

/// Where the search for a route looks first; ties keep the earlier one.
const NEIGHBOURS: [(isize, isize); 4] = [(-1, 0), (0, -1), (1, 0), (0, 1)];

/// A place in the plane, in the unit of its world.
pub type Place = [f64; 2];

/// One cell of a maze.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Rows go to +y.
    pub row: usize,
    /// Columns go to +x.
    pub column: usize,
}

const fn cell(row: usize, column: usize) -> Cell {
    Cell { row, column }
}

/// From one cell to another.
pub type Errand = (Cell, Cell);

const fn errand(from: (usize, usize), to: (usize, usize)) -> Errand {
    (cell(from.0, from.1), cell(to.0, to.1))
}

/// The maps there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Map {
    /// A U of 3 × 3 cells; D4RL alone.
    Umaze,
    /// 6 × 6 cells.
    Medium,
    /// 7 × 10 cells.
    Large,
    /// 10 × 14 cells; OGBench alone.
    Giant,
    /// 7 × 10 cells with two ways into and three ways out of portals; OGBench alone.
    Teleport,
}

impl Map {
    /// The name that names of worlds hold.
    pub fn name(self) -> &'static str {
        match self {
            Self::Umaze => "umaze",
            Self::Medium => "medium",
            Self::Large => "large",
            Self::Giant => "giant",
            Self::Teleport => "teleport",
        }
    }

    /// Rows of cells, 1 for a wall.
    fn rows(self) -> &'static [&'static str] {
        match self {
            Self::Umaze => &["11111", "10001", "11101", "10001", "11111"],
            Self::Medium => &[
                "11111111", "10011001", "10010001", "11000111", "10010001", "10100101", "10001001",
                "11111111",
            ],
            Self::Large => &[
                "111111111111",
                "100001000001",
                "101101010101",
                "100000010001",
                "101111011101",
                "100101000001",
                "110101010111",
                "100100010001",
                "111111111111",
            ],
            Self::Giant => &[
                "1111111111111111",
                "1010000001100001",
                "1010110101001101",
                "1000100100010001",
                "1011101111110101",
                "1000100010000101",
                "1110101001010111",
                "1000100100010001",
                "1010101111110101",
                "1011100010001101",
                "1000001000100001",
                "1111111111111111",
            ],
            Self::Teleport => &[
                "111111111111",
                "100000101001",
                "110100010011",
                "110111000001",
                "100001010101",
                "101101010101",
                "101101010101",
                "100001000101",
                "111111111111",
            ],
        }
    }

    /// OGBench's five evaluation tasks; none for the map that is D4RL's alone.
    pub fn errands(self) -> &'static [Errand] {
        const MEDIUM: [Errand; 5] = [
            errand((1, 1), (6, 6)),
            errand((6, 1), (1, 6)),
            errand((5, 3), (4, 2)),
            errand((6, 5), (6, 1)),
            errand((2, 6), (1, 1)),
        ];
        const LARGE: [Errand; 5] = [
            errand((1, 1), (7, 10)),
            errand((5, 4), (7, 1)),
            errand((7, 4), (1, 10)),
            errand((3, 8), (5, 4)),
            errand((1, 1), (5, 4)),
        ];
        const GIANT: [Errand; 5] = [
            errand((1, 1), (10, 14)),
            errand((1, 14), (10, 1)),
            errand((8, 14), (1, 1)),
            errand((8, 3), (5, 12)),
            errand((5, 9), (3, 8)),
        ];
        const TELEPORT: [Errand; 5] = [
            errand((1, 10), (7, 1)),
            errand((1, 1), (7, 10)),
            errand((5, 6), (7, 10)),
            errand((7, 1), (7, 10)),
            errand((5, 6), (7, 1)),
        ];
        match self {
            Self::Umaze => &[],
            Self::Medium => &MEDIUM,
            Self::Large => &LARGE,
            Self::Giant => &GIANT,
            Self::Teleport => &TELEPORT,
        }
    }

    /// The cells that D4RL recorded toward; none for a map that is OGBench's alone.
    pub fn recorded_goals(self) -> &'static [Cell] {
        const UMAZE: [Cell; 1] = [cell(3, 1)];
        const MEDIUM: [Cell; 3] = [cell(2, 6), cell(5, 1), cell(6, 5)];
        const LARGE: [Cell; 7] =
            [cell(1, 6), cell(3, 5), cell(3, 10), cell(5, 2), cell(7, 4), cell(7, 6), cell(7, 9)];
        match self {
            Self::Umaze => &UMAZE,
            Self::Medium => &MEDIUM,
            Self::Large => &LARGE,
            Self::Giant | Self::Teleport => &[],
        }
    }

    /// The cell that D4RL evaluates toward; none for a map that is OGBench's alone.
    pub fn evaluated_goal(self) -> Option<Cell> {
        match self {
            Self::Umaze => Some(cell(3, 1)),
            Self::Medium => Some(cell(6, 6)),
            Self::Large => Some(cell(7, 9)),
            Self::Giant | Self::Teleport => None,
        }
    }

    /// The ways into portals and the ways out of them.
    pub(super) fn portals(self) -> (&'static [Cell], &'static [Cell]) {
        const IN: [Cell; 2] = [cell(4, 6), cell(5, 1)];
        const OUT: [Cell; 3] = [cell(1, 7), cell(6, 1), cell(6, 10)];
        match self {
            Self::Teleport => (&IN, &OUT),
            _ => (&[], &[]),
        }
    }
}

/// The cell that D4RL starts from: the origin.
pub const ORIGIN: Cell = cell(1, 1);

/// A maze with its routes.
#[derive(Debug, Clone)]
pub struct Maze {
    map: Map,
    rows: usize,
    columns: usize,
    walls: Vec<bool>,
    /// For every goal, for every cell: cells on the way; `UNREACHABLE` in walls.
    steps: Vec<u16>,
}

const UNREACHABLE: u16 = u16::MAX;

impl Maze {
    /// The maze of `map`.
    pub fn new(map: Map) -> Self {
        let rows = map.rows();
        let walls = rows.iter().flat_map(|row| row.bytes().map(|letter| letter == b'1')).collect();
        let mut maze =
            Self { map, rows: rows.len(), columns: rows[0].len(), walls, steps: Vec::new() };
        let cells = maze.rows * maze.columns;
        maze.steps = (0..cells).flat_map(|goal| maze.search(maze.numbered(goal))).collect();
        maze
    }

    /// The map.
    pub fn map(&self) -> Map {
        self.map
    }

    /// Rows of cells, the walls around the maze included.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns of cells, the walls around the maze included.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The place of a cell in lists of all cells, row after row.
    pub fn number(&self, cell: Cell) -> usize {
        cell.row * self.columns + cell.column
    }

    fn numbered(&self, number: usize) -> Cell {
        cell(number / self.columns, number % self.columns)
    }

    /// Whether `cell` is a wall; everything outside the map is.
    pub fn is_wall(&self, cell: Cell) -> bool {
        cell.row >= self.rows || cell.column >= self.columns || self.walls[self.number(cell)]
    }

    /// The cells that are walls, row after row.
    pub fn walls(&self) -> impl Iterator<Item = Cell> {
        (0..self.walls.len()).map(|number| self.numbered(number)).filter(|&cell| self.is_wall(cell))
    }

    /// The cells that are free, row after row.
    pub fn free(&self) -> Vec<Cell> {
        let cells = (0..self.walls.len()).map(|number| self.numbered(number));
        cells.filter(|&cell| !self.is_wall(cell)).collect()
    }

    /// The free cells that are no straight corridor: crossings, corners and dead ends.
    pub fn junctions(&self) -> Vec<Cell> {
        let open = |cell: Cell| !self.is_wall(cell);
        let straight = |at: Cell| {
            let along_y = [open(cell(at.row - 1, at.column)), open(cell(at.row + 1, at.column))];
            let along_x = [open(cell(at.row, at.column - 1)), open(cell(at.row, at.column + 1))];
            matches!((along_y, along_x), ([true, true], [false, false]))
                || matches!((along_y, along_x), ([false, false], [true, true]))
        };
        self.free().into_iter().filter(|&cell| !straight(cell)).collect()
    }

    /// The middle of a cell.
    pub fn centre(cell: Cell) -> Place {
        [cell.column, cell.row].map(|index| CELL_SIDE * index as f64 - CELL_SIDE)
    }

    /// The cell that holds `point`; points beyond the map belong to its border.
    pub fn cell_at(&self, point: Place) -> Cell {
        let index = |value: f64, count: usize| {
            (((value + 1.5 * CELL_SIDE) / CELL_SIDE).max(0.0) as usize).min(count - 1)
        };
        cell(index(point[1], self.rows), index(point[0], self.columns))
    }

    /// Cells on the way from one cell to another, by the shortest way; `None` if there is none.
    pub fn steps(&self, from: Cell, to: Cell) -> Option<u16> {
        let cells = self.walls.len();
        let steps = self.steps[self.number(to) * cells + self.number(from)];
        (steps != UNREACHABLE).then_some(steps)
    }

    /// The free cells exactly `steps` cells away from `from`.
    pub fn ring(&self, from: Cell, steps: u16) -> Vec<Cell> {
        let mut cells = self.free();
        cells.retain(|&cell| self.steps(from, cell) == Some(steps));
        cells
    }

    /// The neighbour of `from` that is next on the shortest way to `to`; `from` itself on arrival.
    pub fn next(&self, from: Cell, to: Cell) -> Cell {
        let mut best = (self.steps(from, to), from);
        for neighbour in self.neighbours(from) {
            let steps = self.steps(neighbour, to);
            if let (Some(steps), Some(least)) = (steps, best.0)
                && steps < least
            {
                best = (Some(steps), neighbour);
            }
        }
        best.1
    }

    fn neighbours(&self, from: Cell) -> impl Iterator<Item = Cell> {
        NEIGHBOURS
            .iter()
            .filter_map(move |&(down, right)| {
                let row = from.row.checked_add_signed(down)?;
                Some(cell(row, from.column.checked_add_signed(right)?))
            })
            .filter(|&cell| !self.is_wall(cell))
    }

    /// Breadth first from `goal`: cells on the way from every cell.
    fn search(&self, goal: Cell) -> Vec<u16> {
        let mut steps = vec![UNREACHABLE; self.walls.len()];
        if self.is_wall(goal) {
            return steps;
        }
        steps[self.number(goal)] = 0;
        let mut queue = std::collections::VecDeque::from([goal]);
        while let Some(here) = queue.pop_front() {
            let further = steps[self.number(here)] + 1;
            for neighbour in self.neighbours(here) {
                let known = &mut steps[self.number(neighbour)];
                if *known == UNREACHABLE {
                    *known = further;
                    queue.push_back(neighbour);
                }
            }
        }
        steps
    }

    /// Where a portal puts whoever stands at `point`; `None` if there is no portal.
    pub fn portal(&self, point: Place, draws: &mut Draws) -> Option<Place> {
        let (ways_in, ways_out) = self.map.portals();
        let near = |&way: &Cell| distance(point, Self::centre(way)) <= PORTAL_RADIUS;
        if !ways_in.iter().any(near) {
            return None;
        }
        Some(Self::centre(ways_out[draws.below(ways_out.len() as u32) as usize]))
    }

    /// The ways into portals and the ways out of them.
    pub fn portals(&self) -> (&'static [Cell], &'static [Cell]) {
        self.map.portals()
    }

    /// Whether the maze has portals.
    pub fn has_portals(&self) -> bool {
        !self.map.portals().0.is_empty()
    }
}

/// How far apart two points are.
pub fn distance(one: Place, other: Place) -> f64 {
    ((one[0] - other[0]).powi(2) + (one[1] - other[1]).powi(2)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Stream};

    const MAPS: [Map; 5] = [Map::Umaze, Map::Medium, Map::Large, Map::Giant, Map::Teleport];

    #[test]
    fn every_map_is_closed_and_connected_and_its_tasks_lie_in_free_cells() {
        for map in MAPS {
            let maze = Maze::new(map);
            let edge = |cell: Cell| {
                [0, maze.rows() - 1].contains(&cell.row)
                    || [0, maze.columns() - 1].contains(&cell.column)
            };
            let free = maze.free();
            assert!(free.iter().all(|&cell| !edge(cell)), "{map:?}");
            assert_eq!(free.len() + maze.walls().count(), maze.rows() * maze.columns());
            let connected = |&&(from, to): &&Errand| maze.steps(from, to).is_some();
            assert_eq!(map.errands().iter().filter(connected).count(), map.errands().len());
            if map != Map::Teleport {
                assert!(free.iter().all(|&cell| maze.steps(free[0], cell).is_some()), "{map:?}");
            }
            let goals = map.recorded_goals().iter().chain(map.evaluated_goal().as_ref()).count();
            assert!(map.errands().len() + goals > 0);
            assert!(map.recorded_goals().iter().all(|&cell| !maze.is_wall(cell)));
            let (ways_in, ways_out) = map.portals();
            assert!(ways_in.iter().chain(ways_out).all(|&cell| !maze.is_wall(cell)));
        }
    }

    #[test]
    fn cells_and_coordinates_agree_and_the_first_cell_is_the_origin() {
        let maze = Maze::new(Map::Large);
        assert_eq!(Maze::centre(ORIGIN), [0.0, 0.0]);
        assert_eq!(Maze::centre(cell(7, 10)), [36.0, 24.0]);
        for cell in maze.free() {
            let [x, y] = Maze::centre(cell);
            for (right, up) in [(0.0, 0.0), (1.99, -1.99), (-1.99, 1.99), (-2.0, -2.0)] {
                assert_eq!(maze.cell_at([x + right, y + up]), cell);
            }
            assert_ne!(maze.cell_at([x + 2.0, y]), cell);
        }
        assert_eq!(maze.cell_at([-1e9, 1e9]), super::cell(8, 0));
    }

    #[test]
    fn routes_of_the_u_go_round_its_wall() {
        let maze = Maze::new(Map::Umaze);
        let (start, goal) = (cell(1, 1), cell(3, 1));
        assert_eq!(maze.steps(start, goal), Some(6));
        let mut here = start;
        let mut way = vec![here];
        while here != goal {
            here = maze.next(here, goal);
            way.push(here);
        }
        let expected = [(1, 1), (1, 2), (1, 3), (2, 3), (3, 3), (3, 2), (3, 1)];
        assert_eq!(way, expected.map(|(row, column)| cell(row, column)));
        assert_eq!(maze.next(goal, goal), goal);
        assert_eq!(maze.steps(cell(2, 1), goal), None);
        assert_eq!(maze.ring(start, 4), [cell(3, 3)]);
        let corridor = [cell(1, 2), cell(2, 3), cell(3, 2)];
        assert!(maze.junctions().iter().all(|cell| !corridor.contains(cell)));
        assert_eq!(maze.junctions().len() + corridor.len(), maze.free().len());
    }

    #[test]
    fn a_next_cell_is_one_cell_nearer() {
        for map in MAPS {
            let maze = Maze::new(map);
            for from in maze.free() {
                for to in maze.free() {
                    let Some(steps) = maze.steps(from, to) else { continue };
                    let next = maze.next(from, to);
                    assert_eq!(maze.steps(next, to), Some(steps.saturating_sub(1)));
                }
            }
        }
    }

    #[test]
    fn portals_take_whoever_comes_near_to_each_way_out_alike() {
        let maze = Maze::new(Map::Teleport);
        let mut draws = Stream::new(0, Purpose(0)).draws(0, 0);
        let [x, y] = Maze::centre(cell(4, 6));
        assert_eq!(maze.portal([x + 1.51, y], &mut draws), None);
        let mut counts = [0; 3];
        for _ in 0..3_000 {
            let out = maze.portal([x + 1.0, y - 1.0], &mut draws).unwrap();
            let ways = [cell(1, 7), cell(6, 1), cell(6, 10)].map(Maze::centre);
            counts[ways.iter().position(|&way| way == out).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
        assert_eq!(Maze::new(Map::Large).portal([x, y], &mut draws), None);
    }
}
