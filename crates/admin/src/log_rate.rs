//! How many log lines of one kind peers can cause: a few a second, and the next line says how many there were beside them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Most lines of one kind in one [`WINDOW`].
const LINES_MAX: u32 = 5;

/// The time in which lines are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Bounds the lines of one kind.
#[derive(Debug, Default)]
pub struct LogRate(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    window_began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

/// A line may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// Lines of the same kind that were not written since the last one, if any.
    pub left_out: Option<u64>,
}

impl LogRate {
    /// Of a kind of which no line has been written.
    pub const fn new() -> Self {
        Self(Mutex::new(State { window_began: None, lines: 0, left_out: 0 }))
    }

    /// Whether one more line may be written now; it counts then.
    pub fn admits(&self, now: Instant) -> Option<Admitted> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.window_began.is_none_or(|began| now.saturating_duration_since(began) >= WINDOW) {
            (state.window_began, state.lines) = (Some(now), 0);
        }
        if state.lines >= LINES_MAX {
            state.left_out += 1;
            return None;
        }
        state.lines += 1;
        let left_out = std::mem::take(&mut state.left_out);
        Some(Admitted { left_out: (left_out > 0).then_some(left_out) })
    }
}

#[cfg(test)]
#[path = "log_rate_tests.rs"]
mod tests;
