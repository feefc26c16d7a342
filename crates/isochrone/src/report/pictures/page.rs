//! What surrounds every picture: the title above, the caption below, and the margins.

use super::drawing::{Align, BLACK, Drawing, TEXT};
use super::font;

/// Pixels between the sheet's border and anything drawn.
pub(super) const MARGIN: f64 = 18.0;

const TITLE_SIZE: f64 = 18.0;
const TITLE_LINE: f64 = 25.0;
const CAPTION_SIZE: f64 = 12.0;
const CAPTION_LINE: f64 = 17.0;

/// The words around a picture, broken into lines that fit its width.
#[derive(Debug)]
pub(super) struct Page {
    width: f64,
    title: Vec<String>,
    caption: Vec<String>,
}

impl Page {
    /// A page `width` pixels wide.
    pub(super) fn new(width: f64, title: &str, caption: &str) -> Self {
        let room = width - 2.0 * MARGIN;
        let title = font::wrap(title, TITLE_SIZE, room);
        Self { width, title, caption: font::wrap(caption, CAPTION_SIZE, room) }
    }

    /// Where the picture below the title begins.
    pub(super) fn top(&self) -> f64 {
        MARGIN + TITLE_LINE * self.title.len() as f64
    }

    /// The sheet for a picture that ends at `bottom`, with title and caption on it.
    pub(super) fn sheet(&self, bottom: f64) -> Drawing {
        let below = match self.caption.len() {
            0 => 0.0,
            lines => 8.0 + CAPTION_LINE * lines as f64,
        };
        let mut drawing = Drawing::new(self.width, bottom + below + MARGIN - 4.0);
        for (index, line) in self.title.iter().enumerate() {
            let at = [MARGIN, MARGIN + TITLE_SIZE - 3.0 + TITLE_LINE * index as f64];
            drawing.text(at, line, TITLE_SIZE, Align::Start, BLACK);
        }
        for (index, line) in self.caption.iter().enumerate() {
            let at = [MARGIN, bottom + 8.0 + CAPTION_SIZE + CAPTION_LINE * index as f64];
            drawing.text(at, line, CAPTION_SIZE, Align::Start, TEXT);
        }
        drawing
    }
}
