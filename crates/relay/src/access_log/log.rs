//! The lines of one relay's access log.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Format, Queries, Record, format_line};
use crate::metrics::WorkerMetrics;

/// Maximum size in bytes of the lines that one turn of the event loop writes. The relay drops further lines.
const MAX_TURN_BYTES: usize = 256 * 1024;

/// Largest buffer that the log keeps for the next turn of the event loop, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

/// Minimum time between two messages in the proxy's own log about dropped lines of the access log.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// One worker's access log, on or off.
#[derive(Debug, Default)]
pub struct AccessLog(Option<Lines>);

/// Lines that the event loop has not taken yet.
#[derive(Debug)]
pub struct Lines {
    format: Format,
    queries: Queries,
    metrics: Arc<WorkerMetrics>,
    /// The lines' text.
    pub text: Vec<u8>,
    count: u64,
    /// Number of dropped lines that the proxy's own log has not reported yet, and the time of its last report.
    unsaid: u64,
    said_at: Option<Instant>,
}

impl AccessLog {
    /// Creates a disabled log.
    pub fn off() -> Self {
        Self(None)
    }

    /// Creates an enabled log, which counts dropped lines in `metrics`.
    pub fn on(format: Format, queries: Queries, metrics: Arc<WorkerMetrics>) -> Self {
        let (text, count, unsaid, said_at) = (Vec::new(), 0, 0, None);
        Self(Some(Lines { format, queries, metrics, text, count, unsaid, said_at }))
    }

    /// Returns whether the log is on. If it is off, callers need not create records.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Formats a record as a line. The event loop takes the line at the end of this turn.
    pub fn write(&mut self, record: &Record) {
        let Some(lines) = &mut self.0 else { return };
        if lines.text.len() >= MAX_TURN_BYTES {
            return lines.drop_lines(1);
        }
        format_line(&mut lines.text, lines.format, lines.queries, record);
        lines.count += 1;
    }

    /// Returns the lines that the event loop takes at the end of this turn; `None` if the log is off.
    pub fn lines(&mut self) -> Option<&mut Lines> {
        self.0.as_mut()
    }
}

impl Lines {
    /// Records that the event loop has taken all lines out of `text`.
    pub fn note_taken(&mut self) {
        self.count = 0;
        if self.text.capacity() > KEPT_BYTES {
            self.text = Vec::new();
        }
    }

    /// Drops and counts the lines, because the writer has no room for them.
    pub fn drop_all(&mut self) {
        self.text.clear();
        let count = std::mem::take(&mut self.count);
        self.drop_lines(count);
    }

    /// Counts lines that the writer took and then lost to a write error. The writer logs the error.
    pub fn note_lost(&mut self, count: u64) {
        self.metrics.access_log_dropped_total.add(count);
    }

    /// Logs the number of dropped lines, at most once per second.
    pub fn tell_of_dropped(&mut self, now: Instant) {
        if self.unsaid > 0 && self.said_at.is_none_or(|said_at| now.duration_since(said_at) >= SAY_EVERY) {
            let lines = std::mem::take(&mut self.unsaid);
            tracing::warn!(
                lines,
                "the access log was not written fast enough and lost lines; write it to a faster file"
            );
            self.said_at = Some(now);
        }
    }

    fn drop_lines(&mut self, count: u64) {
        self.metrics.access_log_dropped_total.add(count);
        self.unsaid += count;
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
