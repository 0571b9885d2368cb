//! Checked Kubernetes objects. They contain only the parts that the mesh needs, and do not use Kubernetes' own types.

pub mod annotations;
pub(crate) mod authorization_policy;
pub(crate) mod backend_traffic_policy;
mod call_values;
pub(crate) mod endpoint_slice;
pub(crate) mod grpc_route;
pub(crate) mod http_route;
mod policy_target;
pub(crate) mod reference_grant;
pub mod route;
pub(crate) mod service;
pub(crate) mod tcp_route;
pub(crate) mod tls_route;
pub(crate) mod traffic_policy;

use std::sync::Arc;

pub use authorization_policy::{AuthorizationPolicy, GROUP};
pub use backend_traffic_policy::GROUP as EXPERIMENTAL_GROUP;
pub use endpoint_slice::{Address, EndpointSlice, Readiness, SlicePort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
pub use policy_target::PolicyTarget;
pub use reference_grant::{GrantFrom, GrantTo, ReferenceGrant};
pub use route::Route;
pub use service::{Service, ServicePort};
pub use traffic_policy::TrafficPolicy;

use crate::manifest::Review;
use crate::problem::{Mark, quoted};

/// An object that contributes to a mesh.
#[derive(Clone, Debug)]
pub enum Object {
    /// A v1 Service.
    Service(Arc<Service>),
    /// A discovery.k8s.io/v1 EndpointSlice.
    EndpointSlice(Arc<EndpointSlice>),
    /// A leno.dev/v1alpha1 AuthorizationPolicy.
    AuthorizationPolicy(AuthorizationPolicy),
    /// A leno.dev/v1alpha1 TrafficPolicy, or a gateway.networking.x-k8s.io/v1alpha1 XBackendTrafficPolicy.
    TrafficPolicy(Arc<TrafficPolicy>),
    /// A gateway.networking.k8s.io/v1 GRPCRoute, HTTPRoute, TLSRoute or TCPRoute.
    Route(Route),
    /// A gateway.networking.k8s.io ReferenceGrant.
    ReferenceGrant(ReferenceGrant),
}

/// An object's name, and the position of its definition.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The object's namespace, a DNS label.
    pub namespace: Box<str>,
    pub name: Box<str>,
    /// The file that defines the object; empty for an object from a Kubernetes API.
    pub file: Arc<str>,
    /// Position of the object's name in the file.
    pub mark: Mark,
    /// Time of the object's creation, in seconds since 1970; 0 if unknown.
    pub created_s: i64,
}

impl Object {
    pub fn identity(&self) -> &Identity {
        match self {
            Self::Service(service) => &service.identity,
            Self::EndpointSlice(slice) => &slice.identity,
            Self::AuthorizationPolicy(policy) => &policy.identity,
            Self::TrafficPolicy(policy) => &policy.identity,
            Self::Route(route) => &route.identity,
            Self::ReferenceGrant(grant) => &grant.identity,
        }
    }

    /// Returns this Service or EndpointSlice with the ports and addresses of `newer`, but with its own annotation
    /// values; `None` for other kinds.
    pub fn renewed(&self, newer: &Self) -> Option<Self> {
        match (self, newer) {
            (Self::Service(own), Self::Service(newer)) => Some(Self::Service(Arc::new(own.with_spec_of(newer)))),
            (Self::EndpointSlice(own), Self::EndpointSlice(newer)) => {
                Some(Self::EndpointSlice(Arc::new(own.with_spec_of(newer))))
            }
            _ => None,
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Service(_) => "Service",
            Self::EndpointSlice(_) => "EndpointSlice",
            Self::AuthorizationPolicy(_) => authorization_policy::KIND,
            Self::TrafficPolicy(policy) => policy.kind.name(),
            Self::Route(route) => route.kind.name(),
            Self::ReferenceGrant(_) => reference_grant::KIND,
        }
    }
}

/// Reads `metadata.name` and `metadata.namespace`, and reports mistakes. `is_name` checks the name, and `rule`
/// describes the allowed names.
fn identity(metadata: &ObjectMeta, review: &mut Review<'_>, is_name: fn(&str) -> bool, rule: &str) -> Identity {
    let name = metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        review.problem("metadata.name", "missing", "give the object a name");
    } else if !is_name(name) {
        review.problem("metadata.name", format!("{} is not a name", quoted(name)), rule);
    }
    let namespace = metadata.namespace.as_deref().unwrap_or(review.default_namespace());
    if !is_dns_label(namespace) {
        let what = format!("{} is not a name", quoted(namespace));
        review.problem("metadata.namespace", what, DNS_LABEL_RULE);
    }
    Identity {
        namespace: namespace.into(),
        name: name.into(),
        file: review.file(),
        mark: review.mark("metadata.name"),
        created_s: metadata.creation_timestamp.as_ref().map_or(0, |created| created.0.as_second()),
    }
}

const DNS_LABEL_RULE: &str = "use at most 63 lower-case letters, digits and dashes, with no dash first or last";

/// Returns whether `text` is a DNS label in lower case (RFC 1123).
pub(crate) fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_name_part(text)
}

const DNS_SUBDOMAIN_RULE: &str = "use at most 253 lower-case letters, digits, dashes and dots";

/// Returns whether `text` is what Kubernetes calls a DNS subdomain: most kinds of objects have such a name. Unlike a
/// [hostname](is_hostname), it may have more than 63 characters between two dots.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_name_part)
}

const HOSTNAME_RULE: &str =
    "use at most 253 lower-case letters, digits, dashes and dots, with at most 63 characters between two dots";

/// Returns whether `text` is a hostname in lower case that DNS can resolve: DNS labels that are separated by dots.
fn is_hostname(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

/// Returns whether `text` has the characters of a DNS label; it may be longer than one.
fn is_name_part(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && text.bytes().all(allowed) && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns whether the group in a reference is Kubernetes' core group, to which Services belong. The group's name is
/// empty, but examples of Gateway API and manifests for other meshes write `core`.
pub fn is_core(group: &str) -> bool {
    matches!(group, "" | "core")
}

/// Converts a port number; `None` if it is not within 1 to 65535.
fn port_number(port: i32) -> Option<u16> {
    u16::try_from(port).ok().filter(|port| *port != 0)
}

/// Kubernetes' default protocol, which applies to a port without `protocol`.
const TCP: &str = "TCP";

/// Checks the protocol of a port. Returns whether it is TCP: Leno ignores ports of other protocols.
fn is_tcp(protocol: Option<&str>, field: &str, review: &mut Review<'_>) -> bool {
    match protocol.unwrap_or(TCP) {
        TCP => true,
        "UDP" | "SCTP" => false,
        other => {
            let what = format!("{} is not a protocol", quoted(other));
            review.problem(&format!("{field}.protocol"), what, "use TCP, UDP or SCTP");
            false
        }
    }
}

#[cfg(test)]
mod tests;
