//! The measurements: one line each in `runs.jsonl`.

use std::time::Duration;

use serde::Serialize;

use super::arrivals::Judged;
use super::plan::Plan;
use super::usage::Used;
use crate::experiment::record::Machine;
use crate::load::Latency;
use crate::procfs::Memory;

/// If the simulated proxies' thread, or the machine, uses more than this fraction of its capacity, a figure measures
/// the lab rather than the control plane.
const NEAR: f64 = 0.8;

/// The description of the experiment and its machine, as written to `lab.json`.
#[derive(Debug, Serialize)]
pub(super) struct Experiment {
    pub(super) scenario: &'static str,
    /// The command line.
    pub(super) command: String,
    /// Start of the experiment, in UTC.
    pub(super) started: String,
    pub(super) plan: Plan,
    pub(super) machine: Machine,
    /// Version of Leno, as the programs report it.
    pub(super) version: &'static str,
}

/// A measurement.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(super) enum Record {
    /// Memory of leno-control after every proxy had received all its resources, while nothing changed.
    ControlMemory { mesh: Plan, memory: Memory },
    /// Memory of a real leno-proxy after calls to two Services.
    ProxyMemory { mesh: Plan, memory: Memory },
    /// The delivery of changed endpoints to proxies.
    Changes(Box<Changes>),
}

/// How the lab sends changes: one at a time, or at a fixed rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Load {
    /// One change at a time, of the Service to which every proxy subscribes.
    Single,
    /// Changes of random Services at a fixed rate, in flight at the same time.
    Steady { per_s: u32 },
}

/// The delivery of changed endpoints to proxies.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Changes {
    pub(super) mesh: Plan,
    pub(super) load: Load,
    pub(super) changes: u64,
    pub(super) took_s: f64,
    /// Changes that were sent more than 10 ms after their scheduled time.
    pub(super) late: u64,
    /// Expected deliveries. A delivery is one change at one proxy.
    pub(super) deliveries: u64,
    /// Deliveries whose change did not arrive, because a newer change of the same Service arrived instead.
    pub(super) coalesced: u64,
    /// Deliveries for which neither the change nor a newer change arrived.
    pub(super) lost: u64,
    /// Latency of the deliveries, from just before each request to the API server.
    pub(super) since_sent: Latency,
    /// Latency of the deliveries, from the API server's answer.
    pub(super) since_acknowledged: Latency,
    /// CPUs used by leno-control.
    pub(super) control_cpus: f64,
    pub(super) control_cpu_ms_per_change: f64,
    /// CPUs used by the lab, almost entirely by the simulated proxies.
    pub(super) lab_cpus: f64,
    pub(super) lab_cpu_ms_per_change: f64,
    /// CPUs used by all other programs, such as the API server and etcd.
    pub(super) other_cpus: f64,
    /// Whether the lab or the machine was near its capacity. In that case, the figures say nothing about
    /// the control plane.
    pub(super) at_ceiling: bool,
    /// Memory of leno-control at the end of the load.
    pub(super) memory: Memory,
}

impl Changes {
    /// Combines the measurements.
    pub(super) fn new(mesh: Plan, load: Load, sent: &Sent, judged: &Judged, used: &Used, memory: Memory) -> Self {
        let per_change = |time: Duration| time.as_secs_f64() * 1_000.0 / (sent.changes.max(1) as f64);
        Self {
            mesh,
            load,
            changes: sent.changes,
            took_s: sent.took.as_secs_f64(),
            late: sent.late,
            deliveries: judged.expected,
            coalesced: judged.coalesced,
            lost: judged.lost,
            since_sent: judged.since_sent,
            since_acknowledged: judged.since_acknowledged,
            control_cpus: used.cpus(used.control),
            control_cpu_ms_per_change: per_change(used.control),
            lab_cpus: used.cpus(used.lab),
            lab_cpu_ms_per_change: per_change(used.lab),
            other_cpus: used.cpus(used.others),
            at_ceiling: is_at_ceiling(judged, used),
            memory,
        }
    }

    /// Changes per second.
    pub(super) fn rate_per_s(&self) -> f64 {
        self.changes as f64 / self.took_s.max(f64::MIN_POSITIVE)
    }
}

/// The changes that were sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    pub(super) changes: u64,
    /// Time from the start to the end of the load. A load of single changes ends with the pause after the last change.
    /// A load at a fixed rate ends with the API server's last answer.
    pub(super) took: Duration,
    pub(super) late: u64,
}

/// Returns whether the lab or the machine was near its capacity.
///
/// The lab is near its capacity if its only thread was busy for most of the time during which changes were in flight.
/// The machine is near its capacity if all programs together used most of its CPU time during the load.
fn is_at_ceiling(judged: &Judged, used: &Used) -> bool {
    let lab = used.lab.as_secs_f64() / judged.busy.as_secs_f64().max(f64::MIN_POSITIVE);
    let machine = used.cpus(used.control + used.lab + used.others) / f64::from(used.machine_cpus.max(1));
    lab >= NEAR || machine >= NEAR
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
