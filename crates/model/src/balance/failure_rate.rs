//! The failure rate of one endpoint, and its uncertainty.
//!
//! The rate is a running mean of outcomes: 1 for a failure, 0 for a success. The outcomes have the same weights as the
//! latencies in an [`Estimate`](super::estimate::Estimate), but with a lower bound. So the rate rests on the last 20
//! outcomes at 2 calls/s, and on the last 128 outcomes at 100 calls/s and more.

use std::time::Instant;

use super::estimate::next_weight;

/// Smallest weight of one outcome: 14 failures in a row raise the rate from 0 to 10 %.
const WEIGHT_MIN: f64 = 1.0 / 128.0;

/// The fraction of recent calls that failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureRate {
    /// 0 to 1.
    pub(super) mean: f64,
    /// The weight of the latest outcome.
    weight: f64,
    /// The variance of `mean`, in units of one outcome's variance: the sum of the squared weights of all outcomes. For
    /// n outcomes with equal weights, it is 1/n.
    pub(super) variance: f64,
    updated: Instant,
}

impl FailureRate {
    /// Creates the rate of an endpoint whose calls have no outcomes yet. The rate begins with one success, so that a
    /// single failure does not raise the rate to 100 %.
    pub(super) fn new(now: Instant) -> Self {
        Self::of_outcomes(now, 0.0, 1)
    }

    /// Creates a rate as if `outcomes` outcomes had come at the same time. `mean` is the fraction of failures.
    pub(super) fn of_outcomes(now: Instant, mean: f64, outcomes: u32) -> Self {
        let weight = 1.0 / f64::from(outcomes);
        Self { mean, weight, variance: weight, updated: now }
    }

    pub(super) fn observe(&mut self, now: Instant, has_failed: bool) {
        let age = now.saturating_duration_since(self.updated);
        let weight = next_weight(self.weight, age).max(WEIGHT_MIN);
        self.mean += weight * (f64::from(has_failed) - self.mean);
        self.variance = (1.0 - weight).powi(2) * self.variance + weight * weight;
        self.weight = weight;
        self.updated = now;
    }
}

#[cfg(test)]
#[path = "failure_rate_tests.rs"]
mod tests;
