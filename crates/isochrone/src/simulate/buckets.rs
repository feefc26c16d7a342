//! Points of the plane in square buckets, for exact searches of the nearest.

/// Points sorted into the squares of a grid.
pub(super) struct Buckets {
    points: Vec<[f64; 2]>,
    low: [f64; 2],
    size: f64,
    counts: [usize; 2],
    first: Vec<u32>,
    members: Vec<u32>,
}

impl Buckets {
    /// Sorts `points` into squares of width `size`. There must be one point at least.
    pub(super) fn new(points: Vec<[f64; 2]>, size: f64) -> Self {
        let extreme = |axis: usize, pick: fn(f64, f64) -> f64| {
            points.iter().map(|point| point[axis]).fold(points[0][axis], pick)
        };
        let low = [0, 1].map(|axis| extreme(axis, f64::min));
        let counts = [0, 1].map(|axis| ((extreme(axis, f64::max) - low[axis]) / size) as usize + 1);
        let mut buckets =
            Self { points, low, size, counts, first: Vec::new(), members: Vec::new() };
        buckets.sort();
        buckets
    }

    fn sort(&mut self) {
        let homes: Vec<usize> = self
            .points
            .iter()
            .map(|&point| {
                let [column, row] = self.square(point);
                row as usize * self.counts[0] + column as usize
            })
            .collect();
        let mut first = vec![0u32; self.counts[0] * self.counts[1] + 1];
        for &home in &homes {
            first[home + 1] += 1;
        }
        for bucket in 1..first.len() {
            first[bucket] += first[bucket - 1];
        }
        let mut next = first.clone();
        self.members = vec![0; homes.len()];
        for (index, &home) in homes.iter().enumerate() {
            self.members[next[home] as usize] = index as u32;
            next[home] += 1;
        }
        self.first = first;
    }

    /// Point `index`.
    pub(super) fn point(&self, index: u32) -> [f64; 2] {
        self.points[index as usize]
    }

    /// The point nearest to `place`; of equals the first.
    pub(super) fn nearest(&self, place: [f64; 2]) -> u32 {
        let centre = self.square(place);
        let mut best = (f64::INFINITY, u32::MAX);
        for ring in 0.. {
            self.visit_ring(place, centre, ring, &mut |squared, index| {
                if (squared, index) < best {
                    best = (squared, index);
                }
            });
            let searched = self.searched(place, centre, ring).max(0.0);
            if best.0 <= searched * searched || ring >= self.rings(centre) {
                break;
            }
        }
        best.1
    }

    /// At most `count` points nearest to `place` and not further than `reach`, nearest first.
    pub(super) fn nearest_within(&self, place: [f64; 2], count: usize, reach: f64) -> Vec<u32> {
        let centre = self.square(place);
        let mut found: Vec<(f64, u32)> = Vec::new();
        for ring in 0..=self.rings(centre) {
            self.visit_ring(place, centre, ring, &mut |squared, index| {
                found.push((squared, index));
            });
            // Whatever lies outside the squares searched so far is further away than this.
            let searched = self.searched(place, centre, ring).max(0.0);
            let certain = found.iter().filter(|(squared, _)| *squared <= searched * searched);
            if searched >= reach || certain.count() >= count {
                break;
            }
        }
        found.retain(|(squared, _)| *squared <= reach * reach);
        found.sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        found.truncate(count);
        found.into_iter().map(|(_, index)| index).collect()
    }

    /// Rings around `centre` that hold squares of the grid, the centre's own not counted.
    fn rings(&self, centre: [i64; 2]) -> i64 {
        let across = |axis: usize| centre[axis].max(self.counts[axis] as i64 - 1 - centre[axis]);
        across(0).max(across(1))
    }

    fn searched(&self, place: [f64; 2], centre: [i64; 2], ring: i64) -> f64 {
        let margin = |axis: usize| {
            let within = place[axis] - self.low[axis] - centre[axis] as f64 * self.size;
            within.min(self.size - within) + ring as f64 * self.size
        };
        margin(0).min(margin(1))
    }

    fn visit_ring(
        &self,
        place: [f64; 2],
        centre: [i64; 2],
        ring: i64,
        visit: &mut impl FnMut(f64, u32),
    ) {
        let [columns, rows] = self.counts.map(|count| count as i64);
        for row in (centre[1] - ring).max(0)..=(centre[1] + ring).min(rows - 1) {
            let whole = (row - centre[1]).abs() == ring;
            let stride = if whole { 1 } else { (2 * ring).max(1) };
            for column in (centre[0] - ring..=centre[0] + ring).step_by(stride as usize) {
                if !(0..columns).contains(&column) {
                    continue;
                }
                let bucket = (row * columns + column) as usize;
                let range = self.first[bucket] as usize..self.first[bucket + 1] as usize;
                for &index in &self.members[range] {
                    let point = self.point(index);
                    visit((point[0] - place[0]).powi(2) + (point[1] - place[1]).powi(2), index);
                }
            }
        }
    }

    /// The square of `place`, or the one nearest to it in the grid.
    fn square(&self, place: [f64; 2]) -> [i64; 2] {
        [0, 1].map(|axis| {
            let square = ((place[axis] - self.low[axis]) / self.size).floor() as i64;
            square.clamp(0, self.counts[axis] as i64 - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Stream};

    #[test]
    fn the_nearest_are_those_of_an_exhaustive_search() {
        let mut draws = Stream::new(2, Purpose(0)).draws(0, 0);
        let mut place = |spread: f64| [0; 2].map(|_| draws.between(-spread, spread));
        let points: Vec<[f64; 2]> = (0..500).map(|_| place(5.0)).collect();
        let buckets = Buckets::new(points.clone(), 0.7);
        for (query, reach) in
            (0..300).map(|index| (place(8.0), [1.0, 3.0, f64::INFINITY][index % 3]))
        {
            let mut all: Vec<(f64, u32)> = (0u32..)
                .zip(&points)
                .map(|(index, p)| ((p[0] - query[0]).powi(2) + (p[1] - query[1]).powi(2), index))
                .filter(|(squared, _)| squared.sqrt() <= reach)
                .collect();
            all.sort_by(|one, other| one.0.total_cmp(&other.0));
            let expected: Vec<u32> = all.iter().take(40).map(|&(_, index)| index).collect();
            assert_eq!(buckets.nearest_within(query, 40, reach), expected);
            if reach == f64::INFINITY {
                assert_eq!(buckets.nearest(query), expected[0]);
            }
        }
    }
}
