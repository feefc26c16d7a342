//! A few data states that stand for all: each next one is the state farthest from those chosen.
//!
//! Farthest-point traversal (Gonzalez 1985), in coordinates of mean 0 and deviation 1, of which some
//! may count alone: where a body is, whatever its posture. Its radius, the farthest any state is from
//! its stand-in, is at most twice the best possible. States within a quarter of a typical
//! move of each other are one place: a finer cover would tell apart what noise alone tells apart, and
//! trajectories would share no place.

use rayon::prelude::*;

use super::squared_gap;
use crate::data::{Dataset, Normalization, Scaling};
use crate::error::Result;
use crate::random::{Purpose, Stream, below};

/// Rows that the next stand-in is chosen from; a longer dataset is sampled.
const CONSIDERED: usize = 20_000;
/// The least radius, in typical moves.
const LEAST_RADIUS: f32 = 0.25;

/// Chosen rows, and where they lie.
pub(super) struct Cover {
    /// The chosen rows.
    pub(super) rows: Vec<usize>,
    scaling: Normalization,
    /// The coordinates that count.
    axes: Vec<usize>,
    points: Vec<f32>,
    pub(super) squared_radius: f32,
}

impl Cover {
    /// At most `most` rows that cover `dataset` in the coordinates `axes`, no more than the least radius
    /// needs, and for every row of the dataset the place of the chosen one nearest to it.
    pub(super) fn new(
        dataset: &Dataset,
        axes: &[usize],
        most: usize,
        seed: u64,
    ) -> Result<(Self, Vec<u32>)> {
        let scaling = Normalization::fit(dataset, Scaling::Standard)?;
        let size = axes.len();
        let mut scaled = Vec::with_capacity(size * dataset.rows());
        for row in 0..dataset.rows() {
            scaled.extend(counted(&scaling, axes, dataset.state(row)));
        }
        let least = (LEAST_RADIUS * typical_move(dataset, &scaled, size)).powi(2);
        let (rows, squared_radius) = traverse(&scaled, size, most, least, seed);
        let points: Vec<f32> =
            rows.iter().flat_map(|&row| scaled[row * size..][..size].iter().copied()).collect();
        let sweep = Sweep::new(&points, size);
        let owners = scaled.par_chunks_exact(size).map(|state| sweep.nearest(state)).collect();
        Ok((Self { rows, scaling, axes: axes.to_vec(), points, squared_radius }, owners))
    }

    /// The cover of `dataset` by rows that were chosen before.
    pub(super) fn of(
        dataset: &Dataset,
        axes: &[usize],
        rows: Vec<usize>,
        squared_radius: f32,
    ) -> Result<Self> {
        let scaling = Normalization::fit(dataset, Scaling::Standard)?;
        let mut points = Vec::with_capacity(axes.len() * rows.len());
        for &row in rows.iter().filter(|&&row| row < dataset.rows()) {
            points.extend(counted(&scaling, axes, dataset.state(row)));
        }
        Ok(Self { rows, scaling, axes: axes.to_vec(), points, squared_radius })
    }

    /// The nearest stand-in of `state`, and all within the radius of the cover.
    pub(super) fn near(&self, state: &[f32]) -> Vec<usize> {
        let scaled: Vec<f32> = counted(&self.scaling, &self.axes, state).collect();
        let points = self.points.chunks_exact(self.axes.len());
        let gaps: Vec<f32> = points.map(|point| squared_gap(point, &scaled)).collect();
        let least = gaps.iter().copied().fold(f32::INFINITY, f32::min);
        let reach = least.max(self.squared_radius);
        (0..gaps.len()).filter(|&node| gaps[node] <= reach).collect()
    }
}

/// Points in the order of their first coordinate: the nearest is found from the middle outwards, and
/// a side is done where this coordinate alone is farther than the nearest found.
struct Sweep<'p> {
    points: &'p [f32],
    size: usize,
    /// The first coordinates, rising, and the points they belong to.
    firsts: Vec<f32>,
    order: Vec<u32>,
}

impl<'p> Sweep<'p> {
    fn new(points: &'p [f32], size: usize) -> Self {
        let first = |place: &u32| points[*place as usize * size];
        let mut order: Vec<u32> = (0..(points.len() / size) as u32).collect();
        order.sort_by(|one, other| first(one).total_cmp(&first(other)));
        Self { points, size, firsts: order.iter().map(first).collect(), order }
    }

    /// The place of the point nearest to `state`, of equals the first.
    fn nearest(&self, state: &[f32]) -> u32 {
        let middle = self.firsts.partition_point(|&first| first < state[0]);
        let mut best = (f32::INFINITY, u32::MAX);
        let mut look = |at: usize| {
            let along = self.firsts[at] - state[0];
            if along * along > best.0 {
                return false;
            }
            let place = self.order[at];
            let point = &self.points[place as usize * self.size..][..self.size];
            let gap = squared_gap(point, state);
            if gap < best.0 || (gap == best.0 && place < best.1) {
                best = (gap, place);
            }
            true
        };
        let (mut left, mut right) = (middle, middle);
        let (mut leftwards, mut rightwards) = (true, true);
        while leftwards || rightwards {
            rightwards = rightwards && right < self.firsts.len() && look(right);
            leftwards = leftwards && left > 0 && look(left - 1);
            right += 1;
            left = left.saturating_sub(1);
        }
        best.1
    }
}

/// The coordinates `axes` of `state`, scaled.
pub(super) fn counted<'s>(
    scaling: &'s Normalization,
    axes: &'s [usize],
    state: &'s [f32],
) -> impl Iterator<Item = f32> + 's {
    axes.iter().map(|&axis| (state[axis] - scaling.shift[axis]) * scaling.scale[axis])
}

/// The median length of recorded moves; 0 if nothing moves.
fn typical_move(dataset: &Dataset, scaled: &[f32], size: usize) -> f32 {
    let point = |row: usize| &scaled[row * size..][..size];
    let moves = (0..dataset.trajectories()).flat_map(|trajectory| {
        let rows = dataset.trajectory(trajectory);
        (rows.start + 1..rows.end).map(|row| squared_gap(point(row - 1), point(row)).sqrt())
    });
    let mut lengths: Vec<f32> = moves.filter(|&length| length > 0.0).collect();
    if lengths.is_empty() {
        return 0.0;
    }
    let middle = (lengths.len() - 1) / 2;
    *lengths.select_nth_unstable_by(middle, f32::total_cmp).1
}

/// The chosen rows and the squared radius they leave: `least`, or more where `most` rows do not suffice.
fn traverse(scaled: &[f32], size: usize, most: usize, least: f32, seed: u64) -> (Vec<usize>, f32) {
    let count = scaled.len() / size;
    let stream = Stream::new(seed, Purpose::COVER);
    let draw = |index: usize| below(stream.block(0, index as u32)[0], count as u32) as usize;
    let considered: Vec<usize> = if count <= CONSIDERED {
        (0..count).collect()
    } else {
        (0..CONSIDERED).map(draw).collect()
    };
    // Coordinate by coordinate, so that all rows are compared at once.
    let along = |axis: usize| considered.iter().map(|&row| scaled[row * size + axis]).collect();
    let coordinates: Vec<Vec<f32>> = (0..size).map(along).collect();
    let mut own = vec![0.0_f32; considered.len()];
    let mut gaps = vec![f32::INFINITY; considered.len()];
    let mut chosen = Vec::new();
    let (mut next, mut widest) = (draw(0) % considered.len(), f32::INFINITY);
    while chosen.len() < most && widest > least {
        chosen.push(considered[next]);
        own.fill(0.0);
        for numbers in &coordinates {
            let centre = numbers[next];
            for (gap, number) in own.iter_mut().zip(numbers) {
                *gap += (number - centre) * (number - centre);
            }
        }
        for (gap, own) in gaps.iter_mut().zip(&own) {
            *gap = gap.min(*own);
        }
        widest = gaps.iter().copied().fold(0.0, f32::max);
        next = gaps.iter().position(|&gap| gap == widest).unwrap_or(next);
    }
    (chosen, widest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_states_are_a_radius_apart_and_every_state_is_within_the_radius_of_its_own() {
        let states: Vec<f32> =
            (0..121).flat_map(|at| [(at % 11) as f32, (at / 11) as f32]).collect();
        let dataset = Dataset::new(states, 2, None, &[121]).unwrap();
        let (cover, owners) = Cover::new(&dataset, &[0, 1], 9, 3).unwrap();
        assert_eq!(cover.rows.len(), 9);
        let point = |place: usize| &cover.points[2 * place..][..2];
        for place in 0..9 {
            assert!(
                (0..place).all(|p| squared_gap(point(p), point(place)) >= cover.squared_radius)
            );
            assert_eq!(owners[cover.rows[place]] as usize, place);
        }
        let mut scaled = [0.0; 2];
        for (row, &owner) in owners.iter().enumerate() {
            cover.scaling.apply(dataset.state(row), &mut scaled);
            let own = squared_gap(point(owner as usize), &scaled);
            assert!(own <= cover.squared_radius);
            assert!((0..9).all(|place| squared_gap(point(place), &scaled) >= own));
            assert!(cover.near(dataset.state(row)).contains(&(owner as usize)));
        }
    }

    #[test]
    fn a_sweep_finds_the_nearest_point_and_of_equals_the_first() {
        let mut draws = Stream::new(4, Purpose::COVER).draws(0, 0);
        for size in [1, 2, 5] {
            // Few different coordinates: many points are equally near, and some are the same.
            let mut coarse = |count: usize| -> Vec<f32> {
                (0..count * size).map(|_| draws.below(6) as f32).collect()
            };
            let (points, states) = (coarse(60), coarse(300));
            let sweep = Sweep::new(&points, size);
            for state in states.chunks_exact(size) {
                let gaps: Vec<f32> =
                    points.chunks_exact(size).map(|point| squared_gap(point, state)).collect();
                let least = gaps.iter().copied().fold(f32::INFINITY, f32::min);
                let first = gaps.iter().position(|&gap| gap == least).unwrap();
                assert_eq!(sweep.nearest(state) as usize, first);
            }
        }
    }

    #[test]
    fn a_cover_ends_where_states_are_within_a_quarter_of_a_typical_move() {
        // Along a line, each time a little beside the places of before.
        let beside = |trip: usize, at: usize| at as f32 + 0.05 * (trip % 4) as f32;
        let states: Vec<f32> =
            (0..8).flat_map(|trip| (0..30).map(move |at| beside(trip, at))).collect();
        let dataset = Dataset::new(states, 1, None, &[30; 8]).unwrap();
        let (cover, owners) = Cover::new(&dataset, &[0], 1_000, 0).unwrap();
        assert!((30..45).contains(&cover.rows.len()), "{}", cover.rows.len());
        let shared = (0..30).filter(|at| (1..8).any(|trip| owners[30 * trip + at] == owners[*at]));
        assert!(shared.count() > 25);
        // What lies a whole move apart is told apart.
        let grid = Dataset::new((0..30).map(|at| at as f32).collect(), 1, None, &[30]).unwrap();
        assert_eq!(Cover::new(&grid, &[0], 1_000, 0).unwrap().0.rows.len(), 30);
    }

    #[test]
    fn a_cover_of_few_different_states_stops_at_them() {
        let states = [0.0f32, 1.0, 0.0, 1.0, 5.0, 5.0].to_vec();
        let dataset = Dataset::new(states, 1, None, &[6]).unwrap();
        let (cover, owners) = Cover::new(&dataset, &[0], 100, 0).unwrap();
        assert_eq!(cover.rows.len(), 3);
        assert_eq!(owners[0], owners[2]);
        assert_eq!(cover.near(&[0.9]).len(), 1);
        assert_eq!(dataset.state(cover.rows[cover.near(&[0.9])[0]]), [1.0]);
    }
}
