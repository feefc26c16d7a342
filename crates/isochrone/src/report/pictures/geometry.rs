//! Shapes made of points: strokes, dashes, discs, stars, arrowheads, and walks along a line.

use std::f64::consts::TAU;

use super::drawing::{Drawing, Ink, PagePoint, WHITE};

/// A point of a line and the direction in which the line passes it, of length one.
pub(super) type Station = (PagePoint, PagePoint);

/// Points at even angles around `centre`, counted so that the ring winds like those of `stroke`.
pub(super) fn polygon(centre: PagePoint, radius: f64, corners: usize, turn: f64) -> Vec<PagePoint> {
    (0..corners)
        .map(|corner| {
            let angle = turn + TAU * corner as f64 / corners as f64;
            [centre[0] + radius * angle.cos(), centre[1] + radius * angle.sin()]
        })
        .collect()
}

/// A disc as a polygon whose sides are shorter than a pixel's eye.
pub(super) fn disc(centre: PagePoint, radius: f64) -> Vec<PagePoint> {
    polygon(centre, radius, (8.0 + 4.0 * radius) as usize, 0.0)
}

/// A stroke as rings that all wind the same way: one per segment, and a disc per join.
pub(super) fn stroke(points: &[PagePoint], width: f64) -> Vec<Vec<PagePoint>> {
    let half = 0.5 * width;
    let mut rings = Vec::new();
    for pair in points.windows(2) {
        let length = distance(pair[0], pair[1]);
        if length > 0.0 {
            let across = [0, 1].map(|axis| half * (pair[1][axis] - pair[0][axis]) / length);
            let shift = |point: PagePoint, sign: f64| {
                [point[0] - sign * across[1], point[1] + sign * across[0]]
            };
            rings.push(vec![
                shift(pair[0], 1.0),
                shift(pair[0], -1.0),
                shift(pair[1], -1.0),
                shift(pair[1], 1.0),
            ]);
        }
    }
    let joins = points.iter().skip(1).take(points.len().saturating_sub(2));
    rings.extend(joins.map(|join| disc(*join, half)));
    rings
}

/// The pieces of a line that dashes of (drawn, left out) pixels leave.
pub(super) fn dashes(points: &[PagePoint], [drawn, left_out]: [f64; 2]) -> Vec<Vec<PagePoint>> {
    let mut pieces = Vec::new();
    let mut piece: Vec<PagePoint> = points.first().copied().into_iter().collect();
    let (mut drawing, mut room) = (true, drawn);
    for pair in points.windows(2) {
        let length = distance(pair[0], pair[1]);
        let mut done = 0.0;
        while length - done > room {
            done += room;
            let at = between(pair[0], pair[1], done / length);
            if drawing {
                piece.push(at);
                pieces.push(std::mem::take(&mut piece));
            } else {
                piece = vec![at];
            }
            drawing = !drawing;
            room = if drawing { drawn } else { left_out };
        }
        room -= length - done;
        if drawing {
            piece.push(pair[1]);
        }
    }
    if drawing && piece.len() > 1 {
        pieces.push(piece);
    }
    pieces
}

/// Points along a line, `spacing` pixels apart, the first at half of it, with their directions.
///
/// A direction is taken over `REACH` pixels to either side, so that a jitter does not turn it.
pub(super) fn stations(points: &[PagePoint], spacing: f64) -> Vec<Station> {
    const REACH: f64 = 5.0;
    let total = length(points);
    let count = (total / spacing).round().max(1.0);
    let at = |done: f64| position(points, done.clamp(0.0, total));
    (0..count as usize)
        .filter_map(|index| {
            let done = total * (index as f64 + 0.5) / count;
            let (before, after) = (at(done - REACH)?, at(done + REACH)?);
            let reach = distance(before, after);
            let direction = [0, 1].map(|axis| (after[axis] - before[axis]) / reach);
            (reach > 0.0).then_some((at(done)?, direction))
        })
        .collect()
}

/// The length of a line.
pub(super) fn length(points: &[PagePoint]) -> f64 {
    points.windows(2).map(|pair| distance(pair[0], pair[1])).sum()
}

/// The point `done` pixels along a line.
pub(super) fn position(points: &[PagePoint], mut done: f64) -> Option<PagePoint> {
    for pair in points.windows(2) {
        let length = distance(pair[0], pair[1]);
        if done <= length && length > 0.0 {
            return Some(between(pair[0], pair[1], done / length));
        }
        done -= length;
    }
    points.last().copied()
}

/// Leaves out points nearer than `gap` pixels to the last one kept; both ends stay.
pub(super) fn thin(points: &[PagePoint], gap: f64) -> Vec<PagePoint> {
    let mut kept: Vec<PagePoint> = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let far = kept.last().is_none_or(|last| distance(*last, *point) >= gap);
        if far || index + 1 == points.len() {
            kept.push(*point);
        }
    }
    kept
}

pub(super) fn distance(from: PagePoint, to: PagePoint) -> f64 {
    (to[0] - from[0]).hypot(to[1] - from[1])
}

fn between(from: PagePoint, to: PagePoint, share: f64) -> PagePoint {
    [from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share]
}

/// The outline of an arrowhead, `size` pixels long.
fn head((at, direction): Station, size: f64) -> Vec<PagePoint> {
    let corner = |along: f64, aside: f64| {
        [
            at[0] + size * (along * direction[0] - aside * direction[1]),
            at[1] + size * (along * direction[1] + aside * direction[0]),
        ]
    };
    vec![corner(0.6, 0.0), corner(-0.4, 0.42), corner(-0.2, 0.0), corner(-0.4, -0.42)]
}

/// An arrowhead.
pub(super) fn arrowhead(drawing: &mut Drawing, station: Station, size: f64, ink: Ink) {
    drawing.area(vec![head(station, size)], ink);
}

/// An arrowhead with a white rim, for crowded places.
pub(super) fn rimmed_arrowhead(drawing: &mut Drawing, station: Station, size: f64, ink: Ink) {
    let outline = head(station, size);
    drawing.line(outline.iter().chain(&outline[..2]).copied().collect(), 2.0, WHITE);
    drawing.area(vec![outline], ink);
}

/// A five-pointed star with a dark rim.
pub(super) fn star(drawing: &mut Drawing, centre: PagePoint, radius: f64, ink: Ink, rim: Ink) {
    let tips = polygon(centre, radius, 5, -TAU / 4.0);
    let notches = polygon(centre, 0.45 * radius, 5, -TAU / 4.0 + TAU / 10.0);
    let outline: Vec<PagePoint> =
        tips.into_iter().zip(notches).flat_map(|(tip, notch)| [tip, notch]).collect();
    drawing.line(outline.iter().chain(&outline[..2]).copied().collect(), 0.32 * radius, rim);
    drawing.area(vec![outline], ink);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_keep_their_share_of_a_bent_line() {
        let line = [[0.0, 0.0], [30.0, 0.0], [30.0, 33.0]];
        let pieces = dashes(&line, [6.0, 3.0]);
        assert_eq!(pieces.len(), 7);
        let drawn: f64 = pieces.iter().map(|piece| length(piece)).sum();
        assert!((drawn - 42.0).abs() < 1e-9);
        assert_eq!(pieces[3].len(), 3, "the dash over the corner bends");
    }

    #[test]
    fn stations_are_evenly_spaced_and_look_ahead() {
        let line: Vec<PagePoint> = (0..=50).map(|step| [4.0 * f64::from(step), 7.0]).collect();
        let stations = stations(&line, 50.0);
        let across: Vec<f64> = stations.iter().map(|(at, _)| at[0]).collect();
        assert_eq!(across, [25.0, 75.0, 125.0, 175.0]);
        assert!(stations.iter().all(|(_, direction)| *direction == [1.0, 0.0]));
    }
}
