//! Memory of the GPU: one block of equal parts, one part per replica.
//!
//! A [`Buffer`] is a place in every replica's part; its address in replica r is
//! block + 4 · (offset + r · stride).

use super::machine::{DeviceMemory, Machine};
use crate::engine::launches::Buffer;
use crate::error::{Error, Result};

/// Buffers begin at multiples of so many numbers: 256 bytes.
const ALIGNMENT: usize = 64;

/// Bytes that one launch reaches over at most: 2 GiB, so that 32 bits count them.
const SPAN: usize = 1 << 31;

/// Numbers that stand side by side at most: kernels count them, rounded up to whole blocks, in 31 bits.
const MOST_NUMBERS: usize = (1 << 31) - (1 << 12);

/// Hands out places.
#[derive(Debug, Default)]
pub(super) struct Places {
    used: usize,
    /// The most numbers that stand side by side.
    longest: usize,
}

impl Places {
    /// Buffers of these lengths, side by side.
    pub fn side_by_side(&mut self, lengths: &[usize]) -> Vec<Buffer> {
        let mut offset = self.used;
        let buffers = lengths.iter().map(|&length| {
            let buffer = Buffer { offset, length };
            offset += length;
            buffer
        });
        let buffers = buffers.collect();
        self.longest = self.longest.max(offset - self.used);
        self.used = offset.div_ceil(ALIGNMENT) * ALIGNMENT;
        buffers
    }

    /// One buffer.
    pub fn one(&mut self, length: usize) -> Buffer {
        self.side_by_side(&[length])[0]
    }

    /// The size of one replica's part.
    pub fn stride(&self) -> usize {
        self.used
    }

    /// Makes sure that kernels can count the numbers of every buffer.
    ///
    /// # Errors
    /// One is too long; says what to do.
    pub fn countable(&self) -> Result<()> {
        if self.longest <= MOST_NUMBERS {
            return Ok(());
        }
        Err(Error::memory(format!(
            "an update keeps `{}` numbers side by side, expected at most {MOST_NUMBERS} on a GPU",
            self.longest
        ))
        .hint("lower `train.batch_size` or the size of the head, or use `--device cpu`"))
    }
}

/// Memory that all replicas share: a GPU's or, in tests, plain memory.
pub(super) trait SharedMemory {
    /// Makes sure that so many bytes fit.
    fn fits(&self, bytes: usize) -> Result<()>;

    /// Takes so many bytes; their address.
    fn take(&mut self, bytes: usize) -> Result<u64>;

    fn write<T: Copy>(&mut self, address: u64, numbers: &[T]) -> Result<()>;

    /// Takes memory with these numbers in it; its address.
    fn put<T: Copy>(&mut self, numbers: &[T]) -> Result<u64> {
        let address = self.take(size_of_val(numbers))?;
        self.write(address, numbers)?;
        Ok(address)
    }
}

/// What replicas share on a GPU; given back when `held` is dropped.
pub(super) struct HeldThere<'a> {
    pub machine: &'a Machine,
    pub held: &'a mut Vec<DeviceMemory>,
}

impl SharedMemory for HeldThere<'_> {
    fn fits(&self, bytes: usize) -> Result<()> {
        self.machine.has_room(bytes)
    }

    fn take(&mut self, bytes: usize) -> Result<u64> {
        let memory = self.machine.memory(bytes)?;
        let address = memory.address;
        self.held.push(memory);
        Ok(address)
    }

    fn write<T: Copy>(&mut self, address: u64, numbers: &[T]) -> Result<()> {
        self.machine.write(address, numbers)
    }
}

/// The memory of all replicas.
pub(super) struct ReplicaMemory {
    memory: DeviceMemory,
    /// Numbers between the parts of two replicas.
    pub stride: usize,
    pub replicas: usize,
}

impl ReplicaMemory {
    /// Takes memory for `replicas` parts, all zeros.
    pub fn new(machine: &Machine, places: &Places, replicas: usize) -> Result<Self> {
        let stride = places.stride().max(ALIGNMENT);
        let memory = machine.memory(4 * stride * replicas)?;
        Ok(Self { memory, stride, replicas })
    }

    /// How many replicas one launch works for: their memory spans at most [`SPAN`] bytes.
    pub fn at_once(places: &Places, replicas: usize) -> usize {
        (SPAN / (4 * places.stride().max(ALIGNMENT))).clamp(1, replicas.max(1))
    }

    /// The parts of all replicas, `most` at a time.
    pub fn shares(&self, most: usize) -> Vec<Share> {
        let share = |first: usize| Share {
            address: self.address(Buffer::NONE, first),
            stride: self.stride,
            replicas: most.min(self.replicas - first),
        };
        (0..self.replicas).step_by(most).map(share).collect()
    }

    /// The address of a buffer in a replica's part.
    pub fn address(&self, buffer: Buffer, replica: usize) -> u64 {
        assert!(replica < self.replicas && buffer.offset + buffer.length <= self.stride);
        self.memory.address + 4 * (buffer.offset + replica * self.stride) as u64
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.memory.bytes
    }
}

/// The memory of some neighbouring replicas, for which one launch works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Share {
    address: u64,
    /// Numbers between the parts of two replicas.
    pub stride: usize,
    pub replicas: usize,
}

impl Share {
    /// The address of a buffer in the part of the first of them.
    pub fn address(&self, buffer: Buffer) -> u64 {
        assert!(buffer.offset + buffer.length <= self.stride);
        self.address + 4 * buffer.offset as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_never_overlap_and_begin_aligned() {
        let mut places = Places::default();
        let first = places.one(3);
        let pair = places.side_by_side(&[5, 7]);
        let last = places.one(1);
        assert_eq!((first.offset, pair[0].offset, pair[1].offset), (0, 64, 69));
        assert_eq!((last.offset, places.stride()), (128, 192));
        assert_eq!(pair[0].and(pair[1]).range(), 64..76);
        assert_eq!(pair[1].part(2, 3).range(), 71..74);
    }

    #[test]
    fn launches_reach_over_two_gibibytes_at_most_and_over_one_replica_at_least() {
        let mut places = Places::default();
        places.one(25 << 20);
        assert_eq!(
            [1, 8, 20, 64].map(|seeds| ReplicaMemory::at_once(&places, seeds)),
            [1, 8, 20, 20]
        );
        places.one(1 << 30);
        assert_eq!(ReplicaMemory::at_once(&places, 8), 1);
    }

    #[test]
    fn numbers_side_by_side_that_kernels_cannot_count_are_refused_and_many_apart_are_not() {
        let mut places = Places::default();
        places.one(MOST_NUMBERS);
        places.one(MOST_NUMBERS);
        assert!(places.countable().is_ok());
        // Differences of all pairs of 2048 rows in 512 coordinates, as one and as two halves.
        for lengths in [vec![2048 * 2048 * 512], vec![1024 * 2048 * 512; 2]] {
            let mut places = Places::default();
            places.side_by_side(&lengths);
            let text = places.countable().unwrap_err().to_string();
            assert!(text.contains("`2147483648`") && text.contains("--device cpu"), "{text}");
        }
    }
}
