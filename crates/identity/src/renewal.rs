//! Schedules the renewal of an SVID, and the retries after a failure. Pure: `now` is an argument.

use std::time::{Duration, SystemTime};

/// Maximum wait before the first retry; the minimum is half of it.
pub const RETRY_FIRST: Duration = Duration::from_secs(1);

/// Maximum wait before any retry.
pub const RETRY_MAX: Duration = Duration::from_secs(60);

/// Minimum delay between a change of the issuer's signing key and the request for a new SVID. The actual delay is
/// random, up to twice as long. During the delay, every peer reads the trust bundle that contains the new key's anchor.
pub const SIGNER_DELAY: Duration = Duration::from_secs(3);

/// Tolerated step of the clock backwards. If `now` is earlier than `set_at` of [`Schedule`] by more than this time, the
/// clock was ahead at `set_at`, and has been corrected. The SVID may then not be valid yet, so a renewal is due at
/// once.
const CLOCK_BACK: Duration = Duration::from_secs(60);

/// An SVID is renewed after a random fraction of its lifetime, between these bounds. The rest of the lifetime is for
/// retries.
const SOONEST: f64 = 2.0 / 3.0;
const LATEST: f64 = 5.0 / 6.0;

/// The schedule for the renewal of the current SVID.
#[derive(Debug)]
pub struct Schedule {
    due: SystemTime,
    /// The time of the last call of [`Schedule::renewed`] or [`Schedule::failed`], whichever was later.
    set_at: SystemTime,
    not_after: SystemTime,
    failures: u32,
    random: fastrand::Rng,
}

impl Schedule {
    /// Creates the schedule for an SVID issued at `now`. Workloads with different seeds renew at different moments.
    pub fn new(now: SystemTime, not_after: SystemTime, seed: u64) -> Self {
        let mut schedule =
            Self { due: now, set_at: now, not_after, failures: 0, random: fastrand::Rng::with_seed(seed) };
        schedule.renewed(now, not_after);
        schedule
    }

    pub fn is_due(&self, now: SystemTime) -> bool {
        now >= self.due || now + CLOCK_BACK < self.set_at
    }

    /// Returns the time until the renewal is due.
    pub fn due_in(&self, now: SystemTime) -> Duration {
        if self.is_due(now) { Duration::ZERO } else { self.due.duration_since(now).unwrap_or_default() }
    }

    /// Records a new SVID. The next renewal is due at a random moment between two thirds and five sixths of the SVID's
    /// lifetime.
    ///
    /// The lifetime is counted from `now`, because the validity starts a little before the time of issue.
    pub fn renewed(&mut self, now: SystemTime, not_after: SystemTime) {
        let life = not_after.duration_since(now).unwrap_or_default();
        let part = SOONEST + (LATEST - SOONEST) * self.random.f64();
        self.due = now + life.mul_f64(part).max(RETRY_FIRST / 2);
        self.set_at = now;
        self.not_after = not_after;
        self.failures = 0;
    }

    /// Records a failed renewal; returns the time to wait before the next attempt.
    ///
    /// Each wait is about twice as long as the previous wait. Half of each wait is random, so that workloads do not
    /// retry together if their renewals failed together. A wait is at most half of the SVID's remaining lifetime, so
    /// that another attempt happens before the SVID expires. A wait is never less than half of [`RETRY_FIRST`].
    pub fn failed(&mut self, now: SystemTime) -> Duration {
        let longest = RETRY_FIRST.saturating_mul(1 << self.failures.min(u32::BITS - 1)).min(RETRY_MAX);
        self.failures = self.failures.saturating_add(1);
        let jittered = longest.mul_f64(0.5 + 0.5 * self.random.f64());
        let wait = match self.not_after.duration_since(now) {
            Ok(left) => jittered.min(left / 2).max(RETRY_FIRST / 2),
            Err(_) => jittered,
        };
        self.due = now + wait;
        self.set_at = now;
        wait
    }

    /// Records that the issuer has a new signing key. A renewal becomes due after the delay [`SIGNER_DELAY`], unless it
    /// is due earlier anyway.
    pub fn signer_changed(&mut self, now: SystemTime) {
        let soon = now + SIGNER_DELAY.mul_f64(1.0 + self.random.f64());
        self.due = self.due.min(soon);
    }

    /// Makes a renewal due at once, because the current SVID is no longer valid.
    pub fn hasten(&mut self, now: SystemTime) {
        self.due = now;
    }
}

#[cfg(test)]
#[path = "renewal_tests.rs"]
mod tests;
