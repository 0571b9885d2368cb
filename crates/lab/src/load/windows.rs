//! The latency in each second of a load, from its start on.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::stats::us;

/// Length of one [`Window`].
pub const WINDOW: Duration = Duration::from_secs(1);
/// Digits of a latency in a window, which is exact to 1 %: a load of an hour has 3,600 windows.
const SIGNIFICANT_DIGITS: u8 = 2;
/// Largest latency that is recorded, as in the load's other histograms.
const MAX_LATENCY_US: u64 = 60_000_000;

/// The calls that were sent or due within one second and answered with OK.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// Answered calls.
    pub calls: u64,
    /// Half of the calls took at most this; 0 without calls.
    pub p50_ms: f64,
    /// 99 of 100 calls took at most this; 0 without calls.
    pub p99_ms: f64,
}

/// The windows of a running load.
#[derive(Debug)]
pub(super) struct Windows {
    start: Instant,
    latencies: Vec<Histogram<u32>>,
}

impl Windows {
    /// The windows of a load from `start` until `end`.
    pub(super) fn new(start: Instant, end: Instant) -> Self {
        let count = (end - start).as_nanos().div_ceil(WINDOW.as_nanos());
        let empty = Histogram::new_with_bounds(1, MAX_LATENCY_US, SIGNIFICANT_DIGITS)
            .expect("the bounds are constants that hdrhistogram takes");
        Self { start, latencies: vec![empty; usize::try_from(count).unwrap_or(0)] }
    }

    /// Records the latency of an answered call.
    pub(super) fn record(&mut self, since: Instant, latency: Duration) {
        let Some(after) = since.checked_duration_since(self.start) else { return };
        // Whole seconds, because this is computed for each call.
        let index = usize::try_from(after.as_secs() / WINDOW.as_secs()).unwrap_or(usize::MAX);
        if let Some(window) = self.latencies.get_mut(index) {
            window.saturating_record(us(latency));
        }
    }

    /// Summarizes all windows.
    pub(super) fn finish(&self) -> Vec<Window> {
        let ms = |us: &Histogram<u32>, quantile| us.value_at_quantile(quantile) as f64 / 1000.0;
        let window = |us: &Histogram<u32>| Window { calls: us.len(), p50_ms: ms(us, 0.5), p99_ms: ms(us, 0.99) };
        self.latencies.iter().map(window).collect()
    }
}

#[cfg(test)]
#[path = "windows_tests.rs"]
mod tests;
