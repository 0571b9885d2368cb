//! Labels that tests use.

use leno_model::mesh::ClusterKey;

use super::{Direction, Target, Tls, TrafficLabels};

/// The name of a workload.
pub(super) fn workload(name: &str) -> String {
    format!("spiffe://example.org/ns/shop/sa/{name}")
}

/// Mutual TLS with a workload.
pub(super) fn mutual(name: &str) -> Tls {
    Tls::Mutual(workload(name).parse().expect("it is a SPIFFE id"))
}

/// Calls of a workload to a port of the own application.
pub(super) fn inbound(port: u16, client: &str) -> TrafficLabels {
    TrafficLabels { direction: Direction::Inbound, target: Target::Port(port), tls: mutual(client) }
}

/// Calls of the own application to a cluster.
pub(super) fn outbound(port: u16) -> TrafficLabels {
    let key = ClusterKey { namespace: "default".into(), service: "echo".into(), port };
    TrafficLabels { direction: Direction::Outbound, target: Target::Service(key), tls: mutual("echo") }
}
