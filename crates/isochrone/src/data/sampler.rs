//! Draws batches: declared columns in, rows out, every draw a function of (seed, step, place).
//!
//! Starts are uniform over rows that have a successor. A future goal stands `k` rows after its
//! start with P(k) ∝ γᵏ, truncated at the end of the trajectory and renormalized. Only integers
//! decide rows: indices by multiply-high, offsets by searching one table of cumulative γᵏ,
//! permutations by sorting words.

use serde::{Deserialize, Serialize};

use super::{Dataset, Normalization};
use crate::error::{Error, Result};
use crate::random::{Purpose, Stream, below, normals};

/// The law of the offset between a start and its future goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Offsets {
    /// The smallest offset: 0 makes the distance a quasimetric; 1 is what most public code samples.
    pub from: First,
    /// What happens where the trajectory ends.
    pub end: End,
}

/// The smallest offset of a future goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum First {
    /// The start itself may be the goal.
    Zero,
    /// The goal is at least one row later.
    One,
}

impl From<First> for u8 {
    fn from(first: First) -> Self {
        match first {
            First::Zero => 0,
            First::One => 1,
        }
    }
}

impl TryFrom<u8> for First {
    type Error = String;

    fn try_from(value: u8) -> std::result::Result<Self, String> {
        match value {
            0 => Ok(Self::Zero),
            1 => Ok(Self::One),
            _ => Err(format!("offsets begin at 0 or 1, found `{value}`")),
        }
    }
}

/// What happens to an offset that passes the end of its trajectory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The law is cut at the end and renormalized.
    Truncate,
    /// The offset is cut to the last row: the occupancy of a process whose end is absorbing.
    Clip,
}

impl Default for Offsets {
    fn default() -> Self {
        Self { from: First::Zero, end: End::Truncate }
    }
}

/// Where the goals of a policy or a value come from; the shares sum to one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GoalMix {
    /// Share of goals that are the start itself.
    pub current: f64,
    /// Share of goals from the start's future, by [`Offsets`].
    pub future: f64,
    /// Share of goals uniform over the rest of the start's trajectory.
    pub trajectory: f64,
    /// Share of goals uniform over all rows.
    pub random: f64,
}

impl Default for GoalMix {
    fn default() -> Self {
        Self { current: 0.0, future: 0.5, trajectory: 0.0, random: 0.5 }
    }
}

impl GoalMix {
    /// The mix that learners of values are published with.
    pub const VALUES: Self = Self { current: 0.2, future: 0.5, trajectory: 0.0, random: 0.3 };

    /// Checks that all are shares and sum to one; `key` is where they stand in a config.
    ///
    /// # Errors
    /// Names the key and the shares.
    pub fn check(&self, key: &str) -> Result<()> {
        let shares = [self.current, self.future, self.trajectory, self.random];
        let sum: f64 = shares.iter().sum();
        if shares.iter().all(|share| (0.0..=1.0).contains(share)) && (sum - 1.0).abs() < 1e-9 {
            return Ok(());
        }
        let [current, future, trajectory, random] = shares;
        Err(Error::input(format!(
            "`{key}` are {current}, {future}, {trajectory}, {random}, expected shares of current, \
             future, trajectory and random goals that sum to 1"
        ))
        .hint("the default of a policy is `{ future = 0.5, random = 0.5, … = 0 }`"))
    }
}

/// The law of a waypoint between a start and its goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Waypoints {
    /// The share of waypoints that are the start's successor.
    pub successor: f64,
    /// ρ: the others are k ≥ 1 rows ahead with P(k) ∝ ρᵏ, not past the goal.
    pub ratio: f64,
}

impl Default for Waypoints {
    fn default() -> Self {
        Self { successor: 0.2, ratio: 0.95 }
    }
}

impl Waypoints {
    /// Checks both numbers; `key` is where they stand in a config.
    ///
    /// # Errors
    /// Names the number that is not a share, or no ratio.
    pub fn check(&self, key: &str) -> Result<()> {
        for (name, value, fits) in [
            ("successor", self.successor, (0.0..=1.0).contains(&self.successor)),
            ("ratio", self.ratio, self.ratio > 0.0 && self.ratio < 1.0),
        ] {
            if !fits {
                return Err(Error::input(format!(
                    "`{key}.{name}` is `{value}`, expected a number between 0 and 1"
                ))
                .hint("the default is `{ successor = 0.2, ratio = 0.95 }`"));
            }
        }
        Ok(())
    }
}

/// Which row of the dataset stands at each place of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rows {
    /// Uniform over rows that have a successor.
    Start,
    /// The row after the start.
    Next,
    /// A row in the start's future.
    Future(Offsets),
    /// A policy's goal: future, same trajectory or anywhere.
    Mixed(GoalMix, Offsets),
    /// Uniform over all rows.
    Random,
    /// A row between the start and a goal declared before, as [`Waypoints`] says.
    Waypoint(Waypoints, RowsId),
    /// So many rows after the start, not past its trajectory's end, nor past a goal that is given
    /// and lies ahead in the same trajectory.
    Ahead(u32, Option<RowsId>),
}

/// A choice of rows within a [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsId(usize);

impl RowsId {
    /// Its place among the declared choices.
    pub(crate) fn place(self) -> usize {
        self.0
    }
}

/// One input of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Column {
    /// The states of these rows, normalized.
    State(RowsId),
    /// What policies see of these rows as goals, so many numbers a row.
    Goal(RowsId, usize),
    /// The actions of these rows.
    Action(RowsId),
    /// The actions of these rows in an order drawn anew for every batch; copies are independent.
    PermutedAction(RowsId, u8),
    /// The actions of these rows, moved one place round the batch.
    RolledAction(RowsId),
    /// Independent standard normals, so many a row.
    Noise(usize),
    /// How many rows after the start these rows stand, in the same trajectory.
    Gap(RowsId),
    /// 1 where the first rows are the second, or lie within the radius of them; else 0.
    Reached(RowsId, RowsId, Option<f32>),
}

/// The columns of a batch, as an algorithm declares them.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    rows: Vec<Rows>,
    columns: Vec<Column>,
}

impl Default for Layout {
    fn default() -> Self {
        Self { rows: vec![Rows::Start], columns: Vec::new() }
    }
}

impl Layout {
    /// The starts of the batch.
    pub const START: RowsId = RowsId(0);

    /// Declares a choice of rows; the same choice declared twice is drawn once.
    pub fn rows(&mut self, rows: Rows) -> RowsId {
        let known = self.rows.iter().position(|&declared| declared == rows);
        RowsId(known.unwrap_or_else(|| {
            self.rows.push(rows);
            self.rows.len() - 1
        }))
    }

    /// Declares a column and gives its place; the same column declared twice is filled once.
    pub fn column(&mut self, column: Column) -> usize {
        let known = match column {
            Column::Noise(_) => None,
            _ => self.columns.iter().position(|&declared| declared == column),
        };
        known.unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        })
    }

    /// The declared choice of rows.
    pub fn choice(&self, rows: RowsId) -> Rows {
        self.rows[rows.0]
    }

    /// The declared columns, in order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Numbers a row of `column`.
    pub fn width(&self, column: usize, state_size: usize, action_size: usize) -> usize {
        match self.columns[column] {
            Column::State(_) => state_size,
            Column::Action(_) | Column::PermutedAction(..) | Column::RolledAction(_) => action_size,
            Column::Noise(width) | Column::Goal(_, width) => width,
            Column::Gap(_) | Column::Reached(..) => 1,
        }
    }
}

/// One batch: the rows drawn and the numbers of every declared column.
#[derive(Debug, Clone)]
pub struct Batch {
    size: usize,
    rows: Vec<Vec<u32>>,
    order: Vec<(u32, u32)>,
    /// What networks see of one state.
    seen: Vec<f32>,
    /// The columns in the order of the layout, each `size` rows.
    pub columns: Vec<Vec<f32>>,
}

impl Batch {
    /// The rows drawn for `choice`.
    pub fn rows(&self, choice: RowsId) -> &[u32] {
        &self.rows[choice.0]
    }
}

/// Draws batches of a dataset.
#[derive(Debug)]
pub struct Sampler<'d> {
    dataset: &'d Dataset,
    normalization: &'d Normalization,
    layout: Layout,
    starts: Vec<u32>,
    /// Entry k is 2³² (1 − γᵏ⁺¹): where the cumulative law of offsets 0 to k ends.
    cumulative: Vec<u32>,
    /// The same table for the ratio of waypoints; empty where none are drawn.
    waypoints: Vec<u32>,
}

pub(crate) const ROWS_PURPOSE: u16 = 16;
pub(crate) const ORDER_PURPOSE: u16 = 64;
pub(crate) const NOISE_PURPOSE: u16 = 128;

/// What a device needs to draw the same batches.
pub(crate) struct Tables<'a> {
    pub dataset: &'a Dataset,
    pub normalization: &'a Normalization,
    pub rows: &'a [Rows],
    pub columns: &'a [Column],
    pub starts: &'a [u32],
    pub cumulative: &'a [u32],
    pub waypoints: &'a [u32],
}

impl<'d> Sampler<'d> {
    /// A sampler of `dataset` for the columns of `layout`.
    pub fn new(
        dataset: &'d Dataset,
        normalization: &'d Normalization,
        layout: Layout,
        discount: f64,
    ) -> Self {
        let starts =
            (0..dataset.rows() as u32).filter(|&row| dataset.last_row(row as usize) > row as usize);
        let longest = (0..dataset.trajectories())
            .map(|index| dataset.trajectory(index).len())
            .max()
            .unwrap_or(1);
        let waypoints = layout.rows.iter().find_map(|rows| match rows {
            Rows::Waypoint(law, _) => Some(cumulative(law.ratio, longest)),
            _ => None,
        });
        Self {
            starts: starts.collect(),
            cumulative: cumulative(discount, longest),
            waypoints: waypoints.unwrap_or_default(),
            dataset,
            normalization,
            layout,
        }
    }

    pub(crate) fn tables(&self) -> Tables<'_> {
        Tables {
            dataset: self.dataset,
            normalization: self.normalization,
            rows: &self.layout.rows,
            columns: &self.layout.columns,
            starts: &self.starts,
            cumulative: &self.cumulative,
            waypoints: &self.waypoints,
        }
    }

    /// An empty batch of `size` rows with room for every column.
    pub fn batch(&self, size: usize) -> Batch {
        let (states, actions) = (self.normalization.width(), self.dataset.action_size());
        let widths =
            (0..self.layout.columns.len()).map(|at| self.layout.width(at, states, actions));
        Batch {
            size,
            rows: vec![vec![0; size]; self.layout.rows.len()],
            order: vec![(0, 0); size],
            seen: vec![0.0; states],
            columns: widths.map(|width| vec![0.0; size * width]).collect(),
        }
    }

    /// Fills `batch` with the draws of (seed, step). Allocates nothing.
    pub fn fill(&self, batch: &mut Batch, seed: u64, step: u64) {
        for (choice, &rows) in self.layout.rows.iter().enumerate() {
            let stream = Stream::new(seed, Purpose(ROWS_PURPOSE + choice as u16));
            let (drawn, rest) = batch.rows.split_at_mut(choice);
            for (place, row) in rest[0].iter_mut().enumerate() {
                let start = drawn.first().map_or(0, |starts| starts[place]);
                let other = match rows {
                    Rows::Waypoint(_, goal) | Rows::Ahead(_, Some(goal)) => drawn[goal.0][place],
                    _ => start,
                };
                *row = self.draw(rows, start, other, stream.block(step, place as u32));
            }
        }
        for (at, &column) in self.layout.columns.iter().enumerate() {
            self.fill_column(batch, at, column, seed, step);
        }
    }

    /// The row of a choice, given the start and the goal that the choice names, if any.
    fn draw(&self, rows: Rows, start: u32, goal: u32, words: [u32; 4]) -> u32 {
        match rows {
            Rows::Start => self.starts[below(words[0], self.starts.len() as u32) as usize],
            Rows::Next => start + 1,
            Rows::Future(law) => self.future(start, law, words[0]),
            Rows::Random => below(words[0], self.dataset.rows() as u32),
            Rows::Mixed(mix, law) => {
                let choice = crate::random::unit(words[1]) - mix.current;
                if choice < 0.0 {
                    start
                } else if choice < mix.future {
                    self.future(start, law, words[0])
                } else if choice < mix.future + mix.trajectory {
                    let rest = self.dataset.last_row(start as usize) as u32 - start;
                    start + 1 + below(words[0], rest)
                } else {
                    below(words[0], self.dataset.rows() as u32)
                }
            }
            Rows::Waypoint(law, _) => {
                let last = self.bound(start, goal).max(start + 1);
                if crate::random::unit(words[1]) < law.successor {
                    return start + 1;
                }
                let (low, high) = (self.waypoints[0], self.waypoints[self.waypoints.len() - 1]);
                let target = low + below(words[0], high - low);
                let ahead = self.waypoints.partition_point(|&end| end <= target) as u32;
                (start + ahead).min(last)
            }
            Rows::Ahead(steps, _) => (start + steps).min(self.bound(start, goal)),
        }
    }

    /// The last row of the start's trajectory, or the goal where it lies between the two.
    fn bound(&self, start: u32, goal: u32) -> u32 {
        let last = self.dataset.last_row(start as usize) as u32;
        if goal > start { last.min(goal) } else { last }
    }

    fn future(&self, start: u32, law: Offsets, word: u32) -> u32 {
        let rest = self.dataset.last_row(start as usize) - start as usize;
        let low = match law.from {
            First::Zero => 0,
            First::One => self.cumulative[0],
        };
        let high = match law.end {
            End::Truncate => self.cumulative[rest.min(self.cumulative.len() - 1)],
            End::Clip => u32::MAX,
        };
        let target = low + below(word, high - low);
        let offset = self.cumulative.partition_point(|&end| end <= target);
        start + offset.min(rest) as u32
    }

    fn fill_column(&self, batch: &mut Batch, at: usize, column: Column, seed: u64, step: u64) {
        let numbers = &mut batch.columns[at];
        match column {
            Column::State(choice) => {
                let size = self.normalization.width();
                for (target, &row) in numbers.chunks_exact_mut(size).zip(&batch.rows[choice.0]) {
                    self.normalization.apply(self.dataset.state(row as usize), target);
                }
            }
            Column::Goal(choice, width) => {
                for (target, &row) in numbers.chunks_exact_mut(width).zip(&batch.rows[choice.0]) {
                    self.normalization.apply(self.dataset.state(row as usize), &mut batch.seen);
                    let goal = self.normalization.of_goal(&batch.seen);
                    target.iter_mut().zip(goal).for_each(|(target, value)| *target = value);
                }
            }
            Column::Action(choice) => {
                let size = self.dataset.action_size();
                for (target, &row) in numbers.chunks_exact_mut(size).zip(&batch.rows[choice.0]) {
                    target.copy_from_slice(self.dataset.action(row as usize));
                }
            }
            Column::RolledAction(choice) => {
                let size = self.dataset.action_size();
                for (place, target) in numbers.chunks_exact_mut(size).enumerate() {
                    let row = batch.rows[choice.0][(place + 1) % batch.size];
                    target.copy_from_slice(self.dataset.action(row as usize));
                }
            }
            Column::PermutedAction(choice, _) => {
                let stream = Stream::new(seed, Purpose(ORDER_PURPOSE + at as u16));
                for (place, entry) in batch.order.iter_mut().enumerate() {
                    *entry = (stream.block(step, place as u32)[0], place as u32);
                }
                batch.order.sort_unstable();
                let size = self.dataset.action_size();
                for (target, &(_, from)) in numbers.chunks_exact_mut(size).zip(&batch.order) {
                    let row = batch.rows[choice.0][from as usize];
                    target.copy_from_slice(self.dataset.action(row as usize));
                }
            }
            Column::Gap(choice) => {
                let rows = batch.rows[0].iter().zip(&batch.rows[choice.0]);
                for (target, (&start, &row)) in numbers.iter_mut().zip(rows) {
                    *target = row.abs_diff(start) as f32;
                }
            }
            Column::Reached(from, goal, radius) => {
                let rows = batch.rows[from.0].iter().zip(&batch.rows[goal.0]);
                for (target, (&from, &goal)) in numbers.iter_mut().zip(rows) {
                    let near = radius.is_some_and(|radius| self.within(from, goal, radius));
                    *target = if from == goal || near { 1.0 } else { 0.0 };
                }
            }
            Column::Noise(_) => {
                let stream = Stream::new(seed, Purpose(NOISE_PURPOSE + at as u16));
                for (index, four) in numbers.chunks_mut(4).enumerate() {
                    let words = stream.block(step, index as u32);
                    let (a, b) = normals(words[0], words[1]);
                    let (c, d) = normals(words[2], words[3]);
                    for (target, value) in four.iter_mut().zip([a, b, c, d]) {
                        *target = value as f32;
                    }
                }
            }
        }
    }
}

impl Sampler<'_> {
    /// Whether two recorded states, as they were recorded, are at most `radius` apart.
    fn within(&self, one: u32, other: u32, radius: f32) -> bool {
        let pairs = self.dataset.state(one as usize).iter().zip(self.dataset.state(other as usize));
        pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f32>() <= radius * radius
    }
}

fn cumulative(discount: f64, longest: usize) -> Vec<u32> {
    let mut table = Vec::new();
    let mut tail = 1.0;
    for _ in 0..longest {
        tail *= discount;
        let end = ((1.0 - tail) * 4_294_967_296.0).min(f64::from(u32::MAX)) as u32;
        table.push(end);
        if end == u32::MAX {
            break;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Scaling;

    /// Trajectories whose state is (trajectory, place) and whose action is its row / 1000.
    fn numbered(lengths: &[usize]) -> Dataset {
        let rows: usize = lengths.iter().sum();
        let mut states = Vec::new();
        for (index, &length) in lengths.iter().enumerate() {
            states.extend((0..length).flat_map(|place| [index as f32, place as f32]));
        }
        let actions = (0..rows).map(|row| row as f32 / 1000.0).collect();
        Dataset::new(states, 2, Some((actions, 1)), lengths).unwrap()
    }

    fn chi_square(observed: &[f64], expected: &[f64]) -> f64 {
        observed.iter().zip(expected).map(|(o, e)| (o - e).powi(2) / e).sum()
    }

    fn offsets(law: Offsets, discount: f64, length: usize, draws: usize) -> Vec<f64> {
        let dataset = numbered(&[length, 3]);
        let plain = Normalization::fit(&dataset, Scaling::None);
        let mut layout = Layout::default();
        let goal = layout.rows(Rows::Future(law));
        let sampler = Sampler::new(&dataset, &plain, layout, discount);
        let mut batch = sampler.batch(1000);
        let mut counts = vec![0.0; length];
        let mut step = 0;
        while counts.iter().sum::<f64>() < draws as f64 {
            sampler.fill(&mut batch, 3, step);
            step += 1;
            for (&start, &end) in batch.rows(Layout::START).iter().zip(batch.rows(goal)) {
                if start == 0 {
                    counts[end as usize] += 1.0;
                }
            }
        }
        counts
    }

    /// The 99.99 % point of chi-square, by Wilson and Hilferty.
    fn critical(freedom: f64) -> f64 {
        let spread = 2.0 / (9.0 * freedom);
        freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3)
    }

    #[test]
    fn offsets_follow_the_declared_law() {
        for (from, first) in [(First::Zero, 0usize), (First::One, 1)] {
            for end in [End::Truncate, End::Clip] {
                let (discount, length, draws) = (0.8f64, 12usize, 1_000_000);
                let counts = offsets(Offsets { from, end }, discount, length, draws);
                let total = counts.iter().sum::<f64>();
                let mut law: Vec<f64> = (0..length).map(|k| discount.powi(k as i32)).collect();
                law[..first].fill(0.0);
                if end == End::Clip {
                    law[length - 1] /= 1.0 - discount;
                }
                let mass: f64 = law.iter().sum();
                let expected: Vec<f64> = law.iter().map(|p| total * p / mass).collect();
                assert_eq!(counts[..first].iter().sum::<f64>(), 0.0);
                let statistic = chi_square(&counts[first..], &expected[first..]);
                assert!(
                    statistic < critical((length - first - 1) as f64),
                    "{from:?} {end:?}: chi-square {statistic}"
                );
            }
        }
    }

    #[test]
    fn an_offset_law_from_one_is_caught_by_the_chi_square_of_the_law_from_zero() {
        let counts = offsets(Offsets { from: First::One, end: End::Truncate }, 0.8, 12, 100_000);
        let total: f64 = counts.iter().sum();
        let law: Vec<f64> = (0..12).map(|k| 0.8f64.powi(k)).collect();
        let mass: f64 = law.iter().sum();
        let expected: Vec<f64> = law.iter().map(|p| total * p / mass).collect();
        assert!(chi_square(&counts, &expected) > 100.0 * critical(11.0));
    }

    #[test]
    fn by_default_a_start_may_be_its_own_goal_as_often_as_the_law_says() {
        let (discount, length) = (0.8f64, 12);
        let counts = offsets(Offsets::default(), discount, length, 10_000);
        let mass: f64 = (0..length as i32).map(|k| discount.powi(k)).sum();
        let share = counts[0] / counts.iter().sum::<f64>();
        assert!((share - 1.0 / mass).abs() < 0.03, "{share} of {}", 1.0 / mass);
    }

    #[test]
    fn goals_never_cross_a_trajectory_boundary_and_starts_have_a_successor() {
        let dataset = numbered(&[1, 5, 2, 1, 30]);
        let plain = Normalization::fit(&dataset, Scaling::None);
        let mut layout = Layout::default();
        let laws = [
            Offsets { from: First::Zero, end: End::Truncate },
            Offsets { from: First::One, end: End::Clip },
        ];
        let goals = laws.map(|law| layout.rows(Rows::Future(law)));
        let next = layout.rows(Rows::Next);
        let same = layout.rows(Rows::Mixed(
            GoalMix { current: 0.0, future: 0.5, trajectory: 0.5, random: 0.0 },
            laws[0],
        ));
        let sampler = Sampler::new(&dataset, &plain, layout, 0.99);
        let mut batch = sampler.batch(512);
        for step in 0..50 {
            sampler.fill(&mut batch, 9, step);
            for place in 0..512 {
                let start = batch.rows(Layout::START)[place] as usize;
                assert!(dataset.last_row(start) > start);
                for choice in [goals[0], goals[1], next, same] {
                    let goal = batch.rows(choice)[place] as usize;
                    assert!(goal >= start);
                    assert_eq!(dataset.trajectory_of(goal), dataset.trajectory_of(start));
                }
            }
        }
    }

    #[test]
    fn starts_and_random_goals_are_uniform() {
        let dataset = numbered(&[4, 7, 1, 9]);
        let plain = Normalization::fit(&dataset, Scaling::None);
        let mut layout = Layout::default();
        let random = layout.rows(Rows::Random);
        let sampler = Sampler::new(&dataset, &plain, layout, 0.9);
        let mut batch = sampler.batch(1000);
        let (mut starts, mut goals) = (vec![0.0; 21], vec![0.0; 21]);
        for step in 0..1000 {
            sampler.fill(&mut batch, 1, step);
            batch.rows(Layout::START).iter().for_each(|&row| starts[row as usize] += 1.0);
            batch.rows(random).iter().for_each(|&row| goals[row as usize] += 1.0);
        }
        let allowed: Vec<f64> =
            (0..21).filter(|&r| dataset.last_row(r) > r).map(|r| starts[r]).collect();
        assert_eq!(allowed.len(), 17);
        assert_eq!(allowed.iter().sum::<f64>(), 1e6);
        assert!(chi_square(&allowed, &[1e6 / 17.0; 17]) < critical(16.0));
        assert!(chi_square(&goals, &[1e6 / 21.0; 21]) < critical(20.0));
    }

    #[test]
    fn waypoints_follow_their_law_and_pass_neither_the_goal_nor_the_end() {
        let (length, ratio, successor) = (40, 0.7f64, 0.25);
        let dataset = numbered(&[length, 2, 3]);
        let plain = Normalization::fit(&dataset, Scaling::None);
        let mut layout = Layout::default();
        let goal = layout.rows(Rows::Future(Offsets { from: First::One, end: End::Truncate }));
        let law = Waypoints { successor, ratio };
        let waypoint = layout.rows(Rows::Waypoint(law, goal));
        let near = layout.rows(Rows::Ahead(7, Some(goal)));
        let ahead = layout.rows(Rows::Ahead(7, None));
        let random = layout.rows(Rows::Random);
        let gap = layout.column(Column::Gap(waypoint));
        let same = layout.column(Column::Reached(Layout::START, random, None));
        let close = layout.column(Column::Reached(Layout::START, random, Some(1.5)));
        let sampler = Sampler::new(&dataset, &plain, layout, 0.999);
        let mut batch = sampler.batch(1000);
        let mut counts = [0.0; 6];
        for step in 0..300 {
            sampler.fill(&mut batch, 2, step);
            for place in 0..1000 {
                let row = |choice: RowsId| batch.rows(choice)[place];
                let (start, goal, last) =
                    (row(Layout::START), row(goal), dataset.last_row(row(Layout::START) as usize));
                assert!(row(waypoint) > start && row(waypoint) <= goal);
                assert_eq!(batch.columns[gap][place], (row(waypoint) - start) as f32);
                assert_eq!(row(near), (start + 7).min(goal));
                assert_eq!(row(ahead), (start + 7).min(last as u32));
                if start == 0 && goal >= 20 {
                    counts[(row(waypoint) as usize).min(6) - 1] += 1.0;
                }
                assert_eq!(batch.columns[same][place] == 1.0, start == row(random));
                let apart = |axis: usize| {
                    let state = |row: u32| dataset.state(row as usize)[axis];
                    (state(start) - state(row(random))).powi(2)
                };
                assert_eq!(batch.columns[close][place] == 1.0, apart(0) + apart(1) <= 2.25);
            }
        }
        let total: f64 = counts.iter().sum();
        let law = |k: i32| (1.0 - ratio) * ratio.powi(k - 1);
        let expected: Vec<f64> = (1..=6)
            .map(|k| {
                let geometric = if k == 6 { ratio.powi(5) } else { law(k) };
                let first = if k == 1 { successor } else { 0.0 };
                total * (first + (1.0 - successor) * geometric)
            })
            .collect();
        let statistic = chi_square(&counts, &expected);
        assert!(total > 1_000.0 && statistic < critical(5.0), "{statistic} of {total}");
    }

    #[test]
    fn a_mix_draws_each_kind_of_goal_as_often_as_it_says() {
        let dataset = numbered(&[300, 300]);
        let plain = Normalization::fit(&dataset, Scaling::None);
        let mut layout = Layout::default();
        let next = Offsets { from: First::One, end: End::Truncate };
        let goal = layout.rows(Rows::Mixed(GoalMix::VALUES, next));
        let sampler = Sampler::new(&dataset, &plain, layout, 0.5);
        let mut batch = sampler.batch(1000);
        let mut current = 0;
        for step in 0..100 {
            sampler.fill(&mut batch, 2, step);
            let pairs = batch.rows(Layout::START).iter().zip(batch.rows(goal));
            current += pairs.filter(|(start, goal)| start == goal).count();
        }
        // One random goal in 600 is the start as well.
        let share = current as f64 / 100_000.0;
        assert!((share - 0.2005).abs() < 0.005, "{share}");
        for wrong in [0.3, -0.1, f64::NAN] {
            let mix = GoalMix { current: wrong, ..GoalMix::VALUES };
            assert!(mix.check("here").unwrap_err().to_string().contains("`here`"));
        }
        assert!(GoalMix::VALUES.check("here").is_ok() && GoalMix::default().check("x").is_ok());
    }

    #[test]
    fn permuted_actions_are_a_permutation_drawn_anew_each_step() {
        let dataset = numbered(&[100, 100]);
        let plain = Normalization::fit(&dataset, Scaling::None);
        let mut layout = Layout::default();
        let goal = layout.rows(Rows::Future(Offsets::default()));
        let plainly = layout.column(Column::Action(goal));
        let permuted = layout.column(Column::PermutedAction(goal, 0));
        let sampler = Sampler::new(&dataset, &plain, layout, 0.9);
        let mut batch = sampler.batch(64);
        let mut fixed_points = 0;
        for step in 0..200 {
            sampler.fill(&mut batch, 5, step);
            let (mut a, mut b) = (batch.columns[plainly].clone(), batch.columns[permuted].clone());
            fixed_points += a.iter().zip(&b).filter(|(a, b)| a == b).count();
            a.sort_by(f32::total_cmp);
            b.sort_by(f32::total_cmp);
            assert_eq!(a, b);
        }
        assert!(fixed_points < 200 * 6, "a random permutation keeps about one place");
    }

    #[test]
    fn the_same_seed_and_step_give_the_same_batch_in_any_order() {
        let dataset = numbered(&[20, 20]);
        let plain = Normalization::fit(&dataset, Scaling::Standard);
        let mut layout = Layout::default();
        let state = layout.column(Column::State(Layout::START));
        let noise = layout.column(Column::Noise(3));
        let sampler = Sampler::new(&dataset, &plain, layout, 0.9);
        let (mut first, mut second) = (sampler.batch(16), sampler.batch(16));
        sampler.fill(&mut first, 2, 41);
        sampler.fill(&mut second, 2, 7);
        assert_ne!(first.columns[noise], second.columns[noise]);
        sampler.fill(&mut second, 2, 41);
        assert_eq!(first.columns[state], second.columns[state]);
        assert_eq!(first.columns[noise], second.columns[noise]);
    }
}
