//! Draws batches on the GPU, from data that live there: the draws of `data/sampler.rs`.

use super::machine::{Grid, Machine};
use super::memory::{Buffer, Memory, Places};
use super::queue::{Argument, Launch};
use crate::data::sampler::{
    Column, End, First, NOISE_PURPOSE, ORDER_PURPOSE, ROWS_PURPOSE, Rows, Sampler, Tables,
};
use crate::error::Result;

pub(super) const SOURCE: &str = include_str!("sampler.cu");

/// What `sampler.cu` calls `Data`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Data {
    states: u64,
    actions: u64,
    shift: u64,
    scale: u64,
    last_rows: u64,
    starts: u64,
    cumulative: u64,
    rows: u32,
    start_count: u32,
    table: u32,
    state_size: u32,
    action_size: u32,
    unused: u32,
}

/// What `sampler.cu` calls `Choice`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Choice {
    kind: u32,
    from_one: u32,
    clip: u32,
    unused: u32,
    future: f64,
    both: f64,
}

impl Choice {
    fn new(rows: Rows) -> Self {
        let plain = Self { kind: 0, from_one: 0, clip: 0, unused: 0, future: 0.0, both: 0.0 };
        let future = |law: crate::data::sampler::Offsets| Self {
            kind: 2,
            from_one: u32::from(law.from == First::One),
            clip: u32::from(law.end == End::Clip),
            ..plain
        };
        match rows {
            Rows::Start => plain,
            Rows::Next => Self { kind: 1, ..plain },
            Rows::Future(law) => future(law),
            Rows::Mixed(mix, law) => {
                let both = mix.future + mix.trajectory;
                Self { kind: 3, future: mix.future, both, ..future(law) }
            }
            Rows::Random => Self { kind: 4, ..plain },
        }
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
    permuted.map(|(at, _)| (at, u32::from(ORDER_PURPOSE) + at as u32)).collect()
}

/// A dataset on the GPU and the tables to draw from it.
pub(super) struct Drawing {
    data: Memory,
    choices: Memory,
    purposes: Memory,
    fillers: Memory,
    choice_count: usize,
    permuted: usize,
    widest: usize,
    column_count: usize,
    held: Vec<Memory>,
}

impl Drawing {
    /// Copies the data of `sampler` to the GPU.
    ///
    /// # Errors
    /// The GPU has no room.
    pub fn new(machine: &Machine, sampler: &Sampler<'_>, batches: &Batches) -> Result<Self> {
        let tables = sampler.tables();
        let (data, held) = copied(machine, &tables)?;
        let choices: Vec<Choice> = tables.rows.iter().map(|&rows| Choice::new(rows)).collect();
        let purposes: Vec<u32> = permuted(&tables).iter().map(|&(_, purpose)| purpose).collect();
        let fillers = fillers(&tables, batches);
        Ok(Self {
            data: machine.filled(&[data])?,
            choices: machine.filled(&choices)?,
            purposes: machine.filled(&purposes)?,
            fillers: machine.filled(&fillers)?,
            choice_count: choices.len(),
            permuted: purposes.len(),
            widest: fillers.iter().map(|filler| filler.width as usize).max().unwrap_or(0),
            column_count: fillers.len(),
            held,
        })
    }

    /// Bytes of the GPU's memory that the data take.
    pub fn bytes(&self) -> usize {
        self.held.iter().map(|memory| memory.bytes).sum()
    }

    /// The launches that draw the batch of the update `ahead` of the clock's. `memory` is the
    /// address of the block.
    pub fn launches(
        &self,
        batches: &Batches,
        clock: Buffer,
        ahead: u64,
        memory: u64,
    ) -> Vec<Launch> {
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
                Argument::Shared(self.data.address),
                Argument::Shared(self.fillers.address),
                clock[0],
                clock[1],
                Argument::Read(batches.rows),
                Argument::Read(batches.orders),
                Argument::Shared(memory),
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
            Argument::Shared(self.data.address),
            Argument::Shared(self.choices.address),
            Argument::Shared(self.purposes.address),
            clock[0],
            clock[1],
            Argument::Write(batches.rows),
            Argument::Write(batches.words),
            Argument::size(self.choice_count),
            Argument::size(batches.size),
            Argument::Int(ROWS_PURPOSE.into()),
        ];
        let across = batches.size.div_ceil(DRAWS);
        let grid = Grid::blocks(across, self.choice_count + self.permuted, DRAWS);
        Launch::kernel("sampler_draw", grid, &arguments)
    }
}

/// Copies a dataset and its tables to the GPU.
fn copied(machine: &Machine, tables: &Tables<'_>) -> Result<(Data, Vec<Memory>)> {
    let dataset = tables.dataset;
    let last_rows: Vec<u32> = (0..dataset.rows()).map(|row| dataset.last_row(row) as u32).collect();
    let normalization = tables.normalization;
    let held = vec![
        machine.filled(dataset.states())?,
        machine.filled(dataset.actions())?,
        machine.filled(&normalization.shift)?,
        machine.filled(&normalization.scale)?,
        machine.filled(&last_rows)?,
        machine.filled(tables.starts)?,
        machine.filled(tables.cumulative)?,
    ];
    let address = |at: usize| -> u64 { held[at].address };
    let data = Data {
        states: address(0),
        actions: address(1),
        shift: address(2),
        scale: address(3),
        last_rows: address(4),
        starts: address(5),
        cumulative: address(6),
        rows: dataset.rows() as u32,
        start_count: tables.starts.len() as u32,
        table: tables.cumulative.len() as u32,
        state_size: dataset.state_size() as u32,
        action_size: dataset.action_size() as u32,
        unused: 0,
    };
    Ok((data, held))
}

/// Threads of a block that draws, and of one that gathers.
const DRAWS: usize = 64;
const GATHERS: usize = 256;

fn fillers(tables: &Tables<'_>, batches: &Batches) -> Vec<Filler> {
    let permuted = permuted(tables);
    let (states, actions) = (tables.dataset.state_size(), tables.dataset.action_size());
    let filler = |(at, column): (usize, &Column)| {
        let (kind, choice, width) = match *column {
            Column::State(choice) => (0, choice.place(), states),
            Column::Action(choice) => (1, choice.place(), actions),
            Column::PermutedAction(choice, _) => (2, choice.place(), actions),
            Column::RolledAction(choice) => (3, choice.place(), actions),
            Column::Noise(width) => (4, 0, width),
        };
        Filler {
            kind,
            choice: choice as u32,
            width: width as u32,
            purpose: u32::from(NOISE_PURPOSE) + at as u32,
            order: permuted.iter().position(|&(column, _)| column == at).unwrap_or(0) as u64,
            out: batches.columns[at].offset as u64,
        }
    };
    tables.columns.iter().enumerate().map(filler).collect()
}
