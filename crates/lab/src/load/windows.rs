//! The latency in each second of a load, from its start on.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::sparse::Sparse;
use super::stats::us;

/// Length of one [`Window`].
pub const WINDOW: Duration = Duration::from_secs(1);
/// Significant digits of a recorded latency: two, so that the latency is exact to 1 %. A load of an hour has 3,600
/// windows, so more digits would cost much memory.
const SIGNIFICANT_DIGITS: u8 = 2;
/// Largest latency that a window can record; longer latencies are recorded as this value. The load's other histograms
/// have the same limit.
const MAX_LATENCY_US: u64 = 60_000_000;

/// One second of a load. Contains the calls that were answered with OK, by the second in which they were sent (closed
/// loop) or due (open loop).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// Answered calls.
    pub calls: u64,
    /// The median latency of the calls; 0 if there are no calls.
    pub p50_ms: f64,
    /// The 99th percentile of the latency of the calls; 0 if there are no calls.
    pub p99_ms: f64,
}

/// One histogram of latencies for each window, in order from the start of the load.
#[derive(Debug, Default)]
pub(super) struct Windows(Vec<Histogram<u32>>);

impl Windows {
    /// Empty windows for a load that takes `length`.
    pub(super) fn new(length: Duration) -> Self {
        let count = length.as_nanos().div_ceil(WINDOW.as_nanos());
        let mut windows = Self::default();
        windows.pad(usize::try_from(count).unwrap_or(0));
        windows
    }

    fn pad(&mut self, windows: usize) {
        let empty = Histogram::new_with_bounds(1, MAX_LATENCY_US, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that hdrhistogram takes");
        self.0.resize(windows.max(self.0.len()), empty);
    }

    /// Records the latency of an answered call. `after` is the time from the start of the load until the call was sent
    /// or due.
    pub(super) fn record(&mut self, after: Duration, latency: Duration) {
        // Divide whole seconds instead of exact durations: this runs for each call and must be cheap.
        let index = usize::try_from(after.as_secs() / WINDOW.as_secs()).unwrap_or(usize::MAX);
        if let Some(window) = self.0.get_mut(index) {
            window.saturating_record(us(latency));
        }
    }

    /// Adds the windows of another load: its first window to this load's first window, and so on.
    ///
    /// # Errors
    /// The reason in one line, if a count is too large for a window.
    pub(super) fn add(&mut self, others: &[Sparse]) -> Result<(), String> {
        self.pad(others.len());
        self.0.iter_mut().zip(others).try_for_each(|(window, other)| other.add_to(window))
    }

    /// Number of calls in all windows.
    pub(super) fn answered(&self) -> u64 {
        self.0.iter().map(Histogram::len).sum()
    }

    pub(super) fn sparse(&self) -> Vec<Sparse> {
        self.0.iter().map(Sparse::of).collect()
    }

    /// Summarizes all windows.
    pub(super) fn finish(&self) -> Vec<Window> {
        let ms = |us: &Histogram<u32>, quantile| us.value_at_quantile(quantile) as f64 / 1000.0;
        let window = |us: &Histogram<u32>| Window { calls: us.len(), p50_ms: ms(us, 0.5), p99_ms: ms(us, 0.99) };
        self.0.iter().map(window).collect()
    }
}

#[cfg(test)]
#[path = "windows_tests.rs"]
mod tests;
