//! When to renew an SVID, and when to retry. Pure: `now` is an argument.

use std::time::{Duration, SystemTime};

/// The first wait is at most this, and at least half of it.
pub const RETRY_FIRST: Duration = Duration::from_secs(1);

/// Every wait is at most this.
pub const RETRY_MAX: Duration = Duration::from_secs(60);

/// How long to wait, from one to two times this, before using a new signing key: until every peer has read the trust
/// bundle that contains its anchor.
pub const SIGNER_DELAY: Duration = Duration::from_secs(3);

/// An SVID is renewed after a random part of its life between these two; the rest of its life is for retries.
const SOONEST: f64 = 2.0 / 3.0;
const LATEST: f64 = 5.0 / 6.0;

/// When the current SVID is to be renewed.
#[derive(Debug)]
pub struct Schedule {
    due: SystemTime,
    not_after: SystemTime,
    failures: u32,
    random: fastrand::Rng,
}

impl Schedule {
    /// For an SVID issued at `now`. Workloads with different seeds renew at different moments.
    pub fn new(now: SystemTime, not_after: SystemTime, seed: u64) -> Self {
        let mut schedule = Self { due: now, not_after, failures: 0, random: fastrand::Rng::with_seed(seed) };
        schedule.renewed(now, not_after);
        schedule
    }

    pub fn is_due(&self, now: SystemTime) -> bool {
        now >= self.due
    }

    /// Notes a new SVID: the next is due at a random moment between two thirds and five sixths of its life.
    ///
    /// Its life counts from `now`, since its validity starts a little before it was issued.
    pub fn renewed(&mut self, now: SystemTime, not_after: SystemTime) {
        let life = not_after.duration_since(now).unwrap_or_default();
        let part = SOONEST + (LATEST - SOONEST) * self.random.f64();
        self.due = now + life.mul_f64(part).max(RETRY_FIRST / 2);
        self.not_after = not_after;
        self.failures = 0;
    }

    /// Notes a failure; returns how long to wait.
    ///
    /// Each wait is about twice the one before. Half of it is random, so that workloads that failed together do not
    /// return together. A wait is at most half of the SVID's remaining life, but at least half of [`RETRY_FIRST`], so
    /// that another try happens before it expires.
    pub fn failed(&mut self, now: SystemTime) -> Duration {
        let longest = RETRY_FIRST.saturating_mul(1 << self.failures.min(u32::BITS - 1)).min(RETRY_MAX);
        self.failures = self.failures.saturating_add(1);
        let jittered = longest.mul_f64(0.5 + 0.5 * self.random.f64());
        let wait = match self.not_after.duration_since(now) {
            Ok(left) => jittered.min(left / 2).max(RETRY_FIRST / 2),
            Err(_) => jittered,
        };
        self.due = now + wait;
        wait
    }

    /// The issuer has a new signing key: the next SVID is due soon, but not before every peer can have the key's
    /// anchor.
    pub fn signer_changed(&mut self, now: SystemTime) {
        let soon = now + SIGNER_DELAY.mul_f64(1.0 + self.random.f64());
        self.due = self.due.min(soon);
    }

    /// The current SVID is no longer valid: the next is due at once.
    pub fn hasten(&mut self, now: SystemTime) {
        self.due = now;
    }
}

#[cfg(test)]
#[path = "renewal_tests.rs"]
mod tests;
