//! Meshed Pods, which clients can call at the Pods' own addresses. A client that dials a Pod's address selects this
//! Pod, whether or not a Service has the port.
//!
//! A lookup creates a cluster with a single endpoint for such a call. Therefore, the mesh stores only one entry for
//! each address of a Pod, not one for each port.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use super::{Cluster, ClusterKey, Controller, Endpoint, EndpointProxy, Mesh, canonical};
use crate::balance::Policy;
use crate::protocol::{PortRanges, Protocol};
use crate::settings::Settings;

/// The Pods of a Kubernetes cluster that have a proxy. A Pod with two addresses has an entry for each.
pub type MeshedPods = BTreeMap<IpAddr, MeshedPod>;

/// A Pod that has a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshedPod {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub controller: Option<Controller>,
    /// The Pod's address of the other IP family; `None` if the Pod has only one address. A Service may list only one of
    /// the two addresses.
    pub other_ip: Option<IpAddr>,
    pub proxy: EndpointProxy,
    /// Ports on which connections bypass the proxy.
    pub skipped_ports: PortRanges,
    /// Ports without protocol detection.
    pub opaque_ports: PortRanges,
}

/// First character of [`ClusterKey::service`] in the key of a Pod. A Service's name cannot begin with this character.
const PREFIX: char = '-';

impl Mesh {
    /// Returns this mesh with `pods` as the Pods that clients can call at the Pods' own addresses.
    #[must_use]
    pub fn with_pods(mut self, pods: Arc<MeshedPods>) -> Self {
        self.pods = pods;
        self
    }

    /// The Pods that clients can call at the Pods' own addresses.
    pub fn pods(&self) -> &Arc<MeshedPods> {
        &self.pods
    }

    /// Creates the cluster for calls to a Pod's own address. `None` if no meshed Pod has the address, or if connections
    /// to the port bypass the Pod's proxy. The caller must look up Services and their endpoints first, because they
    /// take precedence.
    pub fn pod_by_address(&self, address: SocketAddr) -> Option<Cluster> {
        let address = canonical(address);
        let pod = self.pods.get(&address.ip()).filter(|pod| !pod.skipped_ports.contains(address.port()))?;
        let is_opaque = pod.opaque_ports.contains(address.port());
        let endpoint = Endpoint {
            address,
            zone: None,
            hostname: None,
            pod: Some(pod.name.clone()),
            controller: pod.controller.clone(),
            proxy: Some(pod.proxy.clone()),
        };
        Some(Cluster {
            retry_budget: None,
            objectives: None,
            key: ClusterKey::of_pod(address, &pod.namespace),
            balancer: Policy::default(),
            protocol: if is_opaque { Protocol::Opaque } else { Protocol::of_port(address.port()) },
            settings: Settings::default(),
            cluster_ips: Box::default(),
            endpoints: vec![endpoint],
            unready_endpoints: Vec::new(),
        })
    }

    /// Creates the cluster with this key, if it is the key of a meshed Pod.
    pub fn pod_cluster(&self, key: &ClusterKey) -> Option<Cluster> {
        self.pod_by_address(key.pod_address()?).filter(|cluster| cluster.key == *key)
    }
}

impl ClusterKey {
    /// Returns the key for a Pod's address, for example `-10-244-1-7.shop:9102`.
    fn of_pod(address: SocketAddr, namespace: &str) -> Self {
        let digits = match address.ip() {
            IpAddr::V4(ip) => ip.octets().map(|octet| octet.to_string()).join("-"),
            IpAddr::V6(ip) => ip.segments().map(|segment| format!("{segment:x}")).join("-"),
        };
        Self { namespace: namespace.into(), service: format!("{PREFIX}{digits}").into(), port: address.port() }
    }

    /// Returns the address of the Pod that this key contains; `None` for a Service's key.
    pub fn pod_address(&self) -> Option<SocketAddr> {
        let digits = self.service.strip_prefix(PREFIX)?;
        let parts: Vec<&str> = digits.split('-').collect();
        let ip = match parts.len() {
            4 => IpAddr::V4(parts.join(".").parse().ok()?),
            8 => IpAddr::V6(parts.join(":").parse::<Ipv6Addr>().ok()?),
            _ => return None,
        };
        Some(SocketAddr::new(ip, self.port))
    }
}

#[cfg(test)]
#[path = "pods_tests.rs"]
mod tests;
