//! The SVG element of a drawing, and the shapes in it.

use super::style::Paint;
use super::text::{escape, wrap};
use super::{Mode, TEXT, WIDTH};

/// Font size of a title.
const TITLE: f64 = 14.0;
/// Pixels per unit in a standalone drawing.
const STANDALONE_SCALE: f64 = 1.8;
/// Margin of a standalone drawing, in units.
const MARGIN: f64 = 12.0;

/// An unfinished drawing.
pub(super) struct Frame {
    pub(super) mode: Mode,
    /// Height of the content so far, in units.
    pub(super) height: f64,
    title: String,
    shapes: String,
}

impl Frame {
    /// Begins a drawing. In a standalone drawing, draws the title.
    pub(super) fn new(title: &str, mode: Mode) -> Self {
        let mut frame = Self { mode, height: 0.0, title: title.to_owned(), shapes: String::new() };
        if mode == Mode::Standalone {
            for line in wrap(title, TITLE, WIDTH) {
                frame.height += TITLE + 4.0;
                let (baseline, ink, line) = (frame.height - 4.0, Paint::Ink.of(mode), escape(&line));
                let style = format!(r#"font-size="{TITLE}" font-weight="600" fill="{ink}""#);
                frame.push(&format!(r#"<text x="0" y="{baseline:.1}" {style}>{line}</text>"#));
            }
            frame.height += 6.0;
        }
        frame
    }

    /// Adds an element.
    pub(super) fn push(&mut self, element: &str) {
        self.shapes.push_str(element);
        self.shapes.push('\n');
    }

    /// Adds text with its baseline at `y`; `anchor` is `start`, `middle` or `end`.
    pub(super) fn text(&mut self, x: f64, y: f64, anchor: &str, paint: Paint, text: &str) {
        let (fill, text) = (paint.of(self.mode), escape(text));
        self.push(&format!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" fill="{fill}">{text}</text>"#));
    }

    /// Adds text that begins at `x`, with a halo that keeps the text readable where it crosses a line.
    pub(super) fn text_over(&mut self, x: f64, y: f64, paint: Paint, text: &str) {
        let (fill, paper, text) = (paint.of(self.mode), Paint::Paper.of(self.mode), escape(text));
        let halo = format!(r#"fill="{fill}" stroke="{paper}" stroke-width="3" paint-order="stroke""#);
        self.push(&format!(r#"<text x="{x:.1}" y="{y:.1}" {halo}>{text}</text>"#));
    }

    /// Adds a straight line; `thickness` is its stroke width.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), paint: Paint, thickness: &str) {
        let ((x1, y1), (x2, y2), stroke) = (from, to, paint.of(self.mode));
        let ends = format!(r#"x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}""#);
        self.push(&format!(r#"<line {ends} stroke="{stroke}" stroke-width="{thickness}"/>"#));
    }

    /// Returns the complete SVG element.
    pub(super) fn finish(self) -> String {
        let Self { mode, height, title, shapes } = self;
        let title = escape(&title);
        let spoken = format!(r#"role="img" aria-label="{title}""#);
        let font = format!(r#"font-family="system-ui, -apple-system, 'Segoe UI', sans-serif" font-size="{TEXT}""#);
        if mode == Mode::Inline {
            let size = format!(r#"viewBox="0 0 {WIDTH} {height:.0}""#);
            return format!("<svg class=\"chart\" {size} {spoken} {font}>\n{shapes}</svg>\n");
        }
        let (wide, high) = (WIDTH + 2.0 * MARGIN, height + 2.0 * MARGIN);
        let view = format!(r#"viewBox="-{MARGIN} -{MARGIN} {wide:.0} {high:.0}""#);
        let (width, height) = (wide * STANDALONE_SCALE, high * STANDALONE_SCALE);
        let size = format!(r#"width="{width:.0}" height="{height:.0}""#);
        let white = format!(r##"<rect x="-{MARGIN}" y="-{MARGIN}" width="100%" height="100%" fill="#ffffff"/>"##);
        format!("<svg xmlns=\"http://www.w3.org/2000/svg\" {view} {size} {spoken} {font}>\n{white}\n{shapes}</svg>\n")
    }
}
