//! Colours: families that stay apart for colour-blind readers, and a scale of rising lightness.

use super::drawing::Ink;

/// Seven hues that stay apart under the common kinds of colour blindness (Okabe and Ito, "Color
/// universal design", 2008, without yellow, which is lost on white), black as the eighth.
const FAMILIES: [[u8; 3]; 8] = [
    [0, 114, 178],
    [213, 94, 0],
    [0, 158, 115],
    [204, 121, 167],
    [230, 159, 0],
    [86, 180, 233],
    [128, 76, 48],
    [40, 40, 40],
];

/// Twelve colours of evenly rising lightness in OKLab (Ottosson, 2020), from violet over teal to
/// yellow.
const SCALE: [[u8; 3]; 12] = [
    [70, 23, 121],
    [59, 52, 148],
    [31, 79, 168],
    [17, 106, 161],
    [22, 128, 160],
    [30, 148, 163],
    [35, 169, 163],
    [38, 191, 157],
    [83, 210, 140],
    [147, 223, 124],
    [201, 233, 112],
    [250, 241, 109],
];

/// The goal.
pub(super) const STAR: Ink = Ink::new([227, 26, 28]);

/// The colour of a family or series; after the eighth they begin again.
pub(super) fn family(index: usize) -> Ink {
    Ink::new(FAMILIES[index % FAMILIES.len()])
}

/// How a curve is drawn: its colour, and its dashes where colours have run out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stroke {
    pub(super) ink: Ink,
    /// Pixels drawn and left out; none for a whole line.
    pub(super) dash: Option<[f64; 2]>,
}

/// The stroke of a curve: eight colours whole, then dashed, then dotted.
pub(super) fn stroke(index: usize) -> Stroke {
    let dash = match index / FAMILIES.len() {
        0 => None,
        1 => Some([7.0, 4.0]),
        _ => Some([2.0, 3.0]),
    };
    Stroke { ink: family(index), dash }
}

/// The shade of part `index` of `count` of a path: white at its start, dark red at its end.
pub(super) fn time(index: usize, count: usize) -> Ink {
    const SHADES: [[f64; 3]; 3] = [[255.0; 3], [255.0, 140.0, 60.0], [150.0, 0.0, 20.0]];
    let place = 2.0 * index as f64 / count.saturating_sub(1).max(1) as f64;
    let below = (place as usize).min(1);
    let rest = place - below as f64;
    let mix = |channel: usize| {
        let (from, to) = (SHADES[below][channel], SHADES[below + 1][channel]);
        (from + (to - from) * rest).round() as u8
    };
    Ink::new([mix(0), mix(1), mix(2)])
}

/// The colour of band `index` of `count`: lightest next to the goal, darkest far away.
pub(super) fn band(index: usize, count: usize) -> Ink {
    let share = index as f64 / count.saturating_sub(1).max(1) as f64;
    let place = (1.0 - share) * (SCALE.len() - 1) as f64;
    let below = (place as usize).min(SCALE.len() - 2);
    let rest = place - below as f64;
    let mix = |channel: usize| {
        let (from, to) = (f64::from(SCALE[below][channel]), f64::from(SCALE[below + 1][channel]));
        (from + (to - from) * rest).round() as u8
    };
    Ink::new([mix(0), mix(1), mix(2)])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn luminance(ink: Ink) -> f64 {
        let linear = |value: u8| (f64::from(value) / 255.0).powf(2.2);
        let [red, green, blue] = ink.colour.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    #[test]
    fn bands_darken_with_distance() {
        for count in [2, 5, 12] {
            let bands: Vec<f64> = (0..count).map(|index| luminance(band(index, count))).collect();
            assert!(bands.windows(2).all(|pair| pair[0] > pair[1]), "{bands:?}");
        }
        assert_eq!(band(0, 1).colour, SCALE[11], "one band is the nearest");
    }

    #[test]
    fn paths_darken_with_time() {
        let shades: Vec<f64> = (0..12).map(|index| luminance(time(index, 12))).collect();
        assert!(shades.windows(2).all(|pair| pair[0] > pair[1]), "{shades:?}");
    }

    #[test]
    fn two_dozen_curves_have_strokes_of_their_own() {
        let strokes: Vec<Stroke> = (0..24).map(stroke).collect();
        for (index, one) in strokes.iter().enumerate() {
            assert!(!strokes[..index].contains(one), "{index}");
        }
    }
}
