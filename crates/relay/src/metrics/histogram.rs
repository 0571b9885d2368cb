//! Latencies in fixed buckets: many buckets, or a few for series of which there may be thousands.

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

/// How many latencies fell into each of a few buckets, and their sum. One writer, like [`Counter`].
///
/// The bounds are not stored: every caller passes the same ones, in milliseconds, inclusive and ascending.
#[derive(Debug)]
pub(super) struct CoarseHistogram<const N: usize> {
    /// Latencies per bucket, not cumulative.
    counts: [Counter; N],
    /// Latencies above all bounds.
    above: Counter,
    sum_us: Counter,
}

impl<const N: usize> Default for CoarseHistogram<N> {
    fn default() -> Self {
        let counts = std::array::from_fn(|_| Counter::default());
        Self { counts, above: Counter::default(), sum_us: Counter::default() }
    }
}

impl<const N: usize> CoarseHistogram<N> {
    /// Counts one latency.
    #[inline]
    pub(super) fn record(&self, bounds_ms: &[u32; N], latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = bounds_ms.iter().filter(|&&bound| us > u64::from(bound) * 1_000).count();
        self.counts.get(bucket).unwrap_or(&self.above).add(1);
        self.sum_us.add(us);
    }

    /// Adds this histogram to `totals`.
    pub(super) fn add_to(&self, totals: &mut CoarseTotals<N>) {
        for (total, count) in totals.counts.iter_mut().zip(&self.counts) {
            *total += count.get();
        }
        totals.above += self.above.get();
        totals.sum_us += self.sum_us.get();
    }
}

/// Histograms with the same few buckets, summed.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoarseTotals<const N: usize> {
    counts: [u64; N],
    above: u64,
    sum_us: u64,
}

impl<const N: usize> Default for CoarseTotals<N> {
    fn default() -> Self {
        Self { counts: [0; N], above: 0, sum_us: 0 }
    }
}

impl<const N: usize> CoarseTotals<N> {
    /// Adds other totals.
    pub(super) fn add(&mut self, other: &Self) {
        for (total, count) in self.counts.iter_mut().zip(other.counts) {
            *total += count;
        }
        self.above += other.above;
        self.sum_us += other.sum_us;
    }

    /// The sum in seconds.
    pub(super) fn sum_s(&self) -> f64 {
        self.sum_us as f64 / 1e6
    }

    /// Number of latencies recorded.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.above
    }

    /// Each bucket's upper bound in seconds and its own count.
    pub(super) fn buckets(&self, bounds_ms: &[u32; N]) -> Vec<(f64, u64)> {
        let bounds = bounds_ms.iter().map(|&ms| f64::from(ms) / 1_000.0).chain([f64::INFINITY]);
        bounds.zip(self.counts.into_iter().chain([self.above])).collect()
    }
}

#[cfg(test)]
#[path = "histogram_tests.rs"]
mod tests;
