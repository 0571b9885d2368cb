//! CPU time and memory of containers, from the kubelets' own statistics (the Summary API).
//!
//! A kubelet measures each container only every 10 to 15 s. So the comparison of two readings uses the time between the
//! two measurements of a container, not the time between the readings. A reading after an event waits until the
//! kubelets have measured each container again.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::try_join_all;
use http::Request;
use jiff::Timestamp;
use kube::Client;
use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout};

use crate::error::{Error, Result};
use crate::kubernetes::refused;

/// Time limit of the wait until the kubelets have measured all containers again.
const FRESH_TIMEOUT: Duration = Duration::from_secs(45);
const POLL: Duration = Duration::from_secs(2);
/// Longest time for one kubelet to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A container of a Pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ContainerName {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
}

/// A kubelet's measurement of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Measured {
    /// Start of the container, as the kubelet writes it.
    started: String,
    /// Time of the measurement of the CPU time, by the node's clock.
    at: Timestamp,
    /// CPU time since the container's start.
    pub(super) cpu_time: Duration,
    /// The working set: memory that the kernel cannot free at once. `kubectl top` shows it, and memory limits count it.
    pub(super) memory_bytes: u64,
}

/// The latest measurements of all containers.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage {
    containers: BTreeMap<ContainerName, Measured>,
}

/// The CPUs that each container uses while there is no load.
#[derive(Debug, Clone, Default)]
pub(super) struct IdleCpus {
    containers: BTreeMap<ContainerName, f64>,
}

/// The kubelets of a cluster.
#[derive(Clone)]
pub(super) struct Kubelets {
    client: Client,
    nodes: Vec<String>,
}

impl Kubelets {
    pub(super) fn new(client: Client, nodes: Vec<String>) -> Self {
        Self { client, nodes }
    }

    /// Reads the kubelets' latest measurements of all containers.
    ///
    /// # Errors
    /// If a node's kubelet does not answer, or the user may not read its statistics.
    pub(super) async fn read(&self) -> Result<Usage> {
        let mut usage = Usage::default();
        for summary in try_join_all(self.nodes.iter().map(|node| self.summary(node))).await? {
            usage.add(summary);
        }
        Ok(usage)
    }

    async fn summary(&self, node: &str) -> Result<Summary> {
        let what = || format!("reading the statistics of the node {node} (the right: get nodes/proxy)");
        let path = format!("/api/v1/nodes/{node}/proxy/stats/summary");
        let request =
            Request::get(path).body(Vec::new()).map_err(|error| refused(what())(kube::Error::HttpError(error)))?;
        let late = || Error::Cluster { what: what(), why: format!("no answer within {} s", ANSWER_MAX.as_secs()) };
        match timeout(ANSWER_MAX, self.client.request(request)).await {
            Ok(summary) => summary.map_err(refused(what())),
            Err(_) => Err(late()),
        }
    }

    /// Waits until the kubelets have measured each of these containers again, and returns the new measurements. Returns
    /// `None` if this takes longer than [`FRESH_TIMEOUT`].
    ///
    /// # Errors
    /// The same errors as [`Kubelets::read`].
    pub(super) async fn read_again(&self, containers: &[ContainerName]) -> Result<Option<Usage>> {
        let before = self.read().await?;
        let end = Instant::now() + FRESH_TIMEOUT;
        loop {
            let now = match self.read().await {
                Err(error) if Instant::now() > end => return Err(error),
                // Read again: the failure may be temporary.
                Err(_) => {
                    sleep(POLL).await;
                    continue;
                }
                Ok(now) => now,
            };
            let is_new = |name: &ContainerName| match (before.containers.get(name), now.containers.get(name)) {
                (_, None) => false,
                (before, Some(now)) => before.is_none_or(|before| before.at != now.at),
            };
            if containers.iter().all(is_new) {
                return Ok(Some(now));
            }
            if Instant::now() > end {
                return Ok(None);
            }
            sleep(POLL).await;
        }
    }
}

impl Usage {
    fn add(&mut self, summary: Summary) {
        for PodStats { pod_ref: PodRef { name, namespace }, containers } in summary.pods {
            for ContainerStats { name: container, start_time: started, cpu, memory } in containers {
                let container = ContainerName { namespace: namespace.clone(), pod: name.clone(), container };
                // The kubelet reports no valid time for a container that it has not measured yet.
                let Ok(at) = cpu.time.parse() else { continue };
                let cpu_time = Duration::from_nanos(cpu.usage_core_nano_seconds);
                let measured = Measured { started, at, cpu_time, memory_bytes: memory.working_set_bytes };
                self.containers.insert(container, measured);
            }
        }
    }

    fn of<'a>(&'a self, names: &'a [ContainerName]) -> impl Iterator<Item = &'a Measured> {
        names.iter().filter_map(|name| self.containers.get(name))
    }

    /// Sum of the memory of these containers, in bytes.
    pub(super) fn memory_bytes(&self, names: &[ContainerName]) -> u64 {
        self.of(names).map(|measured| measured.memory_bytes).sum()
    }

    /// Memory of the largest of these containers, in bytes.
    pub(super) fn largest_bytes(&self, names: &[ContainerName]) -> Option<u64> {
        self.of(names).map(|measured| measured.memory_bytes).max()
    }

    /// CPU time that a load cost these containers since an earlier reading.
    ///
    /// It is the containers' CPU time since that reading, minus the CPU time that they used while the load did not run.
    /// `load_time` is the duration of the load, and `idle` has the CPUs that each container uses without a load. `None`
    /// if a container is missing in a reading, was replaced between the readings, or is missing in `idle`.
    pub(super) fn cpu_of_load(
        &self,
        earlier: &Self,
        names: &[ContainerName],
        load_time: Duration,
        idle: &IdleCpus,
    ) -> Option<Duration> {
        let of = |name| {
            let (cpu, time) = self.spent(earlier, name)?;
            let cpus = idle.containers.get(name)?;
            Some(cpu.saturating_sub(time.saturating_sub(load_time).mul_f64(*cpus)))
        };
        names.iter().map(of).sum()
    }

    /// CPUs that each container has used since an earlier reading. There must be no load between the two readings.
    pub(super) fn idle_since(&self, earlier: &Self) -> IdleCpus {
        let of = |name: &ContainerName| {
            let (cpu, time) = self.spent(earlier, name)?;
            let cpus = cpu.as_secs_f64() / time.as_secs_f64();
            cpus.is_finite().then(|| (name.clone(), cpus))
        };
        IdleCpus { containers: self.containers.keys().filter_map(of).collect() }
    }

    /// CPUs that these containers together have used since an earlier reading. `None` if a container is missing in a
    /// reading or was replaced between the readings.
    pub(super) fn cpus_since(&self, earlier: &Self, names: &[ContainerName]) -> Option<f64> {
        let cpus = |name| {
            let (cpu, time) = self.spent(earlier, name)?;
            Some(cpu.as_secs_f64() / time.as_secs_f64()).filter(|cpus| cpus.is_finite())
        };
        names.iter().map(cpus).sum()
    }

    /// Returns the first of these containers that was replaced or restarted since an earlier reading; `None` if no
    /// container was.
    pub(super) fn restarted<'a>(&self, earlier: &Self, names: &'a [ContainerName]) -> Option<&'a ContainerName> {
        names.iter().find(|name| match (earlier.containers.get(name), self.containers.get(name)) {
            (Some(before), Some(now)) => before.started != now.started,
            _ => false,
        })
    }

    /// Returns a container's CPU time since an earlier reading, and the time between its two measurements.
    fn spent(&self, earlier: &Self, name: &ContainerName) -> Option<(Duration, Duration)> {
        let (before, now) = (earlier.containers.get(name)?, self.containers.get(name)?);
        let cpu = now.cpu_time.checked_sub(before.cpu_time).filter(|_| now.started == before.started)?;
        Some((cpu, Duration::try_from(now.at.duration_since(before.at)).ok()?))
    }

    /// Sets the memory of each container to the larger of its values in this reading and in an earlier reading.
    pub(super) fn keep_peaks(&mut self, earlier: &Self) {
        for (name, measured) in &mut self.containers {
            let before = earlier.containers.get(name).map_or(0, |before| before.memory_bytes);
            measured.memory_bytes = measured.memory_bytes.max(before);
        }
    }
}

impl IdleCpus {
    /// CPUs that these containers together use without a load; `None` if a container was not measured without a load.
    pub(super) fn of(&self, names: &[ContainerName]) -> Option<f64> {
        names.iter().map(|name| self.containers.get(name).copied()).sum()
    }
}

/// The parts of the Summary API that the lab reads.
#[derive(Debug, Deserialize)]
struct Summary {
    #[serde(default)]
    pods: Vec<PodStats>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodStats {
    pod_ref: PodRef,
    #[serde(default)]
    containers: Vec<ContainerStats>,
}

#[derive(Debug, Deserialize)]
struct PodRef {
    name: String,
    namespace: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStats {
    name: String,
    #[serde(default)]
    start_time: String,
    #[serde(default)]
    cpu: CpuStats,
    #[serde(default)]
    memory: MemoryStats,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CpuStats {
    time: String,
    usage_core_nano_seconds: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MemoryStats {
    working_set_bytes: u64,
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
