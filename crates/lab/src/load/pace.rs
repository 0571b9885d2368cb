//! The schedule of calls.

use std::time::{Duration, Instant};

const NS_PER_S: u64 = 1_000_000_000;

/// A schedule of evenly spaced calls.
#[derive(Debug)]
pub(super) struct Pace {
    start: Instant,
    end: Instant,
    rate_per_s: u32,
    taken: u64,
}

impl Pace {
    /// `rate_per_s` calls per second, at least one, from `start` until `end`.
    pub(super) fn new(start: Instant, end: Instant, rate_per_s: u32) -> Self {
        Self { start, end, rate_per_s: rate_per_s.max(1), taken: 0 }
    }

    /// Time of the next call; `None` after the last.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let rate = u64::from(self.rate_per_s);
        // Compute whole seconds separately, so that no product overflows and no rounding error accumulates.
        let whole = Duration::from_secs(self.taken / rate);
        let part = Duration::from_nanos(self.taken % rate * NS_PER_S / rate);
        let due = self.start + whole + part;
        (due < self.end).then_some(due)
    }

    /// Takes the next call if it is due by `now`.
    pub(super) fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next_due().filter(|&due| due <= now)?;
        self.taken += 1;
        Some(due)
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
