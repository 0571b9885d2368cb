//! The findings that only some scenarios have.

use serde::{Deserialize, Serialize};

/// Scenario `footprint`: the error class of calls that failed after the load. The lab does not record their real class.
pub(crate) const SECOND_PHASE: &str = "in the second phase";

/// Memory in bytes, summed over all proxies of a target. It is the resident memory or, in a cluster, the working set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Footprint {
    /// Number of proxies.
    pub proxies: u32,
    /// Memory before the load. Outside a cluster, the proxies have just started.
    pub idle_bytes: u64,
    /// Memory under the load, at the end of the measured time; in a cluster, the sum of each proxy's largest reading.
    pub loaded_bytes: u64,
    /// Scenario `footprint`: memory after the load has ended and before further connections open. In a cluster, the
    /// same as `loaded_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unloaded_bytes: Option<u64>,
    /// Scenario `footprint`: memory with the further connections open and idle; in a cluster, under a second load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_bytes: Option<u64>,
    /// Scenario `footprint`: memory 10 s after the further connections have made a burst of calls and closed. In a
    /// cluster: memory at the kubelets' next measurement after the second load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_burst_bytes: Option<u64>,
    /// In a cluster: the CPUs that all proxies use without a load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_cpus: Option<f64>,
}

/// Scenario `capacity`: the result of the search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// The highest rate, in calls per second, that a separate run (a confirmation) confirmed. `None` if no rate was
    /// confirmed. The record's other figures come from the last confirmation. If the search found no rate, this
    /// confirmation sends 1 call per second.
    pub rate_per_s: Option<u32>,
    /// The highest rate, in calls per second, that met the conditions in the short trials of the search; 0 if every
    /// trial failed.
    pub found_per_s: u32,
    /// Number of trials.
    pub trials: u32,
    /// Number of confirmations, each with a newly started target: 1 if the first one met the conditions.
    pub confirmations: u32,
}

/// Scenario `rollout`: the calls of each half of the measured time. In each half, all backends restart one after the
/// other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// A backend gets SIGTERM, and finishes its open calls.
    pub graceful: Restarts,
    /// A backend ends at once: by SIGKILL, or in a cluster because the lab asks it to exit.
    pub abrupt: Restarts,
}

/// The calls during a series of restarts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restarts {
    /// Number of restarts that were complete within the half.
    pub restarts: u32,
    /// Calls answered with OK.
    pub calls: u64,
    /// Calls that were not answered with OK.
    pub lost: u64,
}

/// Scenario `methods`: the calls of the slow method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SlowMethod {
    /// Calls answered with OK.
    pub calls: u64,
    /// Calls of the measured time that were not answered with OK.
    pub errors: u64,
    /// Number of slow calls that ended while the proxies' CPU time was measured. The CPU time for each call is the
    /// proxies' CPU time, divided by the number of slow and fast calls together. 0 in results of earlier versions,
    /// which divided by the number of fast calls only.
    #[serde(default)]
    pub calls_meanwhile: u64,
    /// Half of the calls took at most this time.
    pub p50_ms: f64,
    /// 99 of 100 calls took at most this time.
    pub p99_ms: f64,
}

/// The control plane of a mesh in a cluster, during a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ControlPlane {
    /// Number of containers.
    pub containers: u32,
    /// Sum of the largest memory of each container during the run, in bytes.
    pub memory_bytes: u64,
    /// CPUs of all containers during the run; `None` if a container restarted.
    pub cpus: Option<f64>,
}
