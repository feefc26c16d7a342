//! Steps that remain along trajectories: panels of one size in three columns, one legend for all.

use super::super::{Remaining, TrajectoryCourse};
use super::axes::{self, Frame, LABEL_SIZE, Tick};
use super::chart::{BELOW, COMPARED};
use super::colour;
use super::drawing::{Align, BLACK, Drawing, PagePoint, TEXT};
use super::legend::{self, Key, LegendEntry};
use super::page::{MARGIN, Page};

/// Width and height of a panel.
const PANEL: PagePoint = [250.0, 190.0];
/// Panels in a row.
const COLUMNS: usize = 3;
/// Pixels per em of a panel's name, and the room above the panel for it.
const NAME_SIZE: f64 = 13.0;
const NAME_ROOM: f64 = 26.0;
/// Pixels between panels.
const BETWEEN: f64 = 22.0;

/// Draws trajectories over time; the input is checked.
pub(super) fn draw(input: &Remaining) -> Drawing {
    let learned = input.trajectories.iter().flat_map(|course| &course.learned);
    let real = input.trajectories.iter().filter(|course| course.to_last);
    let steps = learned
        .map(|&steps| f64::from(steps))
        .chain(real.map(|course| (course.learned.len() - 1) as f64));
    let [low, high] = axes::padded(steps.clone().chain([0.0]), 0.04);
    let vertical = if steps.clone().all(|steps| steps >= 0.0) { [0.0, high] } else { [low, high] };
    let up = axes::ticks(vertical, 5);
    let columns = COLUMNS.min(input.trajectories.len());
    let left = MARGIN + LABEL_SIZE + 8.0 + axes::room(&up);
    let step = [left - MARGIN + PANEL[0] + BETWEEN, NAME_ROOM + PANEL[1] + BELOW];
    let width = 2.0 * MARGIN + columns as f64 * step[0] - BETWEEN + 12.0;
    let page = Page::new(width, &input.title, &input.caption);
    let mut entries: Vec<LegendEntry> =
        vec![(Key::Line(colour::family(0), 2.0), "learned steps to the goal".to_owned())];
    if input.trajectories.iter().any(|course| course.to_last) {
        entries.push((Key::Dashes(COMPARED), "steps that really remained".to_owned()));
    }
    let room = width - left - MARGIN;
    let below = page.top() + step[1] * input.trajectories.len().div_ceil(columns) as f64;
    let mut drawing = page.sheet(below + legend::height(&entries, room));
    for (index, course) in input.trajectories.iter().enumerate() {
        let (across, down) = ((index % columns) as f64, (index / columns) as f64);
        let corner = [left + across * step[0], page.top() + NAME_ROOM + down * step[1]];
        let horizontal = [0.0, (course.learned.len() - 1).max(1) as f64];
        let frame = Frame { corner, size: PANEL, horizontal, vertical };
        panel(&mut drawing, &frame, course, &up);
    }
    legend::draw(&mut drawing, [left, below], &entries, room);
    drawing
}

fn panel(drawing: &mut Drawing, frame: &Frame, course: &TrajectoryCourse, up: &[Tick]) {
    let across = axes::ticks(frame.horizontal, 5);
    frame.grid(drawing, &across, up);
    let last = (course.learned.len() - 1) as f64;
    if course.to_last && last > 0.0 {
        let ends = vec![frame.place(0.0, last), frame.place(last, 0.0)];
        drawing.dashes(ends, 1.4, [5.0, 3.5], COMPARED);
    }
    let points: Vec<PagePoint> = (0..)
        .zip(&course.learned)
        .map(|(at, &steps)| frame.place(f64::from(at), f64::from(steps)))
        .collect();
    match points[..] {
        [alone] => drawing.disc(alone, 3.0, colour::family(0)),
        _ => drawing.line(points, 2.0, colour::family(0)),
    }
    frame.draw(drawing, &across, up, true);
    let above = [frame.corner[0], frame.corner[1] - 8.0];
    drawing.text(above, &course.name, NAME_SIZE, Align::Start, BLACK);
    let middle = [0, 1].map(|axis| frame.corner[axis] + 0.5 * frame.size[axis]);
    drawing.text([middle[0], frame.bottom() + 36.0], "frame", LABEL_SIZE, Align::Middle, TEXT);
    let beside = frame.corner[0] - axes::room(up) - 10.0;
    drawing.upward([beside, middle[1]], "steps to the goal", LABEL_SIZE, TEXT);
}
