//! The scenario `footprint`: the memory of all proxies when idle, under a load, with further connections, and after a
//! burst of calls on them.

use std::thread;

use super::cases::{BURST_CALLS, Case};
use super::measure::Stage;
use super::memory::RECOVERY;
use super::record::{Footprint, Run, SECOND_PHASE};
use super::schedule::Turn;
use crate::error::Result;
use crate::load::{Crowd, CrowdReport};

/// Number of client connections of the first load. The case's own connections open after this load has ended.
pub(super) const LOAD_CONNECTIONS: u32 = 16;

impl Stage<'_> {
    /// Measures the load of `turn` over a few connections. Then opens the connections of `turn`, makes a burst of calls
    /// on them, closes them, and waits.
    ///
    /// # Errors
    /// If a program ends early or a connection cannot be opened. Failed calls are counted instead.
    pub(super) fn measure_footprint(&mut self, turn: &Turn) -> Result<Run> {
        let case = Case { connections: LOAD_CONNECTIONS, ..turn.case };
        let run = self.measure(&Turn { case, ..*turn })?;
        let unloaded_bytes = self.resident_bytes()?;
        let crowd = Crowd::gather(&self.target.client(), turn.case.connections)?;
        let connected_bytes = self.resident_bytes()?;
        let CrowdReport { failed, first_failure, .. } = crowd.burst(BURST_CALLS)?;
        crowd.leave();
        thread::sleep(RECOVERY);
        self.ensure_running()?;
        let after_burst_bytes = self.resident_bytes()?;
        let footprint =
            run.footprint.map(|loaded| Footprint { unloaded_bytes, connected_bytes, after_burst_bytes, ..loaded });
        let run = Run { connections: turn.case.connections, footprint, ..run };
        Ok(with_second_phase(run, failed, first_failure))
    }

    /// Resident memory of all proxies, in bytes; `None` without a proxy.
    fn resident_bytes(&self) -> Result<Option<u64>> {
        Ok(self.target.total_memory()?.map(|(_, bytes)| bytes))
    }
}

/// Adds the failed calls of the second phase (the burst; in a cluster, the second load) to the run. All other figures
/// of the run belong to the first load.
pub(super) fn with_second_phase(mut run: Run, failed: u64, first_failure: Option<String>) -> Run {
    if failed > 0 {
        run.errors += failed;
        run.error_classes.insert(SECOND_PHASE.to_owned(), failed);
        run.first_error = run.first_error.or_else(|| first_failure.map(|why| format!("{SECOND_PHASE}: {why}")));
    }
    run
}

#[cfg(test)]
#[path = "footprint_tests.rs"]
mod tests;
