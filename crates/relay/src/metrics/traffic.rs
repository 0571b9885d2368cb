//! Counts calls, separately for each set of labels.

use std::time::Duration;

use super::histogram::{BOUNDS, BOUNDS_MS, Histogram, HistogramTotals};
use super::keyed::{CountByKey, Unkeyed};
use super::{Class, Counter, Gauge};

/// Maximum number of kinds of response that one series distinguishes: all 17 gRPC statuses and some HTTP statuses.
pub(super) const RESPONSE_KINDS: usize = 24;

/// One worker's counts of calls with the same [`TrafficLabels`](super::TrafficLabels).
///
/// A call is counted as soon as its labels are known: when it is first sent, or when it ends without being sent. Every
/// [`TrafficMetrics::request`] is followed by exactly one [`TrafficMetrics::response`] or
/// [`TrafficMetrics::no_response`].
#[derive(Debug, Default)]
pub struct TrafficMetrics {
    requests: Counter,
    in_flight: Gauge,
    responses: CountByKey<ResponseKind, RESPONSE_KINDS>,
    /// The responses whose kind has no counter in `responses`.
    others: Unkeyed,
    other_denied: Counter,
    latency: Histogram<BOUNDS>,
}

impl TrafficMetrics {
    /// Counts a call that began.
    #[inline]
    pub fn request(&self) {
        self.requests.add(1);
        self.in_flight.inc();
    }

    /// Counts a call that was answered, by an endpoint or by the proxy itself.
    ///
    /// `latency` is from the request's headers to the response's end; `None` if the call is an opaque connection, or if
    /// a policy denied it.
    #[inline]
    pub fn response(&self, http_status: u16, grpc_status: Option<u8>, class: Class, latency: Option<Duration>) {
        self.in_flight.dec();
        if !self.responses.count(ResponseKind { class, http_status, grpc_status }) {
            match class {
                Class::Denied => self.other_denied.add(1),
                class => self.others.count(class == Class::Failure),
            }
        }
        if let Some(latency) = latency {
            self.latency.record(&BOUNDS_MS, latency);
        }
    }

    /// Counts a call that ended without a response, because the client cancelled it or disconnected.
    #[inline]
    pub fn no_response(&self) {
        self.in_flight.dec();
    }

    /// Adds these counts to `totals`.
    pub(super) fn add_to(&self, totals: &mut TrafficTotals) {
        totals.requests += self.requests.get();
        totals.in_flight += self.in_flight.get();
        for (kind, count) in self.responses.counts() {
            *totals.responses.entry(kind).or_default() += count;
        }
        totals.other_successes += self.others.successes.get();
        totals.other_failures += self.others.failures.get();
        totals.other_denied += self.other_denied.get();
        self.latency.add_to(&mut totals.latency);
    }
}

/// The properties that distinguish responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ResponseKind {
    pub(super) class: Class,
    /// The `:status`.
    pub(super) http_status: u16,
    /// The `grpc-status`, from the headers or the trailers.
    pub(super) grpc_status: Option<u8>,
}

/// Counts of calls with the same labels, summed over the workers.
#[derive(Debug, Default)]
pub(super) struct TrafficTotals {
    /// Number of calls that began.
    pub(super) requests: u64,
    /// Number of calls in flight.
    pub(super) in_flight: u64,
    /// Number of responses of each kind.
    pub(super) responses: std::collections::BTreeMap<ResponseKind, u64>,
    /// Numbers of successes, failures and denied calls among the responses whose kind has no counter of its own.
    pub(super) other_successes: u64,
    pub(super) other_failures: u64,
    pub(super) other_denied: u64,
    /// Latencies of all responses, except of denied calls.
    pub(super) latency: HistogramTotals<BOUNDS>,
}

#[cfg(test)]
#[path = "traffic_tests.rs"]
mod tests;
