//! The share of calls that are slow. A large share shows that the whole Service is loaded; a small share, that a few
//! calls are slow by chance. Hedging stops for a loaded Service, because further attempts would only add to its load.
//!
//! Each delay has its own share, because a call that is slow for one delay may be fast for a longer delay.

use std::time::{Duration, Instant};

use super::HedgeDelay;

/// Shortest length of a period. The share includes the calls of the current and of the previous period. A call is
/// counted when it begins, and counted as slow only after its delay. The period is therefore at least as long as a
/// fixed delay, so that most calls are counted as slow within the two periods.
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
/// Minimum number of calls. With fewer calls, the share of slow calls is not meaningful, and the Service does not count
/// as loaded.
const FEW: u32 = 20;
/// Margin above the expected share of slow calls, in tenths of a percent. A Service is loaded if its share of slow
/// calls exceeds the expected share by more than this margin. The expected share is 1 % for p99, for example, and 0 for
/// a fixed delay. For percentiles below p80, the margin is half of the expected share.
const LOADED_PERMILLE: u32 = 100;

/// Counts the calls with one delay, and how many of them are slow: not answered within the delay.
#[derive(Debug, Clone)]
pub struct SlowShare {
    recent: Counts,
    before: Counts,
    /// When this period ends.
    ends: Instant,
    period: Duration,
    /// If the share of slow calls is larger than this, in tenths of a percent, the Service is loaded.
    allowed_permille: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    calls: u32,
    slow: u32,
}

impl SlowShare {
    pub fn new(delay: HedgeDelay, now: Instant) -> Self {
        let period = match delay {
            HedgeDelay::Fixed(delay) => delay.max(SHORTEST_PERIOD),
            HedgeDelay::Percentile(_) => SHORTEST_PERIOD,
        };
        let expected = u32::from(delay.expected_permille());
        let allowed_permille = expected + LOADED_PERMILLE.max(expected / 2);
        Self { recent: Counts::default(), before: Counts::default(), ends: now + period, period, allowed_permille }
    }

    /// Counts a call whose delay begins.
    pub fn note_call(&mut self, now: Instant) {
        self.pass_to(now);
        self.recent.calls += 1;
    }

    /// Counts a call that has not been answered within its delay. Count each call once.
    pub fn note_slow(&mut self, now: Instant) {
        self.pass_to(now);
        self.recent.slow += 1;
    }

    /// Returns whether so many calls are slow that the Service is loaded.
    pub fn is_loaded(&mut self, now: Instant) -> bool {
        self.pass_to(now);
        let calls = self.recent.calls + self.before.calls;
        let slow = self.recent.slow + self.before.slow;
        calls >= FEW && u64::from(slow) * 1_000 > u64::from(calls) * u64::from(self.allowed_permille)
    }

    #[inline]
    fn pass_to(&mut self, now: Instant) {
        if now >= self.ends {
            self.begin_period(now);
        }
    }

    #[cold]
    fn begin_period(&mut self, now: Instant) {
        let recent = std::mem::take(&mut self.recent);
        self.before = if now < self.ends + self.period { recent } else { Counts::default() };
        self.ends = now + self.period;
    }
}

#[cfg(test)]
#[path = "slow_share_tests.rs"]
mod tests;
