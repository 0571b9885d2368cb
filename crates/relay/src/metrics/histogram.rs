//! Latencies in fixed buckets.

use std::time::Duration;

use super::Counter;

/// Inclusive upper bounds of the buckets in milliseconds, as in Linkerd's `response_latency_ms`, so that Linkerd's
/// dashboards work.
pub(super) const BOUNDS_MS: [u32; 25] = [
    1, 2, 3, 4, 5, 10, 20, 30, 40, 50, 100, 200, 300, 400, 500, 1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 20_000,
    30_000, 40_000, 50_000,
];

pub(super) const BOUNDS: usize = BOUNDS_MS.len();

/// The number of latencies in each bucket, and the sum of all latencies. Only one thread may write, as with
/// [`Counter`].
///
/// The bounds are not stored: every caller passes the same bounds, in milliseconds, inclusive and ascending.
#[derive(Debug)]
pub(super) struct Histogram<const N: usize> {
    /// Number of latencies in each bucket, not cumulative.
    counts: [Counter; N],
    /// Number of latencies above all bounds.
    above: Counter,
    sum_us: Counter,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        let counts = std::array::from_fn(|_| Counter::default());
        Self { counts, above: Counter::default(), sum_us: Counter::default() }
    }
}

impl<const N: usize> Histogram<N> {
    /// Counts one latency.
    #[inline]
    pub(super) fn record(&self, bounds_ms: &[u32; N], latency: Duration) {
        self.counts.get(bucket(bounds_ms, latency)).unwrap_or(&self.above).add(1);
        self.sum_us.add(us(latency));
    }

    /// Adds this histogram to `totals`.
    pub(super) fn add_to(&self, totals: &mut HistogramTotals<N>) {
        for (total, count) in totals.counts.iter_mut().zip(&self.counts) {
            *total += count.get();
        }
        totals.above += self.above.get();
        totals.sum_us += self.sum_us.get();
    }
}

/// Returns the index of a latency's bucket. The bucket above all bounds has the last index, `N`.
#[inline]
pub(super) fn bucket<const N: usize>(bounds_ms: &[u32; N], latency: Duration) -> usize {
    // No bound is longer than 71 minutes, so every bound in microseconds fits into 32 bits. Comparing with every bound
    // has no branches to mispredict, and compiles to a few vector instructions.
    let short_us = u32::try_from(us(latency)).unwrap_or(u32::MAX);
    bounds_ms.iter().map(|&bound| usize::from(short_us > bound.saturating_mul(1_000))).sum()
}

#[inline]
fn us(latency: Duration) -> u64 {
    u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)
}

/// Histograms with the same buckets, summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HistogramTotals<const N: usize> {
    counts: [u64; N],
    above: u64,
    /// Sum of all latencies, in microseconds.
    pub(super) sum_us: u64,
}

impl<const N: usize> Default for HistogramTotals<N> {
    fn default() -> Self {
        Self { counts: [0; N], above: 0, sum_us: 0 }
    }
}

impl<const N: usize> HistogramTotals<N> {
    /// Adds other totals.
    pub(super) fn add(&mut self, other: &Self) {
        for (total, count) in self.counts.iter_mut().zip(other.counts) {
            *total += count;
        }
        self.above += other.above;
        self.sum_us += other.sum_us;
    }

    /// Returns the sum of all latencies in milliseconds.
    pub(super) fn sum_ms(&self) -> f64 {
        self.sum_us as f64 / 1_000.0
    }

    /// Returns the sum of all latencies in seconds.
    pub(super) fn sum_s(&self) -> f64 {
        self.sum_us as f64 / 1e6
    }

    /// Returns the number of latencies recorded.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.above
    }

    /// Returns the upper bound and the count of each bucket. The counts are not cumulative. `unit_ms` is the unit of
    /// the returned bounds, in milliseconds: for example, 1000 for bounds in seconds.
    pub(super) fn buckets(&self, bounds_ms: &[u32; N], unit_ms: f64) -> Vec<(f64, u64)> {
        let bounds = bounds_ms.iter().map(|&ms| f64::from(ms) / unit_ms).chain([f64::INFINITY]);
        bounds.zip(self.counts.into_iter().chain([self.above])).collect()
    }
}

#[cfg(test)]
#[path = "histogram_tests.rs"]
mod tests;
