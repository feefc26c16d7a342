//! The fewest steps between places of a point maze, on a grid of 0.1 m.
//!
//! V(goal) = 0, V(s) = min over ways on of what they take: half a step to each of the eight nodes
//! around s, for a step moves the ball by up to 0.2 m on either axis; and 1 + V(s′) for every step of
//! the true motion that meets a wall, by 16 actions at full speed, V(s′) interpolated between four
//! nodes. Such steps matter: a corner pushes the ball on its way, and every corner saves up to a step.
//! All of it is solved at once as Dijkstra's search (Knuth, "A generalization of Dijkstra's
//! algorithm", 1977). Steps are whole: V is rounded up.
//!
//! The goal is its own place, not the radius of success around it: motion is deterministic, so the
//! place can be reached. Rollouts of the true motion that always take the best next step need the
//! stated number of steps or one more or less; a test compares them.
//!
//! A portal takes whoever comes within 1.5 m of its middle to one of its ways out. With a(s) the steps
//! to the goal without a portal, b(s) those into the nearest portal and T = E γ^H from its ways out,
//! E γ^H from s is max(γ^a(s), γ^b(s) T), and T is its mean over the ways out. A place seen inside a
//! portal has been left already: from there it is T.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use super::super::maze::{CELL_SIDE, Maze, PORTAL_RADIUS, Place, distance};
use super::super::pinwheel::point;
use super::super::point::{RADIUS, advance};

/// Nodes of the grid on one metre.
const FINENESS: f64 = 10.0;
/// Steps from a node to the next.
const HOP: f64 = 0.5;
/// How much nearer to a wall than its radius the ball may be pressed.
const PRESSED: f64 = 0.15;
/// How far a step moves the ball at most, along a diagonal.
const FARTHEST: f64 = 0.29;
/// Parts of steps that are rounding.
const ROUNDING: f64 = 1e-6;

/// The places of a maze and how steps lead from one to another.
pub struct MazeWays {
    discount: f64,
    columns: usize,
    nodes: Vec<Node>,
    meetings: Vec<Meeting>,
    /// For each node where its meetings end in `around`, which lists those it is an end of.
    ends: Vec<u32>,
    around: Vec<u32>,
    portals: Option<Portals>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    /// The ball touches no wall.
    Free,
    /// It is pressed into one.
    Pressed,
    Portal,
    Wall,
}

/// A step that meets a wall: it ends between four nodes.
struct Meeting {
    from: u32,
    to: [u32; 4],
    shares: [f64; 4],
}

struct Portals {
    out: Vec<Place>,
    /// Steps into the nearest portal from every node.
    steps: Vec<f64>,
}

/// The steps to one goal from everywhere.
pub struct WaysToGoal<'a> {
    ways: &'a MazeWays,
    steps: Vec<f64>,
    /// −ln E γ^H from the ways out of a portal; infinite without portals.
    beyond: f64,
}

impl MazeWays {
    /// The ways of `maze`.
    pub fn new(maze: &Maze, discount: f64) -> Self {
        let along = |cells: usize| (cells as f64 * CELL_SIDE * FINENESS) as usize + 1;
        let columns = along(maze.columns());
        let nodes = nodes(maze, columns, along(maze.rows()));
        let mut ways = Self {
            discount,
            columns,
            nodes,
            meetings: Vec::new(),
            ends: Vec::new(),
            around: Vec::new(),
            portals: None,
        };
        ways.meetings = (0..ways.nodes.len())
            .into_par_iter()
            .flat_map_iter(|node| ways.meetings_of(maze, node))
            .collect();
        ways.index();
        let (ways_in, ways_out) = maze.portals();
        if !ways_in.is_empty() {
            let inside = (0..ways.nodes.len()).filter(|&node| ways.nodes[node] == Node::Portal);
            let steps = ways.search(inside.map(|node| (node, 0.0)));
            let out = ways_out.iter().map(|&way| Maze::centre(way)).collect();
            ways.portals = Some(Portals { out, steps });
        }
        ways
    }

    /// The steps of the true motion from `node` that meet a wall.
    fn meetings_of(&self, maze: &Maze, node: usize) -> Vec<Meeting> {
        let here = self.place(node);
        let near = match self.nodes[node] {
            Node::Pressed => true,
            Node::Free => clearance(maze, here) < RADIUS + FARTHEST,
            Node::Portal | Node::Wall => false,
        };
        let parts = |way: u8| [way % 5, way / 5].map(|part| f32::from(part) / 2.0 - 1.0);
        let full = |action: &[f32; 2]| action.iter().any(|part| part.abs() == 1.0);
        let actions = (0..25).map(parts).filter(full).filter(|_| near);
        let met = |action: [f32; 2]| {
            let motion = advance(maze, here, action);
            let free = self.nodes[node] == Node::Free && motion.velocity == [0.0; 2];
            let (to, shares) = self.between(motion.place).filter(|_| !free)?;
            Some(Meeting { from: node as u32, to, shares })
        };
        actions.filter_map(met).collect()
    }

    /// Lists for each node the meetings that it is an end of.
    fn index(&mut self) {
        let mut ends = vec![0u32; self.nodes.len() + 1];
        let members = |meeting: &Meeting| meeting.to.map(|node| node as usize);
        self.meetings.iter().flat_map(members).for_each(|node| ends[node + 1] += 1);
        for node in 1..ends.len() {
            ends[node] += ends[node - 1];
        }
        let mut next = ends.clone();
        let mut around = vec![0; 4 * self.meetings.len()];
        for (index, meeting) in self.meetings.iter().enumerate() {
            for node in members(meeting) {
                around[next[node] as usize] = index as u32;
                next[node] += 1;
            }
        }
        (self.ends, self.around) = (ends, around);
    }

    /// The steps to `goal`.
    pub fn to(&self, goal: &[f32]) -> WaysToGoal<'_> {
        let goal = point(goal);
        let mut near = Vec::new();
        self.each_within(goal, 0.2, |node, place| {
            let gap = [0, 1].map(|axis: usize| (place[axis] - goal[axis]).abs());
            near.push((node, gap[0].max(gap[1]) * FINENESS * HOP));
        });
        near.retain(|&(node, _)| self.nodes[node] != Node::Wall);
        let steps = self.search(near.into_iter());
        let mut field = WaysToGoal { ways: self, steps, beyond: f64::INFINITY };
        if let Some(portals) = &self.portals {
            // T rises to its fixed point: each round adds ways through one portal more.
            loop {
                let value = |&place: &Place| (-field.nats(place)).exp();
                let mean = portals.out.iter().map(value).sum::<f64>() / portals.out.len() as f64;
                let settled = field.beyond + mean.ln() < 1e-12;
                field.beyond = -mean.ln();
                if settled || mean == 0.0 {
                    break;
                }
            }
        }
        field
    }

    /// Steps to the nearest of `goals`, which take the stated steps themselves. A way ends in a
    /// portal: to a goal inside one leads only the step that enters it.
    fn search(&self, goals: impl Iterator<Item = (usize, f64)>) -> Vec<f64> {
        let steps = vec![f64::INFINITY; self.nodes.len()];
        let mut front = Front { steps, open: BinaryHeap::new() };
        goals.for_each(|(node, steps)| front.offer(node, steps));
        let mut waiting = vec![4u8; self.meetings.len()];
        let mut settled = vec![false; self.nodes.len()];
        while let Some(Reverse((bits, node))) = front.open.pop() {
            let (node, here) = (node as usize, f64::from_bits(bits));
            if std::mem::replace(&mut settled[node], true) {
                continue;
            }
            let around: &[usize] =
                if self.nodes[node] == Node::Pressed { &[] } else { &self.neighbours(node) };
            for &next in around {
                match self.nodes[next] {
                    Node::Free => front.offer(next, here + HOP),
                    Node::Portal if here + HOP < 1.0 => front.offer(next, here + HOP),
                    Node::Pressed | Node::Portal | Node::Wall => {}
                }
            }
            for &index in &self.around[self.ends[node] as usize..self.ends[node + 1] as usize] {
                waiting[index as usize] -= 1;
                if waiting[index as usize] == 0 {
                    front.meet(&self.meetings[index as usize]);
                }
            }
        }
        front.steps
    }

    /// The eight nodes around one; walls all around the maze keep them on the grid.
    fn neighbours(&self, node: usize) -> [usize; 8] {
        let (above, below) = (node - self.columns, node + self.columns);
        [above - 1, above, above + 1, node - 1, node + 1, below - 1, below, below + 1]
    }

    fn place(&self, node: usize) -> Place {
        [node % self.columns, node / self.columns].map(coordinate)
    }

    /// The four nodes around `place` and their shares in it; `None` if one of them is a wall.
    fn between(&self, place: Place) -> Option<([u32; 4], [f64; 4])> {
        let [column, row] = place.map(position);
        let node = row as usize * self.columns + column as usize;
        let (right, up) = (column.fract(), row.fract());
        let to = [node, node + 1, node + self.columns, node + self.columns + 1];
        let shares =
            [(1.0 - right) * (1.0 - up), right * (1.0 - up), (1.0 - right) * up, right * up];
        let open = to.iter().all(|&node| self.nodes[node] != Node::Wall);
        open.then_some((to.map(|node| node as u32), shares))
    }

    fn each_within(&self, place: Place, reach: f64, mut take: impl FnMut(usize, Place)) {
        let most = [self.columns, self.nodes.len() / self.columns];
        let range = |axis: usize| {
            let first = position(place[axis] - reach).ceil().max(0.0) as usize;
            first..(position(place[axis] + reach).floor().max(-1.0) + 1.0) as usize
        };
        for row in range(1).start..range(1).end.min(most[1]) {
            for column in range(0).start..range(0).end.min(most[0]) {
                take(row * self.columns + column, [column, row].map(coordinate));
            }
        }
    }
}

/// A search under way.
struct Front {
    steps: Vec<f64>,
    /// Nodes by their steps, which are in the order of their bits: they are not below 0.
    open: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Front {
    fn offer(&mut self, node: usize, steps: f64) {
        if steps < self.steps[node] {
            self.steps[node] = steps;
            self.open.push(Reverse((steps.to_bits(), node as u32)));
        }
    }

    /// Offers a step whose four ends are settled.
    fn meet(&mut self, meeting: &Meeting) {
        let ends = meeting.to.iter().zip(meeting.shares);
        let mean: f64 = ends.map(|(&end, share)| share * self.steps[end as usize]).sum();
        self.offer(meeting.from as usize, 1.0 + mean);
    }
}

impl WaysToGoal<'_> {
    /// The distance in nats from `state`.
    pub fn at(&self, state: &[f32]) -> f64 {
        self.nats(point(state))
    }

    fn nats(&self, place: Place) -> f64 {
        let cost = -self.ways.discount.ln();
        let walked = |steps: f64| (steps - ROUNDING).ceil().max(0.0) * cost;
        let direct = walked(self.interpolated(&self.steps, place));
        match &self.ways.portals {
            Some(_) if direct > 0.0 && self.inside_portal(place) => self.beyond,
            Some(portals) => {
                direct.min(walked(self.interpolated(&portals.steps, place)) + self.beyond)
            }
            None => direct,
        }
    }

    fn inside_portal(&self, place: Place) -> bool {
        let [column, row] = place.map(|value| position(value).round() as usize);
        self.ways.nodes[row * self.ways.columns + column] == Node::Portal
    }

    /// `steps` at a place between nodes; those of the nearest node where not all of them have any.
    fn interpolated(&self, steps: &[f64], place: Place) -> f64 {
        let known = self.ways.between(place).map(|(to, shares)| {
            let ends = to.iter().zip(shares).filter(|(_, share)| *share > 0.0);
            ends.map(|(&node, share)| steps[node as usize] * share).sum::<f64>()
        });
        if let Some(steps) = known.filter(|steps| steps.is_finite()) {
            return steps;
        }
        let nearest = |reach: f64| {
            let mut best = (f64::INFINITY, f64::INFINITY);
            self.ways.each_within(place, reach, |node, centre| {
                if steps[node].is_finite() && distance(place, centre) < best.0 {
                    best = (distance(place, centre), steps[node]);
                }
            });
            best.0.is_finite().then_some(best.1)
        };
        [0.15, 0.5].into_iter().find_map(nearest).unwrap_or(f64::INFINITY)
    }
}

/// Which nodes the ball can be at.
fn nodes(maze: &Maze, columns: usize, rows: usize) -> Vec<Node> {
    let (ways_in, _) = maze.portals();
    let kind = |node: usize| {
        let place = [node % columns, node / columns].map(coordinate);
        let clearance = clearance(maze, place);
        let portal = |&way: &_| distance(place, Maze::centre(way)) <= PORTAL_RADIUS;
        if clearance < RADIUS - PRESSED {
            Node::Wall
        } else if ways_in.iter().any(portal) {
            Node::Portal
        } else if clearance < RADIUS - ROUNDING {
            Node::Pressed
        } else {
            Node::Free
        }
    };
    (0..columns * rows).into_par_iter().map(kind).collect()
}

/// How far `place` is from the nearest wall, where that is less than a cell.
fn clearance(maze: &Maze, place: Place) -> f64 {
    let centre = maze.cell_at(place);
    let mut least = CELL_SIDE;
    for row in centre.row.saturating_sub(1)..=centre.row + 1 {
        for column in centre.column.saturating_sub(1)..=centre.column + 1 {
            let cell = super::super::maze::Cell { row, column };
            let middle = Maze::centre(cell);
            let gap = [0, 1]
                .map(|axis: usize| ((place[axis] - middle[axis]).abs() - 0.5 * CELL_SIDE).max(0.0));
            if maze.is_wall(cell) {
                least = least.min(gap[0].hypot(gap[1]));
            }
        }
    }
    least
}

/// The first node is the outer corner of the map's first cell.
fn coordinate(index: usize) -> f64 {
    index as f64 / FINENESS - 1.5 * CELL_SIDE
}

fn position(coordinate: f64) -> f64 {
    let place = (coordinate + 1.5 * CELL_SIDE) * FINENESS;
    // A place on a node is not between two.
    if (place - place.round()).abs() < 1e-9 { place.round() } else { place }
}

#[cfg(test)]
mod tests {
    use super::super::super::course::{Body, Course, Kind};
    use super::super::super::maze::Map;
    use super::super::super::point::STRIDE;
    use super::super::super::{Environment, PointMaze};
    use super::*;
    use crate::random::{Purpose, Stream};
    use crate::tabular::steps;

    const DISCOUNT: f64 = 0.99;

    fn to(ways: &MazeWays, goal: [f32; 2], from: [f32; 2]) -> f64 {
        steps(ways.to(&goal).at(&from), DISCOUNT)
    }

    #[test]
    fn in_the_open_the_larger_axis_counts_and_steps_are_whole() {
        assert!((1.0 / FINENESS - HOP * f64::from(STRIDE)).abs() < 1e-6);
        let ways = MazeWays::new(&Maze::new(Map::Medium), DISCOUNT);
        for (from, expected) in
            [([1.0, 0.0], 5.0), ([1.0, -1.0], 5.0), ([1.0, 0.5], 5.0), ([1.07, 0.33], 6.0)]
        {
            let found = to(&ways, [0.0, 0.0], from);
            assert!((found - expected).abs() < 1e-9, "{from:?}: {found}");
        }
        assert_eq!(to(&ways, [0.3, 0.0], [0.3, 0.0]), 0.0);
        assert!((to(&ways, [0.33, 0.0], [0.36, 0.0]) - 1.0).abs() < 1e-9);
    }

    /// Steps of the true motion, each with the action of 49 that leads nearest.
    fn walked(maze: &Maze, ways: &MazeWays, goal: [f32; 2], from: [f32; 2]) -> Option<u32> {
        let field = ways.to(&goal);
        let mut place = from.map(f64::from);
        for step in 0..1_000 {
            let gap = [0, 1].map(|axis| f64::from(goal[axis]) - place[axis]);
            if gap.iter().all(|gap| gap.abs() < 0.01) {
                return Some(step);
            }
            let straight = gap.map(|gap| (gap / f64::from(STRIDE)).clamp(-1.0, 1.0) as f32);
            let parts = |way: u8| [way % 7, way / 7].map(|part| f32::from(part) / 3.0 - 1.0);
            let ends = (0..49).map(parts).chain([straight]);
            let ends = ends.map(|action| advance(maze, place, action).place);
            let rank = |place: &Place| {
                let arrived = distance(*place, goal.map(f64::from)) < 0.01;
                if arrived { -1.0 } else { field.interpolated(&field.steps, *place) }
            };
            place = ends.min_by(|one, other| rank(one).total_cmp(&rank(other)))?;
        }
        None
    }

    #[test]
    fn true_rollouts_take_the_stated_steps() {
        for map in [Map::Medium, Map::Large, Map::Giant] {
            let maze = Maze::new(map);
            let ways = MazeWays::new(&maze, DISCOUNT);
            let world = PointMaze::new(Course { body: Body::Point, map, kind: Kind::Navigate });
            let data = world.record(1, 0..2, &|| {}).unwrap().recording.dataset;
            let mut draws = Stream::new(3, Purpose(0)).draws(0, 0);
            let mut row = || {
                // A ball that is pressed into a wall is pushed out again: nothing leads there.
                let mut drawn = std::iter::repeat_with(|| {
                    let state = data.state(draws.below(data.rows() as u32) as usize);
                    [state[0], state[1]]
                });
                drawn.find(|&[x, y]| clearance(&maze, [x.into(), y.into()]) > RADIUS).unwrap()
            };
            for _ in 0..12 {
                let (goal, from) = (row(), row());
                let exact = to(&ways, goal, from);
                let taken = walked(&maze, &ways, goal, from).map_or(f64::NAN, f64::from);
                assert!((taken - exact).abs() < 1.5, "{map:?}: {taken} steps, stated {exact}");
            }
        }
    }

    #[test]
    fn a_portal_is_priced_by_what_its_ways_out_come_to() {
        let maze = Maze::new(Map::Teleport);
        let ways = MazeWays::new(&maze, DISCOUNT);
        let portals = ways.portals.as_ref().unwrap();
        let goal = portals.out[0].map(|value| value as f32);
        let field = ways.to(&goal);
        // By iteration from below over the three ways out, worked apart from the code above.
        let power = |steps: f64| DISCOUNT.powf((steps - 1e-6).ceil());
        let mut beyond = 0.0;
        for _ in 0..10_000 {
            let value = |&place: &Place| {
                let there = |steps: &[f64]| power(field.interpolated(steps, place).max(0.0));
                there(&field.steps).max(there(&portals.steps) * beyond)
            };
            beyond = portals.out.iter().map(value).sum::<f64>() / 3.0;
        }
        assert!((field.beyond + beyond.ln()).abs() < 1e-9, "{} {}", field.beyond, beyond.ln());
        // One way out is the goal: a third of the jumps arrive at once.
        assert!(field.beyond < 3f64.ln());
        let inside = Maze::centre(maze.portals().0[0]).map(|value| value as f32);
        assert_eq!(field.at(&inside), field.beyond);
        assert_eq!(field.at(&goal), 0.0);
        // From 1.6 m above its middle one step enters the portal.
        let beside = [inside[0], inside[1] + 1.6];
        let entered = steps(field.at(&beside) - field.beyond, DISCOUNT);
        assert!((entered - 1.0).abs() < 1e-9, "{entered}");
    }
}
