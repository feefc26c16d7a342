//! Where rows stand in their file, for complaints about a value: readers drop rows and join arrays.

#![cfg_attr(not(feature = "hdf5"), allow(dead_code))]

/// The way out of a row that is not finite where rows follow each other.
const END_BEFORE: &str = "end the trajectory at the row before (`terminals` is 1 there) and drop the row: \
                          what follows is a trajectory of its own";
/// The same where the last row of every trajectory is dropped.
const END_HERE: &str = "set `timeouts` to 1 in this row: it ends its trajectory there and is dropped, and \
                        what follows is a trajectory of its own";
/// The same where every trajectory has arrays of its own.
const SPLIT: &str = "split the episode: the rows before this one and those after it are episodes of their \
                     own, each with one observation more than actions";

/// What every format calls its actions.
const ACTIONS: &str = "actions";

/// Where a value stands in its file.
pub(super) struct Spot<'a> {
    pub(super) key: &'a str,
    pub(super) row: usize,
    pub(super) column: usize,
    /// The way out if it is not finite.
    pub(super) mend: &'static str,
}

impl<'a> Spot<'a> {
    /// In an array whose rows are all read, one after the other.
    pub(super) fn in_order(key: &'a str, row: usize, column: usize) -> Self {
        Self { key, row, column, mend: END_BEFORE }
    }

    /// In an array of which the last row of every trajectory is dropped.
    pub(super) fn among_dropped(key: &'a str, row: usize, column: usize) -> Self {
        Self { mend: END_HERE, ..Self::in_order(key, row, column) }
    }
}

/// Where the trajectories of a file stand in it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Origins {
    /// One after the other, with all rows.
    #[default]
    InOrder,
    /// Between rows that are dropped: the first row of each.
    AmongDropped(Vec<usize>),
    /// Each in arrays of its own.
    Apart(Vec<EpisodeArrays>),
}

/// The arrays of one trajectory.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EpisodeArrays {
    /// Those that are concatenated to states, each with its values per row.
    pub(super) states: Vec<(String, usize)>,
    pub(super) actions: String,
}

impl EpisodeArrays {
    /// The place of a value among the states, or the actions if these are `key`.
    pub(super) fn place(&self, key: &str, row: usize, mut column: usize) -> Spot<'_> {
        let mut array = &self.actions;
        if key != ACTIONS {
            for (name, size) in &self.states {
                array = name;
                if column < *size {
                    break;
                }
                column -= size;
            }
        }
        Spot { mend: SPLIT, ..Spot::in_order(array, row, column) }
    }
}

impl Origins {
    /// The place of a value in row `row` of `key` after the first `before` rows of all; `lengths` holds
    /// the rows of each trajectory.
    pub(super) fn place<'a>(
        &'a self,
        key: &'a str,
        (before, row): (usize, usize),
        column: usize,
        lengths: &[usize],
    ) -> Spot<'a> {
        let mut inside = before + row;
        let index = lengths.iter().take_while(|&&length| {
            let is_before = length <= inside;
            inside -= if is_before { length } else { 0 };
            is_before
        });
        let index = index.count();
        match self {
            Self::InOrder => Spot::in_order(key, row, column),
            Self::AmongDropped(first) => Spot::among_dropped(key, first[index] + inside, column),
            Self::Apart(arrays) => arrays[index].place(key, inside, column),
        }
    }

    /// Adds the trajectories of another file of the same format.
    pub(super) fn extend(&mut self, more: Self) {
        match (self, more) {
            (Self::AmongDropped(all), Self::AmongDropped(more)) => all.extend(more),
            (Self::Apart(all), Self::Apart(more)) => all.extend(more),
            (all, more) => *all = more,
        }
    }
}
