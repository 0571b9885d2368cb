//! The configuration of a ztunnel: environment variables, and a file with the configuration that istiod would send.
//!
//! Source, at commit 62d8265 of istio/ztunnel: `src/config.rs`, `src/xds.rs` (`LocalConfig`), and
//! `examples/localhost.yaml`.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde_json::{Value, json};

use super::network::{HBONE_PORT, Network, Node};
use crate::child::Launch;
use crate::tls::{CLIENT, SERVER, TRUST_DOMAIN, WAYPOINT};

/// Environment variables that have the same value for both ztunnels.
const SHARED: [(&str, &str); 9] = [
    // In this mode, ztunnel serves one workload in its own namespace, and netfilter rules redirect the workload's
    // connections. In the other mode (shared), ztunnel would open its sockets in namespaces that istio-cni passes to
    // it.
    ("PROXY_MODE", "dedicated"),
    ("ZTUNNEL_WORKER_THREADS", "1"),
    // Use no xDS server, because the configuration is in a file.
    ("XDS_ADDRESS", ""),
    ("CLUSTER_ID", CLUSTER),
    // Do not use the client's address as the source address of connections to servers: the server's answer would not
    // return through the node.
    ("ENABLE_ORIG_SRC", "false"),
    ("ISTIO_META_DNS_CAPTURE", "false"),
    ("IPV6_ENABLED", "false"),
    // The default of `logLevel` in Istio's Helm chart for ztunnel. At this level, ztunnel logs each connection.
    ("RUST_LOG", "info"),
    // No backtrace, so that the last line of the log is the error.
    ("RUST_BACKTRACE", "0"),
];
/// The environment variables of the lab that a ztunnel inherits, because it needs them to find programs and libraries.
/// It must not inherit any others, because ztunnel reads settings from dozens of variables.
pub(super) const INHERITED: [&str; 2] = ["PATH", "LD_LIBRARY_PATH"];
const CLUSTER: &str = "Kubernetes";
/// The Service's name in the cluster's DNS.
const HOSTNAME: &str = "backends.lab.svc.cluster.local";

/// The files, the address and the token that one ztunnel needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Files<'a> {
    /// File with the mesh's configuration.
    pub(super) config: &'a Path,
    /// Address of the certificate service.
    pub(super) certificates: SocketAddr,
    /// Certificate of the authority, in PEM.
    pub(super) authority: &'a Path,
    /// Token for the certificate service.
    pub(super) token: &'a str,
}

/// The workload that the ztunnel of a node serves: the client, or all servers.
pub(super) fn workload(node: Node) -> &'static str {
    match node {
        Node::Client => CLIENT,
        Node::Servers => SERVER,
    }
}

/// Adds the environment variables of a ztunnel to a launch.
pub(super) fn configure(launch: Launch, node: Node, files: Files<'_>) -> Launch {
    let variables = environment(node, files).into_iter();
    variables.fold(launch.inheriting_only(&INHERITED), |launch, (name, value)| launch.with_env(name, value))
}

/// The environment variables that the lab sets for a ztunnel.
fn environment(node: Node, files: Files<'_>) -> Vec<(&'static str, String)> {
    let Name { namespace, account } = Name::of(workload(node));
    let own = [
        // The namespace, the name and the service account of the workload; the lab's workloads are named after their
        // accounts.
        ("PROXY_WORKLOAD_INFO", format!("{namespace}/{account}/{account}")),
        ("NODE_NAME", node.name().to_owned()),
        ("LOCAL_XDS_PATH", files.config.display().to_string()),
        ("CA_ADDRESS", format!("https://{}", files.certificates)),
        ("CA_ROOT_CA", files.authority.display().to_string()),
        ("AUTH_TOKEN", files.token.to_owned()),
    ];
    SHARED.into_iter().map(|(name, value)| (name, value.to_owned())).chain(own).collect()
}

/// The mesh's configuration: the workloads, and the Service with its waypoint. ztunnel reads YAML; this is JSON, which
/// is valid YAML.
pub(super) fn config(network: Network, backends: &[SocketAddr]) -> Value {
    let at_client = [network.experiment(Node::Client), network.node(Node::Client)];
    let waypoint = network.waypoint();
    let at_waypoint = [waypoint.ip(), network.experiment(Node::Servers)];
    let servers: Vec<IpAddr> = network.pods(backends).iter().map(SocketAddr::ip).collect();
    json!({
        "workloads": [
            entry(CLIENT, Node::Client, &at_client),
            entry(WAYPOINT, Node::Client, &at_waypoint),
            entry(SERVER, Node::Servers, &servers),
        ],
        "services": [{
            "name": "backends",
            "namespace": "lab",
            "hostname": HOSTNAME,
            "vips": [in_network(network.service().ip())],
            // Leave the map of ports empty: its keys would have to be numbers, which JSON does not allow. Without
            // ports, ztunnel sends the connections of all ports to the waypoint.
            "ports": {},
            "waypoint": {"destination": in_network(waypoint.ip()), "hboneMtlsPort": HBONE_PORT},
        }],
    })
}

/// A workload with HBONE.
fn entry(workload: &str, node: Node, addresses: &[IpAddr]) -> Value {
    let Name { namespace, account } = Name::of(workload);
    json!({
        "uid": format!("{CLUSTER}//Pod/{namespace}/{account}"),
        "name": account,
        "namespace": namespace,
        "trustDomain": TRUST_DOMAIN,
        "serviceAccount": account,
        "workloadName": account,
        "workloadType": "deployment",
        "canonicalName": account,
        "canonicalRevision": "latest",
        "workloadIps": addresses,
        "protocol": "HBONE",
        "node": node.name(),
        "clusterId": CLUSTER,
        "services": {},
    })
}

/// Formats an address for ztunnel's configuration, in the form `NETWORK/ADDRESS`. The name of the network is empty,
/// because there is only one.
fn in_network(address: IpAddr) -> String {
    format!("/{address}")
}

/// The namespace and the service account in a workload's name (`ns/lab/sa/client`).
struct Name<'a> {
    namespace: &'a str,
    account: &'a str,
}

impl<'a> Name<'a> {
    fn of(workload: &'a str) -> Self {
        let mut parts = workload.split('/').skip(1).step_by(2);
        Self { namespace: parts.next().unwrap_or_default(), account: parts.next().unwrap_or_default() }
    }
}

#[cfg(test)]
#[path = "ztunnel_tests.rs"]
mod tests;
