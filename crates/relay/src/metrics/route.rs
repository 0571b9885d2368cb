//! Counts of requests and connections that matched a route, under the names and labels of Linkerd's outbound routes.
//!
//! The series count the requests to each backend, and the outcomes. The durations are in the backend's own series.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use leno_model::mesh::ClusterKey;
use leno_model::route::{RouteKind, RouteName};
use leno_model::traffic::GrpcCodes;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};

use super::Counter;
use super::keyed::CountByKey;
use super::labels::Labels;
use super::text::{counter, encode_count};

/// Maximum number of kinds of outcome that one series distinguishes.
const OUTCOMES: usize = 24;

/// The counters of [`RetryMetrics`] and [`HedgeMetrics`]: the end of the name, and the help.
const RETRIES: [(&str, &str); 8] = [
    ("retry_requests", "Requests that a route sent again"),
    ("retry_successes", "Requests that a route sent again, and that then did not fail"),
    ("retry_limit_exceeded", "Requests that failed after they had used all their retries"),
    ("retry_overflow", "Requests that were not sent again because the retry budget was spent"),
    ("hedge_requests", "Further attempts at requests that were not answered in time"),
    ("hedge_successes", "Requests that a further attempt answered before the first one"),
    ("hedge_overflow", "Further attempts that were not made because the retry budget was spent"),
    ("hedge_loaded", "Further attempts that were not made because the Service was loaded"),
];

/// Replaces names beyond the limit of series.
pub(super) const OTHER: &str = "other";

/// The labels of a series about routes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteLabels {
    /// The Service that the route is attached to, and the port.
    pub parent: ClusterKey,
    pub route: RouteName,
    /// The chosen backend; `None` for a request that was answered without one.
    pub backend: Option<ClusterKey>,
}

/// One worker's counts of requests with the same [`RouteLabels`].
#[derive(Debug, Default)]
pub struct RouteMetrics {
    /// Requests that matched the route.
    pub requests: Counter,
    /// Their retries.
    pub retries: RetryMetrics,
    /// Their further attempts.
    pub hedges: HedgeMetrics,
    outcomes: CountByKey<Outcome, OUTCOMES>,
}

/// Counts of retries, in the names of Linkerd.
#[derive(Debug, Default)]
pub struct RetryMetrics {
    /// Requests that were sent again.
    pub requests: Counter,
    /// Requests that were sent again, and then answered without a failure.
    pub successes: Counter,
    /// Requests that failed after they had used all their retries.
    pub limit_exceeded: Counter,
    /// Requests that were not sent again because the budget was spent.
    pub overflow: Counter,
}

/// Counts of further attempts at requests whose first attempt was not answered in time.
#[derive(Debug, Default)]
pub struct HedgeMetrics {
    /// Further attempts.
    pub requests: Counter,
    /// Requests that a further attempt answered before the first one.
    pub successes: Counter,
    /// Further attempts that were not made because the retry budget was spent.
    pub overflow: Counter,
    /// Further attempts that were not made because the Service was loaded.
    pub loaded: Counter,
}

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Outcome {
    /// The `:status`; `None` without a response.
    http_status: Option<u16>,
    /// The `grpc-status`.
    grpc_status: Option<u8>,
    /// Why there was no complete response of an endpoint; `None` if there was one. It is not an empty text: on CPUs
    /// with AVX-512, comparing two empty texts takes hundreds of cycles, because the C library's `memcmp` then loads
    /// from an address without memory.
    error: Option<&'static str>,
}

/// Counts of requests with the same labels, summed over the workers.
#[derive(Debug, Default)]
struct RouteTotals {
    /// Requests that matched the route.
    requests: u64,
    /// [`RetryMetrics`] and [`HedgeMetrics`], in the order of [`RETRIES`].
    retries: [u64; RETRIES.len()],
    /// Their outcomes.
    outcomes: BTreeMap<Outcome, u64>,
    /// Outcomes of kinds beyond [`OUTCOMES`].
    other_outcomes: u64,
}

/// All counts, summed over the workers.
#[derive(Debug, Default)]
pub(super) struct RouteScrape {
    backends: BTreeMap<RouteLabels, RouteTotals>,
}

impl RouteMetrics {
    /// Counts the outcome of a request. `error` is the reason for a missing or incomplete response, and becomes a
    /// label.
    pub fn ended(&self, http_status: Option<u16>, grpc_status: Option<u8>, error: Option<&'static str>) {
        self.outcomes.count(Outcome { http_status, grpc_status, error });
    }

    /// Adds these counts to `totals`.
    fn add_to(&self, totals: &mut RouteTotals) {
        totals.requests += self.requests.get();
        let RetryMetrics { requests, successes, limit_exceeded, overflow } = &self.retries;
        let retries = [requests, successes, limit_exceeded, overflow];
        let HedgeMetrics { requests, successes, overflow, loaded } = &self.hedges;
        let hedges = [requests, successes, overflow, loaded];
        for (total, count) in totals.retries.iter_mut().zip(retries.into_iter().chain(hedges)) {
            *total += count.get();
        }
        for (outcome, count) in self.outcomes.counts() {
            *totals.outcomes.entry(outcome).or_default() += count;
        }
        totals.other_outcomes += self.outcomes.others();
    }
}

impl RouteLabels {
    /// The labels of the series for requests beyond a limit.
    pub(super) fn beyond_limit(&self) -> Self {
        let key = || ClusterKey { namespace: OTHER.into(), service: OTHER.into(), port: 0 };
        let route = RouteName { kind: self.route.kind, namespace: OTHER.into(), name: OTHER.into() };
        Self { parent: key(), route, backend: self.backend.as_ref().map(|_| key()) }
    }

    /// The labels of a Service's port.
    pub(super) fn service_labels(key: &ClusterKey) -> Labels {
        let mut labels = Labels::new();
        push_service(&mut labels, BACKEND, key);
        labels
    }

    /// The labels of requests that matched the route.
    fn route_labels(&self) -> Labels {
        let mut labels = Labels::new();
        push_service(&mut labels, PARENT, &self.parent);
        let is_route = self.route.kind != RouteKind::Service;
        labels.push(("route_group", if is_route { "gateway.networking.k8s.io" } else { "core" }.to_owned()));
        labels.push(("route_kind", self.route.kind.name().to_owned()));
        labels.push(("route_namespace", self.route.namespace.to_string()));
        labels.push(("route_name", self.route.name.to_string()));
        labels
    }

    /// The labels of requests to the backend; `None` without one.
    fn backend_labels(&self) -> Option<Labels> {
        let mut labels = self.route_labels();
        push_service(&mut labels, BACKEND, self.backend.as_ref()?);
        Some(labels)
    }
}

impl RouteScrape {
    /// Sums the workers' counts.
    pub(super) fn new(series: impl Iterator<Item = (RouteLabels, Arc<RouteMetrics>)>) -> Self {
        let mut backends = BTreeMap::<RouteLabels, RouteTotals>::new();
        for (labels, metrics) in series {
            metrics.add_to(backends.entry(labels).or_default());
        }
        Self { backends }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        let help = "Requests that a route sent to a backend";
        self.encode_requests(counter(encoder, "outbound_http_route_backend_requests", help)?, RouteKind::Http)?;
        self.encode_requests(counter(encoder, "outbound_grpc_route_backend_requests", help)?, RouteKind::Grpc)?;
        let help = "Requests that met a route and have ended";
        self.encode_statuses(counter(encoder, "outbound_http_route_request_statuses", help)?, RouteKind::Http)?;
        self.encode_statuses(counter(encoder, "outbound_grpc_route_request_statuses", help)?, RouteKind::Grpc)?;
        for (number, (name, help)) in RETRIES.iter().enumerate() {
            for kind in [RouteKind::Http, RouteKind::Grpc] {
                let of = if kind == RouteKind::Http { "http" } else { "grpc" };
                let name = format!("outbound_{of}_route_{name}");
                let metric = counter(encoder, &name, help)?;
                self.encode_retries(metric, kind, number)?;
            }
        }
        let help = "Connections that a route sent to a backend";
        self.encode_requests(counter(encoder, "outbound_tls_route_open", help)?, RouteKind::Tls)?;
        self.encode_requests(counter(encoder, "outbound_tcp_route_open", help)?, RouteKind::Tcp)?;
        let help = "Connections that met a route and have ended";
        self.encode_statuses(counter(encoder, "outbound_tls_route_close", help)?, RouteKind::Tls)?;
        self.encode_statuses(counter(encoder, "outbound_tcp_route_close", help)?, RouteKind::Tcp)
    }

    /// The counts of the routes of a kind. The rule of a Service without routes counts among the HTTPRoutes, as Linkerd's
    /// default routes do.
    fn of_kind(&self, kind: RouteKind) -> impl Iterator<Item = (&RouteLabels, &RouteTotals)> {
        let named = move |of: RouteKind| if of == RouteKind::Service { RouteKind::Http } else { of };
        self.backends.iter().filter(move |(labels, _)| named(labels.route.kind) == kind)
    }

    fn encode_requests(&self, mut metric: MetricEncoder, kind: RouteKind) -> fmt::Result {
        for (labels, totals) in self.of_kind(kind) {
            if let Some(labels) = labels.backend_labels() {
                encode_count(metric.encode_family(&labels)?, totals.requests)?;
            }
        }
        Ok(())
    }

    fn encode_retries(&self, mut metric: MetricEncoder, kind: RouteKind, number: usize) -> fmt::Result {
        let mut routes = BTreeMap::<Labels, u64>::new();
        for (labels, totals) in self.of_kind(kind) {
            let count = totals.retries.get(number).copied().unwrap_or(0);
            if totals.retries.iter().any(|count| *count > 0) {
                *routes.entry(labels.route_labels()).or_default() += count;
            }
        }
        for (route, count) in routes {
            encode_count(metric.encode_family(&route)?, count)?;
        }
        Ok(())
    }

    fn encode_statuses(&self, mut metric: MetricEncoder, kind: RouteKind) -> fmt::Result {
        let mut routes = BTreeMap::<Labels, BTreeMap<Labels, u64>>::new();
        for (labels, totals) in self.of_kind(kind) {
            let route = routes.entry(labels.route_labels()).or_default();
            for (outcome, count) in &totals.outcomes {
                *route.entry(outcome.labels(labels.route.kind)).or_default() += count;
            }
            if totals.other_outcomes > 0 {
                *route.entry(vec![("error", OTHER.to_owned())]).or_default() += totals.other_outcomes;
            }
        }
        for (route, outcomes) in routes {
            for (outcome, count) in outcomes {
                encode_count(metric.encode_family(&(route.clone(), outcome))?, count)?;
            }
        }
        Ok(())
    }
}

impl Outcome {
    /// Returns the outcome's labels: `http_status` for an HTTPRoute, `grpc_status` for a GRPCRoute, both for a Service,
    /// neither for connections; and `error` for all.
    fn labels(self, kind: RouteKind) -> Labels {
        let http = || ("http_status", self.http_status.map(|status| status.to_string()).unwrap_or_default());
        let grpc = || ("grpc_status", self.grpc_status.map(grpc_status_name).unwrap_or_default());
        let mut labels = match kind {
            RouteKind::Http => vec![http()],
            RouteKind::Grpc => vec![grpc()],
            RouteKind::Service => vec![http(), grpc()],
            RouteKind::Tls | RouteKind::Tcp => Vec::new(),
        };
        labels.push(("error", self.error.unwrap_or_default().to_owned()));
        labels
    }
}

/// Label names for a Service's group, kind, namespace, name, port and section.
type ServiceLabels = [&'static str; 6];

const PARENT: ServiceLabels =
    ["parent_group", "parent_kind", "parent_namespace", "parent_name", "parent_port", "parent_section_name"];
const BACKEND: ServiceLabels =
    ["backend_group", "backend_kind", "backend_namespace", "backend_name", "backend_port", "backend_section_name"];

fn push_service(labels: &mut Labels, names: ServiceLabels, key: &ClusterKey) {
    let values = ["core", "Service", &key.namespace, &key.service, &key.port.to_string(), ""].map(str::to_owned);
    labels.extend(names.into_iter().zip(values));
}

/// The name of a gRPC status code.
fn grpc_status_name(status: u8) -> String {
    GrpcCodes::name(status).map_or_else(|| status.to_string(), str::to_owned)
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
