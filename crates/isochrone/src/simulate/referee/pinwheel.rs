//! Exact answers for the pinwheel on cells of 0.02, in four columns.
//!
//! A goal is a set G: the cells whose centres lie within 0.05 of it. In nats, from a cell s:
//! 1. seen: the data's own occupancy, max(0, ln p(G|G)/p(G|s)), where p(G|s) is the mean, over the
//!    recorded rows in s that have a successor, of the chance that the sampler's goal (offset k ≥ 0
//!    with weight γ^k, up to the trajectory's end) lies in G. For p(G|G) the rows are those that
//!    enter G, as the first-passage identity p(G|s) = E[γ^H] p(G|G) asks of a set; inside G it is 0;
//! 2. closure: the least sum of seen distances over chains of cells from s to G;
//! 3. optimal: −ln max over policies of E γ^H, H the first time in G, with 16 directions and
//!    staying, the noise and the corridors of the world. It drives backwards through corridors that
//!    were recorded one way;
//! 4. supported: the same over policies that take only headings recorded in the cell (see
//!    [`super::support`]); where none was recorded, staying. Jumps out of the tips are part of the
//!    motion. This is what "how many steps" asks of a recording.
//!
//! Infinity where no trajectory, no chain, no policy leads there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::super::maze::Place;
use super::super::pinwheel::{
    JUMP_CHANCE, NOISE, Pinwheel, RADIUS, STRIDE, distance, held, inside, on_ring, point,
};
use super::support::{HEADINGS, Support, direction, recorded};
use crate::data::Dataset;
use crate::error::Result;
use crate::tabular::{DecisionProcess, Matrix};

/// The width of a cell; cells are centred at its multiples, so five fill the width of a side.
pub const CELL: f64 = 0.02;
/// The last action of the referee's moves, behind all headings at full speed.
const STAYING: usize = HEADINGS;

/// Cells on each axis.
const SPAN: usize = 51;
/// Noise is integrated on each axis by the middles of this many equal intervals, up to three
/// deviations. The borders of cells and of sides then lie between intervals, not inside one.
const INTERVALS: usize = 48;
const EXTENT: f64 = 3.0;
/// Points that stand for the ring where a jump may land.
const RING_POINTS: usize = 1_600;

/// The four columns of a pinwheel.
pub struct Columns {
    cells: Cells,
    process: DecisionProcess,
    supported: DecisionProcess,
    visits: Visits,
    chains: OnceLock<Matrix>,
}

/// Whether one trajectory answers a pair or several must be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pair {
    /// Some trajectory visits the start's cell and, then or later, the goal.
    Seen,
    /// None does.
    Stitched,
}

/// The distances to one goal from everywhere, in nats.
#[derive(Clone)]
pub struct CellDistances<'a> {
    cells: &'a Cells,
    nats: Vec<f64>,
}

impl CellDistances<'_> {
    /// The distance from `state`.
    pub fn at(&self, state: &[f32]) -> f64 {
        self.nats[self.cells.of(point(state))]
    }
}

/// The three columns for one pair, in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// The data's own occupancy distance.
    pub seen: f64,
    /// Its triangle closure.
    pub closure: f64,
    /// The distance under the best policy.
    pub optimal: f64,
}

impl Answer {
    /// Whether one trajectory answers the pair.
    pub fn kind(&self) -> Pair {
        if self.seen.is_finite() { Pair::Seen } else { Pair::Stitched }
    }
}

impl Columns {
    /// Prepares the answers for `world`, `data` recorded in it and a discount.
    ///
    /// # Errors
    /// A discount outside (0, 1).
    pub fn new(world: &Pinwheel, data: &Dataset, discount: f64) -> Result<Self> {
        let cells = Cells::new();
        let data = data.in_memory()?;
        let process = process(world, &cells, discount)?;
        let supported = supported(&process, &support(&cells, &data))?;
        let visits = Visits::new(&cells, &data, discount);
        Ok(Self { cells, process, supported, visits, chains: OnceLock::new() })
    }

    /// The data's own occupancy distance to `goal`.
    pub fn seen(&self, goal: &[f32]) -> CellDistances<'_> {
        self.field(self.visits.distances_to(&self.cells.near(point(goal))))
    }

    /// The triangle closure of the data's distance to `goal`.
    ///
    /// The first question takes about a second: all chains of cells are closed once.
    pub fn closure(&self, goal: &[f32]) -> CellDistances<'_> {
        self.field(self.close(&self.seen(goal).nats))
    }

    /// The distance to `goal` under the best policy.
    pub fn optimal(&self, goal: &[f32]) -> CellDistances<'_> {
        self.field(self.process.distances_to(&self.cells.near(point(goal))))
    }

    /// The distance to `goal` under the best policy that takes only recorded kinds of moves.
    pub fn supported(&self, goal: &[f32]) -> CellDistances<'_> {
        self.field(self.supported.distances_to(&self.cells.near(point(goal))))
    }

    /// Whether some trajectory visits the cell of `from` and, then or later, the goal.
    pub fn kind(&self, from: &[f32], goal: &[f32]) -> Pair {
        if self.seen(goal).at(from).is_finite() { Pair::Seen } else { Pair::Stitched }
    }

    /// The three columns for many pairs (from, goal); goals with the same cells are solved once.
    pub fn judge(&self, pairs: &[(&[f32], &[f32])]) -> Vec<Answer> {
        let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        for (index, (_, goal)) in pairs.iter().enumerate() {
            groups.entry(self.cells.near(point(goal))).or_default().push(index);
        }
        let judged = groups.par_iter().flat_map_iter(|(goals, members)| {
            let seen = self.visits.distances_to(goals);
            let closure = self.close(&seen);
            let optimal = self.process.distances_to(goals);
            members.iter().map(move |&index| {
                let from = self.cells.of(point(pairs[index].0));
                let (seen, closure, optimal) = (seen[from], closure[from], optimal[from]);
                (index, Answer { seen, closure, optimal })
            })
        });
        let judged: BTreeMap<usize, Answer> = judged.collect();
        judged.into_values().collect()
    }

    fn field(&self, nats: Vec<f64>) -> CellDistances<'_> {
        CellDistances { cells: &self.cells, nats }
    }

    fn close(&self, seen: &[f64]) -> Vec<f64> {
        let chains = self.chains.get_or_init(|| self.visits.chains());
        let shortest = |from| {
            let ways = chains.row(from).iter().zip(seen).map(|(chain, last)| chain + last);
            ways.fold(f64::INFINITY, f64::min)
        };
        (0..seen.len()).map(shortest).collect()
    }
}

/// The cells whose centres lie in the corridors.
struct Cells {
    centres: Vec<Place>,
    /// For each place of the grid the cell that states there belong to: its own or the nearest.
    owners: Vec<usize>,
}

impl Cells {
    fn new() -> Self {
        let centre = |place: usize| [place % SPAN, place / SPAN].map(|index| index as f64 * CELL);
        let centres: Vec<Place> =
            (0..SPAN * SPAN).map(centre).filter(|&centre| inside(centre)).collect();
        let nearest = |place: usize| {
            let gap = |cell: &usize| distance(centres[*cell], centre(place));
            let near = |one: &usize, other: &usize| gap(one).total_cmp(&gap(other));
            (0..centres.len()).min_by(near).expect("corridors have cells")
        };
        let owners = (0..SPAN * SPAN).map(nearest).collect();
        Self { centres, owners }
    }

    fn of(&self, state: Place) -> usize {
        let [column, row] = state.map(index);
        self.owners[row * SPAN + column]
    }

    fn near(&self, goal: Place) -> Vec<usize> {
        let within = |&cell: &usize| distance(self.centres[cell], goal) <= RADIUS;
        (0..self.centres.len()).filter(within).collect()
    }
}

/// The number of the column or row that a coordinate lies in.
fn index(value: f64) -> usize {
    ((value / CELL + 0.5) as usize).min(SPAN - 1)
}

/// The world on cells: from a cell's centre, one of the directions or none, then the noise.
fn process(world: &Pinwheel, cells: &Cells, discount: f64) -> Result<DecisionProcess> {
    let noise = noise();
    let ring: Vec<(usize, f64)> = (0..RING_POINTS)
        .map(|index| on_ring((index as f64 + 0.5) / RING_POINTS as f64))
        .map(|landing| (cells.of(landing), JUMP_CHANCE / RING_POINTS as f64))
        .collect();
    let actions = HEADINGS + 1;
    let rows: Vec<Vec<(usize, f64)>> = (0..cells.centres.len() * actions)
        .into_par_iter()
        .map_init(
            || vec![0.0; cells.centres.len()],
            |chances, row| {
                let (from, way) = (cells.centres[row / actions], heading(row % actions));
                let jumps = world.may_jump(from);
                let walking = if jumps { 1.0 - JUMP_CHANCE } else { 1.0 };
                let mut reached = Vec::new();
                landings(cells, from, way, &noise, |to, weight| {
                    if chances[to] == 0.0 {
                        reached.push(to);
                    }
                    chances[to] += walking * weight;
                });
                let taken = |to: usize| (to, std::mem::take(&mut chances[to]));
                let mut next: Vec<(usize, f64)> = reached.into_iter().map(taken).collect();
                next.extend(ring.iter().filter(|_| jumps));
                next
            },
        )
        .collect();
    DecisionProcess::from_rows(cells.centres.len(), actions, discount, |state, action, next| {
        next.extend_from_slice(&rows[state * actions + action]);
    })
}

/// Tells `land` every cell where a step by `way` and the noise ends, with its weight. As
/// [`super::super::pinwheel::moved`], with what one axis decides alone computed once.
fn landings(
    cells: &Cells,
    from: Place,
    way: Place,
    noise: &Noise,
    mut land: impl FnMut(usize, f64),
) {
    let along = |axis: usize| {
        let end = |&shift: &f64| {
            let mut to = from;
            to[axis] = held(from[axis] + (way[axis] + shift));
            (to[axis], index(to[axis]), inside(to))
        };
        noise.shifts.iter().map(end).collect::<Vec<_>>()
    };
    let [column, row] = from.map(index);
    let (across, up) = (along(0), along(1));
    let mut weights = noise.weights.iter();
    for &(x, to_column, x_alone) in &across {
        for (&(y, to_row, y_alone), &weight) in up.iter().zip(&mut weights) {
            let (column, row) = match () {
                () if inside([x, y]) => (to_column, to_row),
                () if x_alone => (to_column, row),
                () if y_alone => (column, to_row),
                () => (column, row),
            };
            land(cells.owners[row * SPAN + column], weight);
        }
    }
}

fn heading(action: usize) -> Place {
    if action == STAYING { [0.0; 2] } else { direction(action).map(|value| STRIDE * value) }
}

/// The headings recorded in each cell.
fn support(cells: &Cells, data: &Dataset) -> Support {
    let taken = |(place, action)| (cells.of(place), action);
    Support::of(cells.centres.len(), recorded(data, STRIDE).map(taken))
}

/// The process of all moves without those that are not supported.
fn supported(process: &DecisionProcess, support: &Support) -> Result<DecisionProcess> {
    let (states, actions) = (process.states(), process.actions());
    DecisionProcess::from_rows(states, actions, process.discount(), |cell, action, next| {
        let may = if action == STAYING { !support.any(cell) } else { support.has(cell, action) };
        if may {
            next.extend(process.next(cell, action));
        }
    })
}

/// What stands for the noise of a step.
struct Noise {
    /// Displacements along either axis.
    shifts: Vec<f64>,
    /// The weight of each pair of them, those of the first one together; they sum to one.
    weights: Vec<f64>,
}

fn noise() -> Noise {
    let width = 2.0 * EXTENT / INTERVALS as f64;
    let middles = (0..INTERVALS).map(|index| (index as f64 + 0.5) * width - EXTENT);
    let axis: Vec<(f64, f64)> =
        middles.map(|middle| (NOISE * middle, (-0.5 * middle * middle).exp())).collect();
    let total: f64 = axis.iter().map(|(_, weight)| weight).sum();
    let pairs = axis.iter().flat_map(|&(_, one)| axis.iter().map(move |&(_, other)| (one, other)));
    let weights = pairs.map(|(one, other)| one * other / (total * total)).collect();
    Noise { shifts: axis.iter().map(|&(shift, _)| shift).collect(), weights }
}

/// The recorded trajectories as cells.
struct Visits {
    cells: usize,
    rows: Vec<usize>,
    trajectories: Vec<Range<usize>>,
    discount: f64,
    /// Rows with a successor in each cell.
    starts: Vec<f64>,
}

impl Visits {
    fn new(cells: &Cells, data: &Dataset, discount: f64) -> Self {
        let rows: Vec<usize> =
            (0..data.rows()).map(|row| cells.of(point(data.state(row)))).collect();
        let trajectories = (0..data.trajectories()).map(|index| data.trajectory(index)).collect();
        let mut starts = vec![0.0; cells.centres.len()];
        for row in (0..data.rows()).filter(|&row| data.last_row(row) != row) {
            starts[rows[row]] += 1.0;
        }
        Self { cells: cells.centres.len(), rows, trajectories, discount, starts }
    }

    fn distances_to(&self, goals: &[usize]) -> Vec<f64> {
        let mut wanted = vec![false; self.cells];
        goals.iter().for_each(|&goal| wanted[goal] = true);
        let mut sums = vec![0.0; self.cells];
        let (mut own, mut entries) = (0.0, 0.0);
        for trajectory in &self.trajectories {
            let (mut hits, mut total) = (0.0, 0.0);
            for row in trajectory.clone().rev() {
                let cell = self.rows[row];
                hits = f64::from(u8::from(wanted[cell])) + self.discount * hits;
                total = 1.0 + self.discount * total;
                if row + 1 == trajectory.end {
                    continue;
                }
                sums[cell] += hits / total;
                let before = row > trajectory.start && wanted[self.rows[row - 1]];
                if wanted[cell] && !before {
                    own += hits / total;
                    entries += 1.0;
                }
            }
        }
        let distance = |from: usize| {
            let nats = ratio(own / entries, sums[from] / self.starts[from]);
            if wanted[from] && nats.is_finite() { 0.0 } else { nats }
        };
        (0..self.cells).map(distance).collect()
    }

    /// The closed distances between single cells.
    fn chains(&self) -> Matrix {
        let cells = self.cells;
        let mut sums = vec![0.0; cells * cells];
        let (mut own, mut entries) = (vec![0.0; cells], vec![0.0; cells]);
        for trajectory in &self.trajectories {
            for row in trajectory.start..trajectory.end - 1 {
                let (cell, left) = (self.rows[row], (trajectory.end - row) as i32);
                let entering = row == trajectory.start || self.rows[row - 1] != cell;
                let mut weight = (1.0 - self.discount) / (1.0 - self.discount.powi(left));
                for &later in &self.rows[row..trajectory.end] {
                    sums[cell * cells + later] += weight;
                    if entering && later == cell {
                        own[cell] += weight;
                    }
                    weight *= self.discount;
                }
                entries[cell] += f64::from(u8::from(entering));
            }
        }
        let distance = |pair: usize| match (pair / cells, pair % cells) {
            (from, to) if from == to => 0.0,
            (from, to) => ratio(own[to] / entries[to], sums[pair] / self.starts[from]),
        };
        let nats = (0..cells * cells).map(distance).collect();
        Matrix::new(cells, nats).expect("a square without NaN").closure()
    }
}

/// max(0, ln own/chance); +∞ where either was never recorded.
fn ratio(own: f64, chance: f64) -> f64 {
    if own > 0.0 && chance > 0.0 { (own / chance).ln().max(0.0) } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::random::{Purpose, Stream};
    use crate::simulate::pinwheel::{Tips, moved};
    use crate::simulate::{Environment, Task};
    use crate::tabular::steps;

    const DISCOUNT: f64 = 0.95;

    static WORLD: Pinwheel = Pinwheel::new(Tips::Closed);
    static DATA: LazyLock<Dataset> = LazyLock::new(|| WORLD.generate(0).unwrap().dataset);
    static REFEREE: LazyLock<Columns> =
        LazyLock::new(|| Columns::new(&WORLD, &DATA, DISCOUNT).unwrap());

    fn start(task: &Task) -> Vec<f32> {
        task.start.iter().map(|&value| value as f32).collect()
    }

    #[test]
    fn five_cells_fill_a_side_and_every_state_belongs_to_a_cell_beside_it() {
        let cells = &REFEREE.cells;
        let across = cells.centres.iter().filter(|c| (c[0] - 0.5).abs() < 1e-9 && c[1] < 0.5);
        assert_eq!(across.count(), 5);
        for row in 0..DATA.rows() {
            let state = point(DATA.state(row));
            assert!(distance(state, cells.centres[cells.of(state)]) < 1.5 * CELL);
        }
        for (cell, &centre) in cells.centres.iter().enumerate() {
            assert_eq!(cells.of(centre), cell);
        }
    }

    #[test]
    fn the_noise_of_the_cells_has_the_stated_variance() {
        let Noise { shifts, weights } = noise();
        let total: f64 = weights.iter().sum();
        let first = |shift: &f64| std::iter::repeat_n(*shift, shifts.len());
        let variance: f64 =
            shifts.iter().flat_map(first).zip(&weights).map(|(shift, w)| shift * shift * w).sum();
        assert!((total - 1.0).abs() < 1e-12);
        // Three deviations hold 97.3 % of the variance.
        assert!((variance / (NOISE * NOISE) - 0.973).abs() < 0.005);
    }

    #[test]
    fn the_cells_move_as_the_world_does() {
        let world = Pinwheel::new(Tips::Shortcut);
        let cells = Cells::new();
        let process = process(&world, &cells, DISCOUNT).unwrap();
        let stream = Stream::new(1, Purpose(0));
        let places = [[0.5, 0.1], [0.5, 0.14], [0.9, 0.1], [0.64, 0.36], [0.2, 0.22]];
        for (place, action) in places.into_iter().zip([0, 3, 5, 16, 9]) {
            let from = cells.of(place);
            let way = heading(action).map(|value| (value / STRIDE) as f32);
            let mut counts = vec![0.0; cells.centres.len()];
            for index in 0..20_000 {
                let mut state = cells.centres[from];
                world.step(&mut state, &way, &mut stream.draws(action as u64, index));
                counts[cells.of(state)] += 1.0 / 20_000.0;
            }
            let mut expected = vec![0.0; counts.len()];
            process.next(from, action).for_each(|(to, chance)| expected[to] = chance);
            for (cell, (count, chance)) in counts.iter().zip(&expected).enumerate() {
                let centre = cells.centres[cell];
                assert!((count - chance).abs() < 0.02, "{place:?} to {centre:?}: {count} {chance}");
            }
            let jumps: f64 = (0..counts.len())
                .filter(|&cell| distance(cells.centres[cell], place) > 0.15)
                .map(|cell| expected[cell])
                .sum();
            let stated = if place == [0.64, 0.36] { JUMP_CHANCE } else { 0.0 };
            assert!((jumps - stated).abs() < 1e-9);
        }
    }

    #[test]
    fn every_landing_is_where_the_world_moves_to() {
        let (cells, noise) = (Cells::new(), noise());
        for from in cells.centres.iter().copied().step_by(7) {
            for way in [0, 3, 6, STAYING].map(heading) {
                let mut expected = Vec::new();
                for &x in &noise.shifts {
                    for &y in &noise.shifts {
                        expected.push(cells.of(moved(from, [way[0] + x, way[1] + y])));
                    }
                }
                let mut found = Vec::new();
                landings(&cells, from, way, &noise, |to, _| found.push(to));
                assert!(found == expected, "{from:?} by {way:?}");
            }
        }
    }

    #[test]
    fn down_a_straight_corridor_the_best_policy_takes_length_over_stride() {
        let field = REFEREE.optimal(&[0.8, 0.1]);
        for column in [0.2, 0.3, 0.4, 0.5] {
            // The nearest cell of the goal is centred at 0.76.
            let expected = (0.76 - f64::from(column)) / STRIDE;
            let found = steps(field.at(&[column, 0.1]), DISCOUNT);
            assert!((found - expected).abs() < 1.0, "{found} steps, expected about {expected}");
        }
        assert_eq!(field.at(&[0.82, 0.1]), 0.0);
        assert!(field.at(&[0.37, 0.37]).is_finite());
    }

    /// Rows of trajectories of two rows each: a place, an action, and where it led does not matter.
    fn taken(rows: &[([f32; 2], [f32; 2])]) -> Dataset {
        let states = rows.iter().flat_map(|(place, _)| [*place, *place]).flatten().collect();
        let actions = rows.iter().flat_map(|(_, action)| [*action, [0.0; 2]]).flatten().collect();
        Dataset::new(states, 2, Some((actions, 2)), &vec![2; rows.len()]).unwrap()
    }

    #[test]
    fn only_recorded_headings_are_supported_and_cells_without_any_stay() {
        // East was recorded in every cell of the lower side up to 0.5, west nowhere.
        let east = |place: [f32; 2]| (place, [1.0, 0.0]);
        let places = REFEREE.cells.centres.iter().filter(|c| c[1] < 0.17 && c[0] < 0.51);
        let data = taken(&places.map(|c| east(c.map(|value| value as f32))).collect::<Vec<_>>());
        let referee = Columns::new(&WORLD, &data, DISCOUNT).unwrap();
        let ahead = referee.supported(&[0.45, 0.1]);
        for column in [0.1, 0.2, 0.3] {
            // The nearest cell of the goal is centred at 0.4.
            let expected = (0.4 - f64::from(column)) / STRIDE;
            let found = steps(ahead.at(&[column, 0.1]), DISCOUNT);
            assert!((found - expected).abs() < 1.0, "{found} steps, expected about {expected}");
        }
        // Only noise leads back against every step, or on from where nothing was recorded.
        let back = referee.supported(&[0.12, 0.1]);
        assert!(steps(back.at(&[0.4, 0.1]), DISCOUNT) > 500.0);
        assert!(steps(ahead.at(&[0.9, 0.5]), DISCOUNT) > 500.0);
        assert!(steps(referee.optimal(&[0.12, 0.1]).at(&[0.4, 0.1]), DISCOUNT) < 8.0);
        assert_eq!(back.at(&[0.12, 0.1]), 0.0);
    }

    #[test]
    fn a_jump_is_priced_by_its_chance_and_not_taken_for_a_choice() {
        let world = Pinwheel::new(Tips::Shortcut);
        let data = world.generate(0).unwrap().dataset;
        let referee = Columns::new(&world, &data, DISCOUNT).unwrap();
        // Out of a tip leads only a jump, of chance 0.02 a step, to anywhere on the ring: waiting for
        // it costs 25 steps, the way from there as many again.
        let waiting = -(JUMP_CHANCE * DISCOUNT / (1.0 - DISCOUNT * (1.0 - JUMP_CHANCE))).ln();
        let found = steps(referee.supported(&[0.5, 0.1]).at(&[0.37, 0.37]), DISCOUNT);
        assert!(found > steps(waiting, DISCOUNT) + 10.0 && found < 60.0, "{found} steps");
        let closed = steps(REFEREE.supported(&[0.5, 0.1]).at(&[0.37, 0.37]), DISCOUNT);
        assert!(closed > 500.0, "{closed} steps out of a dead end");
    }

    #[test]
    fn supported_moves_go_round_the_ring_one_way() {
        let found = steps(REFEREE.supported(&[0.3, 0.1]).at(&[0.5, 0.1]), DISCOUNT);
        // Three sides and most of a fourth: 3 m at most at full speed.
        let least = 3.0 / STRIDE * 0.8;
        assert!(found > least && found < 3.0 / STRIDE, "{found} steps");
        let backwards = steps(REFEREE.optimal(&[0.3, 0.1]).at(&[0.5, 0.1]), DISCOUNT);
        assert!(backwards < 5.0, "{backwards} steps");
        // A goal is reached within 0.05: at its edge, not at its middle.
        let ahead = REFEREE.supported(&[0.5, 0.1]);
        assert_eq!(ahead.at(&[0.46, 0.1]), 0.0);
        assert!(ahead.at(&[0.44, 0.1]) > 0.0);
    }

    #[test]
    fn the_occupancy_and_its_closure_are_those_of_a_worked_example() {
        let [a, b, c, d] = [[0.2f32, 0.1], [0.5, 0.1], [0.9, 0.1], [0.9, 0.5]];
        let states = [a, b, c, c, c, d, d].concat();
        let data = Dataset::new(states, 2, None, &[4, 3]).unwrap();
        let cells = Cells::new();
        let visits = Visits::new(&cells, &data, 0.5);
        let near = |state: [f32; 2]| cells.near(point(&state));
        let at = |state: [f32; 2]| cells.of(point(&state));
        let to_c = visits.distances_to(&near(c));
        let to_d = visits.distances_to(&near(d));
        // p(c|a) = (γ² + γ³)/(1 + γ + γ² + γ³) = 1/5; entering c: 1 in one trajectory, 4/7 in the
        // other. From c to d: 0 in one trajectory, 3/7 in the other; entering d: 1.
        assert!((to_c[at(a)] - (55.0f64 / 14.0).ln()).abs() < 1e-12);
        assert!((to_c[at(b)] - (11.0f64 / 6.0).ln()).abs() < 1e-12);
        assert!((to_d[at(c)] - (14.0f64 / 3.0).ln()).abs() < 1e-12);
        assert_eq!((to_c[at(c)], to_d[at(a)], to_c[at(d)]), (0.0, f64::INFINITY, f64::INFINITY));
        let chains = visits.chains();
        assert!((chains.between(at(a), at(d)) - (55.0f64 / 3.0).ln()).abs() < 1e-12);
        assert_eq!(chains.between(at(d), at(a)), f64::INFINITY);
    }

    #[test]
    fn columns_are_ordered_and_no_trajectory_answers_what_needs_two_switches() {
        let tasks = WORLD.tasks(0, 40, &DATA).unwrap();
        let starts: Vec<Vec<f32>> = tasks.iter().map(start).collect();
        let pairs: Vec<(&[f32], &[f32])> =
            starts.iter().zip(&tasks).map(|(start, task)| (&start[..], &task.goal[..])).collect();
        let answers = REFEREE.judge(&pairs);
        let mut seen = 0;
        for ((answer, task), (from, goal)) in answers.iter().zip(&tasks).zip(&pairs) {
            assert!(answer.closure <= answer.seen && answer.closure.is_finite());
            // Cells hold few rows, so the data's column errs by a step or two.
            assert!(steps(answer.optimal - answer.seen, DISCOUNT) < 3.0, "{answer:?}");
            assert_eq!(answer.kind() == Pair::Seen, answer.seen.is_finite());
            if task.switches.unwrap() >= 2 {
                assert_eq!(answer.kind(), Pair::Stitched, "{from:?} to {goal:?}");
            }
            seen += usize::from(answer.kind() == Pair::Seen && task.switches == Some(0));
        }
        let unswitched = tasks.iter().filter(|task| task.switches == Some(0)).count();
        assert!(seen * 10 >= unswitched * 8, "{seen} of {unswitched}");
        let (from, goal) = pairs[0];
        assert_eq!(REFEREE.kind(from, goal), answers[0].kind());
        assert_eq!(REFEREE.closure(goal).at(from), answers[0].closure);
        assert_eq!(REFEREE.optimal(goal).at(from), answers[0].optimal);
    }
}
