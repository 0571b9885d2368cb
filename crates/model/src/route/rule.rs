//! Rules of routes: how the proxy treats the requests that match a rule.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::Filters;
use crate::mesh::ClusterKey;
use crate::traffic::CallPolicy;

/// A rule: what the proxy does with the requests that match it. Each port of a Service may have a version of a rule with
/// other policies. The versions share the filters and the backends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The route that the rule belongs to.
    pub route: RouteName,
    /// The rule's name, if it has one; unique within the route.
    pub name: Option<Box<str>>,
    /// Filters for every backend.
    pub filters: Arc<Filters>,
    /// The backends, chosen by weight. If the weights sum to zero and there is no redirect, the proxy answers requests
    /// with 500, and closes opaque connections.
    pub backends: Arc<[Backend]>,
    /// The policy for the rule's requests: time limits, retries and hedging.
    pub calls: CallPolicy,
}

/// A destination of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Backend {
    pub to: BackendTarget,
    /// The backend's weight, 0 to 1,000,000. Its share of the requests is this weight divided by the sum of all
    /// weights.
    pub weight: u32,
    /// Filters for this backend, applied after the rule's filters.
    pub filters: Filters,
}

/// The target of a [`Backend`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendTarget {
    /// A port of a Service. The proxy sends the request directly to one of the Service's endpoints, and ignores the
    /// routes of that Service.
    Cluster(ClusterKey),
    /// An invalid reference, with the reason. The proxy answers requests with 500, or UNAVAILABLE for gRPC, and closes
    /// opaque connections.
    Invalid(Box<str>),
}

/// The kind of a route. If routes of several kinds are attached to a port, only the kind that comes first in this enum
/// applies (GEP-1294, "Route types").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RouteKind {
    /// A request that no rule matches is answered with UNIMPLEMENTED.
    #[serde(rename = "GRPCRoute")]
    Grpc,
    /// A request that no rule matches is answered with 404.
    #[serde(rename = "HTTPRoute")]
    Http,
    /// A TLS connection that no rule matches is rejected. Connections without TLS go to the Service itself.
    #[serde(rename = "TLSRoute")]
    Tls,
    /// One rule matches every connection; the proxy does not parse the connection's bytes.
    #[serde(rename = "TCPRoute")]
    Tcp,
    /// The port has no route object. Its only rule carries the Service's TrafficPolicy, and the rule's [`RouteName`]
    /// has the Service's name.
    Service,
}

/// The name of a route; its text is `HTTPRoute namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RouteName {
    pub kind: RouteKind,
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl Rule {
    /// Chooses a backend by weight; `random` is uniformly distributed. `None` if no backend has a weight above 0.
    /// Visits each backend at most twice.
    pub fn choose(&self, random: u64) -> Option<&Backend> {
        let total: u64 = self.backends.iter().map(|backend| u64::from(backend.weight)).sum();
        let mut ticket = ((u128::from(random) * u128::from(total)) >> 64) as u64;
        self.backends.iter().find(|backend| {
            let weight = u64::from(backend.weight);
            let is_drawn = ticket < weight;
            ticket = ticket.saturating_sub(weight);
            is_drawn
        })
    }
}

impl RouteKind {
    /// The kinds of routes that are Kubernetes objects.
    pub const OBJECTS: [Self; 4] = [Self::Grpc, Self::Http, Self::Tls, Self::Tcp];

    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "GRPCRoute",
            Self::Http => "HTTPRoute",
            Self::Tls => "TLSRoute",
            Self::Tcp => "TCPRoute",
            Self::Service => "Service",
        }
    }

    /// Returns whether rules of this kind match requests. The rules of other kinds match opaque connections.
    pub fn is_of_requests(self) -> bool {
        matches!(self, Self::Grpc | Self::Http | Self::Service)
    }
}

impl fmt::Display for RouteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.name(), self.namespace, self.name)
    }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
