//! How often each part of a plane was visited: rows counted in square cells.

use crate::error::{Error, Result};

/// Rows counted in square cells of a rectangle.
#[derive(Debug, Clone, PartialEq)]
pub struct Coverage {
    /// What stands above the picture.
    pub title: String,
    /// What stands below it.
    pub caption: String,
    /// What the horizontal and the vertical axis are.
    pub axes: [String; 2],
    /// The lower left corner.
    pub corner: [f32; 2],
    /// The side of a cell.
    pub cell: f32,
    /// Cells from left to right.
    pub columns: usize,
    /// Cells from bottom to top.
    pub rows: usize,
    /// Row after row from the bottom, each from the left.
    pub counts: Vec<u32>,
}

impl Coverage {
    /// Counts points in cells, `cells` of them along the longer side; points that are not finite
    /// are left out.
    ///
    /// # Errors
    /// No finite point, or all at one place.
    pub fn of(points: impl Iterator<Item = [f32; 2]> + Clone, cells: usize) -> Result<Self> {
        let points = points.filter(|point| point.iter().all(|number| number.is_finite()));
        let start = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
        let (low, high) = points.clone().fold(start, |(low, high), [x, y]| {
            ([low[0].min(x), low[1].min(y)], [high[0].max(x), high[1].max(y)])
        });
        let extent = [high[0] - low[0], high[1] - low[1]];
        let cell = extent[0].max(extent[1]) / cells as f32;
        if !(cell > 0.0 && cell.is_finite()) {
            return Err(Error::input("the positions have no extent to draw")
                .hint("look at the ranges that `isochrone data inspect` prints"));
        }
        let [columns, rows] = extent.map(|extent| (extent / cell) as usize + 1);
        let mut counts = vec![0u32; columns * rows];
        for [x, y] in points {
            let place =
                |value: f32, low: f32, most: usize| (((value - low) / cell) as usize).min(most - 1);
            let (column, row) = (place(x, low[0], columns), place(y, low[1], rows));
            let count = &mut counts[row * columns + column];
            *count = count.saturating_add(1);
        }
        let empty = String::new;
        Ok(Self {
            title: empty(),
            caption: empty(),
            axes: [empty(), empty()],
            corner: low,
            cell,
            columns,
            rows,
            counts,
        })
    }

    /// The share of all cells that hold a point.
    pub fn visited(&self) -> f64 {
        let held = self.counts.iter().filter(|&&count| count > 0).count();
        held as f64 / self.counts.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_point_is_counted_in_its_cell() {
        let points = [[0.0, 0.0], [0.1, 0.1], [3.9, 0.0], [4.0, 2.0], [f32::NAN, 1.0]];
        let found = Coverage::of(points.into_iter(), 4).unwrap();
        assert_eq!((found.columns, found.rows, found.cell), (5, 3, 1.0));
        assert_eq!(found.counts[..5], [2, 0, 0, 1, 0]);
        assert_eq!(found.counts[10..], [0, 0, 0, 0, 1]);
        assert_eq!(found.visited(), 3.0 / 15.0);
    }

    #[test]
    fn one_place_has_no_extent() {
        assert!(Coverage::of([[1.0, 1.0]; 3].into_iter(), 4).is_err());
        assert!(Coverage::of([[f32::NAN, 1.0]; 3].into_iter(), 4).is_err());
    }
}
