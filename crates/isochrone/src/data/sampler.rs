//! Draws batches of declared columns; every draw is a function of (seed, step, place in the batch).
//!
//! Starts are uniform over rows that have a successor, or distributed as in [`Even`](super::Even). A
//! future goal is `k` rows after its start with P(k) ∝ γᵏ, truncated at the end of the trajectory and
//! renormalized. Rows are chosen with integer arithmetic only: indices by multiply-high, offsets by
//! searching a table of cumulative γᵏ, permutations by sorting words.

mod gathered;
mod laws;
mod layout;

pub use laws::{End, First, GoalMix, Offsets, Waypoints};
pub use layout::{Column, Layout, Rows, RowsId};

use std::borrow::Cow;

use self::gathered::GatheredRows;
use super::dataset::Dataset;
use super::lessons::Lessons;
use super::normalization::Normalization;
use super::store::StoredArray;
use crate::error::Result;
use crate::random::{Purpose, Stream, below, normals};

/// One batch: the drawn rows and the values of every declared column.
#[derive(Debug, Clone)]
pub struct Batch {
    size: usize,
    rows: Vec<Vec<u32>>,
    order: Vec<(u32, u32)>,
    /// One state as the networks see it.
    seen: Vec<f32>,
    /// One state as recorded, with noise.
    noisy: Vec<f32>,
    /// States and actions of drawn rows, where processes divide the data.
    gathered: [GatheredRows; 2],
    /// The columns in the order of the layout, `size` rows each.
    pub columns: Vec<Vec<f32>>,
}

impl Batch {
    /// The rows that were drawn for `choice`.
    pub fn rows(&self, choice: RowsId) -> &[u32] {
        &self.rows[choice.0]
    }
}

/// Draws batches from a dataset.
#[derive(Debug)]
pub struct Sampler<'d> {
    dataset: &'d Dataset,
    normalization: &'d Normalization,
    layout: Layout,
    /// Entry k is 2³² (1 − γᵏ⁺¹): the cumulative probability of the offsets 0 to k.
    cumulative: Vec<u32>,
    /// The same table for the ratio of waypoints; empty if none are drawn.
    waypoints: Vec<u32>,
    /// The answers of a teacher; none if no column needs them.
    lessons: Option<Lessons>,
}

#[cfg(feature = "cuda")]
/// What a device needs to draw the same batches.
pub(crate) struct Tables<'a> {
    pub dataset: &'a Dataset,
    pub normalization: &'a Normalization,
    pub rows: &'a [Rows],
    pub columns: &'a [Column],
    pub cumulative: &'a [u32],
    pub waypoints: &'a [u32],
    pub lessons: Option<&'a Lessons>,
}

impl<'d> Sampler<'d> {
    /// A sampler that draws the columns of `layout` from `dataset`.
    pub fn new(
        dataset: &'d Dataset,
        normalization: &'d Normalization,
        layout: Layout,
        discount: f64,
    ) -> Self {
        let longest = dataset.lengths().max().unwrap_or(1);
        let waypoints = layout.rows.iter().find_map(|rows| match rows {
            Rows::Waypoint(law, _) => Some(cumulative(law.ratio, longest)),
            _ => None,
        });
        Self {
            cumulative: cumulative(discount, longest),
            waypoints: waypoints.unwrap_or_default(),
            dataset,
            normalization,
            layout,
            lessons: None,
        }
    }

    /// The same sampler with a teacher's answers about these data.
    pub fn taught(self, lessons: Option<Lessons>) -> Self {
        Self { lessons, ..self }
    }

    fn lessons(&self) -> &Lessons {
        self.lessons.as_ref().expect("a column that needs lessons is declared with them")
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn tables(&self) -> Tables<'_> {
        Tables {
            dataset: self.dataset,
            normalization: self.normalization,
            rows: &self.layout.rows,
            columns: &self.layout.columns,
            cumulative: &self.cumulative,
            waypoints: &self.waypoints,
            lessons: self.lessons.as_ref(),
        }
    }

    /// An empty batch of `size` rows, allocated for every column.
    pub fn batch(&self, size: usize) -> Batch {
        let (states, actions) = (self.normalization.width(), self.dataset.action_size());
        let widths =
            (0..self.layout.columns.len()).map(|at| self.layout.width(at, states, actions));
        Batch {
            size,
            rows: vec![vec![0; size]; self.layout.rows.len()],
            order: vec![(0, 0); size],
            seen: vec![0.0; states],
            noisy: vec![0.0; self.dataset.state_size()],
            gathered: Default::default(),
            columns: widths.map(|width| vec![0.0; size * width]).collect(),
        }
    }

    /// Fills `batch` with the draws of (seed, step). Allocates nothing if the data are in memory.
    ///
    /// # Errors
    /// Data on disk can no longer be read.
    pub fn fill(&self, batch: &mut Batch, seed: u64, step: u64) -> Result<()> {
        for (choice, &rows) in self.layout.rows.iter().enumerate() {
            let stream = Stream::new(seed, Purpose::ROWS.nth(choice));
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
        if self.dataset.is_divided() {
            self.gather(batch)?;
        }
        let mut columns = self.layout.columns.iter().enumerate();
        columns.try_for_each(|(at, &column)| self.fill_column(batch, at, column, seed, step))
    }

    /// Brings the rows that columns are filled from here: all processes draw the same.
    fn gather(&self, batch: &mut Batch) -> Result<()> {
        let Batch { rows, gathered: [states, actions], .. } = batch;
        [&mut *states, &mut *actions].into_iter().for_each(|gathered| gathered.rows.clear());
        for column in &self.layout.columns {
            let (of_states, of_actions) = column.sources();
            of_states.iter().for_each(|choice| states.rows.extend(&rows[choice.0]));
            of_actions.iter().for_each(|choice| actions.rows.extend(&rows[choice.0]));
        }
        states.fill(self.dataset, StoredArray::States)?;
        actions.fill(self.dataset, StoredArray::Actions)
    }

    /// One state of the batch.
    fn state<'a>(&'a self, gathered: &'a [GatheredRows; 2], row: u32) -> Result<Cow<'a, [f32]>> {
        match self.dataset.is_divided() {
            true => Ok(Cow::Borrowed(gathered[0].row(row, self.dataset.state_size()))),
            false => self.dataset.read_state(row as usize),
        }
    }

    /// One action of the batch.
    fn action<'a>(&'a self, gathered: &'a [GatheredRows; 2], row: u32) -> Result<Cow<'a, [f32]>> {
        match self.dataset.is_divided() {
            true => Ok(Cow::Borrowed(gathered[1].row(row, self.dataset.action_size()))),
            false => self.dataset.read_action(row as usize),
        }
    }

    /// The row of a choice, given the start and the goal that the choice refers to, if any.
    fn draw(&self, rows: Rows, start: u32, goal: u32, words: [u32; 4]) -> u32 {
        match rows {
            Rows::Start => {
                let index = below(words[0], self.dataset.starts() as u32);
                self.dataset.start(index as usize) as u32
            }
            Rows::Next => start + 1,
            Rows::Future(law) => self.future(start, law, words[0]),
            Rows::Random => self.dataset.anywhere(words[0]),
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
                    self.dataset.anywhere(words[0])
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
            Rows::Taught => {
                let goals = self.lessons().goals();
                goals[below(words[0], goals.len() as u32) as usize]
            }
            Rows::Ahead(steps, _) => start.saturating_add(steps).min(self.bound(start, goal)),
        }
    }

    /// The last row of the start's trajectory, or the goal if it lies between the two.
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

    fn fill_column(
        &self,
        batch: &mut Batch,
        at: usize,
        column: Column,
        seed: u64,
        step: u64,
    ) -> Result<()> {
        let (values, gathered) = (&mut batch.columns[at], &batch.gathered);
        match column {
            Column::State(choice) => {
                let size = self.normalization.width();
                for (target, &row) in values.chunks_exact_mut(size).zip(&batch.rows[choice.0]) {
                    self.normalization.apply(&self.state(gathered, row)?, target);
                }
            }
            Column::Noisy(choice, deviation) => {
                let stream = Stream::new(seed, Purpose::NOISE.nth(at));
                let size = self.normalization.width();
                let blocks = batch.noisy.len().div_ceil(4) as u32;
                let rows = values.chunks_exact_mut(size).zip(&batch.rows[choice.0]);
                for (place, (target, &row)) in rows.enumerate() {
                    batch.noisy.copy_from_slice(&self.state(gathered, row)?);
                    for (block, four) in batch.noisy.chunks_mut(4).enumerate() {
                        let index = place as u32 * blocks + block as u32;
                        let noise = four_normals(stream.block(step, index));
                        four.iter_mut().zip(noise).for_each(|(x, noise)| *x += deviation * noise);
                    }
                    self.normalization.apply(&batch.noisy, target);
                }
            }
            Column::Goal(choice, width) => {
                for (target, &row) in values.chunks_exact_mut(width).zip(&batch.rows[choice.0]) {
                    self.normalization.apply(&self.state(gathered, row)?, &mut batch.seen);
                    let goal = self.normalization.of_goal(&batch.seen);
                    target.iter_mut().zip(goal).for_each(|(target, value)| *target = value);
                }
            }
            Column::Action(choice) => {
                let size = self.dataset.action_size();
                for (target, &row) in values.chunks_exact_mut(size).zip(&batch.rows[choice.0]) {
                    target.copy_from_slice(&self.action(gathered, row)?);
                }
            }
            Column::RolledAction(choice) => {
                let size = self.dataset.action_size();
                for (place, target) in values.chunks_exact_mut(size).enumerate() {
                    let row = batch.rows[choice.0][(place + 1) % batch.size];
                    target.copy_from_slice(&self.action(gathered, row)?);
                }
            }
            Column::PermutedAction(choice, _) => {
                let stream = Stream::new(seed, Purpose::ORDER.nth(at));
                for (place, entry) in batch.order.iter_mut().enumerate() {
                    *entry = (stream.block(step, place as u32)[0], place as u32);
                }
                batch.order.sort_unstable();
                let size = self.dataset.action_size();
                for (target, &(_, from)) in values.chunks_exact_mut(size).zip(&batch.order) {
                    let row = batch.rows[choice.0][from as usize];
                    target.copy_from_slice(&self.action(gathered, row)?);
                }
            }
            Column::Gap(choice) => {
                let rows = batch.rows[0].iter().zip(&batch.rows[choice.0]);
                for (target, (&start, &row)) in values.iter_mut().zip(rows) {
                    *target = row.abs_diff(start) as f32;
                }
            }
            Column::Lesson(from, goal) => {
                let rows = batch.rows[from.0].iter().zip(&batch.rows[goal.0]);
                for (target, (&from, &goal)) in values.iter_mut().zip(rows) {
                    *target = self.lessons().nats(from, goal);
                }
            }
            Column::Reached(from, goal, radius) => {
                let rows = batch.rows[from.0].iter().zip(&batch.rows[goal.0]);
                for (target, (&from, &goal)) in values.iter_mut().zip(rows) {
                    let near = match radius {
                        Some(radius) => self.within(gathered, (from, goal), radius)?,
                        None => false,
                    };
                    *target = if from == goal || near { 1.0 } else { 0.0 };
                }
            }
            Column::Noise(_) => {
                let stream = Stream::new(seed, Purpose::NOISE.nth(at));
                for (index, four) in values.chunks_mut(4).enumerate() {
                    let noise = four_normals(stream.block(step, index as u32));
                    four.iter_mut().zip(noise).for_each(|(target, noise)| *target = noise);
                }
            }
        }
        Ok(())
    }
}

impl Sampler<'_> {
    /// Whether two recorded states are at most `radius` apart, in raw coordinates.
    fn within(
        &self,
        gathered: &[GatheredRows; 2],
        (one, other): (u32, u32),
        radius: f32,
    ) -> Result<bool> {
        let (one, other) = (self.state(gathered, one)?, self.state(gathered, other)?);
        let pairs = one.iter().zip(&*other);
        Ok(pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f32>() <= radius * radius)
    }
}

/// Four independent standard normals.
fn four_normals([first, second, third, fourth]: [u32; 4]) -> [f32; 4] {
    let ((a, b), (c, d)) = (normals(first, second), normals(third, fourth));
    [a, b, c, d].map(|normal| normal as f32)
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
mod tests;
