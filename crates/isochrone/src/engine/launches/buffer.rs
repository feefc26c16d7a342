//! Where an operation's numbers lie on a GPU: a place in the memory of every replica.

use std::ops::Range;

/// A place in every replica's memory: so many numbers of four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buffer {
    pub(in crate::engine) offset: usize,
    pub(in crate::engine) length: usize,
}

impl Buffer {
    /// No numbers, at the beginning of the memory.
    pub(in crate::engine) const NONE: Self = Self { offset: 0, length: 0 };

    /// The `length` numbers from number `first` on.
    ///
    /// # Panics
    /// Where they are not all inside.
    pub fn part(self, first: usize, length: usize) -> Self {
        assert!(first + length <= self.length, "a part of a buffer of {} numbers", self.length);
        Self { offset: self.offset + first, length }
    }

    /// How many numbers.
    pub fn length(self) -> usize {
        self.length
    }

    /// Whether four numbers at once may be read from its beginning.
    pub fn is_aligned(self) -> bool {
        self.offset.is_multiple_of(4)
    }

    pub(in crate::engine) fn range(self) -> Range<usize> {
        self.offset..self.offset + self.length
    }

    /// This buffer and the `next` one, which begins where it ends.
    pub(in crate::engine) fn and(self, next: Self) -> Self {
        assert_eq!(self.offset + self.length, next.offset, "buffers side by side");
        Self { offset: self.offset, length: self.length + next.length }
    }
}

/// A gradient to write: added to what is there, or the first to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Where.
    pub buffer: Buffer,
    /// Whether what is there stays and is added to.
    pub keep: bool,
}
