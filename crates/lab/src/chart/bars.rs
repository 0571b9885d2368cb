//! Horizontal bars: one number for each of a few items.

use super::style::Paint;
use super::text::{escape, fitted, width};
use super::{Frame, Guide, Mode, Style, TEXT, WIDTH, number};

/// Distance between bars.
const PITCH: f64 = 26.0;
/// Height of a bar.
const THICKNESS: f64 = 13.0;
/// Largest width for names.
const NAME_ROOM: f64 = 150.0;

/// A chart of horizontal bars from 0. [`Bars::to_svg`] draws it.
#[derive(Debug, Clone)]
pub struct Bars {
    /// Title. A standalone chart shows the title above the bars. In an inline chart, only screen readers read the
    /// title.
    pub title: String,
    /// Unit, written after each value.
    pub unit: String,
    /// The bars, from top to bottom.
    pub bars: Vec<Bar>,
    /// A reference value, if there is one.
    pub guide: Option<Guide>,
}

/// One bar.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Name, written to the left of the bar.
    pub name: String,
    /// The value, 0 or more, which is the length of the bar. If it is `None`, only the note is drawn.
    pub value: Option<f64>,
    /// Minimum and maximum of the value, drawn as a thin line.
    pub range: Option<(f64, f64)>,
    /// Note, written after the value.
    pub note: String,
    pub style: Style,
}

impl Bars {
    /// Returns the chart as one SVG element.
    pub fn to_svg(&self, mode: Mode) -> String {
        let mut frame = Frame::new(&self.title, mode);
        let names = self.bars.iter().map(|bar| width(&bar.name, TEXT)).fold(0.0, f64::max);
        let left = names.min(NAME_ROOM) + 10.0;
        let texts = self.bars.iter().map(|bar| width(&self.text(bar), TEXT)).fold(0.0, f64::max);
        let length = (WIDTH - left - texts - 8.0).max(60.0);
        let most = self.bars.iter().flat_map(values).chain(self.guide.iter().map(|guide| guide.value));
        let most = most.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let scale = if most > 0.0 { length / most } else { 0.0 };
        if let Some(guide) = &self.guide {
            frame.height += TEXT + 6.0;
            draw_guide(&mut frame, guide, left + guide.value * scale, self.bars.len());
        }
        for bar in &self.bars {
            self.draw_bar(&mut frame, bar, left, scale);
            frame.height += PITCH;
        }
        frame.finish()
    }

    fn draw_bar(&self, frame: &mut Frame, bar: &Bar, left: f64, scale: f64) {
        let (top, mode) = (frame.height + (PITCH - THICKNESS) / 2.0, frame.mode);
        let (middle, baseline) = (frame.height + PITCH / 2.0, frame.height + PITCH / 2.0 + TEXT * 0.35);
        let weight = if bar.style.strong { r#" font-weight="700""# } else { "" };
        let (ink, name) = (Paint::Ink.of(mode), escape(&fitted(&bar.name, TEXT, NAME_ROOM)));
        frame.push(&format!(r#"<text x="0" y="{baseline:.1}" fill="{ink}"{weight}>{name}</text>"#));
        let mut end = left;
        if let Some(value) = bar.value.filter(|value| value.is_finite()) {
            let (fill, long) = (Paint::Series(bar.style.color).of(mode), (value * scale).max(1.0));
            let size = format!(r#"x="{left:.1}" y="{top:.1}" width="{long:.1}" height="{THICKNESS}""#);
            frame.push(&format!(r#"<rect {size} rx="2" fill="{fill}"/>"#));
            end += long;
        }
        if let Some((least, most)) = bar.range.filter(|(least, most)| least.is_finite() && most.is_finite()) {
            let (from, to) = (left + least * scale, left + most * scale);
            frame.line((from, middle), (to, middle), Paint::Ink, "1.2");
            for tip in [from, to] {
                frame.line((tip, middle - 3.0), (tip, middle + 3.0), Paint::Ink, "1.2");
            }
            end = end.max(to);
        }
        frame.text_over(end + 6.0, baseline, Paint::Ink, &self.text(bar));
    }

    /// The text to the right of a bar: its value with the unit, and its note.
    fn text(&self, bar: &Bar) -> String {
        let value = bar.value.map(|value| format!("{} {}", number::significant(value), self.unit));
        let parts = [value.unwrap_or_default(), bar.note.clone()];
        parts.map(|part| part.trim().to_owned()).join(" ").trim().to_owned()
    }
}

fn values(bar: &Bar) -> impl Iterator<Item = f64> {
    bar.value.into_iter().chain(bar.range.map(|(_, most)| most))
}

fn draw_guide(frame: &mut Frame, guide: &Guide, at: f64, bars: usize) {
    let (top, bottom) = (frame.height - 2.0, frame.height + bars as f64 * PITCH);
    frame.line((at, top), (at, bottom), Paint::Soft, r#"1" stroke-dasharray="2 3"#);
    let half = width(&guide.label, TEXT) / 2.0;
    let middle = at.clamp(half, (WIDTH - half).max(half));
    frame.text(middle, top - 5.0, "middle", Paint::Soft, &guide.label);
}

#[cfg(test)]
#[path = "bars_tests.rs"]
mod tests;
