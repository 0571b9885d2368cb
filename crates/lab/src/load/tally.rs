//! Adds up the results of the calls of one load, or of several loads.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::failure::FailureClass;
use super::recording::{REASON_MAX_CHARS, Recording};
use super::snapshot::{Latency, Slice, Snapshot, curve};
use super::sparse::Sparse;
use super::stats::{CLASSES_MAX, histogram};
use super::windows::Windows;

#[derive(Debug)]
pub(super) struct Tally {
    pub(super) servers: Vec<Histogram<u64>>,
    /// Failed calls, including those of the warm-up.
    pub(super) failed: u64,
    /// Number of failed calls that the client never sent, including calls of the warm-up.
    pub(super) not_sent: u64,
    pub(super) first_failure: Option<String>,
    /// Number of failed calls of each class within the measured time.
    pub(super) classes: BTreeMap<FailureClass, u64>,
    pub(super) lateness: Histogram<u64>,
    pub(super) late: u64,
    pub(super) held_up: Duration,
    pub(super) timeline: Vec<Slice>,
    pub(super) windows: Windows,
}

impl Tally {
    /// An empty tally for `servers` servers: it has no calls, slices or windows.
    pub(super) fn new(servers: usize) -> Self {
        Self {
            servers: vec![histogram(); servers],
            failed: 0,
            not_sent: 0,
            first_failure: None,
            classes: BTreeMap::new(),
            lateness: histogram(),
            late: 0,
            held_up: Duration::ZERO,
            timeline: Vec::new(),
            windows: Windows::default(),
        }
    }

    /// Lengthens the timeline to `slices` slices, but never shortens it.
    pub(super) fn pad_timeline(&mut self, slices: usize) {
        let empty = Slice { calls: vec![0; self.servers.len()], failed: 0 };
        self.timeline.resize(slices.max(self.timeline.len()), empty);
    }

    /// Adds failed calls of one class, all within the measured time.
    pub(super) fn add_failures(&mut self, class: FailureClass, calls: u64) {
        let known = self.classes.contains_key(&class) || self.classes.len() < CLASSES_MAX;
        let count = self.classes.entry(if known { class } else { FailureClass::Other }).or_default();
        *count = count.saturating_add(calls);
    }

    /// Keeps the reason of a failed call if it is the first reason. The first reason from the measured time replaces a
    /// reason from the warm-up. Call this function before [`Self::add_failures`] for the same failure.
    pub(super) fn note_reason(&mut self, why: String, is_measured: bool) {
        if self.first_failure.is_none() || (is_measured && self.classes.is_empty()) {
            self.first_failure = Some(why);
        }
    }

    /// Adds the calls of a recording, which may come from another machine.
    ///
    /// # Errors
    /// The reason in one line, if the recording violates a limit, or if its number of servers differs from this
    /// tally's. After an error, this tally may already contain some of the recording's calls.
    pub(super) fn add(&mut self, recording: &Recording) -> Result<(), String> {
        recording.check()?;
        let (expected, found) = (self.servers.len(), recording.servers_us.len());
        if found != expected {
            return Err(format!("it has {found} servers, and the load has {expected}"));
        }
        for (us, added) in self.servers.iter_mut().zip(&recording.servers_us) {
            added.add_to(us)?;
        }
        recording.lateness_us.add_to(&mut self.lateness)?;
        self.windows.add(&recording.windows_us)?;
        self.failed = self.failed.saturating_add(recording.failed);
        self.not_sent = self.not_sent.saturating_add(recording.not_sent);
        if let Some(why) = recording.first_failure.clone() {
            self.note_reason(why, !recording.classes.is_empty());
        }
        recording.classes.iter().for_each(|&(class, calls)| self.add_failures(class, calls));
        self.late = self.late.saturating_add(recording.late);
        self.held_up = self.held_up.max(recording.held_up);
        self.pad_timeline(recording.timeline.len());
        for (slice, added) in self.timeline.iter_mut().zip(&recording.timeline) {
            slice.add(added);
        }
        Ok(())
    }

    /// Copies this tally into a recording. `measured` is the measured time of the load.
    pub(super) fn recording(&self, measured: Duration) -> Recording {
        Recording {
            measured,
            servers_us: self.servers.iter().map(Sparse::of).collect(),
            failed: self.failed,
            not_sent: self.not_sent,
            first_failure: self.first_failure.as_ref().map(|why| why.chars().take(REASON_MAX_CHARS).collect()),
            classes: self.classes.iter().map(|(&class, &calls)| (class, calls)).collect(),
            late: self.late,
            held_up: self.held_up,
            lateness_us: Sparse::of(&self.lateness),
            timeline: self.timeline.clone(),
            windows_us: self.windows.sparse(),
        }
    }

    /// The results so far, without the fields `curve`, `timeline` and `windows`. `measured` is the measured time so
    /// far.
    pub(super) fn so_far(&self, measured: Duration) -> Snapshot {
        Snapshot {
            measured,
            total: Latency::of(&self.total()),
            servers: self.servers.iter().map(Latency::of).collect(),
            failed: self.failed,
            not_sent: self.not_sent,
            first_failure: self.first_failure.clone(),
            classes: self.classes.clone(),
            held_up: self.held_up,
            late: self.late,
            lateness: Latency::of(&self.lateness),
            answered: self.windows.answered(),
            curve: Vec::new(),
            timeline: Vec::new(),
            windows: Vec::new(),
        }
    }

    /// The complete results. `measured` is the measured time of the load.
    pub(super) fn summary(&self, measured: Duration) -> Snapshot {
        Snapshot {
            curve: curve(&self.total()),
            timeline: self.timeline.clone(),
            windows: self.windows.finish(),
            ..self.so_far(measured)
        }
    }

    fn total(&self) -> Histogram<u64> {
        let mut total = histogram();
        for server in &self.servers {
            total += server;
        }
        total
    }
}

#[cfg(test)]
#[path = "tally_tests.rs"]
mod tests;
