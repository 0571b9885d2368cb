//! When to renew an SVID, and when to try again: pure, with `now` and the random numbers as arguments.

use std::time::{Duration, SystemTime};

/// The first retry comes about so long after a failure, and no retry comes sooner than half of it.
pub const RETRY_FIRST: Duration = Duration::from_secs(1);

/// However often it fails, the next retry comes within this time.
pub const RETRY_MAX: Duration = Duration::from_secs(300);

/// The first moment to renew at is when this part of the life has passed, and the last when `LATEST` has. What is left
/// is for retries.
const EARLIEST: f64 = 2.0 / 3.0;
const LATEST: f64 = 5.0 / 6.0;

/// When to renew an SVID that was taken at `issued`: a random moment after two thirds of its life and before five
/// sixths, so that workloads that started together do not renew together.
///
/// Its life is counted from when it was taken, since certificates are valid from a little earlier. One that has
/// expired is to be renewed at once.
pub fn renew_at(issued: SystemTime, not_after: SystemTime, random: &mut fastrand::Rng) -> SystemTime {
    let life = not_after.duration_since(issued).unwrap_or_default();
    issued + life.mul_f64(EARLIEST + (LATEST - EARLIEST) * random.f64())
}

/// How long to wait after the given number of failures in a row, from 1.
///
/// Each wait is about twice the one before, up to [`RETRY_MAX`], with a random half so that workloads that failed
/// together do not return together. Before the SVID expires, no wait takes more than half of what is left, so that
/// there is always another try, down to waits of half of [`RETRY_FIRST`].
pub fn retry_after(failures: u32, now: SystemTime, not_after: SystemTime, random: &mut fastrand::Rng) -> Duration {
    let doublings = failures.saturating_sub(1).min(u32::BITS - 1);
    let longest = RETRY_FIRST.saturating_mul(1 << doublings).min(RETRY_MAX);
    let wait = longest.mul_f64(0.5 + 0.5 * random.f64());
    match not_after.duration_since(now) {
        Ok(left) => wait.min(left / 2).max(RETRY_FIRST / 2),
        Err(_) => wait,
    }
}
