//! Drawing a line chart.

use super::scale::Ruler;
use super::style::Paint;
use super::text::{escape, fitted, width};
use super::{Chart, Frame, Mode, Series, TEXT, WIDTH, labels};

/// Height of the plot area.
const PLOT: f64 = 172.0;
/// Distance between a line's end and its label.
const LEADER: f64 = 12.0;
/// Largest width for labels of lines.
const LABEL_ROOM: f64 = 130.0;
/// A line with at most this many points gets a dot on each point.
const DOTTED_POINTS: usize = 12;

impl Chart {
    /// Returns the chart as one SVG element. If an axis has neither a range nor values, the chart is only a note that
    /// nothing was measured.
    pub fn to_svg(&self, mode: Mode) -> String {
        let mut frame = Frame::new(&self.title, mode);
        let points = || self.series.iter().flat_map(|line| line.points.iter().copied());
        let xs = self.x.range.map_or_else(|| points().map(|(x, _)| x).collect(), |(a, b)| vec![a, b]);
        let bands = self.series.iter().flat_map(|line| line.band.iter().flat_map(|&(_, least, most)| [least, most]));
        let needed = || points().map(|(_, y)| y).chain(bands).chain(self.guides.iter().map(|guide| guide.value));
        let ys = self.y.range.map_or_else(|| needed().collect(), |(a, b)| vec![a, b]);
        let x = Ruler::new(self.x.scale, xs.into_iter(), false);
        let y = Ruler::new(self.y.scale, ys.into_iter(), self.y.range.is_none());
        let (Some(x), Some(y)) = (x, y) else {
            frame.text(0.0, frame.height + TEXT, "start", Paint::Soft, "nothing was measured");
            frame.height += 2.0 * TEXT;
            return frame.finish();
        };
        Drawing::new(self, &mut frame, x, y).draw();
        frame.finish()
    }
}

/// A chart being drawn: its scales and its plot area.
struct Drawing<'a> {
    chart: &'a Chart,
    frame: &'a mut Frame,
    x: Ruler,
    y: Ruler,
    left: f64,
    right: f64,
    top: f64,
}

impl<'a> Drawing<'a> {
    fn new(chart: &'a Chart, frame: &'a mut Frame, x: Ruler, y: Ruler) -> Self {
        let ticks = y.ticks(6).into_iter().map(|tick| width(&y.tick_text(tick), TEXT));
        let left = ticks.fold(0.0, f64::max) + 8.0;
        let names = chart.series.iter().map(|line| width(&line.name, TEXT));
        let right = WIDTH - names.fold(0.0, f64::max).min(LABEL_ROOM) - LEADER - 2.0;
        let top = frame.height + TEXT + 12.0;
        Self { chart, frame, x, y, left, right, top }
    }

    fn draw(mut self) {
        self.frame.text(0.0, self.top - 12.0, "start", Paint::Soft, &self.chart.y.caption());
        self.grid();
        self.x_axis();
        let mut lines: Vec<&Series> = self.chart.series.iter().collect();
        lines.sort_by_key(|line| line.style.strong);
        for line in &lines {
            self.band(line);
        }
        for line in &lines {
            self.line(line);
        }
        self.guides();
        self.labels();
    }

    fn bottom(&self) -> f64 {
        self.top + PLOT
    }

    fn point(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let (across, up) = (self.x.position(x)?, self.y.position(y)?);
        Some((self.left + across * (self.right - self.left), self.bottom() - up * PLOT))
    }

    fn grid(&mut self) {
        let (left, right) = (self.left, self.right);
        for tick in self.y.ticks(6) {
            let Some(up) = self.y.position(tick) else { continue };
            let at = self.bottom() - up * PLOT;
            self.frame.line((left, at), (right, at), Paint::Grid, "1");
            let text = self.y.tick_text(tick);
            self.frame.text(left - 6.0, at + TEXT * 0.35, "end", Paint::Soft, &text);
        }
    }

    /// Draws the axis, its caption, and the ticks' texts. Leaves out a text that would touch the previous text.
    fn x_axis(&mut self) {
        let bottom = self.bottom();
        self.frame.line((self.left, bottom), (self.right, bottom), Paint::Soft, "1");
        let mut free_from = f64::NEG_INFINITY;
        for tick in self.x.ticks(6) {
            let Some(across) = self.x.position(tick) else { continue };
            let at = self.left + across * (self.right - self.left);
            self.frame.line((at, bottom), (at, bottom + 4.0), Paint::Soft, "1");
            let text = self.x.tick_text(tick);
            let half = width(&text, TEXT) / 2.0;
            if at - half >= free_from {
                self.frame.text(at, bottom + 6.0 + TEXT, "middle", Paint::Soft, &text);
                free_from = at + half + 4.0;
            }
        }
        let middle = f64::midpoint(self.left, self.right);
        let caption = self.chart.x.caption();
        self.frame.text(middle, bottom + 24.0 + TEXT, "middle", Paint::Soft, &caption);
        self.frame.height = bottom + 24.0 + TEXT + 6.0;
    }

    fn guides(&mut self) {
        for guide in &self.chart.guides {
            let Some(up) = self.y.position(guide.value) else { continue };
            let at = self.bottom() - up * PLOT;
            self.frame.line((self.left, at), (self.right, at), Paint::Soft, r#"1" stroke-dasharray="2 3"#);
            self.frame.text_over(self.left + 4.0, at - 4.0, Paint::Soft, &guide.label);
        }
    }

    fn band(&mut self, line: &Series) {
        let upper = line.band.iter().filter_map(|&(x, _, most)| self.point(x, most));
        let lower = line.band.iter().rev().filter_map(|&(x, least, _)| self.point(x, least));
        let outline: String = upper.chain(lower).map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
        if !outline.is_empty() {
            let fill = Paint::Series(line.style.color).of(self.frame.mode);
            let points = outline.trim_end();
            self.frame.push(&format!(r#"<polygon points="{points}" fill="{fill}" fill-opacity="0.13"/>"#));
        }
    }

    fn line(&mut self, line: &Series) {
        let places: Vec<(f64, f64)> = line.points.iter().filter_map(|&(x, y)| self.point(x, y)).collect();
        let points: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let stroke = line.style.stroke(self.frame.mode);
        let points = points.join(" ");
        self.frame.push(&format!(r#"<polyline points="{points}" fill="none" stroke-linejoin="round" {stroke}/>"#));
        if places.len() <= DOTTED_POINTS {
            let fill = Paint::Series(line.style.color).of(self.frame.mode);
            let radius = if line.style.strong { 3.2 } else { 2.4 };
            for (x, y) in places {
                self.frame.push(&format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius}" fill="{fill}"/>"#));
            }
        }
    }

    /// Writes the name of each line at its right end. Moves names apart that would overlap.
    fn labels(&mut self) {
        let end = |line: &Series| line.points.iter().rev().find_map(|&(x, y)| self.point(x, y));
        let ends: Vec<(&Series, (f64, f64))> =
            self.chart.series.iter().filter_map(|line| Some((line, end(line)?))).collect();
        let wanted: Vec<f64> = ends.iter().map(|(_, (_, y))| *y).collect();
        let places = labels::spread(&wanted, TEXT + 2.0, (self.top, self.bottom()));
        for ((line, (x, y)), place) in ends.into_iter().zip(places) {
            let from = (x + 4.0, y);
            self.frame.line(from, (self.right + LEADER - 2.0, place), Paint::Series(line.style.color), "1");
            let name = escape(&fitted(&line.name, TEXT, LABEL_ROOM));
            let weight = if line.style.strong { r#" font-weight="700""# } else { "" };
            let ink = Paint::Ink.of(self.frame.mode);
            let (left, baseline) = (self.right + LEADER, place + TEXT * 0.35);
            self.frame.push(&format!(r#"<text x="{left:.1}" y="{baseline:.1}" fill="{ink}"{weight}>{name}</text>"#));
        }
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
