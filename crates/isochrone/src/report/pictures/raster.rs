//! A drawing as pixels: scanlines with a non-zero winding rule, and the PNG of them.
//!
//! Each row of pixels is crossed by `LINES` scanlines; along a scanline the covered length of each
//! pixel is exact. The share of a pixel that is covered, times the ink's opacity, is how much of
//! the ink it takes. Strokes are the union of their segments and of discs at their joins.

use super::drawing::{Drawing, Ink, Mark, PagePoint};
use super::{font, geometry};
use crate::{Error, Result};

/// Pixels of the PNG per pixel of the drawing, so that it is crisp on a dense screen.
pub(super) const SCALE: u32 = 2;

/// Scanlines per row of pixels.
const LINES: usize = 8;

/// A sheet of pixels: three bytes each, row after row from the top.
struct Sheet {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

/// The PNG file of a drawing.
pub(super) fn file(drawing: &Drawing) -> Result<Vec<u8>> {
    encode(drawing.width * SCALE, drawing.height * SCALE, &paint(drawing).pixels)
}

/// The PNG file of pixels of three bytes each, row after row from the top.
pub(super) fn encode(width: u32, height: u32, pixels: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let refused = |error: png::EncodingError| Error::input(format!("cannot encode a png: {error}"));
    let mut writer = encoder.write_header().map_err(refused)?;
    writer.write_image_data(pixels).map_err(refused)?;
    writer.finish().map_err(refused)?;
    Ok(bytes)
}

fn paint(drawing: &Drawing) -> Sheet {
    let (width, height) = (drawing.width * SCALE, drawing.height * SCALE);
    let (width, height) = (width as usize, height as usize);
    let mut sheet = Sheet { width, height, pixels: vec![255; 3 * width * height] };
    for mark in &drawing.marks {
        match mark {
            Mark::Area { rings, ink } => sheet.fill(rings, *ink),
            Mark::Line { points, width, dash, ink } => {
                let pieces = match dash {
                    Some(dash) => geometry::dashes(points, *dash),
                    None => vec![points.clone()],
                };
                let rings: Vec<_> =
                    pieces.iter().flat_map(|piece| geometry::stroke(piece, *width)).collect();
                sheet.fill(&rings, *ink);
            }
            Mark::Disc { centre, radius, ink } => {
                sheet.fill(&[geometry::disc(*centre, *radius)], *ink);
            }
            Mark::Text(text) => sheet.fill(&font::outlines(text), text.ink),
        }
    }
    sheet
}

impl Sheet {
    /// Fills what the rings, in pixels of the drawing, wind around.
    fn fill(&mut self, rings: &[Vec<PagePoint>], ink: Ink) {
        let heights = || rings.iter().flatten().map(|point| point[1] * f64::from(SCALE));
        let top = heights().fold(f64::INFINITY, f64::min).max(0.0) as usize;
        let bottom = (heights().fold(0.0, f64::max).ceil() as usize).min(self.height);
        let crossings = self.crossings(rings, top, bottom.max(top));
        let mut coverage = vec![0.0_f32; self.width];
        for (row, lines) in (top..).zip(crossings.chunks(LINES)) {
            coverage.fill(0.0);
            for line in lines {
                let mut winding = 0;
                for pair in line.windows(2) {
                    winding += pair[0].1;
                    if winding != 0 {
                        cover(&mut coverage, pair[0].0, pair[1].0);
                    }
                }
            }
            self.blend(row, &coverage, ink);
        }
    }

    /// Where each scanline of the rows from `top` to `bottom` crosses a ring, from left to right,
    /// and in which direction.
    fn crossings(
        &self,
        rings: &[Vec<PagePoint>],
        top: usize,
        bottom: usize,
    ) -> Vec<Vec<(f32, i32)>> {
        let (before, total) = (top * LINES, (bottom - top) * LINES);
        let mut crossings = vec![Vec::new(); total];
        let (across, down) = (f64::from(SCALE), f64::from(SCALE) * LINES as f64);
        for ring in rings {
            for (index, from) in ring.iter().enumerate() {
                let to = ring[(index + 1) % ring.len()];
                let direction = if from[1] < to[1] { 1 } else { -1 };
                let (upper, lower) = if from[1] < to[1] { (*from, to) } else { (to, *from) };
                // Scanline k lies at k + ½.
                let index = |height: f64| {
                    let line = (height * down - 0.5).ceil() - before as f64;
                    line.clamp(0.0, total as f64) as usize
                };
                let (first, last) = (index(upper[1]), index(lower[1]));
                let slope = (lower[0] - upper[0]) / (lower[1] - upper[1]);
                for (line, crossing) in crossings.iter_mut().enumerate().take(last).skip(first) {
                    let height = ((before + line) as f64 + 0.5) / down;
                    let at = (upper[0] + (height - upper[1]) * slope) * across;
                    crossing.push((at.clamp(0.0, self.width as f64) as f32, direction));
                }
            }
        }
        for crossing in &mut crossings {
            crossing.sort_by(|left, right| left.0.total_cmp(&right.0));
        }
        crossings
    }

    fn blend(&mut self, row: usize, coverage: &[f32], ink: Ink) {
        let row = &mut self.pixels[3 * self.width * row..][..3 * self.width];
        for (pixel, &covered) in row.chunks_exact_mut(3).zip(coverage) {
            let share = (covered / LINES as f32).min(1.0) * ink.opacity as f32;
            if share > 0.0 {
                for (value, colour) in pixel.iter_mut().zip(ink.colour) {
                    let old = f32::from(*value);
                    *value = (old + (f32::from(colour) - old) * share).round() as u8;
                }
            }
        }
    }
}

/// Adds the length of [`left`, `right`] that lies in each pixel.
fn cover(coverage: &mut [f32], left: f32, right: f32) {
    if left >= right {
        return;
    }
    let last_pixel = coverage.len() - 1;
    let first = (left as usize).min(last_pixel);
    let last = (right as usize).min(last_pixel);
    if first == last {
        coverage[first] += right - left;
        return;
    }
    coverage[first] += (first + 1) as f32 - left;
    coverage[last] += right - last as f32;
    coverage[first + 1..last].iter_mut().for_each(|covered| *covered += 1.0);
}

#[cfg(test)]
mod tests {
    use super::super::drawing::Ink;
    use super::*;

    fn darkness(drawing: &Drawing) -> f64 {
        let pixels = paint(drawing).pixels;
        let total: f64 = pixels.iter().map(|value| f64::from(255 - value) / 255.0).sum();
        total / 3.0 / f64::from(SCALE * SCALE)
    }

    #[test]
    fn the_ink_of_a_shape_is_its_area() {
        let mut drawing = Drawing::new(40.0, 40.0);
        drawing.disc([20.3, 19.6], 11.0, Ink::grey(0));
        let exact = std::f64::consts::PI * 121.0;
        assert!((darkness(&drawing) / exact - 1.0).abs() < 0.005);

        let mut drawing = Drawing::new(40.0, 40.0);
        drawing.rectangle([3.25, 4.5], [10.125, 7.0], Ink::grey(0));
        assert!((darkness(&drawing) - 10.125 * 7.0).abs() < 0.1);
    }

    #[test]
    fn a_stroke_over_itself_is_no_darker_and_leaves_no_hole() {
        let cross = |opacity| {
            let mut drawing = Drawing::new(40.0, 40.0);
            let points = vec![[5.0, 20.0], [35.0, 20.0], [20.0, 20.0], [20.0, 5.0], [20.0, 35.0]];
            drawing.line(points, 4.0, Ink::grey(0).opacity(opacity));
            darkness(&drawing)
        };
        // Two bars of 30 × 4 that share 4 × 4, and half-discs at the two turns.
        let exact = 2.0 * 120.0 - 16.0 + std::f64::consts::PI * 4.0;
        assert!((cross(1.0) / exact - 1.0).abs() < 0.01, "{} {exact}", cross(1.0));
        assert!((cross(0.5) / cross(1.0) - 0.5).abs() < 0.01);
    }

    #[test]
    fn shapes_beyond_the_sheet_are_cut_off() {
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.rectangle([-5.0, -5.0], [100.0, 8.0], Ink::grey(0));
        assert!((darkness(&drawing) - 30.0).abs() < 0.1);
    }
}
