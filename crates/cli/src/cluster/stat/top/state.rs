//! The state of the screen: the figures, and what the user has chosen with keys. No I/O, no clock.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::board::Snapshot;
use super::column::{Column, workload};
use crate::cluster::stat::methods::Row;

/// Maximum length of the filter, in characters.
const FILTER_MAX: usize = 64;

pub(super) struct State {
    pub(super) every: Duration,
    pub(super) shown: Snapshot,
    /// The latest figures that arrived during a pause; the screen shows them after the pause.
    waiting: Option<Snapshot>,
    pub(super) is_paused: bool,
    pub(super) sorted: Column,
    pub(super) is_reversed: bool,
    /// Text that a row's method, workload or destination must contain.
    pub(super) filter: String,
    /// Whether the user is typing the filter.
    pub(super) is_typing: bool,
    /// Index of the first row on the screen.
    first: usize,
    /// Number of rows that fit on the screen.
    page: usize,
}

/// Whether the program continues after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    End,
}

impl State {
    pub(super) fn new(every: Duration, shown: Snapshot) -> Self {
        Self {
            every,
            shown,
            waiting: None,
            is_paused: false,
            sorted: Column::Calls,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            first: 0,
            page: 1,
        }
    }

    /// Stores new figures. Shows them at once or, during a pause, after the pause.
    pub(super) fn update(&mut self, figures: Snapshot) {
        if self.is_paused {
            self.waiting = Some(figures);
        } else {
            self.shown = figures;
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Next::End } else { Next::Stay };
        }
        match key.code {
            code if self.is_typing && self.type_filter(code) => {}
            KeyCode::Char('q') => return Next::End,
            KeyCode::Esc if self.filter.is_empty() => return Next::End,
            KeyCode::Esc => self.set_filter(String::new()),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('s') | KeyCode::Right => self.sort_by(self.sorted.moved(1)),
            KeyCode::Left => self.sort_by(self.sorted.moved(-1)),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('p') => self.pause(),
            code => self.scroll(code),
        }
        Next::Stay
    }

    /// Handles a key while the user types the filter. Returns false if the key does not edit the filter and keeps its
    /// usual meaning, for example if it scrolls.
    fn type_filter(&mut self, code: KeyCode) -> bool {
        let mut filter = self.filter.clone();
        match code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.set_filter(String::new());
            }
            KeyCode::Backspace => {
                filter.pop();
                self.set_filter(filter);
            }
            KeyCode::Char(letter) if filter.chars().count() < FILTER_MAX => {
                filter.push(letter);
                self.set_filter(filter);
            }
            KeyCode::Char(_) | KeyCode::Left | KeyCode::Right => {}
            _ => return false,
        }
        true
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.first = 0;
    }

    fn sort_by(&mut self, column: Column) {
        self.sorted = column;
        self.is_reversed = false;
    }

    fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        if let Some(waiting) = self.waiting.take() {
            self.shown = waiting;
        }
    }

    fn scroll(&mut self, code: KeyCode) {
        let first = match code {
            KeyCode::Up => self.first.saturating_sub(1),
            KeyCode::Down => self.first + 1,
            KeyCode::PageUp => self.first.saturating_sub(self.page),
            KeyCode::PageDown => self.first + self.page,
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => return,
        };
        self.first = first.min(self.rows().len().saturating_sub(self.page));
    }

    /// Sets the number of rows that fit on the screen.
    pub(super) fn set_page(&mut self, page: usize) {
        self.page = page.max(1);
        // Scroll back if the rows no longer fill the screen: fewer rows may match now, or the terminal may have grown.
        self.first = self.first.min(self.rows().len().saturating_sub(self.page));
    }

    /// The index of the first row on the screen.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// The number of rows that fit on the screen.
    pub(super) fn page(&self) -> usize {
        self.page
    }

    /// All rows that match the filter, in order.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let wanted = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        let matches = |row: &&Row| has(&row.key.method) || has(&row.key.at) || has(&workload(row));
        let mut rows: Vec<&Row> = self.shown.rows.iter().filter(matches).collect();
        rows.sort_by(|a, b| self.sorted.order(self.is_reversed, a, b));
        rows
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
