//! A legend: keys and names that flow into rows of a given width.

use super::colour::Stroke;
use super::drawing::{Align, Drawing, Ink, PagePoint, TEXT};
use super::{colour, font, geometry};

/// Pixels per em of the names.
const SIZE: f64 = 12.0;
/// Pixels of a key, and from key to name.
const KEY: f64 = 22.0;
const GAP: f64 = 6.0;
/// Pixels from one entry to the next, and from row to row.
const BETWEEN: f64 = 18.0;
pub(super) const ROW: f64 = 19.0;

/// What stands before a name.
#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    /// A line, of this width.
    Line(Ink, f64),
    /// A line with an arrowhead.
    Arrow(Ink),
    /// A line over a pale band.
    Band(Stroke),
    /// A dashed line.
    Dashes(Ink),
    /// A disc.
    Dot(Ink),
    /// The star of a goal.
    Star,
}

/// A key and what it means.
pub(super) type LegendEntry = (Key, String);

/// The height of a legend that is `room` pixels wide.
pub(super) fn height(entries: &[LegendEntry], room: f64) -> f64 {
    flow(entries, room).last().map_or(0.0, |last| last[1] + ROW)
}

/// Draws a legend below and right of `corner`.
pub(super) fn draw(drawing: &mut Drawing, corner: PagePoint, entries: &[LegendEntry], room: f64) {
    for ((key, name), offset) in entries.iter().zip(flow(entries, room)) {
        let left = corner[0] + offset[0];
        let middle = corner[1] + offset[1] + 0.5 * ROW;
        symbol(drawing, [left, middle], *key);
        let at = [left + KEY + GAP, middle + 0.36 * SIZE];
        drawing.text(at, name, SIZE, Align::Start, TEXT);
    }
}

/// Where each entry begins.
fn flow(entries: &[LegendEntry], room: f64) -> Vec<PagePoint> {
    let mut at = [0.0, 0.0];
    entries
        .iter()
        .map(|(_, name)| {
            let width = KEY + GAP + font::width(name, SIZE);
            if at[0] > 0.0 && at[0] + width > room {
                at = [0.0, at[1] + ROW];
            }
            let place = at;
            at[0] += width + BETWEEN;
            place
        })
        .collect()
}

fn symbol(drawing: &mut Drawing, [left, middle]: PagePoint, key: Key) {
    let ends = vec![[left, middle], [left + KEY, middle]];
    let centre = [left + 0.5 * KEY, middle];
    match key {
        Key::Line(ink, width) => drawing.line(ends, width, ink),
        Key::Arrow(ink) => {
            drawing.line(ends, 2.0, ink);
            geometry::arrowhead(drawing, (centre, [1.0, 0.0]), 9.0, ink);
        }
        Key::Band(Stroke { ink, dash }) => {
            drawing.rectangle([left, middle - 5.0], [KEY, 10.0], ink.opacity(0.22));
            match dash {
                None => drawing.line(ends, 2.0, ink),
                Some(dash) => drawing.dashes(ends, 2.0, dash, ink),
            }
        }
        Key::Dashes(ink) => drawing.dashes(ends, 1.4, [5.0, 3.5], ink),
        Key::Dot(ink) => drawing.disc(centre, 4.5, ink),
        Key::Star => geometry::star(drawing, centre, 8.0, colour::STAR, super::drawing::BLACK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_flow_into_rows_without_overlap() {
        let entry = |name: &str| (Key::Star, name.to_owned());
        let entries = ["first", "second", "third", "fourth"].map(entry);
        let places = flow(&entries, 180.0);
        assert_eq!(places[0], [0.0, 0.0]);
        assert!(places[1][0] > KEY + font::width("first", SIZE));
        assert_eq!(places[2], [0.0, ROW]);
        assert_eq!(height(&entries, 180.0), 2.0 * ROW);
        assert_eq!(height(&[], 180.0), 0.0);
    }
}
