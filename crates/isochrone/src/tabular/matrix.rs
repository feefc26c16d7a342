//! Numbers for ordered pairs: distances or occupancies, their triangle closure and audit.
//!
//! Closure: the largest d' ≤ d with d'(s, g) ≤ d'(s, w) + d'(w, g), which is the shortest path
//! (Floyd 1962, Warshall 1962). Audit: how often and how far d(s, g) exceeds d(s, w) + d(w, g).

use rayon::prelude::*;

use crate::error::{Error, Result};

/// Rows at which spreading them over threads pays.
const PARALLEL_ROWS: usize = 256;

/// One number for each ordered pair of a finite set; none of them is NaN.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    size: usize,
    values: Vec<f64>,
}

/// How well a matrix keeps the triangle inequality, over all triples (from, via, to).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TriangleAudit {
    /// All ordered triples, repeated members included.
    pub triples: u64,
    /// Triples where d(from, to) exceeds d(from, via) + d(via, to) by more than the tolerance.
    pub violations: u64,
    /// The largest excess of a violation, +∞ where a detour is finite and the direct way is not;
    /// 0 without violations.
    pub worst: f64,
    /// The (from, via, to) of the largest excess.
    pub worst_triple: Option<(usize, usize, usize)>,
}

impl Matrix {
    /// A matrix from its rows, one after the other.
    ///
    /// # Errors
    /// Another number of values than `size` × `size`, or a NaN, named by its place.
    pub fn new(size: usize, values: Vec<f64>) -> Result<Self> {
        if size.checked_mul(size) != Some(values.len()) {
            return Err(Error::input(format!("{} values, expected {size} × {size}", values.len())));
        }
        if let Some(place) = values.iter().position(|value| value.is_nan()) {
            return Err(Error::input(format!(
                "the value from `{}` to `{}` is not a number",
                place / size,
                place % size
            )));
        }
        Ok(Self { size, values })
    }

    /// A matrix whose columns are given; all must be as long as there are columns.
    pub(super) fn from_columns(columns: &[Vec<f64>]) -> Self {
        Self::from_fn(columns.len(), |from, to| columns[to][from])
    }

    /// A matrix of `value(from, to)`.
    pub(super) fn from_fn(size: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let mut values = Vec::with_capacity(size * size);
        for from in 0..size {
            values.extend((0..size).map(|to| value(from, to)));
        }
        Self { size, values }
    }

    /// The number of rows, which is the number of columns.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The number of the pair (`from`, `to`).
    pub fn between(&self, from: usize, to: usize) -> f64 {
        self.values[from * self.size + to]
    }

    /// The numbers from one member to all.
    pub fn row(&self, from: usize) -> &[f64] {
        &self.values[from * self.size..(from + 1) * self.size]
    }

    /// All numbers, row by row.
    pub fn as_slice(&self) -> &[f64] {
        &self.values
    }

    /// The same matrix with `change` applied to every number.
    #[must_use]
    pub fn map(mut self, change: impl Fn(f64) -> f64) -> Self {
        self.values.iter_mut().for_each(|value| *value = change(*value));
        self
    }

    /// The shortest way between all pairs through any others: the triangle closure.
    ///
    /// Takes size³ steps: some seconds for 1,500 members on two cores.
    #[must_use]
    pub fn closure(mut self) -> Self {
        let size = self.size;
        let mut onward = Vec::with_capacity(size);
        for via in 0..size {
            onward.clear();
            onward.extend_from_slice(self.row(via));
            let shorten = |row: &mut [f64]| {
                let first = row[via];
                if first < f64::INFINITY {
                    for (direct, second) in row.iter_mut().zip(&onward) {
                        let detour = first + second;
                        *direct = if detour < *direct { detour } else { *direct };
                    }
                }
            };
            if size >= PARALLEL_ROWS {
                self.values.par_chunks_mut(size).for_each(shorten);
            } else {
                self.values.chunks_mut(size).for_each(shorten);
            }
        }
        self
    }

    /// Counts the triples that break the triangle inequality by more than `tolerance`.
    pub fn audit(&self, tolerance: f64) -> TriangleAudit {
        let size = self.size;
        let (violations, worst, place) =
            (0..size).into_par_iter().map(|from| self.audit_row(from, tolerance)).reduce(
                || (0, 0.0, None),
                |left, right| {
                    let (_, worst, place) = if right.1 > left.1 { right } else { left };
                    (left.0 + right.0, worst, place)
                },
            );
        TriangleAudit { triples: (size as u64).pow(3), violations, worst, worst_triple: place }
    }

    fn audit_row(&self, from: usize, tolerance: f64) -> (u64, f64, Option<(usize, usize, usize)>) {
        let direct = self.row(from);
        let (mut violations, mut worst, mut place) = (0, 0.0, None);
        for via in (0..self.size).filter(|&via| direct[via] < f64::INFINITY) {
            let first = direct[via];
            // ∞ − ∞ is NaN, which exceeds nothing: an infinite detour breaks no inequality.
            let excesses = direct.iter().zip(self.row(via)).map(|(d, second)| d - (first + second));
            let mut largest = tolerance;
            for excess in excesses.clone() {
                violations += u64::from(excess > tolerance);
                largest = if excess > largest { excess } else { largest };
            }
            if largest > tolerance && largest > worst {
                worst = largest;
                place = excesses.clone().position(|e| e == worst).map(|to| (from, via, to));
            }
        }
        (violations, worst, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Stream};

    const NEVER: f64 = f64::INFINITY;

    #[test]
    fn the_audit_counts_violations_and_names_the_worst() {
        // 0 → 1 → 2 takes 2, but 0 → 2 is said to take 5; 2 → 0 is closed though 2 → 1 → 0 is not.
        let matrix = Matrix::new(3, vec![0., 1., 5., 1., 0., 1., 4., 1., 0.]).unwrap();
        let audit = matrix.audit(0.0);
        assert_eq!((audit.triples, audit.violations, audit.worst), (27, 2, 3.0));
        assert_eq!(audit.worst_triple, Some((0, 1, 2)));
        assert_eq!(matrix.audit(2.5).violations, 1);
        let closed = Matrix::new(3, vec![0., 1., 5., 1., 0., 1., NEVER, 1., 0.]).unwrap();
        let audit = closed.audit(0.0);
        assert_eq!((audit.violations, audit.worst), (2, NEVER));
        assert_eq!(audit.worst_triple, Some((2, 1, 0)));
        let apart = Matrix::new(2, vec![0., NEVER, NEVER, 0.]).unwrap();
        assert_eq!(apart.audit(0.0).violations, 0);
    }

    #[test]
    fn the_closure_is_the_shortest_path_and_breaks_no_inequality() {
        let matrix = Matrix::new(3, vec![0., 1., 5., NEVER, 0., 1., NEVER, NEVER, 0.]).unwrap();
        let closure = matrix.closure();
        assert_eq!(closure.as_slice(), [0., 1., 2., NEVER, 0., 1., NEVER, NEVER, 0.]);
    }

    #[test]
    fn a_large_closure_keeps_the_triangle_inequality_and_never_lengthens() {
        let size = 300;
        let mut draws = Stream::new(3, Purpose(901)).draws(0, 0);
        let matrix = Matrix {
            size,
            values: (0..size * size)
                .map(|place| {
                    let far = draws.uniform() < 0.9;
                    let length = draws.uniform();
                    if place % (size + 1) == 0 {
                        0.0
                    } else if far {
                        NEVER
                    } else {
                        length
                    }
                })
                .collect(),
        };
        assert!(matrix.audit(0.0).violations > 0);
        let closure = matrix.clone().closure();
        assert_eq!(closure.audit(1e-14).violations, 0);
        assert!(closure.as_slice().iter().zip(matrix.as_slice()).all(|(new, old)| new <= old));
        assert_eq!(closure.clone().closure(), closure);
    }

    #[test]
    fn a_value_that_is_not_a_number_is_refused_by_its_place() {
        let error = Matrix::new(2, vec![0.0, 1.0, f64::NAN, 0.0]).unwrap_err();
        assert_eq!(error.to_string(), "the value from `1` to `0` is not a number");
        assert!(Matrix::new(2, vec![0.0; 3]).is_err());
    }
}
