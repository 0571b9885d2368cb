//! The results of calls: latencies of each server, and failures.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::failure::{Failure, FailureClass};
use super::snapshot::{Latency, Slice, Snapshot, curve};
use super::windows::Windows;

/// Largest latency that is recorded. Longer latencies are recorded as this value.
const MAX_LATENCY_US: u64 = 60_000_000;
/// Digits of a recorded latency, which is exact to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;
/// Length of one [`Slice`].
pub const SLICE: Duration = Duration::from_millis(100);
/// A call sent later than this after it was due describes the load's machine rather than the target.
const LATE: Duration = Duration::from_millis(1);
/// Maximum number of classes of failures that are counted separately: a peer may answer with any HTTP status and reset
/// with any error code.
const CLASSES_MAX: usize = 64;

/// The numbers, while calls run.
#[derive(Debug)]
pub(super) struct Stats {
    servers: Vec<Histogram<u64>>,
    failed: u64,
    first_failure: Option<String>,
    /// The failures of the measured time, by class.
    classes: BTreeMap<FailureClass, u64>,
    lateness: Histogram<u64>,
    late: u64,
    held_up: Duration,
    window: Option<(Instant, Instant)>,
    timeline: Vec<Slice>,
    windows: Option<Windows>,
}

impl Stats {
    /// Creates statistics for `servers` servers. Latencies count from [`Stats::measure`] on.
    pub(super) fn new(servers: usize) -> Self {
        Self {
            servers: vec![histogram(); servers],
            failed: 0,
            first_failure: None,
            classes: BTreeMap::new(),
            lateness: histogram(),
            late: 0,
            held_up: Duration::ZERO,
            window: None,
            timeline: Vec::new(),
            windows: None,
        }
    }

    /// Counts the calls sent from `from` until `until`. The windows begin at `start`, the beginning of the warm-up.
    pub(super) fn measure(&mut self, start: Instant, from: Instant, until: Instant) {
        self.windows = Some(Windows::new(start, until));
        self.window = Some((from, until));
        let slices = (until - from).as_nanos().div_ceil(SLICE.as_nanos());
        let empty = Slice { calls: vec![0; self.servers.len()], failed: 0 };
        self.timeline = vec![empty; usize::try_from(slices).unwrap_or(0)];
    }

    /// Counts a call that the server with this index answered.
    pub(super) fn answer(&mut self, since: Instant, server: usize, latency: Duration) {
        if let Some(windows) = &mut self.windows {
            windows.record(since, latency);
        }
        if let Some(slice) = self.slice(since) {
            slice.calls[server] += 1;
            self.servers[server].saturating_record(us(latency));
        }
    }

    /// Counts a failed call. Failures count before measuring begins too.
    pub(super) fn fail(&mut self, since: Instant, failure: Failure) {
        if let Some(slice) = self.slice(since) {
            slice.failed += 1;
            let known = self.classes.contains_key(&failure.class) || self.classes.len() < CLASSES_MAX;
            *self.classes.entry(if known { failure.class } else { FailureClass::Other }).or_default() += 1;
        }
        self.failed += 1;
        self.first_failure.get_or_insert(failure.why);
    }

    /// Records the delay of a call.
    pub(super) fn sent(&mut self, due: Instant, lateness: Duration) {
        if self.slice(due).is_some() {
            self.lateness.saturating_record(us(lateness));
            self.late += u64::from(lateness > LATE);
            self.held_up = self.held_up.max(lateness);
        }
    }

    /// The numbers at `now`, without curve, timeline and windows.
    pub(super) fn snapshot(&self, now: Instant) -> Snapshot {
        let measured =
            self.window.map_or(Duration::ZERO, |(from, until)| now.min(until).saturating_duration_since(from));
        Snapshot {
            measured,
            total: Latency::of(&self.total()),
            servers: self.servers.iter().map(Latency::of).collect(),
            failed: self.failed,
            first_failure: self.first_failure.clone(),
            classes: self.classes.clone(),
            held_up: self.held_up,
            late: self.late,
            lateness: Latency::of(&self.lateness),
            curve: Vec::new(),
            timeline: Vec::new(),
            windows: Vec::new(),
        }
    }

    /// The numbers at the end.
    pub(super) fn finish(&self, now: Instant) -> Snapshot {
        let windows = self.windows.as_ref().map_or_else(Vec::new, Windows::finish);
        Snapshot { curve: curve(&self.total()), timeline: self.timeline.clone(), windows, ..self.snapshot(now) }
    }

    fn total(&self) -> Histogram<u64> {
        let mut total = histogram();
        for server in &self.servers {
            total += server;
        }
        total
    }

    fn slice(&mut self, since: Instant) -> Option<&mut Slice> {
        let (from, until) = self.window?;
        if since >= until {
            return None;
        }
        let index = since.checked_duration_since(from)?.as_nanos() / SLICE.as_nanos();
        self.timeline.get_mut(usize::try_from(index).ok()?)
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
