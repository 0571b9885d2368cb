//! Names in Linkerd's control-plane API: of identities, of the Service and of defaults.

use std::net::SocketAddr;

use linkerd2_proxy_api::meta::{Metadata, Resource, metadata};

use crate::tls::TRUST_DOMAIN;

/// The namespace of all Pods and of the Service.
pub(super) const NAMESPACE: &str = "lab";
/// The name of the Service.
pub(super) const SERVICE: &str = "backends";

/// Converts a workload's name (`ns/lab/sa/client`) into its identity in Linkerd, a DNS name of its service account.
pub(super) fn identity(workload: &str) -> String {
    let mut parts = workload.split('/').skip(1).step_by(2);
    let (namespace, account) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{account}.{namespace}.serviceaccount.identity.linkerd.{TRUST_DOMAIN}")
}

/// The Service's fully qualified name in the cluster's DNS.
pub(super) fn fully_qualified() -> String {
    format!("{SERVICE}.{NAMESPACE}.svc.cluster.local")
}

/// The path in a proxy's request for the endpoints of the Service. `address` supplies the port.
pub(super) fn path(address: SocketAddr) -> String {
    format!("{}:{}", fully_qualified(), address.port())
}

/// Metadata that refer to the Service. `address` supplies the port.
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

/// Metadata that refer to a built-in default instead of a resource in the cluster.
pub(super) fn default(name: &str) -> Metadata {
    Metadata { kind: Some(metadata::Kind::Default(name.to_owned())) }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
