//! A ball pushed through a maze: OGBench's point body, MuJoCo's soft contacts without MuJoCo.
//!
//! q ← q + 0.2 a, v ← 0, then five Runge-Kutta steps of h = 0.02 s in which only walls push:
//! a = argmin ½ m ‖a‖² + ½ Σ w min(0, J·a − r)², over four rows J ∈ {n + t, n − t, n, n} for every
//! wall nearer than the ball's radius, n its normal, t ⟂ n (friction 1; the vertical tangent moves
//! nothing). With penetration d < 0 and impedance D(d): r = −B J·v − K D d,
//! w = 1 / (2 (1 − D)/D · 2 · 2/(3 m)).
//! Source: MuJoCo, "Computation", sections on the constraint model and its solver, with OGBench's
//! body; time constant 2 h by `refsafe`.

use super::maze::{CELL_SIDE, Cell, Maze, Place};

/// The radius of the ball, in metres.
pub const RADIUS: f64 = 0.7;
/// How far an action of length one moves the ball where nothing is in its way, in metres.
pub const STRIDE: f32 = 0.2;

/// The mass of the ball: a sphere of water's density 1,000 would be ten times as heavy.
const MASS: f64 = 143.675_504_056_160_85;
/// Seconds of one integration step, and how many make a step of the world.
const TIMESTEP: f64 = 0.02;
const SUBSTEPS: usize = 5;
/// The impedance at no penetration, at full penetration, and the penetration that is full.
const IMPEDANCE: [f64; 2] = [0.9, 0.95];
const WIDTH: f64 = 0.001;
/// Stiffness and damping of the reference acceleration, from time constant and damping ratio 1.
const TIME_CONSTANT: f64 = 2.0 * TIMESTEP;
const STIFFNESS: f64 = 1.0 / (IMPEDANCE[1] * IMPEDANCE[1] * TIME_CONSTANT * TIME_CONSTANT);
const DAMPING: f64 = 2.0 / (IMPEDANCE[1] * TIME_CONSTANT);
/// The mean inverse inertia of a body that only slides on two axes of three.
const INVERSE_MASS: f64 = 2.0 / (3.0 * MASS);

/// Rows of one contact, and contacts at once: the walls around one cell.
const ROWS: usize = 4;
const MOST_ROWS: usize = 8 * ROWS;
/// Solver steps after which an answer is as good as it gets; three are usual.
const MOST_ITERATIONS: usize = 100;

/// Where the ball is and how fast it moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Motion {
    /// The place of its middle.
    pub place: Place,
    /// Its velocity, which the next action forgets.
    pub velocity: Place,
}

/// Where the ball is one action later.
///
/// The product with the action is of 32 bits, as it is where actions are recorded.
pub fn advance(maze: &Maze, place: Place, action: [f32; 2]) -> Motion {
    let moved = action.map(|value| f64::from(STRIDE * value.clamp(-1.0, 1.0)));
    let place = [place[0] + moved[0], place[1] + moved[1]];
    let mut motion = Motion { place, velocity: [0.0; 2] };
    for _ in 0..SUBSTEPS {
        if motion.velocity == [0.0; 2] && !touches(maze, motion.place) {
            break;
        }
        motion = runge_kutta(maze, motion);
    }
    motion
}

fn runge_kutta(maze: &Maze, from: Motion) -> Motion {
    let plus = |base: Place, way: Place, share: f64| {
        [0, 1].map(|axis| base[axis] + TIMESTEP * share * way[axis])
    };
    let mut stage = from;
    let (mut velocity, mut acceleration) = ([0.0; 2], [0.0; 2]);
    for (weight, ahead) in [(1.0 / 6.0, 0.5), (1.0 / 3.0, 0.5), (1.0 / 3.0, 1.0), (1.0 / 6.0, 0.0)]
    {
        let push = accelerated(maze, stage);
        for axis in [0, 1] {
            velocity[axis] += weight * stage.velocity[axis];
            acceleration[axis] += weight * push[axis];
        }
        stage = Motion {
            place: plus(from.place, stage.velocity, ahead),
            velocity: plus(from.velocity, push, ahead),
        };
    }
    Motion {
        place: plus(from.place, velocity, 1.0),
        velocity: plus(from.velocity, acceleration, 1.0),
    }
}

/// The way from the nearest point of a wall to `place`, where the ball touches the wall.
fn gap(wall: Cell, place: Place) -> Option<Place> {
    let centre = Maze::centre(wall);
    let gap = [0, 1].map(|axis| {
        let from = place[axis] - centre[axis];
        from - from.clamp(-0.5 * CELL_SIDE, 0.5 * CELL_SIDE)
    });
    (gap[0] * gap[0] + gap[1] * gap[1] < RADIUS * RADIUS).then_some(gap)
}

/// The walls that the ball touches, as ways to it.
fn contacts(maze: &Maze, place: Place) -> impl Iterator<Item = Place> {
    let Cell { row, column } = maze.cell_at(place);
    let rows = row.saturating_sub(1)..=row + 1;
    rows.flat_map(move |row| {
        (column.saturating_sub(1)..=column + 1).map(move |column| Cell { row, column })
    })
    .filter(|&cell| maze.is_wall(cell))
    .filter_map(move |wall| gap(wall, place))
}

/// Whether the ball at `place` touches a wall.
pub fn touches(maze: &Maze, place: Place) -> bool {
    contacts(maze, place).next().is_some()
}

/// One row of the constraints: its direction, the acceleration it asks for, its weight.
#[derive(Clone, Copy)]
struct Row {
    direction: Place,
    wanted: f64,
    weight: f64,
}

fn impedance(penetration: f64) -> f64 {
    let depth = (penetration.abs() / WIDTH).min(1.0);
    let risen = if depth <= 0.5 { 2.0 * depth * depth } else { 1.0 - 2.0 * (1.0 - depth).powi(2) };
    IMPEDANCE[0] + risen * (IMPEDANCE[1] - IMPEDANCE[0])
}

fn dot(one: Place, other: Place) -> f64 {
    one[0] * other[0] + one[1] * other[1]
}

/// The acceleration of the ball.
fn accelerated(maze: &Maze, motion: Motion) -> Place {
    let mut rows = [Row { direction: [0.0; 2], wanted: 0.0, weight: 0.0 }; MOST_ROWS];
    let mut count = 0;
    for gap in contacts(maze, motion.place) {
        let length = dot(gap, gap).sqrt();
        let normal = gap.map(|value| value / length);
        let tangent = [-normal[1], normal[0]];
        let penetration = length - RADIUS;
        let impedance = impedance(penetration);
        let weight = 1.0 / (2.0 * (1.0 - impedance) / impedance * 2.0 * INVERSE_MASS);
        for slide in [1.0, -1.0, 0.0, 0.0] {
            let direction = [0, 1].map(|axis| normal[axis] + slide * tangent[axis]);
            let wanted =
                -DAMPING * dot(direction, motion.velocity) - STIFFNESS * impedance * penetration;
            rows[count] = Row { direction, wanted, weight };
            count += 1;
        }
    }
    least(&rows[..count])
}

/// argmin ½ m ‖a‖² + ½ Σ w min(0, J·a − r)², by Newton's method; a step is halved while it does not
/// descend, so the search ends.
fn least(rows: &[Row]) -> Place {
    let cost = |at: Place| {
        let lack = |row: &Row| row.weight * (dot(row.direction, at) - row.wanted).min(0.0).powi(2);
        MASS * dot(at, at) + rows.iter().map(lack).sum::<f64>()
    };
    let mut best = [0.0; 2];
    if rows.is_empty() {
        return best;
    }
    let mut active = u32::MAX;
    for _ in 0..MOST_ITERATIONS {
        let (next, now) = minimum_of_active(rows, best);
        if now == active {
            break;
        }
        active = now;
        let mut step = [0, 1].map(|axis| next[axis] - best[axis]);
        let (before, mut halvings) = (cost(best), 0);
        while halvings < 30 && cost([best[0] + step[0], best[1] + step[1]]) > before {
            step = step.map(|value| 0.5 * value);
            halvings += 1;
        }
        if halvings > 0 {
            active = u32::MAX;
        }
        best = [best[0] + step[0], best[1] + step[1]];
    }
    best
}

/// The least point if exactly the rows that lack something at `at` counted, and which these are.
fn minimum_of_active(rows: &[Row], at: Place) -> (Place, u32) {
    let (mut xx, mut xy, mut yy) = (MASS, 0.0, MASS);
    let (mut right, mut active) = ([0.0; 2], 0);
    for (place, row) in rows.iter().enumerate() {
        if dot(row.direction, at) >= row.wanted {
            continue;
        }
        active |= 1 << place;
        let [x, y] = row.direction;
        xx += row.weight * x * x;
        xy += row.weight * x * y;
        yy += row.weight * y * y;
        right = [0, 1].map(|axis| right[axis] + row.weight * row.wanted * row.direction[axis]);
    }
    let determinant = xx * yy - xy * xy;
    let solved = [yy * right[0] - xy * right[1], xx * right[1] - xy * right[0]];
    (solved.map(|value| value / determinant), active)
}

#[cfg(test)]
mod tests {
    use super::super::maze::Map;
    use super::*;
    use crate::data::arrays::Arrays;

    #[test]
    fn recorded_motion_of_the_benchmark_is_followed_to_the_last_step() {
        let bytes = include_bytes!("../../tests/fixtures/golden-traces.npz");
        let mut traces = Arrays::open(bytes).unwrap();
        let (mut worst, mut touched) = (0.0_f64, 0);
        for map in [Map::Medium, Map::Large, Map::Giant] {
            let maze = Maze::new(map);
            for task in [1, 3] {
                let name = format!("pointmaze-{}-task{task}", map.name());
                let mut get = |key: &str| traces.get(&format!("{name}/{key}")).unwrap().values;
                let (actions, seen) = (get("actions"), get("observations"));
                let start = get("qpos0");
                let mut place = [start[0], start[1]];
                assert_eq!(actions.len(), 1_200);
                for (action, expected) in actions.chunks(2).zip(seen[2..].chunks(2)) {
                    let moved = advance(&maze, place, [action[0] as f32, action[1] as f32]);
                    touched += usize::from(moved.velocity != [0.0; 2]);
                    place = moved.place;
                    let error = (place[0] - expected[0]).abs().max((place[1] - expected[1]).abs());
                    worst = worst.max(error);
                }
            }
        }
        assert!(worst < 1e-9, "{worst:e}");
        assert!(touched > 300, "the traces touch walls {touched} times");
    }

    #[test]
    fn in_the_open_an_action_moves_by_its_fifth_and_a_wall_keeps_what_it_is_known_to_keep() {
        let maze = Maze::new(Map::Medium);
        let free = advance(&maze, [0.0, 0.0], [1.0, -0.5]);
        assert_eq!(free.place.map(|value| value as f32), [0.2, -0.1]);
        assert_eq!(free.velocity, [0.0; 2]);
        let held = advance(&maze, [0.0, 0.0], [7.0, f32::NEG_INFINITY]);
        assert_eq!(held.place[0], -held.place[1], "actions are held to [-1, 1]");
        assert_eq!(held.place[0] as f32, 0.2);
        // The wall on the left ends at x = −2: the ball is 0.1 deep in it, far from any corner.
        let pushed = advance(&maze, [-1.2, 0.0], [-1.0, 0.0]);
        let left = -1.3 - pushed.place[0];
        assert!((left / 0.1 - 0.1772).abs() < 1e-4, "{left}");
        assert!(pushed.place[1].abs() < 1e-12);
    }

    #[test]
    fn the_ball_never_leaves_the_corridors() {
        for map in [Map::Medium, Map::Large, Map::Giant, Map::Teleport] {
            let maze = Maze::new(map);
            let stream = crate::random::Stream::new(0, crate::random::Purpose(0));
            for (index, cell) in maze.free().into_iter().enumerate() {
                let mut draws = stream.draws(0, index as u32);
                let mut place = Maze::centre(cell);
                let mut action = [0.0; 2];
                for step in 0..300 {
                    if step % 20 == 0 {
                        action = [0; 2].map(|_| draws.between(-1.0, 1.0).signum() as f32);
                    }
                    place = advance(&maze, place, action).place;
                    assert!(contacts(&maze, place).all(|gap| dot(gap, gap).sqrt() > 0.5));
                }
            }
        }
    }
}
