//! Four rooms of a 12 × 12 grid, joined in a ring by one-way doors, walked by five discrete actions.

use std::collections::VecDeque;

use isochrone::evaluate::ExactSteps;
use isochrone::random::{Draws, Purpose, Stream};

use super::file::{Actions, Recorded};
use super::map::Map;

const MAP: Map = Map(&[
    "......#.....",
    "......#.....",
    "......>.....",
    "..#...#..#..",
    "..#...#..#..",
    "......#.....",
    "##^######v##",
    "......#.....",
    "......#.....",
    "......<.....",
    "...#..#.....",
    "......#.....",
]);
const SIDE: usize = 12;
/// Right, left, down, up, stay.
const MOVES: [[i32; 2]; 5] = [[1, 0], [-1, 0], [0, 1], [0, -1], [0, 0]];
const EPISODES: u32 = 300;

type Cell = [i32; 2];

fn centre(cell: Cell) -> [f64; 2] {
    cell.map(|value| f64::from(value) + 0.5)
}

fn moved(cell: Cell, choice: usize) -> Cell {
    let next = [cell[0] + MOVES[choice][0], cell[1] + MOVES[choice][1]];
    if MAP.passes(centre(cell), centre(next)) { next } else { cell }
}

fn cells() -> Vec<Cell> {
    let side = 0..SIDE as i32;
    let all = side.clone().flat_map(|y| side.clone().map(move |x| [x, y]));
    all.filter(|&cell| MAP.is_free(centre(cell))).collect()
}

fn observed(cell: Cell) -> [f32; 2] {
    cell.map(|value| value as f32)
}

fn index([x, y]: Cell) -> usize {
    y as usize * SIDE + x as usize
}

/// The fewest steps from every cell to `goal`, by breadth-first search.
fn steps_to(goal: Cell, cells: &[Cell]) -> Vec<f64> {
    let mut steps = vec![f64::INFINITY; SIDE * SIDE];
    steps[index(goal)] = 0.0;
    let mut due = VecDeque::from([goal]);
    while let Some(to) = due.pop_front() {
        for &from in cells {
            let leads = (0..MOVES.len()).any(|choice| moved(from, choice) == to);
            if leads && steps[index(from)].is_infinite() {
                steps[index(from)] = steps[index(to)] + 1.0;
                due.push_back(from);
            }
        }
    }
    steps
}

fn asked(goal: Cell, starts: &[Cell], steps: &[f64]) -> ExactSteps {
    ExactSteps {
        goal: observed(goal).to_vec(),
        starts: starts.iter().flat_map(|&start| observed(start)).collect(),
        steps: starts.iter().map(|&start| steps[index(start)]).collect(),
    }
}

pub struct World {
    cells: Vec<Cell>,
    /// For each cell, the fewest steps to it.
    steps: Vec<Vec<f64>>,
}

impl World {
    pub fn new() -> Self {
        let cells = cells();
        let steps = cells.iter().map(|&goal| steps_to(goal, &cells)).collect();
        Self { cells, steps }
    }

    /// Episodes, half of them at random, half walking from goal to goal.
    pub fn recorded(&self) -> Recorded {
        let (mut observations, mut actions, mut terminals) = (Vec::new(), Vec::new(), Vec::new());
        for episode in 0..EPISODES {
            let mut draws = Stream::new(1, Purpose(930)).draws(0, episode);
            let (length, mut at) = (30 + draws.below(31), self.cells[self.any(&mut draws)]);
            let mut goal = self.any(&mut draws);
            for row in 0..length {
                if at == self.cells[goal] {
                    goal = self.any(&mut draws);
                }
                let choice = if episode % 2 == 0 {
                    draws.below(MOVES.len() as u32) as usize
                } else {
                    self.towards(goal, at)
                };
                observations.push(observed(at));
                actions.push(choice as i64);
                terminals.push(row + 1 == length);
                at = moved(at, choice);
            }
        }
        Recorded { observations, actions: Actions::Whole(actions), terminals }
    }

    fn any(&self, draws: &mut Draws) -> usize {
        draws.below(self.cells.len() as u32) as usize
    }

    /// The choice that leads nearest to a goal.
    fn towards(&self, goal: usize, at: Cell) -> usize {
        let left = |choice: &usize| self.steps[goal][index(moved(at, *choice))];
        (0..MOVES.len()).min_by(|one, other| left(one).total_cmp(&left(other))).unwrap()
    }

    /// Exact steps between all cells.
    pub fn asked(&self) -> Vec<ExactSteps> {
        let goals = self.cells.iter().zip(&self.steps);
        goals
            .map(|(&goal, steps)| {
                let others = self.cells.iter().copied().filter(|&cell| cell != goal);
                asked(goal, &others.collect::<Vec<_>>(), steps)
            })
            .collect()
    }

    /// Exact steps through each door, and back.
    pub fn doors(&self) -> Vec<[ExactSteps; 2]> {
        let cell = |point: [f64; 2]| point.map(|value| value as i32);
        let way = |from: Cell, to: Cell| asked(to, &[from], &steps_to(to, &self.cells));
        let doors = MAP.doors().into_iter().map(|door| door.map(cell));
        doors.map(|[before, behind]| [way(before, behind), way(behind, before)]).collect()
    }
}
