//! A number over a rectangle of the plane, on a grid of nodes, with holes where nothing is known.
//!
//! Node (column, row) lies at (left + (right − left) · column / (columns − 1), bottom + (top −
//! bottom) · row / (rows − 1)), so the outer nodes lie on the rectangle's border and row 0 is the
//! lowest. Between nodes the field is bilinear; NaN marks a hole and is written as `null`.

use serde::{Deserialize, Serialize};

use super::holes;
use crate::{Error, Result};

/// A number over a rectangle, known at the nodes of a grid; NaN where it is not known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistanceField {
    /// The smallest horizontal coordinate.
    pub left: f32,
    /// The largest horizontal coordinate.
    pub right: f32,
    /// The smallest vertical coordinate.
    pub bottom: f32,
    /// The largest vertical coordinate.
    pub top: f32,
    /// Nodes in a row, at least 2.
    pub columns: usize,
    /// Rows of nodes, at least 2.
    pub rows: usize,
    /// `columns × rows` numbers, row after row from the bottom; NaN masks a node.
    #[serde(with = "holes::one_row")]
    pub values: Vec<f32>,
}

impl DistanceField {
    /// Fills a grid over `[left, right] × [bottom, top]` with `value` at each node.
    ///
    /// # Errors
    ///
    /// The rectangle is empty or not finite, or the grid has fewer than two rows or columns.
    pub fn from_fn(
        [left, right]: [f32; 2],
        [bottom, top]: [f32; 2],
        columns: usize,
        rows: usize,
        mut value: impl FnMut([f32; 2]) -> f32,
    ) -> Result<Self> {
        let mut field = Self { left, right, bottom, top, columns, rows, values: Vec::new() };
        field.check_grid()?;
        field.values = (0..rows)
            .flat_map(|row| (0..columns).map(move |column| (column, row)))
            .map(|(column, row)| value(field.node(column, row)))
            .collect();
        Ok(field)
    }

    /// Says whether the rectangle, the grid and the number of values fit together.
    ///
    /// # Errors
    ///
    /// The first thing that does not fit, with what was expected.
    pub fn check(&self) -> Result<()> {
        self.check_grid()?;
        let expected = self.columns * self.rows;
        if self.values.len() != expected {
            return Err(Error::input(format!(
                "a field of `{}` × `{}` nodes has `{}` values, expected `{expected}`",
                self.columns,
                self.rows,
                self.values.len()
            )));
        }
        Ok(())
    }

    fn check_grid(&self) -> Result<()> {
        let sides = [self.left, self.right, self.bottom, self.top];
        let finite = sides.iter().all(|side| side.is_finite());
        if !finite || self.left >= self.right || self.bottom >= self.top {
            return Err(Error::input(format!(
                "a field spans `{}` to `{}` by `{}` to `{}`, expected finite sides in rising order",
                self.left, self.right, self.bottom, self.top
            )));
        }
        if self.columns < 2 || self.rows < 2 {
            return Err(Error::input(format!(
                "a field has `{}` columns and `{}` rows, expected at least 2 of each",
                self.columns, self.rows
            )));
        }
        Ok(())
    }

    /// Where the node (`column`, `row`) lies.
    pub fn node(&self, column: usize, row: usize) -> [f32; 2] {
        let across = column as f32 / (self.columns - 1) as f32;
        let up = row as f32 / (self.rows - 1) as f32;
        [self.left + (self.right - self.left) * across, self.bottom + (self.top - self.bottom) * up]
    }

    /// The value at the node (`column`, `row`).
    pub fn value(&self, column: usize, row: usize) -> f32 {
        self.values[row * self.columns + column]
    }

    /// The bilinear value at `point`: NaN outside the rectangle, and where a node that has a say
    /// is masked.
    pub fn sample(&self, point: [f32; 2]) -> f32 {
        let across = (point[0] - self.left) / (self.right - self.left) * (self.columns - 1) as f32;
        let up = (point[1] - self.bottom) / (self.top - self.bottom) * (self.rows - 1) as f32;
        let within = (0.0..=(self.columns - 1) as f32).contains(&across)
            && (0.0..=(self.rows - 1) as f32).contains(&up);
        if !within {
            return f32::NAN;
        }
        let column = (across as usize).min(self.columns - 2);
        let row = (up as usize).min(self.rows - 2);
        let (right, above) = (across - column as f32, up - row as f32);
        let corners = [
            ((1.0 - right) * (1.0 - above), self.value(column, row)),
            (right * (1.0 - above), self.value(column + 1, row)),
            ((1.0 - right) * above, self.value(column, row + 1)),
            (right * above, self.value(column + 1, row + 1)),
        ];
        // A corner without weight has no say, masked or not.
        corners
            .iter()
            .filter(|(weight, _)| *weight > 0.0)
            .map(|(weight, value)| weight * value)
            .sum()
    }

    /// The smallest and largest finite value, where there is one.
    pub fn range(&self) -> Option<[f32; 2]> {
        self.values.iter().filter(|value| value.is_finite()).fold(None, |range, &value| {
            let [low, high] = range.unwrap_or([value, value]);
            Some([low.min(value), high.max(value)])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane(columns: usize, rows: usize) -> DistanceField {
        DistanceField::from_fn([-1.0, 3.0], [2.0, 4.0], columns, rows, |[x, y]| {
            2.0 * x - 3.0 * y + 1.0
        })
        .unwrap()
    }

    #[test]
    fn a_plane_is_sampled_exactly_between_nodes_and_at_the_border() {
        let field = plane(7, 4);
        for point in [[-1.0, 2.0], [3.0, 4.0], [0.3, 2.9], [2.99, 2.01], [-1.0, 3.7]] {
            let expected = 2.0 * point[0] - 3.0 * point[1] + 1.0;
            assert!((field.sample(point) - expected).abs() < 1e-5, "{point:?}");
        }
        assert!(field.sample([3.1, 3.0]).is_nan());
        assert!(field.sample([0.0, 1.9]).is_nan());
        assert!(field.sample([f32::NAN, 3.0]).is_nan());
    }

    #[test]
    fn a_masked_node_masks_its_cells_and_nothing_else() {
        let mut field = plane(5, 3);
        field.values[5 + 2] = f32::NAN;
        assert_eq!(field.node(2, 1), [1.0, 3.0]);
        assert!(field.sample([1.0, 3.0]).is_nan());
        assert!(field.sample([1.9, 3.9]).is_nan());
        assert!(!field.sample([2.0, 3.0]).is_nan(), "the next node does not hear its neighbour");
        assert!(!field.sample([2.1, 3.5]).is_nan());
        assert_eq!(field.range(), Some([-13.0, 1.0]));
    }

    #[test]
    fn holes_survive_json() {
        let mut field = plane(3, 2);
        field.values[4] = f32::NAN;
        let text = serde_json::to_string(&field).unwrap();
        assert!(text.contains("null"));
        let back: DistanceField = serde_json::from_str(&text).unwrap();
        assert!(back.values[4].is_nan());
        field.values[4] = 0.0;
        assert_eq!(DistanceField { values: field.values.clone(), ..back.clone() }, field);
        assert_eq!(back.values[..4], field.values[..4]);
    }

    #[test]
    fn grids_that_do_not_fit_are_refused() {
        assert!(DistanceField::from_fn([0.0, 0.0], [0.0, 1.0], 3, 3, |_| 0.0).is_err());
        assert!(DistanceField::from_fn([0.0, f32::NAN], [0.0, 1.0], 3, 3, |_| 0.0).is_err());
        assert!(DistanceField::from_fn([0.0, 1.0], [0.0, 1.0], 1, 3, |_| 0.0).is_err());
        let mut field = plane(3, 2);
        field.values.pop();
        let error = field.check().unwrap_err().to_string();
        assert_eq!(error, "a field of `3` × `2` nodes has `5` values, expected `6`");
    }
}
