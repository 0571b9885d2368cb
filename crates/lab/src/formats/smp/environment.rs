//! The message `EnvironmentConfig`: the machines and the servers of an experiment.

use leno_install::quantity::amount;
use serde_json::{Value, json};

use crate::experiment::record::{Cluster, ClusterNode, Experiment, GraphShape, Machine};
use crate::units::BYTES_PER_MB;

/// Returns the fields of the message `EnvironmentConfig`, except for its id, which the caller adds.
pub(super) fn environment(experiment: &Experiment) -> Value {
    let (name, count) = servers(experiment);
    let mut environment = match &experiment.cluster {
        Some(cluster) => of_cluster(cluster),
        None => of_machine(&experiment.machine),
    };
    environment["labels"]["command"] = json!(experiment.command);
    environment["individual_workloads"] = json!([{"name": name, "count": count}]);
    environment
}

/// Returns the name and the number of the servers that the load calls. In a graph, each service is one server.
fn servers(experiment: &Experiment) -> (&str, u32) {
    let name = experiment.workload.as_ref().map_or("leno echo", |workload| &workload.service);
    (name, experiment.graph.map_or(experiment.backends, GraphShape::services))
}

fn of_machine(machine: &Machine) -> Value {
    let Machine { cpus, cpu_model, memory_bytes, kernel } = machine;
    json!({
        "labels": {"kernel": kernel},
        "nodes": [{"type": cpu_model, "cores": cpus, "mem_mb": memory_bytes / BYTES_PER_MB}],
    })
}

fn of_cluster(cluster: &Cluster) -> Value {
    let mut kernels: Vec<&str> = cluster.nodes.iter().map(|node| node.kernel.as_str()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    json!({
        "labels": {"kernel": kernels.join(", "), "image": cluster.image},
        "kubernetes_version": cluster.kubernetes,
        "nodes": cluster.nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

/// A node of a cluster. Kubernetes does not report the model of its CPUs.
fn node(node: &ClusterNode) -> Value {
    json!({
        // An unknown figure is 0, the default of protobuf.
        "cores": node.cpus.parse::<u32>().unwrap_or_default(),
        "mem_mb": bytes(&node.memory).unwrap_or_default() / BYTES_PER_MB,
    })
}

/// Returns a node's memory in bytes; `None` if the text is malformed or the amount is impossible.
fn bytes(memory: &str) -> Option<u64> {
    amount(memory).filter(|bytes| (0.0..u64::MAX as f64).contains(bytes)).map(|bytes| bytes as u64)
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
