//! The picture of a maze from above: walls, learned isochrones behind, paths coloured by time.

use super::super::{Routed, Routes};
use super::axes::{self, Frame, TICK_SIZE};
use super::bands::{self, ColourScale};
use super::drawing::{Align, BLACK, Drawing, GREY, Ink, TEXT};
use super::legend::{self, Key, LegendEntry};
use super::page::{MARGIN, Page};
use super::{colour, geometry};

/// The widest and the tallest map, and one that stands alone.
const WIDEST: f64 = 300.0;
const ALONE: f64 = 460.0;
/// Maps in a row.
const COLUMNS: usize = 3;
/// Pixels per em of a map's title, and the room above a map for it.
const TITLE_SIZE: f64 = 13.5;
const ABOVE: f64 = 26.0;
/// Pixels between maps.
const BETWEEN: f64 = 16.0;
/// The bar of time: width, height, and the room it takes.
const BAR: [f64; 2] = [180.0, 9.0];
const BAR_ROOM: f64 = 34.0;
/// Shades of time on a path.
const SHADES: usize = 12;
/// Pixels that a wall is wider on each side than it is.
const HAIR: f64 = 0.7;
/// Walls.
const WALL: Ink = Ink::grey(90);

/// Draws the picture; the input is checked.
pub(super) fn draw(input: &Routes) -> Drawing {
    let [horizontal, vertical] = input.plane.map(|range| range.map(f64::from));
    let aspect = (vertical[1] - vertical[0]) / (horizontal[1] - horizontal[0]);
    let columns = COLUMNS.min(input.tasks.len());
    let side = if columns == 1 { ALONE } else { WIDEST };
    let width = side.min(side / aspect);
    let size = [width, width * aspect];
    let scale = scale(input);
    let room = scale.as_ref().map_or(0.0, ColourScale::room);
    let right = MARGIN + columns as f64 * (width + BETWEEN) - BETWEEN;
    let page = Page::new(right + room + MARGIN, &input.title, &input.caption);
    let entries: Vec<LegendEntry> =
        vec![(Key::Dot(BLACK), "start".to_owned()), (Key::Star, "goal".to_owned())];
    let down = ABOVE + size[1];
    let below = page.top() + down * input.tasks.len().div_ceil(columns) as f64 + 10.0;
    let mut drawing = page.sheet(below + BAR_ROOM);
    let frame = |index: usize| Frame {
        corner: [
            MARGIN + (index % columns) as f64 * (width + BETWEEN),
            page.top() + ABOVE + (index / columns) as f64 * down,
        ],
        size,
        horizontal,
        vertical,
    };
    for (index, task) in input.tasks.iter().enumerate() {
        map(&mut drawing, &frame(index), input, task, scale.as_ref());
    }
    if let Some(scale) = &scale {
        bands::bar(&mut drawing, &frame(columns - 1), scale);
    }
    time(&mut drawing, [MARGIN, below + 6.0], input.longest);
    let beside = [MARGIN + BAR[0] + 90.0, below];
    legend::draw(&mut drawing, beside, &entries, right - beside[0]);
    drawing
}

/// The bands of all maps; `None` if no distance was learned.
fn scale(input: &Routes) -> Option<ColourScale> {
    let fields = input.tasks.iter().filter_map(|task| task.distance.as_ref()?.range());
    let largest = fields.map(|range| f64::from(range[1])).reduce(f64::max)?;
    Some(ColourScale::up_to(largest, None))
}

fn map(
    drawing: &mut Drawing,
    frame: &Frame,
    input: &Routes,
    task: &Routed,
    scale: Option<&ColourScale>,
) {
    if let (Some(distance), Some(scale)) = (&task.distance, scale) {
        bands::draw(drawing, frame, distance, scale);
    }
    for wall in &input.walls {
        let inside = |point: &[f32; 2]| {
            [0, 1].map(|axis| point[axis].clamp(input.plane[axis][0], input.plane[axis][1]))
        };
        let (low, high) = (inside(&wall[0]), inside(&wall[1]));
        let (corner, end) = (frame.point([low[0], high[1]]), frame.point([high[0], low[1]]));
        // A hair wider, so that neighbours leave no seam.
        let corner = [corner[0] - HAIR, corner[1] - HAIR];
        let size = [end[0] - corner[0] + HAIR, end[1] - corner[1] + HAIR];
        drawing.rectangle(corner, size, WALL);
    }
    for path in &task.paths {
        route(drawing, frame, path, input.longest);
    }
    for start in task.paths.iter().filter_map(|path| path.first()) {
        drawing.disc(frame.point(*start), 3.0, BLACK);
    }
    geometry::star(drawing, frame.point(task.goal), 9.0, colour::STAR, BLACK);
    frame.draw(drawing, &[], &[], false);
    let at = [frame.corner[0] + 0.5 * frame.size[0], frame.corner[1] - 8.0];
    drawing.text(at, &task.title, TITLE_SIZE, Align::Middle, BLACK);
}

/// One path, its shade by the steps since its start.
fn route(drawing: &mut Drawing, frame: &Frame, path: &[[f32; 2]], longest: usize) {
    let places: Vec<_> = path.iter().map(|point| frame.point(*point)).collect();
    drawing.line(geometry::thin(&places, 1.0), 3.4, BLACK.opacity(0.55));
    let stride = longest.div_ceil(SHADES).max(1);
    for (index, first) in (0..places.len().saturating_sub(1)).step_by(stride).enumerate() {
        let last = (first + stride).min(places.len() - 1);
        let ink = colour::time(index.min(SHADES - 1), SHADES);
        drawing.line(geometry::thin(&places[first..=last], 1.0), 1.9, ink);
    }
}

/// The bar that says which shade is when.
fn time(drawing: &mut Drawing, [left, top]: [f64; 2], longest: usize) {
    let width = BAR[0] / SHADES as f64;
    for index in 0..SHADES {
        let corner = [left + width * index as f64, top];
        drawing.rectangle(corner, [width + 0.4, BAR[1]], colour::time(index, SHADES));
    }
    let (right, bottom) = (left + BAR[0], top + BAR[1]);
    let ring = vec![[left, top], [right, top], [right, bottom], [left, bottom], [left, top]];
    drawing.line(ring, 1.0, GREY);
    let base = bottom + 2.0 + TICK_SIZE;
    drawing.text([left, base], "0", TICK_SIZE, Align::Start, TEXT);
    let words = format!("{} or more steps on the way", axes::label(longest as f64, 1.0));
    drawing.text([right, base], &words, TICK_SIZE, Align::End, TEXT);
}

#[cfg(test)]
mod tests {
    use super::super::super::DistanceField;
    use super::*;
    use crate::report::pictures::drawing::Mark;

    fn input(tasks: usize) -> Routes {
        let path: Vec<[f32; 2]> = (0..25).map(|step| [0.1 * step as f32, 1.0]).collect();
        let task = |distance: Option<DistanceField>| Routed {
            title: "task".into(),
            distance,
            goal: [3.0, 1.0],
            paths: vec![path.clone()],
        };
        let field = DistanceField::from_fn([0.0, 4.0], [0.0, 2.0], 9, 5, |[x, _]| 10.0 * (4.0 - x))
            .unwrap();
        Routes {
            title: "a maze".into(),
            caption: "words".into(),
            plane: [[0.0, 4.0], [0.0, 2.0]],
            walls: vec![[[-1.0, -1.0], [5.0, 0.5]]],
            longest: 24,
            tasks: (0..tasks).map(|at| task((at == 0).then(|| field.clone()))).collect(),
        }
    }

    #[test]
    fn a_path_begins_in_one_shade_and_ends_in_another() {
        let drawing = draw(&input(1));
        let inks: Vec<Ink> = drawing
            .marks
            .iter()
            .filter_map(|mark| match mark {
                Mark::Line { width, ink, .. } if *width == 1.9 => Some(*ink),
                _ => None,
            })
            .collect();
        assert_eq!(inks.len(), SHADES);
        assert_eq!(
            (inks[0], inks[SHADES - 1]),
            (colour::time(0, SHADES), colour::time(11, SHADES))
        );
    }

    #[test]
    fn maps_flow_into_rows_and_walls_stand_where_they_are() {
        let (three, four) = (draw(&input(3)), draw(&input(4)));
        assert!(four.width == three.width && four.height > three.height);
        let walls = |drawing: &Drawing| {
            let wall = |mark: &&Mark| matches!(mark, Mark::Area { ink, .. } if *ink == WALL);
            drawing.marks.iter().filter(wall).count()
        };
        assert_eq!((walls(&three), walls(&four)), (3, 4));
        let alone = draw(&input(1));
        let Some(Mark::Area { rings, .. }) =
            alone.marks.iter().find(|mark| matches!(mark, Mark::Area { ink, .. } if *ink == WALL))
        else {
            panic!("a wall")
        };
        let wide = rings[0][2][0] - rings[0][0][0];
        assert!((wide - ALONE).abs() < 2.0, "cut to the plane: {wide}");
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        assert!(input(2).check().is_ok());
        assert!(input(0).check().is_err());
        let flat = Routes { plane: [[0.0, 0.0], [0.0, 2.0]], ..input(1) };
        assert!(flat.check().unwrap_err().to_string().contains("rising order"));
        let mut lost = input(1);
        lost.tasks[0].paths[0][3][1] = f32::NAN;
        assert!(lost.check().unwrap_err().to_string().contains("not finite"));
    }
}
