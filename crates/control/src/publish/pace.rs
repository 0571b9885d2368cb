//! Rate limits for the clients at one address, and for the displacements of one namespace: token buckets. A bucket
//! ([`Purse`]) fills with time, which callers pass as an argument. A client that has overdrawn its bucket waits; no
//! request is rejected. A namespace without an allowance for displacements displaces no stream.

use std::time::{Duration, Instant};

use super::limits::{
    ASKED_BURST_BYTES, ASKED_BYTES_PER_SECOND, DISPLACEMENTS_BURST, DISPLACEMENTS_PER_SECOND, READ_BURST_BYTES,
    READ_BYTES_PER_SECOND, REQUESTS_BURST, REQUESTS_PER_SECOND,
};

/// The rate limits of one client account at one address. All streams of the account from this address share them.
#[derive(Debug)]
pub(crate) struct Paces {
    pub(crate) read: Purse,
    /// The allowance of resource bytes that clients may request; resources that a response repeats count, too.
    pub(crate) asked: Purse,
}

/// A token bucket: an allowance of bytes, of requests or of displacements that refills at a fixed rate, up to `burst`.
#[derive(Debug)]
pub(crate) struct Purse {
    /// The rest of the allowance. Below 0, the purse is overdrawn.
    amount: f64,
    burst: f64,
    per_second: f64,
    filled: Instant,
}

impl Paces {
    /// Starts with full purses.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            read: Purse::new(READ_BURST_BYTES, READ_BYTES_PER_SECOND, now),
            asked: Purse::new(ASKED_BURST_BYTES, ASKED_BYTES_PER_SECOND, now),
        }
    }

    /// Returns whether both purses are full again.
    pub(crate) fn are_full(&mut self, now: Instant) -> bool {
        [&mut self.read, &mut self.asked].into_iter().all(|purse| purse.is_full(now))
    }
}

impl Purse {
    fn new(burst: u32, per_second: u32, now: Instant) -> Self {
        Self { amount: burst.into(), burst: burst.into(), per_second: per_second.into(), filled: now }
    }

    /// The allowance for the requests of one stream.
    pub(crate) fn of_requests(now: Instant) -> Self {
        Self::new(REQUESTS_BURST, REQUESTS_PER_SECOND, now)
    }

    /// The allowance of streams that one namespace may displace.
    pub(crate) fn of_displacements(now: Instant) -> Self {
        Self::new(DISPLACEMENTS_BURST, DISPLACEMENTS_PER_SECOND, now)
    }

    /// Returns the whole units of the allowance; 0 if the purse is overdrawn.
    pub(crate) fn whole(&mut self, now: Instant) -> usize {
        self.fill(now);
        // The conversion rounds towards 0, and turns a negative number into 0.
        self.amount as usize
    }

    /// Spends `amount`, even if that overdraws the purse.
    pub(crate) fn spend(&mut self, amount: usize, now: Instant) {
        self.fill(now);
        self.amount -= amount as f64;
    }

    /// Returns the time until the purse is no longer overdrawn; `None` if it is not overdrawn.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.fill(now);
        (self.amount < 0.0).then(|| Duration::from_secs_f64((-self.amount / self.per_second).max(0.001)))
    }

    pub(crate) fn is_full(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.amount >= self.burst
    }

    fn fill(&mut self, now: Instant) {
        let passed = now.checked_duration_since(self.filled).unwrap_or(Duration::ZERO);
        self.filled = now;
        self.amount = (self.amount + passed.as_secs_f64() * self.per_second).min(self.burst);
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
