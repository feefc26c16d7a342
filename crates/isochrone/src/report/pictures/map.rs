//! The picture of isochrones: trajectories by family, and beside them learned distances as maps. More
//! than three maps stand in two columns, so that a page shows them large.

use super::super::{DistanceField, Families, Isochrones, Panel};
use super::axes::{self, Frame, Tick};
use super::bands::{self, ColourScale};
use super::drawing::{Align, BLACK, Drawing, Ink, PagePoint, TEXT, WHITE};
use super::legend::{self, Key, LegendEntry};
use super::page::{MARGIN, Page};
use super::{colour, geometry};

/// Pixels per em of what stands above a map.
const TITLE_SIZE: f64 = 13.5;
/// Pixels between two maps, above a map for its title, and below one for the numbers at its ticks.
const BETWEEN: f64 = 26.0;
const ABOVE: f64 = 24.0;
const BELOW: f64 = 26.0;
/// The tallest map.
const TALLEST: f64 = 520.0;
/// Trajectories drawn of one family.
const DRAWN: usize = 48;
/// Pixels between arrowheads of one family, and of a path.
const ARROWS: f64 = 70.0;
/// Pixels that an arrowhead keeps from the star and from arrowheads of other families.
const CROWDED: f64 = 20.0;

/// Where everything lies.
struct Layout {
    page: Page,
    frames: Vec<Frame>,
    horizontal: Vec<Tick>,
    vertical: Vec<Tick>,
    columns: usize,
    legend: Vec<LegendEntry>,
    bottom: f64,
}

/// Draws the whole picture; the input is checked.
pub(super) fn draw(input: &Isochrones) -> Drawing {
    let scale = ColourScale::new(input);
    let layout = Layout::new(input, &scale);
    let mut drawing = layout.page.sheet(layout.bottom);
    let frame = layout.frames[0];
    trajectories(&mut drawing, &frame, &input.families, frame.point(input.goal));
    goal(&mut drawing, &frame, input.goal);
    layout.surround(&mut drawing, 0, "trajectories by family");
    for (index, panel) in input.panels.iter().enumerate() {
        let frame = &layout.frames[index + 1];
        bands::draw(&mut drawing, frame, &panel.distance, &scale);
        if let Some(exact) = &input.exact {
            let avoid = avoided(frame, input, panel);
            bands::exact(&mut drawing, frame, exact, &input.levels, &avoid);
        }
        path(&mut drawing, frame, panel);
        start(&mut drawing, frame, input.start);
        goal(&mut drawing, frame, input.goal);
        layout.surround(&mut drawing, index + 1, &panel.title);
    }
    let whole = layout.whole();
    legend::draw(
        &mut drawing,
        [whole.corner[0], whole.bottom() + BELOW],
        &layout.legend,
        whole.size[0],
    );
    bands::bar(&mut drawing, &whole, &scale);
    drawing
}

impl Layout {
    fn new(input: &Isochrones, scale: &ColourScale) -> Self {
        let [horizontal, vertical] = world(&input.panels);
        let aspect = (vertical[1] - vertical[0]) / (horizontal[1] - horizontal[0]);
        let count = input.panels.len() + 1;
        let columns = if count > 3 { 2 } else { count };
        let widest: f64 = if count == 2 { 430.0 } else { 370.0 };
        let width = widest.min(TALLEST / aspect);
        let size = [width, width * aspect];
        let ticks =
            |range, extent: f64| axes::ticks(range, (extent / 70.0).clamp(2.0, 8.0) as usize);
        let (across, up) = (ticks(horizontal, size[0]), ticks(vertical, size[1]));
        let left = MARGIN + axes::room(&up);
        let room = columns as f64 * (width + BETWEEN) - BETWEEN;
        let page = Page::new(left + room + scale.room() + MARGIN, &input.title, &input.caption);
        let frame = |index: usize| {
            let (column, row) = ((index % columns) as f64, (index / columns) as f64);
            let top = page.top() + ABOVE + row * (size[1] + BELOW + ABOVE);
            let corner = [left + column * (width + BETWEEN), top];
            Frame { corner, size, horizontal, vertical }
        };
        let frames: Vec<Frame> = (0..count).map(frame).collect();
        let legend = entries(input);
        let bottom = frames[count - 1].bottom() + BELOW + legend::height(&legend, room);
        Self { page, frames, horizontal: across, vertical: up, columns, legend, bottom }
    }

    /// The rectangle that holds all maps.
    fn whole(&self) -> Frame {
        let (first, last) = (self.frames[0], self.frames[self.frames.len() - 1]);
        let right = self.frames[self.columns - 1].right();
        let size = [right - first.corner[0], last.bottom() - first.corner[1]];
        Frame { size, ..first }
    }

    /// Draws what stands around one map.
    fn surround(&self, drawing: &mut Drawing, index: usize, title: &str) {
        let frame = &self.frames[index];
        frame.draw(drawing, &self.horizontal, &self.vertical, index.is_multiple_of(self.columns));
        let at = [frame.corner[0] + 0.5 * frame.size[0], frame.corner[1] - 9.0];
        drawing.text(at, title, TITLE_SIZE, Align::Middle, BLACK);
    }
}

/// The rectangle that holds every panel's field: horizontal and vertical range.
fn world(panels: &[Panel]) -> [[f64; 2]; 2] {
    let range = |low: fn(&DistanceField) -> f32, high: fn(&DistanceField) -> f32| {
        let fields = || panels.iter().map(|panel| &panel.distance);
        [
            fields().map(|field| f64::from(low(field))).fold(f64::INFINITY, f64::min),
            fields().map(|field| f64::from(high(field))).fold(f64::NEG_INFINITY, f64::max),
        ]
    };
    [range(|field| field.left, |field| field.right), range(|field| field.bottom, |field| field.top)]
}

/// The legend: families, then the marks on the other maps.
fn entries(input: &Isochrones) -> Vec<LegendEntry> {
    let names = input.families.names.iter().enumerate();
    let families = names.map(|(index, name)| (Key::Arrow(colour::family(index)), name.clone()));
    let mut entries: Vec<LegendEntry> = families.collect();
    entries.extend([(Key::Dot(BLACK), "start".to_owned()), (Key::Star, "goal".to_owned())]);
    if input.panels.iter().any(|panel| panel.path.len() > 1) {
        entries.push((Key::Arrow(BLACK), "planned path".to_owned()));
    }
    if input.exact.is_some() && !input.levels.is_empty() {
        entries.push((Key::Dashes(TEXT), "exact, in steps".to_owned()));
    }
    entries
}

/// Draws thin lines in the colours of their families, and arrowheads along some of them.
fn trajectories(drawing: &mut Drawing, frame: &Frame, families: &Families, goal: PagePoint) {
    let mut heads = Vec::new();
    for family in 0..families.names.len() {
        let of_family = |(index, _): &&(u8, Vec<[f32; 2]>)| usize::from(*index) == family;
        let all: Vec<_> = families.trajectories.iter().filter(of_family).collect();
        let stride = all.len().div_ceil(DRAWN).max(1);
        let mut lines: Vec<Vec<PagePoint>> = all
            .iter()
            .step_by(stride)
            .flat_map(|(_, points)| inside(frame, points))
            .map(|line| geometry::thin(&line, 1.0))
            .collect();
        let ink = colour::family(family);
        for line in &lines {
            drawing.line(line.clone(), 0.9, ink.opacity(0.5));
        }
        lines.sort_by(|one, other| geometry::length(other).total_cmp(&geometry::length(one)));
        for station in arrows(&lines, goal) {
            let apart = |(other, _): &(geometry::Station, Ink)| {
                geometry::distance(other.0, station.0) > CROWDED
            };
            if heads.iter().all(apart) {
                heads.push((station, ink));
            }
        }
    }
    for (station, ink) in heads {
        geometry::rimmed_arrowhead(drawing, station, 11.0, ink);
    }
}

/// Arrowheads along the longest lines, none near another of the same family or under the star.
fn arrows(lines: &[Vec<PagePoint>], goal: PagePoint) -> Vec<geometry::Station> {
    let mut kept: Vec<geometry::Station> = Vec::new();
    let stations = lines.iter().flat_map(|line| geometry::stations(line, ARROWS));
    for station in stations {
        let apart = |other: PagePoint| geometry::distance(other, station.0);
        if apart(goal) > CROWDED && kept.iter().all(|other| apart(other.0) >= 0.8 * ARROWS) {
            kept.push(station);
        }
    }
    kept
}

/// The stretches of a line of the plane that lie in the frame.
fn inside(frame: &Frame, points: &[[f32; 2]]) -> Vec<Vec<PagePoint>> {
    let places: Vec<PagePoint> = points.iter().map(|point| frame.point(*point)).collect();
    places
        .split(|place| !frame.holds(*place))
        .filter(|stretch| stretch.len() > 1)
        .map(<[PagePoint]>::to_vec)
        .collect()
}

fn path(drawing: &mut Drawing, frame: &Frame, panel: &Panel) {
    for line in inside(frame, &panel.path) {
        let line = geometry::thin(&line, 1.5);
        drawing.line(line.clone(), 4.6, WHITE);
        drawing.line(line.clone(), 2.2, BLACK);
        for station in geometry::stations(&line, ARROWS) {
            geometry::rimmed_arrowhead(drawing, station, 11.0, BLACK);
        }
    }
}

fn start(drawing: &mut Drawing, frame: &Frame, at: [f32; 2]) {
    let at = frame.point(at);
    drawing.disc(at, 7.0, WHITE);
    drawing.disc(at, 5.2, BLACK);
}

fn goal(drawing: &mut Drawing, frame: &Frame, at: [f32; 2]) {
    let at = frame.point(at);
    geometry::star(drawing, at, 11.5, WHITE, WHITE);
    geometry::star(drawing, at, 10.0, colour::STAR, BLACK);
}

/// Places that a label must not cover.
fn avoided(frame: &Frame, input: &Isochrones, panel: &Panel) -> Vec<PagePoint> {
    let path = panel.path.iter().map(|point| frame.point(*point)).collect::<Vec<_>>();
    let stations = geometry::stations(&path, 4.0).into_iter().map(|(at, _)| at);
    stations.chain([frame.point(input.start), frame.point(input.goal)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_where_they_leave_the_frame() {
        let frame = Frame {
            corner: [0.0, 0.0],
            size: [100.0, 100.0],
            horizontal: [0.0, 1.0],
            vertical: [0.0, 1.0],
        };
        let line = [[0.1, 0.1], [0.2, 0.1], [1.5, 0.1], [0.9, 0.2], [0.8, 0.2], [0.7, 0.2]];
        let parts = inside(&frame, &line);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn arrowheads_of_parallel_lines_do_not_pile_up() {
        let line = |shift: f64| vec![[0.0, shift], [300.0, shift]];
        let lines = [line(0.0), line(2.0), line(4.0)];
        assert_eq!(arrows(&lines, [0.0, 300.0]).len(), 4);
        assert_eq!(arrows(&lines, [37.0, 0.0]).len(), 3, "none lies under the star");
    }
}
