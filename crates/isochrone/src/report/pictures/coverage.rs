//! The picture of coverage: cells of the plane, the darker the more rows they hold.

use super::super::Coverage;
use super::axes::{self, Frame, LABEL_SIZE};
use super::colour;
use super::drawing::{Align, Drawing, TEXT};
use super::legend::{self, Key, LegendEntry};
use super::page::{MARGIN, Page};

/// Pixels of the longer side of the map.
const LONGEST: f64 = 560.0;
/// Pixels below the map for its numbers and what they count.
const BELOW: f64 = 48.0;
/// The least counts of the shades, light to dark; those no cell reaches are left out.
const SHADES: [u32; 9] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000];

/// Draws the whole picture.
pub(super) fn draw(input: &Coverage) -> Drawing {
    let (width, height) = (input.columns as f64, input.rows as f64);
    let scale = LONGEST / width.max(height);
    let size = [width * scale, height * scale];
    let end = |axis: usize, cells: usize| {
        let corner = f64::from(input.corner[axis]);
        [corner, corner + cells as f64 * f64::from(input.cell)]
    };
    let (horizontal, vertical) = (end(0, input.columns), end(1, input.rows));
    let ticks = |range, extent: f64| axes::ticks(range, (extent / 70.0).clamp(2.0, 8.0) as usize);
    let (across, up) = (ticks(horizontal, size[0]), ticks(vertical, size[1]));
    let left = MARGIN + LABEL_SIZE + 8.0 + axes::room(&up);
    let page = Page::new(left + size[0] + MARGIN, &input.title, &input.caption);
    let frame = Frame { corner: [left, page.top() + 8.0], size, horizontal, vertical };
    let shades = shades(input);
    let entries = entries(&shades);
    let bottom = frame.bottom() + BELOW;
    let mut drawing = page.sheet(bottom + legend::height(&entries, size[0]));
    cells(&mut drawing, &frame, input, &shades);
    frame.draw(&mut drawing, &across, &up, true);
    let middle = [0, 1].map(|axis| frame.corner[axis] + 0.5 * size[axis]);
    let below = [middle[0], frame.bottom() + 36.0];
    drawing.text(below, &input.axes[0], LABEL_SIZE, Align::Middle, TEXT);
    drawing.upward([MARGIN + LABEL_SIZE - 2.0, middle[1]], &input.axes[1], LABEL_SIZE, TEXT);
    legend::draw(&mut drawing, [frame.corner[0], bottom], &entries, size[0]);
    drawing
}

fn shades(input: &Coverage) -> Vec<u32> {
    let most = input.counts.iter().copied().max().unwrap_or_default();
    SHADES.into_iter().filter(|&least| least <= most.max(1)).collect()
}

fn entries(shades: &[u32]) -> Vec<LegendEntry> {
    let name = |index: usize| match shades.get(index + 1) {
        Some(next) if next - 1 > shades[index] => format!("{} to {}", shades[index], next - 1),
        Some(_) => shades[index].to_string(),
        None => format!("{} rows or more", shades[index]),
    };
    let key = |index: usize| Key::Dot(colour::band(index, shades.len()));
    (0..shades.len()).map(|index| (key(index), name(index))).collect()
}

/// Fills cells, neighbours of one shade together.
fn cells(drawing: &mut Drawing, frame: &Frame, input: &Coverage, shades: &[u32]) {
    let side = frame.size[0] / input.columns as f64;
    let shade = |count: &u32| shades.partition_point(|least| least <= count);
    for (row, counts) in input.counts.chunks(input.columns).enumerate() {
        let top = frame.bottom() - (row + 1) as f64 * side;
        let mut column = 0;
        for run in counts.chunk_by(|one, other| shade(one) == shade(other)) {
            let corner = [frame.corner[0] + column as f64 * side, top];
            if let Some(index) = shade(&run[0]).checked_sub(1) {
                // A hair over the neighbour hides the seam.
                let size = [run.len() as f64 * side + 0.3, side + 0.3];
                drawing.rectangle(corner, size, colour::band(index, shades.len()));
            }
            column += run.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_end_with_the_largest_count_and_say_their_range() {
        let mut input = Coverage::of([[0.0, 0.0], [1.0, 1.0]].into_iter(), 2).unwrap();
        assert_eq!(shades(&input), [1]);
        input.counts[0] = 35;
        assert_eq!(shades(&input), [1, 3, 10, 30]);
        let names: Vec<String> =
            entries(&shades(&input)).into_iter().map(|entry| entry.1).collect();
        assert_eq!(names, ["1 to 2", "3 to 9", "10 to 29", "30 rows or more"]);
    }
}
