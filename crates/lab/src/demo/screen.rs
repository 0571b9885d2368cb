//! The demo on a terminal: rows of measurements, and a bar for each server's share of calls.
//!
//! The demo draws below the prompt, not on the alternate screen, so that the closing table stays in the scrollback.

use std::io;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::terminal::disable_raw_mode;
use ratatui::layout::Rect;
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame, TerminalOptions, Viewport};

use super::Moment;
use super::row::{HEADER, Row};
use super::way::Way;
use crate::load::Latency;

/// Number of lines of the drawing: the head, the table and the bars.
const HEIGHT: u16 = 17;
/// Columns of a bar at 100 %; a fair share of 20 % fills a fifth of them.
const BAR_COLUMNS: usize = 40;
/// Measured time before which the table shows no numbers. Until then, the slow server's first answers are missing, so
/// the shares would mislead.
const FIRST_NUMBERS: Duration = Duration::from_millis(500);

/// The part of the terminal on which the demo draws. Dropping this value restores the terminal.
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes over the terminal: no echo, no line editing. A panic restores the terminal too.
    pub(super) fn open() -> io::Result<Self> {
        let viewport = Viewport::Inline(HEIGHT);
        let terminal = ratatui::try_init_with_options(TerminalOptions { viewport })?;
        Ok(Self { terminal })
    }

    pub(super) fn show(&mut self, moment: &Moment<'_>) -> io::Result<()> {
        self.terminal.draw(|frame| draw(moment, frame)).map(|_| ())
    }

    /// Returns whether `q`, Escape or Ctrl-C was pressed.
    pub(super) fn is_left(&self) -> io::Result<bool> {
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()? {
                let interrupt = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
                    KeyCode::Char('c') if interrupt => return Ok(true),
                    _ => {}
                }
            }
        }
        Ok(false)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Ignore the error: if the terminal is closed, it need not be restored.
        let _ = self.give_back();
    }
}

impl Screen {
    /// Clears the drawing, and puts the cursor where the drawing began, so that later output takes its place.
    ///
    /// `ratatui::restore` is unsuitable: it also leaves the alternate screen, which was never entered, and some
    /// terminals then move the cursor.
    fn give_back(&mut self) -> io::Result<()> {
        self.terminal.clear()?;
        let start = self.terminal.get_frame().area().as_position();
        self.terminal.set_cursor_position(start)?;
        self.terminal.show_cursor()?;
        disable_raw_mode()
    }
}

fn draw(moment: &Moment<'_>, frame: &mut Frame<'_>) {
    let area: Rect = frame.area();
    frame.render_widget(Paragraph::new(lines(moment)), area);
}

fn lines(moment: &Moment<'_>) -> Vec<Line<'static>> {
    let mut lines = vec![title(moment), Line::default(), Line::from(HEADER).dim()];
    lines.extend(moment.done.iter().map(|row| Line::from(row.to_string())));
    lines.extend(running_rows(moment));
    lines.extend(later_ways(moment.way).map(|way| Line::from(way.to_string()).dim()));
    lines.push(Line::default());
    lines.push(Line::from(format!("{}: {}", moment.way, moment.way.explanation())));
    lines.push(Line::default());
    lines.extend(bars(moment));
    lines.push(Line::default());
    lines.push(Line::from("q leaves").dim());
    lines
}

fn title(moment: &Moment<'_>) -> Line<'static> {
    let options = moment.options;
    let what =
        format!("  five gRPC servers, s5 {} ms slower than the others, {} calls/s", options.slow_ms, options.rate);
    let left = format!("   {} s left", moment.time_left.as_secs());
    Line::from(vec!["Leno demo".bold(), what.into(), left.dim()])
}

fn running_rows(moment: &Moment<'_>) -> Vec<Line<'static>> {
    if moment.snapshot.measured < FIRST_NUMBERS {
        return vec![Line::from(format!("{}: warming up", moment.way)).yellow()];
    }
    let rows: Vec<Row> = moment.way.rows(moment.snapshot);
    rows.iter().map(|row| Line::from(row.to_string()).bold()).collect()
}

fn later_ways(way: Way) -> impl Iterator<Item = Way> {
    Way::ALL.into_iter().skip_while(move |&w| w != way).skip(1)
}

/// A bar for each server: the fraction of calls that it answered, and its latency.
fn bars(moment: &Moment<'_>) -> Vec<Line<'static>> {
    let shares = moment.snapshot.shares();
    let servers = shares.iter().zip(&moment.snapshot.servers);
    let slow = shares.len();
    servers.enumerate().map(|(index, (&share, latency))| bar(index + 1, slow, share, latency)).collect()
}

fn bar(number: usize, slow: usize, share: f64, latency: &Latency) -> Line<'static> {
    let columns = (share.clamp(0.0, 1.0) * BAR_COLUMNS as f64).round() as usize;
    let style = if number == slow { Style::new().red() } else { Style::new().green() };
    let numbers = match latency.calls {
        0 => String::new(),
        _ => format!(" {:5.1} %   p50 {:5.1} ms   p99 {:5.1} ms", share * 100.0, latency.p50_ms, latency.p99_ms),
    };
    Line::from(vec![
        Span::raw(format!("s{number}  ")),
        Span::styled("█".repeat(columns), style),
        Span::raw("░".repeat(BAR_COLUMNS - columns)).dim(),
        Span::raw(numbers),
    ])
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
