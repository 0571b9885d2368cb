//! The description of an experiment, its machine and its programs: the file `lab.json`.

use serde::{Deserialize, Serialize};

use super::record::{Protocol, Scenario, TargetKind};
use crate::error::Error;
use crate::load::Traffic;

/// The description of an experiment: its options, its machine, and the targets that were skipped. The file `lab.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    pub scenario: Scenario,
    /// Protocol of clients and backends.
    #[serde(default)]
    pub protocol: Protocol,
    /// The pattern of gRPC messages, the message sizes, and the spacing of the calls.
    #[serde(default)]
    pub traffic: Traffic,
    /// Scenario `graph`: the services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<GraphShape>,
    /// The command line, which can repeat the experiment.
    pub command: String,
    /// Start time in UTC, in the format of RFC 3339.
    pub started: String,
    /// Measured seconds of each run.
    pub duration_s: u32,
    /// Warm-up of each run, in seconds; calls of the warm-up are not counted.
    pub warm_up_s: u32,
    /// Planned number of repeats; 0 in results of earlier versions.
    #[serde(default)]
    pub repeats: u32,
    /// Number of backends; for a user's workload, the number of endpoints that were ready at the start.
    pub backends: u32,
    /// The machine that the lab ran on. In a cluster, the servers and the load ran elsewhere.
    pub machine: Machine,
    /// The cluster that the servers and the load ran in; `None` if they ran on the machine itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Cluster>,
    /// The user's own workload that the load called; `None` if it called servers of the lab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
    /// The measured targets, in the requested order.
    pub targets: Vec<TargetKind>,
    /// Version line of each target's program.
    pub versions: Vec<Version>,
    /// The targets that were not measured.
    pub skipped: Vec<Skipped>,
    /// The highest rates that the load reaches without a proxy.
    pub ceiling: Ceiling,
}

impl Experiment {
    /// Returns whether a target has failed, and gets no further runs.
    pub(super) fn is_given_up(&self, target: TargetKind) -> bool {
        self.skipped.iter().any(|skipped| skipped.target == target)
    }

    /// Skips a target from now on, because its run in this repeat failed. Returns the reason.
    pub(super) fn give_up(&mut self, target: TargetKind, repeat: u32, error: &Error) -> String {
        let why = format!("given up in repeat {repeat}: {error}");
        self.skipped.push(Skipped { target, why: why.clone() });
        why
    }

    /// Removes a target that cannot be measured at all.
    pub(super) fn leave_out(&mut self, target: TargetKind, why: String) {
        self.targets.retain(|&measured| measured != target);
        self.versions.retain(|version| version.target != target);
        self.skipped.push(Skipped { target, why });
    }
}

/// The machine that an experiment ran on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Number of CPUs.
    pub cpus: u32,
    /// The CPU's name, as the kernel reports it.
    pub cpu_model: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's release.
    pub kernel: String,
}

/// The cluster that an experiment ran in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Version of Kubernetes.
    pub kubernetes: String,
    pub nodes: Vec<ClusterNode>,
    /// The image of the servers and of the load.
    pub image: String,
    /// Number of Pods that share the load.
    pub load_pods: u32,
    /// The node of each Pod of the lab, for each target.
    #[serde(default)]
    pub placements: Vec<Placement>,
}

/// The nodes that Kubernetes chose for the Pods of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub target: TargetKind,
    /// Each Pod, in the form `backend-0 on node1`.
    pub pods: Vec<String>,
}

/// A user's own workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// The Service, in the form `namespace/name:port`.
    pub service: String,
    /// The gRPC method in the form `package.Service/Method`, or the request in the form `GET /path`.
    pub call: String,
}

/// A node of a cluster, as Kubernetes describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNode {
    /// CPUs, as a Kubernetes quantity such as `4`.
    pub cpus: String,
    /// Memory, as a Kubernetes quantity such as `16393208Ki`.
    pub memory: String,
    /// The kernel's release.
    pub kernel: String,
}

/// The version of a target's program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The target.
    pub target: TargetKind,
    /// The program's own version line.
    pub version: String,
}

/// A target that was not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// The target.
    pub target: TargetKind,
    /// The reason and the remedy, in one line.
    pub why: String,
}

/// The highest rates that the load reaches without a proxy; zero in a cluster, and if the scenario makes no calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Calls per second of the load on one CPU, with a bare backend on another CPU.
    pub load_rps: f64,
    /// Calls per second of the load without a proxy, over connections that are spread evenly over the experiment's
    /// backends. No proxy can reach more calls per second here.
    pub backends_rps: f64,
}

/// A tree of services: each service calls `fan_out` further services; the services of the last level call none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphShape {
    /// Levels of services, at least 1. The first level has one service, which the load calls.
    pub depth: u32,
    /// Number of services that each service calls, at least 1.
    pub fan_out: u32,
}

impl GraphShape {
    /// Number of services on a level; the first level has number 0.
    pub fn services_on(self, level: u32) -> u32 {
        self.fan_out.saturating_pow(level)
    }

    /// Number of all services. Each call of the load reaches each service once.
    pub fn services(self) -> u32 {
        (0..self.depth).map(|level| self.services_on(level)).fold(0, u32::saturating_add)
    }
}
