//! What came of the calls.

use hdrhistogram::Histogram;

/// Latencies above this are counted as this.
const MAX_LATENCY_US: u64 = 600_000_000;
/// Keeps every latency to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Calls counted over one stretch of simulated time.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    latencies_us: Histogram<u64>,
    /// Calls sent to each server.
    pub(super) picks: Vec<u64>,
    /// Calls that ended with an error.
    pub(super) failed: u64,
}

impl Tally {
    pub(super) fn new(servers: usize) -> Self {
        let latencies_us =
            Histogram::new_with_bounds(1, MAX_LATENCY_US, SIGNIFICANT_DIGITS).expect("constants that are allowed");
        Self { latencies_us, picks: vec![0; servers], failed: 0 }
    }

    /// Counts an answer that the caller waited `latency_ns` for.
    pub(super) fn answered(&mut self, latency_ns: u64) {
        self.latencies_us.saturating_record(latency_ns.div_ceil(1000));
    }

    pub(super) fn clear(&mut self) {
        self.latencies_us.reset();
        self.picks.fill(0);
        self.failed = 0;
    }

    /// Adds another seed's calls.
    pub(super) fn merge(&mut self, other: &Self) {
        self.latencies_us.add(&other.latencies_us).expect("equal bounds");
        self.failed += other.failed;
        for (sum, picks) in self.picks.iter_mut().zip(&other.picks) {
            *sum += picks;
        }
    }

    /// Calls that ended well.
    pub(super) fn answers(&self) -> u64 {
        self.latencies_us.len()
    }

    /// The part of the ended calls that failed, 0 to 1.
    pub(super) fn failed_part(&self) -> f64 {
        self.failed as f64 / (self.failed + self.answers()).max(1) as f64
    }

    /// The latency that `part` of the answers did not exceed.
    pub(super) fn quantile_ms(&self, part: f64) -> f64 {
        self.latencies_us.value_at_quantile(part) as f64 / 1e3
    }

    /// The part of all calls that went to each server.
    pub(super) fn shares(&self) -> Vec<f64> {
        let all = self.picks.iter().sum::<u64>().max(1) as f64;
        self.picks.iter().map(|picks| *picks as f64 / all).collect()
    }
}

/// The largest share over the smallest.
pub(super) fn max_over_min(shares: &[f64]) -> f64 {
    let max = shares.iter().copied().fold(0.0, f64::max);
    let min = shares.iter().copied().fold(1.0, f64::min);
    max / min
}
