//! The launches that operations leave behind. Nothing runs while a list is made: each launch says which
//! buffers it reads and writes, and from that alone follows what it must wait for.

use std::ops::Range;

use super::buffer::{Buffer, Target};
use super::multiply::Multiply;

/// The kernel that leaves of a gradient what an output was positive for.
pub(in crate::engine) const GATE: &str = "tiles_gate";
/// The kernel that adds its rows as well.
pub(in crate::engine) const DOWN: &str = "tiles_down";

/// The shape of a launch: blocks and the threads of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x and y.
    pub blocks: (usize, usize),
    /// Threads of a block.
    pub threads: usize,
    /// Bytes of shared memory of a block beside what its kernel declares.
    pub shared: usize,
}

impl Grid {
    /// Threads of a block that shares numbers out evenly.
    const THREADS: usize = 256;

    /// As many threads as there are numbers.
    pub fn over(numbers: usize) -> Self {
        Self::blocks(numbers.div_ceil(Self::THREADS), 1, Self::THREADS)
    }

    /// A thread for every four of so many numbers.
    pub fn fours(numbers: usize) -> Self {
        Self::blocks(numbers.div_ceil(4 * Self::THREADS), 1, Self::THREADS)
    }

    /// A thread for every four numbers of a line: lines along x, portions of them along y.
    pub fn lines(lines: usize, numbers: usize) -> Self {
        Self::blocks(lines, numbers.div_ceil(4 * Self::THREADS), Self::THREADS)
    }

    /// One block of `threads` threads.
    pub fn one(threads: usize) -> Self {
        Self::blocks(1, 1, threads)
    }

    /// Blocks along x and y, of `threads` threads each.
    pub fn blocks(x: usize, y: usize, threads: usize) -> Self {
        Self { blocks: (x, y), threads, shared: 0 }
    }

    /// With so many bytes of shared memory a block beside what its kernel declares.
    pub fn with_shared(self, shared: usize) -> Self {
        Self { shared, ..self }
    }
}

/// One argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument {
    /// A buffer that is read.
    Read(Buffer),
    /// A buffer that is written, and perhaps read.
    Write(Buffer),
    /// A buffer of which only some numbers are written: those of this part. Launches that write
    /// different parts do not wait for each other.
    Part(Buffer, u8),
    /// No buffer.
    Absent,
    /// A buffer that is touched without being an argument; true where it is written.
    Touch(Buffer, bool),
    /// An address that all replicas share and nobody writes.
    Shared(u64),
    /// Where the memory of the first replica begins.
    Origin,
    /// A signed integer of 32 bits.
    Int(i32),
    /// An unsigned integer of 64 bits.
    Long(u64),
    /// A single-precision number.
    Float(f32),
    /// A double-precision number.
    Wide(f64),
}

impl Argument {
    /// A size.
    pub fn size(number: usize) -> Self {
        Self::Int(number as i32)
    }

    /// The buffer of a gradient, where it is wanted.
    pub fn target(target: Option<Target>) -> Self {
        target.map_or(Self::Absent, |target| Self::Write(target.buffer))
    }

    /// Whether a gradient is added to.
    pub fn keep(target: Option<Target>) -> Self {
        Self::Int(target.is_some_and(|target| target.keep).into())
    }

    /// A buffer that is read, where there is one.
    pub fn maybe(buffer: Option<Buffer>) -> Self {
        buffer.map_or(Self::Absent, Self::Read)
    }
}

/// What a launch does.
#[derive(Debug, Clone)]
pub(in crate::engine) enum Work {
    Kernel { name: &'static str, grid: Grid, arguments: Vec<Argument> },
    Product(Multiply),
}

/// A launch with the places it reads and writes.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Launch {
    pub work: Work,
    pub reads: Vec<Range<usize>>,
    pub writes: Vec<Range<usize>>,
    /// The buffers of which a part is written, and which part.
    pub parts: Vec<(Range<usize>, u8)>,
    /// The operation it belongs to and which half of it.
    pub of: Of,
}

/// An operation and one of its halves; what is no operation has no halves.
pub(in crate::engine) type Of = (&'static str, &'static str);

impl Launch {
    pub fn kernel(name: &'static str, grid: Grid, arguments: &[Argument]) -> Self {
        let (mut reads, mut writes, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for argument in arguments {
            match argument {
                Argument::Read(buffer) | Argument::Touch(buffer, false) => {
                    reads.push(buffer.range());
                }
                Argument::Write(buffer) | Argument::Touch(buffer, true) => {
                    writes.push(buffer.range());
                }
                Argument::Part(buffer, part) => parts.push((buffer.range(), *part)),
                _ => {}
            }
        }
        let work = Work::Kernel { name, grid, arguments: arguments.to_vec() };
        Self { work, reads, writes, parts, of: ("", "") }
    }

    pub fn product(multiply: Multiply) -> Self {
        let mut reads = vec![multiply.left.buffer().range(), multiply.right.buffer().range()];
        reads.extend(multiply.finish.bias().map(Buffer::range));
        let writes = vec![multiply.out.buffer.range()];
        let (work, parts) = (Work::Product(multiply), Vec::new());
        Self { work, reads, writes, parts, of: ("", "") }
    }

    /// Says what launches belong to.
    pub fn belong(launches: &mut [Self], of: Of) {
        launches.iter_mut().for_each(|launch| launch.of = of);
    }

    /// Whether any of these numbers is read or written.
    pub fn touches(&self, numbers: &Range<usize>) -> bool {
        let parts = self.parts.iter().map(|(part, _)| part);
        let mut all = self.reads.iter().chain(&self.writes).chain(parts);
        all.any(|range| range.start < numbers.end && numbers.start < range.end)
    }

    /// Whether any of these numbers is written.
    pub fn changes(&self, numbers: &Range<usize>) -> bool {
        let parts = self.parts.iter().map(|(part, _)| part);
        let mut all = self.writes.iter().chain(parts);
        all.any(|range| range.start < numbers.end && numbers.start < range.end)
    }

    /// Whether `self` must wait for `earlier`.
    pub fn follows(&self, earlier: &Self) -> bool {
        let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let any =
            |a: &[Range<usize>], b: &[Range<usize>]| a.iter().any(|a| b.iter().any(|b| meet(a, b)));
        let partly = |parts: &[(Range<usize>, u8)], whole: &Self| {
            parts.iter().any(|(part, _)| {
                whole.reads.iter().chain(&whole.writes).any(|other| meet(part, other))
            })
        };
        any(&self.reads, &earlier.writes)
            || any(&self.writes, &earlier.writes)
            || any(&self.writes, &earlier.reads)
            || partly(&self.parts, earlier)
            || partly(&earlier.parts, self)
            || self
                .parts
                .iter()
                .any(|(a, part)| earlier.parts.iter().any(|(b, other)| part == other && meet(a, b)))
    }
}

/// The launch that leaves of `gradient` what `told` is positive for.
pub(in crate::engine) fn gate(gradient: Buffer, told: Buffer) -> Launch {
    let arguments = [
        Argument::Write(gradient),
        Argument::Read(told),
        Argument::size(gradient.length()),
        Argument::Int((gradient.is_aligned() && told.is_aligned()).into()),
    ];
    Launch::kernel(GATE, Grid::over(gradient.length().div_ceil(4)), &arguments)
}

/// The launch that leaves of `gradient` what `told`, where it is given, is positive for, and adds its rows,
/// `bias` long, to `bias`; it works in `room`.
pub(in crate::engine) fn down(
    gradient: Buffer,
    told: Option<Buffer>,
    bias: Target,
    room: [Buffer; 2],
) -> Launch {
    let width = bias.buffer.length();
    let rows = gradient.length() / width;
    let aligned = gradient.is_aligned() && told.is_none_or(Buffer::is_aligned);
    let wide = aligned && width.is_multiple_of(4);
    let arguments = [
        if told.is_some() { Argument::Write(gradient) } else { Argument::Read(gradient) },
        Argument::maybe(told),
        Argument::Write(bias.buffer),
        Argument::keep(Some(bias)),
        Argument::Write(room[0]),
        Argument::Write(room[1]),
        Argument::size(rows),
        Argument::size(width),
        Argument::Int(wide.into()),
    ];
    let [down, across] = down_blocks(rows, width);
    Launch::kernel(DOWN, Grid::blocks(across, down, 256), &arguments)
}

/// Blocks of [`down`] along rows and along columns: its room are as many rows as the former, and a number
/// for each of the latter.
pub(crate) fn down_blocks(rows: usize, width: usize) -> [usize; 2] {
    [rows.div_ceil(128), width.div_ceil(32)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_waits_for_writers_of_what_it_reads_and_readers_of_what_it_writes() {
        let buffer = |offset: usize| Buffer { offset, length: 10 };
        let launch = |read: usize, write: usize| {
            let arguments = [Argument::Read(buffer(read)), Argument::Write(buffer(write))];
            Launch::kernel("any", Grid::one(32), &arguments)
        };
        assert!(launch(10, 20).follows(&launch(0, 10)), "reads what was written");
        assert!(launch(40, 5).follows(&launch(0, 10)), "writes what was read and written");
        assert!(launch(40, 10).follows(&launch(0, 10)), "writes what was written");
        assert!(!launch(0, 20).follows(&launch(0, 10)), "both only read");
        assert!(!launch(10, 30).follows(&launch(0, 20)), "neighbours");
        let part =
            |part: u8| Launch::kernel("any", Grid::one(32), &[Argument::Part(buffer(10), part)]);
        assert!(!part(1).follows(&part(2)), "different parts");
        assert!(part(1).follows(&part(1)), "the same part");
        assert!(part(1).follows(&launch(0, 10)), "a part of what was written");
        assert!(launch(10, 0).follows(&part(2)), "reads what was partly written");
    }
}
