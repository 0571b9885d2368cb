//! One row of the demo's table.

use std::fmt;

use crate::load::{Latency, Snapshot};

/// The table's header line, as wide as a row.
pub(super) const HEADER: &str =
    "way                        calls/s      p50 ms      p99 ms    p99.9 ms     to s5   failed";

/// The result of one balancing mode.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) label: String,
    pub(super) calls_per_second: f64,
    pub(super) latency: Latency,
    /// Fraction of the calls that the slow server answered, 0 to 1.
    pub(super) slow_share: f64,
    pub(super) failed: u64,
}

impl Row {
    /// The result of all clients together.
    pub(super) fn of_all(label: String, snapshot: &Snapshot) -> Self {
        Self {
            label,
            calls_per_second: snapshot.calls_per_second(),
            latency: snapshot.total,
            slow_share: snapshot.shares().last().copied().unwrap_or_default(),
            failed: snapshot.failed,
        }
    }

    /// The result of the client that is pinned to the server with this index. Only the number of failed calls is the
    /// sum over all clients.
    pub(super) fn of_server(label: String, snapshot: &Snapshot, index: usize) -> Self {
        let share = snapshot.shares().get(index).copied().unwrap_or_default();
        let is_slow = index + 1 == snapshot.servers.len();
        Self {
            label,
            calls_per_second: snapshot.calls_per_second() * share,
            latency: snapshot.servers.get(index).copied().unwrap_or_default(),
            slow_share: if is_slow { 1.0 } else { 0.0 },
            failed: snapshot.failed,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Latency { p50_ms, p99_ms, p999_ms, .. } = self.latency;
        write!(f, "{:<25}{:>9.0}", self.label, self.calls_per_second)?;
        write!(f, "{p50_ms:>12.1}{p99_ms:>12.1}{p999_ms:>12.1}")?;
        write!(f, "{:>8.1} %{:>9}", self.slow_share * 100.0, self.failed)
    }
}

#[cfg(test)]
#[path = "row_tests.rs"]
mod tests;
