//! Corridors of one unit between walls of two or more, with one-way doors, walked in steps of a quarter.
//!
//! An action is a velocity of at most 1; a step moves by a quarter of it, with noise, and slides
//! along walls. Exact steps are lengths of shortest paths over a lattice of 1/16, whose 32 directions
//! make a path at most 2 % too long.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::f64::consts::TAU;

use isochrone::evaluate::ExactSteps;
use isochrone::random::{Draws, Purpose, Stream};

use super::file::{Actions, Recorded};
use super::map::Map;

const MAP: Map = Map(&[
    "........", "^######.", ".######.", "...>....", ".######.", ".######.", ".######.", ".....<..",
]);
const SIDE: usize = 8;
/// The length of a step.
const STEP: f64 = 0.25;
/// The deviation of the noise on each coordinate of a step.
const NOISE: f64 = 0.02;
/// Lattice points per unit.
const FINENESS: usize = 16;
const TRAJECTORIES: u32 = 300;
const ROWS: usize = 120;
/// Goals that are walked to, and goals that are asked about with starts for each.
const WALKED_TO: usize = 60;
const ASKED: [usize; 2] = [30, 30];

type Point = [f64; 2];

/// The distance from every lattice point to one goal.
struct Field {
    goal: Point,
    lengths: Vec<f64>,
}

impl Field {
    /// Dijkstra's search backwards from `goal`.
    fn new(goal: Point) -> Self {
        let across = SIDE * FINENESS;
        let mut lengths = vec![f64::INFINITY; across * across];
        let reach: Vec<[i32; 2]> = (-3i32..=3)
            .flat_map(|x| (-3i32..=3).map(move |y| [x, y]))
            .filter(|[x, y]| common(x.abs(), y.abs()) == 1)
            .collect();
        lengths[index(goal)] = 0.0;
        let mut due = BinaryHeap::from([(Reverse(0), index(goal))]);
        while let Some((Reverse(bits), found)) = due.pop() {
            let length = f64::from_bits(bits);
            if length > lengths[found] {
                continue;
            }
            let to = point(found);
            for &[x, y] in &reach {
                let change = [x, y].map(|change| f64::from(change) / FINENESS as f64);
                let from = [to[0] - change[0], to[1] - change[1]];
                let further = length + change[0].hypot(change[1]);
                if clear(from, to) && further < lengths[index(from)] {
                    lengths[index(from)] = further;
                    due.push((Reverse(further.to_bits()), index(from)));
                }
            }
        }
        Self { goal: point(index(goal)), lengths }
    }

    fn steps_from(&self, at: Point) -> f64 {
        self.lengths[index(at)] / STEP
    }

    fn asked(&self, starts: &[Point]) -> ExactSteps {
        let seen = |at: Point| point(index(at)).map(|value| value as f32);
        ExactSteps {
            goal: seen(self.goal).to_vec(),
            starts: starts.iter().flat_map(|&start| seen(start)).collect(),
            steps: starts.iter().map(|&start| self.steps_from(start)).collect(),
        }
    }
}

fn common(one: i32, other: i32) -> i32 {
    if other == 0 { one } else { common(other, one % other) }
}

/// The number of the lattice point nearest to a free point.
fn index(at: Point) -> usize {
    let [x, y] = at.map(|value| (value * FINENESS as f64) as usize);
    y * SIDE * FINENESS + x
}

fn point(index: usize) -> Point {
    let across = SIDE * FINENESS;
    [index % across, index / across].map(|value| (value as f64 + 0.5) / FINENESS as f64)
}

/// Whether the straight line between two near points is free.
fn clear(from: Point, to: Point) -> bool {
    let middle = [0, 1].map(|axis| (from[axis] + to[axis]) / 2.0);
    MAP.passes(from, middle) && MAP.passes(middle, to)
}

/// Moves by `change` in small parts, each coordinate as far as it is free.
fn moved(mut at: Point, change: Point) -> Point {
    const PARTS: usize = 5;
    for part in 0..2 * PARTS {
        let mut next = at;
        next[part % 2] += change[part % 2] / PARTS as f64;
        if MAP.passes(at, next) {
            at = next;
        }
    }
    at
}

fn anywhere(draws: &mut Draws) -> Point {
    loop {
        let at = [(); 2].map(|()| draws.between(0.0, SIDE as f64));
        if MAP.is_free(at) {
            return at;
        }
    }
}

fn velocity(angle: f64, speed: f64) -> Point {
    [speed * angle.cos(), speed * angle.sin()]
}

/// Trajectories, half of them wandering, half walking from goal to goal.
pub fn recorded() -> Recorded {
    let mut draws = Stream::new(1, Purpose(920)).draws(0, 0);
    let fields: Vec<Field> = (0..WALKED_TO).map(|_| Field::new(anywhere(&mut draws))).collect();
    let (mut observations, mut actions, mut terminals) = (Vec::new(), Vec::new(), Vec::new());
    for trajectory in 0..TRAJECTORIES {
        let mut draws = Stream::new(1, Purpose(921)).draws(0, trajectory);
        let (mut at, mut angle) = (anywhere(&mut draws), draws.between(0.0, TAU));
        let mut field = &fields[draws.below(WALKED_TO as u32) as usize];
        for row in 0..ROWS {
            let action = if trajectory % 2 == 0 {
                angle += 0.4 * draws.normal();
                velocity(angle, draws.between(0.6, 1.0))
            } else {
                if field.steps_from(at) < 1.0 {
                    field = &fields[draws.below(WALKED_TO as u32) as usize];
                }
                velocity(towards(field, at) + 0.2 * draws.normal(), 1.0)
            };
            observations.push(at.map(|value| value as f32));
            actions.push(action.map(|value| value as f32));
            terminals.push(row + 1 == ROWS);
            at = moved(at, action.map(|speed| STEP * speed + NOISE * draws.normal()));
        }
    }
    Recorded { observations, actions: Actions::Real(actions), terminals }
}

/// Exact steps between points drawn over all corridors.
pub fn asked() -> Vec<ExactSteps> {
    let mut draws = Stream::new(1, Purpose(922)).draws(0, 0);
    let [goals, starts] = ASKED;
    (0..goals)
        .map(|_| {
            let field = Field::new(anywhere(&mut draws));
            let starts: Vec<Point> = (0..starts).map(|_| anywhere(&mut draws)).collect();
            field.asked(&starts)
        })
        .collect()
}

/// Exact steps through each door, and back.
pub fn doors() -> Vec<[ExactSteps; 2]> {
    let ways = |[before, behind]: [Point; 2]| {
        [[before, behind], [behind, before]].map(|[from, to]| Field::new(to).asked(&[from]))
    };
    MAP.doors().into_iter().map(ways).collect()
}

/// The direction of 24 in which a step comes nearest to the goal.
fn towards(field: &Field, at: Point) -> f64 {
    let angles = (0..24).map(|part| f64::from(part) * TAU / 24.0);
    let left = |angle: &f64| field.steps_from(moved(at, velocity(*angle, STEP)));
    angles.min_by(|one, other| left(one).total_cmp(&left(other))).unwrap()
}
