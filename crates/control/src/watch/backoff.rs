//! How long to wait after a failure, and what to say about it.

use std::time::{Duration, Instant};

/// The wait after a first failure is at most this, and at least half of it.
const FIRST: Duration = Duration::from_millis(100);

/// The wait after any failure is at most this: an API server that is back is found again soon.
const LONGEST: Duration = Duration::from_secs(5);

/// A time in which something does not work.
#[derive(Debug)]
pub(super) struct Outage {
    since: Instant,
    failures: u32,
}

impl Outage {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, failures: 0 }
    }

    /// It failed once more: gives how long to wait. Each wait is about twice the one before, with a random half, so that
    /// those who failed together do not return together.
    pub(super) fn wait(&mut self) -> Duration {
        let longest = FIRST.saturating_mul(1 << self.failures.min(u32::BITS - 1)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(0.5 + 0.5 * fastrand::f64())
    }

    /// Whether this is the first failure of the outage, the only one that is worth a line in the log.
    pub(super) fn is_new(&self) -> bool {
        self.failures <= 1
    }

    /// For how long it has lasted.
    pub(super) fn lasted(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
