//! Latencies in fixed buckets.

use std::time::Duration;

use super::Counter;

/// Number of buckets, the one without an upper bound included.
pub(super) const BUCKETS: usize = 26;

/// Inclusive upper bounds in milliseconds, as in Linkerd's `response_latency_ms`, so that its dashboards work.
pub(super) const BOUNDS_MS: [u32; BUCKETS - 1] = [
    1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 100, 200, 300, 400, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 20_000,
    30_000, 40_000, 50_000,
];

/// [`BOUNDS_MS`] in microseconds, the resolution of the comparison.
const BOUNDS_US: [u32; BUCKETS - 1] = {
    let mut bounds = BOUNDS_MS;
    let mut i = 0;
    while i < bounds.len() {
        bounds[i] *= 1_000;
        i += 1;
    }
    bounds
};

/// How many latencies fell into each bucket, and their sum. One writer, like [`Counter`].
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [Counter; BUCKETS],
    sum_us: Counter,
}

impl Histogram {
    /// Counts one latency.
    #[inline]
    pub fn record(&self, latency: Duration) {
        let us = u32::try_from(latency.as_micros()).unwrap_or(u32::MAX);
        // Comparing with every bound has no branches to mispredict, and compiles to a few vector instructions.
        let bucket: usize = BOUNDS_US.iter().map(|&bound| usize::from(us > bound)).sum();
        self.counts[bucket].add(1);
        self.sum_us.add(us.into());
    }

    /// Adds this histogram to `totals`.
    pub(super) fn add_to(&self, totals: &mut HistogramTotals) {
        for (total, count) in totals.counts.iter_mut().zip(&self.counts) {
            *total += count.get();
        }
        totals.sum_us += self.sum_us.get();
    }
}

/// Histograms of several workers, summed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct HistogramTotals {
    /// Latencies per bucket, not cumulative.
    pub(super) counts: [u64; BUCKETS],
    /// Sum of all latencies, in microseconds.
    pub(super) sum_us: u64,
}

impl HistogramTotals {
    /// The sum in milliseconds.
    pub(super) fn sum_ms(&self) -> f64 {
        self.sum_us as f64 / 1_000.0
    }

    /// Number of latencies recorded.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Each bucket's upper bound in milliseconds and its own count.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS_MS.iter().copied().map(f64::from).chain([f64::INFINITY]);
        bounds.zip(self.counts).collect()
    }
}

#[cfg(test)]
#[path = "histogram_tests.rs"]
mod tests;
