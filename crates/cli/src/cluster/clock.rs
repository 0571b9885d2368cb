//! The clock for the times at which metrics pages arrive.

use std::ops::{Add, Sub};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A point in time, as the time since the machine started (`CLOCK_BOOTTIME`).
///
/// Unlike [`std::time::Instant`], it includes the time for which the machine slept. The proxies of a cluster count
/// calls while a laptop sleeps. With an `Instant`, the calls of a whole night would seem to have arrived within the
/// seconds before and after the sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BootInstant(Duration);

impl BootInstant {
    pub(crate) fn now() -> Self {
        // The conversion fails only for a negative time, which this clock never returns.
        Self(clock_gettime(ClockId::Boottime).try_into().unwrap_or_default())
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl Sub for BootInstant {
    type Output = Duration;

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
