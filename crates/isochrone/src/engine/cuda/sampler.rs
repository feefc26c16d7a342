//! Draws batches on the GPU, from data that live there: the draws of `data/sampler.rs`.

use super::memory::{Places, SharedMemory};
use crate::data::sampler::{Column, End, First, Rows, RowsId, Sampler, Tables};
use crate::engine::launches::{Argument, Buffer, Grid, Launch};
use crate::error::{Error, Result};
use crate::random::Purpose;

pub(super) const SOURCE: &str = include_str!("sampler.cu");

/// What `sampler.cu` calls `Data`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Data {
    seen: u64,
    goals: u64,
    states: u64,
    actions: u64,
    last_rows: u64,
    starts: u64,
    cumulative: u64,
    waypoints: u64,
    lesson_goals: u64,
    lesson_owners: u64,
    lesson_columns: u64,
    lesson_nats: u64,
    rows: u32,
    start_count: u32,
    table: u32,
    waypoint_table: u32,
    state_size: u32,
    evened: u32,
    lesson_goal_count: u32,
    landmarks: u32,
}

/// What `sampler.cu` calls `Choice`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C)]
struct Choice {
    kind: u32,
    from_one: u32,
    clip: u32,
    steps: u32,
    /// The choice that gives the goal, and how many goals stand behind each other.
    goal: u32,
    depth: u32,
    current: f64,
    future: f64,
    both: f64,
    successor: f64,
}

impl Choice {
    fn new(rows: Rows, before: &[Self]) -> Self {
        let plain = Self::default();
        let future = |law: crate::data::sampler::Offsets| Self {
            kind: 2,
            from_one: u32::from(law.from == First::One),
            clip: u32::from(law.end == End::Clip),
            ..plain
        };
        let after = |goal: RowsId| {
            let goal = goal.place();
            Self { goal: goal as u32, depth: 1 + before[goal].depth, ..plain }
        };
        match rows {
            Rows::Start => plain,
            Rows::Next => Self { kind: 1, ..plain },
            Rows::Future(law) => future(law),
            Rows::Mixed(mix, law) => Self {
                kind: 3,
                current: mix.current,
                future: mix.future,
                both: mix.future + mix.trajectory,
                ..future(law)
            },
            Rows::Random => Self { kind: 4, ..plain },
            Rows::Waypoint(law, goal) => Self { kind: 5, successor: law.successor, ..after(goal) },
            Rows::Taught => Self { kind: 7, ..plain },
            Rows::Ahead(steps, goal) => Self { kind: 6, steps, ..goal.map_or(plain, after) },
        }
    }

    fn all(rows: &[Rows]) -> Vec<Self> {
        rows.iter().fold(Vec::new(), |mut before, &rows| {
            before.push(Self::new(rows, &before));
            before
        })
    }
}

/// What `sampler.cu` calls `Filler`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Filler {
    kind: u32,
    choice: u32,
    width: u32,
    purpose: u32,
    order: u64,
    out: u64,
    /// The rows that are compared with, and the largest square of a distance that counts as none.
    other: u32,
    within: f32,
}

/// Where a batch and what is drawn for it stand.
pub(super) struct Batches {
    size: usize,
    /// The columns in the order of the layout.
    pub columns: Vec<Buffer>,
    /// The rows drawn, choice after choice.
    pub rows: Buffer,
    words: Buffer,
    orders: Buffer,
}

impl Batches {
    /// Takes places for the draws of `sampler` into `columns`.
    pub fn new(
        places: &mut Places,
        sampler: &Sampler<'_>,
        columns: Vec<Buffer>,
        size: usize,
    ) -> Self {
        let tables = sampler.tables();
        let permuted = permuted(&tables).len();
        Self {
            size,
            columns,
            rows: places.one(size * tables.rows.len()),
            words: places.one(size * permuted.max(1)),
            orders: places.one(size * permuted.max(1)),
        }
    }
}

/// The columns that hold actions in another order, and the purposes of their draws.
fn permuted(tables: &Tables<'_>) -> Vec<(usize, u32)> {
    let columns = tables.columns.iter().enumerate();
    let permuted = columns.filter(|(_, column)| matches!(column, Column::PermutedAction(..)));
    permuted.map(|(at, _)| (at, u32::from(Purpose::ORDER.0) + at as u32)).collect()
}

/// Datasets on the GPU and the tables to draw from them: where they stand, and how much there is.
pub(super) struct DeviceSampler {
    /// A place for each dataset.
    recordings: u64,
    most: usize,
    count: usize,
    choices: u64,
    purposes: u64,
    fillers: u64,
    choice_count: usize,
    permuted: usize,
    widest: usize,
    column_count: usize,
}

impl DeviceSampler {
    /// Copies the data of `sampler` to the GPU, as the first of at most so many recordings.
    ///
    /// # Errors
    /// The GPU has no room.
    pub fn new(
        memory: &mut impl SharedMemory,
        sampler: &Sampler<'_>,
        batches: &Batches,
        most: usize,
    ) -> Result<Self> {
        let tables = sampler.tables();
        let choices = Choice::all(tables.rows);
        let purposes: Vec<u32> = permuted(&tables).iter().map(|&(_, purpose)| purpose).collect();
        let fillers = fillers(&tables, batches);
        let mut first = Self {
            recordings: memory.take(most * size_of::<Data>())?,
            most,
            count: 0,
            choices: memory.put(&choices)?,
            purposes: memory.put(&purposes)?,
            fillers: memory.put(&fillers)?,
            choice_count: choices.len(),
            permuted: purposes.len(),
            widest: fillers.iter().map(|filler| filler.width as usize).max().unwrap_or(0),
            column_count: fillers.len(),
        };
        first.add(memory, sampler)?;
        Ok(first)
    }

    /// Copies the data of another recording, which is drawn from by the same laws; its number.
    ///
    /// # Errors
    /// The GPU has no room.
    pub fn add(&mut self, memory: &mut impl SharedMemory, sampler: &Sampler<'_>) -> Result<u32> {
        let data = copied(memory, &sampler.tables())?;
        assert!(self.count < self.most, "as many recordings as replicas at most");
        memory.write(self.recordings + (self.count * size_of::<Data>()) as u64, &[data])?;
        self.count += 1;
        Ok(self.count as u32 - 1)
    }

    /// The launches that draw the batch of the update `ahead` of the clock's.
    pub fn launches(&self, batches: &Batches, clock: Buffer, ahead: u64) -> Vec<Launch> {
        let size = batches.size;
        let clock = [Argument::Read(clock), Argument::Long(ahead)];
        let mut launches = vec![self.draw(batches, clock)];
        if self.permuted > 0 {
            let order = [
                Argument::Read(batches.words),
                Argument::Write(batches.orders),
                Argument::size(size),
            ];
            let grid = Grid::blocks((8 * size).div_ceil(GATHERS), self.permuted, GATHERS);
            launches.push(Launch::kernel("sampler_order", grid, &order));
        }
        if self.column_count > 0 {
            let mut gather = vec![
                Argument::Shared(self.recordings),
                Argument::Shared(self.fillers),
                clock[0],
                clock[1],
                Argument::Read(batches.rows),
                Argument::Read(batches.orders),
                Argument::Origin,
                Argument::size(size),
            ];
            gather.extend(batches.columns.iter().map(|&column| Argument::Touch(column, true)));
            let across = (size * self.widest).div_ceil(GATHERS);
            let grid = Grid::blocks(across, self.column_count, GATHERS);
            launches.push(Launch::kernel("sampler_gather", grid, &gather));
        }
        launches
    }

    /// The launch that draws rows, and the words that permutations are sorted by.
    fn draw(&self, batches: &Batches, clock: [Argument; 2]) -> Launch {
        let arguments = [
            Argument::Shared(self.recordings),
            Argument::Shared(self.choices),
            Argument::Shared(self.purposes),
            clock[0],
            clock[1],
            Argument::Write(batches.rows),
            Argument::Write(batches.words),
            Argument::size(self.choice_count),
            Argument::size(batches.size),
            Argument::Int(Purpose::ROWS.0.into()),
        ];
        let across = batches.size.div_ceil(DRAWS);
        let grid = Grid::blocks(across, self.choice_count + self.permuted, DRAWS);
        Launch::kernel("sampler_draw", grid, &arguments)
    }
}

/// Copies a dataset and its tables to the GPU: what networks see of every state, and the states as
/// they were recorded where a column compares them.
fn copied(memory: &mut impl SharedMemory, tables: &Tables<'_>) -> Result<Data> {
    let dataset = tables.dataset;
    if let Some(path) = dataset.stays_in() {
        return Err(Error::memory("the data are too large for memory and stay in the file")
            .in_file(path)
            .hint("train on the CPU with `--device cpu`, or raise `data.memory`"));
    }
    if tables.columns.iter().any(|column| matches!(column, Column::Noisy(..))) {
        return Err(Error::input("noise on starts and goals is drawn on the CPU only")
            .hint("train with `--device cpu`, or set `algorithm.goal_noise = 0`"));
    }
    let starts: Vec<u32> = (0..dataset.starts()).map(|index| dataset.start(index) as u32).collect();
    let last_rows: Vec<u32> = (0..dataset.rows()).map(|row| dataset.last_row(row) as u32).collect();
    let compared = |column: &Column| matches!(column, Column::Reached(_, _, Some(_)));
    let states = if tables.columns.iter().any(compared) { dataset.states() } else { &[] };
    let goals = goals(tables);
    let lesson_goals = tables.lessons.map_or(&[][..], |lessons| lessons.goals());
    let (owners, columns, nats) =
        tables.lessons.map_or((&[][..], &[][..], &[][..]), |lessons| lessons.tables());
    let numbers = dataset.rows() * tables.normalization.width()
        + states.len()
        + dataset.actions().len()
        + last_rows.len()
        + starts.len()
        + goals.len()
        + lesson_goals.len()
        + owners.len()
        + columns.len()
        + nats.len();
    memory.fits(4 * numbers)?;
    Ok(Data {
        seen: memory.put(&seen(tables))?,
        goals: memory.put(&goals)?,
        states: memory.put(states)?,
        actions: memory.put(dataset.actions())?,
        last_rows: memory.put(&last_rows)?,
        starts: memory.put(&starts)?,
        cumulative: memory.put(tables.cumulative)?,
        waypoints: memory.put(tables.waypoints)?,
        lesson_goals: memory.put(lesson_goals)?,
        lesson_owners: memory.put(owners)?,
        lesson_columns: memory.put(columns)?,
        lesson_nats: memory.put(nats)?,
        rows: dataset.rows() as u32,
        start_count: starts.len() as u32,
        table: tables.cumulative.len() as u32,
        waypoint_table: tables.waypoints.len() as u32,
        state_size: dataset.state_size() as u32,
        evened: dataset.is_evened().into(),
        lesson_goal_count: lesson_goals.len() as u32,
        landmarks: columns.len() as u32,
    })
}

/// What networks see of every state: normalized, features and all, by the CPU's own code.
fn seen(tables: &Tables<'_>) -> Vec<f32> {
    let width = tables.normalization.width();
    let mut seen = vec![0.0; tables.dataset.rows() * width];
    for (row, target) in seen.chunks_exact_mut(width).enumerate() {
        tables.normalization.apply(tables.dataset.state(row), target);
    }
    seen
}

/// What policies see of every state as a goal, where that is less; by the CPU's own code.
fn goals(tables: &Tables<'_>) -> Vec<f32> {
    if !tables.columns.iter().any(|column| matches!(column, Column::Goal(..))) {
        return Vec::new();
    }
    let normalization = tables.normalization;
    let mut goals = Vec::with_capacity(tables.dataset.rows() * normalization.goal_width());
    let mut seen = vec![0.0; normalization.width()];
    for row in 0..tables.dataset.rows() {
        normalization.apply(tables.dataset.state(row), &mut seen);
        goals.extend(normalization.of_goal(&seen));
    }
    goals
}

/// Threads of a block that draws, and of one that gathers.
const DRAWS: usize = 64;
const GATHERS: usize = 256;

fn fillers(tables: &Tables<'_>, batches: &Batches) -> Vec<Filler> {
    let permuted = permuted(tables);
    let (states, actions) = (tables.normalization.width(), tables.dataset.action_size());
    let filler = |(at, column): (usize, &Column)| {
        let (kind, choice, width) = match *column {
            Column::State(choice) | Column::Noisy(choice, _) => (0, choice.place(), states),
            Column::Action(choice) => (1, choice.place(), actions),
            Column::PermutedAction(choice, _) => (2, choice.place(), actions),
            Column::RolledAction(choice) => (3, choice.place(), actions),
            Column::Noise(width) => (4, 0, width),
            Column::Gap(choice) => (5, choice.place(), 1),
            Column::Reached(choice, _, _) => (6, choice.place(), 1),
            Column::Goal(choice, width) => (7, choice.place(), width),
            Column::Lesson(choice, _) => (8, choice.place(), 1),
        };
        let (other, within) = match *column {
            Column::Reached(_, goal, radius) => {
                (goal.place(), radius.map_or(-1.0, |radius| radius * radius))
            }
            Column::Lesson(_, goal) => (goal.place(), -1.0),
            _ => (0, -1.0),
        };
        Filler {
            kind,
            choice: choice as u32,
            width: width as u32,
            purpose: u32::from(Purpose::NOISE.0) + at as u32,
            order: permuted.iter().position(|&(column, _)| column == at).unwrap_or(0) as u64,
            out: batches.columns[at].offset as u64,
            other: other as u32,
            within,
        }
    };
    tables.columns.iter().enumerate().map(filler).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::sampler::{GoalMix, Layout, Offsets, Waypoints};

    #[test]
    fn goals_that_stand_behind_each_other_are_counted() {
        let mut layout = Layout::default();
        let goal = layout.rows(Rows::Mixed(GoalMix::VALUES, Offsets::default()));
        let waypoint = layout.rows(Rows::Waypoint(Waypoints::default(), goal));
        let ahead = layout.rows(Rows::Ahead(3, Some(waypoint)));
        let free = layout.rows(Rows::Ahead(4, None));
        let rows = [Layout::START, goal, waypoint, ahead, free].map(|rows| layout.choice(rows));
        let choices = Choice::all(&rows);
        assert_eq!(choices.iter().map(|choice| choice.depth).collect::<Vec<_>>(), [0, 0, 1, 2, 0]);
        assert_eq!(choices.iter().map(|choice| choice.goal).collect::<Vec<_>>(), [0, 0, 1, 2, 0]);
        assert_eq!((choices[3].steps, choices[4].steps), (3, 4));
    }
}
