//! The numbers of a finished load as a message to another process, which merges the numbers of several loads.

use std::fmt::Display;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failure::FailureClass;
use super::nanoseconds;
use super::snapshot::Slice;
use super::sparse::Sparse;
use super::stats::{CLASSES_MAX, SLICE};
use super::windows::WINDOW;

/// Maximum duration of a load whose numbers become a [`Recording`], warm-up included.
pub(super) const LOAD_MAX: Duration = Duration::from_secs(2 * 60 * 60);
/// Maximum number of servers of a load whose numbers become a [`Recording`].
pub(super) const SERVERS_MAX: usize = 1_000;
/// Maximum number of calls in each part of a recording. Sums over many recordings stay far below 2^64.
const CALLS_MAX: u64 = 1 << 40;
const SLICES_MAX: usize = (LOAD_MAX.as_millis() / SLICE.as_millis()) as usize;
const WINDOWS_MAX: usize = (LOAD_MAX.as_secs() / WINDOW.as_secs()) as usize;
/// Maximum number of characters of the first failure's reason. The text may come from a server, so it could have any
/// length.
pub(super) const REASON_MAX_CHARS: usize = 1_000;

/// The recorded numbers of a load. [`Snapshot::merged`](super::Snapshot::merged) combines the recordings of several
/// loads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recording {
    #[serde(rename = "measured_ns", with = "nanoseconds")]
    pub(super) measured: Duration,
    /// Latencies of the calls that each server answered. The servers have the same order as in `Plan::servers`.
    pub(super) servers_us: Vec<Sparse>,
    /// Failed calls, including those of the warm-up.
    pub(super) failed: u64,
    /// Number of failed calls that the client never sent, including calls of the warm-up.
    pub(super) not_sent: u64,
    pub(super) first_failure: Option<String>,
    /// Failed calls of the measured time, by class.
    pub(super) classes: Vec<(FailureClass, u64)>,
    pub(super) late: u64,
    #[serde(rename = "held_up_ns", with = "nanoseconds")]
    pub(super) held_up: Duration,
    pub(super) lateness_us: Sparse,
    pub(super) timeline: Vec<Slice>,
    /// Latencies of the calls of each window.
    pub(super) windows_us: Vec<Sparse>,
}

impl Recording {
    /// Checks a recording from another machine against the limits.
    ///
    /// # Errors
    /// The first violation, in one line.
    pub(super) fn check(&self) -> Result<(), String> {
        let servers = self.servers_us.len();
        at_most("servers", servers, SERVERS_MAX)?;
        at_most("classes of failures", self.classes.len(), CLASSES_MAX + 1)?;
        at_most("slices", self.timeline.len(), SLICES_MAX)?;
        at_most("windows", self.windows_us.len(), WINDOWS_MAX)?;
        let reason = self.first_failure.as_deref().unwrap_or_default();
        at_most("characters of the first failure", reason.chars().count(), REASON_MAX_CHARS)?;
        if let Some(slice) = self.timeline.iter().find(|slice| slice.calls.len() != servers) {
            return Err(format!("a slice has {} servers instead of {servers}", slice.calls.len()));
        }
        let sum = |counts: &mut dyn Iterator<Item = u64>| counts.fold(0, u64::saturating_add);
        for (what, calls) in [
            ("calls", sum(&mut self.servers_us.iter().map(Sparse::calls))),
            ("failed calls", self.failed),
            ("calls that were not sent", self.not_sent),
            ("classified calls", sum(&mut self.classes.iter().map(|(_, calls)| *calls))),
            ("late calls", self.late),
            ("delayed calls", self.lateness_us.calls()),
            ("calls in the slices", sum(&mut self.timeline.iter().flat_map(|slice| slice.calls.iter().copied()))),
            ("failed calls in the slices", sum(&mut self.timeline.iter().map(|slice| slice.failed))),
            ("calls in the windows", sum(&mut self.windows_us.iter().map(Sparse::calls))),
        ] {
            at_most(what, calls, CALLS_MAX)?;
        }
        Ok(())
    }
}

fn at_most<T: PartialOrd + Display + Copy>(what: &str, count: T, max: T) -> Result<(), String> {
    if count <= max { Ok(()) } else { Err(format!("{count} {what} exceed the limit of {max}")) }
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
