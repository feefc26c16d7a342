//! How long the exact solver takes on a grid with noisy moves.

use std::time::Instant;

use isochrone::Result;
use isochrone::tabular::DecisionProcess;
use serde::Serialize;

const SIDE: usize = 100;
const DISCOUNT: f64 = 0.99;
/// Chances that a move goes where it should, to either side, and back.
const CHANCES: [f64; 4] = [0.7, 0.1, 0.1, 0.1];

/// One measurement of the exact solver.
#[derive(Debug, Serialize)]
pub struct Solver {
    /// States of the grid.
    pub states: usize,
    /// The discount.
    pub discount: f64,
    /// The time to solve for the distances of all states to one goal, the best of three.
    pub best_ms: f64,
}

/// Solves the grid for one goal, three times.
///
/// # Errors
/// The grid is no decision process.
pub fn measure() -> Result<Solver> {
    let grid = noisy_grid()?;
    let goal = grid.states() / 3;
    let once = || {
        let since = Instant::now();
        std::hint::black_box(grid.distances_to(&[goal]));
        since.elapsed().as_secs_f64() * 1e3
    };
    let best_ms = (0..3).map(|_| once()).fold(f64::INFINITY, f64::min);
    Ok(Solver { states: grid.states(), discount: DISCOUNT, best_ms })
}

/// A square grid with four moves; a move into a wall stays where it is.
fn noisy_grid() -> Result<DecisionProcess> {
    let moves = [(0, 1), (1, 0), (0, -1), (-1, 0)];
    let beside = |at: usize, by: isize| at.checked_add_signed(by).filter(|&to| to < SIDE);
    DecisionProcess::from_rows(SIDE * SIDE, moves.len(), DISCOUNT, |state, action, next| {
        for (turn, chance) in CHANCES.into_iter().enumerate() {
            let (down, right) = moves[(action + turn) % moves.len()];
            let to = beside(state / SIDE, down).zip(beside(state % SIDE, right));
            next.push((to.map_or(state, |(row, column)| row * SIDE + column), chance));
        }
    })
}
