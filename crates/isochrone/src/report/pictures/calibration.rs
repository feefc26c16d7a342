//! Learned against known steps: square panels side by side, each with a legend of its own.

use super::super::{CalibrationChart, CalibrationPanel, Trend};
use super::axes::{self, Frame, LABEL_SIZE, Tick};
use super::chart::{BELOW, COMPARED};
use super::colour;
use super::drawing::{Align, BLACK, Drawing, PagePoint, TEXT};
use super::legend::{self, Key, LegendEntry};
use super::page::{MARGIN, Page};

/// The side of a panel, and of one that stands alone.
const PANEL: f64 = 360.0;
const ALONE: f64 = 440.0;
/// Pixels between panels.
const BETWEEN: f64 = 26.0;

/// Draws a calibration; the input is checked.
pub(super) fn draw(input: &CalibrationChart) -> Drawing {
    let side = if input.panels.len() == 1 { ALONE } else { PANEL };
    let ticks: Vec<Vec<Tick>> =
        input.panels.iter().map(|panel| axes::ticks(steps(panel), 6)).collect();
    let entries: Vec<Vec<LegendEntry>> = input.panels.iter().map(legend_of).collect();
    let mut right = MARGIN;
    let mut corners = Vec::new();
    for ticks in &ticks {
        let left = right + LABEL_SIZE + 8.0 + axes::room(ticks);
        corners.push(left);
        right = left + side + BETWEEN;
    }
    let width = right - BETWEEN + 12.0 + MARGIN;
    let page = Page::new(width, &input.title, &input.caption);
    let top = page.top() + 10.0;
    let legends = entries.iter().map(|entries| legend::height(entries, side));
    let mut drawing = page.sheet(top + side + BELOW + legends.fold(0.0, f64::max));
    for (index, panel) in input.panels.iter().enumerate() {
        let range = steps(panel);
        let (corner, size) = ([corners[index], top], [side, side]);
        let frame = Frame { corner, size, horizontal: range, vertical: range };
        draw_panel(&mut drawing, &frame, panel, &ticks[index]);
        let below = [corner[0], frame.bottom() + BELOW];
        legend::draw(&mut drawing, below, &entries[index], side);
    }
    drawing
}

fn draw_panel(drawing: &mut Drawing, frame: &Frame, panel: &CalibrationPanel, ticks: &[Tick]) {
    frame.grid(drawing, ticks, ticks);
    for pair in &panel.pairs {
        drawing.disc(frame.point(*pair), 2.6, colour::family(0).opacity(0.45));
    }
    if let Some(ends) = straight(frame, 1.0, 0.0) {
        drawing.dashes(ends, 1.4, [5.0, 3.5], COMPARED);
    }
    match &panel.trend {
        Trend::Line { slope, intercept } => {
            if let Some(ends) = straight(frame, f64::from(*slope), f64::from(*intercept)) {
                drawing.line(ends, 2.0, BLACK);
            }
        }
        Trend::Medians(medians) => {
            let points: Vec<PagePoint> = medians.iter().map(|&at| frame.point(at)).collect();
            points.iter().for_each(|&at| drawing.disc(at, 3.5, BLACK));
            if points.len() > 1 {
                drawing.line(points, 2.0, BLACK);
            }
        }
    }
    frame.draw(drawing, ticks, ticks, true);
    let middle = [0, 1].map(|axis| frame.corner[axis] + 0.5 * frame.size[axis]);
    let below = [middle[0], frame.bottom() + 36.0];
    drawing.text(below, &format!("{} steps", panel.known), LABEL_SIZE, Align::Middle, TEXT);
    let beside = frame.corner[0] - axes::room(ticks) - 10.0;
    drawing.upward([beside, middle[1]], "learned steps", LABEL_SIZE, TEXT);
}

fn legend_of(panel: &CalibrationPanel) -> Vec<LegendEntry> {
    let known = &panel.known;
    let trend = match &panel.trend {
        Trend::Line { slope, intercept } => fitted(known, *slope, *intercept),
        Trend::Medians(_) => format!("medians by {known} steps"),
    };
    vec![
        (Key::Dot(colour::family(0)), "a pair of recorded states".to_owned()),
        (Key::Line(BLACK, 2.0), trend),
        (Key::Dashes(COMPARED), format!("learned = {known}")),
    ]
}

/// The range of known and of learned steps alike, from zero where no number is below it.
fn steps(panel: &CalibrationPanel) -> [f64; 2] {
    let numbers = || panel.pairs.iter().flatten().map(|&number| f64::from(number));
    let [low, high] = axes::padded(numbers().chain([0.0]), 0.04);
    if numbers().all(|number| number >= 0.0) { [0.0, high] } else { [low, high] }
}

fn fitted(known: &str, slope: f32, intercept: f32) -> String {
    let sign = if intercept < 0.0 { '−' } else { '+' };
    let slope = format!("{slope:.2}").replace('-', "−");
    format!("learned ≈ {slope} × {known} {sign} {:.1}", intercept.abs())
}

/// The piece of a straight line that lies in the frame.
fn straight(frame: &Frame, slope: f64, intercept: f64) -> Option<Vec<PagePoint>> {
    let ([left, right], [bottom, top]) = (frame.horizontal, frame.vertical);
    let crossing = |height: f64| (height - intercept) / slope;
    let (first, last) = match slope {
        slope if slope > 0.0 => (left.max(crossing(bottom)), right.min(crossing(top))),
        slope if slope < 0.0 => (left.max(crossing(top)), right.min(crossing(bottom))),
        _ if (bottom..=top).contains(&intercept) => (left, right),
        _ => return None,
    };
    let at = |across: f64| frame.place(across, slope * across + intercept);
    (first < last).then(|| vec![at(first), at(last)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        let (horizontal, vertical) = ([0.0, 10.0], [0.0, 5.0]);
        Frame { corner: [0.0, 0.0], size: [100.0, 50.0], horizontal, vertical }
    }

    #[test]
    fn a_straight_line_is_cut_to_the_frame() {
        assert_eq!(straight(&frame(), 1.0, 0.0), Some(vec![[0.0, 50.0], [50.0, 0.0]]));
        assert_eq!(straight(&frame(), -1.0, 5.0), Some(vec![[0.0, 0.0], [50.0, 50.0]]));
        assert_eq!(straight(&frame(), 0.0, 2.5), Some(vec![[0.0, 25.0], [100.0, 25.0]]));
        assert_eq!(straight(&frame(), 0.0, 6.0), None);
        assert_eq!(straight(&frame(), 1.0, 9.0), None);
    }
}
