//! The message `EnvironmentConfig`: the machines and the servers of an experiment.

use serde_json::{Value, json};

use crate::experiment::record::{Cluster, ClusterNode, Experiment, GraphShape, Machine};

/// The fields of the message, without its id.
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

/// The servers that the load calls, and their number. In a graph, each service is one server.
fn servers(experiment: &Experiment) -> (&str, u32) {
    let name = experiment.workload.as_ref().map_or("leno echo", |workload| &workload.service);
    (name, experiment.graph.map_or(experiment.backends, GraphShape::services))
}

fn of_machine(machine: &Machine) -> Value {
    let Machine { cpus, cpu_model, memory_bytes, kernel } = machine;
    json!({
        "labels": {"kernel": kernel},
        "nodes": [{"type": cpu_model, "cores": cpus, "mem_mb": memory_bytes / 1_000_000}],
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
        "mem_mb": bytes(&node.memory).unwrap_or_default() / 1_000_000,
    })
}

/// Returns the bytes of a node's memory in the forms in which kubelets report it: `16393208Ki`, or a number of bytes.
fn bytes(memory: &str) -> Option<u64> {
    let digits = memory.trim_end_matches(char::is_alphabetic);
    let unit: u64 = match &memory[digits.len()..] {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
#[path = "environment_tests.rs"]
mod tests;
