//! The report's names and descriptions of targets, scenarios, loads and marks.

use crate::chart::{Color, Dash, Style, number};
use crate::experiment::record::{
    Cluster, ClusterNode, Experiment, GraphShape, Machine, Scenario, TargetKind, Version, Workload,
};

use super::group::{Load, Marks};
use crate::targets::ambient;

/// Describes a target in a few words. In a cluster, the words differ, because the cluster's administrators configured
/// the meshes and Services, not the lab.
pub(super) fn target_is(target: TargetKind, experiment: &Experiment) -> &'static str {
    let is_in_cluster = experiment.cluster.is_some();
    match target {
        // Do not name kube-proxy: an eBPF program may implement the cluster's Services instead.
        TargetKind::Vanilla if is_in_cluster => "no mesh: the cluster's Services",
        TargetKind::Ambient if is_in_cluster => "ztunnel on each node",
        TargetKind::Kuma if is_in_cluster => "Envoy sidecars",
        TargetKind::Direct => "no proxy",
        TargetKind::L4 => "netfilter, as kube-proxy",
        TargetKind::Leno => "latency balancer",
        TargetKind::Haproxy => "leastconn",
        TargetKind::Envoy => "LEAST_REQUEST",
        TargetKind::LenoMesh => "latency balancer, mutual TLS",
        TargetKind::HaproxyMesh => "leastconn, mutual TLS",
        TargetKind::EnvoyMesh => "LEAST_REQUEST, mutual TLS",
        TargetKind::Tunnel => "rustls alone",
        TargetKind::Vanilla => "no mesh: netfilter",
        TargetKind::CiliumL4 => "netfilter in place of eBPF",
        TargetKind::CiliumL7 => "one Envoy, ROUND_ROBIN",
        TargetKind::Istio => "Envoy, LEAST_REQUEST, mutual TLS",
        TargetKind::Ambient if has_ztunnel(&experiment.versions) => "ztunnel around one Envoy, LEAST_REQUEST",
        TargetKind::Ambient => "TLS tunnels around one Envoy, LEAST_REQUEST",
        TargetKind::Linkerd => "peak EWMA, mutual TLS",
        TargetKind::Nginx | TargetKind::Traefik => "round robin",
        TargetKind::Consul | TargetKind::Kuma => "Envoy, ROUND_ROBIN, mutual TLS",
    }
}

/// Whether the target `ambient` ran the real ztunnel, not the bare tunnel that may replace it.
pub(crate) fn has_ztunnel(versions: &[Version]) -> bool {
    versions.iter().any(|it| it.target == TargetKind::Ambient && ambient::is_with_ztunnel(&it.version))
}

/// The line style of a target in all charts.
pub(super) fn style(target: TargetKind) -> Style {
    let (color, dash) = match target {
        TargetKind::Leno => return Style { color: Color::Blue, dash: Dash::Solid, strong: true },
        TargetKind::Direct => (Color::Grey, Dash::Solid),
        TargetKind::L4 => (Color::Purple, Dash::Dotted),
        TargetKind::Haproxy => (Color::Vermilion, Dash::Dashed),
        TargetKind::Envoy => (Color::Green, Dash::DashDot),
        TargetKind::LenoMesh => return Style { color: Color::Sky, dash: Dash::Solid, strong: true },
        TargetKind::HaproxyMesh => (Color::Orange, Dash::Dashed),
        TargetKind::EnvoyMesh => (Color::Grey, Dash::DashDot),
        TargetKind::Tunnel => (Color::Grey, Dash::Dotted),
        TargetKind::Vanilla => (Color::Purple, Dash::Solid),
        TargetKind::CiliumL4 => (Color::Purple, Dash::Dashed),
        TargetKind::CiliumL7 => (Color::Green, Dash::Dotted),
        TargetKind::Istio => (Color::Vermilion, Dash::DashDot),
        TargetKind::Consul => (Color::Orange, Dash::DashDot),
        TargetKind::Kuma => (Color::Orange, Dash::Dotted),
        TargetKind::Ambient => (Color::Vermilion, Dash::Dotted),
        TargetKind::Nginx => (Color::Green, Dash::Dashed),
        TargetKind::Traefik => (Color::Green, Dash::Solid),
        TargetKind::Linkerd => (Color::Orange, Dash::Solid),
    };
    Style { color, dash, strong: false }
}

pub(super) fn scenario(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::SlowPod => "One slow pod",
        Scenario::Connections => "More connections",
        Scenario::FastFail => "A pod that fails at once",
        Scenario::Recover => "A pod that is well again",
        Scenario::Memory => "Memory after a burst",
        Scenario::Tcp => "Bytes",
        Scenario::Handshakes => "Handshakes",
        Scenario::Ladder => "A ladder of rates",
        Scenario::Capacity => "Capacity",
        Scenario::Crowd => "Many connections",
        Scenario::Footprint => "Footprint",
        Scenario::Steady => "Until the latency is steady",
        Scenario::Rollout => "Backends that restart",
        Scenario::Streams => "Long streams",
        Scenario::Methods => "A fast and a slow method",
        Scenario::Graph => "Services that call services",
        Scenario::RetryStorm => "Failures and retries",
        Scenario::Tail => "Hedges against slow calls",
    }
}

/// The scenario in one sentence.
pub(super) fn scenario_is(scenario: Scenario, experiment: &Experiment) -> String {
    if let Some(workload) = &experiment.workload {
        return workload_is(scenario, workload, experiment.backends);
    }
    let backends = experiment.backends;
    match scenario {
        Scenario::SlowPod => {
            format!("One of {backends} backends answers every call later than the others by the skew.")
        }
        Scenario::Connections => {
            format!("One of {backends} backends is later by the skew; the calls come over more and more connections.")
        }
        Scenario::FastFail => format!("One of {backends} backends fails every call at once."),
        Scenario::Recover => format!("One of {backends} backends is slow by the skew and then well again."),
        Scenario::Memory => "Many connections make a burst of calls and leave.".to_owned(),
        Scenario::Tcp => "Bytes go up for half of the time, and down for the other half.".to_owned(),
        Scenario::Handshakes => "Clients connect with mutual TLS again and again, each time from nothing.".to_owned(),
        Scenario::Ladder => {
            let content = experiment.traffic.response_bytes;
            format!("Clients request {content} bytes from {backends} backends, at higher and higher rates.")
        }
        Scenario::Capacity => {
            format!(
                "The rate of calls to {backends} backends rises until 0.1 % of the calls fail; further runs confirm it."
            )
        }
        Scenario::Crowd => {
            let payload = number::grouped(experiment.traffic.request_bytes.into());
            format!("Many connections call {backends} backends at a steady rate, with {payload} bytes each way.")
        }
        Scenario::Footprint if experiment.cluster.is_some() => {
            "Calls over 16 connections, and then the same calls over many connections.".to_owned()
        }
        Scenario::Footprint => {
            "Calls over 16 connections; then further connections open, make a burst of calls, and close.".to_owned()
        }
        Scenario::Steady => format!("Calls to {backends} backends begin as soon as the proxy serves."),
        Scenario::Rollout if experiment.cluster.is_some() => {
            format!(
                "The Pods of {backends} backends are replaced one by one: deleted in the first half, and deleted after a crash in the second."
            )
        }
        Scenario::Rollout => {
            format!(
                "{backends} backends restart one by one at their addresses, by SIGTERM in the first half and by SIGKILL in the second."
            )
        }
        Scenario::Streams => {
            let messages = number::grouped(experiment.traffic.messages.into());
            format!(
                "Streams of {messages} messages go to {backends} backends; the client sends each after the last answer."
            )
        }
        Scenario::Graph => {
            let GraphShape { depth, fan_out } = experiment.graph.unwrap_or_default();
            format!("{depth} levels of services. Each service calls {fan_out} services of the next level at once.")
        }
        Scenario::RetryStorm => {
            format!("{backends} backends fail no calls, a share of their calls, or all calls at the end of a chain.")
        }
        Scenario::Tail => format!("One of {backends} backends, or each of them, answers some calls later, at random."),
        Scenario::Methods => {
            format!(
                "For each ten calls of a fast method of {backends} backends there is one of a slow method, which takes 100 ms."
            )
        }
    }
}

/// Two sentences for a user's own workload: one names the workload, the other describes the scenario.
fn workload_is(scenario: Scenario, Workload { service, call }: &Workload, endpoints: u32) -> String {
    let what = match scenario {
        Scenario::Ladder => "The load calls it at higher and higher rates.",
        Scenario::Connections => "The load calls it over more and more connections.",
        Scenario::Crowd => "Many connections call it at a steady rate.",
        Scenario::Footprint => "The load calls it over 16 connections, and then makes the same calls over many.",
        _ => "The load calls it.",
    };
    let plural = if endpoints == 1 { "" } else { "s" };
    format!("{call} of the Service {service}, with {endpoints} ready endpoint{plural} at the start. {what}")
}

/// The machine or the cluster of the experiment, as pairs of a property's name and its value.
pub(super) fn places(experiment: &Experiment) -> Vec<(&'static str, String)> {
    if let Some(Cluster { kubernetes, nodes, image, load_pods, .. }) = &experiment.cluster {
        let node = |node: &ClusterNode| format!("{} CPUs, {}, Linux {}", node.cpus, node.memory, node.kernel);
        let nodes: Vec<String> = nodes.iter().map(node).collect();
        return vec![
            ("Kubernetes", kubernetes.clone()),
            ("nodes", nodes.join("; ")),
            ("image", image.clone()),
            ("load", pods_of_load(*load_pods)),
        ];
    }
    let Machine { cpus, cpu_model, memory_bytes, kernel } = &experiment.machine;
    vec![
        ("CPUs", format!("{cpus} × {cpu_model}")),
        ("memory", format!("{} GB", number::significant(*memory_bytes as f64 / 1e9))),
        ("Linux", kernel.clone()),
    ]
}

fn pods_of_load(count: u32) -> String {
    match count {
        1 => "1 Pod".to_owned(),
        _ => format!("{count} Pods; a load with fewer connections uses fewer of them"),
    }
}

/// The name of the figure that counts calls, or in the scenario `handshakes` handshakes, per second.
pub(super) fn rate_name(scenario: Scenario) -> &'static str {
    if scenario == Scenario::Handshakes { "handshakes/s" } else { "calls/s" }
}

/// Describes a load: `1 connection, 200 calls in flight, closed loop`.
pub(super) fn load(load: Load) -> String {
    let Load { rate_per_s, connections, concurrency, is_searched } = load;
    let plural = if connections == 1 { "" } else { "s" };
    let connections = number::grouped(connections.into());
    if concurrency == 0 {
        return format!("{connections} connection{plural}");
    }
    let concurrency = number::grouped(concurrency.into());
    match rate_per_s {
        None if is_searched => format!("{connections} connection{plural}, open loop at the highest sustained rate"),
        None => format!("{connections} connection{plural}, {concurrency} calls in flight, closed loop"),
        Some(rate) => {
            let rate = number::grouped(rate.into());
            format!("{rate} calls/s, open loop, {connections} connection{plural}")
        }
    }
}

/// Describes several loads. Loads that differ only in the number of connections get one common text; other loads are
/// listed one after the other.
pub(super) fn loads(loads: &[Load]) -> String {
    let Some((first, others)) = loads.split_first() else {
        return "no load".to_owned();
    };
    if others.is_empty() || !vary_in_connections(loads) {
        return loads.iter().copied().map(load).collect::<Vec<_>>().join("; ");
    }
    let counts: Vec<String> = loads.iter().map(|load| number::grouped(load.connections.into())).collect();
    format!("{} connections, {}", counts.join(", "), load_of_all(*first))
}

/// The part of a load's description that distinguishes it from the other loads in `loads`.
pub(super) fn load_among(one: Load, loads: &[Load]) -> String {
    match one.rate_per_s {
        _ if vary_in_connections(loads) => number::grouped(one.connections.into()),
        None if loads.iter().filter(|load| load.rate_per_s.is_none()).count() == 1 => "closed loop".to_owned(),
        _ => load(one),
    }
}

/// Whether loads differ only in their connections.
pub(super) fn vary_in_connections(loads: &[Load]) -> bool {
    loads.windows(2).all(|pair| (pair[0].rate_per_s, pair[0].concurrency) == (pair[1].rate_per_s, pair[1].concurrency))
}

/// Describes the load without its number of connections.
pub(super) fn load_of_all(load: Load) -> String {
    match load.rate_per_s {
        None => format!("{} calls in flight, closed loop", number::grouped(load.concurrency.into())),
        Some(rate) => format!("{} calls/s, open loop", number::grouped(rate.into())),
    }
}

/// Lists the circumstances that make a group's figures doubtful: `ceiling 10/10`, `late 1/10`, `disturbed 2/10`, `12
/// errors`.
pub(super) fn marks(marks: Marks) -> String {
    let Marks { runs, at_ceiling, late, disturbed, dead, errors } = marks;
    let of_runs = |count: usize, what: &str| (count > 0).then(|| format!("{what} {count}/{runs}"));
    let failed =
        (errors > 0).then(|| format!("{} error{}", number::grouped(errors), if errors == 1 { "" } else { "s" }));
    let parts = [
        of_runs(dead, "no answer"),
        failed,
        of_runs(at_ceiling, "ceiling"),
        of_runs(late, "late"),
        of_runs(disturbed, "disturbed"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The name that the report uses for the faulty backend: the failing or the slow pod.
pub(super) fn pod(scenario: Scenario) -> &'static str {
    if scenario == Scenario::FastFail { "failing pod" } else { "slow pod" }
}

#[cfg(test)]
#[path = "labels_tests.rs"]
mod tests;
