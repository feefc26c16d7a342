//! What recorded data hold and what looks wrong with them: ranges, gaps, jumps, duplicates.
//!
//! A step is suspicious if it is longer than [`SUSPICIOUS`] × the 90 % quantile of all steps: when an
//! end was not marked, the last row is followed by the start of the next trajectory. Steps are
//! measured over the two axes that look like positions, else over all axes, each divided by its range.
//! Two neighbouring axes look like positions if they move by a small part of their range per step
//! (mean |Δ| / range is the smallest of all neighbours) and their ranges are similar.
//!
//! A step is suspicious, too, if one dimension leaps in it: it changes by more than [`SUSPICIOUS`] × the
//! 99 % quantile of its own changes (those that are not zero), and in the steps before and after it does
//! not. What is pushed or turns fast goes on moving, so only what leaps stands alone; and where contacts
//! or discrete values make long changes, these are more than one in a hundred.

use std::collections::HashSet;
use std::ops::Range;

use serde::Serialize;

use super::dataset::Dataset;
use super::raw::RawRows;

/// A step this many times longer than the 90 % quantile looks like an end that was not marked.
pub const SUSPICIOUS: f32 = 5.0;
/// Positions move by less than this share of their range in a step, on average.
const SLOW: f64 = 0.1;
/// The ranges of two positions differ at most by this factor.
const ALIKE: f64 = 5.0;
/// An action this near to −1 or 1 is at its bound.
const AT_BOUND: f32 = 1e-6;
/// Suspicious steps, and dimensions that leap, that are listed.
const LISTED: usize = 5;
/// Steps, evenly spread, that tell the usual changes of each dimension.
const SAMPLED: usize = 1 << 18;

/// What was found in recorded data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The number of rows.
    pub rows: usize,
    /// The number of trajectories.
    pub trajectories: usize,
    /// The lengths of the trajectories, in rows.
    pub lengths: Lengths,
    /// Each dimension of the states.
    pub states: Vec<ColumnSummary>,
    /// Each dimension of the actions; empty without actions.
    pub actions: Vec<ColumnSummary>,
    /// How many discrete actions there are; none where actions are no choices.
    pub choices: Option<usize>,
    /// The share of action values that are −1 or 1; none without actions, or with discrete ones.
    pub at_bounds: Option<f64>,
    /// The share of action values beyond these bounds, likewise.
    pub beyond_bounds: Option<f64>,
    /// The two dimensions of a state that look like a position.
    pub positions: Option<[usize; 2]>,
    /// The dimensions of a state that look like an angle that wraps from one end of its range to the
    /// other.
    pub wrapping: Vec<usize>,
    /// Steps that look like missed ends of trajectories.
    pub jumps: Jumps,
    /// Trajectories that repeat an earlier one exactly.
    pub duplicates: usize,
}

/// The lengths of trajectories, in rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lengths {
    /// The fewest rows.
    pub shortest: usize,
    /// The median.
    pub median: f64,
    /// The most rows.
    pub longest: usize,
    /// Trajectories of one row, from which no step can be learned.
    pub of_one_row: usize,
}

/// One dimension of the states or actions, over all rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ColumnSummary {
    /// The smallest finite value, if there is one.
    pub least: Option<f32>,
    /// The largest finite value.
    pub largest: Option<f32>,
    /// The mean of the finite values.
    pub mean: Option<f64>,
    /// Whether all values are the same.
    pub constant: bool,
    /// RawRows in which it is not a finite number.
    pub not_finite: usize,
}

/// Steps that look like missed ends of trajectories.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Jumps {
    /// The 90 % quantile of the lengths of steps.
    pub usual: f32,
    /// The longest step.
    pub longest: f32,
    /// The number of suspicious steps.
    pub suspicious: usize,
    /// The rows from which the first few of them start.
    pub rows: Vec<usize>,
    /// The first few dimensions that leap in a suspicious step, whatever its length.
    pub leaps: Vec<Leap>,
}

/// A dimension of the states that changes far more in some steps than in all others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Leap {
    /// Which one.
    pub dimension: usize,
    /// The 99 % quantile of its changes.
    pub usual: f32,
    /// Its longest leap.
    pub longest: f32,
}

impl Inspection {
    /// Inspects all rows.
    pub fn of(rows: &RawRows) -> Self {
        Self::knowing(rows, |_, _| false)
    }

    /// Inspects all rows of a world in which a step from one state to another may be a jump.
    pub fn knowing(rows: &RawRows, may_jump: impl Fn(&[f32], &[f32]) -> bool) -> Self {
        let states = columns(&rows.states, rows.state_size);
        let moves =
            Rows { states: &rows.states, state_size: rows.state_size, lengths: &rows.lengths };
        let positions = positions(&moves, &states);
        Self {
            rows: rows.count(),
            trajectories: rows.lengths.len(),
            lengths: lengths(&rows.lengths),
            actions: columns(&rows.actions, rows.action_size),
            choices: rows.discrete.then(|| rows.choice_count()),
            at_bounds: share(rows, |action| (action.abs() - 1.0).abs() <= AT_BOUND),
            beyond_bounds: share(rows, |action| action.abs() > 1.0 + AT_BOUND),
            wrapping: wrapping(&moves, &states),
            jumps: jumps(&moves, &states, positions, may_jump),
            duplicates: duplicates(rows),
            states,
            positions,
        }
    }

    /// Values that are not finite, in states and actions.
    pub fn not_finite(&self) -> usize {
        self.states.iter().chain(&self.actions).map(|column| column.not_finite).sum()
    }
}

/// The dimensions of the states of data in memory that look like an angle that wraps: neighbours across
/// the ends of its range would be learned as far apart.
pub fn wrapping_angles(dataset: &Dataset) -> Vec<usize> {
    let lengths: Vec<usize> = dataset.lengths().collect();
    let rows = Rows::of(dataset, &lengths);
    wrapping(&rows, &columns(rows.states, rows.state_size))
}

impl Jumps {
    /// Those in data that are in memory, of a world in which a step from one state to another may be a
    /// jump.
    pub fn of(dataset: &Dataset, may_jump: impl Fn(&[f32], &[f32]) -> bool) -> Self {
        let lengths: Vec<usize> = dataset.lengths().collect();
        let rows = Rows::of(dataset, &lengths);
        let columns = columns(rows.states, rows.state_size);
        jumps(&rows, &columns, positions(&rows, &columns), may_jump)
    }
}

/// States, trajectory after trajectory.
struct Rows<'a> {
    states: &'a [f32],
    state_size: usize,
    lengths: &'a [usize],
}

impl<'a> Rows<'a> {
    fn of(dataset: &'a Dataset, lengths: &'a [usize]) -> Self {
        Self { states: dataset.states(), state_size: dataset.state_size(), lengths }
    }
}

fn lengths(lengths: &[usize]) -> Lengths {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
    let half = sorted.len() / 2;
    let below = if sorted.len().is_multiple_of(2) { half.saturating_sub(1) } else { half };
    Lengths {
        shortest: at(0),
        median: (at(below) + at(half)) as f64 / 2.0,
        longest: sorted.last().copied().unwrap_or_default(),
        of_one_row: sorted.partition_point(|&length| length < 2),
    }
}

fn columns(values: &[f32], size: usize) -> Vec<ColumnSummary> {
    #[derive(Clone)]
    struct Sum {
        least: f32,
        largest: f32,
        total: f64,
        finite: usize,
    }
    let empty = Sum { least: f32::INFINITY, largest: f32::NEG_INFINITY, total: 0.0, finite: 0 };
    let mut sums = vec![empty; size];
    for row in values.chunks_exact(size.max(1)) {
        for (sum, &value) in sums.iter_mut().zip(row).filter(|(_, value)| value.is_finite()) {
            sum.least = sum.least.min(value);
            sum.largest = sum.largest.max(value);
            sum.total += f64::from(value);
            sum.finite += 1;
        }
    }
    let rows = values.len().checked_div(size).unwrap_or_default();
    let finish = |sum: Sum| {
        let some = sum.finite > 0;
        ColumnSummary {
            least: some.then_some(sum.least),
            largest: some.then_some(sum.largest),
            mean: some.then(|| sum.total / sum.finite as f64),
            constant: some && sum.finite == rows && sum.least == sum.largest,
            not_finite: rows - sum.finite,
        }
    };
    sums.into_iter().map(finish).collect()
}

/// The share of action values of which `is` holds; none where there are none, or only choices.
fn share(rows: &RawRows, is: impl Fn(f32) -> bool) -> Option<f64> {
    let count = rows.actions.iter().filter(|&&action| is(action)).count();
    let has_values = !rows.actions.is_empty() && !rows.discrete;
    has_values.then(|| count as f64 / rows.actions.len() as f64)
}

/// The rows of each trajectory.
fn trajectories(lengths: &[usize]) -> impl Iterator<Item = Range<usize>> {
    lengths.iter().scan(0, |first, &length| {
        let range = *first..*first + length;
        *first = range.end;
        Some(range)
    })
}

/// The state of a row and the next one.
fn step<'a>(rows: &Rows<'a>, row: usize) -> (&'a [f32], &'a [f32]) {
    let size = rows.state_size;
    rows.states[row * size..][..2 * size].split_at(size)
}

/// Every row that has a successor, with its state and the next one.
fn steps<'a>(rows: &Rows<'a>) -> impl Iterator<Item = (usize, &'a [f32], &'a [f32])> {
    trajectories(rows.lengths).flat_map(move |range| {
        (range.start..range.end.saturating_sub(1)).map(move |row| {
            let (state, next) = step(rows, row);
            (row, state, next)
        })
    })
}

fn range(column: &ColumnSummary) -> f64 {
    f64::from(column.largest.unwrap_or_default()) - f64::from(column.least.unwrap_or_default())
}

fn positions(rows: &Rows<'_>, columns: &[ColumnSummary]) -> Option<[usize; 2]> {
    let (mut moved, mut count) = (vec![0.0f64; rows.state_size], 0.0);
    for (_, state, next) in steps(rows) {
        for ((moved, &from), &to) in moved.iter_mut().zip(state).zip(next) {
            let step = f64::from((to - from).abs());
            *moved += if step.is_finite() { step } else { 0.0 };
        }
        count += 1.0;
    }
    let share = |axis: usize| moved[axis] / count / range(&columns[axis]);
    (1..rows.state_size)
        .map(|second| [second - 1, second])
        .filter(|pair| {
            let [first, second] = pair.map(|axis| range(&columns[axis]));
            first > 0.0 && second > 0.0 && first / second <= ALIKE && second / first <= ALIKE
        })
        .map(|pair| (share(pair[0]).max(share(pair[1])), pair))
        .filter(|(share, _)| *share > 0.0 && *share < SLOW)
        .min_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, pair)| pair)
}

fn jumps(
    rows: &Rows<'_>,
    columns: &[ColumnSummary],
    positions: Option<[usize; 2]>,
    may_jump: impl Fn(&[f32], &[f32]) -> bool,
) -> Jumps {
    let axes: Vec<(usize, f32)> = match positions {
        Some(pair) => pair.into_iter().map(|axis| (axis, 1.0)).collect(),
        None => columns
            .iter()
            .enumerate()
            .filter(|(_, column)| range(column) > 0.0)
            .map(|(axis, column)| (axis, (1.0 / range(column)) as f32))
            .collect(),
    };
    let length = |state: &[f32], next: &[f32]| {
        let square = |&(axis, scale): &(usize, f32)| ((next[axis] - state[axis]) * scale).powi(2);
        axes.iter().map(square).sum::<f32>().sqrt()
    };
    let all = steps(rows).map(|(_, state, next)| length(state, next));
    let finite: Vec<f32> = all.filter(|step| step.is_finite()).collect();
    let longest = finite.iter().copied().fold(0.0, f32::max);
    let usual = quantile(finite, 90);
    let own = usual_changes(rows);
    let mut leaps: Vec<Option<Leap>> = vec![None; rows.state_size];
    let mut found = Jumps { usual, longest, suspicious: 0, rows: Vec::new(), leaps: Vec::new() };
    for range in trajectories(rows.lengths) {
        for row in range.start..range.end.saturating_sub(1) {
            let (state, next) = step(rows, row);
            let leaping = leaping(rows, &own, &range, row);
            let is_suspicious = is_far(length(state, next), usual) || !leaping.is_empty();
            if !is_suspicious || may_jump(state, next) {
                continue;
            }
            found.suspicious += 1;
            if found.rows.len() < LISTED {
                found.rows.push(row);
            }
            for dimension in leaping {
                let change = (next[dimension] - state[dimension]).abs();
                let longest = leaps[dimension].map_or(change, |leap| leap.longest.max(change));
                leaps[dimension] = Some(Leap { dimension, usual: own[dimension], longest });
            }
        }
    }
    found.leaps = leaps.into_iter().flatten().take(LISTED).collect();
    found
}

/// Whether a step, or a change of one dimension, is far longer than usual ones.
fn is_far(size: f32, usual: f32) -> bool {
    usual > 0.0 && size.is_finite() && size > SUSPICIOUS * usual
}

/// The value that `percent` % of all stay below; 0 where there are none.
fn quantile(mut values: Vec<f32>, percent: usize) -> f32 {
    let place = values.len() * percent / 100;
    match values.len() {
        0 => 0.0,
        _ => *values.select_nth_unstable_by(place, f32::total_cmp).1,
    }
}

/// The dimensions that now and then leap over most of their range, hardly ever over a half of it, and
/// dwell within it too, as a switch between two values does not.
fn wrapping(rows: &Rows<'_>, columns: &[ColumnSummary]) -> Vec<usize> {
    /// Leaps over more than this share of the range wrap; those over more than the other are turns.
    const WRAPS: f64 = 0.6;
    const TURNS: f64 = 0.3;
    /// The fewest leaps, the share of all changes that they are at least, and their number per turn.
    const FEWEST: usize = 10;
    const LEAST_SHARE: f64 = 0.001;
    const PER_TURN: usize = 4;
    /// The share of the rows that lie in the middle three fifths of the range at least.
    const WITHIN: f64 = 0.2;
    let wraps = |axis: &usize| {
        let (axis, column) = (*axis, &columns[*axis]);
        let (range, least) = (range(column), f64::from(column.least.unwrap_or_default()));
        let (mut count, mut leaps, mut turns, mut within) = (0, 0, 0, 0);
        for (_, state, next) in steps(rows) {
            let share = f64::from((next[axis] - state[axis]).abs()) / range;
            let place = (f64::from(state[axis]) - least) / range;
            count += 1;
            leaps += usize::from(share > WRAPS);
            turns += usize::from(share > TURNS && share <= WRAPS);
            within += usize::from((0.2..0.8).contains(&place));
        }
        let often = leaps >= FEWEST && leaps as f64 >= LEAST_SHARE * count as f64;
        range > 0.0 && often && leaps > PER_TURN * turns && within as f64 > WITHIN * count as f64
    };
    (0..rows.state_size).filter(wraps).collect()
}

/// For each dimension of a state the 99 % quantile of the changes that are not zero.
fn usual_changes(rows: &Rows<'_>) -> Vec<f32> {
    let count: usize = rows.lengths.iter().map(|length| length.saturating_sub(1)).sum();
    let sampled: Vec<_> = steps(rows).step_by(count.div_ceil(SAMPLED).max(1)).collect();
    let usual = |axis: usize| {
        let sizes = sampled.iter().map(|(_, state, next)| (next[axis] - state[axis]).abs());
        quantile(sizes.filter(|size| size.is_finite() && *size > 0.0).collect(), 99)
    };
    (0..rows.state_size).map(usual).collect()
}

/// The dimensions that leap in the step from `row`, of the trajectory of rows `range`.
fn leaping(rows: &Rows<'_>, own: &[f32], range: &Range<usize>, row: usize) -> Vec<usize> {
    let moves_far = |row: usize, axis: usize| {
        let (state, next) = step(rows, row);
        is_far((next[axis] - state[axis]).abs(), own[axis])
    };
    let leaps = |&axis: &usize| {
        moves_far(row, axis)
            && !(row > range.start && moves_far(row - 1, axis))
            && !(row + 2 < range.end && moves_far(row + 1, axis))
    };
    (0..rows.state_size).filter(leaps).collect()
}

/// Trajectories equal to an earlier one, by the BLAKE3 hashes of their values.
fn duplicates(rows: &RawRows) -> usize {
    let mut seen = HashSet::new();
    let mut bytes = Vec::new();
    let repeated = |range: &Range<usize>| {
        bytes.clear();
        let mut take = |values: &[f32], size: usize, end: usize| {
            let numbers = &values[range.start * size..end * size];
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        };
        take(&rows.states, rows.state_size, range.end);
        // The action of the last row leads nowhere and may be anything.
        take(&rows.actions, rows.action_size, range.end - 1);
        !seen.insert(*blake3::hash(&bytes).as_bytes())
    };
    trajectories(&rows.lengths).filter(|range| !range.is_empty()).filter(repeated).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trajectories of a point that walks along x and swings in y, with a constant beside it.
    fn walk(starts: &[f32], length: usize) -> RawRows {
        let mut states = Vec::new();
        for start in starts {
            for place in 0..length {
                let along = start + 0.1 * place as f32;
                states.extend([along, (0.05 * along).sin() * 20.0, 7.0]);
            }
        }
        let actions = (0..starts.len() * length).map(|row| (row % 4) as f32 / 3.0).collect();
        RawRows {
            states,
            state_size: 3,
            states_key: "states".into(),
            actions,
            action_size: 1,
            lengths: vec![length; starts.len()],
            ..RawRows::default()
        }
    }

    #[test]
    fn an_angle_that_wraps_is_told_from_a_switch_and_from_a_coordinate() {
        let states = (0..1000).flat_map(|row| {
            let turned = 0.1 * row as f32;
            [turned % std::f32::consts::TAU, turned.sin(), (row / 7 % 2) as f32, 0.0]
        });
        let dataset = Dataset::new(states.collect(), 4, None, &[500, 500]).unwrap();
        assert_eq!(wrapping_angles(&dataset), [0]);
        let rare = (0..1000).map(|row| (0.1 * row as f32).rem_euclid(60.0)).collect();
        let dataset = Dataset::new(rare, 1, None, &[1000]).unwrap();
        assert!(wrapping_angles(&dataset).is_empty(), "one leap may be an end nobody marked");
    }

    #[test]
    fn a_clean_walk_has_ranges_positions_and_nothing_suspicious() {
        let found = Inspection::of(&walk(&[0.0, 1.0, 5.0], 100));
        assert_eq!((found.rows, found.trajectories), (300, 3));
        let expected = Lengths { shortest: 100, median: 100.0, longest: 100, of_one_row: 0 };
        assert_eq!(found.lengths, expected);
        assert_eq!(found.states[0].least, Some(0.0));
        assert!((found.states[0].largest.unwrap() - 14.9).abs() < 1e-4);
        let constant: Vec<bool> = found.states.iter().map(|column| column.constant).collect();
        assert_eq!(constant, [false, false, true]);
        assert_eq!(found.positions, Some([0, 1]));
        assert_eq!(
            (found.at_bounds, found.beyond_bounds, found.choices),
            (Some(0.25), Some(0.0), None)
        );
        assert_eq!((found.jumps.suspicious, found.duplicates, found.not_finite()), (0, 0, 0));
    }

    #[test]
    fn actions_at_their_bounds_beyond_them_and_choices_are_told_apart() {
        let mut rows = walk(&[0.0], 4);
        rows.actions = vec![1.0, -1.0, 3.0, 0.5];
        let found = Inspection::of(&rows);
        assert_eq!((found.at_bounds, found.beyond_bounds), (Some(0.5), Some(0.25)));
        (rows.actions, rows.discrete) = (vec![1.0, 0.0, 2.0, 1.0], true);
        let found = Inspection::of(&rows);
        assert_eq!((found.at_bounds, found.beyond_bounds, found.choices), (None, None, Some(3)));
    }

    #[test]
    fn a_missed_end_shows_as_a_jump_from_the_row_before_it() {
        let mut rows = walk(&[0.0, 30.0, 60.0, 90.0], 50);
        rows.lengths = vec![100, 100];
        let jumps = Inspection::of(&rows).jumps;
        assert_eq!((jumps.suspicious, jumps.rows), (2, vec![49, 149]));
        assert!(jumps.longest > 20.0 && jumps.usual < 0.3, "{} {}", jumps.longest, jumps.usual);
        // Where the world may have made the first of them, only the second is suspicious.
        let known = Inspection::knowing(&rows, |state, next| state[0] < 10.0 && next[0] == 30.0);
        assert_eq!((known.jumps.suspicious, known.jumps.rows), (1, vec![149]));
    }

    /// An arm whose joints all move to and fro at the same speed; the first two go farthest, so that
    /// they look like positions.
    fn arm(rows: usize) -> RawRows {
        let swing = |at: usize, half: usize| 0.05 * (at % (2 * half)).abs_diff(half) as f32;
        let joints = [(0, 80), (33, 80), (7, 20), (11, 20), (13, 20)];
        let states = (0..rows).flat_map(|row| joints.map(|(at, half)| swing(row + at, half)));
        let lengths = vec![rows];
        RawRows { states: states.collect(), state_size: 5, lengths, ..RawRows::default() }
    }

    #[test]
    fn a_dimension_that_leaps_alone_shows_a_missed_end() {
        let mut rows = arm(400);
        let jumps = Inspection::of(&rows).jumps;
        assert_eq!((jumps.suspicious, jumps.leaps), (0, Vec::new()));
        for row in 200..400 {
            rows.states[5 * row + 4] += 0.8;
        }
        let found = Inspection::of(&rows);
        assert_ne!(found.positions.map(|pair| pair[1]), Some(4));
        assert_eq!((found.jumps.suspicious, found.jumps.rows), (1, vec![199]));
        let [leap] = found.jumps.leaps[..] else { panic!("{:?}", found.jumps.leaps) };
        assert_eq!(leap.dimension, 4);
        assert!((leap.usual - 0.05).abs() < 1e-4 && leap.longest > 0.7, "{leap:?}");
        let known = Inspection::knowing(&rows, |state, next| next[4] - state[4] > 0.7);
        assert_eq!((known.jumps.suspicious, known.jumps.leaps), (0, Vec::new()));
    }

    #[test]
    fn a_dimension_that_goes_on_moving_fast_or_has_two_values_does_not_leap() {
        // An object that trembles until it is pushed, in three steps of some hundred.
        let mut rows = arm(400);
        for row in 0..400 {
            let pushed = row.clamp(200, 203) as f32 - 200.0;
            rows.states[5 * row + 4] = pushed + 1e-4 * (row % 2) as f32;
        }
        assert_eq!(Inspection::of(&rows).jumps.suspicious, 0);
        // A gripper that opens and closes now and then.
        for row in 0..400 {
            rows.states[5 * row + 4] = f32::from(row / 150 % 2 == 1);
        }
        assert_eq!(Inspection::of(&rows).jumps.suspicious, 0);
    }

    #[test]
    fn a_repeated_trajectory_is_found_whatever_its_last_action() {
        let mut rows = walk(&[0.0, 3.0, 0.0, 0.0], 40);
        let numbers: Vec<f32> = rows.actions[..40].to_vec();
        rows.actions[80..120].copy_from_slice(&numbers);
        rows.actions[120..160].copy_from_slice(&numbers);
        rows.actions[119] = -0.5;
        assert_eq!(Inspection::of(&rows).duplicates, 2);
        rows.actions[118] = -0.5;
        assert_eq!(Inspection::of(&rows).duplicates, 1, "another action inside is another one");
    }

    #[test]
    fn holes_are_counted_by_column_and_spoil_no_range() {
        let mut rows = walk(&[0.0, 1.0], 60);
        rows.states[3 * 7 + 1] = f32::NAN;
        rows.states[3 * 9 + 1] = f32::INFINITY;
        let found = Inspection::of(&rows);
        assert_eq!(found.states[1].not_finite, 2);
        assert_eq!(found.not_finite(), 2);
        assert!(found.states[1].largest.unwrap() < 7.0);
        assert_eq!(found.jumps.suspicious, 0);
    }

    #[test]
    fn lengths_of_an_even_number_have_a_median_in_the_middle() {
        let found = lengths(&[1, 9, 4, 6]);
        assert_eq!((found.shortest, found.median, found.longest), (1, 5.0, 9));
        assert_eq!(found.of_one_row, 1);
    }
}
