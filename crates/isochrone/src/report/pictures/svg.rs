//! A drawing as an SVG document.

use std::fmt::Write as _;

use super::drawing::{Align, Drawing, Ink, Mark, PagePoint, Text};

/// The document, from `<svg` to `</svg>`.
pub(super) fn document(drawing: &Drawing) -> String {
    let (width, height) = (drawing.width, drawing.height);
    let mut document = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" stroke-linejoin=\"round\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    for mark in &drawing.marks {
        document.push_str(&element(mark));
        document.push('\n');
    }
    document.push_str("</svg>\n");
    document
}

fn element(mark: &Mark) -> String {
    match mark {
        Mark::Area { rings, ink } => {
            let rings: String = rings.iter().map(|ring| path(ring) + "Z").collect();
            format!("<path d=\"{rings}\"{}/>", paint("fill", *ink))
        }
        Mark::Line { points, width, dash, ink } => {
            let dash = dash.map_or(String::new(), |[drawn, left_out]| {
                format!(" stroke-dasharray=\"{} {}\"", number(drawn), number(left_out))
            });
            let paint = paint("stroke", *ink);
            let (path, width) = (path(points), number(*width));
            format!("<path d=\"{path}\" fill=\"none\"{paint} stroke-width=\"{width}\"{dash}/>")
        }
        Mark::Disc { centre, radius, ink } => {
            let [across, down] = centre.map(number);
            let (radius, paint) = (number(*radius), paint("fill", *ink));
            format!("<circle cx=\"{across}\" cy=\"{down}\" r=\"{radius}\"{paint}/>")
        }
        Mark::Text(text) => words(text),
    }
}

fn words(text: &Text) -> String {
    let [across, down] = text.at.map(number);
    let anchor = match text.align {
        Align::Start => "start",
        Align::Middle => "middle",
        Align::End => "end",
    };
    let turn = match text.upward {
        true => format!(" transform=\"rotate(-90 {across} {down})\""),
        false => String::new(),
    };
    let (size, paint) = (number(text.size), paint("fill", text.ink));
    let words = text.words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<text x=\"{across}\" y=\"{down}\" font-size=\"{size}\" \
         text-anchor=\"{anchor}\"{paint}{turn}>{words}</text>"
    )
}

fn path(points: &[PagePoint]) -> String {
    let mut path = String::new();
    for (index, point) in points.iter().enumerate() {
        let [across, down] = point.map(number);
        let command = if index == 0 { 'M' } else { 'L' };
        // Writing to a string does not fail.
        let _ = write!(path, "{command}{across} {down}");
    }
    path
}

fn paint(attribute: &str, ink: Ink) -> String {
    let [red, green, blue] = ink.colour;
    let opacity = match ink.opacity {
        opacity if opacity < 1.0 => format!(" {attribute}-opacity=\"{}\"", number(opacity)),
        _ => String::new(),
    };
    format!(" {attribute}=\"#{red:02x}{green:02x}{blue:02x}\"{opacity}")
}

/// Two decimals, without the zeros at the end.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::drawing::BLACK;
    use super::*;

    #[test]
    fn words_are_escaped_and_numbers_short() {
        let mut drawing = Drawing::new(20.0, 10.0);
        drawing.text([1.50, -0.001], "a < b & c", 12.0, Align::Start, BLACK);
        let document = document(&drawing);
        assert!(document.starts_with("<svg ") && document.ends_with("</svg>\n"));
        assert!(document.contains(">a &lt; b &amp; c</text>"));
        assert!(document.contains("x=\"1.5\" y=\"0\""));
    }
}
