//! A distance as filled bands between isochrones, its colour bar, and exact contours over it.
//!
//! Bands are painted from the goal outward, each over all that is farther: band k covers {distance
//! ≥ k · step}. The mask is painted last, in white, along the half-way line of a mask smoothed by
//! (1, 2, 1) / 4 in both directions, so that it shows no stairs, and kept above one half at masked
//! nodes and below it at known ones, so that it hides no known node; under it the distance is
//! continued by the mean of known neighbours.

use super::super::{DistanceField, Isochrones, contour};
use super::axes::{self, Frame, TICK_SIZE};
use super::drawing::{Align, Drawing, GREY, Ink, PagePoint, TEXT, WHITE};
use super::{colour, font, geometry};

/// The most bands.
const BANDS: usize = 12;
/// How far the distance is continued under the mask, in cells.
const CONTINUED: usize = 3;
/// How often the mask is smoothed.
const SMOOTHED: usize = 3;
/// Pixels from the last map to the bar, and the bar's width.
const GAP: f64 = 16.0;
const BAR: f64 = 14.0;
/// What the bar measures.
const MEASURE: &str = "steps to the star";
/// Pixels per em of the number on a contour.
const LEVEL_SIZE: f64 = 10.5;

/// The bands all panels share.
#[derive(Debug)]
pub(super) struct ColourScale {
    step: f64,
    count: usize,
    /// Whether some distance lies beyond the last band.
    open: bool,
}

impl ColourScale {
    pub(super) fn new(input: &Isochrones) -> Self {
        let ranges = input.panels.iter().filter_map(|panel| panel.distance.range());
        let largest = ranges.map(|range| f64::from(range[1])).fold(0.0, f64::max);
        Self::up_to(largest, input.farthest)
    }

    /// Bands up to `farthest`, or else up to the `largest` distance there is.
    pub(super) fn up_to(largest: f64, farthest: Option<f32>) -> Self {
        let farthest = farthest.map_or(largest, f64::from);
        // A distance that is zero everywhere still has a bar.
        let farthest = if farthest > 0.0 { farthest } else { 1.0 };
        let step = axes::round_step(farthest, BANDS);
        let count = ((farthest / step - 1e-6).ceil() as usize).max(1);
        Self { step, count, open: largest > step * count as f64 * (1.0 + 1e-6) }
    }

    /// The colour of a distance.
    pub(super) fn ink(&self, steps: f64) -> Ink {
        colour::band(((steps / self.step) as usize).min(self.count - 1), self.count)
    }

    fn label(&self, index: usize) -> String {
        let more = if self.open && index == self.count { "+" } else { "" };
        axes::label(index as f64 * self.step, self.step) + more
    }

    /// The room right of the last map.
    pub(super) fn room(&self) -> f64 {
        let width = |index| font::width(&self.label(index), TICK_SIZE);
        let widest = (0..=self.count).map(width).fold(0.0, f64::max);
        GAP + BAR + 8.0 + widest + 8.0 + axes::LABEL_SIZE
    }
}

/// Fills the map of a distance.
pub(super) fn draw(
    drawing: &mut Drawing,
    frame: &Frame,
    distance: &DistanceField,
    scale: &ColourScale,
) {
    let continued = continued(distance);
    for band in 0..scale.count {
        let level = match band {
            0 => f32::NEG_INFINITY,
            band => (band as f64 * scale.step) as f32,
        };
        let rings = placed(frame, contour::rings(&continued, level));
        if !rings.is_empty() {
            drawing.area(rings, colour::band(band, scale.count));
        }
    }
    for band in 1..scale.count {
        for line in continued.contours((band as f64 * scale.step) as f32) {
            let line = line.into_iter().map(|point| frame.point(point)).collect();
            drawing.line(line, 0.7, WHITE.opacity(0.45));
        }
    }
    let hidden = placed(frame, contour::rings(&hidden(distance), 0.5));
    if !hidden.is_empty() {
        drawing.area(hidden, WHITE);
    }
}

fn placed(frame: &Frame, rings: Vec<Vec<[f32; 2]>>) -> Vec<Vec<PagePoint>> {
    let place = |ring: Vec<[f32; 2]>| ring.into_iter().map(|point| frame.point(point)).collect();
    rings.into_iter().map(place).collect()
}

/// The distance with its masked nodes filled from known neighbours, a few cells deep.
fn continued(distance: &DistanceField) -> DistanceField {
    let mut field = distance.clone();
    for value in field.values.iter_mut().filter(|value| !value.is_finite()) {
        *value = f32::NAN;
    }
    for _ in 0..CONTINUED {
        let before = field.clone();
        for row in 0..field.rows {
            for column in 0..field.columns {
                if before.value(column, row).is_nan() {
                    let (total, count) = around(&before, column, row)
                        .filter(|(_, value)| !value.is_nan())
                        .fold((0.0, 0.0), |(total, count), (_, value)| {
                            (total + value, count + 1.0)
                        });
                    field.values[row * before.columns + column] = total / count;
                }
            }
        }
    }
    field
}

/// A smooth mask: above one half at masked nodes, below it at known ones.
fn hidden(distance: &DistanceField) -> DistanceField {
    let indicator = |value: &f32| if value.is_finite() { 0.0 } else { 1.0 };
    let sharp: Vec<f32> = distance.values.iter().map(indicator).collect();
    let mut smooth = DistanceField { values: sharp.clone(), ..distance.clone() };
    for _ in 0..SMOOTHED {
        let before = smooth.clone();
        for row in 0..before.rows {
            for column in 0..before.columns {
                let (total, weight) = around(&before, column, row)
                    .fold((0.0, 0.0), |(total, sum), (weight, value)| {
                        (total + weight * value, sum + weight)
                    });
                smooth.values[row * before.columns + column] = total / weight;
            }
        }
    }
    for (value, masked) in smooth.values.iter_mut().zip(sharp) {
        *value = if masked == 1.0 { value.max(0.55) } else { value.min(0.45) };
    }
    smooth
}

/// A node and its up to eight neighbours: weight (1, 2, 1) × (1, 2, 1), and value.
fn around(field: &DistanceField, column: usize, row: usize) -> impl Iterator<Item = (f32, f32)> {
    let near = |at: usize, count: usize| at.saturating_sub(1)..=(at + 1).min(count - 1);
    near(row, field.rows).flat_map(move |other_row| {
        near(column, field.columns).map(move |other_column| {
            let weight = |at: usize, other: usize| if at == other { 2.0 } else { 1.0 };
            (
                weight(row, other_row) * weight(column, other_column),
                field.value(other_column, other_row),
            )
        })
    })
}

/// Draws the colour bar right of the last map.
pub(super) fn bar(drawing: &mut Drawing, last: &Frame, scale: &ColourScale) {
    let left = last.right() + GAP;
    let height = last.size[1] / scale.count as f64;
    let level = |index: usize| last.bottom() - height * index as f64;
    for band in 0..scale.count {
        let ink = colour::band(band, scale.count);
        drawing.rectangle([left, level(band + 1)], [BAR, height + 0.4], ink);
    }
    let (top, bottom) = (last.corner[1], last.bottom());
    let (right, ring) = (left + BAR, [[left, top], [left, bottom]]);
    let outline = [ring[0], [right, top], [right, bottom], ring[1], ring[0], [right, top]];
    drawing.line(outline.to_vec(), 1.0, GREY);
    let stride = ((TICK_SIZE + 3.0) / height).ceil().max(1.0) as usize;
    for index in (0..=scale.count).filter(|index| index % stride == 0) {
        drawing.line(vec![[right, level(index)], [right + 4.0, level(index)]], 1.0, GREY);
        let at = [right + 7.0, level(index) + 0.36 * TICK_SIZE];
        drawing.text(at, &scale.label(index), TICK_SIZE, Align::Start, TEXT);
    }
    let at = [last.right() + scale.room() - 2.0, 0.5 * (top + bottom)];
    drawing.upward(at, MEASURE, axes::LABEL_SIZE, TEXT);
}

/// Draws the contours of the exact distance, each with its number.
pub(super) fn exact(
    drawing: &mut Drawing,
    frame: &Frame,
    exact: &DistanceField,
    levels: &[f32],
    avoid: &[PagePoint],
) {
    let mut taken: Vec<(PagePoint, f64)> = avoid.iter().map(|place| (*place, 4.0)).collect();
    let mut labels = Vec::new();
    for &level in levels {
        let lines: Vec<Vec<PagePoint>> = placed(frame, exact.contours(level));
        for line in &lines {
            drawing.line(line.clone(), 2.2, WHITE.opacity(0.5));
            drawing.dashes(line.clone(), 1.2, [5.0, 3.5], TEXT);
        }
        let words = axes::label(f64::from(level), f64::from(level).abs().max(1e-3));
        let width = font::width(&words, LEVEL_SIZE) + 6.0;
        if let Some(at) = spot(frame, &lines, width, &taken) {
            taken.push((at, 0.5 * width));
            labels.push((at, words, width));
        }
    }
    for (at, words, width) in labels {
        let corner = [at[0] - 0.5 * width, at[1] - 7.0];
        drawing.rectangle(corner, [width, 14.0], WHITE.opacity(0.85));
        drawing.text([at[0], at[1] + 0.36 * LEVEL_SIZE], &words, LEVEL_SIZE, Align::Middle, TEXT);
    }
}

/// A place on the longest line, or else on a shorter one, where a label covers nothing.
fn spot(
    frame: &Frame,
    lines: &[Vec<PagePoint>],
    width: f64,
    taken: &[(PagePoint, f64)],
) -> Option<PagePoint> {
    let mut lines: Vec<&Vec<PagePoint>> = lines.iter().collect();
    lines.sort_by(|one, other| geometry::length(other).total_cmp(&geometry::length(one)));
    let shares = [0.5, 0.35, 0.65, 0.2, 0.8, 0.1, 0.9];
    let places = lines.into_iter().flat_map(|line| {
        let length = geometry::length(line);
        shares.into_iter().filter_map(move |share| geometry::position(line, share * length))
    });
    let half = 0.5 * width;
    places.into_iter().find(|at| {
        let corners = [[at[0] - half, at[1] - 7.0], [at[0] + half, at[1] + 7.0]];
        corners.iter().all(|corner| frame.holds(*corner))
            && taken.iter().all(|(other, room)| geometry::distance(*at, *other) > half + room + 5.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half_masked() -> DistanceField {
        DistanceField::from_fn([0.0, 1.0], [0.0, 1.0], 21, 21, |[x, _]| {
            if x > 0.5 + 1e-6 { f32::NAN } else { 10.0 * x }
        })
        .unwrap()
    }

    #[test]
    fn the_white_mask_begins_half_a_cell_behind_the_last_known_node() {
        let rings = contour::rings(&hidden(&half_masked()), 0.5);
        let leftmost = rings.iter().flatten().map(|point| point[0]).fold(f32::INFINITY, f32::min);
        assert!((leftmost - 0.525).abs() < 1e-4, "{leftmost}");
        let open = DistanceField::from_fn([0.0, 1.0], [0.0, 1.0], 9, 9, |_| 1.0).unwrap();
        assert!(contour::rings(&hidden(&open), 0.5).is_empty());
    }

    #[test]
    fn a_corridor_one_node_wide_is_not_hidden() {
        let corridor = DistanceField::from_fn([0.0, 1.0], [0.0, 1.0], 11, 11, |[x, _]| {
            if (x - 0.5).abs() < 0.01 { 1.0 } else { f32::NAN }
        })
        .unwrap();
        let hidden = hidden(&corridor);
        for row in 0..11 {
            assert!(hidden.value(5, row) < 0.5 && hidden.value(4, row) > 0.5);
        }
    }

    #[test]
    fn the_distance_is_continued_only_under_the_mask() {
        let field = half_masked();
        let continued = continued(&field);
        for (before, after) in field.values.iter().zip(&continued.values) {
            assert!(before.is_nan() || before == after);
        }
        assert_eq!(continued.value(11, 5), 5.0);
        assert!(continued.value(10 + CONTINUED, 5).is_finite());
        assert!(continued.value(11 + CONTINUED, 5).is_nan());
    }
}
