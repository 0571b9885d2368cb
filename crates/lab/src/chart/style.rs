//! The colors and dashes of charts, for light pages, dark pages, and separate files with a white background.

use std::fmt::{self, Write as _};

/// The place where a drawing is shown: in a page, or as a separate file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Within an HTML page, whose style sheet defines the colors.
    Inline,
    /// In a separate file: on white, with fixed colors and its title drawn.
    Standalone,
}

/// A color of Okabe and Ito's palette, whose colors color-blind people can distinguish. The pale colors of the palette
/// are darker here, so that a thin line has a contrast of at least 3 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Color {
    /// The color of the most important line.
    Blue,
    Vermilion,
    Green,
    Purple,
    Orange,
    Sky,
    /// The color of a baseline.
    Grey,
}

/// The dash of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dash {
    Solid,
    Dashed,
    Dotted,
    DashDot,
}

/// The style of a line or a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    pub color: Color,
    /// Dash of a line.
    pub dash: Dash,
    /// Whether the line or bar is emphasized.
    pub strong: bool,
}

/// Color declarations of inline drawings for a light page.
pub const LIGHT: &str = "--chart-paper:#ffffff;--chart-ink:#1f2328;--chart-soft:#59636e;--chart-grid:#d9dde2;--chart-blue:#0072b2;\
    --chart-vermilion:#c65300;--chart-green:#00805d;--chart-purple:#a8558a;--chart-orange:#a87400;\
    --chart-sky:#2f86bb;--chart-grey:#6b7280;";

/// Color declarations of inline drawings for a dark page.
pub const DARK: &str = "--chart-paper:#1b1f25;--chart-ink:#e6e8eb;--chart-soft:#a0a8b3;--chart-grid:#343a43;--chart-blue:#4aa8e8;\
    --chart-vermilion:#f2854a;--chart-green:#2fbf93;--chart-purple:#dc9ac2;--chart-orange:#e6a817;\
    --chart-sky:#7cc5ee;--chart-grey:#98a1ad;";

impl Style {
    /// Returns one of 28 distinct styles. The first 7 styles differ in color. Consecutive styles differ in color and in
    /// dash. Style 0 is solid blue.
    pub fn nth(number: usize) -> Self {
        const COLORS: [Color; 7] =
            [Color::Blue, Color::Vermilion, Color::Green, Color::Purple, Color::Orange, Color::Sky, Color::Grey];
        const DASHES: [Dash; 4] = [Dash::Solid, Dash::Dashed, Dash::DashDot, Dash::Dotted];
        let color = COLORS[number % COLORS.len()];
        Self { color, dash: DASHES[number % DASHES.len()], strong: false }
    }

    /// The same style, emphasized.
    #[must_use]
    pub fn strong(self) -> Self {
        Self { strong: true, ..self }
    }

    /// Attributes of a line.
    pub(super) fn stroke(self, mode: Mode) -> String {
        let mut attributes = String::new();
        let width = if self.strong { 2.6 } else { 1.6 };
        // Writing to a String cannot fail.
        let _ = write!(attributes, r#"stroke="{}" stroke-width="{width}""#, Paint::Series(self.color).of(mode));
        let dashes = match self.dash {
            Dash::Solid => return attributes,
            Dash::Dashed => "7 4",
            Dash::Dotted => "1.5 3.5",
            Dash::DashDot => "8 3 2 3",
        };
        let _ = write!(attributes, r#" stroke-dasharray="{dashes}""#);
        attributes
    }
}

/// The purpose of a shape, which determines its color.
#[derive(Debug, Clone, Copy)]
pub(super) enum Paint {
    /// Background.
    Paper,
    /// Text.
    Ink,
    /// Less important text.
    Soft,
    /// Grid lines.
    Grid,
    /// Lines and bars.
    Series(Color),
}

impl Paint {
    /// The value of a `fill` or `stroke`.
    pub(super) fn of(self, mode: Mode) -> impl fmt::Display {
        let name = match self {
            Self::Paper => "paper",
            Self::Ink => "ink",
            Self::Soft => "soft",
            Self::Grid => "grid",
            Self::Series(Color::Blue) => "blue",
            Self::Series(Color::Vermilion) => "vermilion",
            Self::Series(Color::Green) => "green",
            Self::Series(Color::Purple) => "purple",
            Self::Series(Color::Orange) => "orange",
            Self::Series(Color::Sky) => "sky",
            Self::Series(Color::Grey) => "grey",
        };
        match mode {
            Mode::Inline => format!("var(--chart-{name})"),
            Mode::Standalone => declared(LIGHT, name).to_owned(),
        }
    }
}

/// Returns the value of `--chart-NAME` in `declarations`.
fn declared<'a>(declarations: &'a str, name: &str) -> &'a str {
    let mut pairs = declarations.split(';').filter_map(|declaration| declaration.trim().split_once(':'));
    let found = pairs.find(|(key, _)| key.strip_prefix("--chart-") == Some(name));
    found.map_or("currentColor", |(_, value)| value)
}

#[cfg(test)]
#[path = "style_tests.rs"]
mod tests;
