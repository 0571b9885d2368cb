//! How fast the clients at one address may make work: a purse that fills with time, which is an argument. Whoever has spent more
//! than there was waits; nothing is refused.

use std::time::{Duration, Instant};

use super::limits::{
    AGAIN_BURST_BYTES, AGAIN_BYTES_PER_SECOND, READ_BURST_BYTES, READ_BYTES_PER_SECOND, REQUESTS_BURST,
    REQUESTS_PER_SECOND,
};

/// What the streams of one holder from one address may cost.
#[derive(Debug)]
pub(crate) struct Paces {
    /// Bytes of requests.
    pub(crate) read: Purse,
    /// Bytes of resources that a client was sent before.
    pub(crate) again: Purse,
}

/// What may be spent: bytes, or requests.
#[derive(Debug)]
pub(crate) struct Purse {
    /// Below 0 it is owed.
    amount: f64,
    burst: f64,
    per_second: f64,
    filled: Instant,
}

impl Paces {
    /// Full purses.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            read: Purse::new(READ_BURST_BYTES, READ_BYTES_PER_SECOND, now),
            again: Purse::new(AGAIN_BURST_BYTES, AGAIN_BYTES_PER_SECOND, now),
        }
    }
}

impl Purse {
    fn new(burst: u32, per_second: u32, now: Instant) -> Self {
        Self { amount: burst.into(), burst: burst.into(), per_second: per_second.into(), filled: now }
    }

    /// The requests of one stream.
    pub(crate) fn of_requests(now: Instant) -> Self {
        Self::new(REQUESTS_BURST, REQUESTS_PER_SECOND, now)
    }

    /// Spends, be it on credit.
    pub(crate) fn spend(&mut self, amount: usize, now: Instant) {
        self.fill(now);
        self.amount -= amount as f64;
    }

    /// How long to wait until nothing is owed any more; `None` if nothing is.
    pub(crate) fn wait(&mut self, now: Instant) -> Option<Duration> {
        self.fill(now);
        (self.amount < 0.0).then(|| Duration::from_secs_f64((-self.amount / self.per_second).max(0.001)))
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
