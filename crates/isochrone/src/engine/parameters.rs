//! Arenas: all parameters of one learnable as one flat buffer with named views.

use super::Scalar;
use crate::random::{Purpose, Stream};

/// One arena among [`Parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaId(pub(super) usize);

/// A named view into an arena: rows × columns numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    pub(super) arena: ArenaId,
    pub(super) offset: usize,
    /// Rows of the view.
    pub rows: usize,
    /// Columns of the view.
    pub columns: usize,
}

impl Parameter {
    /// The numbers of this view among those of its arena.
    pub fn of<'a, T>(&self, arena: &'a [T]) -> &'a [T] {
        &arena[self.offset..self.offset + self.rows * self.columns]
    }
}

/// What a parameter is before the first update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Initial {
    /// Every number the same.
    Constant(f64),
    /// Uniform between −bound and bound.
    Uniform(f64),
}

#[derive(Debug, Clone)]
struct Entry {
    parameter: Parameter,
    name: String,
    initial: Initial,
}

#[derive(Debug, Clone, Default)]
struct Arena {
    name: String,
    entries: Vec<Entry>,
    length: usize,
}

/// The names, shapes and first values of all parameters of an algorithm.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    arenas: Vec<Arena>,
}

impl Parameters {
    /// Opens an arena called `name`.
    pub fn arena(&mut self, name: &str) -> ArenaId {
        self.arenas.push(Arena { name: name.to_owned(), ..Arena::default() });
        ArenaId(self.arenas.len() - 1)
    }

    /// Adds a parameter to an arena.
    pub fn add(
        &mut self,
        arena: ArenaId,
        name: &str,
        (rows, columns): (usize, usize),
        initial: Initial,
    ) -> Parameter {
        let target = &mut self.arenas[arena.0];
        let parameter = Parameter { arena, offset: target.length, rows, columns };
        // A length that cannot be is refused by its bytes before anything is allocated.
        target.length = target.length.saturating_add(rows.saturating_mul(columns));
        target.entries.push(Entry { parameter, name: name.to_owned(), initial });
        parameter
    }

    /// All arenas, in order.
    pub fn arenas(&self) -> impl Iterator<Item = ArenaId> + use<> {
        (0..self.arenas.len()).map(ArenaId)
    }

    /// The name of an arena.
    pub fn name(&self, arena: ArenaId) -> &str {
        &self.arenas[arena.0].name
    }

    /// How many numbers an arena holds.
    pub fn length(&self, arena: ArenaId) -> usize {
        self.arenas[arena.0].length
    }

    /// Bytes of all arenas in 32-bit numbers: values, gradients and the two moments of Adam.
    pub fn bytes(&self) -> u64 {
        let all =
            self.arenas.iter().fold(0u64, |sum, arena| sum.saturating_add(arena.length as u64));
        all.saturating_mul(4 * 4)
    }

    #[cfg(feature = "cuda")]
    /// Where the parameters of an arena end, in order.
    pub(super) fn ends(&self, arena: ArenaId) -> impl Iterator<Item = usize> {
        let ends =
            |entry: &Entry| entry.parameter.offset + entry.parameter.rows * entry.parameter.columns;
        self.arenas[arena.0].entries.iter().map(ends)
    }

    /// The name, view and numbers of every parameter of an arena.
    pub fn views<'a, T>(
        &'a self,
        arena: ArenaId,
        numbers: &'a [T],
    ) -> impl Iterator<Item = (&'a str, Parameter, &'a [T])> {
        self.arenas[arena.0]
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.parameter, entry.parameter.of(numbers)))
    }

    /// The first values of an arena for `seed`.
    pub(super) fn initial<T: Scalar>(&self, arena: ArenaId, seed: u64) -> Vec<T> {
        let mut numbers = Vec::with_capacity(self.length(arena));
        let stream = Stream::new(seed, Purpose::INITIAL);
        for (index, entry) in self.arenas[arena.0].entries.iter().enumerate() {
            let mut draws = stream.draws(arena.0 as u64, index as u32);
            numbers.extend((0..entry.parameter.rows * entry.parameter.columns).map(|_| {
                match entry.initial {
                    Initial::Constant(value) => T::of(value),
                    Initial::Uniform(bound) => T::of(draws.between(-bound, bound)),
                }
            }));
        }
        numbers
    }
}
