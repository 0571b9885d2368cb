//! Charts as SVG: lines and horizontal bars, readable from a phone to a wide screen.
//!
//! A drawing is [`WIDTH`] units wide and its text 12 units high, so that a page can show it 320 to 600 pixels wide.
//! [`Mode::Inline`] uses the colors of the page, whose style sheet must declare [`LIGHT`] and [`DARK`].
//! [`Mode::Standalone`] is a separate file, drawn on white. Readers can distinguish lines without colors, by label and
//! dash. All text is escaped.

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
/// Font size.
const TEXT: f64 = 12.0;

/// A line chart. [`Chart::to_svg`] draws it.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Title. A standalone chart shows the title above the lines. In an inline chart, only screen readers read the
    /// title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, each labeled at its right end. Emphasized lines are drawn above the others.
    pub series: Vec<Series>,
    /// Reference values on the vertical axis, such as a goal.
    pub guides: Vec<Guide>,
}

/// One axis of a chart.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The quantity, without its unit.
    pub label: String,
    /// The unit, written after the label; empty if there is none.
    pub unit: String,
    /// How values become positions.
    pub scale: Scale,
    /// Smallest and largest value shown. By default the range fits the values.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// An axis whose range fits the values.
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
    /// Label of the line.
    pub name: String,
    /// Points of x and y, ascending by x. A point is left out if an axis cannot show its value. No axis can show a
    /// value that is not finite. A logarithmic axis cannot show 0 and negative values. An axis of quantiles shows only
    /// values from 0 to below 1.
    pub points: Vec<(f64, f64)>,
    /// A pale band: values of x, each with the minimum and the maximum of y at this x. May be empty.
    pub band: Vec<(f64, f64, f64)>,
    pub style: Style,
}

impl Series {
    /// A line without a band.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>, style: Style) -> Self {
        Self { name: name.into(), points, band: Vec::new(), style }
    }
}

/// A reference value, drawn as a dashed line.
#[derive(Debug, Clone)]
pub struct Guide {
    /// The value.
    pub value: f64,
    /// Label of the value.
    pub label: String,
}
