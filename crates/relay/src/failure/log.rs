//! Limits the log lines about failures to a few lines of each kind per second. The number of failures that were not
//! logged is logged later.

use std::time::{Duration, Instant};

use super::FailedConnection;
use crate::metrics::Direction;

/// Maximum number of log lines per [`WINDOW`] for one kind of failure in one direction.
const MAX_LINES: u32 = 5;

/// Length of the period in which at most [`MAX_LINES`] lines are logged.
const WINDOW: Duration = Duration::from_secs(1);

/// Decides which failures are logged. It keeps one entry for each kind of failure. The number of entries is limited,
/// because the code has a fixed set of kinds.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    kinds: Vec<Kind>,
}

#[derive(Debug)]
struct Kind {
    direction: Direction,
    label: &'static str,
    window_began: Instant,
    lines: u32,
    /// Number of failures that were not logged, and have not been reported as omitted yet.
    left_out: u64,
}

impl Kind {
    fn is_over(&self, now: Instant) -> bool {
        now.duration_since(self.window_began) >= WINDOW
    }
}

impl FailureLog {
    /// Returns the line for a failure, if the failure should be logged.
    pub(crate) fn line(&mut self, failed: &FailedConnection, now: Instant) -> Option<String> {
        let kind = self.kind(failed.direction, failed.why.label(), now);
        if kind.is_over(now) {
            (kind.window_began, kind.lines) = (now, 0);
        }
        if kind.lines >= MAX_LINES {
            kind.left_out += 1;
            return None;
        }
        kind.lines += 1;
        Some(match std::mem::take(&mut kind.left_out) {
            0 => failed.to_string(),
            left_out => format!("{failed} ({left_out} more like it were not logged)"),
        })
    }

    /// Returns one line for each kind of failure that exceeded its limit in a past window, with the number of failures
    /// that were not logged. The caller logs these lines, about once a second.
    pub(crate) fn left_out(&mut self, now: Instant) -> Vec<String> {
        let over = self.kinds.iter_mut().filter(|kind| kind.left_out > 0 && kind.is_over(now));
        over.map(|kind| {
            let (side, label, left_out) = (kind.direction.label(), kind.label, std::mem::take(&mut kind.left_out));
            format!("{left_out} more {side} connections failed and were not logged: {label}")
        })
        .collect()
    }

    fn kind(&mut self, direction: Direction, label: &'static str, now: Instant) -> &mut Kind {
        let found = self.kinds.iter().position(|kind| kind.direction == direction && kind.label == label);
        let index = found.unwrap_or_else(|| {
            self.kinds.push(Kind { direction, label, window_began: now, lines: 0, left_out: 0 });
            self.kinds.len() - 1
        });
        &mut self.kinds[index]
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
