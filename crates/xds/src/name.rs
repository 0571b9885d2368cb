//! The names of resources. One scheme for all clients:
//!
//! | kind | name | example |
//! |---|---|---|
//! | Cluster, ClusterLoadAssignment | a cluster's key | `echo.shop:50051` |
//! | | `nowhere`, which has no endpoints, for gRPC | |
//! | RouteConfiguration | a cluster's key, or `mesh` for all clusters, selected by authority | `echo.shop:50051` |
//! | Listener | any authority that leads to a Service | `echo`, `echo.shop.svc.cluster.local:50051` |
//! | | the original destination of a connection | `10.96.0.10:50051` |
//! | | `inbound`: the policies that select the client | |
//!
//! A response always uses the name that the client requested.

use std::fmt;
use std::net::SocketAddr;

use leno_model::authority::{self, Authority, CLUSTER_DOMAIN, Host};
use leno_model::discovery::Subject;
use leno_model::mesh::ClusterKey;

use crate::limits::NAME_MAX_BYTES;

/// The name of a RouteConfiguration, parsed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RouteName {
    /// The routes of calls to one cluster, which the client has already selected.
    Cluster(ClusterKey),
    /// The routes of all clusters, selected by `:authority`.
    Mesh,
}

/// The cluster of a backend that does not exist; no Service can have this name. Envoy answers calls to an unknown
/// cluster itself. gRPC would wait for an unknown cluster, so gRPC gets this cluster, which has no endpoints.
pub const NOWHERE: &str = "nowhere";
/// The Listener with the policies of the client's own workload. It hides a Service that is called `inbound`: to call
/// this Service, a client must add the Service's namespace or port.
pub const INBOUND: &str = "inbound";
/// The name of [`RouteName::Mesh`].
pub const MESH: &str = "mesh";

/// Parses the name of a Cluster or a ClusterLoadAssignment.
pub fn cluster_key(text: &str) -> Option<ClusterKey> {
    if text.len() > NAME_MAX_BYTES {
        return None;
    }
    let (service, rest) = text.split_once('.')?;
    let (namespace, port) = rest.split_once(':')?;
    let is_label = |label: &str| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(allowed)
    };
    // Reject leading zeros, so that each port has only one valid spelling.
    let is_number = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
    let port = port.parse().ok().filter(|_| is_number && is_label(service) && is_label(namespace))?;
    Some(ClusterKey { namespace: namespace.into(), service: service.into(), port })
}

/// Parses the name of a Listener that a client in `namespace` requests. The cluster has the usual DNS domain.
pub fn listener_subject(text: &str, namespace: &str) -> Option<Subject> {
    listener_subject_in(text, namespace, CLUSTER_DOMAIN)
}

/// Parses the name of a Listener that a client in `namespace` requests. The cluster has this DNS domain.
pub fn listener_subject_in(text: &str, namespace: &str, cluster_domain: &str) -> Option<Subject> {
    if text == INBOUND {
        return Some(Subject::Inbound);
    }
    let Authority { host, port } = authority::parse_in(text.as_bytes(), cluster_domain).ok()?;
    Some(match host {
        Host::Address(ip) => Subject::Address(SocketAddr::new(ip.to_canonical(), port)),
        Host::Service { name, namespace: named } => Subject::Service(ClusterKey {
            namespace: named.unwrap_or(namespace).to_ascii_lowercase().into(),
            service: name.to_ascii_lowercase().into(),
            port,
        }),
    })
}

impl RouteName {
    /// Parses the name of a RouteConfiguration.
    pub fn parse(text: &str) -> Option<Self> {
        if text == MESH { Some(Self::Mesh) } else { cluster_key(text).map(Self::Cluster) }
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cluster(key) => key.fmt(f),
            Self::Mesh => f.write_str(MESH),
        }
    }
}

#[cfg(test)]
#[path = "name_tests.rs"]
mod tests;
