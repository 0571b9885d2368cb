//! Computes the delay after each failure of a watch, and the length of an outage. An outage is a series of failures.

use std::time::Duration;

use tokio::time::Instant;

/// Upper limit of the first wait after a failure; the wait is random, and at least half of this time.
const FIRST: Duration = Duration::from_millis(100);

/// Upper limit of every wait, so that a restored API server is found soon.
const LONGEST: Duration = Duration::from_secs(5);

/// A failure within this time after the previous failure continues the outage, even if there was a success in between.
/// Otherwise the waits would not grow if each list succeeded, and the watch after each list failed.
const CALM: Duration = Duration::from_secs(30);

/// A series of failures.
#[derive(Debug)]
pub(super) struct Outage {
    since: Instant,
    /// The time of the last failure.
    latest: Instant,
    failures: u32,
    /// Whether there was a success after the last failure. Also true before the first failure.
    is_over: bool,
}

impl Outage {
    pub(super) fn none(now: Instant) -> Self {
        Self { since: now, latest: now, failures: 0, is_over: true }
    }

    /// Counts a failure; returns the time to wait. Each wait is about twice the previous wait. Half of each wait is
    /// random, so that clients that failed together do not return together.
    pub(super) fn failed(&mut self, now: Instant) -> Duration {
        if std::mem::take(&mut self.is_over) && now.saturating_duration_since(self.latest) > CALM {
            self.failures = 0;
        }
        if self.failures == 0 {
            self.since = now;
        }
        self.latest = now;
        let longest = FIRST.saturating_mul(1 << self.failures.min(u32::BITS - 1)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        longest.mul_f64(0.5 + 0.5 * fastrand::f64())
    }

    /// Records a success at the time `at`. If the success ends an outage, returns how long the outage lasted. Ignores a
    /// success before the last failure.
    pub(super) fn succeeded(&mut self, at: Instant) -> Option<Duration> {
        if self.is_over || at < self.latest {
            return None;
        }
        self.is_over = true;
        Some(at.saturating_duration_since(self.since))
    }
}

#[cfg(test)]
#[path = "backoff_tests.rs"]
mod tests;
