//! The names of the mesh in Linkerd's control-plane API.

use std::net::SocketAddr;

use linkerd2_proxy_api::meta::{Metadata, Resource, metadata};

use crate::tls::TRUST_DOMAIN;

/// The namespace of all Pods and of the Service.
pub(super) const NAMESPACE: &str = "lab";
/// The name of the Service.
pub(super) const SERVICE: &str = "backends";

/// The identity of a workload (`ns/lab/sa/client`) in Linkerd: a DNS name of its service account.
pub(super) fn identity(workload: &str) -> String {
    let mut parts = workload.split('/').skip(1).step_by(2);
    let (namespace, account) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{account}.{namespace}.serviceaccount.identity.linkerd.{TRUST_DOMAIN}")
}

/// The Service's name in the cluster's DNS.
pub(super) fn fully_qualified() -> String {
    format!("{SERVICE}.{NAMESPACE}.svc.cluster.local")
}

/// The path with which a proxy requests the endpoints of the Service at `address`.
pub(super) fn path(address: SocketAddr) -> String {
    format!("{}:{}", fully_qualified(), address.port())
}

/// A reference to the Service at `address`.
pub(super) fn reference(address: SocketAddr) -> Metadata {
    let resource = Resource {
        group: "core".to_owned(),
        kind: "Service".to_owned(),
        name: SERVICE.to_owned(),
        namespace: NAMESPACE.to_owned(),
        port: address.port().into(),
        ..Resource::default()
    };
    Metadata { kind: Some(metadata::Kind::Resource(resource)) }
}

/// A reference to a default, which no resource of the cluster configures.
pub(super) fn default(name: &str) -> Metadata {
    Metadata { kind: Some(metadata::Kind::Default(name.to_owned())) }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
