//! Charts as SVG: lines and horizontal bars, readable from a phone to a wide screen.
//!
//! A drawing is [`WIDTH`] units wide and its text 12 units high, so that it can be shown at 320 to 600
//! pixels. [`Mode::Inline`] takes its colours from the page (declare [`LIGHT`] and [`DARK`] there);
//! [`Mode::Standalone`] is a file of its own, drawn on white. Lines are told apart by label, dash and
//! colour together, and all text is escaped.

mod bars;
mod frame;
mod labels;
mod lines;
pub mod number;
mod scale;
mod style;
pub mod text;

use frame::Frame;

pub use bars::{Bar, Bars};
pub use scale::Scale;
pub use style::{Color, DARK, Dash, LIGHT, Mode, Style};

/// Width of every drawing, in its own units.
pub const WIDTH: f64 = 380.0;
/// Size of its letters.
const TEXT: f64 = 12.0;

/// A line chart. [`Chart::to_svg`] draws it.
#[derive(Debug, Clone)]
pub struct Chart {
    /// What it shows. Drawn above a standalone chart; an inline one has it as its spoken name only.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, each labelled at its right end. Strong ones are drawn above the others.
    pub series: Vec<Series>,
    /// Values of the vertical axis to compare with, such as a goal.
    pub guides: Vec<Guide>,
}

/// One axis of a chart.
#[derive(Debug, Clone)]
pub struct Axis {
    /// What is measured, without the unit.
    pub label: String,
    /// The unit, empty for none; written behind the label.
    pub unit: String,
    /// How values become positions.
    pub scale: Scale,
    /// The least and the greatest value shown; without them, what the values need.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// An axis that shows what its values need.
    pub fn new(label: impl Into<String>, unit: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), unit: unit.into(), scale, range: None }
    }

    /// The label with its unit.
    fn caption(&self) -> String {
        let log = if self.scale == Scale::Log { " (log)" } else { "" };
        let comma = if self.label.is_empty() || self.unit.is_empty() { "" } else { ", " };
        format!("{}{comma}{}{log}", self.label, self.unit)
    }
}

/// One line of a chart.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its label.
    pub name: String,
    /// Points of x and y, ascending by x. Those that the scales cannot show are left out: not finite, not
    /// positive on a logarithmic scale, quantiles outside 0 to below 1.
    pub points: Vec<(f64, f64)>,
    /// Values of x with the least and the greatest y there, drawn as a pale band; may be empty.
    pub band: Vec<(f64, f64, f64)>,
    /// How it is drawn.
    pub style: Style,
}

impl Series {
    /// A line without a band.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>, style: Style) -> Self {
        Self { name: name.into(), points, band: Vec::new(), style }
    }
}

/// A value to compare with.
#[derive(Debug, Clone)]
pub struct Guide {
    /// The value.
    pub value: f64,
    /// What it is.
    pub label: String,
}
