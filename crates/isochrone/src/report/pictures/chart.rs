//! Learning curves of one world.

use super::super::{Curves, Series, Spread, Summary};
use super::axes::{self, Frame, LABEL_SIZE, Tick};
use super::colour::Stroke;
use super::drawing::{Align, Drawing, Ink, PagePoint, TEXT};
use super::legend::{self, Key, LegendEntry};
use super::page::{MARGIN, Page};
use super::{colour, font};

/// Width and height of the frame of learning curves.
const CURVES: PagePoint = [620.0, 340.0];
/// Pixels below a frame for its numbers and what they count.
pub(super) const BELOW: f64 = 48.0;
/// Pixels per em of the name of a reference.
const REFERENCE_SIZE: f64 = 11.5;
/// Lines to compare with.
pub(super) const COMPARED: Ink = Ink::grey(90);

/// A frame with its ticks and the page around it.
struct Chart {
    page: Page,
    frame: Frame,
    horizontal: Vec<Tick>,
    vertical: Vec<Tick>,
}

/// The words around a chart and the room it leaves at its right.
struct Words<'a> {
    title: &'a str,
    caption: &'a str,
    horizontal: &'a str,
    vertical: &'a str,
    room_at_right: f64,
}

impl Chart {
    /// A frame for two ranges, horizontal and vertical, with at most so many ticks along each.
    fn new(words: &Words, size: PagePoint, ranges: [[f64; 2]; 2], most: [usize; 2]) -> Self {
        let [horizontal, vertical] = ranges;
        let (across, up) = (axes::ticks(horizontal, most[0]), axes::ticks(vertical, most[1]));
        let left = MARGIN + LABEL_SIZE + 8.0 + axes::room(&up);
        let width = left + size[0] + words.room_at_right + MARGIN;
        let page = Page::new(width, words.title, words.caption);
        let frame = Frame { corner: [left, page.top() + 10.0], size, horizontal, vertical };
        Self { page, frame, horizontal: across, vertical: up }
    }

    /// The sheet with a grid, before anything is drawn on it.
    fn sheet(&self, entries: &[LegendEntry]) -> Drawing {
        let legend = legend::height(entries, self.frame.size[0]);
        let mut drawing = self.page.sheet(self.frame.bottom() + BELOW + legend);
        self.frame.grid(&mut drawing, &self.horizontal, &self.vertical);
        drawing
    }

    /// Draws the frame over what was drawn, the names of the axes and the legend.
    fn surround(&self, drawing: &mut Drawing, words: &Words, entries: &[LegendEntry]) {
        let frame = &self.frame;
        frame.draw(drawing, &self.horizontal, &self.vertical, true);
        let middle = [0, 1].map(|axis| frame.corner[axis] + 0.5 * frame.size[axis]);
        let below = [middle[0], frame.bottom() + 36.0];
        drawing.text(below, words.horizontal, LABEL_SIZE, Align::Middle, TEXT);
        drawing.upward([MARGIN + LABEL_SIZE - 2.0, middle[1]], words.vertical, LABEL_SIZE, TEXT);
        let corner = [frame.corner[0], frame.bottom() + BELOW];
        legend::draw(drawing, corner, entries, frame.size[0]);
    }
}

/// Draws learning curves; the input is checked.
pub(super) fn curves(input: &Curves) -> Drawing {
    let summaries: Vec<Vec<Summary>> =
        input.series.iter().map(|series| series.summary(input.spread)).collect();
    let all = || summaries.iter().flatten();
    let steps = all().map(|summary| summary.step as f64);
    let horizontal = match axes::padded(steps.clone(), 0.0) {
        [low, high] if low < 0.0 => [0.0, high],
        range => range,
    };
    let references = input.references.iter().map(|reference| f64::from(reference.value));
    let values = all().flat_map(|summary| [summary.low, summary.high]).chain(references);
    let vertical = axes::padded(values, 0.05);
    let name_width = |name: &str| font::width(name, REFERENCE_SIZE) + 8.0;
    let names = input.references.iter().map(|reference| name_width(&reference.name));
    let caption = format!("{} {}", input.caption, meaning(&input.series, input.spread));
    let words = Words {
        title: &input.title,
        caption: &caption,
        horizontal: &input.horizontal,
        vertical: &input.vertical,
        // Half of the last tick's number stands out.
        room_at_right: names.fold(12.0, f64::max),
    };
    let chart = Chart::new(&words, CURVES, [horizontal, vertical], [8, 6]);
    let key = |index: usize| Key::Band(colour::stroke(index));
    let entries: Vec<LegendEntry> =
        (0..).zip(&input.series).map(|(index, series)| (key(index), series.name.clone())).collect();
    let mut drawing = chart.sheet(&entries);
    references_of(&mut drawing, &chart.frame, input);
    for (index, summary) in summaries.iter().enumerate() {
        curve(&mut drawing, &chart.frame, summary, colour::stroke(index));
    }
    chart.surround(&mut drawing, &words, &entries);
    drawing
}

/// What line and band show, for the caption.
pub(super) fn meaning<'s>(
    series: impl IntoIterator<Item = &'s Series> + Clone,
    spread: Spread,
) -> String {
    let counts = || series.clone().into_iter().map(|series| series.seeds.len());
    let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
    let band = match spread {
        Spread::StandardError => "± one standard error",
        Spread::Range => "smallest to largest seed",
    };
    match (least, most) {
        (_, 1) => "Line: one seed.".to_owned(),
        (least, most) if least == most => format!("Line: mean of {most} seeds; band: {band}."),
        (least, most) => format!("Line: mean of {least} to {most} seeds; band: {band}."),
    }
}

pub(super) fn curve(drawing: &mut Drawing, frame: &Frame, summary: &[Summary], stroke: Stroke) {
    let Stroke { ink, dash } = stroke;
    let line = |height: fn(&Summary) -> f64| {
        summary.iter().map(move |point| frame.place(point.step as f64, height(point)))
    };
    let band: Vec<PagePoint> =
        line(|point| point.low).chain(line(|point| point.high).rev()).collect();
    drawing.area(vec![band], ink.opacity(0.22));
    match (summary, dash) {
        ([_], _) => line(|point| point.mean).for_each(|at| drawing.disc(at, 3.5, ink)),
        (_, None) => drawing.line(line(|point| point.mean).collect(), 2.0, ink),
        (_, Some(dash)) => drawing.dashes(line(|point| point.mean).collect(), 2.0, dash, ink),
    }
}

/// Draws the references, and their names at the right, moved apart where they would touch.
fn references_of(drawing: &mut Drawing, frame: &Frame, input: &Curves) {
    let mut heights: Vec<(f64, &str)> = Vec::new();
    for reference in &input.references {
        let height = frame.place(0.0, f64::from(reference.value))[1];
        let ends = vec![[frame.corner[0], height], [frame.right(), height]];
        drawing.dashes(ends, 1.3, [6.0, 4.0], COMPARED);
        heights.push((height, &reference.name));
    }
    heights.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = frame.corner[1];
    for (height, name) in heights {
        let height = height.max(free);
        free = height + REFERENCE_SIZE + 3.0;
        let at = [frame.right() + 6.0, height + 0.36 * REFERENCE_SIZE];
        drawing.text(at, name, REFERENCE_SIZE, Align::Start, TEXT);
    }
}
