//! A distance as a small picture: bands between isochrones in the colours of the maps, the goal as a
//! red square, white where nothing is known. No axes, no text.

use super::bands::ColourScale;
use super::{colour, raster};
use crate::Result;
use crate::events::EventImage;
use crate::report::DistanceField;

/// Pixels along the longer side.
const SIDE: f32 = 320.0;
/// Half the width of the goal's square, in pixels.
const GOAL: f32 = 4.0;

/// The picture of `distance` and the goal it is measured to.
pub(crate) fn thumbnail(distance: &DistanceField, goal: [f32; 2]) -> Result<EventImage> {
    let size = [distance.right - distance.left, distance.top - distance.bottom];
    let pixel = size[0].max(size[1]) / SIDE;
    let [width, height] = size.map(|side| ((side / pixel) as u32).max(1));
    let largest = distance.range().map_or(0.0, |[_, largest]| f64::from(largest));
    let scale = ColourScale::up_to(largest, None);
    let mut pixels = Vec::new();
    for row in 0..height {
        for column in 0..width {
            let x = distance.left + (column as f32 + 0.5) * pixel;
            let y = distance.top - (row as f32 + 0.5) * pixel;
            let steps = distance.sample([x, y]);
            let at_goal = (x - goal[0]).abs().max((y - goal[1]).abs()) < GOAL * pixel;
            pixels.extend(match steps {
                _ if at_goal => colour::STAR.colour,
                steps if steps.is_finite() => scale.ink(f64::from(steps)).colour,
                _ => [255; 3],
            });
        }
    }
    Ok(EventImage { width, height, png: raster::encode(width, height, &pixels)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_rise_from_the_goal_and_holes_are_white() {
        let steps = |[x, _]: [f32; 2]| if x > 8.0 { f32::NAN } else { 10.0 * x };
        let field = DistanceField::from_fn([0.0, 10.0], [0.0, 5.0], 21, 11, steps).unwrap();
        let image = thumbnail(&field, [0.0, 2.5]).unwrap();
        assert_eq!((image.width, image.height), (320, 160));
        let decoder = png::Decoder::new(std::io::Cursor::new(&image.png));
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; 3 * 320 * 160];
        reader.next_frame(&mut pixels).unwrap();
        let at = |column: usize| &pixels[3 * (80 * 320 + column)..][..3];
        assert_eq!(at(0), colour::STAR.colour);
        assert_eq!(at(319), [255; 3]);
        // Eight bands of ten steps.
        for (column, band) in [(10, 0), (100, 3), (103, 3), (250, 7)] {
            assert_eq!(at(column), colour::band(band, 8).colour);
        }
    }
}
