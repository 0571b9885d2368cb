//! A rule of a route: what is done with the requests that it matches.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::Filters;
use crate::mesh::ClusterKey;
use crate::settings::milliseconds_or_none;

/// What is done with a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The route that it is a rule of.
    pub route: RouteName,
    /// Its own name, if it has one; unique within the route.
    pub name: Option<Box<str>>,
    /// What is done whichever backend is chosen.
    pub filters: Filters,
    /// Where requests go, by weight. With none, or with no weight, and without a redirect, they are answered with 500,
    /// and connections are closed.
    pub backends: Box<[Backend]>,
    /// How long a request may take.
    pub timeouts: Timeouts,
}

/// One of a rule's destinations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Backend {
    /// Where to.
    pub to: BackendTarget,
    /// Its share of the sum of all weights; 0 to 1,000,000.
    pub weight: u32,
    /// What is done when it is chosen, after the rule's own filters.
    pub filters: Filters,
}

/// Where a [`Backend`] is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendTarget {
    /// A port of a Service. Its own routes do not apply: routes are of a Service's frontend.
    Cluster(ClusterKey),
    /// Nowhere, and why: requests for it are answered with 500, or UNAVAILABLE for gRPC, and connections are closed.
    Invalid(Box<str>),
}

/// The kind of a route. A port of a Service has routes of one kind only: the first of these that there are (GEP-1294,
/// "Route types").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RouteKind {
    /// A request that no rule matches is answered with UNIMPLEMENTED.
    #[serde(rename = "GRPCRoute")]
    Grpc,
    /// A request that no rule matches is answered with 404.
    #[serde(rename = "HTTPRoute")]
    Http,
    /// A TLS connection that no rule matches is refused; what is not TLS goes to the Service itself.
    #[serde(rename = "TLSRoute")]
    Tls,
    /// One rule is for every connection, which is then not looked into.
    #[serde(rename = "TCPRoute")]
    Tcp,
}

/// The name of a route; its text is `HTTPRoute namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RouteName {
    /// Its kind.
    pub kind: RouteKind,
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name within the namespace.
    pub name: Box<str>,
}

/// How long a request may take (GEP-1742); `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timeouts {
    /// From the request's head to the end of the response.
    #[serde(rename = "request_ms", serialize_with = "milliseconds_or_none")]
    pub request: Option<Duration>,
    /// The same for one attempt at one backend; at most `request`.
    #[serde(rename = "backend_request_ms", serialize_with = "milliseconds_or_none")]
    pub backend_request: Option<Duration>,
}

impl Rule {
    /// Chooses a backend by weight; `random` is any number, all of them equally likely. `None` if there is no backend
    /// with a weight. Looks at each backend twice.
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
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Grpc, Self::Http, Self::Tls, Self::Tcp];

    /// Its `kind`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "GRPCRoute",
            Self::Http => "HTTPRoute",
            Self::Tls => "TLSRoute",
            Self::Tcp => "TCPRoute",
        }
    }

    /// Whether its rules are about requests, rather than about connections whose content is nobody's business.
    pub fn is_of_requests(self) -> bool {
        matches!(self, Self::Grpc | Self::Http)
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
