//! The scenario `memory`: how much memory thousands of connections cost a proxy, and how much of this memory the proxy
//! keeps after the connections have closed.

use std::thread;
use std::time::{Duration, Instant};

use super::cases::BURST_CALLS;
use super::measure::{Stage, since};
use super::record::Run;
use super::schedule::Turn;
use crate::backends::Trouble;
use crate::error::Result;
use crate::load::{Crowd, CrowdReport, Latency, Snapshot};

/// Time that the proxy has to return memory to the system: once after the first client has disconnected, and again
/// after the crowd has disconnected.
pub(super) const RECOVERY: Duration = Duration::from_secs(10);

impl Stage<'_> {
    /// Opens the connections of `turn`, makes a burst of calls on them, closes them, and waits.
    ///
    /// # Errors
    /// If a program ends early or a connection cannot be opened. Failed calls are counted instead.
    pub(super) fn measure_memory(&mut self, turn: &Turn) -> Result<Run> {
        self.backends.set(turn.troubled, Trouble::Slow(0))?;
        let client = self.target.client();
        // First, a single client connects, calls and disconnects. Memory that the proxy keeps afterwards is not a cost
        // of the crowd, so it counts as memory before the crowd.
        let first = Crowd::gather(&client, 1)?;
        first.burst(1)?;
        first.leave();
        thread::sleep(RECOVERY);
        let memory_before = self.target.memory()?;

        self.target.forget_peaks();
        let crowd = Crowd::gather(&client, turn.case.connections)?;
        let (before, counts_before, start) = (self.meter()?, self.backends.counts()?, Instant::now());
        let report = crowd.burst(BURST_CALLS)?;
        let (after, counts_after, measured) = (self.meter()?, self.backends.counts()?, start.elapsed());
        crowd.leave();
        thread::sleep(RECOVERY);
        self.ensure_running()?;

        let CrowdReport { calls, failed, first_failure } = report;
        let total = Latency { calls, ..Latency::default() };
        let numbers = Snapshot { measured, total, ..Snapshot::default() };
        let reached = since(&counts_after.calls, &counts_before.calls);
        let run = self.record(turn, numbers, (&before, &after), (calls, &reached))?;
        self.target.ensure_encrypted()?;
        Ok(Run {
            errors: failed,
            first_error: first_failure,
            proxy_rss_before_bytes: memory_before.map(|memory| memory.resident_bytes()),
            ..run
        })
    }
}
