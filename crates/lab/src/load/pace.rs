//! When calls are due, and from when each is timed.

use std::time::{Duration, Instant};

/// A call may be sent this much after it was due without anybody's fault: the timer is that coarse.
const TIMER_SLACK: Duration = Duration::from_millis(2);

/// A schedule of evenly spaced calls.
#[derive(Debug)]
pub(super) struct Pace {
    start: Instant,
    gap: Duration,
    next: u32,
    total: u32,
}

impl Pace {
    /// `rate` calls per second from `start` until `end`.
    pub(super) fn new(start: Instant, end: Instant, rate: u32) -> Self {
        let gap = Duration::from_secs(1) / rate.max(1);
        let calls = (end - start).as_nanos() / gap.as_nanos().max(1);
        Self { start, gap, next: 0, total: u32::try_from(calls).unwrap_or(u32::MAX) }
    }

    /// Takes the calls that are due by `now`: when each was due.
    pub(super) fn due(&mut self, now: Instant) -> impl Iterator<Item = Instant> + use<> {
        let first = self.next;
        let until_now = (now - self.start).as_nanos() / self.gap.as_nanos().max(1);
        let until_now = u32::try_from(until_now).unwrap_or(u32::MAX);
        self.next = until_now.saturating_add(1).min(self.total).max(first);
        let (start, gap) = (self.start, self.gap);
        (first..self.next).map(move |number| start + gap * number)
    }

    /// Whether every call was taken.
    pub(super) fn is_over(&self) -> bool {
        self.next >= self.total
    }
}

/// From when a call is timed that was due at `due` and is sent at `now`.
///
/// From when it is sent; but the time in which a stalled load could not send it counts too, or a
/// stall would make the numbers look better.
pub(super) fn timed_from(due: Instant, now: Instant) -> Instant {
    now.min(due + TIMER_SLACK)
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
