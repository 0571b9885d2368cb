//! Counts of connections with the same labels.

use std::time::Duration;

use super::histogram::{BOUNDS, BOUNDS_MS, Histogram, HistogramTotals};
use super::{Counter, Gauge};

/// One worker's counts of connections with the same [`ConnectionLabels`](super::ConnectionLabels).
///
/// A connection is counted once its labels are known, after its TLS handshake or the detection of its protocol; its
/// bytes until then are added at that time. A connection that fails earlier is counted as failed, and not here.
#[derive(Debug, Default)]
pub struct TcpMetrics {
    /// Connections opened so far.
    pub open_total: Counter,
    /// Connections open now.
    pub open_connections: Gauge,
    /// Connections closed so far.
    pub close_total: Counter,
    /// Bytes read from peers, as on the wire.
    pub read_bytes_total: Counter,
    /// Bytes written to peers, as on the wire.
    pub write_bytes_total: Counter,
    durations: Histogram<BOUNDS>,
}

impl TcpMetrics {
    /// Counts an opened connection.
    pub fn opened(&self) {
        self.open_total.add(1);
        self.open_connections.inc();
    }

    /// Counts a closed connection, and its duration.
    pub fn closed(&self, open_for: Duration) {
        self.close_total.add(1);
        self.open_connections.dec();
        self.durations.record(&BOUNDS_MS, open_for);
    }

    /// Adds these counts to `totals`.
    pub(super) fn add_to(&self, totals: &mut TcpTotals) {
        totals.open_total += self.open_total.get();
        totals.open_connections += self.open_connections.get();
        totals.close_total += self.close_total.get();
        totals.read_bytes_total += self.read_bytes_total.get();
        totals.write_bytes_total += self.write_bytes_total.get();
        self.durations.add_to(&mut totals.durations);
    }
}

/// Counts of connections with the same labels, summed over the workers.
#[derive(Debug, Default)]
pub(super) struct TcpTotals {
    /// Connections opened.
    pub(super) open_total: u64,
    /// Connections open now.
    pub(super) open_connections: u64,
    /// Connections closed.
    pub(super) close_total: u64,
    /// Bytes read.
    pub(super) read_bytes_total: u64,
    /// Bytes written.
    pub(super) write_bytes_total: u64,
    /// How long closed connections were open.
    pub(super) durations: HistogramTotals<BOUNDS>,
}

#[cfg(test)]
#[path = "tcp_tests.rs"]
mod tests;
