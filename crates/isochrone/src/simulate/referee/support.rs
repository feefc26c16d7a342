//! Which kinds of moves a recording supports at a place.
//!
//! A kind of move is a heading at full speed. It is supported at a place where at least 2 % of the
//! actions recorded there have it. An action has the heading nearest to its own direction; one that
//! is shorter than 0.3 has none and does not count.

use super::super::maze::Place;
use super::super::pinwheel::point;
use crate::data::Dataset;

/// Headings that actions are rounded to.
pub const HEADINGS: usize = 16;
/// The share of the actions recorded at a place that a supported heading has, at least.
pub const LEAST_SHARE: f64 = 0.02;
/// The length of the shortest action that has a heading.
pub const SHORTEST: f64 = 0.3;

/// How often each heading was recorded at each place.
pub struct Support {
    counts: Vec<[u32; HEADINGS]>,
}

impl Support {
    /// Counts recorded actions, each with the place it was taken at.
    pub fn of(places: usize, recorded: impl IntoIterator<Item = (usize, Place)>) -> Self {
        let mut counts = vec![[0; HEADINGS]; places];
        for (place, action) in recorded {
            if let Some(heading) = nearest(action) {
                counts[place][heading] += 1;
            }
        }
        Self { counts }
    }

    /// Whether any heading is supported at `place`.
    pub fn any(&self, place: usize) -> bool {
        self.counts[place] != [0; HEADINGS]
    }

    /// Whether `heading` is supported at `place`.
    pub fn has(&self, place: usize, heading: usize) -> bool {
        let counts = &self.counts[place];
        let total: u32 = counts.iter().sum();
        counts[heading] > 0 && f64::from(counts[heading]) >= LEAST_SHARE * f64::from(total)
    }
}

/// Where actions were recorded, and the actions. Data without any have those that their steps, as
/// multiples of `stride`, look like.
pub fn recorded(data: &Dataset, stride: f64) -> impl Iterator<Item = (Place, Place)> {
    let rows = (0..data.rows()).filter(|&row| data.last_row(row) != row);
    rows.map(move |row| {
        let here = point(data.state(row));
        if data.action_size() > 0 {
            return (here, point(data.action(row)));
        }
        let next = point(data.state(row + 1));
        (here, [0, 1].map(|axis| (next[axis] - here[axis]) / stride))
    })
}

/// The unit vector of a heading.
pub fn direction(heading: usize) -> Place {
    let (sine, cosine) = (std::f64::consts::TAU * heading as f64 / HEADINGS as f64).sin_cos();
    [cosine, sine]
}

/// The heading nearest to the direction of `action`; `None` if it is too short.
fn nearest(action: Place) -> Option<usize> {
    let turns = action[1].atan2(action[0]) / std::f64::consts::TAU;
    let heading = (turns * HEADINGS as f64).round().rem_euclid(HEADINGS as f64) as usize;
    (action[0].hypot(action[1]) > SHORTEST).then_some(heading)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_has_the_nearest_heading_and_a_short_one_has_none() {
        for heading in 0..HEADINGS {
            let [x, y] = direction(heading);
            assert_eq!(nearest([0.4 * x, 0.4 * y]), Some(heading));
            assert_eq!(nearest([0.29 * x, 0.29 * y]), None);
        }
        // Half a heading is 11.25 degrees, a rise of 0.199.
        assert_eq!((nearest([1.0, 0.19]), nearest([1.0, 0.21])), (Some(0), Some(1)));
        assert_eq!((nearest([1.0, -0.19]), nearest([1.0, -0.21])), (Some(0), Some(15)));
    }

    #[test]
    fn a_heading_needs_a_fiftieth_of_the_actions_of_its_own_place() {
        let east = |count| std::iter::repeat_n((0, direction(0)), count);
        let rare = [(0, direction(4)), (0, [0.1, 0.1]), (2, direction(8))];
        let support = Support::of(4, east(49).chain(rare));
        assert_eq!([0, 4, 8].map(|heading| support.has(0, heading)), [true, true, false]);
        assert_eq!([0, 1, 2, 3].map(|place| support.any(place)), [true, false, true, false]);
        assert!(support.has(2, 8) && !support.has(1, 0));
        let support = Support::of(1, east(50).chain([(0, direction(4))]));
        assert_eq!([0, 4].map(|heading| support.has(0, heading)), [true, false]);
    }
}
