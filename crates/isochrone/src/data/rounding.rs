//! What rounding 64-bit values to 32 bits loses.
//!
//! A column far from zero, such as a coordinate in a national grid or a clock, may change by less per row
//! than it is rounded by. Some pairs of consecutive rows, spread evenly, tell both.

/// Pairs of rows that are looked at.
const PAIRS: usize = 256;
/// Values of them that are kept.
const KEPT: usize = 1 << 20;
/// A column is coarse if it is rounded by more than this share of what it changes by.
const MOST: f64 = 0.05;
/// Smaller changes, relative to the values, are the noise of computing in 64 bits.
const NOISE: f64 = 1e-12;
/// Columns that are listed.
const LISTED: usize = 8;

/// Looks at a matrix while its values are rounded, some at a time and in any order.
pub(super) struct Rounding {
    columns: usize,
    /// Rows from one pair to the next.
    every: usize,
    /// The values of the pairs, one after the other; NaN until they were seen.
    pairs: Vec<f64>,
}

impl Rounding {
    /// Of a matrix of this shape.
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        let columns = columns.max(1);
        let count = (rows / 2).min(PAIRS).min(KEPT / 2 / columns);
        let every = rows.checked_div(count).unwrap_or_default().max(2);
        Self { columns, every, pairs: vec![f64::NAN; count * 2 * columns] }
    }

    /// Sees values that follow each other in the matrix, the first of them at place `first`.
    pub(super) fn see(&mut self, first: usize, values: &[f64]) {
        let (size, period) = (2 * self.columns, self.every.saturating_mul(self.columns));
        let end = first + values.len();
        for (number, pair) in self.pairs.chunks_exact_mut(size).enumerate().skip(first / period) {
            let start = number * period;
            if start >= end {
                break;
            }
            let (from, to) = (start.max(first), (start + size).min(end));
            if from < to {
                pair[from - start..to - start].copy_from_slice(&values[from - first..to - first]);
            }
        }
    }

    /// The sentence about the columns of `key` that lose what they change by; none if all keep it.
    pub(super) fn note(&self, key: &str) -> Option<String> {
        let lost = |column: usize| self.lost(column).map(|(usual, error)| (column, usual, error));
        let columns = if self.pairs.is_empty() { 0 } else { self.columns };
        let mut coarse: Vec<(usize, f64, f64)> = (0..columns).filter_map(lost).collect();
        let share = |&(_, usual, error): &(usize, f64, f64)| error / usual;
        coarse.sort_by(|one, other| share(other).total_cmp(&share(one)));
        let (&(column, usual, error), others) = coarse.split_first()?;
        let mut also: Vec<String> =
            others.iter().take(LISTED).map(|(column, ..)| column.to_string()).collect();
        if others.len() > LISTED {
            also.push("more".into());
        }
        let also = match &also[..] {
            [] => String::new(),
            [only] => format!(", column {only} likewise"),
            [most @ .., last] => format!(", columns {} and {last} likewise", most.join(", ")),
        };
        Some(format!(
            "column {column} of `{key}` changes by {} per row but is rounded by up to {} as a \
             32-bit number{also}: subtract an offset before saving, the same in all files, such as \
             `array - array.mean(0)`",
            short(usual),
            short(error)
        ))
    }

    /// What a column usually changes by, and by how much it is rounded, if that is much of it.
    fn lost(&self, column: usize) -> Option<(f64, f64)> {
        let (mut changes, mut error) = (Vec::new(), 0.0f64);
        for pair in self.pairs.chunks_exact(2 * self.columns) {
            let values = [pair[column], pair[column + self.columns]];
            let change = (values[1] - values[0]).abs();
            if !change.is_finite() {
                continue;
            }
            for value in values {
                error = error.max((value - f64::from(value as f32)).abs());
            }
            if change > NOISE * values[0].abs().max(values[1].abs()) {
                changes.push(change);
            }
        }
        // A column may rest for long, but few rows are the last of a trajectory.
        let place = changes.len() * 9 / 10;
        if changes.is_empty() {
            return None;
        }
        let usual = *changes.select_nth_unstable_by(place, f64::total_cmp).1;
        (error > MOST * usual).then_some((usual, error))
    }
}

/// A number with two digits.
fn short(value: f64) -> String {
    let rounded = format!("{value:.1e}").parse::<f64>().unwrap_or(value);
    format!("{rounded:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The note about `rows` rows, seen in portions of `portion` values, the last portion first.
    fn noted<const C: usize>(
        rows: usize,
        portion: usize,
        row: impl Fn(usize) -> [f64; C],
    ) -> Option<String> {
        let values: Vec<f64> = (0..rows).flat_map(row).collect();
        let mut rounding = Rounding::new(rows, C);
        let portions: Vec<&[f64]> = values.chunks(portion).collect();
        for (number, part) in portions.into_iter().enumerate().rev() {
            rounding.see(number * portion, part);
        }
        rounding.note("states")
    }

    #[test]
    fn a_column_that_changes_by_less_than_it_is_rounded_by_is_named_with_the_way_out() {
        let track = |row: usize| [0.05 * row as f64, 4_649_776.0 + 0.05 * row as f64];
        for portion in [1, 3, 64, 10_000] {
            let note = noted(4_000, portion, track).unwrap();
            assert!(note.starts_with("column 1 of `states` changes by 0.05 per row"), "{note}");
            assert!(note.contains("rounded by up to 0.25 as a 32-bit number: subtract"), "{note}");
            assert!(note.ends_with("`array - array.mean(0)`"), "{note}");
        }
        // A clock in seconds, beside values that lose nothing.
        let clock = |row: usize| [1.7e9 + 0.02 * row as f64, (0.01 * row as f64).sin()];
        let note = noted(300, 7, clock).unwrap();
        assert!(note.starts_with("column 0 of `states`") && !note.contains("likewise"), "{note}");
        let both = |row: usize| [6e6 + 0.05 * row as f64, 0.0, 4e7 + 0.05 * row as f64];
        let note = noted(300, 1_000, both).unwrap();
        assert!(note.starts_with("column 2 of") && note.contains(", column 0 likewise"), "{note}");
    }

    #[test]
    fn columns_that_keep_what_they_change_by_are_not_named() {
        let wave = |row: usize| [(0.1 * row as f64).sin(), 20.0 * (0.01 * row as f64).cos()];
        assert_eq!(noted(1_000, 100, wave), None);
        // Exact in 32 bits, constant, or the noise of computing.
        let whole = |row: usize| [4_649_776.0 + (row % 9) as f64, 0.1, 0.3 + 1e-16 * row as f64];
        assert_eq!(noted(1_000, 100, whole), None);
        // At rest for most of the time, with the trembling of a simulation.
        let pushed = |row: usize| {
            let moved = if row % 100 < 30 { 0.01 * (row % 100) as f64 } else { 0.3 };
            [0.42 + moved + 1e-11 * (row % 3) as f64]
        };
        assert_eq!(noted(10_000, 100, pushed), None);
        for (rows, value) in [(0, 0.1), (1, 0.1), (2, f64::NAN), (9, f64::INFINITY)] {
            assert_eq!(noted(rows, 4, |_| [value]), None);
        }
        assert_eq!(Rounding::new(usize::MAX, usize::MAX).note("states"), None);
    }

    #[test]
    fn many_columns_are_listed_in_part() {
        let wide = |row: usize| [1e9 + 0.01 * row as f64; 20];
        let note = noted(50, 11, wide).unwrap();
        assert!(note.contains(", columns 1, 2, 3, 4, 5, 6, 7, 8 and more likewise"), "{note}");
        assert_eq!([short(0.05), short(1.234e-9), short(64.0)], ["0.05", "1.2e-9", "64.0"]);
    }
}
