//! Lists all spellings of a Service's authority.

use std::collections::HashMap;
use std::net::SocketAddr;

use leno_model::authority::DEFAULT_PORT;
use leno_model::mesh::{ClusterKey, Mesh};

/// Returns the domains of each cluster, for clients in `namespace`. Each domain belongs to one cluster only.
pub(super) fn of_mesh(mesh: &Mesh, namespace: &str, cluster_domain: &str) -> HashMap<ClusterKey, Vec<String>> {
    let mut domains: HashMap<ClusterKey, Vec<String>> = HashMap::new();
    for cluster in mesh.clusters() {
        domains.insert(cluster.key.clone(), of_service(&cluster.key, namespace, cluster_domain));
    }
    for (address, cluster) in mesh.addresses() {
        domains.entry(cluster.key.clone()).or_default().extend(of_address(address));
    }
    domains
}

fn of_service(key: &ClusterKey, client_namespace: &str, cluster_domain: &str) -> Vec<String> {
    let ClusterKey { service, namespace, port } = key;
    let mut hosts = vec![
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.{cluster_domain}"),
    ];
    if **namespace == *client_namespace {
        hosts.insert(0, service.to_string());
    }
    with_port(hosts, *port)
}

fn of_address(address: SocketAddr) -> Vec<String> {
    let host = match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    with_port(vec![host], address.port())
}

/// Returns the hosts with the port and, if `port` is the default port, also without the port.
fn with_port(hosts: Vec<String>, port: u16) -> Vec<String> {
    let mut domains: Vec<String> = hosts.iter().map(|host| format!("{host}:{port}")).collect();
    if port == DEFAULT_PORT {
        domains.extend(hosts);
    }
    domains
}
