//! The share of calls that are slow, which shows whether a whole Service is loaded rather than a few calls unlucky. Further
//! attempts at the calls of a loaded Service would only add to its load.

use std::time::{Duration, Instant};

/// The calls of this period and of the one before count.
const PERIOD: Duration = Duration::from_secs(1);
/// Fewer calls show nothing.
const FEW: u32 = 20;
/// A Service is loaded if more than this share of its calls is slow, in tenths of a percent. If the delay is a percentile,
/// twice the share that the percentile leaves is allowed.
const LOADED_PERMILLE: u32 = 100;

/// The calls to one cluster that may be hedged, and those that have not been answered within their delay.
#[derive(Debug, Clone)]
pub struct SlowShare {
    recent: Counts,
    before: Counts,
    began: Instant,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    calls: u32,
    slow: u32,
}

impl SlowShare {
    pub fn new(now: Instant) -> Self {
        Self { recent: Counts::default(), before: Counts::default(), began: now }
    }

    /// Counts a call whose delay begins.
    pub fn note_call(&mut self, now: Instant) {
        self.pass_to(now);
        self.recent.calls += 1;
    }

    /// Counts a call that has not been answered within its delay. Returns whether so many calls are slow that the Service is
    /// loaded. `expected_permille` is the share of calls that the delay makes slow in any case, in tenths of a percent.
    pub fn note_slow(&mut self, now: Instant, expected_permille: u16) -> bool {
        self.pass_to(now);
        self.recent.slow += 1;
        let calls = self.recent.calls + self.before.calls;
        let slow = self.recent.slow + self.before.slow;
        let allowed = LOADED_PERMILLE.max(2 * u32::from(expected_permille));
        calls >= FEW && u64::from(slow) * 1_000 > u64::from(calls) * u64::from(allowed)
    }

    fn pass_to(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.began);
        if elapsed < PERIOD {
            return;
        }
        let recent = std::mem::take(&mut self.recent);
        self.before = if elapsed < 2 * PERIOD { recent } else { Counts::default() };
        self.began = now;
    }
}

#[cfg(test)]
#[path = "slow_share_tests.rs"]
mod tests;
