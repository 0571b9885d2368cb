//! The failure rate of one endpoint, its uncertainty, and the test that compares two rates.
//!
//! The rate is a running mean of outcomes: 1 for a failure, 0 for a success. The outcomes have the same weights as the
//! latencies in an [`Estimate`](super::estimate::Estimate), but with a lower bound. So the rate is as certain as a rate
//! of 9 outcomes at 0.1 calls/s, of 28 outcomes at 1 call/s, and of 255 outcomes at 100 calls/s and more.
//!
//! The test is a likelihood ratio: how much more likely are two sets of outcomes if each has its own failure rate than
//! if both have the same rate? It needs no approximation for rare failures and few outcomes, unlike a comparison in
//! standard deviations.

use std::time::Instant;

use super::estimate::{aged, next_weight};

/// Smallest weight of one outcome: 14 failures in a row raise the rate from 0 to 10 %.
const WEIGHT_MIN: f64 = 1.0 / 128.0;

/// Fewer [`Outcomes`] than this are too few for a comparison, or only the rounding error of a subtraction.
const OUTCOMES_MIN: f64 = 0.5;

/// The fraction of recent calls that failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureRate {
    /// 0 to 1.
    pub(super) mean: f64,
    /// The weight of the latest outcome.
    weight: f64,
    /// The variance of `mean`, in units of one outcome's variance: the sum of the squared weights of all outcomes. For
    /// n outcomes with equal weights, it is 1/n.
    variance: f64,
    updated: Instant,
    /// Whether the latest outcome is a failure.
    pub(super) has_just_failed: bool,
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
        Self { mean, weight, variance: weight, updated: now, has_just_failed: false }
    }

    pub(super) fn observe(&mut self, now: Instant, has_failed: bool) {
        let age = now.saturating_duration_since(self.updated);
        let weight = next_weight(self.weight, age).max(WEIGHT_MIN);
        self.mean += weight * (f64::from(has_failed) - self.mean);
        self.variance = (1.0 - weight).powi(2) * self.variance + weight * weight;
        self.weight = weight;
        self.updated = now;
        self.has_just_failed = has_failed;
    }

    /// Gives the next outcomes as much weight as those after the fourth outcome of a new rate. The rate of a failing
    /// endpoint rests on the calls before the limit was reached, and later on few probes.
    pub(super) fn weigh_next(&mut self) {
        self.weight = self.weight.max(1.0 / 4.0);
    }

    /// Returns the outcomes on which the rate rests: as many as would make a rate with equal weights as certain. Their
    /// number falls with the time since the latest outcome, because the true rate may have changed.
    pub(super) fn outcomes(&self, now: Instant) -> Outcomes {
        let variance = aged(self.variance, now.saturating_duration_since(self.updated));
        Outcomes::with_rate(1.0 / variance, self.mean)
    }
}

/// Outcomes of one or of several endpoints. The numbers need not be whole, because older outcomes weigh less.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Outcomes {
    pub(super) number: f64,
    /// At most `number`.
    failures: f64,
}

impl Outcomes {
    pub(super) fn with_rate(number: f64, rate: f64) -> Self {
        Self { number, failures: number * rate.clamp(0.0, 1.0) }
    }

    /// Returns the fraction of failures; 0 without outcomes.
    pub(super) fn rate(&self) -> f64 {
        if self.number > 0.0 { self.failures / self.number } else { 0.0 }
    }

    /// Returns at least `number` outcomes with the same rate.
    pub(super) fn at_least(&self, number: f64) -> Self {
        Self::with_rate(self.number.max(number), self.rate())
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        Self { number: self.number + other.number, failures: self.failures + other.failures }
    }

    /// Returns the outcomes without `part`, which must be a part of them; `None` if hardly any outcome is left.
    pub(super) fn without(&self, part: &Self) -> Option<Self> {
        let number = self.number - part.number;
        let failures = (self.failures - part.failures).clamp(0.0, number.max(0.0));
        (number >= OUTCOMES_MIN).then_some(Self { number, failures })
    }

    /// Returns the logarithm of the likelihood ratio of two hypotheses: the two sets of outcomes have different failure
    /// rates, or both have the same rate. It is 0 for equal rates, and grows with the difference and with the numbers
    /// of outcomes. If the rates are truly equal, it exceeds x with a probability of about e^-x.
    pub(super) fn contrast(&self, other: &Self) -> f64 {
        let apart = self.log_likelihood() + other.log_likelihood();
        (apart - self.plus(other).log_likelihood()).max(0.0)
    }

    /// Returns the logarithm of the probability of these outcomes. Assumes that the true failure rate equals
    /// [`Self::rate`].
    fn log_likelihood(&self) -> f64 {
        let successes = (self.number - self.failures).max(0.0);
        x_ln_x(self.failures) + x_ln_x(successes) - x_ln_x(self.number)
    }
}

/// Returns x ln x, and its limit 0 for x = 0.
fn x_ln_x(x: f64) -> f64 {
    if x > 0.0 { x * x.ln() } else { 0.0 }
}

#[cfg(test)]
#[path = "failure_rate_tests.rs"]
mod tests;
