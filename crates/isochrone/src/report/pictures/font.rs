//! The bundled font: how wide words are, and their outlines.
//!
//! A subset of DejaVu Sans (Latin, Greek, digits and the symbols of the pictures); its licence lies
//! beside it. The SVG asks for the viewer's own sans-serif at the same size, and DejaVu is among
//! the widest of these, so what fits here fits there.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, OutlineCurve};

use super::drawing::{Align, PagePoint, Text};

static FONT: LazyLock<FontRef<'static>> = LazyLock::new(|| {
    FontRef::try_from_slice(include_bytes!("../../../assets/DejaVuSans-subset.ttf"))
        .expect("the bundled font is whole")
});

/// Straight pieces per curve of an outline.
const PIECES: usize = 6;

fn units_per_em() -> f64 {
    f64::from(FONT.units_per_em().expect("the bundled font has a scale"))
}

/// How many pixels `words` take at `size` pixels per em.
pub(super) fn width(words: &str, size: f64) -> f64 {
    let advance = |letter| f64::from(FONT.h_advance_unscaled(FONT.glyph_id(letter)));
    words.chars().map(advance).sum::<f64>() * size / units_per_em()
}

/// Breaks `text` between words into lines of at most `room` pixels; a longer word stands alone.
pub(super) fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The outlines of a text where it stands, as closed rings of pixels.
pub(super) fn outlines(text: &Text) -> Vec<Vec<PagePoint>> {
    let scale = text.size / units_per_em();
    let mut pen = match text.align {
        Align::Start => 0.0,
        Align::Middle => -0.5 * width(&text.words, text.size),
        Align::End => -width(&text.words, text.size),
    };
    let mut rings = Vec::new();
    for letter in text.words.chars() {
        let glyph = FONT.glyph_id(letter);
        let place = |point: ab_glyph::Point| -> PagePoint {
            let (along, up) = (pen + f64::from(point.x) * scale, f64::from(point.y) * scale);
            match text.upward {
                false => [text.at[0] + along, text.at[1] - up],
                true => [text.at[0] - up, text.at[1] - along],
            }
        };
        let curves = FONT.outline(glyph).map(|outline| outline.curves).unwrap_or_default();
        append(&mut rings, &curves, place);
        pen += f64::from(FONT.h_advance_unscaled(glyph)) * scale;
    }
    rings
}

/// Adds a glyph's curves as rings of straight pieces; a curve that does not begin where the last
/// one ended begins a ring.
fn append(
    rings: &mut Vec<Vec<PagePoint>>,
    curves: &[OutlineCurve],
    place: impl Fn(ab_glyph::Point) -> PagePoint,
) {
    let mut end = None;
    for curve in curves {
        let controls = match *curve {
            OutlineCurve::Line(from, to) => vec![from, to],
            OutlineCurve::Quad(from, over, to) => vec![from, over, to],
            OutlineCurve::Cubic(from, first, second, to) => vec![from, first, second, to],
        };
        if end != Some(controls[0]) {
            rings.push(Vec::new());
        }
        end = controls.last().copied();
        let controls: Vec<PagePoint> = controls.into_iter().map(&place).collect();
        let pieces = if controls.len() == 2 { 1 } else { PIECES };
        if let Some(ring) = rings.last_mut() {
            ring.extend((0..pieces).map(|piece| bezier(&controls, piece as f64 / pieces as f64)));
        }
    }
}

/// De Casteljau: halfway between halfway points, at any share of the way.
fn bezier(controls: &[PagePoint], share: f64) -> PagePoint {
    let mut points = controls.to_vec();
    while points.len() > 1 {
        let between = |pair: &[PagePoint]| {
            [0, 1].map(|axis| pair[0][axis] + (pair[1][axis] - pair[0][axis]) * share)
        };
        points = points.windows(2).map(between).collect();
    }
    points[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symbol_of_the_pictures_has_a_glyph() {
        for letter in "→∞★±×≤≥γ√−·…≈ kM0123456789.,:;()%".chars() {
            assert_ne!(FONT.glyph_id(letter).0, 0, "`{letter}`");
        }
    }

    #[test]
    fn wrapped_lines_fit_and_lose_no_word() {
        let text = "steps to the star are learned from short trajectories that are never joined";
        let lines = wrap(text, 12.0, 120.0);
        assert!(lines.len() > 3);
        assert!(lines.iter().all(|line| width(line, 12.0) <= 120.0));
        assert_eq!(lines.join(" "), text);
        assert!(wrap("", 12.0, 120.0).is_empty());
    }

    #[test]
    fn outlines_lie_between_the_ends_of_the_text() {
        let at = [100.0, 50.0];
        let words = "H".to_owned();
        let (size, align, upward) = (20.0, Align::End, false);
        let ink = super::super::drawing::BLACK;
        let text = Text { at, words, size, align, upward, ink };
        let rings = outlines(&text);
        assert_eq!(rings.len(), 1);
        for [across, down] in &rings[0] {
            assert!((100.0 - width("H", 20.0)..100.0).contains(across));
            assert!((50.0 - 20.0..=50.0).contains(down), "on and above the baseline");
        }
    }
}
