//! Meter: counts the bytes of one connection from its start. The metric series of the connection may become known only
//! later; it then gets all bytes counted so far.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Instant;

use leno_relay::metrics::TcpMetrics;

/// The counters of one connection.
#[derive(Debug)]
pub(super) struct Meter {
    opened: Instant,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    series: Option<Arc<TcpMetrics>>,
    /// The first error of the socket.
    error: Option<ErrorKind>,
}

impl Meter {
    pub(super) fn new(now: Instant) -> Self {
        Self { opened: now, read_bytes: 0, written_bytes: 0, series: None, error: None }
    }

    pub(super) fn read(&mut self, bytes: usize) {
        self.read_bytes += bytes as u64;
        if let Some(series) = &self.series {
            series.read_bytes_total.add(bytes as u64);
        }
    }

    pub(super) fn written(&mut self, bytes: usize) {
        self.written_bytes += bytes as u64;
        if let Some(series) = &self.series {
            series.write_bytes_total.add(bytes as u64);
        }
    }

    /// Notes an error that ends the connection.
    pub(super) fn failed(&mut self, error: &io::Error) {
        self.error.get_or_insert(error.kind());
    }

    /// Counts the connection in this metric series from now on, and adds the bytes that the connection has carried so
    /// far.
    pub(super) fn count_in(&mut self, series: Arc<TcpMetrics>) {
        series.opened();
        series.read_bytes_total.add(self.read_bytes);
        series.write_bytes_total.add(self.written_bytes);
        self.series = Some(series);
    }

    /// Counts the end of the connection.
    pub(super) fn close(&mut self, now: Instant) {
        if let Some(series) = self.series.take() {
            series.closed(now.saturating_duration_since(self.opened), self.error);
        }
    }
}
