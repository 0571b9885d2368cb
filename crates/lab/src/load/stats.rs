//! The results of calls: latencies of each server, and failures.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::failure::{Failure, FailureClass};
use super::recording::Recording;
use super::snapshot::{Slice, Snapshot};
use super::tally::Tally;
use super::windows::Windows;

/// Largest latency that is recorded. Longer latencies are recorded as this value.
const MAX_LATENCY_US: u64 = 60_000_000;
/// Significant digits of a recorded latency: the latency is exact to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Length of one [`Slice`].
pub const SLICE: Duration = Duration::from_millis(100);
/// Maximum delay from a call's due time until the load sends the call. After a longer delay, the call counts as late:
/// its latency describes the load's machine rather than the target.
const LATE: Duration = Duration::from_millis(1);
/// Maximum number of classes of failures that are counted separately. Without a limit, a peer could create any number
/// of them: it may answer with any HTTP status and reset with any error code.
pub(super) const CLASSES_MAX: usize = 64;

/// Collects the results of calls while the load runs.
#[derive(Debug)]
pub(super) struct Stats {
    tally: Tally,
    times: Option<Times>,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    /// The beginning of the warm-up.
    start: Instant,
    /// The beginning of the measured time.
    from: Instant,
    until: Instant,
}

impl Stats {
    /// Creates statistics for `servers` servers. Latencies are recorded only after a call of [`Stats::measure`].
    pub(super) fn new(servers: usize) -> Self {
        Self { tally: Tally::new(servers), times: None }
    }

    /// Sets the times: calls sent from `from` until `until` are counted. The windows begin at `start`, the beginning of
    /// the warm-up.
    pub(super) fn measure(&mut self, start: Instant, from: Instant, until: Instant) {
        self.times = Some(Times { start, from, until });
        self.tally.windows = Windows::new(until - start);
        let slices = (until - from).as_nanos().div_ceil(SLICE.as_nanos());
        self.tally.pad_timeline(usize::try_from(slices).unwrap_or(0));
    }

    /// The beginning of the measured time; `None` until [`Stats::measure`].
    pub(super) fn measured_from(&self) -> Option<Instant> {
        self.times.map(|times| times.from)
    }

    /// Counts a call that the server with this index answered.
    pub(super) fn answer(&mut self, since: Instant, server: usize, latency: Duration) {
        if let Some(after) = self.times.and_then(|times| since.checked_duration_since(times.start)) {
            self.tally.windows.record(after, latency);
        }
        if let Some(slice) = self.slice(since) {
            slice.calls[server] += 1;
            self.tally.servers[server].saturating_record(us(latency));
        }
    }

    /// Counts a failed call, even one that was sent before the measured time. The reason of the first failure in the
    /// measured time replaces the reason of an earlier failure.
    pub(super) fn fail(&mut self, since: Instant, failure: Failure) {
        let is_measured = self.slice(since).map(|slice| slice.failed += 1).is_some();
        self.tally.note_reason(failure.why, is_measured);
        if is_measured {
            self.tally.add_failures(failure.class, 1);
        }
        self.tally.failed += 1;
        self.tally.not_sent += u64::from(failure.class == FailureClass::NotSent);
    }

    /// Records the delay of a call that the load has sent or queued. `due` is the call's scheduled time; `lateness` is
    /// the time from `due` until the load sent or queued the call.
    pub(super) fn sent(&mut self, due: Instant, lateness: Duration) {
        if self.slice(due).is_some() {
            self.tally.lateness.saturating_record(us(lateness));
            self.tally.late += u64::from(lateness > LATE);
            self.tally.held_up = self.tally.held_up.max(lateness);
        }
    }

    /// The results until `now`, without the fields `curve`, `timeline` and `windows`.
    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        self.tally.so_far(self.measured(now))
    }

    /// The complete results of a load that has ended without an error.
    pub(super) fn finish(&self) -> Snapshot {
        self.tally.summary(self.planned())
    }

    /// The same results as [`Stats::finish`], in the form in which a load sends them to another process.
    pub(super) fn recording(&self) -> Recording {
        self.tally.recording(self.planned())
    }

    /// The planned measured time. It is also the measured time of a load that has ended without an error: such a load has
    /// lasted until the planned end.
    fn planned(&self) -> Duration {
        self.times.map_or(Duration::ZERO, |times| times.until.saturating_duration_since(times.from))
    }

    fn measured(&self, now: Instant) -> Duration {
        self.times.map_or(Duration::ZERO, |times| now.min(times.until).saturating_duration_since(times.from))
    }

    fn slice(&mut self, since: Instant) -> Option<&mut Slice> {
        let Times { from, until, .. } = self.times?;
        if since >= until {
            return None;
        }
        let index = since.checked_duration_since(from)?.as_nanos() / SLICE.as_nanos();
        self.tally.timeline.get_mut(usize::try_from(index).ok()?)
    }
}

/// A histogram of microseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_LATENCY_US, SIGNIFICANT_DIGITS)
        .expect("the bounds are constants that hdrhistogram takes")
}

/// Whole microseconds.
pub(crate) fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "stats_tests.rs"]
mod tests;
