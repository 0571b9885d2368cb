//! Counts connections, separately for each set of labels.

use std::io::ErrorKind;
use std::time::Duration;

use super::histogram::{BOUNDS, BOUNDS_MS, Histogram, HistogramTotals};
use super::{Counter, Gauge};

/// The errors of the kernel that end connections, and their names in the label `errno`.
const BROKEN_BY: [(ErrorKind, &str); 6] = [
    (ErrorKind::ConnectionReset, "ECONNRESET"),
    (ErrorKind::BrokenPipe, "EPIPE"),
    (ErrorKind::TimedOut, "ETIMEDOUT"),
    (ErrorKind::ConnectionAborted, "ECONNABORTED"),
    (ErrorKind::HostUnreachable, "EHOSTUNREACH"),
    (ErrorKind::NetworkUnreachable, "ENETUNREACH"),
];

/// One worker's counts of connections with the same [`ConnectionLabels`](super::ConnectionLabels).
///
/// A connection counts from the moment when its labels are known: after its TLS handshake, or after the detection of
/// its protocol. The bytes that it has carried before are added at that moment. A connection that fails earlier is
/// counted only by [`WorkerMetrics::count_failed_connection`](super::WorkerMetrics::count_failed_connection).
#[derive(Debug, Default)]
pub struct TcpMetrics {
    /// Number of connections opened so far.
    pub open_total: Counter,
    /// Number of connections open now.
    pub open_connections: Gauge,
    /// Number of connections closed so far without an error. Other counters count the connections that an error ended.
    /// They are not subtracted from a total, because a difference of two counters could decrease between two scrapes.
    closed_in_order: Counter,
    /// Number of bytes read from peers, as on the wire.
    pub read_bytes_total: Counter,
    /// Number of bytes written to peers, as on the wire.
    pub write_bytes_total: Counter,
    /// Number of closed connections for each error that ended them, in the order of [`BROKEN_BY`].
    broken: [Counter; BROKEN_BY.len()],
    /// Number of closed connections that any other error ended.
    broken_otherwise: Counter,
    durations: Histogram<BOUNDS>,
}

impl TcpMetrics {
    /// Counts an opened connection.
    pub fn opened(&self) {
        self.open_total.add(1);
        self.open_connections.inc();
    }

    /// Counts a closed connection, its duration, and the error of the kernel that ended it.
    pub fn closed(&self, open_for: Duration, error: Option<ErrorKind>) {
        let count = match error {
            None => &self.closed_in_order,
            Some(error) => {
                let mut known = BROKEN_BY.iter().zip(&self.broken);
                known.find(|((kind, _), _)| *kind == error).map_or(&self.broken_otherwise, |(_, count)| count)
            }
        };
        count.add(1);
        self.open_connections.dec();
        self.durations.record(&BOUNDS_MS, open_for);
    }

    /// Adds these counts to `totals`.
    pub(super) fn add_to(&self, totals: &mut TcpTotals) {
        totals.open_total += self.open_total.get();
        totals.open_connections += self.open_connections.get();
        totals.closed_in_order += self.closed_in_order.get();
        for (total, count) in totals.broken.iter_mut().zip(&self.broken) {
            *total += count.get();
        }
        totals.broken_otherwise += self.broken_otherwise.get();
        totals.read_bytes_total += self.read_bytes_total.get();
        totals.write_bytes_total += self.write_bytes_total.get();
        self.durations.add_to(&mut totals.durations);
    }
}

/// Counts of connections with the same labels, summed over the workers.
#[derive(Debug, Default)]
pub(super) struct TcpTotals {
    /// Number of connections opened.
    pub(super) open_total: u64,
    /// Number of connections open now.
    pub(super) open_connections: u64,
    /// Number of connections closed without an error.
    closed_in_order: u64,
    /// Number of bytes read.
    pub(super) read_bytes_total: u64,
    /// Number of bytes written.
    pub(super) write_bytes_total: u64,
    /// Numbers of connections that an error ended, as in [`TcpMetrics`].
    broken: [u64; BROKEN_BY.len()],
    broken_otherwise: u64,
    /// Durations of closed connections.
    pub(super) durations: HistogramTotals<BOUNDS>,
}

impl TcpTotals {
    /// Returns the numbers of closed connections by the value of Linkerd's label `errno`, which is empty without an
    /// error.
    pub(super) fn closed_by_errno(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let known = BROKEN_BY.iter().map(|(_, name)| *name).zip(self.broken);
        let broken = known.chain([("other", self.broken_otherwise)]).filter(|(_, count)| *count > 0);
        std::iter::once(("", self.closed_in_order)).chain(broken)
    }
}

#[cfg(test)]
#[path = "tcp_tests.rs"]
mod tests;
