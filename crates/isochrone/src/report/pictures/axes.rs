//! A rectangle of the sheet with numbers along its sides: ticks at round numbers, labels, a frame.

use super::drawing::{Align, Drawing, GREY, Ink, PagePoint, TEXT};
use super::font;

/// Pixels per em of the numbers at ticks.
pub(super) const TICK_SIZE: f64 = 11.0;
/// Pixels per em of what an axis measures.
pub(super) const LABEL_SIZE: f64 = 12.5;
/// Pixels a tick sticks out.
const TICK: f64 = 4.0;

/// A rectangle of the sheet and the numbers its sides stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    /// The upper left corner.
    pub(super) corner: PagePoint,
    /// Width and height.
    pub(super) size: PagePoint,
    /// The numbers at the left and right side.
    pub(super) horizontal: [f64; 2],
    /// The numbers at the lower and upper side.
    pub(super) vertical: [f64; 2],
}

/// A number where a tick stands, and how it reads.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

impl Frame {
    /// Where a pair of numbers lies on the sheet.
    pub(super) fn place(&self, across: f64, up: f64) -> PagePoint {
        let share = |value: f64, [low, high]: [f64; 2]| (value - low) / (high - low);
        [
            self.corner[0] + self.size[0] * share(across, self.horizontal),
            self.corner[1] + self.size[1] * (1.0 - share(up, self.vertical)),
        ]
    }

    /// Where a point of the plane lies on the sheet.
    pub(super) fn point(&self, point: [f32; 2]) -> PagePoint {
        self.place(f64::from(point[0]), f64::from(point[1]))
    }

    /// Says whether a place of the sheet is inside, or at most half a pixel beside.
    pub(super) fn holds(&self, point: PagePoint) -> bool {
        (0..2).all(|axis| {
            let inside = point[axis] - self.corner[axis];
            (-0.5..=self.size[axis] + 0.5).contains(&inside)
        })
    }

    pub(super) fn right(&self) -> f64 {
        self.corner[0] + self.size[0]
    }

    pub(super) fn bottom(&self) -> f64 {
        self.corner[1] + self.size[1]
    }

    /// Draws pale lines across the frame at the ticks.
    pub(super) fn grid(&self, drawing: &mut Drawing, horizontal: &[Tick], vertical: &[Tick]) {
        let pale = Ink::grey(232);
        for tick in horizontal {
            let across = self.place(tick.value, 0.0)[0];
            drawing.line(vec![[across, self.corner[1]], [across, self.bottom()]], 1.0, pale);
        }
        for tick in vertical {
            let height = self.place(0.0, tick.value)[1];
            drawing.line(vec![[self.corner[0], height], [self.right(), height]], 1.0, pale);
        }
    }

    /// Draws the frame's outline, the ticks and, where asked, the numbers at the left.
    pub(super) fn draw(
        &self,
        drawing: &mut Drawing,
        horizontal: &[Tick],
        vertical: &[Tick],
        numbers_at_left: bool,
    ) {
        let [left, top] = self.corner;
        let (right, bottom) = (self.right(), self.bottom());
        let corners = [[left, top], [right, top], [right, bottom], [left, bottom], [left, top]];
        // The second point once more: the last corner is a join, too.
        drawing.line(corners.into_iter().chain([[right, top]]).collect(), 1.0, GREY);
        for tick in horizontal {
            let across = self.place(tick.value, 0.0)[0];
            drawing.line(vec![[across, bottom], [across, bottom + TICK]], 1.0, GREY);
            let at = [across, bottom + TICK + 1.0 + TICK_SIZE];
            drawing.text(at, &tick.label, TICK_SIZE, Align::Middle, TEXT);
        }
        for tick in vertical {
            let height = self.place(0.0, tick.value)[1];
            drawing.line(vec![[left - TICK, height], [left, height]], 1.0, GREY);
            if numbers_at_left {
                let at = [left - TICK - 3.0, height + 0.36 * TICK_SIZE];
                drawing.text(at, &tick.label, TICK_SIZE, Align::End, TEXT);
            }
        }
    }
}

/// The room the numbers of a vertical axis need at its left.
pub(super) fn room(ticks: &[Tick]) -> f64 {
    let widest = ticks.iter().map(|tick| font::width(&tick.label, TICK_SIZE)).fold(0.0, f64::max);
    widest + TICK + 5.0
}

/// The smallest of 1, 2, 5 · 10ᵏ (2.5 · 10ᵏ where whole) that cuts `extent` into at most `most`.
pub(super) fn round_step(extent: f64, most: usize) -> f64 {
    let least = (extent / most as f64).max(f64::MIN_POSITIVE);
    let power = 10.0_f64.powf(least.log10().floor());
    let whole = |factor: &&f64| **factor != 2.5 || power >= 10.0;
    let factors = [1.0, 2.0, 2.5, 5.0, 10.0];
    // A hair of slack: 0.1 · 3 must not miss 0.3.
    let fits = |factor: &&f64| **factor * power >= least * (1.0 - 1e-9);
    factors.iter().filter(whole).find(fits).map_or(10.0 * power, |factor| factor * power)
}

/// Ticks at multiples of a round step, at most `most` + 1 of them.
pub(super) fn ticks([low, high]: [f64; 2], most: usize) -> Vec<Tick> {
    let step = round_step(high - low, most);
    let first = (low / step - 1e-6).ceil() as i64;
    let last = (high / step + 1e-6).floor() as i64;
    (first..=last)
        .map(|index| {
            let value = index as f64 * step;
            Tick { value, label: label(value, step) }
        })
        .collect()
}

/// How a multiple of `step` reads: as few decimals as the step needs, thousands as `k`, millions
/// as `M`.
pub(super) fn label(value: f64, step: f64) -> String {
    let (unit, suffix) = match step {
        step if step >= 2e5 || (step >= 500.0 && value.abs() >= 1e6) => (1e6, "M"),
        step if step >= 500.0 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let needs = |decimals: &usize| {
        let scaled = step / unit * 10.0_f64.powi(*decimals as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    let decimals = (0..9).find(needs).unwrap_or(9);
    let text = format!("{:.decimals$}", value.abs() / unit);
    let zero = text.chars().all(|digit| matches!(digit, '0' | '.'));
    match (zero, value < 0.0) {
        (true, _) => "0".to_owned(),
        (false, true) => format!("−{text}{suffix}"),
        (false, false) => format!("{text}{suffix}"),
    }
}

/// A range a little wider than the values, never empty.
pub(super) fn padded(values: impl IntoIterator<Item = f64>, share: f64) -> [f64; 2] {
    let [low, high] =
        values.into_iter().fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| {
            [low.min(value), high.max(value)]
        });
    let pad = match high - low {
        extent if extent > 0.0 => share * extent,
        _ => 0.5 * low.abs().max(1.0),
    };
    [low - pad, high + pad]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(range: [f64; 2], most: usize) -> Vec<String> {
        ticks(range, most).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_stand_at_round_numbers() {
        assert_eq!(labels([-1.1, 1.1], 5), ["−1.0", "−0.5", "0", "0.5", "1.0"]);
        assert_eq!(labels([0.0, 100_000.0], 5), ["0", "20k", "40k", "60k", "80k", "100k"]);
        assert_eq!(labels([0.0, 1e6], 5), ["0", "0.2M", "0.4M", "0.6M", "0.8M", "1.0M"]);
        assert_eq!(labels([0.0, 0.3], 3), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(labels([0.0, 100.0], 4), ["0", "25", "50", "75", "100"]);
        assert_eq!(round_step(7.0, 12), 1.0);
        assert_eq!(round_step(130.0, 12), 20.0);
    }

    #[test]
    fn a_frame_places_its_corners() {
        let frame = Frame {
            corner: [10.0, 20.0],
            size: [100.0, 50.0],
            horizontal: [-1.0, 1.0],
            vertical: [0.0, 5.0],
        };
        assert_eq!(frame.place(-1.0, 0.0), [10.0, 70.0]);
        assert_eq!(frame.place(1.0, 5.0), [110.0, 20.0]);
        assert!(frame.holds([60.0, 45.0]) && !frame.holds([60.0, 75.0]));
    }

    #[test]
    fn a_range_of_one_value_is_not_empty() {
        assert_eq!(padded([3.0, 3.0], 0.1), [1.5, 4.5]);
        assert_eq!(padded([0.0, 10.0], 0.1), [-1.0, 11.0]);
    }
}
