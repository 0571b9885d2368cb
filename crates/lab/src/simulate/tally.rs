//! The results of calls.

use std::borrow::Cow;

use hdrhistogram::Histogram;

/// Largest latency that can be recorded; longer latencies are recorded as this value.
const MAX_LATENCY_US: u64 = 600_000_000;
/// Significant digits of a recorded latency: three, so that the latency is exact to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// The results of the calls within some simulated time.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    /// Latencies for each method.
    latencies_us: Vec<Histogram<u64>>,
    /// Calls sent to each server.
    pub(super) picks: Vec<u64>,
    /// Calls that ended with an error.
    pub(super) failed: u64,
}

impl Tally {
    pub(super) fn new(servers: usize, methods: usize) -> Self {
        let latencies_us =
            Histogram::new_with_bounds(1, MAX_LATENCY_US, SIGNIFICANT_DIGITS).expect("constants that are allowed");
        Self { latencies_us: vec![latencies_us; methods], picks: vec![0; servers], failed: 0 }
    }

    /// Counts a successful answer to `method`.
    pub(super) fn answered(&mut self, method: u32, latency_ns: u64) {
        self.latencies_us[method as usize].saturating_record(latency_ns.div_ceil(1000));
    }

    pub(super) fn clear(&mut self) {
        self.latencies_us.iter_mut().for_each(Histogram::reset);
        self.picks.fill(0);
        self.failed = 0;
    }

    /// Adds another seed's calls.
    pub(super) fn merge(&mut self, other: &Self) {
        for (sum, latencies) in self.latencies_us.iter_mut().zip(&other.latencies_us) {
            sum.add(latencies).expect("equal bounds");
        }
        self.failed += other.failed;
        for (sum, picks) in self.picks.iter_mut().zip(&other.picks) {
            *sum += picks;
        }
    }

    /// Calls that succeeded.
    pub(super) fn answers(&self) -> u64 {
        self.latencies_us.iter().map(Histogram::len).sum()
    }

    /// Fraction of the ended calls that failed, 0 to 1.
    pub(super) fn failed_part(&self) -> f64 {
        self.failed as f64 / (self.failed + self.answers()).max(1) as f64
    }

    /// The quantile `part` of the latency: the fraction `part` of the answers took at most this time.
    pub(super) fn quantile_ms(&self, part: f64) -> f64 {
        self.all_methods().value_at_quantile(part) as f64 / 1e3
    }

    /// The quantile `part` of the latency of one method: the fraction `part` of its answers took at most this time.
    pub(super) fn method_quantile_ms(&self, method: usize, part: f64) -> f64 {
        self.latencies_us[method].value_at_quantile(part) as f64 / 1e3
    }

    pub(super) fn mean_ms(&self) -> f64 {
        self.all_methods().mean() / 1e3
    }

    /// Fraction of the answers that took at most `ms`.
    pub(super) fn part_below(&self, ms: f64) -> f64 {
        if ms <= 0.0 { 0.0 } else { self.all_methods().quantile_below((ms * 1e3) as u64) }
    }

    fn all_methods(&self) -> Cow<'_, Histogram<u64>> {
        let mut all = Cow::Borrowed(&self.latencies_us[0]);
        for latencies in &self.latencies_us[1..] {
            all.to_mut().add(latencies).expect("equal bounds");
        }
        all
    }

    /// Fraction of all calls that each server received.
    pub(super) fn shares(&self) -> Vec<f64> {
        let all = self.picks.iter().sum::<u64>().max(1) as f64;
        self.picks.iter().map(|picks| *picks as f64 / all).collect()
    }
}

/// The largest share divided by the smallest.
pub(super) fn max_over_min(shares: &[f64]) -> f64 {
    let max = shares.iter().copied().fold(0.0, f64::max);
    let min = shares.iter().copied().fold(1.0, f64::min);
    max / min
}
