//! A drawing as a list of marks, in pixels from the upper left corner; both writers read it.

/// Pixels right and down from the upper left corner.
pub(super) type PagePoint = [f64; 2];

/// A colour with its opacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ink {
    pub(super) colour: [u8; 3],
    pub(super) opacity: f64,
}

impl Ink {
    pub(super) const fn new(colour: [u8; 3]) -> Self {
        Self { colour, opacity: 1.0 }
    }

    pub(super) const fn grey(level: u8) -> Self {
        Self::new([level; 3])
    }

    pub(super) const fn opacity(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }
}

pub(super) const WHITE: Ink = Ink::grey(255);
pub(super) const BLACK: Ink = Ink::grey(20);
/// Frames and ticks.
pub(super) const GREY: Ink = Ink::grey(110);
/// Text that stands back.
pub(super) const TEXT: Ink = Ink::grey(60);

/// Which part of a text stands at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Start,
    Middle,
    End,
}

/// A line of words; its point lies on the baseline.
#[derive(Debug, Clone)]
pub(super) struct Text {
    pub(super) at: PagePoint,
    pub(super) words: String,
    /// Pixels per em.
    pub(super) size: f64,
    pub(super) align: Align,
    /// Read from below upward instead of from left to right.
    pub(super) upward: bool,
    pub(super) ink: Ink,
}

/// One thing drawn over those before it.
#[derive(Debug, Clone)]
pub(super) enum Mark {
    /// Closed rings, filled where they wind around a point at least once.
    Area { rings: Vec<Vec<PagePoint>>, ink: Ink },
    /// A stroke with round joins, or dashes of (drawn, left out) pixels.
    Line { points: Vec<PagePoint>, width: f64, dash: Option<[f64; 2]>, ink: Ink },
    /// A filled disc.
    Disc { centre: PagePoint, radius: f64, ink: Ink },
    /// A line of words.
    Text(Text),
}

/// A white sheet with marks on it.
#[derive(Debug, Clone)]
pub(super) struct Drawing {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) marks: Vec<Mark>,
}

impl Drawing {
    pub(super) fn new(width: f64, height: f64) -> Self {
        Self { width: width.ceil() as u32, height: height.ceil() as u32, marks: Vec::new() }
    }

    pub(super) fn area(&mut self, rings: Vec<Vec<PagePoint>>, ink: Ink) {
        self.marks.push(Mark::Area { rings, ink });
    }

    pub(super) fn rectangle(
        &mut self,
        [left, top]: PagePoint,
        [width, height]: PagePoint,
        ink: Ink,
    ) {
        let (right, bottom) = (left + width, top + height);
        self.area(vec![vec![[left, top], [right, top], [right, bottom], [left, bottom]]], ink);
    }

    pub(super) fn line(&mut self, points: Vec<PagePoint>, width: f64, ink: Ink) {
        self.marks.push(Mark::Line { points, width, dash: None, ink });
    }

    pub(super) fn dashes(&mut self, points: Vec<PagePoint>, width: f64, dash: [f64; 2], ink: Ink) {
        self.marks.push(Mark::Line { points, width, dash: Some(dash), ink });
    }

    pub(super) fn disc(&mut self, centre: PagePoint, radius: f64, ink: Ink) {
        self.marks.push(Mark::Disc { centre, radius, ink });
    }

    pub(super) fn text(&mut self, at: PagePoint, words: &str, size: f64, align: Align, ink: Ink) {
        let words = words.to_owned();
        self.marks.push(Mark::Text(Text { at, words, size, align, upward: false, ink }));
    }

    pub(super) fn upward(&mut self, at: PagePoint, words: &str, size: f64, ink: Ink) {
        let (words, align) = (words.to_owned(), Align::Middle);
        self.marks.push(Mark::Text(Text { at, words, size, align, upward: true, ink }));
    }
}
