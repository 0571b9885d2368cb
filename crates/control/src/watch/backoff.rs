//! The delay after a failure, and whether to log the failure.

use std::time::{Duration, Instant};

/// Upper limit of the first wait. The lower limit is half of it.
const FIRST: Duration = Duration::from_millis(100);

/// Upper limit of every wait, so that a restored API server is found soon.
const LONGEST: Duration = Duration::from_secs(5);

/// A series of failures without a success.
#[derive(Debug)]
pub(super) struct Outage {
    since: Instant,
    failures: u32,
}

impl Outage {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, failures: 0 }
    }

    /// Counts a failure; returns the time to wait. Each wait is about twice the wait before. Half of it is random, so
    /// that clients that failed together do not return together.
    pub(super) fn wait(&mut self) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(u32::BITS - 1)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(0.5 + 0.5 * fastrand::f64())
    }

    /// Whether this is the first failure of the outage. Only this failure is logged.
    pub(super) fn is_new(&self) -> bool {
        self.failures <= 1
    }

    pub(super) fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
