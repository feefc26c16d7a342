//! Learning curves of several worlds: panels of one size in two columns, one legend for all.

use super::super::{Comparison, Series, Spread};
use super::axes::{self, Frame, LABEL_SIZE, Tick};
use super::chart::{self, BELOW};
use super::colour;
use super::drawing::{Align, BLACK, Drawing, PagePoint, TEXT};
use super::legend::{self, Key, LegendEntry};
use super::page::{MARGIN, Page};

/// Width and height of a panel, and of one that stands alone.
const PANEL: PagePoint = [400.0, 260.0];
const ALONE: PagePoint = [620.0, 340.0];
/// Panels in a row.
const COLUMNS: usize = 2;
/// Pixels per em of a panel's name, and the room above the panel for it.
const NAME_SIZE: f64 = 14.0;
const NAME_ROOM: f64 = 26.0;
/// Pixels between panels.
const BETWEEN: f64 = 26.0;

/// Draws a comparison; the input is checked.
pub(super) fn draw(input: &Comparison) -> Drawing {
    let range = input.range.map(f64::from);
    let up = axes::ticks(range, 5);
    let size = if input.panels.len() == 1 { ALONE } else { PANEL };
    let columns = COLUMNS.min(input.panels.len());
    let left = MARGIN + LABEL_SIZE + 8.0 + axes::room(&up);
    let step = [left - MARGIN + size[0] + BETWEEN, NAME_ROOM + size[1] + BELOW];
    let width = 2.0 * MARGIN + columns as f64 * step[0] - BETWEEN + 12.0;
    let all = input.panels.iter().flat_map(|(_, series)| series);
    let caption = format!("{} {}", input.caption, chart::meaning(all, Spread::StandardError));
    let page = Page::new(width, &input.title, &caption);
    let names = input.names();
    let entries: Vec<LegendEntry> = (0..)
        .zip(&names)
        .map(|(index, name)| (Key::Band(colour::stroke(index)), (*name).to_owned()))
        .collect();
    let room = width - left - MARGIN;
    let below = page.top() + step[1] * input.panels.len().div_ceil(columns) as f64;
    let mut drawing = page.sheet(below + legend::height(&entries, room));
    for (index, (name, series)) in input.panels.iter().enumerate() {
        let (across, down) = ((index % columns) as f64, (index / columns) as f64);
        let corner = [left + across * step[0], page.top() + NAME_ROOM + down * step[1]];
        let frame = Frame { corner, size, horizontal: steps(series), vertical: range };
        let panel = Panel { frame, up: &up, input, names: &names };
        panel.draw(&mut drawing, name, series);
    }
    legend::draw(&mut drawing, [left, below], &entries, room);
    drawing
}

/// The training steps that a panel shows: from zero where no number is below it.
fn steps(series: &[Series]) -> [f64; 2] {
    let steps = series.iter().flat_map(|series| &series.steps);
    let last = steps.max().copied().unwrap_or(0);
    [0.0, last.max(1) as f64]
}

/// One world's curves.
struct Panel<'a> {
    frame: Frame,
    up: &'a [Tick],
    input: &'a Comparison,
    names: &'a [&'a str],
}

impl Panel<'_> {
    fn draw(&self, drawing: &mut Drawing, name: &str, curves: &[Series]) {
        let frame = &self.frame;
        let across = axes::ticks(frame.horizontal, 6);
        frame.grid(drawing, &across, self.up);
        for series in curves {
            let index = self.names.iter().position(|name| *name == series.name).unwrap_or(0);
            let mut summary = series.summary(Spread::StandardError);
            let [least, most] = frame.vertical;
            for point in &mut summary {
                (point.low, point.high) = (point.low.max(least), point.high.min(most));
            }
            chart::curve(drawing, frame, &summary, colour::stroke(index));
        }
        frame.draw(drawing, &across, self.up, true);
        let middle = [0, 1].map(|axis| frame.corner[axis] + 0.5 * frame.size[axis]);
        let above = [frame.corner[0], frame.corner[1] - 8.0];
        drawing.text(above, name, NAME_SIZE, Align::Start, BLACK);
        let below = [middle[0], frame.bottom() + 36.0];
        drawing.text(below, &self.input.horizontal, LABEL_SIZE, Align::Middle, TEXT);
        let beside = frame.corner[0] - axes::room(self.up) - 10.0;
        drawing.upward([beside, middle[1]], &self.input.vertical, LABEL_SIZE, TEXT);
    }
}
