//! The running mean of one endpoint's latency, and its uncertainty.
//!
//! The mean is a scalar Kalman filter. Each answer moves the mean towards its own latency, in proportion to a weight.
//! The weight is large while the mean is uncertain, and small once the mean rests on many recent answers. The
//! uncertainty grows with the time since the last answer, so that new answers outweigh old answers.
//!
//! In numbers: the mean rests on the last 20 answers at 2 answers/s, on the last 200 answers at 200 answers/s, and on
//! the last 2,000 answers at 20,000 answers/s.

use std::time::{Duration, Instant};

/// Growth of `variance` per second, because the true latency or failure rate may drift.
const DRIFT_PER_S: f64 = 0.005;

/// The mean of recent latencies, and their spread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    pub(super) mean_ms: f64,
    /// The mean of the full latencies. `mean_ms` is a mean of latencies that are capped.
    pub(super) full_mean_ms: f64,
    mean_square_ms2: f64,
    /// The variance of `mean_ms`, in units of one answer's variance: 1 after one answer, 1/n after n simultaneous
    /// answers. After an answer, it equals the weight that this answer had.
    pub(super) variance: f64,
    updated: Instant,
}

impl Estimate {
    pub(super) fn first(now: Instant, latency_ms: f64) -> Self {
        Self::of_answers(now, latency_ms, 1, 0.0)
    }

    /// Creates an estimate as if `answers` answers had come at the same time. `spread` is their standard deviation
    /// divided by their mean.
    pub(super) fn of_answers(now: Instant, mean_ms: f64, answers: u32, spread: f64) -> Self {
        Self {
            mean_ms,
            full_mean_ms: mean_ms,
            mean_square_ms2: mean_ms * mean_ms * (1.0 + spread * spread),
            variance: 1.0 / f64::from(answers),
            updated: now,
        }
    }

    /// Adds an answer. For `mean_ms`, its latency is capped at `most_ms`: latencies of one method differ widely, so a
    /// single stalled call must not move this mean far. Several stalled calls in a row still move it.
    pub(super) fn observe(&mut self, now: Instant, full_ms: f64, most_ms: f64) {
        let latency_ms = full_ms.min(most_ms);
        let weight = next_weight(self.variance, now.saturating_duration_since(self.updated));
        self.mean_ms += weight * (latency_ms - self.mean_ms);
        self.full_mean_ms += weight * (full_ms - self.full_mean_ms);
        self.mean_square_ms2 += weight * (latency_ms * latency_ms - self.mean_square_ms2);
        self.variance = weight;
        self.updated = now;
    }

    /// Returns the standard deviation of recent latencies, divided by their mean.
    pub(super) fn spread(&self) -> f64 {
        let mean_square = self.mean_ms * self.mean_ms;
        if mean_square > 0.0 { (self.mean_square_ms2 / mean_square - 1.0).max(0.0).sqrt() } else { 0.0 }
    }
}

/// Returns the weight of a new observation in a mean. `variance` is the variance of the mean after its latest
/// observation, in units of one observation's variance. `age` is the time since then.
pub(super) fn next_weight(variance: f64, age: Duration) -> f64 {
    let variance = aged(variance, age);
    variance / (variance + 1.0)
}

/// Returns the variance of a mean, `age` after its latest observation. `variance` is its variance at that observation.
pub(super) fn aged(variance: f64, age: Duration) -> f64 {
    variance + DRIFT_PER_S * age.as_secs_f64()
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
