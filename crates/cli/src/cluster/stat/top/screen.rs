//! Draws the state. Uses the terminal's own colours, so that the table is readable on light and dark backgrounds.

use std::io::{self, stdout};
use std::{panic, thread};

use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{LeaveAlternateScreen, disable_raw_mode};
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{self, Cell, Paragraph, Table};
use ratatui::{DefaultTerminal, Frame};

use super::column::Column;
use super::fit::{Fitted, GAP, cut, fit};
use super::state::State;
use crate::cluster::printable::proxies;
use crate::cluster::stat::counts::{Figures, number, percent};
use crate::cluster::stat::methods::Row;

/// Number of lines besides the table's rows: two lines of the head, the column headers, and the footer with the keys.
const OTHER_LINES: u16 = 4;
/// A success rate below this limit is shown in yellow.
const SUCCESS_GOOD: f64 = 0.99;
/// A success rate below this limit is shown in red.
const SUCCESS_FAIR: f64 = 0.95;
/// Minimum width of the screen, in columns, at which the head writes `calls/s` instead of `/s`, and also shows the
/// interval between two readings.
const WIDE: u16 = 80;
/// Minimum width of the screen, in columns, at which the footer names all keys.
const VERY_WIDE: u16 = 100;

const KEYS: &str = "q end  ←→ sort  r reverse  ↑↓ scroll  / filter  p pause";
const ALL_KEYS: &str = "q Esc end   ← → s sort   r reverse   ↑ ↓ PageUp PageDown Home End scroll   / filter   p pause";

/// The terminal in full-screen mode. Dropping this value restores the previous mode and content.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    has_colours: bool,
    _restored: Restored,
}

/// Restores the terminal when dropped.
struct Restored;

impl Screen {
    /// Takes over the terminal: alternate screen, no echo, no line editing.
    ///
    /// # Errors
    /// If the terminal does not support a mode that the table needs. The terminal then has its previous mode again.
    pub(super) fn open(has_colours: bool) -> io::Result<Self> {
        let restored = Restored;
        let terminal = ratatui::try_init()?;
        // Show the cursor on panic. ratatui's panic hook restores only the rest of the terminal, and our release build
        // aborts on panic, so no destructor runs.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let _ = execute!(stdout(), Show);
            hook(info);
        }));
        Ok(Self { terminal, has_colours, _restored: restored })
    }

    /// # Errors
    /// If the terminal cannot be written.
    pub(super) fn show(&mut self, state: &mut State) -> io::Result<()> {
        let has_colours = self.has_colours;
        self.terminal.draw(|frame| draw(state, has_colours, frame))?;
        Ok(())
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        // On panic, do nothing: the panic hook has restored the terminal already. Leaving the alternate screen a second
        // time would move the cursor onto the panic message.
        if thread::panicking() {
            return;
        }
        // Ignore errors: if the terminal no longer exists, there is nothing to restore.
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}

fn draw(state: &mut State, has_colours: bool, frame: &mut Frame<'_>) {
    let area = frame.area();
    state.set_page(area.height.saturating_sub(OTHER_LINES).into());
    let line_at = |line: u16, lines: u16| Rect { y: area.y + line, height: lines, ..area }.intersection(area);
    frame.render_widget(Paragraph::new(totals(state, area.width, has_colours)), line_at(0, 1));
    frame.render_widget(Paragraph::new(status(state, has_colours)), line_at(1, 1));
    let rows = state.rows();
    let body = line_at(2, area.height.saturating_sub(OTHER_LINES - 1));
    if rows.is_empty() {
        frame.render_widget(Paragraph::new(without_rows(state)), body);
    } else {
        frame.render_widget(table(state, &rows, body, has_colours), body);
    }
    frame.render_widget(Paragraph::new(footer(state, area.width)), line_at(area.height.saturating_sub(1), 1));
}

/// Formats the totals of the calls in both directions, and the number of proxies.
fn totals(state: &State, width: u16, has_colours: bool) -> Line<'static> {
    let shown = &state.shown;
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (side, figures) in [("in", &shown.inbound), ("out", &shown.outbound)] {
        let Some(Figures { calls_per_second, success_rate, .. }) = figures else { continue };
        let unit = if width < WIDE { "/s" } else { " calls/s" };
        spans.push(format!("{side} ").into());
        spans.push(format!("{}{unit} ", number(Some(*calls_per_second))).bold());
        spans.push(Span::styled(percent(*success_rate), success_style(*success_rate, has_colours)));
        spans.push("   ".into());
    }
    let answering = shown.proxies - shown.silent.len();
    let all = proxies(shown.proxies);
    if shown.silent.is_empty() {
        spans.push(all.into());
    } else {
        spans.push(Span::styled(format!("{answering}/{all}"), alarm(has_colours)));
    }
    if width >= WIDE {
        spans.push(format!("   every {} s", state.every.as_secs_f64()).dim());
    }
    Line::from(spans)
}

/// Formats the status line. It shows only unusual states: a pause, a filter, rows that do not fit on the screen, and
/// proxies that do not answer.
fn status(state: &State, has_colours: bool) -> Line<'static> {
    let (rows, lines) = (state.rows().len(), state.page());
    let mut parts: Vec<Span<'static>> = Vec::new();
    if state.is_paused {
        parts.push("PAUSED".reversed());
    }
    if rows > lines {
        parts.push(format!("lines {}-{} of {rows}", state.first() + 1, state.first() + lines).into());
    }
    if !state.filter.is_empty() && !state.is_typing {
        parts.push(format!("filter {}", state.filter).bold());
        parts.push("Esc clears".dim());
    }
    if let Some(why) = state.shown.silent.first() {
        let what = match state.shown.silent.len() {
            1 => "no answer".to_owned(),
            proxies => format!("no answer from {proxies} proxies"),
        };
        parts.push(Span::styled(format!("{what}: {why}"), alarm(has_colours)));
    }
    let gaps = parts.into_iter().flat_map(|part| [Span::raw("   "), part]);
    Line::from(gaps.skip(1).collect::<Vec<_>>())
}

fn without_rows(state: &State) -> Line<'static> {
    let shown = &state.shown;
    let why = match (shown.proxies, shown.counted) {
        (0, _) => "no proxy runs here; -n NAME or -A looks elsewhere".to_owned(),
        (proxies, _) if shown.silent.len() == proxies => "no proxy answers".to_owned(),
        (_, 0) => format!("counting for {} s", state.every.as_secs_f64()),
        _ if !shown.rows.is_empty() => "no method matches the filter".to_owned(),
        _ => "no method has had a call since the start".to_owned(),
    };
    Line::from(why).dim()
}

fn table(state: &State, rows: &[&Row], area: Rect, has_colours: bool) -> Table<'static> {
    let columns = fit(rows, area.width.into(), state.sorted);
    let lines = rows.iter().skip(state.first()).take(state.page());
    let lines = lines.map(|row| {
        let cells = columns.iter().map(|fitted| cell(row, fitted, has_colours));
        let style = if row.is_idle() { Style::new().dim() } else { Style::new() };
        widgets::Row::new(cells.collect::<Vec<_>>()).style(style)
    });
    let heads = columns.iter().map(|fitted| head(state, fitted));
    let widths = columns.iter().map(|&(_, width)| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
    Table::new(lines.collect::<Vec<_>>(), widths.collect::<Vec<_>>())
        .header(widgets::Row::new(heads.collect::<Vec<_>>()))
        .column_spacing(u16::try_from(GAP).unwrap_or(1))
}

fn head(state: &State, &(column, _): &Fitted) -> Cell<'static> {
    let head = if column == state.sorted {
        let mark = if state.is_reversed { "▲" } else { "▼" };
        format!("{}{mark}", column.head()).bold().reversed()
    } else {
        column.head().dim()
    };
    Cell::from(Line::from(head).alignment(alignment(column)))
}

fn cell(row: &Row, &(column, most): &Fitted, has_colours: bool) -> Cell<'static> {
    let style = match column {
        Column::Success => success_style(row.figures.success_rate, has_colours),
        _ => Style::new(),
    };
    let text = cut(column, column.cell(row), most);
    Cell::from(Line::styled(text, style).alignment(alignment(column)))
}

fn alignment(column: Column) -> Alignment {
    if column.is_number() { Alignment::Right } else { Alignment::Left }
}

fn footer(state: &State, width: u16) -> Line<'static> {
    if !state.is_typing {
        let keys = if width < VERY_WIDE { KEYS } else { ALL_KEYS };
        return Line::from(keys).dim();
    }
    Line::from(vec!["filter: ".bold(), state.filter.clone().into(), " ".reversed(), "  Enter keeps  Esc clears".dim()])
}

/// The style of a success rate. A low rate is red or yellow; in a terminal without colours, it is bold.
fn success_style(success: Option<f64>, has_colours: bool) -> Style {
    match success {
        Some(success) if success < SUCCESS_FAIR => alarm(has_colours),
        Some(success) if success < SUCCESS_GOOD && has_colours => Style::new().yellow(),
        Some(success) if success < SUCCESS_GOOD => Style::new().bold(),
        _ => Style::new(),
    }
}

fn alarm(has_colours: bool) -> Style {
    if has_colours { Style::new().red().bold() } else { Style::new().bold() }
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
