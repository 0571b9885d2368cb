//! The findings that only some scenarios have.

use serde::{Deserialize, Serialize};

/// Resident memory of all proxies of a target together, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Number of proxies.
    pub proxies: u32,
    /// After the start, before the first connection.
    pub idle_bytes: u64,
    /// At the end of the measured time, under the load.
    pub loaded_bytes: u64,
    /// Scenario `footprint`: with the additional connections open and idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_bytes: Option<u64>,
    /// Scenario `footprint`: 10 s after these connections made a burst of calls and closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_burst_bytes: Option<u64>,
}

/// Scenario `capacity`: the result of the search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// The highest rate, in calls per second, that met the conditions in a run of its own; `None` if no rate did. The
    /// figures of the run are those of its last confirmation.
    pub rate_per_s: Option<u32>,
    /// The highest rate that met the conditions in the short trials of the search, in calls per second.
    pub found_per_s: u32,
    /// Number of trials.
    pub trials: u32,
    /// Number of confirmations, each with a newly started target: 1 if the first one met the conditions.
    pub confirmations: u32,
}
